"""Caption files: WebVTT (https://www.w3.org/TR/webvtt1/), SubRip (.srt) and SubViewer as YouTube writes it
(.sbv).

What people have on their disks keeps to none of them, so one reader takes all: a line with two times begins
a cue, and what cannot be read is counted and left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from taboot_pipelines.documents.forms.captions_cues import Cue, Placed, Track, cue_of

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
