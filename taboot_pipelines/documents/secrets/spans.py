"""Ranges of a text."""

from __future__ import annotations

from collections.abc import Iterable

#: Code points ``[start, end)``.
Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same code points as ascending spans that neither overlap nor touch."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
