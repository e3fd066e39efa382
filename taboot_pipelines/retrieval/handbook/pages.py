"""What a page of the handbook is made of, whatever it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement stands: ``source:path``, or the URL of a page of the web, its line, and what stands
    there. ``page``: of the handbook, of that document."""

    file: str
    line: int
    quote: str
    page: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text; ``page``: what it leads to; ``code``: it is a value as it stands in a file."""

    text: str
    page: str = ""
    code: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What is stated together, with where it stands."""

    cells: tuple[Cell, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Statements of one kind; each row is one."""

    kind: ClassVar[str] = "table"
    columns: tuple[str, ...]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Said:
    """A paragraph, a step, a block of code or a heading of a document: ``form`` is ``sentence``, ``item``,
    ``code`` or ``heading``; ``parts``: its sentences, each with where it stands; ``ordinal``: of an item of
    an ordered list."""

    form: str
    parts: Sequence[tuple[str, tuple[Place, ...]]]
    ordinal: int | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """Statements of one document, in their order. ``title``: what it is called, with its ``page``; ``under``:
    the headings there. ``remark``: what is said of it, which is no statement of a document."""

    kind: ClassVar[str] = "passage"
    blocks: Sequence[Said | Table]
    title: str = ""
    page: str = ""
    under: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """What no document says, a ``gap``; or that there is none of what is asked for."""

    kind: ClassVar[str] = "note"
    text: str
    gap: bool = False


@dataclass(frozen=True, slots=True)
class Map:
    """A picture: as Mermaid, and as an SVG whose links are relative to the page."""

    kind: ClassVar[str] = "map"
    mermaid: str
    svg: str


@dataclass(frozen=True, slots=True)
class Links:
    """Pages of the handbook, each with what stands beside its name."""

    kind: ClassVar[str] = "links"
    items: Sequence[tuple[Cell, str]]


def printable(text: str) -> str:
    """A text as it may be shown: what cannot be seen, or turns the direction of text, is a replacement
    character; lines and tabs stay."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


Block = Table | Passage | Note | Map | Links


@dataclass(slots=True)
class Section:
    title: str
    blocks: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Page:
    """``name``: its file from the top of the handbook, without the ending; ``kind``: what it is of, in a
    word; ``beside``: what tells it apart from others of its title."""

    name: str
    title: str
    kind: str
    sections: list[Section]
    beside: str = ""
