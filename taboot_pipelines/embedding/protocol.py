"""What every embedder offers, and the space that its vectors are of.

Spaces never mix (rule ``spaces-never-mix``): a store names the space its vectors belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from taboot_pipelines.model.health import Health

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
