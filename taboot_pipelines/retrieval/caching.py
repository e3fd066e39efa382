"""The caches of one knowledge base, as a person looks at them and clears them."""

from __future__ import annotations

from typing import Literal, get_args

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import domain_of
from taboot_pipelines.retrieval.caches import Cache
from taboot_pipelines.retrieval.filters import or_near
from taboot_pipelines.retrieval.pages import Page
from taboot_pipelines.retrieval.query_cache import QueryCache
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.results.base import Result
from taboot_pipelines.retrieval.search import Search

CacheKind = Literal["results", "embeddings"]


class CacheStats(Result):
    """What one cache keeps. ``kind``: ``results`` or ``embeddings``; ``store``: ``process`` or ``redis``, of
    which ``entries`` and ``bytes`` are; ``hits`` and ``misses`` are those of this process.
    """

    kind: str
    store: str
    hits: int
    misses: int
    entries: int
    bytes: int
    ttl_seconds: float


def stats(search: Search, query_vectors: QueryVectors) -> tuple[CacheStats, ...]:
    """One row a kind. Raises ``E_REDIS``."""
    found = []
    caches: tuple[tuple[CacheKind, Cache[Page] | QueryCache | None], ...] = (
        ("results", search.cache),
        ("embeddings", query_vectors.cache),
    )
    for kind, cache in caches:
        if cache is None:
            continue
        counts = cache.counts()
        found.append(
            CacheStats(
                kind=kind,
                store="redis" if cache.shared else "process",
                hits=counts.hits,
                misses=counts.misses,
                entries=counts.entries,
                bytes=counts.bytes,
                ttl_seconds=cache.ttl_seconds,
            )
        )
    return tuple(found)


def clear(
    search: Search, query_vectors: QueryVectors, kind: str | None, domain: str | None
) -> dict[str, int]:
    """How many entries of each kind were dropped. Raises ``E_QUERY``, ``E_REDIS``."""
    if kind is not None and kind not in get_args(CacheKind):
        raise TabootError(
            "E_QUERY",
            f"kind must be one of {', '.join(get_args(CacheKind))}."
            + or_near(str(kind), get_args(CacheKind)),
        )
    if domain is not None and (not isinstance(domain, str) or not domain.strip()):
        raise TabootError("E_QUERY", "domain must be the host of web pages.")
    if domain is not None and kind == "embeddings":
        raise TabootError("E_QUERY", "domain must not be given for embeddings: those are of queries alone.")
    dropped: dict[str, int] = {}
    if kind in (None, "results"):
        host = None if domain is None else domain_of(domain) or domain.strip().lower()
        results = search.cache
        dropped["results"] = (
            0
            if results is None
            else results.clear(
                None
                if host is None
                else lambda page: any(domain_of(hit.url) == host for hit in page.result.hits)
            )
        )
    if kind in (None, "embeddings") and domain is None:
        vectors = query_vectors.cache
        dropped["embeddings"] = 0 if vectors is None else vectors.clear()
    return dropped
