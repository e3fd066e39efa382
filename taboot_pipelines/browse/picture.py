"""Where everything of the picture of a neighbourhood stands, so that no text lies over another.

The node is in the middle, what points at it to the left, what it points at to the right, one row for each
relation with each neighbour. A row's words stand over the straight part of its line, beside the neighbour,
and have it to themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taboot_pipelines.retrieval.pictures.layout import cut

#: In the units of the SVG. The page shows one as one pixel where there is room for it.
WIDTH = 1100
_ROW = 48
_BOX_WIDTH, _BOX_HEIGHT = 216, 38
_STRAIGHT = 184
_CENTRE_WIDTH = 196
#: Rows of each side; the list below has the others.
MAX_ROWS = 14
#: Pixels of an em: names stand in bold, kinds in regular type, words and types in type of one width.
_NAME, _KIND = 13 * 1.06, 11.0
_WORDS, _TYPE = 11 * 0.61, 10.5 * 0.61


@dataclass(frozen=True)
class Relation:
    """A relation with a neighbour, whichever documents state it. ``outgoing``: it leads to the neighbour;
    ``says``: its properties in words; ``edge_ids``: of its statements, the surest first.
    """

    type: str
    outgoing: bool
    label: str
    key: str
    name: str
    scope: str | None
    says: str
    edge_ids: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A relation as it is drawn. ``x``, ``y``: of the neighbour's box; ``path``: of the line, from its tail
    to its head; ``words_x``: the middle of its words; the texts are cut to their room.
    """

    relation: Relation
    x: float
    y: float
    path: str
    words_x: float
    name: str
    kind: str
    type: str
    says: str


@dataclass(frozen=True)
class Picture:
    """``x``, ``y``: of the box in the middle; ``left_out``: relations for which there was no room."""

    width: int
    height: int
    box_width: int
    box_height: int
    centre_width: int
    x: float
    y: float
    name: str
    kind: str
    rows: tuple[Row, ...]
    left_out: int


def draw(label: str, name: str, scope: str | None, relations: Sequence[Relation]) -> Picture:
    """The picture of a node and its relations."""
    sides = [[r for r in relations if r.outgoing is outgoing] for outgoing in (False, True)]
    most = max(1, *(min(len(side), MAX_ROWS) for side in sides))
    height = max(most * _ROW, _BOX_HEIGHT + 24) + 16
    middle = height / 2
    rows = []
    for side, outgoing in zip(sides, (False, True), strict=True):
        shown = _of_each(side)
        top = (height - len(shown) * _ROW) / 2
        rows += [_row(r, top + (n + 0.5) * _ROW, middle, outgoing) for n, r in enumerate(shown)]
    return Picture(
        width=WIDTH,
        height=int(height),
        box_width=_BOX_WIDTH,
        box_height=_BOX_HEIGHT,
        centre_width=_CENTRE_WIDTH,
        x=(WIDTH - _CENTRE_WIDTH) / 2,
        y=middle,
        name=cut(name, _CENTRE_WIDTH - 20, _NAME * 1.12),
        kind=cut(f"{label} · {scope}" if scope else label, _CENTRE_WIDTH - 20, _KIND),
        rows=tuple(rows),
        left_out=len(relations) - len(rows),
    )


def _of_each(side: Sequence[Relation]) -> list[Relation]:
    """As many as there is room for, of each type some, in their order."""
    turns: dict[str, int] = {}
    ranked = []
    for at, relation in enumerate(side):
        turn = turns[relation.type] = turns.get(relation.type, 0) + 1
        ranked.append((turn, at))
    return [side[at] for at in sorted(at for _, at in sorted(ranked)[:MAX_ROWS])]


def _row(relation: Relation, y: float, middle: float, outgoing: bool) -> Row:
    inner = (WIDTH + _CENTRE_WIDTH) / 2 if outgoing else (WIDTH - _CENTRE_WIDTH) / 2
    outer = WIDTH - _BOX_WIDTH if outgoing else _BOX_WIDTH
    sign = 1 if outgoing else -1
    bend = outer - sign * _STRAIGHT
    half = (inner + bend) / 2
    curve = f"C{half:.1f} {middle:.1f} {half:.1f} {y:.1f} {bend:.1f} {y:.1f}"
    back = f"C{half:.1f} {y:.1f} {half:.1f} {middle:.1f} {inner - 5:.1f} {middle:.1f}"
    path = (
        f"M{inner:.1f} {middle:.1f}{curve}L{outer - 6:.1f} {y:.1f}"
        if outgoing
        else f"M{outer:.1f} {y:.1f}L{bend:.1f} {y:.1f}{back}"
    )
    kind = f"{relation.label} · {relation.scope}" if relation.scope else relation.label
    return Row(
        relation=relation,
        x=WIDTH - _BOX_WIDTH if outgoing else 0,
        y=y,
        path=path,
        words_x=outer - sign * _STRAIGHT / 2,
        name=cut(relation.name, _BOX_WIDTH - 22, _NAME),
        kind=cut(kind, _BOX_WIDTH - 22, _KIND),
        type=cut(relation.type, _STRAIGHT - 14, _TYPE, fixed=True),
        says=cut(relation.says, _STRAIGHT - 14, _WORDS, fixed=True),
    )
