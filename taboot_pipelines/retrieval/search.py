"""A search from its request to its hits: the filter, the ranking, what a hit shows, the reranker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.index import Mask
from taboot_pipelines.retrieval.once import Once
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.ranking import RankedRow, rank_rows
from taboot_pipelines.retrieval.request import SearchRequest
from taboot_pipelines.retrieval.results import Hit, SearchResult
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.inference.rerank import Reranker
    from taboot_pipelines.retrieval.candidates import Candidates
    from taboot_pipelines.retrieval.reranking import Reranking


class Search:
    """``reranker``: one that is used instead of what the settings name. Safe to use from several threads."""

    def __init__(
        self,
        settings: Settings,
        namespace: str,
        session: Session,
        query_vectors: QueryVectors,
        reranker: Reranker | None,
    ) -> None:
        self._settings = settings.retrieval
        self._session = session
        self._query_vectors = query_vectors
        self._candidates = Once(lambda: _open_candidates(settings, namespace))
        self._reranker_configured = bool(
            reranker is not None or settings.reranker.url or settings.reranker.torch.model
        )
        self._reranking = Once(lambda: _open_reranking(settings, reranker))

    def search(self, request: SearchRequest) -> SearchResult:
        """The hits of ``request``, best first.

        Raises ``E_CONFIG`` if it insists on a reranker and there is none, or if the embedder's space is not
        that of the knowledge base.
        """
        reranking = self._reranking_for(request)
        if reranking is None:
            return self._session.ask(lambda view: self._find(view, request))
        deeper = replace(request, limit=max(request.limit, reranking.candidates))
        found = self._session.ask(lambda view: self._find(view, deeper))
        hits = reranking.order(request.query, found.hits, insist=request.rerank is True)
        return found.model_copy(update={"hits": hits[: request.limit]})

    def _find(self, view: View, request: SearchRequest) -> SearchResult:
        index = view.index
        hits: tuple[Hit, ...] = ()
        if len(index):
            vector = self._query_vectors.vector(view, request.query) if request.mode != "keyword" else None
            mask = index.passing(request.filter)
            rows = index.candidates(mask)
            if rows is None or len(rows):
                ranked = rank_rows(view, request, vector, rows, self._candidates(), self._settings)
                hits = tuple(hit_of(view, row, mask) for row in ranked)
        return SearchResult(query=request.query, mode=request.mode, hits=hits)

    def _reranking_for(self, request: SearchRequest) -> Reranking | None:
        if request.rerank is True and not self._reranker_configured:
            raise TabootError(
                "E_CONFIG",
                "There is no reranker to order the hits by.",
                remedy="Set TABOOT_RERANKER__URL or TABOOT_RERANKER__TORCH__MODEL.",
                settings=["TABOOT_RERANKER__URL", "TABOOT_RERANKER__TORCH__MODEL"],
            )
        if request.rerank is False or not self._reranker_configured:
            return None
        return self._reranking()


def hit_of(view: View, ranked: RankedRow, mask: Mask | None) -> Hit:
    """What a hit shows of a row. ``mask``: the rows that pass the filter, among which equal text is named."""
    chunk = view.index.chunk(ranked.row)
    doc = chunk["doc"]
    source = view.manifest.sources.get(doc["source_id"])
    return Hit(
        doc_id=doc["doc_id"],
        chunk_id=chunk["chunk_id"],
        url=view.shown_url(doc["source_id"], doc["path"], doc["url"]),
        title=doc["title"],
        text=chunk["text"],
        score=ranked.score,
        scores=ranked.scores,
        start=chunk["start"],
        end=chunk["end"],
        line=chunk["line"],
        section=chunk["section"],
        content_type=chunk["content_type"],
        source=doc["source_id"],
        source_type=source.type if source else "",
        tags=source.tags if source else (),
        language=doc["lang"],
        also_in=tuple(view.index.chunk(r)["chunk_id"] for r in view.index.others(ranked.row, mask)),
    )


def _open_candidates(settings: Settings, namespace: str) -> Candidates | None:
    """Qdrant as the source of candidates; None where ``TABOOT_QDRANT__URL`` is not set."""
    if settings.qdrant.url is None:
        return None
    from taboot_pipelines.retrieval.candidates import Candidates
    from taboot_pipelines.stores.vectors import open_vectors

    points = open_vectors(settings)
    return None if points is None else Candidates(points, namespace, settings.qdrant.search_from_chunks)


def _open_reranking(settings: Settings, given: Reranker | None) -> Reranking | None:
    from taboot_pipelines.inference.rerank import open_reranker
    from taboot_pipelines.retrieval.reranking import Reranking

    reranker = given or open_reranker(settings)
    return None if reranker is None else Reranking(reranker, settings.reranker.candidates)
