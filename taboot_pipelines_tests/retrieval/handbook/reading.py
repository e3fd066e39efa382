"""Reads a handbook's Markdown as a stranger would: its statements, each with the places that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_NOTE = re.compile(r"\[\^(\d+)\]: (`+) ?(.+?) ?\2 (`*) ?(.*?) ?\4")
_MARK = re.compile(r"\[\^(\d+)\]")
_FENCE = re.compile(r"(`{3,})(\w*)")


class Place(NamedTuple):
    file: str
    line: int
    quote: str


class Statement(NamedTuple):
    """What stands before one run of note marks, and the places of these; none where it has no mark."""

    text: str
    places: tuple[Place, ...]


def statements(page: Path) -> Iterator[Statement]:
    """All that a page says: not its headings, links, maps, gaps and what it was made of."""
    lines = page.read_text("utf-8").split("\n")
    notes = {}
    for line in lines:
        if note := _NOTE.fullmatch(line):
            file, _, number = note[3].rpartition(":")
            notes[note[1]] = Place(file, int(number), note[5])
    at = lines.index(next(x for x in lines if x.startswith("# "))) + 4
    end = len(lines) - 1 - lines[::-1].index("---")
    while at < end:
        line = lines[at]
        at += 1
        if fence := _FENCE.fullmatch(line):
            close = lines.index(fence[1], at)
            code, at = "\n".join(lines[at:close]), close + 1
            if fence[2] != "mermaid":
                assert lines[at + 1].startswith("Source: "), lines[at + 1]
                yield from _cut(code + lines[at + 1].removeprefix("Source: "), notes)
                at += 2
        elif line.startswith("| ") and lines[at].startswith("| ---"):
            at += 1
        elif line.startswith("|"):
            cells = line.removeprefix("|").removesuffix("|").strip()
            text, _, marks = cells.rpartition("|")
            yield from _cut(text + marks.replace(" ", ""), notes)
        elif line and not line.startswith(("#", "> ", "* ")):
            yield from _cut(line, notes)


def _cut(line: str, notes: dict[str, Place]) -> Iterator[Statement]:
    text, places = "", []
    for n, part in enumerate(_MARK.split(line)):
        if n % 2:
            places.append(notes[part])
        elif part.strip() or not n:
            if places:
                yield Statement(text, tuple(places))
                places = []
            text = part
    yield Statement(text, tuple(places))
