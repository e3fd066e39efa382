"""Texts that say nearly the same: shingles and their resemblance (Broder 1997, "On the resemblance and
containment of documents").
"""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")
#: Words of a shingle.
_WIDTH = 3
#: The least share of shingles in common that makes two texts near duplicates.
_RESEMBLANCE = 0.8

Shingles = frozenset[tuple[str, ...]]


def shingles(text: str) -> Shingles:
    """The runs of three words of a text; of a shorter one the whole."""
    words = _WORD.findall(text.casefold())
    if len(words) <= _WIDTH:
        return frozenset({tuple(words)})
    return frozenset(tuple(words[i : i + _WIDTH]) for i in range(len(words) - _WIDTH + 1))


def alike(one: Shingles, other: Shingles) -> bool:
    """Whether two texts have at least four fifths of all their shingles in common."""
    small, large = sorted((len(one), len(other)))
    if small < _RESEMBLANCE * large:
        return False
    common = len(one & other)
    return common >= _RESEMBLANCE * (small + large - common)
