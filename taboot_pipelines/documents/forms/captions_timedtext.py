"""YouTube's own captions: the XML of its ``timedtext`` (also called srv1, srv2 and srv3), and json3.

There is no specification of either. Known by their files: srv1 is ``<text start dur>`` in seconds, srv2
``<text t d>`` and srv3 ``<p t d>`` with ``<s>`` for each word, in ms; json3 has ``events`` with ``tStartMs``,
``dDurationMs`` and ``segs``, and leaves out what is 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any
from xml.parsers import expat

from taboot_pipelines.documents.encoding import byte_ends
from taboot_pipelines.documents.forms.captions_cues import Cue, Placed, Track, cue_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value

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
