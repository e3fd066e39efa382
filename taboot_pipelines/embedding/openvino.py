"""The bundled model by OpenVINO: one text at a time, with as many requests in flight as there are streams.

Importing ``openvino`` imports its model converters, and those send an event to Intel's statistics by the
package ``openvino-telemetry``. Neither is imported here (:func:`_quiet_import`); reading and running a model
needs neither.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import mmap
import os
import queue
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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

#: OpenVINO prepares code and buffers for each length that it meets, and keeps them. With 16 lengths a process
#: takes 390 MB, with all 255 more than 850 MB and two thirds more time a text (measured).
_LENGTH_STEP = 16
#: Bytes of a SHA-256.
_DIGEST = 32
#: A folder of compiled models keeps so many: one for each runtime version and number of threads in use.
_MAX_COMPILED = 4
#: A token that every vocabulary of the kind has.
_PADDING = 0
#: Each stream has its own buffers; more of them than this serve nobody's single machine.
_MAX_STREAMS = 8

_import_lock = threading.Lock()


def prepare() -> None:
    """Import the runtime. Raises ``ImportError``."""
    _quiet_import()


def version() -> str:
    return f"openvino {_quiet_import().__version__.split('-')[0]}"


class OpenVinoEncoder:
    """``weights``: returns the bytes of an ONNX file. ``threads``: 0 for all cores. ``kept``: where the
    compiled model is looked for first, without reading the weights, and kept. Raises ``E_MODEL`` for another
    kind of model, and what OpenVINO raises for bytes that are none.
    """

    def __init__(
        self, weights: Callable[[], bytes], threads: int, kept: CompiledModels | None = None
    ) -> None:
        openvino = _quiet_import()
        threads = threads or cores()
        self._streams = min(threads, _MAX_STREAMS)
        core = openvino.Core()
        options = {
            "PERFORMANCE_HINT": "THROUGHPUT",
            "NUM_STREAMS": self._streams,
            "INFERENCE_NUM_THREADS": threads,
            # Some processors would compute in bfloat16 and give other vectors than the rest.
            "INFERENCE_PRECISION_HINT": "f32",
            # Two processes that are bound to cores are bound to the same ones.
            "ENABLE_CPU_PINNING": False,
        }
        imported = kept.load(core, options) if kept is not None else None
        compiled = None if imported is None else imported.model
        model = core.read_model(weights()) if compiled is None else compiled
        self._inputs = tuple(i.any_name for i in model.inputs)
        shape = model.outputs[0].partial_shape
        if not set(self._inputs) <= INPUTS or len(shape) != 3 or not shape[2].is_static:
            raise no_bert_encoder()
        self.dimension: int = shape[2].get_length()
        if compiled is None:
            compiled = core.compile_model(model, "CPU", options)
            if kept is not None:
                kept.save(core, options, compiled)
        self._compiled = compiled
        # What was imported may go on reading the file's bytes.
        self._bytes = None if imported is None else imported.bytes
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(self._streams):
            self._free.put(self._compiled.create_infer_request())
        # The bindings initialize statics when tensors are first read and written, and let go of Python's lock
        # meanwhile: two threads that do so first wait for each other for good. A model is loaded by one.
        self.pooled([[_PADDING]])

    def pooled(self, ids: Sequence[Sequence[int]]) -> Vectors:
        out = np.empty((len(ids), self.dimension), np.float32)
        running: deque[tuple[Any, int]] = deque()
        try:
            # By length, so that requests in flight end in the order in which they began.
            for index in sorted(range(len(ids)), key=lambda i: len(ids[i])):
                given = feed([ids[index]], padded_length(ids[index], _LENGTH_STEP))
                request = self._request(running, ids, out)
                running.append((request, index))
                request.start_async({name: given[name] for name in self._inputs})
            while running:
                self._free.put(self._collect(running, ids, out))
        except RuntimeError as error:
            raise model_failed(error, len(ids)) from None
        finally:
            # After a failure or an interrupt: what may still be running is not used again.
            for _ in running:
                self._free.put(self._compiled.create_infer_request())
        return out

    def hidden(self, ids: Sequence[int]) -> Vectors:
        given = feed([ids], padded_length(ids, _LENGTH_STEP))
        request = self._free.get()
        try:
            request.infer({name: given[name] for name in self._inputs})
            # A copy: what is given back is written over.
            rows: Vectors = np.array(request.get_output_tensor(0).data[0][: len(ids)])
        except RuntimeError as error:
            request = self._compiled.create_infer_request()
            raise model_failed(error, 1) from None
        finally:
            self._free.put(request)
        return rows

    def _request(self, running: deque[tuple[Any, int]], ids: Sequence[Sequence[int]], out: Vectors) -> Any:
        """A request that is free: another caller's where it gave one back, else the oldest of this one.

        Only a caller that holds none waits for another, so no two wait for each other.
        """
        try:
            return self._free.get(block=not running)
        except queue.Empty:
            return self._collect(running, ids, out)

    def _collect(self, running: deque[tuple[Any, int]], ids: Sequence[Sequence[int]], out: Vectors) -> Any:
        request, index = running[0]
        request.wait()
        out[index] = mean(request.get_output_tensor(0).data[0], len(ids[index]))
        running.popleft()
        return request


class Imported(NamedTuple):
    """A compiled model and the mapped bytes that it was imported from."""

    model: Any
    bytes: Any


class CompiledModels:
    """A folder of compiled models, one a file: the SHA-256 of the rest, then what OpenVINO exports.

    ``weights_digest``: the SHA-256 of the weights. A file's name stands for them, the version of OpenVINO,
    the processor and the options, so what is found was made of the same by the same. A file that is damaged
    or cannot be imported counts as none, and a folder that cannot be written, or is not to be
    (``read_only``), is done without.
    """

    def __init__(self, folder: Path, weights_digest: str, *, read_only: bool = False) -> None:
        self._folder = folder
        self._read_only = read_only
        self._weights = weights_digest

    def load(self, core: Any, options: Mapping[str, Any]) -> Imported | None:
        """The compiled model; None if there is none that can be used."""
        try:
            with self._path(core, options).open("rb") as f:
                # OpenVINO takes only what it could write to; nothing of it reaches the file.
                mapped = np.frombuffer(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
            digest, data = mapped[:_DIGEST].tobytes(), mapped[_DIGEST:]
            if hashlib.sha256(data.data).digest() != digest:
                return None
            tensor = _quiet_import().Tensor(data, shared_memory=True)
            return Imported(core.import_model(tensor, "CPU", dict(options)), data)
        except (OSError, RuntimeError, ValueError):  # an empty file cannot be mapped
            return None

    def save(self, core: Any, options: Mapping[str, Any], compiled: Any) -> None:
        """Keep a compiled model, in one step."""
        if self._read_only:
            return
        with contextlib.suppress(OSError, RuntimeError):
            path = self._path(core, options)
            exported = io.BytesIO()
            compiled.export_model(exported)
            data = exported.getvalue()
            path.parent.mkdir(parents=True, exist_ok=True)
            fd, aside = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(fd, "wb") as f:
                    f.write(hashlib.sha256(data).digest() + data)
                Path(aside).replace(path)
            except BaseException:
                Path(aside).unlink(missing_ok=True)
                raise
            newest = sorted(path.parent.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
            for other in newest[_MAX_COMPILED:]:
                other.unlink(missing_ok=True)

    def _path(self, core: Any, options: Mapping[str, Any]) -> Path:
        made_of = (
            self._weights,
            version(),
            core.get_property("CPU", "FULL_DEVICE_NAME"),
            sorted(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")),
            sorted(options.items()),
        )
        return self._folder / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]}.openvino"


def _quiet_import() -> Any:
    """The package ``openvino`` without its converters and its telemetry, unless somebody else in this process
    has imported them. Both stay importable afterwards.
    """
    with _import_lock:
        loaded = "openvino" in sys.modules
        unwanted = () if loaded else ("openvino.tools.ovc", "openvino_telemetry")
        kept_out = [name for name in unwanted if name not in sys.modules]
        # The import system reads None as "not to be found", which the package allows for.
        absent: dict[str, Any] = dict.fromkeys(kept_out)
        sys.modules.update(absent)
        try:
            import openvino
        finally:
            for name in kept_out:
                del sys.modules[name]
        return openvino
