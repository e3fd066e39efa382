"""Where everything of the picture of a graph stands, so that no text lies over another.

What the picture is about stands in the middle column; what points at it, and what leads there, in the
columns to the left, what it points at in those to the right. Between two columns is a gutter, in which each
relation has a place for its words, whichever way its line goes. Columns and gutters lie side by side, and
within each of them the rectangles are pushed apart, so none lies over another; lines run beneath them.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from taboot_pipelines.retrieval.pictures.drawn import At, DrawnEdge, DrawnNode, Selection

# --- How wide texts are before anything draws them, and texts cut to the room that they have

#: Widths in ems of the widest font that a system may have for its pages, by kind of character.
_NARROW = frozenset("fijlrtI.,:;'|!/\\()[]{}-` ")
_WIDE = frozenset("mwMW@%—…")


def printable(text: str) -> str:
    """A text in one line of what can be shown; what cannot (control characters, halves of pairs), and what
    turns the direction of text, is a replacement character.
    """
    flat = " ".join(text.split())
    return flat if flat.isprintable() else "".join(c if c.isprintable() else "�" for c in flat)


def width_of(text: str, em: float) -> float:
    """Pixels that a text needs at most. ``em``: pixels of an em."""
    return em * sum(map(_ems, text))


def cut(text: str, room: float, em: float) -> str:
    """As much of a text as has room: its beginning and, where names differ, more of its end."""
    text = "".join(c if c.isprintable() else "�" for c in text)
    widths = [em * _ems(c) for c in text]
    if sum(widths) <= room:
        return text
    room -= em * _ems("…")
    head, front = 0, 0.0
    while front + widths[head] <= room * 0.4:
        front += widths[head]
        head += 1
    tail, back = len(text), 0.0
    while back + widths[tail - 1] <= room - front:
        back += widths[tail - 1]
        tail -= 1
    return f"{text[:head]}…{text[tail:]}"


def _ems(character: str) -> float:
    """The width of a character in a proportional font."""
    if unicodedata.east_asian_width(character) in "WF":
        return 1.3
    if character in _NARROW:
        return 0.42
    if character in _WIDE:
        return 1.02
    return 0.64 if character.islower() or character.isdigit() else 0.78


#: White on each of these is at least 4.5:1, so a box reads the same on a light page and on a dark one.
_COLOURS = {
    "Service": "#2563b8",
    "Container": "#0e7490",
    "Image": "#7a3fb5",
    "Network": "#15803d",
    "Host": "#b45309",
    "IP": "#9a3412",
    "ReverseProxy": "#b91c1c",
    "Endpoint": "#b0246f",
    "VPNTunnel": "#3f6212",
    "TailscaleNode": "#4338ca",
    "ROOT": "#b91c1c",
    "URL": "#2563b8",
}
_OTHER = "#4b5563"

#: Pixels: of a box, of the words of a relation, and of what lies around them.
BOX_HEIGHT, TAG_HEIGHT, CHIP_HEIGHT = 34, 18, 22
#: Words that lead somewhere stand as far apart as a finger needs (WCAG 2.2, 2.5.8).
_BOX_PITCH, _TAG_PITCH = 42, 24
_BOX_WIDTHS = (84, 196)
_TAG_WIDTH = 212
_LEAD = 40
_MARGIN = 12
_ROOM = 8
NAME_SIZE, KIND_SIZE, TAG_SIZE, CHIP_SIZE = 12.0, 10.0, 10.5, 11.5
#: Pixels of an em of a name, in bold.
_NAME_EM = NAME_SIZE * 1.06
#: Legends go on in the next line at this width, or at the picture's.
_LEGEND_WIDTH = 640


@dataclass(frozen=True)
class Box:
    """A node; ``x`` and ``y``: of its middle; ``title``: all that is to be said of it."""

    at: At
    x: float
    y: float
    width: float
    colour: str
    name: str
    kind: str
    title: str
    start: bool
    page: str


def box_at(node: DrawnNode, x: float, y: float, width: float) -> Box:
    """The box of a node, its texts cut to their room."""
    return Box(
        (node.label, node.key),
        x,
        y,
        width,
        colour(node.label),
        cut(printable(node.name), width - 2 * _ROOM, _NAME_EM),
        cut(printable(_kind(node)), width - 2 * _ROOM, KIND_SIZE),
        printable(f"{node.label} {node.name}" + (f" in {node.scope}" if node.scope else "")),
        node.start,
        node.page,
    )


@dataclass(frozen=True)
class Group:
    """A ground with a title on which boxes stand; ``x`` and ``y``: of its upper left corner."""

    title: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Tag:
    """The words of a relation; ``x`` and ``y``: of their middle."""

    x: float
    y: float
    width: float
    text: str


@dataclass(frozen=True)
class Wire:
    """A relation: its ends, line and arrowhead as SVG paths, its words where it has any, what is ``told`` of
    it on request, and the ``page`` to which its words lead.
    """

    start: At
    end: At
    path: str
    tip: str
    tag: Tag | None
    told: tuple[tuple[str, str], ...]
    page: str = ""

    @classmethod
    def straight(cls, edge: DrawnEdge, start: Box, end: Box) -> Wire:
        """A line from the middle of one box to the edge of another, which has no room for words."""
        x, y = end.x - start.x, end.y - start.y
        far = math.hypot(x, y) or 1.0
        inside = min(end.width / 2 / (abs(x) or 1e-9), BOX_HEIGHT / 2 / (abs(y) or 1e-9))
        tip_x, tip_y = end.x - x * inside, end.y - y * inside
        back_x, back_y, side_x, side_y = x / far * 8, y / far * 8, -y / far * 4, x / far * 4
        tip = (
            f"M{tip_x:.1f} {tip_y:.1f}L{tip_x - back_x + side_x:.1f} {tip_y - back_y + side_y:.1f}"
            f" {tip_x - back_x - side_x:.1f} {tip_y - back_y - side_y:.1f}z"
        )
        path = f"M{start.x:.1f} {start.y:.1f}L{tip_x:.1f} {tip_y:.1f}"
        told = (("", f"{start.name} {edge.type} {end.name}"),)
        return cls(edge.start, edge.end, path, tip, None, told)


@dataclass(frozen=True)
class Chip:
    """An entry of the legend: how many nodes of a label are drawn. ``x`` and ``y``: of its middle."""

    label: str
    x: float
    y: float
    width: float
    colour: str
    text: str


@dataclass(frozen=True)
class Layout:
    """``note``: a line below the picture, empty if there is none."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    legend: tuple[Chip, ...]
    note: str
    groups: tuple[Group, ...] = ()

    @property
    def tags(self) -> tuple[Tag, ...]:
        return tuple(w.tag for w in self.wires if w.tag is not None)


