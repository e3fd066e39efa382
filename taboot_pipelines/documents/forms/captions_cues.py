"""Cues of captions: who says what when, and where it stands; and the text without what captions repeat."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

#: A cue that stands no longer than this, in ms, and says nothing new only clears the screen for the next.
_FLASH_MS = 50
#: Cues this far apart, in ms, do not hold the same words on the screen.
_APART_MS = 1000

_TOKENS = re.compile(
    r"""(?P<line>\r\n|\r|\n|<br\ ?/?>|\[br\])
    | (?P<blank>\s+)
    | (?P<tag></?[A-Za-z][^<>]*>|</?>|<[0-9][0-9:.,]*>|\{\\[^{}]*\})
    | (?P<entity>&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});)
    | (?P<text>[^\s<&{\[]+|.)""",
    re.X | re.S,
)
_SPEAKER = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]*)>")
#: Marks of direction and joiners of no width, which no reader sees.
_UNSEEN = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad]")


class Word(NamedTuple):
    """A word, which code points ``[start, end)`` of the source say, as it is or with markup and entities."""

    text: str
    start: int
    end: int


Line = tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Cue:
    """What is said from ``start`` to ``end`` (ms), in lines of words; none of them is empty. ``speaker``: as
    WebVTT's voice tag names one."""

    start: int
    end: int
    lines: tuple[Line, ...]
    speaker: str = ""

    @property
    def text(self) -> str:
        """The lines, without markup."""
        return "\n".join(" ".join(word.text for word in line) for line in self.lines)


@dataclass(frozen=True, slots=True)
class Track:
    """The cues of a file in its order. ``left_out``: how many more could not be read. ``language``: as the
    file says it, else empty."""

    cues: tuple[Cue, ...]
    left_out: int = 0
    language: str = ""


class Placed(NamedTuple):
    """A text whose code point i is said by ``[begins[i], ends[i])`` of the source."""

    text: str
    begins: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, source: str, start: int, end: int) -> Placed:
        """A piece of the source as it stands."""
        return cls(source[start:end], range(start, end), range(start + 1, end + 1))


def cue_of(start: int, end: int, said: Placed) -> Cue | None:
    """The cue of a text with markup; None where it would be over before the beginning. One that begins before
    it begins at 0, and one that ends before its own start at its start."""
    if start < 0 and end <= 0:
        return None
    start = max(start, 0)
    voice = _SPEAKER.search(said.text)
    speaker = " ".join(html.unescape(voice[1]).split()) if voice else ""
    return Cue(start, max(end, start), tuple(_lines(said)), speaker)


def _lines(said: Placed) -> Iterator[Line]:
    line: list[Word] = []
    text, start, end = "", 0, 0
    for token in _TOKENS.finditer(said.text):
        kind = token.lastgroup
        if kind == "tag":
            continue
        piece = html.unescape(token[0]) if kind == "entity" else token[0]
        piece = _UNSEEN.sub("", piece) if kind in ("entity", "text") else piece
        if piece and (kind == "line" or not piece.strip()):
            if text:
                line.append(Word(text, start, end))
                text = ""
            if kind == "line" and line:
                yield tuple(line)
                line = []
        elif piece:
            if not text:
                start = said.begins[token.start()]
            text += piece
            end = said.ends[token.end() - 1]
    if text:
        line.append(Word(text, start, end))
    if line:
        yield tuple(line)


# What captions repeat --------------------------------------------------------------------------------------

Texts = tuple[tuple[str, ...], ...]


class _Overlap(NamedTuple):
    """Of a cue's lines the first ``lines``, and of the next ``words``, were on the screen before."""

    lines: int
    words: int = 0


def merged(cues: Iterable[Cue]) -> list[Cue]:
    """The cues by their start, each with only what it adds to what was on the screen.

    Generated and live captions roll up: a cue repeats the last lines of the one before, and adds a line; or
    they paint on: a line grows word by word. Where most cues of a track do so, what they repeat is left out;
    elsewhere somebody says something twice, and it is kept.
    """
    shown: list[Cue] = []
    for cue in sorted((cue for cue in cues if cue.lines), key=lambda cue: cue.start):
        if shown and _flashes(shown[-1], cue):
            continue
        shown.append(cue)
    if not _rolls(shown):
        return shown
    said = shown[:1]
    for before, cue in pairwise(shown):
        kept = _overlap(_texts(before), _texts(cue))
        whole = kept.lines == len(cue.lines)
        if whole and cue.start > before.end + _APART_MS:
            kept = _Overlap(0)
        elif whole:
            said[-1] = replace(said[-1], end=max(said[-1].end, cue.end))
            continue
        lines = cue.lines[kept.lines :]
        said.append(replace(cue, lines=(lines[0][kept.words :], *lines[1:])))
    return said


def _texts(cue: Cue) -> Texts:
    return tuple(tuple(word.text for word in line) for line in cue.lines)


def _flashes(before: Cue, cue: Cue) -> bool:
    """Whether a cue only holds the last lines of the one before for the moment until the next."""
    return (
        cue.end - cue.start <= _FLASH_MS
        and cue.start <= before.end + _APART_MS
        and _texts(before)[-len(cue.lines) :] == _texts(cue)
    )


def _rolls(cues: Sequence[Cue]) -> bool:
    """Whether most cues that say something new begin with what was on the screen."""
    rolled = plain = 0
    for before, cue in pairwise(cues):
        kept = _overlap(_texts(before), _texts(cue))
        if kept == (0, 0):
            plain += 1
        elif kept.lines < len(cue.lines):
            rolled += 1
    return rolled > 0 and rolled >= plain


def _overlap(before: Texts, now: Texts) -> _Overlap:
    most = min(len(before), len(now))
    if before == now and len(now) > 1 and len(set(now)) == 1:
        return _Overlap(len(now) - 1)  # one line said again and again
    for lines in range(most, 0, -1):
        if before[-lines:] == now[:lines]:
            return _Overlap(lines)
    for lines in range(most, 0, -1):
        grown, words = now[lines - 1], len(before[-1])
        if before[-lines:-1] == now[: lines - 1] and len(grown) > words and grown[:words] == before[-1]:
            return _Overlap(lines - 1, words)
    return _Overlap(0)
