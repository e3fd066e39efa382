"""What the two runtimes of a bundled model have in common: tokens in, one pooled row a text out.

A text's row is the same to the bit whatever it is embedded with: it is padded to a length that it alone
decides, a multiple of the runtime's step.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from taboot_pipelines.embedding.protocol import Vectors
from taboot_pipelines.errors import TabootError

#: What a BERT encoder may ask for.
INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class Encoder(Protocol):
    """A loaded model. Safe to use from several threads."""

    dimension: int

    def pooled(self, ids: Sequence[Sequence[int]]) -> Vectors:
        """The mean of each text's token vectors, shape (len(ids), dimension), in the order of ``ids``. Raises
        ``E_MODEL`` if the model fails."""
        ...


def padded_length(ids: Sequence[int], step: int) -> int:
    """The length that a text of these tokens is padded to."""
    return -(-len(ids) // step) * step


def feed(batch: Sequence[Sequence[int]], length: int) -> dict[str, Any]:
    """The arrays of a batch of texts that are padded to ``length``, by the name of their input."""
    ids = np.zeros((len(batch), length), np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def mean(hidden: Any, tokens: int) -> Any:
    """The mean of the first ``tokens`` rows: those that are text."""
    return hidden[:tokens].sum(axis=0) / tokens


def no_bert_encoder() -> TabootError:
    return TabootError("E_MODEL", "The model is not a BERT encoder: its inputs or its output are others.")


def model_failed(error: Exception, texts: int) -> TabootError:
    return TabootError("E_MODEL", f"The model failed on a batch ({type(error).__name__}).", texts=texts)


def cores() -> int:
    """The cores this process may use; a container's share may be smaller than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
