"""What is remembered of the space of a server: nothing is asked while nothing is embedded."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from taboot_pipelines.embedding.protocol import Embedder, Space, Vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health

#: What an embedder raises while its server does not answer.
UNANSWERED = frozenset({"E_EMBEDDER", "E_CIRCUIT_OPEN"})
#: The server is asked again what it serves after this many seconds, in case its model was changed.
RECHECK_SECONDS = 3600.0


class SpaceChanged(TabootError):
    """The server serves another model than it is remembered to; the new space is remembered by now."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A space, and when the server was last asked for it (seconds since the epoch)."""

    space: Space
    asked_at: float


class SpaceMemory(Protocol):
    """Where the space of one embedder is kept between processes."""

    def load(self) -> Remembered | None: ...

    def store(self, remembered: Remembered) -> None: ...


class RememberedEmbedder:
    """An embedder that asks for its space only when a text is embedded, or the memory of it is old.

    Threads may share it. What it raises is what ``embedder`` raises, and :class:`SpaceChanged`.
    """

    def __init__(self, embedder: Embedder, memory: SpaceMemory) -> None:
        self._embedder = embedder
        self._memory = memory
        self._lock = threading.Lock()
        self._space: Space | None = None

    @property
    def space(self) -> Space:
        """The space as remembered. An old memory holds on while the server does not answer."""
        with self._lock:
            if self._space is None:
                remembered = self._memory.load()
                # A time in the future was written before the clock was set back.
                fresh = remembered is not None and 0 <= time.time() - remembered.asked_at < RECHECK_SECONDS
                if remembered is not None and fresh:
                    self._space = remembered.space
                else:
                    self._space = self._ask(remembered)
            return self._space

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Do as the embedder does. Raises :class:`SpaceChanged` if its vectors are of another space."""
        if texts:
            self._confirm()
        return self._embedder.embed(texts)

    def embed_query(self, text: str) -> Vectors:
        self._confirm()
        return self._embedder.embed_query(text)

    def health(self) -> Health:
        return self._embedder.health()

    def close(self) -> None:
        self._embedder.close()

    def _ask(self, remembered: Remembered | None) -> Space:
        try:
            space = self._embedder.space
        except TabootError as error:
            if remembered is None or error.code not in UNANSWERED:
                raise
            return remembered.space
        self._memory.store(Remembered(space, time.time()))
        return space

    def _confirm(self) -> None:
        believed, actual = self.space, self._embedder.space
        if actual != believed:
            with self._lock:
                self._memory.store(Remembered(actual, time.time()))
                self._space = actual
            raise SpaceChanged(
                "E_EMBEDDER",
                f"The embedding server serves {actual.id} now, and served {believed.id} before.",
                remedy="Run the ingest again: everything is embedded anew.",
                was=believed.id,
                now=actual.id,
            )


def measured_dimension(name: str, memory: Path | None, measure: Callable[[], int]) -> int:
    """The dimension of the vectors of a model, which servers do not tell. One embedding does (``measure``),
    once per model and home, so that an unchanged ingest embeds nothing. ``memory``: the file that keeps it.
    A wrong memory is noticed by the first batch (``E_VECTOR``)."""
    known: dict[str, int] = {}
    if memory is not None and memory.exists():
        try:
            known = {str(k): int(v) for k, v in json.loads(memory.read_text("utf-8")).items()}
        except (ValueError, OSError, AttributeError, TypeError):
            known = {}
    if name not in known:
        known[name] = measure()
        if memory is not None and memory.parent.is_dir():
            part = memory.with_name(f"{memory.name}.{os.getpid()}")
            # What a full disk does not remember is asked again.
            with contextlib.suppress(OSError):
                part.write_text(json.dumps(known), "utf-8")
                part.replace(memory)
    return known[name]
