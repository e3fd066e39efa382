"""Variables that ``set`` assigns, with the statements that a value was put together from."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: A value that grows beyond this stays as written.
MAX_VALUE = 4096

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Code points ``[start, end)`` of ``path``; ``home`` names the block that the statement stands in."""

    path: str
    start: int
    end: int
    home: int


@dataclass(frozen=True, slots=True)
class Value:
    text: str
    sets: tuple[Place, ...]


def expand(text: str, env: dict[str, Value]) -> tuple[str, tuple[Place, ...]]:
    """``text`` with known variables put in, and the assignments they came from; unknown ones stay."""
    if "$" not in text:
        return text, ()
    sets: dict[Place, None] = {}
    size = 0

    def put(m: re.Match[str]) -> str:
        nonlocal size
        value = env.get(m[1] or m[2])
        if value is None or size > MAX_VALUE:
            return m[0]
        size += len(value.text)
        sets.update(dict.fromkeys(value.sets))
        return value.text

    result = _VARIABLE.sub(put, text)
    return (text, ()) if size > MAX_VALUE else (result, tuple(sets))
