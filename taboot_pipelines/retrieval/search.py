"""A search: its page out of the cache where an equal search was made before, else made anew."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import ValidationError

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.model import ids
from taboot_pipelines.model.ids import domain_of
from taboot_pipelines.retrieval.caches import Cache, Kind
from taboot_pipelines.retrieval.lazy import Lazy
from taboot_pipelines.retrieval.pages import Cursor, Page, Pages, read_cursor
from taboot_pipelines.retrieval.query_vectors import QueryCache, QueryVectors
from taboot_pipelines.retrieval.ranking import Clock
from taboot_pipelines.retrieval.request import SearchRequest
from taboot_pipelines.retrieval.results.base import Result
from taboot_pipelines.retrieval.results.hits import SearchResult
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.retrieval.snippets import terms_of
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.state.keys import CACHE_QUERY


class Search:
    """``shared``: whether other processes that have these settings make the same of a query, so that they may
    share results. Safe to use from several threads.
    """

    def __init__(
        self, settings: Settings, namespace: str, session: Session, pages: Pages, *, shared: bool
    ) -> None:
        self._settings = settings
        self._namespace = namespace
        self._session = session
        self._pages = pages
        self._cache = Lazy(lambda: _open_cache(settings, namespace, shared=shared))
        self._cached_manifest = ""

    def search(self, request: SearchRequest) -> SearchResult:
        """One page of the hits of ``request``, best first.

        Raises ``E_CONFIG`` if it insists on a reranker and there is none, or if the embedder's space is not
        that of the knowledge base; ``E_CURSOR`` for a cursor that cannot be followed.
        """
        self._pages.check(request)
        if request.cursor is None:
            return self._session.ask(lambda view: self._answer(view, request, None))
        cursor = read_cursor(request.cursor, self._namespace, request.fingerprint)
        view = self._session.held(cursor.manifest)
        if view is None:
            raise TabootError(
                "E_CURSOR",
                "The knowledge base was published anew since the cursor was made, and what it was made for is"
                " not kept any more.",
            )
        return self._answer(view, request, cursor)

    @property
    def cache(self) -> Cache[Page] | None:
        """The cache of results; None where there is none."""
        return self._cache()

    def _answer(self, view: View, request: SearchRequest, cursor: Cursor | None) -> SearchResult:
        clock = Clock()
        cache = self._cache() if request.cache else None
        current = self._session.view()
        if cache is None or view is not current:
            made = self._pages.page(view, request, cursor, clock)
            return made.result if view is current else self._without_deleted(made.result, current)
        if self._cached_manifest != view.id:
            # Results of other manifests are asked for no more; deleted documents go with them.
            cache.forget()
            self._cached_manifest = view.id
        page, known = cache.get(
            self._name(view, request),
            lambda: self._pages.page(view, request, cursor, clock),
            keep=lambda made: made.complete,
            still_wanted=lambda: self._session.view(now=True).id == view.id,
        )
        if not known:
            return page.result
        if page.result.next_cursor is not None:
            self._session.hold(view)
        clock.lap("cache")
        return page.result.model_copy(update={"cached": True, "latency_ms": clock.milliseconds})

    def _name(self, view: View, request: SearchRequest) -> str:
        """What tells a result from any other of this namespace, whichever process makes it."""
        settings = self._settings
        reranker, server = settings.reranker, settings.embedding_server
        made_by = (
            settings.retrieval.model_dump_json(),
            settings.qdrant.url is not None and settings.qdrant.search_from_chunks,
            [reranker.url, reranker.torch.model, reranker.torch.revision, reranker.candidates],
            [None, ""] if server is None else [*server.space_key, server.prefix_query],
        )
        page = (request.fingerprint, request.limit, request.cursor, request.expand)
        return ids.digest(view.id, *page, *made_by)[:32]

    def _without_deleted(self, found: SearchResult, current: View) -> SearchResult:
        """A page of an older manifest without the documents that were deleted since."""
        left = current.holding([hit.doc_id for hit in found.hits])
        hits = tuple(
            hit.model_copy(
                update={
                    "also_in": tuple(c for c in hit.also_in if c.rpartition(":")[0] in left),
                    "similar": tuple(c for c in hit.similar if c.rpartition(":")[0] in left),
                }
            )
            for hit in found.hits
            if hit.doc_id in left
        )
        gone = len(found.hits) - len(hits)
        notes = (f"{gone} of the page's documents were deleted since the first page.",) if gone else ()
        return found.model_copy(update={"hits": hits, "notes": (*found.notes, *notes)})


def _open_cache(settings: Settings, namespace: str, *, shared: bool) -> Cache[Page] | None:
    """The cache of results; in Redis too where that is configured and may be written. None if none are to be
    kept.
    """
    if not settings.retrieval.cache_mb:
        return None
    state = None
    if shared and settings.redis.url is not None and not settings.read_only:
        from taboot_pipelines.stores.state.redis import RedisState

        state = RedisState(settings.redis)
    kind = Kind(
        CACHE_QUERY,
        dump=lambda page: page.result.model_dump_json().encode("utf-8", "backslashreplace"),
        load=_read_page,
        size=lambda page: 2000 + sum(1500 + 4 * len(hit.expanded) for hit in page.result.hits),
    )
    return Cache(kind, namespace, settings.retrieval.cache_mb * 1024 * 1024, state)


def _read_page(data: bytes) -> Page | None:
    try:
        result = SearchResult.model_validate_json(data)
    except ValidationError:
        return None
    terms = terms_of(result.query)
    hits = tuple(hit.model_copy(update={"terms": terms}) for hit in result.hits)
    return Page(result.model_copy(update={"hits": hits}))


# --- The caches of one knowledge base, as a person looks at them and clears them

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
