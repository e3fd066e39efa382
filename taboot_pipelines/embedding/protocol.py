"""What every embedder offers, the space that its vectors are of, and what is refused of one.

Spaces never mix (rule ``spaces-never-mix``): a store names the space its vectors belong to. No vector is
stored unseen: its dimension, that its numbers are finite, and its norm are checked. An embedder that reads
less than a chunk may hold is refused (rule ``one-chunking``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health
from taboot_pipelines.settings import ChunkingSettings

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space: vectors are comparable only within one."""

    model: str
    revision: str
    dimension: int
    #: The longest text the model reads, in tokens of its own tokenizer, special tokens not counted.
    max_tokens: int

    @property
    def id(self) -> str:
        """A short text that names the space in paths and manifests."""
        slug = "".join(c if c.isalnum() or c in "-." else "-" for c in self.model.split("/")[-1].lower())
        return f"{slug}.{self.revision[:12]}.{self.dimension}"


class Embedder(Protocol):
    @property
    def space(self) -> Space: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (len(texts), dimension), in the order of ``texts``, validated. Raises
        ``E_VECTOR``, ``E_EMBEDDER``, ``E_MODEL``, ``E_TOKEN_LIMIT``."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """One unit vector of shape (dimension,), with the model's query prefix."""
        ...

    def health(self) -> Health:
        """Whether it works now, in one attempt."""
        ...

    def close(self) -> None: ...


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


def too_long(text: str, index: int) -> TabootError:
    return TabootError(
        "E_TOKEN_LIMIT",
        f"Text {index} is longer than the embedding server reads.",
        index=index,
        characters=len(text),
    )


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
