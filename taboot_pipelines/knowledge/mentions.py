"""Mentions of declared names in any text.

A name is found by one Aho-Corasick pass over the text, ASCII case folded (every code point keeps its offset),
where it stands as a word of its own. Names that are also words (three letters or less, or on the stop list)
count only in code, beside a port, or in a heading (graph-mapping, "Prose and code in any document").
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

import ahocorasick_rs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.extraction.tier_a.regions import Region, RegionIndex, regions
from taboot_pipelines.knowledge.titles import normalize, words
from taboot_pipelines.packaged import word_list

__all__ = [
    "MATCHER_VERSION",
    "NameMatcher",
    "Region",
    "is_weak",
    "regions",
    "stopwords",
]

#: Changes with every change of what is found: boundaries, the weak rule, the stop list.
MATCHER_VERSION = "1"

#: A name of this many letters or less is weak.
SHORT = 3

_FOLD = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}
_PORT_AFTER = re.compile(
    r":\d{2,5}(?![\w.])"
    r"|[`\"'*)]{0,3}[ \t]*[(,]?[ \t]*(?:(?:is[ \t]+)?(?:running[ \t]+|listening[ \t]+|available"
    r"[ \t]+|exposed[ \t]+|reachable[ \t]+|listens[ \t]+|runs[ \t]+)?(?:on|at|uses|using|via|over)[ \t]+)?"
    r"(?:its[ \t]+|the[ \t]+)?(?:(?:tcp|udp|http|https)[ \t]+)?port[ \t:=]+\d{1,5}\b",
    re.IGNORECASE | re.ASCII,
)
_PORT_BEFORE = re.compile(
    r"\bport[ \t]+\d{1,5}[ \t]+(?:of|on|for)[ \t]+(?:the[ \t]+)?[`\"'*]{0,3}\Z", re.IGNORECASE | re.ASCII
)
_PORT_BEFORE_MAX = 40
_PORT_AFTER_MAX = 64


def fold(text: str) -> str:
    """ASCII letters in lower case, everything else as it is: the length never changes (``str.lower`` may
    change it, and makes ASCII of the Kelvin sign)."""
    return text.lower() if text.isascii() else text.translate(_FOLD)


def stopwords() -> frozenset[str]:
    """The words of ``stopwords.txt``."""
    return word_list("taboot_pipelines.knowledge", "stopwords.txt")


def is_weak(name: str) -> bool:
    """Whether ``name`` counts only in code, beside a port, or in a heading."""
    return len(name) <= SHORT or fold(name) in stopwords()


class NameMatcher:
    """Finds ``names`` in texts. Building takes time in proportion to the names, finding to the text and its
    hits.
    """

    def __init__(self, names: Iterable[str]) -> None:
        by_folded: dict[str, list[str]] = {}
        for name in sorted(set(names)):
            if name:
                by_folded.setdefault(fold(name), []).append(name)
        patterns = list(by_folded)
        self._variants = list(by_folded.values())
        self._weak = [is_weak(p) for p in patterns]
        # All overlapping matches: where the longest name lacks a boundary, a shorter one may have it ("app.x"
        # and "app" in "app.xy" have none, "app (x" lacks one in "app (xy", where "app" has both).
        self._automaton = (
            ahocorasick_rs.AhoCorasick(
                patterns, implementation=ahocorasick_rs.Implementation.ContiguousNFA, store_patterns=False
            )
            if patterns
            else None
        )

    def find(
        self, text: str, regions: Sequence[tuple[int, int, str]] = ()
    ) -> list[tuple[int, int, str, bool]]:
        """(start, end, name, exact) of every mention, by start, without overlap: of two at one place the
        longer.

        ``regions`` (from :func:`regions`) are disjoint and sorted (start, end, kind) in code points; only the
        kinds ``code`` and ``heading`` matter. ``exact``: written as declared; where several declared names
        differ in case only, the one written counts, else each of them.
        """
        if self._automaton is None or not text:
            return []
        index: RegionIndex | None = None
        best: dict[int, tuple[int, int]] = {}
        for pattern, start, end in self._automaton.find_matches_as_indexes(fold(text), overlapping=True):
            if (start in best and best[start][0] >= end) or not _stands_alone(text, start, end):
                continue
            if self._weak[pattern]:
                if index is None:
                    index = RegionIndex([r for r in regions if r[2] in ("code", "heading")])
                if index.at(start) is None and not _beside_port(text, start, end):
                    continue
            best[start] = (end, pattern)
        found: list[tuple[int, int, str, bool]] = []
        reached = 0
        for start in sorted(best):
            if start < reached:
                continue
            end, pattern = best[start]
            reached = end
            written = text[start:end]
            variants = self._variants[pattern]
            if written in variants:
                found.append((start, end, written, True))
            else:
                found.extend((start, end, name, False) for name in variants)
        return found


_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_INSIDE = _WORD | {"_", "-"}


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no word goes on at either side; a dot goes on only with a letter or digit behind it. Words are
    ASCII: names are, and in scripts without spaces they stand between other letters."""
    if start:
        before = text[start - 1]
        if before in _INSIDE or (before == "." and start > 1 and text[start - 2] in _WORD):
            return False
    if end < len(text):
        after = text[end]
        if after in _INSIDE or (after == "." and end + 1 < len(text) and text[end + 1] in _WORD):
            return False
    return True