class _Placed(NamedTuple):
    """A relation in the gutter where its words stand. ``inner`` and ``outer``: its ends, nearer to the middle
    and farther from it; ``side``: 1 to the right, -1 to the left; ``gutter``: the two columns
    between which it lies; ``around``: it goes round the outside, its ends are of one column.
    """

    edge: DrawnEdge
    inner: At
    outer: At
    side: int
    gutter: tuple[int, int]
    around: bool = False


def lay_out(chosen: Selection, *, upright: bool = False, legend: bool = True, note: str = "") -> Layout:
    """The picture of nodes and relations. ``upright``: the nodes are a way, which stands from top to bottom;
    otherwise they surround the starts. ``legend``: how many nodes of each label there are stands above it.
    """
    nodes = {(n.label, n.key): n for n in chosen.nodes}
    if upright:
        columns = dict.fromkeys(nodes, 0)
        y = {at: float(n * (_BOX_PITCH + 30)) for n, at in enumerate(nodes)}
        placed = [_Placed(e, e.start, e.end, 1, (0, 1)) for e in chosen.edges]
        rows = {n: (y[p.inner] + y[p.outer]) / 2 for n, p in enumerate(placed)}
    else:
        columns = _columns(nodes, chosen.edges)
        placed = [_place(e, columns) for e in chosen.edges]
        y = _heights(nodes, columns, placed)
        rows = _rows(placed, y)
    widths = _widths(nodes, columns)
    tags = [_tag_text(p.edge) for p in placed]
    x, gutters, width = _across(widths, placed, tags, upright)
    labels = [n.label for n in nodes.values()] if legend else []
    chips, below = _legend(labels, max(width, _LEGEND_WIDTH))
    note = printable(note)
    low = min([*(v - BOX_HEIGHT / 2 for v in y.values()), *(v - TAG_HEIGHT / 2 for v in rows.values()), 0.0])
    high = max([*(v + BOX_HEIGHT / 2 for v in y.values()), *(v + TAG_HEIGHT / 2 for v in rows.values()), 0.0])
    down = below + _MARGIN - low
    boxes = {at: box_at(n, x[columns[at]], y[at] + down, widths[columns[at]]) for at, n in nodes.items()}
    wires = []
    for n, (p, text) in enumerate(zip(placed, tags, strict=True)):
        tag = Tag(gutters[p.gutter], rows[n] + down, width_of(text, TAG_SIZE) + 2 * _ROOM, text)
        wires.append(_upright_wire(p, tag, boxes) if upright else _wire(p, tag, boxes))
    foot = 14 + TAG_HEIGHT if note else 0
    return Layout(
        width=max(
            width,
            *(c.x + c.width / 2 + _MARGIN for c in chips),
            width_of(note, TAG_SIZE) + 2 * (_MARGIN + _ROOM) if note else 0.0,
        ),
        height=high + down + foot + _MARGIN,
        boxes=tuple(boxes.values()),
        wires=tuple(wires),
        legend=tuple(chips),
        note=note,
    )


