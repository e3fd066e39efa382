"""Maps of the house: columns of boxes and what leads from one to another, as Mermaid and as SVG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from taboot_pipelines.retrieval.handbook.pages import Map, printable

#: Pixels: of a box, a line in it, its title, between boxes, between columns; code points that fit in.
_WIDTH, _LINE, _TITLE, _BELOW, _BESIDE, _FITS = 200, 22, 26, 18, 70, 24
#: Lines and arrows of one map, beyond which a picture tells nobody anything.
MAX_ARROWS = 400


@dataclass(frozen=True, slots=True)
class Item:
    """A thing on a map; ``key`` tells it from every other; ``page``: where it leads."""

    key: str
    name: str
    page: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """Things that belong together, under what they are."""

    title: str
    items: Sequence[Item]


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one thing to another; ``kind``: ``needs``, ``connects`` or ``routes``."""

    start: str
    end: str
    kind: str


def draw(columns: Sequence[Sequence[Box]], arrows: Sequence[Arrow], root: str, title: str) -> Map:
    """A map of columns of boxes from left to right. ``root``: the way to the top of the handbook."""
    known = {item.key for column in columns for box in column for item in box.items}
    shown = [a for a in dict.fromkeys(arrows) if a.start in known and a.end in known and a.start != a.end]
    shown = shown[:MAX_ARROWS]
    return Map(_mermaid(columns, shown), _svg(columns, shown, root, title))


def wrapped(boxes: Sequence[Box], columns: int) -> list[list[Box]]:
    """Boxes in so many columns of about one height, in their order."""
    heights = [_height(box) for box in boxes]
    most = max([sum(heights) / max(columns, 1), *heights], default=0)
    found: list[list[Box]] = [[]]
    filled = 0.0
    for box, height in zip(boxes, heights, strict=True):
        if found[-1] and filled + height / 2 > most and len(found) < columns:
            found.append([])
            filled = 0.0
        found[-1].append(box)
        filled += height
    return found


def _height(box: Box) -> float:
    return _TITLE + _LINE * len(box.items) + 8 + _BELOW


# --- Mermaid

_LINKS = {"needs": "-->", "connects": "-.->", "routes": "==>"}


def _mermaid(columns: Sequence[Sequence[Box]], arrows: Sequence[Arrow]) -> str:
    lines, numbers = ["flowchart LR"], dict[str, int]()
    for n, box in enumerate(box for column in columns for box in column):
        lines.append(f'  subgraph b{n} ["{_label(box.title)}"]')
        for item in box.items:
            numbers[item.key] = len(numbers)
            lines.append(f'    n{numbers[item.key]}["{_label(item.name)}"]')
        lines.append("  end")
    lines += [f"  n{numbers[a.start]} {_LINKS[a.kind]} n{numbers[a.end]}" for a in arrows]
    return "\n".join(lines)


def _label(text: str) -> str:
    """A text between quotes of Mermaid: what is more than a letter, a digit or a plain mark is a code."""
    return re.sub(r"[^\w \-./:@()]|_", lambda m: f"#{ord(m[0])};", printable(text)) or " "


# --- SVG


def _svg(columns: Sequence[Sequence[Box]], arrows: Sequence[Arrow], root: str, title: str) -> str:
    """The map as SVG, drawn in the colours of the page (``svg.map`` of its style)."""
    parts: list[str] = []
    at: dict[str, tuple[int, float]] = {}
    tallest = 0.0
    heights = [sum(map(_height, column)) for column in columns]
    for n, column in enumerate(columns):
        x, y = _BESIDE / 2 + n * (_WIDTH + _BESIDE), 10.0 + (max(heights) - heights[n]) / 2
        for box in column:
            height = _height(box) - _BELOW
            parts.append(
                f'<g><rect class="box" x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{height:.0f}"/>'
                f'<text class="title" x="{x + 10:.0f}" y="{y + 17:.0f}">{_shown(box.title)}</text>'
            )
            for line, item in enumerate(box.items):
                middle = y + _TITLE + _LINE * line + _LINE / 2
                at[item.key] = (n, middle)
                text = f'<text x="{x + 10:.0f}" y="{middle + 4:.0f}">{_shown(item.name)}</text>'
                if item.page:
                    text = f'<a href="{escape(root + item.page)}.html">{text}</a>'
                parts.append(text)
            parts.append("</g>")
            y += height + _BELOW
            tallest = max(tallest, y)
    wires = [_wire(a, at) for a in arrows]
    width = len(columns) * (_WIDTH + _BESIDE)
    return (
        f'<svg class="map" width="{width}" height="{tallest:.0f}" role="img">'
        f"<title>{escape(title)}</title>"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6"'
        ' orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>'
        f"{''.join(wires)}{''.join(parts)}</svg>"
    )


def _shown(text: str) -> str:
    """As much of a name as has room, with all of it for who points at it."""
    text = printable(text)
    short = text if len(text) <= _FITS else f"{text[: _FITS - 1]}…"
    return f"{escape(short)}<title>{escape(text)}</title>"


def _wire(arrow: Arrow, at: dict[str, tuple[int, float]]) -> str:
    (n, y), (m, z) = at[arrow.start], at[arrow.end]
    out, into = (-1, 1) if n > m else (1, 1 if n == m else -1)
    start, end = _side(n, out), _side(m, into)
    bend = _BESIDE / 2 if n == m else max(_BESIDE / 2, abs(end - start) * 0.4)
    return (
        f'<path class="{arrow.kind}" d="M{start:.0f} {y:.0f}C{start + out * bend:.0f} {y:.0f}'
        f' {end + into * bend:.0f} {z:.0f} {end + into * 2:.0f} {z:.0f}" marker-end="url(#tip)"/>'
    )


def _side(column: int, right: int) -> float:
    """Where the boxes of a column end: on the left (-1) or on the right (1)."""
    return _BESIDE / 2 + column * (_WIDTH + _BESIDE) + (_WIDTH if right > 0 else 0)
