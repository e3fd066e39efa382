"""Mentions of declared names in any text.

A name is found by one Aho-Corasick pass over the text, ASCII case folded (every code point keeps its offset),
where it stands as a word of its own. Names that are also words (three letters or less, or on the stop list)
count only in code, beside a port, or in a heading (graph-mapping, "Prose and code in any document").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import ahocorasick_rs

from taboot_pipelines.extraction.tier_a.regions import Region, RegionIndex, regions
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
