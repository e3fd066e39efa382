"""The part of a passage that is shown for a hit: where most of the query's words stand, on one line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from taboot_pipelines.shards.analyzer import analyze, stem_of

# --- Where the words of a query stand in the text of a hit

#: A run of words as the analyzer joins compounds, on text that is not normalized: marks that combine with a
#: letter belong to its word. Nothing that was matched is given back, so it is looked at once.
_LETTERS = r"[^\W_]++(?:[\u0300-\u036f]++[^\W_]*+)*+"
_RUN = re.compile(rf"{_LETTERS}(?:[-._:/@]{_LETTERS}|)*+")
_PART = re.compile(_LETTERS)


#: What joins the parts of a compound, and all other signs of ASCII as blanks.
_JOINS = frozenset("-._:/@")
_BLANKED = {code: " " for code in range(128) if not chr(code).isalnum() and chr(code) not in _JOINS}

Ranges = tuple[tuple[int, int], ...]


def word_ranges(text: str, terms: frozenset[str]) -> Ranges:
    """The ranges ``[start, end)`` of ``text``, in code points, ascending and apart, whose words have one of
    ``terms`` (:func:`terms_of`). A compound that is a term is one range; else those of its parts that are.
    """
    if not text.isascii():
        runs = ((match.start(), match[0]) for match in _RUN.finditer(text))
        return tuple((at + a, at + b) for at, run in runs for a, b in _ranges_of(run, terms))
    # Such a text is as long when it is lowered, and its words are told apart without a regular expression.
    pieces = text.lower().translate(_BLANKED).split(" ")
    every = set(pieces)
    words = list(filter(str.isalnum, every))
    # A stem begins with the first two letters of its word, or is one of them; but that of "dying" is "die".
    heads = {term[:2] for term in terms}
    likely = [w for w in words if w[:2] in heads or w[1:2] == "y" or w[0] in heads]
    marked: dict[str, Ranges] = {w: ((0, len(w)),) for w in likely if stem_of(w) in terms}
    for piece in every.difference(words):
        runs = ((match.start(), match[0]) for match in _RUN.finditer(piece))
        if own := tuple((at + a, at + b) for at, run in runs for a, b in _ranges_of(run, terms)):
            marked[piece] = own
    found: list[tuple[int, int]] = []
    at = 0
    for piece in pieces if marked else ():
        if piece in marked:
            found += [(at + start, at + end) for start, end in marked[piece]]
        at += len(piece) + 1
    return tuple(found)


def _ranges_of(run: str, terms: frozenset[str]) -> Ranges:
    """The ranges of one run that have one of the terms."""
    own = _terms(run)
    if own.isdisjoint(terms):
        return ()
    parts = list(_PART.finditer(run))
    # What the whole has and none of its parts: the compound itself.
    by_itself = own - {term for p in parts for term in _terms(p.group())}
    if len(parts) == 1 or not by_itself.isdisjoint(terms):
        return ((0, len(run)),)
    return tuple(p.span() for p in parts if not _terms(p.group()).isdisjoint(terms))


@lru_cache(maxsize=1 << 14)
def _terms(run: str) -> frozenset[str]:
    """The analyzer's terms of one run. The same words come again in hit after hit."""
    return frozenset(analyze(run)[0])


def terms_of(query: str) -> frozenset[str]:
    """What :func:`word_ranges` looks for: the analyzer's terms of a query."""
    return frozenset(analyze(query)[0])


_FRONT_MATTER = re.compile(r"\s*---\r?\n.*?\n---\r?\n", re.DOTALL)
_HEADING = re.compile(r"\s*#{1,6} [^\n]*\n")
_WORD = re.compile(r"\S+")
#: What stands between the head of a table and its rows.
_RULE = re.compile(r"\|?(?::?-{2,}:?\|)+(?::?-{2,}:?)?")
#: So many words stand before the first that matched, where there are as many.
_BEFORE = 4


class Word(NamedTuple):
    """A word of a snippet in pieces: (text, whether the query has it)."""

    pieces: tuple[tuple[str, bool], ...]

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)


class Snippet(NamedTuple):
    """The words that are shown; ``before`` and ``after``: something was left out there."""

    words: tuple[Word, ...]
    before: bool
    after: bool

    @property
    def text(self) -> str:
        joined = " ".join(word.text for word in self.words)
        return f"{'… ' if self.before else ''}{joined}{'…' if self.after else ''}"

    @property
    def pieces(self) -> tuple[tuple[str, bool], ...]:
        """The text in pieces: (text, whether the query has it)."""
        found = [("… ", False)] if self.before else []
        for n, word in enumerate(self.words):
            found += [(" ", False)] if n else []
            found += word.pieces
        return (*found, *([("…", False)] if self.after else []))


