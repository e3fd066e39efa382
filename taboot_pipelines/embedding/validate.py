"""What is refused of an embedder: vectors that are none, and a model that reads less than a chunk.

No vector is stored unseen: dimension, finite numbers, not zero, a sensible norm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taboot_pipelines.embedding.protocol import Space, Vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import ChunkingSettings

#: A shorter vector is noise, and its direction with it.
MIN_NORM = 0.1


def unit_vectors(raw: Any, count: int, dimension: int | None = None, *, first: int = 0) -> Vectors:
    """Return ``raw`` as float32 rows of length 1, in the same order: ``count`` rows of ``dimension`` numbers
    (None: any number).

    Raises ``E_VECTOR`` naming the index of the first row that is not a usable vector, counted from ``first``.
    """
    try:
        with np.errstate(over="ignore"):
            given = np.asarray(raw)
            if given.dtype.kind not in "fiu":
                raise ValueError
            rows = given.astype(np.float64, copy=False)
    except (ValueError, TypeError, OverflowError):
        raise _refuse(
            "does not hold rows of numbers of one length", first + _first_odd(raw), dimension
        ) from None
    if rows.ndim != 2 or rows.shape[0] != count:
        raise TabootError(
            "E_VECTOR",
            f"The embedder answered {rows.shape[0] if rows.ndim else 0} vectors for {count} texts.",
            expected=count,
        )
    if rows.shape[1] == 0 or (dimension is not None and rows.shape[1] != dimension):
        raise TabootError(
            "E_VECTOR",
            f"Vector {first} has {rows.shape[1]} dimensions, not {dimension or 'one or more'}.",
            index=first,
            dimension=rows.shape[1],
            expected=dimension,
        )
    # Beyond float32 a number could not be stored; NaN compares false.
    bad = ~(np.abs(rows) <= np.finfo(np.float32).max).all(axis=1)
    if bad.any():
        raise _refuse("holds a number that is not finite", first + int(bad.argmax()), dimension)
    # Row by row and in float64: a vector's bits must not depend on its neighbours.
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    bad = norms < MIN_NORM
    if bad.any():
        index = int(bad.argmax())
        kind = "is zero" if norms[index] == 0 else f"has norm {norms[index]:.3g}, below {MIN_NORM}"
        raise _refuse(kind, first + index, dimension)
    unit: Vectors = (rows / norms[:, None]).astype(np.float32)
    return unit


def check_limit(space: Space, chunking: ChunkingSettings) -> None:
    """Raise ``E_CONFIG`` if the embedder reads fewer tokens than a chunk may have (rule ``one-chunking``)."""
    if space.max_tokens < chunking.content_tokens:
        raise TabootError(
            "E_CONFIG",
            f"TABOOT_CHUNKING__MAX_TOKENS: chunks of {chunking.content_tokens} tokens do not fit"
            f" {space.model}, which reads {space.max_tokens}.",
            remedy=(
                "Use an embedder with a longer input, or lower TABOOT_CHUNKING__MAX_TOKENS, which builds a"
                " new chunk set."
            ),
            settings=["TABOOT_CHUNKING__MAX_TOKENS"],
            limit=space.max_tokens,
        )


def _first_odd(raw: Any) -> int:
    """The first row that is not a list of numbers as long as row 0; 0 where the answer has no rows at all."""
    if not isinstance(raw, list) or not raw:
        return 0
    length = len(raw[0]) if isinstance(raw[0], list) else -1
    for index, row in enumerate(raw):
        if not isinstance(row, list) or len(row) != length or not all(type(v) in (int, float) for v in row):
            return index
    return 0


def _refuse(what: str, index: int, dimension: int | None) -> TabootError:
    return TabootError("E_VECTOR", f"Vector {index} {what}.", index=index, expected=dimension)
