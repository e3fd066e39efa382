"""Runs the bundled model: what its two runtimes share, and ONNX Runtime (OpenVINO is in ``openvino``).

Tokens go in, one pooled row a text comes out. A text's row is the same to the bit whatever it is embedded
with: it is padded to a length that it alone decides, a multiple of the runtime's step.
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

    def hidden(self, ids: Sequence[int]) -> Vectors:
        """The vectors of one text's tokens in context, shape (len(ids), dimension). Raises ``E_MODEL``."""
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


#: So that texts of about one length meet in a batch.
_ONNX_LENGTH_STEP = 8
#: More padded tokens in one call than this run slower (measured: 8 texts of 64, 4 of 128, 2 of 256 are best).
_BATCH_TOKENS = 512


def onnx_version() -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"


class OnnxEncoder:
    """``weights``: the bytes of an ONNX file. ``threads``: 0 for all cores. ``batch_size``: most texts of a
    call. Raises ``E_MODEL`` for another kind of model, and what ONNX Runtime raises for bytes that are none.
    """

    def __init__(self, weights: bytes, threads: int, batch_size: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or cores()
        options.inter_op_num_threads = 1
        # Threads that wait by spinning take the cores from everything else on the machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        self._batch_size = batch_size
        self._inputs = tuple(i.name for i in self.session.get_inputs())
        output = self.session.get_outputs()[0]
        self._output = output.name
        if not set(self._inputs) <= INPUTS or len(output.shape) != 3 or type(output.shape[-1]) is not int:
            raise no_bert_encoder()
        self.dimension: int = output.shape[-1]

    def pooled(self, ids: Sequence[Sequence[int]]) -> Vectors:
        out = np.empty((len(ids), self.dimension), np.float32)
        by_length: dict[int, list[int]] = {}
        for index, tokens in enumerate(ids):
            by_length.setdefault(padded_length(tokens, _ONNX_LENGTH_STEP), []).append(index)
        for length in sorted(by_length):
            members = by_length[length]
            size = max(1, min(self._batch_size, _BATCH_TOKENS // length))
            for at in range(0, len(members), size):
                batch = members[at : at + size]
                hidden = self._run([ids[index] for index in batch], length)
                for place, index in enumerate(batch):
                    out[index] = mean(hidden[place], len(ids[index]))
        return out

    def hidden(self, ids: Sequence[int]) -> Vectors:
        rows: Vectors = self._run([ids], padded_length(ids, _ONNX_LENGTH_STEP))[0][: len(ids)]
        return rows

    def _run(self, batch: Sequence[Sequence[int]], length: int) -> Any:
        """The vectors of the tokens of texts, padded to ``length``: shape (texts, length, dimension)."""
        given = feed(batch, length)
        try:
            return self.session.run([self._output], {name: given[name] for name in self._inputs})[0]
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors derive from Exception alone
            raise model_failed(error, len(batch)) from None