def colour(label: str) -> str:
    """The ground of a label's boxes."""
    return _COLOURS.get(label, _OTHER)


def _kind(node: DrawnNode) -> str:
    if node.kind is not None:
        return node.kind
    return f"{node.label} · {node.scope}" if node.scope else node.label


def _box_width(node: DrawnNode) -> float:
    least, most = _BOX_WIDTHS
    needed = max(width_of(printable(node.name), _NAME_EM), width_of(printable(_kind(node)), KIND_SIZE))
    return min(max(needed + 2 * _ROOM, least), most)


def _widths(nodes: Mapping[At, DrawnNode], columns: Mapping[At, int]) -> dict[int, float]:
    """How wide the boxes of each column are."""
    widest: dict[int, float] = defaultdict(float)
    for at, node in nodes.items():
        widest[columns[at]] = max(widest[columns[at]], _box_width(node))
    return dict(widest)


def _tag_text(edge: DrawnEdge) -> str:
    kind = cut(printable(edge.type), _TAG_WIDTH - 2 * _ROOM, TAG_SIZE)
    left = _TAG_WIDTH - 2 * _ROOM - width_of(f"{kind} ", TAG_SIZE)
    says = printable(edge.says)
    if not says or left < width_of("M…M", TAG_SIZE):
        return kind
    return f"{kind} {cut(says, left, TAG_SIZE)}".strip()


def _columns(nodes: Mapping[At, DrawnNode], edges: Sequence[DrawnEdge]) -> dict[At, int]:
    """The column of each node: 0 of the starts, and one farther out with each step from them."""
    joined: dict[At, list[tuple[At, int]]] = defaultdict(list)
    for edge in edges:
        joined[edge.start].append((edge.end, 1))
        joined[edge.end].append((edge.start, -1))
    columns = {at: 0 for at, n in nodes.items() if n.start}
    queue = list(columns)
    for at in queue:
        # What it points at first: a neighbour of both directions stands to the right.
        for other, way in sorted(joined[at], key=lambda j: -j[1]):
            if other not in columns:
                own = columns[at]
                columns[other] = own + (way if own == 0 else (1 if own > 0 else -1))
                queue.append(other)
    return {at: columns.get(at, 0) for at in nodes}


