"""What is drawn of a graph: relations that say the same once, and no more than can be looked at."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: Of a node: its label and its key.
At = tuple[str, str]

#: What a mention counts as, in steps: what is only named together is drawn after what is related.
_MENTION = 100
#: Statements of one relation that are told one by one.
_TOLD = 6


class DrawnNode(NamedTuple):
    """A node of a picture; ``start``: the picture is of what surrounds it; ``scope``: what tells it apart;
    ``kind``: what stands below its name in place of its label and scope; ``page``: where its box leads.
    """

    label: str
    key: str
    name: str
    start: bool
    scope: str | None = None
    kind: str | None = None
    page: str = ""


class DrawnEdge(NamedTuple):
    """An arrow of a picture; ``start`` and ``end``: label and key of the nodes; ``says``: its properties in
    words; ``told``: names and values that are shown of it on request; ``page``: where its words lead.
    """

    type: str
    start: At
    end: At
    says: str = ""
    told: tuple[tuple[str, str], ...] = ()
    page: str = ""


class Selection(NamedTuple):
    """The nodes and relations of a picture; ``left_out``: relations for which there is no room."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    left_out: int = 0


def choose(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge], limit: int) -> Selection:
    """The starts, and at most ``limit`` relations with their ends: the nearest first, of each type some,
    mentions last. Statements of one type between the same nodes are one relation. What no relation that is
    drawn leads to is left out, and so are edges of no node.
    """
    known = {(n.label, n.key): n for n in nodes}
    groups: dict[tuple[str, At, At], list[DrawnEdge]] = {}
    for edge in edges:
        if edge.start in known and edge.end in known:
            groups.setdefault((edge.type, edge.start, edge.end), []).append(edge)
    relations = [_joined(group) for group in groups.values()]
    starts = [at for at, n in known.items() if n.start]
    far = _distances(starts, relations)
    turns: Counter[tuple[str, int]] = Counter()
    ranked = []
    for n, edge in enumerate(relations):
        distance = min(far.get(edge.start, _MENTION**2), far.get(edge.end, _MENTION**2))
        distance += _MENTION if edge.type == "MENTIONS" else 0
        turn = turns[edge.type, distance] = turns[edge.type, distance] + 1
        ranked.append((distance, turn, n))
    picked = [relations[n] for n in sorted(n for _, _, n in sorted(ranked)[:limit])]
    joined = _distances(starts, picked)
    drawn = [e for e in picked if e.start in joined and e.end in joined]
    shown = tuple(n for at, n in known.items() if at in joined)
    return Selection(shown, tuple(drawn), len(relations) - len(drawn))


def _joined(group: Sequence[DrawnEdge]) -> DrawnEdge:
    """What several statements of one relation say."""
    said = list(dict.fromkeys(e.says for e in group if e.says))
    more = f" +{len(said) - 1}" if len(said) > 1 else ""
    told = [pair for edge in group[:_TOLD] for pair in edge.told]
    if len(group) > _TOLD:
        told.append(("and", f"{len(group) - _TOLD:,} more statements"))
    return group[0]._replace(says=(said[0] + more) if said else "", told=tuple(dict.fromkeys(told)))


def _distances(starts: Sequence[At], edges: Sequence[DrawnEdge]) -> Mapping[At, int]:
    """How many steps each node is from the nearest start; none for what no relation leads to."""
    joined: dict[At, list[tuple[At, int]]] = defaultdict(list)
    for edge in edges:
        step = _MENTION if edge.type == "MENTIONS" else 1
        joined[edge.start].append((edge.end, step))
        joined[edge.end].append((edge.start, step))
    far: dict[At, int] = {}
    queue = [(0, at) for at in starts]
    heapq.heapify(queue)
    while queue:
        distance, at = heapq.heappop(queue)
        if at not in far:
            far[at] = distance
            for other, step in joined[at]:
                heapq.heappush(queue, (distance + step, other))
    return far
