"""Messages that name their parents: the branch that is current, and what else was said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

_NEVER = datetime(1, 1, 1, tzinfo=UTC)


class Branch(NamedTuple):
    """A message in a tree: the id of the one before it, and when it was said."""

    parent: str
    time: datetime | None


def branches(nodes: Mapping[str, Branch], current: str) -> Iterator[tuple[str, str]]:
    """The ids of all messages, each with its mark: first the branch that ends in ``current`` (where that is
    not there: in the message with the most before it, of equals the latest), unmarked; then each other branch
    from where it leaves what was told, marked ``variant 1`` and so on. What goes in circles is told once.

    Takes time in proportion to the messages.
    """
    leaf = current if current in nodes else _deepest(nodes)
    path: list[str] = []
    told: set[str] = set()
    while leaf in nodes and leaf not in told:
        told.add(leaf)
        path.append(leaf)
        leaf = nodes[leaf].parent
    path.reverse()
    yield from ((key, "") for key in path)
    children: dict[str, list[str]] = {}
    for key, node in nodes.items():
        children.setdefault(node.parent, []).append(key)
    number = 0
    # Branches leave the current one in its order; what hangs on nothing comes last.
    starts = [child for key in path for child in children.get(key, ())]
    starts += [key for key, node in nodes.items() if node.parent not in nodes]
    for start in (*starts, *nodes):
        # Of several answers each begins a variant; the first goes on with the one it follows.
        waiting = [start]
        while waiting:
            following = [waiting.pop()]
            if following[0] in told:
                continue
            number += 1
            while following:
                told.add(following[0])
                yield following[0], f"variant {number}"
                following = [child for child in children.get(following[0], ()) if child not in told]
                waiting += reversed(following[1:])


def _deepest(nodes: Mapping[str, Branch]) -> str:
    """The message with the most before it, of equals the latest, of these the last."""
    depths: dict[str, int] = {}
    for start in nodes:
        chain: list[str] = []
        seen: set[str] = set()
        key = start
        while key in nodes and key not in depths and key not in seen:
            seen.add(key)
            chain.append(key)
            key = nodes[key].parent
        # A circle hangs on nothing.
        depth = depths.get(key, 0)
        for member in reversed(chain):
            depth += 1
            depths[member] = depth
    order = {key: number for number, key in enumerate(nodes)}
    return max(depths, key=lambda key: (depths[key], nodes[key].time or _NEVER, order[key]), default="")