def _place(edge: DrawnEdge, columns: Mapping[At, int]) -> _Placed:
    start, end = columns[edge.start], columns[edge.end]
    inner, outer = (edge.start, edge.end) if abs(start) <= abs(end) else (edge.end, edge.start)
    column = columns[outer]
    side = 1 if column >= 0 else -1
    beside = column if start == end else column - side
    return _Placed(edge, inner, outer, side, (beside, beside + side), start == end)


def _heights(
    nodes: Mapping[At, DrawnNode], columns: Mapping[At, int], placed: Sequence[_Placed]
) -> dict[At, float]:
    """The height of each node: near those by which it came, in the order of its relations, apart from the
    others of its column and with room for the words of what leads there.
    """
    words = Counter(p.outer for p in placed if not p.around)
    first: dict[At, str] = {}
    near: dict[At, list[At]] = defaultdict(list)
    for p in placed:
        first.setdefault(p.outer, p.edge.type)
        if not p.around:
            near[p.outer].append(p.inner)
    y: dict[At, float] = {}
    for column in sorted(set(columns.values()), key=lambda c: (abs(c), c)):
        own = [at for at in nodes if columns[at] == column]
        wanted = {at: _mean([y[n] for n in near[at] if n in y]) for at in own}
        if column:
            own.sort(key=lambda at: (wanted[at], first.get(at, ""), nodes[at].name, at))
        bands = [max(_BOX_PITCH, words[at] * _TAG_PITCH + 4) if column else _BOX_PITCH for at in own]
        y.update(zip(own, spread([wanted[at] for at in own], bands), strict=True))
    return y


def _rows(placed: Sequence[_Placed], y: Mapping[At, float]) -> dict[int, float]:
    """The height of the words of each relation: beside its outer end, apart from others of the gutter."""
    gutters: dict[tuple[int, int], list[int]] = defaultdict(list)
    for n, p in enumerate(placed):
        gutters[min(p.gutter), max(p.gutter)].append(n)
    rows: dict[int, float] = {}
    for inside in gutters.values():
        wanted = {
            n: (y[placed[n].inner] + y[placed[n].outer]) / 2 if placed[n].around else y[placed[n].outer]
            for n in inside
        }
        inside.sort(key=lambda n: (wanted[n], y[placed[n].inner], n))
        heights = spread([wanted[n] for n in inside], [_TAG_PITCH] * len(inside))
        rows.update(zip(inside, heights, strict=True))
    return rows


