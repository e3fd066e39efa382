"""The ports of a port forward: lists and ranges, and which outer port leads to which inner one."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: A forward of more ports says nothing of each.
MAX_PORTS = 1024

_ITEM = re.compile(r"0*([0-9]{1,5})(?:\s*[-:]\s*0*([0-9]{1,5}))?")

#: An outer port, and the inner one that it leads to where that is known.
Pair = tuple[int, int | None]


def pairs(outer: str, inner: str) -> list[Pair] | None:
    """The pairs of a forward, each outer port once; an empty list if they are more than :data:`MAX_PORTS`.
    None if ``outer`` is no list of ports.

    A range onto a range pairs them, onto one port leads all to it; of ranges or lists of another size only
    the outer ports are known.
    """
    outers, inners = _items(outer), _items(inner) or []
    if outers is None:
        return None
    if sum(map(len, outers)) > MAX_PORTS:
        return []
    if len(outers) == len(inners):
        found = [pair for o, i in zip(outers, inners, strict=True) for pair in _joined(o, i)]
    else:
        flat = [port for item in outers for port in item]
        found = _joined(flat, [port for item in inners for port in item])
    first: dict[int, int | None] = {}
    for port, target in found:
        first.setdefault(port, target)
    return list(first.items())


def _joined(outer: Sequence[int], inner: Sequence[int]) -> list[Pair]:
    if len(inner) == 1:
        return [(port, inner[0]) for port in outer]
    if len(inner) == len(outer):
        return list(zip(outer, inner, strict=True))
    return [(port, None) for port in outer]


def _items(text: str) -> list[range] | None:
    found = []
    for part in text.split(","):
        match = _ITEM.fullmatch(part.strip())
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last <= 65535:
            return None
        found.append(range(first, last + 1))
    return found
