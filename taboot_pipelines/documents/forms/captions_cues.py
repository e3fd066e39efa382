"""Cues of captions: who says what when, and where it stands; and the text without what captions repeat.

YouTube's own captions are read here too: the XML of its ``timedtext`` (also called srv1, srv2 and srv3), and
json3. There is no specification of either. Known by their files: srv1 is ``<text start dur>`` in seconds,
srv2 ``<text t d>`` and srv3 ``<p t d>`` with ``<s>`` for each word, in ms; json3 has ``events`` with
``tStartMs``, ``dDurationMs`` and ``segs``, and leaves out what is 0.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple
from xml.parsers import expat

from taboot_pipelines.documents.encoding import byte_ends
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value

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


_ROOTS = ("transcript", "timedtext")
_CUES = ("text", "p")
_NUMBER = re.compile(r"\s*(-?[0-9]{1,12}(?:\.[0-9]{1,12})?)\s*")
_UTF8 = "utf-8"
#: A time beyond it (ms, 30 years) is none.
_MAX_TIME = 10**12


class _Xml:
    """Collects the cues of one document. Expat expands no entity here: what declares some is refused."""

    def __init__(self, source: str) -> None:
        self._source = source
        # Blanks before an XML declaration are an error, and many a tool writes some.
        self._begin = len(source) - len(source.lstrip("\ufeff \t\r\n"))
        self._bytes = source[self._begin :].encode(_UTF8, "surrogatepass")
        self._ends = None if source.isascii() else byte_ends(source[self._begin :], _UTF8)
        self._parser = expat.ParserCreate(_UTF8)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity
        self._depth = 0
        self._times: tuple[int | None, int] | None = None
        self._pieces: list[tuple[str, int]] = []
        self.cues: list[Cue] = []
        self.left_out = 0

    def read(self) -> Track:
        try:
            self._parser.Parse(self._bytes, True)
        except expat.ExpatError as error:
            raise TabootError(
                "E_PARSE",
                f"The transcript is not well-formed XML (line {error.lineno}, column {error.offset + 1}).",
                line=error.lineno,
                column=error.offset + 1,
            ) from None
        return Track(tuple(self.cues), self.left_out)

    def _entity(self, *_: Any) -> None:
        raise TabootError("E_PARSE", "The transcript declares entities of its own, which are not read.")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._depth == 0 and name not in _ROOTS:
            raise TabootError(
                "E_PARSE", "The XML is no transcript: its root is neither transcript nor timedtext."
            )
        self._depth += 1
        if name in _CUES and self._times is None:
            self._times = (
                _time(attributes.get("start"), 1000, None)
                if "start" in attributes
                else _time(attributes.get("t"), 1, 0),
                _time(attributes.get("dur"), 1000, None) or _time(attributes.get("d"), 1, None) or 0,
            )
            self._pieces = []
        elif name == "br" and self._times is not None:
            self._pieces.append(("\n", self._position()))

    def _characters(self, text: str) -> None:
        if self._times is not None:
            self._pieces.append((text, self._position()))

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name not in _CUES or self._times is None:
            return
        start, duration = self._times
        self._times = None
        cue = None if start is None else cue_of(start, start + duration, self._said())
        if cue is None:
            self.left_out += 1
        elif cue.lines:
            self.cues.append(cue)

    def _position(self) -> int:
        """The code point of the source that is read now."""
        at = self._parser.CurrentByteIndex
        return self._begin + (at if self._ends is None else int(self._ends.searchsorted(at)))

    def _said(self) -> Placed:
        """What was read of a cue; a reference such as ``&lt;`` is one code point."""
        begins: list[int] = []
        ends: list[int] = []
        for text, start in self._pieces:
            if self._source[start] == "&":
                begins.append(start)
                ends.append(self._source.index(";", start) + 1)
            else:
                begins += range(start, start + len(text))
                ends += range(start + 1, start + 1 + len(text))
        return Placed("".join(text for text, _ in self._pieces), begins, ends)


def _time(value: str | None, unit: int, missing: int | None) -> int | None:
    """A time in ms from an attribute in ``unit`` ms; None if it is no number."""
    if value is None:
        return missing
    match = _NUMBER.fullmatch(value)
    time = round(float(match[1]) * unit) if match else None
    return time if time is not None and abs(time) < _MAX_TIME else None


def read_xml(source: str) -> Track:
    """The cues of a transcript in XML. Raises ``E_PARSE`` for XML that is not well-formed, that declares
    entities, or that is something else."""
    return _Xml(source).read()


def read_json3(root: Value, source: str) -> Track:
    """The cues of json3, whose value in ``source`` is ``root``. Raises ``E_PARSE`` for anything else."""
    if not isinstance(root.data, dict) or not isinstance(events := root.members().get("events"), Value):
        raise TabootError("E_PARSE", "The JSON is no transcript: it has no `events`.")
    cues: list[Cue] = []
    left_out = 0
    for event in events.items():
        segments = [s for s in (e.at("utf8") for e in event.items("segs")) if s is not None]
        if not segments:
            continue
        start = event.integer("tStartMs") if event.at("tStartMs") is not None else 0
        duration = event.integer("dDurationMs") or 0
        said = _joined([placed_string(s, source) for s in segments if isinstance(s.data, str)])
        fits = start is not None and max(abs(start), abs(duration)) < _MAX_TIME
        cue = cue_of(start, start + duration, said) if start is not None and fits else None
        if cue is None:
            left_out += 1
        elif cue.lines:
            cues.append(cue)
    return Track(tuple(cues), left_out)


def placed_string(value: Value, source: str) -> Placed:
    """The content of a JSON string, whose escapes are one code point each."""
    runs = list(value.runs(source))
    if len(runs) == 1 and runs[0].verbatim:
        return Placed.of(source, runs[0].start, runs[0].end)
    begins: list[int] = []
    ends: list[int] = []
    for run in runs:
        if run.verbatim:
            begins += range(run.start, run.end)
            ends += range(run.start + 1, run.end + 1)
        else:
            begins += [run.start] * len(run.text)
            ends += [run.end] * len(run.text)
    return Placed("".join(run.text for run in runs), begins, ends)


def _joined(pieces: list[Placed]) -> Placed:
    if len(pieces) == 1:
        return pieces[0]
    return Placed(
        "".join(piece.text for piece in pieces),
        list(chain.from_iterable(piece.begins for piece in pieces)),
        list(chain.from_iterable(piece.ends for piece in pieces)),
    )