def spread(wanted: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Middles of what stands in a row in this order without touching, as near as can be (in squares) to where
    each is wanted.
    """
    offsets = [0.0]
    for a, b in pairwise(sizes):
        offsets.append(offsets[-1] + (a + b) / 2)
    # Neighbours that would touch are joined and stand around the mean of what they want.
    groups: list[tuple[float, int]] = []
    for target, offset in zip(wanted, offsets, strict=False):
        total, count = target - offset, 1
        while groups and groups[-1][0] / groups[-1][1] >= total / count:
            before = groups.pop()
            total, count = total + before[0], count + before[1]
        groups.append((total, count))
    means = [total / count for total, count in groups for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]


def _across(
    widest: Mapping[int, float], placed: Sequence[_Placed], tags: Sequence[str], upright: bool
) -> tuple[dict[int, float], dict[tuple[int, int], float], float]:
    """The middle of each column, of each gutter (named by either of its sides), and the width of it all."""
    room: dict[tuple[int, int], float] = defaultdict(float)
    for p, text in zip(placed, tags, strict=True):
        between = (min(p.gutter), max(p.gutter))
        words = width_of(text, TAG_SIZE) + 2 * _ROOM if text else 0.0
        room[between] = max(room[between], words + (0 if upright else 2 * _LEAD))
    x: dict[int, float] = {}
    gutters: dict[tuple[int, int], float] = {}
    edge = float(_MARGIN)
    if upright:
        # A way is one column, and its words stand upon its line.
        width = max([*widest.values(), *room.values(), 0.0])
        middle = edge + width / 2
        return {0: middle}, {(0, 1): middle}, width + 2 * _MARGIN
    if not widest:
        return {}, {}, 2.0 * _MARGIN
    for column in range(min(widest) - 1, max(widest) + 1):
        if column in widest:
            x[column] = edge + widest[column] / 2
            edge += widest[column]
        gap = room.get((column, column + 1), 0.0)
        gutters[column, column + 1] = gutters[column + 1, column] = edge + gap / 2
        edge += gap
    return x, gutters, edge + _MARGIN


def _wire(p: _Placed, tag: Tag, boxes: Mapping[At, Box]) -> Wire:
    inner, outer, side = boxes[p.inner], boxes[p.outer], p.side
    near, far = tag.x - side * tag.width / 2, tag.x + side * tag.width / 2
    own = inner.x + side * inner.width / 2
    other = outer.x + (side if p.around else -side) * outer.width / 2
    apart = 7.0 if p.inner == p.outer else 0.0
    if p.around:
        path = f"{_curve(own, inner.y - apart, near, tag.y)}{_curve(near, tag.y, other, outer.y + apart)}"
        points_at_outer = p.edge.end == p.outer
        tip = _tip(other, outer.y + apart, -side) if points_at_outer else _tip(own, inner.y - apart, -side)
    else:
        path = (
            f"{_curve(own, inner.y, near, tag.y)}L{far:.1f} {tag.y:.1f}{_curve(far, tag.y, other, outer.y)}"
        )
        tip = _tip(other, outer.y, side) if p.edge.end == p.outer else _tip(own, inner.y, -side)
    return _drawn(p.edge, path, tip, tag)


def _upright_wire(p: _Placed, tag: Tag, boxes: Mapping[At, Box]) -> Wire:
    upper, lower = sorted((boxes[p.inner], boxes[p.outer]), key=lambda b: b.y)
    top, bottom = upper.y + BOX_HEIGHT / 2, lower.y - BOX_HEIGHT / 2
    down = boxes[p.edge.end] is lower
    end, way = (bottom, 1) if down else (top, -1)
    tip = f"M{tag.x:.1f} {end:.1f}l-4 {-8 * way}h8z"
    path = f"M{tag.x:.1f} {top:.1f}L{tag.x:.1f} {bottom:.1f}"
    return _drawn(p.edge, path, tip, tag)


def _drawn(edge: DrawnEdge, path: str, tip: str, tag: Tag) -> Wire:
    told = tuple((printable(name), printable(value)) for name, value in edge.told)
    return Wire(edge.start, edge.end, path, tip, tag if tag.text else None, told, edge.page)


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    half = (x1 + x2) / 2
    return f"M{x1:.1f} {y1:.1f}C{half:.1f} {y1:.1f} {half:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


def _tip(x: float, y: float, way: int) -> str:
    """An arrowhead whose point is at a place; ``way``: 1 if it points to the right."""
    return f"M{x:.1f} {y:.1f}l{-8 * way} -4v8z"


def _legend(labels: Sequence[str], width: float) -> tuple[list[Chip], float]:
    """The labels that are drawn with how many nodes each has, most first; and how high they stand."""
    chips = []
    x, y = float(_MARGIN), _MARGIN + CHIP_HEIGHT / 2
    for label, count in sorted(Counter(labels).items(), key=lambda c: (-c[1], c[0])):
        text = f"{printable(label)} {count:,}"
        wide = width_of(text, CHIP_SIZE) + 2 * _ROOM
        if x > _MARGIN and x + wide > width - _MARGIN:
            x, y = float(_MARGIN), y + CHIP_HEIGHT + 6
        chips.append(Chip(label, x + wide / 2, y, wide, colour(label), text))
        x += wide + 6
    return chips, y + CHIP_HEIGHT / 2 + 14 if chips else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
