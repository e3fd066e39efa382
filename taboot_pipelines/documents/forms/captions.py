"""Captions as text that one reads: paragraphs, each led by its time.

Takes WebVTT, SRT, SBV, and YouTube's XML and json3, told apart by what they hold. A document of captions says
in its :class:`~taboot_pipelines.model.offsets.Places` at which second each cue begins.

Caption files: WebVTT (https://www.w3.org/TR/webvtt1/), SubRip (.srt) and SubViewer as YouTube writes it
(.sbv).

What people have on their disks keeps to none of them, so one reader takes all: a line with two times begins
a cue, and what cannot be read is counted and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.documents.forms.captions_cues import (
    Cue,
    Placed,
    Track,
    Word,
    cue_of,
    merged,
    read_json3,
    read_xml,
)
from taboot_pipelines.documents.forms.writing import Formed, Given, SourceWriter
from taboot_pipelines.documents.metadata import Facts
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import json_text
from taboot_pipelines.model.offsets import Places

_TIME = r"(-?)(?:([0-9]{1,6}):)?([0-9]{1,6}):([0-9]{1,2})(?:[.,]([0-9]{1,9}))?"
_ARROW = re.compile(rf"\s*{_TIME}\s*-{{1,3}}>\s*{_TIME}(?:\s.*)?")
_SBV = re.compile(rf"\s*{_TIME}\s*,\s*{_TIME}\s*")
#: What may be meant as the two times of SubViewer, but is not.
_LIKE_SBV = re.compile(r"\s*-?[0-9]{1,6}:[^\s,]{1,20}\s*,\s*-?[0-9]{1,6}:[^\s,]{1,20}\s*")
_LINES = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_PASSED = re.compile(r"(NOTE|STYLE|REGION)(?:[ \t]|\Z)")
_LANGUAGE = re.compile(r"(?i)Language:\s*([A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)\s*")
_NUMBER = re.compile(r"\s*[0-9]{1,9}\s*")


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        found = [m.span(1) for m in _LINES.finditer(source)]
        #: Where each line stands, and where nothing follows any more.
        self.lines: Sequence[tuple[int, int]] = found
        self.cues: list[Cue] = []
        self.left_out = 0
        self.language = ""
        self.webvtt = source.lstrip("\ufeff \t\r\n").startswith("WEBVTT")
        self.arrows = "->" in source

    def line(self, number: int) -> str:
        start, end = self.lines[number] if number < len(self.lines) else (0, 0)
        return self.source[start:end]

    def timed(self, number: int) -> bool:
        """Whether a line has, or is meant to have, the times of a cue."""
        line = self.line(number)
        return ("->" in line and ":" in line) if self.arrows else _LIKE_SBV.fullmatch(line) is not None

    def track(self) -> Track:
        at = self._header() if self.webvtt else 0
        while at < len(self.lines):
            at = self._block(at)
        return Track(tuple(self.cues), self.left_out, self.language)

    def _header(self) -> int:
        at = 0
        while not self.line(at).strip("\ufeff \t"):
            at += 1
        while at < len(self.lines) and self.line(at).strip() and not self.timed(at):
            if found := _LANGUAGE.fullmatch(self.line(at)):
                self.language = found[1]
            at += 1
        return at

    def _block(self, at: int) -> int:
        """Read what begins at a line; returns the line to go on at."""
        line = self.line(at)
        if not line.strip():
            return at + 1
        if self.timed(at):
            return self._cue(at)
        if self.webvtt and (passed := _PASSED.match(line)):
            # A comment may hold a cue that is not to be shown.
            while self.line(at).strip() and not (passed[1] != "NOTE" and self.timed(at)):
                at += 1
            return at
        if self.timed(at + 1):  # the cue's number or name
            return at + 1
        # Lines without times.
        self.left_out += 1
        while self.line(at).strip() and not self._begins(at):
            at += 1
        return at

    def _begins(self, at: int) -> bool:
        """Whether a cue begins here: with its times, or the number above them."""
        return self.timed(at) or (_NUMBER.fullmatch(self.line(at)) is not None and self.timed(at + 1))

    def _cue(self, at: int) -> int:
        times = (_ARROW if self.arrows else _SBV).fullmatch(self.line(at))
        first = last = at + 1
        while last < len(self.lines) and not self.timed(last):
            if not self.line(last).strip():
                further = self._further(last)
                if further is None:
                    break
                last = further
            elif not self.webvtt and last > first and self._begins(last):
                break  # the empty line before its number is missing
            last += 1
        cue = None
        if times is not None:
            start, end = _milliseconds(times.groups()[:5]), _milliseconds(times.groups()[5:])
            if start is not None and end is not None:
                place = (self.lines[first][0], self.lines[last - 1][1]) if last > first else (0, 0)
                cue = cue_of(start, end, Placed.of(self.source, *place))
        if cue is None:
            self.left_out += 1
        elif cue.lines:
            self.cues.append(cue)
        return last

    def _further(self, at: int) -> int | None:
        """The line on which the text of a cue goes on behind lines without any: in WebVTT behind those of
        blanks, in SubRip behind any, but for a number and times."""
        while at < len(self.lines) and not self.line(at).strip():
            if self.webvtt and not self.line(at):
                return None
            at += 1
        if at == len(self.lines) or self.timed(at) or self.timed(at + 1):
            return None
        return None if not self.webvtt and _NUMBER.fullmatch(self.line(at)) else at


def _milliseconds(parts: Sequence[str | None]) -> int | None:
    """A time from its sign, hours, minutes, seconds and fraction; None if it is none. Without hours there may
    be any number of minutes."""
    sign, hours, minutes, seconds, fraction = (part or "0" for part in parts)
    if int(seconds) > 59 or (parts[1] is not None and int(minutes) > 59):
        return None
    value = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1000 + int(fraction.ljust(3, "0")[:3])
    return -value if sign == "-" else value


def read_file(source: str) -> Track:
    """The cues of WebVTT, SRT or SBV, in the order of the file; none where it is something else."""
    return _Reader(source).track()


#: How YouTube's URLs say a time.
TIME_QUERY = "t={}s"
#: A pause of so many ms begins a paragraph, a shorter one only behind a sentence of a long paragraph.
_PAUSE_MS = 3000
_SHORT_PAUSE_MS = 700
#: Words after which a paragraph may end, and must.
_LONG = 60
_TOO_LONG = 150
_SENTENCE_END = re.compile(r"[.!?…。！？]['\"”’»)\]]*\Z")
#: A new speaker, as captions mark one.
_TURN = re.compile(r">>|[-–—]\Z|[-–—](?=\w)")
#: Letters of scripts that put no blank between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f]"
)


def captions(data: bytes, given: Given) -> Formed:
    """The document of a caption file. Raises ``E_PARSE`` for a file without any cue, ``E_ENCODING``."""
    source, charset, bom = decode(data, given.charset)
    if "\x00" in source:
        raise TabootError("E_BINARY", f"{given.path} is no captions: it holds NUL.", path=given.path)
    track = read_track(source)
    cues = merged(track.cues)
    if not cues:
        lost = f" {track.left_out} could not be read." if track.left_out else ""
        raise TabootError("E_PARSE", f"{given.path} holds no cue of captions.{lost}", path=given.path)
    writer = SourceWriter(source, given.max_chars, charset=charset, bom=bom)
    facts = Facts(lang=track.language)
    facts.places = Places.of(TIME_QUERY, write_transcript(writer, cues))
    if track.left_out:
        facts.put("cues_left_out", track.left_out)
    return Formed(writer.text, writer.offsets(), facts, charset)


def read_track(source: str) -> Track:
    """The cues of captions in any of the formats. Raises ``E_PARSE`` for XML or JSON that is none."""
    begin = source.lstrip("\ufeff \t\r\n")[:1]
    if begin == "<":
        return read_xml(source)
    if begin == "{":
        return read_json3(json_text.parse(source), source)
    return read_file(source)


def read_placed(said: Placed) -> Track:
    """The cues of captions that are a part of another text: their words stand where that says."""
    track = read_track(said.text)

    def moved(word: Word) -> Word:
        return Word(word.text, said.begins[word.start], said.ends[word.end - 1])

    cues = tuple(
        Cue(cue.start, cue.end, tuple(tuple(map(moved, line)) for line in cue.lines), cue.speaker)
        for cue in track.cues
    )
    return Track(cues, track.left_out, track.language)


def write_transcript(writer: SourceWriter, cues: Sequence[Cue]) -> list[tuple[int, int]]:
    """Write the cues as paragraphs; returns (where a cue begins in the document, at which second)."""
    places: list[tuple[int, int]] = []
    for paragraph in _paragraphs(cues):
        if places:
            writer.put("\n\n")
        first = paragraph[0]
        places.append((writer.length, first.start // 1000))
        speaker = f" {first.speaker}:" if first.speaker else ""
        writer.put(f"**{clock(first.start)}{speaker}** ")
        last = ""
        for cue in paragraph:
            if cue is not first:
                places.append((writer.length + (last != "" and not _joins(last, cue)), cue.start // 1000))
            for line in cue.lines:
                last = _write_line(writer, line, last)
    return places


def clock(milliseconds: int) -> str:
    """A time as players show it: ``1:02:03``, ``2:03``."""
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _joins(last: str, cue: Cue) -> bool:
    return _unspaced(last, cue.lines[0][0].text)


def _unspaced(last: str, text: str) -> bool:
    return bool(_UNSPACED.match(last[-1]) and _UNSPACED.match(text[0]))


def _write_line(writer: SourceWriter, line: Iterable[Word], last: str) -> str:
    """Write a line behind the word ``last``, if any; returns its own last word. Words that stand one blank
    apart are written at once."""
    begin: Word | None = None
    text, end = "", 0
    for word in line:
        as_it_is = len(word.text) == word.end - word.start
        if begin is not None and as_it_is and word.start == end + 1 and len(text) == end - begin.start:
            text, end = f"{text} {word.text}", word.end
        else:
            if begin is not None:
                writer.piece(text, begin.start, end)
                writer.put(" ")
            elif last and not _unspaced(last, word.text):
                writer.put(" ")
            begin, text, end = word, word.text, word.end
        last = word.text
    if begin is not None:
        writer.piece(text, begin.start, end)
    return last


def _paragraphs(cues: Sequence[Cue]) -> list[list[Cue]]:
    """The cues that are read together: until a pause, another speaker, or the end of a sentence where there
    are many words."""
    paragraphs: list[list[Cue]] = []
    words = 0
    for cue in cues:
        if not paragraphs or _parts(paragraphs[-1][-1], cue, words):
            paragraphs.append([])
            words = 0
        paragraphs[-1].append(cue)
        # A word of a script without blanks is a whole line; it has about two letters.
        words += sum(
            1 if not _UNSPACED.match(word.text) else 1 + len(word.text) // 2
            for line in cue.lines
            for word in line
        )
    return paragraphs


def _parts(last: Cue, cue: Cue, words: int) -> bool:
    pause = cue.start - last.end
    if pause >= _PAUSE_MS or words >= _TOO_LONG or cue.speaker != last.speaker:
        return True
    if _TURN.match(cue.lines[0][0].text):
        return True
    ended = _SENTENCE_END.search(last.lines[-1][-1].text) is not None
    return words >= _LONG and (ended or pause >= _SHORT_PAUSE_MS)