def _beside_port(text: str, start: int, end: int) -> bool:
    return (
        _PORT_AFTER.match(text, end, end + _PORT_AFTER_MAX) is not None
        or _PORT_BEFORE.search(text[max(0, start - _PORT_BEFORE_MAX) : start]) is not None
    )


# --- The index of words that says which documents may hold a name or a title, so that only those are looked
#     at again

_TOKEN = re.compile(r"[0-9a-z]+")


@lru_cache(maxsize=1 << 17)
def _hash(token: str) -> int:
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "big", signed=True)


def tokens(text: str) -> npt.NDArray[np.int64]:
    """Sorted distinct 64-bit hashes (BLAKE2b-8) of the maximal runs of ASCII letters and digits, case folded,
    and of the words of the normalized text, which are other ones where it is not ASCII.

    A text in which a :class:`~taboot_pipelines.knowledge.mentions.NameMatcher` finds a name holds all of
    :func:`name_tokens` of that name, and one in which a
    :class:`~taboot_pipelines.knowledge.titles.TitleMatcher` finds a title all of its :func:`title_tokens`.
    """
    distinct = set(_TOKEN.findall(fold(text)))
    if not text.isascii():
        distinct.update(words(normalize(text)))
    return _hashes(distinct)


def name_tokens(name: str) -> npt.NDArray[np.int64]:
    """The :func:`tokens` that every text with a mention of ``name`` holds."""
    return _hashes(set(_TOKEN.findall(fold(name))))


def title_tokens(title: str) -> npt.NDArray[np.int64]:
    """The :func:`tokens` that every text with this title, given in the normal form, holds."""
    return _hashes(set(words(title)))


def titles_within(titles: pa.Array, texts: Iterable[str]) -> pa.Array:
    """The titles, given in the normal form, that a
    :class:`~taboot_pipelines.knowledge.titles.TitleMatcher` may find in one of the texts, and few others.

    A title stands on word borders, so the last of its maximal runs of ASCII letters and digits, if it has
    one, is such a run of the normalized text as well; and so is the first.
    """
    runs: set[str] = set()
    for text in texts:
        runs.update(_TOKEN.findall(text.lower() if text.isascii() else normalize(text)))
    held = pa.array(sorted(runs), titles.type)
    for pattern in (r"(?P<run>[0-9a-z]+)[^0-9a-z]*$", r"^[^0-9a-z]*(?P<run>[0-9a-z]+)"):
        run = pc.struct_field(pc.extract_regex(titles, pattern), "run")
        titles = titles.filter(pc.or_kleene(pc.is_null(run), pc.is_in(run, held)))
    return titles


def _hashes(distinct: Collection[str]) -> npt.NDArray[np.int64]:
    hashes = np.fromiter(map(_hash, distinct), dtype=np.int64, count=len(distinct))
    hashes.sort()
    return hashes


def documents_holding(names: Collection[str], index: pa.Table, titles: Iterable[str] = ()) -> set[str]:
    """The doc_ids whose text holds all tokens of one of the names or titles; ``index``: doc_id and tokens of
    ``tables.DOC_STATE``.
    """
    wanted = [*map(name_tokens, names), *map(title_tokens, titles)]
    if not wanted or index.num_rows == 0:
        return set()
    column = index.column("tokens").combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(column)), np.diff(column.offsets.to_numpy()))
    hits = np.isin(flat, np.unique(np.concatenate(wanted)))
    by_token: dict[int, set[int]] = {}
    for token, row in zip(flat[hits].tolist(), rows[hits].tolist(), strict=True):
        by_token.setdefault(token, set()).add(row)
    found: set[int] = set()
    for needed in wanted:
        holders = [by_token.get(int(token), set()) for token in needed]
        if holders:
            found |= set.intersection(*holders)
    doc_ids = index.column("doc_id").to_pylist()
    return {doc_ids[row] for row in found}
