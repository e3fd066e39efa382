"""The bundled model by ONNX Runtime, in batches of texts of one padded length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taboot_pipelines.embedding.encoder import (
    INPUTS,
    cores,
    feed,
    mean,
    model_failed,
    no_bert_encoder,
    padded_length,
)
from taboot_pipelines.embedding.protocol import Vectors

#: So that texts of about one length meet in a batch.
_LENGTH_STEP = 8
#: More padded tokens in one call than this run slower (measured: 8 texts of 64, 4 of 128, 2 of 256 are best).
_BATCH_TOKENS = 512


def version() -> str:
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
            by_length.setdefault(padded_length(tokens, _LENGTH_STEP), []).append(index)
        for length in sorted(by_length):
            members = by_length[length]
            size = max(1, min(self._batch_size, _BATCH_TOKENS // length))
            for at in range(0, len(members), size):
                batch = members[at : at + size]
                given = feed([ids[index] for index in batch], length)
                try:
                    hidden = self.session.run([self._output], {name: given[name] for name in self._inputs})[0]
                except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors derive from Exception alone
                    raise model_failed(error, len(batch)) from None
                for place, index in enumerate(batch):
                    out[index] = mean(hidden[place], len(ids[index]))
        return out
