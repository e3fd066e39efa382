"""The one analyzer of keyword search: what a term is, for documents and queries alike.

Text is NFKC-normalized and lower-cased; a term is a run of letters and digits. A compound (``node-exporter``,
``ERR-123``, ``10.0.0.5``, ``my_db``) gives its parts *and* itself, so an exact name outranks its words
scattered; the whole does not count towards the length. English plurals lose their s (Harman 1991, "How
effective is suffixing?") and function words are dropped. This was chosen by measurement
(``benchmarks/retrieval_quality.py``): stronger stemmers (Porter2) gain on abstracts and lose on names.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

from taboot_pipelines.packaged import word_list

#: Part of every shard's key: another analyzer means other postings.
ANALYZER = "taboot-1"

_COMPOUND = re.compile(r"[^\W_]+(?:[-._:/@][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
#: A longer run is no word that anyone asks for (base64, minified code).
_MAX_TERM_CHARS = 128

STOP_WORDS = word_list("taboot_pipelines.shards", "stop_words.txt")


@lru_cache(maxsize=1 << 16)
def _term(word: str) -> str:
    """The term of a lower-cased word, empty if it is none."""
    return "" if word in STOP_WORDS or len(word) > _MAX_TERM_CHARS else _stem(word)


def _stem(word: str) -> str:
    """A lower-cased word without the s of an English plural (Harman's "S" stemmer)."""
    if len(word) < 4 or not word.endswith("s"):
        return word
    if word.endswith("ies"):
        return word if word.endswith(("eies", "aies")) else word[:-3] + "y"
    if word.endswith("es"):
        return word if word.endswith(("aes", "ees", "oes")) else word[:-1]
    return word if word.endswith(("us", "ss")) else word[:-1]


def analyze(text: str) -> tuple[Counter[str], int]:
    """The terms of ``text`` with their frequencies, and its length in words (compounds not counted twice)."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    words: list[str] = []
    wholes: list[str] = []
    for run in _COMPOUND.findall(text.lower()):
        if run.isalnum():
            words.append(run)
        else:
            words += _PART.findall(run)
            wholes.append(run)
    terms = Counter(map(_term, words))
    terms.pop("", None)
    length = terms.total()
    terms.update(w for w in wholes if len(w) <= _MAX_TERM_CHARS)
    return terms, length
