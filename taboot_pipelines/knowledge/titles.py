"""Titles of documents, found in the texts of others: as a whole, on word borders, of several the longest.

A title counts with and without its final parenthesis ("Mercury (planet)" also as "Mercury"). Titles and texts
are compared in a normal form: compatibility forms as one (NFKC), case folded, blanks as one. What a title
means, and whether it is rare enough to count, is decided where all documents are known: which titles stand in
a text depends on the text and the set of titles alone (rule ``incremental-equals-scratch``).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

import ahocorasick_rs

#: Changes with every change of what is found.
TITLES_VERSION = "2"

#: Titles with more code points are sentences that nobody quotes, and no automaton should be made of.
MAX_TITLE = 200
#: Of fewer letters and digits a title is no name: it stands in every text.
_MIN_LETTERS = 2

_PARENTHESIS = re.compile(r"(.*\S)\s*\([^()]*\)", re.DOTALL)
#: What changes more than its case: blanks in a row, and letters that are not ASCII, which may become one with
#: the letter before them (accents) or several.
_CHANGING = re.compile(r"\s{2,}|[!-~]?[^\x00-\x7f\s]+")
_CHANGING_ASCII = re.compile(r"\s{2,}")
#: Stands for the end of a paragraph, over which no title reaches.
_BREAK = "\0"
#: A blank that stands alone keeps its place.
_OTHER_BLANK = re.compile(r"[^\S ]")
#: Scripts that are written without blanks: every letter is a word's border, and a word of its own.
_UNSPACED_RANGES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
UNSPACED = re.compile(f"[{_UNSPACED_RANGES}]")
_WORD = re.compile(rf"[{_UNSPACED_RANGES}]|(?:(?![{_UNSPACED_RANGES}])[^\W_])+")


def normalize(text: str) -> str:
    """The form in which titles and texts are compared."""
    return " ".join(Folded(text).text.replace(_BREAK, " ").split())


def _fold(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def words(normal: str) -> list[str]:
    """The words of a normalized text; in scripts without blanks, each letter."""
    return _WORD.findall(normal)


def title_keys(title: str) -> tuple[str, ...]:
    """By what texts may name a document of this title, in the normal form: the title, and without its final
    parenthesis. Nothing where it is no name: too short, too long, or without letters.
    """
    whole = normalize(title)
    found = [whole]
    bare = _PARENTHESIS.fullmatch(whole)
    if bare is not None:
        found.append(bare[1])
    return tuple(key for key in found if len(key) <= MAX_TITLE and _is_name(key))


def _is_name(key: str) -> bool:
    return sum(map(len, words(key))) >= _MIN_LETTERS


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A title that stands in a text: first at code points ``[start, end)``, and ``count`` times in all."""

    title: str
    start: int
    end: int
    count: int


class TitleMatcher:
    """Finds titles, given in the normal form, in texts. Building takes time in proportion to the titles,
    finding to the text and its hits.
    """

    def __init__(self, titles: Iterable[str]) -> None:
        self._titles = sorted(set(titles))
        # All overlapping matches: where the longest title lacks a border, a shorter one may have it.
        self._automaton = (
            ahocorasick_rs.AhoCorasick(
                self._titles,
                implementation=ahocorasick_rs.Implementation.ContiguousNFA,
                store_patterns=False,
            )
            if self._titles
            else None
        )

    def find(self, text: str) -> list[Occurrence]:
        """Every title of the text, by its first place, but where it is part of a longer one."""
        if self._automaton is None or not text:
            return []
        folded = Folded(text)
        normal = folded.text
        best: dict[int, tuple[int, int]] = {}
        for pattern, start, end in self._automaton.find_matches_as_indexes(normal, overlapping=True):
            if (start not in best or best[start][0] < end) and _stands_alone(normal, start, end):
                best[start] = (end, pattern)
        first: dict[int, tuple[int, int]] = {}
        counts: dict[int, int] = {}
        reached = 0
        for start in sorted(best):
            end, pattern = best[start]
            if end <= reached:
                continue
            reached = end
            counts[pattern] = counts.get(pattern, 0) + 1
            first.setdefault(pattern, (start, end))
        return [
            Occurrence(self._titles[pattern], *folded.original(*span), counts[pattern])
            for pattern, span in first.items()
        ]


def _stands_alone(text: str, start: int, end: int) -> bool:
    return _border(text, start) and _border(text, end)


def _border(text: str, at: int) -> bool:
    """Whether no word goes on from before ``at`` to behind it."""
    if at == 0 or at == len(text):
        return True
    before, after = text[at - 1], text[at]
    if not (before.isalnum() or before == "_") or not (after.isalnum() or after == "_"):
        return True
    return not (before.isascii() and after.isascii()) and bool(
        UNSPACED.match(before) or UNSPACED.match(after)
    )


@dataclass(slots=True)
class Folded:
    """A text in the normal form, in which paragraphs are kept apart, and the way back to its code points."""

    source: str
    text: str = field(init=False)
    #: Pieces that changed their length, ascending: where each begins and ends in the text and the source.
    _text_ends: list[int] = field(init=False)
    _pieces: list[tuple[int, int, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        source = self.source
        parts: list[str] = []
        self._pieces = []
        at = reached = 0
        pattern = _CHANGING_ASCII if source.isascii() else _CHANGING
        for match in pattern.finditer(source):
            start, end = match.span()
            piece = match[0]
            if piece.isspace():
                new = _BREAK if piece.count("\n") > 1 else " "
            else:
                # A letter may become a blank and an accent; blanks count as one.
                new = _fold(piece)
                if new.startswith(" ") and source[start - 1 : start].isspace():
                    new = new[1:]
                if new.endswith(" ") and source[end : end + 1].isspace():
                    new = new[:-1]
            parts += (source[reached:start].lower(), new)
            at += start - reached
            self._pieces.append((at, at + len(new), start, end))
            at += len(new)
            reached = end
        parts.append(source[reached:].lower())
        self.text = _OTHER_BLANK.sub(" ", "".join(parts).replace("\n", " "))
        self._text_ends = [piece[1] for piece in self._pieces]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The code points of the source that ``[start, end)`` of the text came from; widened where a code
        point became several.
        """
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, at: int) -> tuple[int, int]:
        """The code points of the source that one code point of the text came from."""
        i = bisect_right(self._text_ends, at)
        if i < len(self._pieces) and self._pieces[i][0] <= at:
            begin, finish, first, last = self._pieces[i]
            return _within(self.source[first:last], first, at - begin, finish - begin)
        if i == 0:
            return at, at + 1
        _, finish, _, last = self._pieces[i - 1]
        return last + at - finish, last + at - finish + 1


def _within(piece: str, first: int, at: int, length: int) -> tuple[int, int]:
    """Where in a piece of the source its normal form has come to ``at``; the whole piece if that is not
    certain.
    """
    reached = 0
    bounds: list[tuple[int, int, int]] = []
    start = 0
    while start < len(piece):
        end = start + 1
        while end < len(piece) and _joins(piece[end]):
            end += 1
        size = len(_fold(piece[start:end]))
        bounds.append((reached + size, start, end))
        reached += size
        start = end
    if reached == length:
        for until, begin, finish in bounds:
            if at < until:
                return first + begin, first + finish
    return first, first + len(piece)


def _joins(character: str) -> bool:
    """Whether a code point may become one with what stands before it: marks, Hangul vowels and finals, the
    voiced marks of halfwidth kana.
    """
    return (
        unicodedata.category(character)[0] == "M"
        or "\u1160" <= character <= "\u11ff"
        or character in "\uff9e\uff9f"
    )
