"""Where the things of a whole house stand: proxies to the left, services by project in the middle, hosts to
the right. The map of ``taboot browse`` stands so, and the picture of a handbook.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from taboot_pipelines.retrieval.pictures.drawn import DrawnEdge, DrawnNode
from taboot_pipelines.retrieval.pictures.layout import Group, Layout, Wire, box_at

#: Kinds whose nodes stand beside the projects, and the group of what has no relation.
LEFT = frozenset({"ReverseProxy", "Endpoint", "VPNTunnel"})
RIGHT = frozenset({"Host", "IP", "TailscaleNode"})
ONLY_NAMED = "only named"
#: Pixels from a node to the next, between groups, and of the title above one.
_CELL_WIDTH, _CELL_HEIGHT = 172, 44
_GAP, _TITLE = 36, 40
#: Pixels of a box and of the margin around it all.
_WIDTH, _MARGIN = 156, 12


def lay_out_groups(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge]) -> Layout:
    """The picture of nodes by their ``scope``, with a straight line for each of ``edges``."""
    number = {(n.label, n.key): at for at, n in enumerate(nodes)}
    edges = [e for e in edges if e.start in number and e.end in number and e.start != e.end]
    near: list[list[int]] = [[] for _ in nodes]
    for edge in edges:
        near[number[edge.start]].append(number[edge.end])
        near[number[edge.end]].append(number[edge.start])
    labels = [n.label for n in nodes]
    groups = ["" if n.label in LEFT | RIGHT else n.scope or " " for n in nodes]
    places, grounds = placed(labels, groups, near)
    # What is drawn reaches from here to there: boxes with their middles, and the grounds of groups.
    around = [(x - _WIDTH / 2, y - _CELL_HEIGHT / 2, _WIDTH, _CELL_HEIGHT) for x, y in places]
    around += [(x, y, w, h) for x, y, w, h in grounds.values()]
    left = min((x for x, *_ in around), default=0) - _MARGIN
    top = min((y for _, y, *_ in around), default=0) - _MARGIN
    boxes = [box_at(n, x - left, y - top, _WIDTH) for n, (x, y) in zip(nodes, places, strict=True)]
    at = {box.at: box for box in boxes}
    return Layout(
        width=max((x + w for x, _, w, _ in around), default=0) - left + _MARGIN,
        height=max((y + h for _, y, _, h in around), default=0) - top + _MARGIN,
        boxes=tuple(boxes),
        wires=tuple(Wire.straight(e, at[e.start], at[e.end]) for e in edges),
        legend=(),
        note="",
        groups=tuple(Group(name, x - left, y - top, w, h) for name, (x, y, w, h) in grounds.items()),
    )


def placed(
    labels: Sequence[str], groups: Sequence[str], near: Sequence[Sequence[int]]
) -> tuple[list[list[int]], dict[str, list[int]]]:
    """Where each node stands, and the box (left, top, width, height) of each group, in pixels."""
    members: dict[str, list[int]] = {}
    for n, group in enumerate(groups):
        if group:
            members.setdefault(group, []).append(n)
    sizes = {}
    for group, own in members.items():
        across = max(1, round(math.sqrt(len(own) * _CELL_HEIGHT / _CELL_WIDTH * 1.5)))
        down = math.ceil(len(own) / across)
        sizes[group] = (across, across * _CELL_WIDTH + 16, down * _CELL_HEIGHT + _TITLE)
    boxes = _shelves({g: (w, h) for g, (_, w, h) in sizes.items() if g != ONLY_NAMED})
    width = max((x + w for x, _, w, _ in boxes.values()), default=0)
    height = max((y + h for _, y, _, h in boxes.values()), default=0)
    if ONLY_NAMED in sizes:
        boxes[ONLY_NAMED] = [0, height + 3 * _GAP, *sizes[ONLY_NAMED][1:]]
    places = [[0, 0] for _ in labels]
    for group, (left, top, *_) in boxes.items():
        for n, node in enumerate(members[group]):
            row, column = divmod(n, sizes[group][0])
            places[node] = [
                left + 8 + round((column + 0.5) * _CELL_WIDTH),
                top + _TITLE - 8 + round((row + 0.5) * _CELL_HEIGHT),
            ]
    for kinds, inner, way in ((LEFT, -_CELL_WIDTH, -1), (RIGHT, width + _CELL_WIDTH, 1)):
        beside = [n for n, label in enumerate(labels) if label in kinds]
        # Proxies and hosts stand next to the projects, and each beside what it has to do with.
        linked = sorted(
            (n for n in beside if near[n]),
            key=lambda n: (
                labels[n] not in ("ReverseProxy", "Host"),
                _mean(places[o][1] for o in near[n]),
                n,
            ),
        )
        rest = [n for n in beside if not near[n]]
        outer = _column(linked, inner, way, height, places)
        _column(rest, outer + (way * _CELL_WIDTH if linked else 0), way, height, places)
    return places, boxes


def _shelves(sizes: dict[str, tuple[int, int]]) -> dict[str, list[int]]:
    """Boxes in rows, the tallest first, so that all of them are about half as high again as wide."""
    area = sum((w + _GAP) * (h + _GAP) for w, h in sizes.values())
    widest = max([math.sqrt(area / 0.9), *(w + _GAP for w, _ in sizes.values())])
    boxes: dict[str, list[int]] = {}
    x = y = tallest = 0
    for name, (w, h) in sorted(sizes.items(), key=lambda s: (-s[1][1], s[0])):
        if x and x + w > widest:
            x, y, tallest = 0, y + tallest + _GAP, 0
        boxes[name] = [x, y, w, h]
        x, tallest = x + w + _GAP, max(tallest, h)
    return boxes


def _column(nodes: Sequence[int], x: int, way: int, height: int, places: list[list[int]]) -> int:
    """Places nodes in columns from ``x`` outwards and from the first projects downwards, as high as these or,
    where there are many, about as wide as high; gives where the next column stands."""
    square = math.sqrt(len(nodes) * _CELL_WIDTH / _CELL_HEIGHT)
    down = max(1, height // _CELL_HEIGHT, math.ceil(square))
    for n, node in enumerate(nodes):
        column, row = divmod(n, down)
        places[node] = [
            x + way * column * _CELL_WIDTH,
            _TITLE - 8 + round((row + 0.5) * _CELL_HEIGHT),
        ]
    return x + way * math.ceil(len(nodes) / down) * _CELL_WIDTH


def _mean(values: Iterable[int]) -> float:
    known = list(values)
    return sum(known) / len(known)
