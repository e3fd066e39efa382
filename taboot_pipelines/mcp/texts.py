"""Texts for an assistant: the summary first, a line a fact, never longer than a bound, and what documents say
marked as theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from taboot_pipelines.errors import TabootError

#: Characters of one answer at most, some 750 tokens, and of one of its lines.
MAX_CHARS, MAX_LINE = 3_000, 400
#: Before each line that is quoted from a document.
MARK = "| "
#: Room for the line that says how to go on.
_ROOM = 80


def plain(value: object, width: int = MAX_LINE) -> str:
    """A value in one line, without control characters: what a thing is called may hold anything."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    if len(text) <= width:
        return text
    # Rather a word less than half of one.
    whole = text[:width].rpartition(" ")[0]
    return f"{whole if 2 * len(whole) > width else text[: width - 1]}…"


def quoted(text: str, lines: int = 12, *, first: int = 0, blank: bool = False) -> str:
    """Text of a document, each line behind :data:`MARK`, so that nothing in it can be taken for what the
    server says. ``blank``: with its empty lines; ``first``: the number of the line that it begins with."""
    held = [line for line in text.split("\n") if blank or line.strip()]
    shown = [f"{MARK}{_line(line)}" for line in held[first : first + lines]]
    return "\n".join([*shown, f"{MARK}… {len(held) - lines} more lines"] if len(held) > lines else shown)


def _line(text: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in text.rstrip())
    return shown if len(shown) <= MAX_LINE else f"{shown[: MAX_LINE - 1]}…"


def cells(named: Mapping[str, object]) -> tuple[str, list[str]]:
    """Cells of a row in one line, and those of several lines, which are some file's: each with its lines
    quoted. What has several words stands in quotes, so that one can tell where it ends."""
    shown = {name: str(value) for name, value in named.items() if value not in (None, "")}
    long = {name: value for name, value in shown.items() if "\n" in value.strip()}
    short = {name: " ".join(value.split()) for name, value in shown.items() if name not in long}
    said = plain(
        ", ".join(f"{n} {json.dumps(v, ensure_ascii=False) if ' ' in v else v}" for n, v in short.items())
    )
    return said, [f"  {name}:\n{quoted(value)}" for name, value in long.items()]


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def start_of(cursor: str | None) -> int:
    """The number of the first item that a cursor means. Raises ``E_QUERY``."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 9):
        raise TabootError("E_QUERY", "The cursor must be one that an answer of this tool ended with.")
    return int(cursor)


@dataclass
class Page:
    """One answer: ``lead``, then as many ``items`` as fit from number ``start``, then the ``notes``."""

    lead: str
    items: Iterable[str] = ()
    start: int = 0
    notes: list[str] = field(default_factory=list)
    #: How many items there are, where that is more than are given.
    total: int | None = None

    def text(self) -> str:
        room = MAX_CHARS - len(self.lead) - sum(len(n) + 1 for n in self.notes) - _ROOM
        shown: list[str] = []
        more = False
        at = self.start
        for item in self._from_start():
            if shown and room < len(item) + 1:
                more = True
                break
            # An item that is longer than all the room is cut: the next page would begin with it again.
            shown.append(item if len(item) <= room else f"{item[: max(room - 2, 1)]}…")
            room -= len(item) + 1
            at += 1
        if self.total is not None and at < self.total:
            more = True
        parts = [self.lead, *shown, *self.notes]
        if more:
            of = "" if self.total is None else f" of {self.total:,}"
            parts.append(f"(shown up to {at:,}{of}; go on with cursor={at})")
        return "\n".join(part for part in parts if part)[:MAX_CHARS]

    def _from_start(self) -> Iterator[str]:
        for number, item in enumerate(self.items):
            if number >= self.start:
                yield item
