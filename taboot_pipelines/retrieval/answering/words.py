"""Words as questions and statements are compared by them: stems, compounds, and groups of words that mean the
same to whoever runs a house.
"""

from __future__ import annotations

import calendar
import re
import threading
import unicodedata
from functools import lru_cache

import Stemmer
from rapidfuzz.distance import OSA

from taboot_pipelines.packaged import word_list
from taboot_pipelines.shards.analyzer import STOP_WORDS

_COMPOUND = re.compile(r"[^\W_]+(?:[-._:/@][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_MAX_WORD = 128

#: Words that belong together though they stand apart, and what they are together.
_PHRASES = (
    (re.compile(r"\bback(?:s|ed|ing)?[ -]up\b"), "backup"),
    (re.compile(r"\b(?:log(?:ged|ging)?|sign(?:ed|ing)?)[ -](?:in|on)\b"), "login"),
    (re.compile(r"\bset(?:s|ting)?[ -]up\b"), "setup"),
    (re.compile(r"\btime[ -]zone(?=s?\b)"), "timezone"),
    (re.compile(r"\b(?:shut(?:s|ting)?|spun)[ -]down\b"), "stop"),
    (re.compile(r"\bturn(?:s|ed)? on\b|\bswitch(?:es|ed)? on\b"), "enable"),
    (re.compile(r"\bturn(?:s|ed)? off\b|\bswitch(?:es|ed)? off\b"), "disable"),
    (re.compile(r"\btak(?:es?|ing) place\b|\btook place\b"), "happen"),
    (re.compile(r"\bth(?:rew|row|rows|rown|rowing) (?:out|away)\b|\bphas(?:e|es|ed|ing) out\b"), "retire"),
    (re.compile(r"\b(?:gave|gives?|given) way to\b|\bt(?:ook|akes?|aken|aking) over\b"), "replace"),
    (re.compile(r"\bby hand\b"), "manually"),
    (re.compile(r"\b(?:at least|no (?:less|fewer) than)\b"), "minimum"),
    (re.compile(r"\b(?:at most|no more than)\b"), "maximum"),
    (re.compile(r"\b(?:roll|rolls|rolled|rolling)[ -]back\b"), "rollback"),
    (re.compile(r"\bfail(?:s|ed|ing)?[ -]over\b"), "failover"),
    (re.compile(r"\bget(?:s|ting)? rid of\b"), "remove"),
)
#: The form of every word that denies.
DENIAL = "~not"
DENIES = re.compile(r"\b(?:not|never|none|cannot|without|nothing|no)\b|n't\b")
#: A dotted number, a version with its mark too: 3.2.1 is also of 3.2.
_DOTTED = re.compile(r"v?(\d+(?:\.\d+)+)")
_CAMEL = re.compile(r"\b[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\b")
_HUMP = re.compile(r"[A-Z]?[a-z]+")
_ISO_MONTH = re.compile(r"\b\d{4}-(0[1-9]|1[0-2])\b")
_MONTHS = list(calendar.month_name)[1:]
_IRREGULAR = dict(
    pair.split("=") for pair in word_list("taboot_pipelines.retrieval.answering", "irregular_forms.txt")
)

_local = threading.local()


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a lower-cased word (Snowball English, Porter 2001), irregular forms included."""
    if len(word) > _MAX_WORD or not word.isalpha():
        return word
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)
    found: str = stemmer.stemWord(_IRREGULAR.get(word, word))
    return found or word


def _read_synonyms() -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    """Of each stem the name of its group of synonyms, and the stems that keys of configuration have for it
    (``synonyms.txt``)."""
    groups: dict[str, str] = {}
    keys: dict[str, frozenset[str]] = {}
    for line in sorted(word_list("taboot_pipelines.retrieval.answering", "synonyms.txt")):
        word, directed, others = line.partition(">")
        if directed:
            keys[stem(word)] = frozenset(map(stem, others.split(",")))
            continue
        members = line.split(",")
        for member in members:
            groups[stem(member)] = f"~{members[0]}"
    return groups, keys


_GROUPS, _KEYS = _read_synonyms()
_MEMBERS: dict[str, tuple[str, ...]] = {}
for _stem, _name in _GROUPS.items():
    _MEMBERS[_name] = (*_MEMBERS.get(_name, ()), _stem)


def group(stemmed: str) -> str | None:
    """The name of the group of synonyms that a stem belongs to; None if it is in none."""
    return _GROUPS.get(stemmed)


def alike(stemmed: str) -> tuple[str, ...]:
    """The stems of the group of synonyms that a stem belongs to."""
    return _MEMBERS.get(_GROUPS.get(stemmed, ""), ())


def key_synonyms(stemmed: str) -> frozenset[str]:
    """The stems that a key of configuration may have for a word, besides those of its group."""
    return _KEYS.get(stemmed, frozenset())


def fold(text: str) -> str:
    """``text`` as words are looked for in it: NFKC, lower case, with phrases that are one word as one."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("’", "'")
    text = text.lower()
    for pattern, word in _PHRASES:
        text = pattern.sub(word, text)
    return text


def runs(folded: str) -> list[str]:
    """The words and compounds (``node-exporter``, ``10.0.0.5``) of a folded text, in order."""
    return [run for run in _COMPOUND.findall(folded) if len(run) <= _MAX_WORD]


def parts(run: str) -> list[str]:
    """The words of a compound; of a plain word the word alone."""
    return [run] if run.isalnum() else _PART.findall(run)


def numbered(run: str) -> str:
    """A dotted number without the mark of a version (``v3.2``); any other word as it is."""
    dotted = _DOTTED.fullmatch(run)
    return dotted[1] if dotted else run


def is_dotted(run: str) -> bool:
    """Whether a word is a dotted number: a version, an address. Its parts say nothing alone."""
    return bool(_DOTTED.fullmatch(run))


def _dotted(run: str) -> list[str]:
    """What a dotted number may be found by: itself and its beginnings of two parts or more."""
    if not is_dotted(run):
        return []
    numbers = numbered(run).split(".")
    return [".".join(numbers[:n]) for n in range(2, len(numbers) + 1)]


def one_off(left: str, right: str) -> bool:
    """Whether one letter added, left out, changed or swapped with its neighbour makes one into the other."""
    return OSA.distance(left, right, score_cutoff=1) == 1


def is_slip(typed: str, meant: str) -> bool:
    """Whether two words differ by one slip of the pen. The first letter is rarely wrong."""
    return typed[:1] == meant[:1] and one_off(typed, meant)


def forms(text: str) -> frozenset[str]:
    """All that words of ``text`` may be found by: stems, compounds, the groups of synonyms, and that it
    denies something.
    """
    found: set[str] = set()
    folded = fold(text)
    if DENIES.search(folded):
        found.add(DENIAL)
    # CertificateExpires is found by its words, 2026-02-08 by its month.
    for camel in _CAMEL.findall(text):
        found.update(stem(hump.lower()) for hump in _HUMP.findall(camel))
    found.update(stem(_MONTHS[int(month) - 1].lower()) for month in _ISO_MONTH.findall(text))
    for run in runs(folded):
        if not run.isalnum():
            found.add(run)
            found.update(_dotted(run))
        for word in parts(run):
            if word in STOP_WORDS:
                continue
            stemmed = stem(word)
            found.add(stemmed)
            same = _GROUPS.get(stemmed)
            if same is not None:
                found.add(same)
    return frozenset(found)