def snippet(text: str, highlights: Sequence[tuple[int, int]], length: int) -> Snippet:
    """At most ``length`` characters of ``text``. ``highlights``: where words of the query stand in it.

    Front matter, and the heading that stands above the hit anyway, are shown only where nothing else has any
    of the words.
    """
    body = _body(text)
    if not any(start >= body for start, _ in highlights) and highlights:
        body = 0
    marks = sorted((start, end) for start, end in highlights if start >= body)
    words = [m for m in _WORD.finditer(text, body) if not _RULE.fullmatch(m.group())]
    marked = _marked(words, marks)
    first, last = _window([m.group() for m in words], marked, length)
    shown = tuple(Word(_pieces(text, words[i], marks)) for i in range(first, last))
    return Snippet(shown, first > 0, last < len(words))


def best_lines(text: str, highlights: Sequence[tuple[int, int]], count: int) -> int:
    """Where those ``count`` lines in a row begin that have most of the query's different words, counted among
    the lines that are not empty; the first of equal ones."""
    words: list[set[str]] = []
    at = 0
    for line in text.split("\n"):
        end = at + len(line)
        if line.strip():
            words.append({text[start:stop].casefold() for start, stop in highlights if at <= start < end})
        at = end + 1
    starts = range(max(1, len(words) - count + 1))
    return max(starts, key=lambda first: len(set().union(*words[first : first + count])))


def heading(title: str, section: str) -> str:
    """The title and the headings above a passage; what both say is said once."""
    parts = [p for p in section.split(" > ") if p]
    if parts and parts[0].casefold() == title.casefold():
        parts = parts[1:]
    return " > ".join([title, *parts])


def _body(text: str) -> int:
    """Where the text begins behind front matter and the headings at its head; 0 if nothing follows."""
    at = 0
    front = _FRONT_MATTER.match(text)
    if front is not None:
        at = front.end()
    while (found := _HEADING.match(text, at)) is not None:
        at = found.end()
    return at if text[at:].strip() else 0


def _marked(words: Sequence[re.Match[str]], marks: Sequence[tuple[int, int]]) -> list[str]:
    """Of each word the word of the query in it, in lower case; empty where it has none."""
    found, at = [], 0
    for word in words:
        while at < len(marks) and marks[at][1] <= word.start():
            at += 1
        start, end = marks[at] if at < len(marks) else (word.end(), word.end())
        inside = start < word.end()
        found.append(
            word.string[max(start, word.start()) : min(end, word.end())].casefold() if inside else ""
        )
    return found


def _window(words: Sequence[str], marked: Sequence[str], length: int) -> tuple[int, int]:
    """The range of words that fits and has most of the query's different words, then most of its words; the
    first of equal ones.
    """
    best, chosen = (-1, -1), (0, 0)
    inside: Counter[str] = Counter()
    size = last = 0
    for first in range(len(words)):
        while last < len(words) and (size + len(words[last]) + 1 <= length or last == first):
            size += len(words[last]) + 1
            inside[marked[last]] += 1
            last += 1
        counts = [count for word, count in inside.items() if word and count]
        if (len(counts), sum(counts)) > best:
            best, chosen = (len(counts), sum(counts)), (first, last)
        size -= len(words[first]) + 1
        inside[marked[first]] -= 1
    first, last = chosen
    if best[0] > 0:
        # It begins no more than a few words before the first that matched.
        at = next(i for i in range(first, last) if marked[i])
        first = max(first, at - _BEFORE)
        last, size = first, 0
        while last < len(words) and (size + len(words[last]) + 1 <= length or last == first):
            size += len(words[last]) + 1
            last += 1
    return first, last


def _pieces(text: str, word: re.Match[str], marks: Sequence[tuple[int, int]]) -> tuple[tuple[str, bool], ...]:
    found, at = [], word.start()
    for start, end in marks:
        a, b = max(start, at), min(end, word.end())
        if a >= b:
            continue
        if at < a:
            found.append((text[at:a], False))
        found.append((text[a:b], True))
        at = b
    if at < word.end():
        found.append((text[at : word.end()], False))
    return tuple(found)
