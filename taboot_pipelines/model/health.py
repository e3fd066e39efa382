"""What a part says of itself when asked: the row of ``taboot status`` and of the readiness check."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from taboot_pipelines.errors import TabootError

#: Begins the names of threads in which parts are asked.
PROBE_THREAD = "health-"

#: Here the servers answer `ok` to whoever asks whether they run, as containers and monitors do.
HEALTH = "/health"
#: And here what a server counts, in Prometheus' text format.
METRICS = "/metrics"


@dataclass(frozen=True, slots=True)
class Health:
    """One configured part. ``message`` says in words what is wrong and what to do; empty if all is well."""

    #: catalog, state, blobs, tables, shards, embedder, reranker, llm, vectors, graph, dagster, plugins
    part: str
    backend: str  # sqlite, postgresql, redis, qdrant, neo4j, directory, s3 …
    ok: bool
    version: str | None = None
    latency_ms: float | None = None
    message: str = ""


class PartClient(Protocol):
    """A client of a part: it tells how the part is, and is closed after use."""

    def health(self) -> Health: ...

    def close(self) -> None: ...


def probe(part: str, backend: str, ask: Callable[[], tuple[str | None, str]]) -> Health:
    """Time ``ask``, which gives (version, a warning in words or ""). Its ``TabootError`` is not raised: it
    becomes the message of a part that is not ok."""
    start = time.perf_counter()
    try:
        version, warning = ask()
    except TabootError as error:
        return Health(part, backend, False, None, None, f"{error.code}: {error.message} {error.remedy}")
    return Health(
        part, backend, not warning, version, round((time.perf_counter() - start) * 1000, 2), warning
    )
