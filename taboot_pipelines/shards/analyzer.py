"""The one analyzer of keyword search: what a term is, for documents and queries alike.

Text is NFKC-normalized and lower-cased; a word is a run of letters and digits. The index has two fields. One
holds the *stems* of words (the Snowball stemmer for English, Porter 2001), in which ``connects`` finds
``connection``; function words have none. The other holds the words *as they are written*, so that a name is
found by its name. A compound (``node-exporter``, ``ERR-123``, ``10.0.0.5``, ``my_db``) gives its parts *and*
itself, so an exact name outranks its words scattered; the whole does not count towards the length.

Why both: ``benchmarks/retrieval_quality.py`` shows that stems gain much on abstracts and lose on names, and
that the two together lose nothing on either.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import Stemmer

from taboot_pipelines.packaged import word_list

#: Part of every shard's key: another analyzer means other postings. The stemmer's release is pinned in
#: pyproject.toml, since Snowball changes what it makes of a word from time to time.
ANALYZER = "taboot-2"

_COMPOUND = re.compile(r"[^\W_]+(?:[-._:/@][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_HYPHENATED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
#: How much words with hyphens (``two-dimensional``) count as a whole: their parts count already, and prose
#: writes them either way. An identifier (``err-123``, ``my_db``, ``10.0.0.5``) is written in one.
HYPHENATED_WEIGHT = 1 / 3
#: A longer run is no word that anyone asks for (base64, minified code).
_MAX_TERM_CHARS = 128
#: What a word as it is written begins with in the postings; no stem and no compound has this character.
_AS_WRITTEN = "="

STOP_WORDS = word_list("taboot_pipelines.shards", "stop_words.txt")

#: A stemmer keeps its state while it works, so each thread has its own.
_local = threading.local()


class Analysis(NamedTuple):
    """``terms``: stems and compounds with their frequencies; ``length``: in words, compounds not counted
    twice and function words not at all.
    """

    terms: Counter[str]
    length: int


class QueryTerm(NamedTuple):
    """What a query looks for: a stem or a compound (``term``), and the words with that stem as they were
    written (``forms``: none for a compound). A function word is a ``term`` as it is written. All are terms
    of the postings. ``weight``: how much it counts.
    """

    term: str
    forms: tuple[str, ...] = ()
    weight: float = 1.0


@lru_cache(maxsize=1 << 16)
def stem_of(word: str) -> str:
    """The stem of a lower-cased word; empty if it is a function word or none that is indexed."""
    if word in STOP_WORDS or len(word) > _MAX_TERM_CHARS:
        return ""
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)
    stem: str = stemmer.stemWord(word)
    return stem or word


def _split(text: str) -> tuple[list[str], list[str]]:
    """The words of a text in order, and its compounds."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    words: list[str] = []
    wholes: list[str] = []
    for run in _COMPOUND.findall(text.lower()):
        if run.isalnum():
            words.append(run)
        else:
            words += _PART.findall(run)
            if len(run) <= _MAX_TERM_CHARS:
                wholes.append(run)
    return words, wholes


def analyze(text: str) -> Analysis:
    """The stems and compounds of ``text``."""
    words, wholes = _split(text)
    return _stems(words, wholes)


def analyze_fields(text: str) -> Analysis:
    """All that is indexed of ``text``: stems, compounds, and the words as they are written, function words
    among them.
    """
    words, wholes = _split(text)
    terms, length = _stems(words, wholes)
    for word, count in Counter(words).items():
        if len(word) <= _MAX_TERM_CHARS:
            terms[_AS_WRITTEN + word] = count
    return Analysis(terms, length)


def is_form(term: str) -> bool:
    """Whether a term of the postings is a word as it is written."""
    return term.startswith(_AS_WRITTEN)


def form_stem(form: str) -> str:
    """The stem of a word that the postings hold as it is written; empty for a function word and for what is
    no such word.
    """
    return stem_of(form[1:]) if is_form(form) else ""


def analyze_query(text: str) -> list[QueryTerm]:
    """What ``text`` looks for, in order of the terms. A query of nothing but function words looks for those
    as they are written.
    """
    words, wholes = _split(text)
    forms: dict[str, set[str]] = {}
    for word in words:
        stem = stem_of(word)
        if stem:
            forms.setdefault(stem, set()).add(_AS_WRITTEN + word)
    wanted = [QueryTerm(stem, tuple(sorted(own))) for stem, own in forms.items()]
    wanted += [
        QueryTerm(whole, weight=HYPHENATED_WEIGHT if _HYPHENATED.fullmatch(whole) else 1.0)
        for whole in set(wholes)
    ]
    if not wanted:
        wanted = [QueryTerm(_AS_WRITTEN + w) for w in set(words) if len(w) <= _MAX_TERM_CHARS]
    return sorted(wanted)


def _stems(words: list[str], wholes: list[str]) -> Analysis:
    terms = Counter(map(stem_of, words))
    terms.pop("", None)
    length = terms.total()
    terms.update(wholes)
    return Analysis(terms, length)
