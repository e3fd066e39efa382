"""One page of a search, made of one view: the filter, the ranking, the reranker, the hits and what is said of
them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.retrieval.graph_ranking import ModeChoice, choose, rank_request
from taboot_pipelines.retrieval.index import Mask, Rows
from taboot_pipelines.retrieval.late_interaction import LateInteraction
from taboot_pipelines.retrieval.lazy import Lazy
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.ranking import Clock, RankedRow
from taboot_pipelines.retrieval.request import SearchRequest
from taboot_pipelines.retrieval.results.hits import Hit, Passage, SearchResult
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.retrieval.snippets import terms_of, word_ranges
from taboot_pipelines.settings import Settings
from taboot_pipelines.shards.layout import MAPPED

if TYPE_CHECKING:
    from taboot_pipelines.embedding.protocol import Vectors
    from taboot_pipelines.inference.rerank.protocol import Reranker
    from taboot_pipelines.retrieval.candidates import Candidates
    from taboot_pipelines.retrieval.reranking import Reranking


# --- Where a page of hits ended, as the opaque text that asks for the next one
#
# A cursor names the knowledge base, the manifest and the list of hits that it was made for, so that it is
# of no use anywhere else, and carries a checksum, so that one that was cut or changed is told apart.

_CHECKSUM = 8
#: The form of a cursor; one of another form is refused.
_FORM = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """``manifest``: its digest; ``request``: ``SearchRequest.fingerprint``; ``position``: hits of the ranked
    list that earlier pages have passed; ``depth``: of the arms in the fusion; ``reranked``: whether the pages
    before were ordered by the reranker.
    """

    namespace: str
    manifest: str
    request: str
    position: int
    depth: int
    reranked: bool

    def write(self) -> str:
        """The cursor as text of letters, digits, ``-`` and ``_``."""
        data = json.dumps([_FORM, *asdict(self).values()], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_checksum(data) + data).decode().rstrip("=")


def read_cursor(text: str, namespace: str, request: str) -> Cursor:
    """The cursor that was written as ``text``. Raises ``E_CURSOR`` if it is none, or was made for another
    namespace or another request.
    """
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        if _checksum(raw[_CHECKSUM:]) != raw[:_CHECKSUM]:
            raise ValueError
        form, *fields = json.loads(raw[_CHECKSUM:])
        if form != _FORM:
            raise ValueError
        cursor = Cursor(*fields)
        numbers = (cursor.position, cursor.depth)
        if any(type(n) is not int or n < 0 for n in numbers) or type(cursor.reranked) is not bool:
            raise ValueError
    except (ValueError, TypeError, UnicodeEncodeError, binascii.Error):
        raise TabootError("E_CURSOR", "The cursor is damaged, or is no cursor of a search.") from None
    if cursor.namespace != namespace:
        raise TabootError("E_CURSOR", f"The cursor is not of the knowledge base {namespace!r}.")
    if cursor.request != request:
        raise TabootError(
            "E_CURSOR",
            "The cursor was made by a search with another query or other arguments.",
            remedy="Give the same query and arguments as for the first page; only limit may differ.",
        )
    return cursor


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_CHECKSUM]


# --- Texts that say nearly the same: shingles and their resemblance (Broder 1997, "On the resemblance and
#     containment of documents")

_WORD = re.compile(r"\w+")
#: Words of a shingle.
_WIDTH = 3
#: The least share of shingles in common that makes two texts near duplicates.
_RESEMBLANCE = 0.8

Shingles = frozenset[tuple[str, ...]]


def shingles(text: str) -> Shingles:
    """The runs of three words of a text; of a shorter one the whole."""
    words = _WORD.findall(text.casefold())
    if len(words) <= _WIDTH:
        return frozenset({tuple(words)})
    return frozenset(tuple(words[i : i + _WIDTH]) for i in range(len(words) - _WIDTH + 1))


def alike(one: Shingles, other: Shingles) -> bool:
    """Whether two texts have at least four fifths of all their shingles in common."""
    small, large = sorted((len(one), len(other)))
    if small < _RESEMBLANCE * large:
        return False
    common = len(one & other)
    return common >= _RESEMBLANCE * (small + large - common)


# --- What a hit shows of a row of the index, and what surrounds it in its document


#: Columns of the chunks that a hit has under the same name.
_OF_CHUNK = [name for name in ("chunk_id", *MAPPED) if name in Hit.model_fields]


def make_hit(
    view: View, ranked: RankedRow, mask: Mask | None, terms: frozenset[str], similar: tuple[int, ...] = ()
) -> Hit:
    """The hit of a ranked row. ``mask``: the rows that pass the filter, among which equal text is named;
    ``terms``: ``terms_of`` the query; ``similar``: rows that were left out for it.
    """
    index = view.index
    chunk = index.chunk(ranked.row)
    doc, start, text = chunk["doc"], chunk["start"], chunk["text"]
    source = view.manifest.sources.get(doc["source_id"])
    return Hit(
        doc_id=doc["doc_id"],
        url=view.passage_url(
            doc, start, lambda: [(start + a, text[a:b].casefold()) for a, b in word_ranges(text, terms)]
        ),
        title=doc["title"],
        score=ranked.score,
        scores=ranked.scores,
        ranks=ranked.ranks,
        line=chunk["line"],
        **{name: chunk[name] for name in _OF_CHUNK if name in chunk},
        source=doc["source_id"],
        source_type=source.type if source else "",
        tags=view.manifest.tags_of(doc["source_id"], doc["doc_id"]),
        language=doc["lang"],
        expires_at=view.expires_at(doc),
        also_in=tuple(index.chunk_id(r) for r in index.others(ranked.row, mask)),
        similar=tuple(index.chunk_id(r) for r in similar),
        terms=terms,
    )


def with_context(view: View, hit: Hit, row: int, count: int) -> Hit:
    """The hit with up to ``count`` neighbours before and after it, from the same document.

    The hit's own text stays whole; each neighbour is cut where the next piece towards the hit begins, so that
    nothing is shown twice and ``document[start:end]`` is the text of every piece.
    """
    index = view.index
    own = Passage(chunk_id=hit.chunk_id, start=hit.start, end=hit.end, text=hit.text)
    before: list[Passage] = []
    after: list[Passage] = []
    first, last = hit.start, hit.end
    for step in range(1, count + 1):
        for at, pieces in ((row - step, before), (row + step, after)):
            if not 0 <= at < len(index) or index.document[at] != index.document[row]:
                continue
            chunk = index.chunk(at)
            start, end = chunk["start"], chunk["end"]
            if pieces is before:
                cut = Passage(
                    chunk_id=chunk["chunk_id"],
                    start=start,
                    end=min(end, first),
                    text=chunk["text"][: max(0, min(end, first) - start)],
                )
                first = min(first, start)
            else:
                begin = max(start, last)
                cut = Passage(
                    chunk_id=chunk["chunk_id"], start=begin, end=end, text=chunk["text"][begin - start :]
                )
                last = max(last, end)
            if cut.text:
                pieces.append(cut)
    return hit.model_copy(update={"context": (*reversed(before), own, *after)})


@dataclass(frozen=True, slots=True)
class Page:
    """A page of hits. ``complete``: nothing that it asked for failed."""

    result: SearchResult
    complete: bool = True


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The head of the ranked list, and for each row of it the rows that are left out as near duplicates.
    ``why``: what else was done for it than was chosen."""

    rows: list[RankedRow]
    similar: dict[int, tuple[int, ...]]
    why: str = ""


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """All that a search made on its way, to the end of its list. ``mask`` and ``rows``: what passes the
    filter, and of equal texts which row stands for all (None: all); ``depth``: of the arms; ``ranked``: the
    joined list before ``min_score`` and ``dedupe``; ``similar``: by row, those left out for it; ``hits``: the
    chunk ids of the whole list in their final order; ``rerank_scores``: by chunk id.
    """

    vector: Vectors | None
    mask: Mask | None
    rows: Rows | None
    depth: int
    ranked: list[RankedRow]
    similar: dict[int, tuple[int, ...]]
    hits: list[str]
    rerank_scores: dict[str, float]


class Pages:
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
        self._namespace = namespace
        self._session = session
        self._query_vectors = query_vectors
        self._candidates = Lazy(lambda: _open_candidates(settings, namespace))
        self._reranker_configured = bool(
            reranker is not None or settings.reranker.url or settings.reranker.torch.model
        )
        self._reranking = Lazy(lambda: _open_reranking(settings, reranker))

    def check(self, request: SearchRequest) -> None:
        """Raise ``E_CONFIG`` if ``request`` insists on a reranker and there is none."""
        if request.rerank is True and not self._reranker_configured:
            raise TabootError(
                "E_CONFIG",
                "There is no reranker to order the hits by.",
                remedy="Set TABOOT_RERANKER__URL or TABOOT_RERANKER__TORCH__MODEL.",
                settings=["TABOOT_RERANKER__URL", "TABOOT_RERANKER__TORCH__MODEL"],
            )

    def page(self, view: View, request: SearchRequest, cursor: Cursor | None, clock: Clock) -> Page:
        """The page of the hits of ``request`` that ``cursor`` names; None: the first. Raises ``E_NO_GRAPH``,
        and ``E_CONFIG`` in the mode ``vector`` if the embedder's space is not that of the knowledge base.
        """
        index = view.index
        clock.lap("open")
        asked, (request, foreign) = request, self._by_words(view, request)
        vector, known_vector = None, False
        rows: Rows | None = None
        mask: Mask | None = None
        if len(index):
            if request.mode != "keyword":
                vector, known_vector = self._query_vectors.lookup(view, request.query)
                clock.lap("embedding")
            mask = index.passing(request.filter)
            rows = index.candidates(mask)
            clock.lap("filter")
        reranking = self._reranking_for(request, cursor)
        top = 0 if reranking is None else request.rerank_top_n or reranking.candidates
        request = replace(request, depth=self._depth(request, cursor, top))
        choice = choose(view, request)
        clock.lap("graph")
        late = self._late(view, request, choice)
        clock.lap("late interaction")
        start = cursor.position if cursor is not None else 0
        end = start + request.limit
        ranked = _Ranked([], {})
        if len(index) and (rows is None or len(rows)):
            # One more than is shown tells whether there is another page.
            wanted = max(end + 1, top if start < top else 0)
            ranked = self._ranked(view, request, choice, vector, rows, wanted, clock, late)
        terms = terms_of(request.query)

        def hits_of(some: Sequence[RankedRow]) -> list[Hit]:
            return [make_hit(view, r, mask, terms, ranked.similar.get(r.row, ())) for r in some]

        failure, reranked = "", False
        if reranking is not None and start < top:
            best = hits_of(ranked.rows[:top])
            clock.lap("hits")
            ordered, failure = reranking.order(
                request.query, best, insist=request.rerank is True or (cursor is not None and cursor.reranked)
            )
            clock.lap("rerank")
            reranked = not failure
            hits = [*ordered[start:end], *hits_of(ranked.rows[max(top, start) : end])]
        else:
            reranked = cursor is not None and cursor.reranked
            hits = hits_of(ranked.rows[start:end])
        if request.expand:
            at = {make_id: r.row for r in ranked.rows[: max(end, top)] if (make_id := _chunk_id(view, r.row))}
            hits = [with_context(view, hit, at[hit.chunk_id], request.expand) for hit in hits]
        clock.lap("hits")
        candidates = self._candidates()
        next_cursor = None
        if len(ranked.rows) > end:
            next_cursor = Cursor(
                self._namespace, view.id, asked.fingerprint, end, request.depth, reranked
            ).write()
            self._session.hold(view)
        return Page(
            SearchResult(
                query=request.query,
                mode=asked.mode,
                hits=tuple(hits),
                total=_total(view, request, rows, ranked, end),
                next_cursor=next_cursor,
                chosen=choice.mode,
                why=" ".join(said for said in (choice.why, ranked.why) if said),
                fusion=request.fusion if request.joins else "",
                rrf_k=request.rrf_k if request.joins else 0,
                weights={"vector": request.vector_weight, "keyword": request.keyword_weight}
                if request.joins
                else {},
                reranked=reranked,
                embedding_cached=known_vector,
                latency_ms=clock.milliseconds,
                notes=(
                    *([foreign] if foreign else []),
                    *_remarks(view, request),
                    *([f"{failure} Hits keep their order."] if failure else []),
                ),
                manifest_version=view.manifest.version,
            ),
            complete=not (failure or foreign) and not (candidates is not None and candidates.failing),
        )

    def trace(self, view: View, request: SearchRequest) -> SearchTrace:
        """What a search of ``view`` makes of ``request`` on its way. Raises as :meth:`page`."""
        self.check(request)
        request, _ = self._by_words(view, request)
        index, clock = view.index, Clock()
        vector = None
        if len(index) and request.mode != "keyword":
            vector = self._query_vectors.vector(view, request.query)
        mask = index.passing(request.filter) if len(index) else None
        rows = index.candidates(mask) if len(index) else None
        reranking = self._reranking_for(request, None)
        top = 0 if reranking is None else request.rerank_top_n or reranking.candidates
        depth = self._depth(request, None, top) or len(index)
        whole = replace(request, limit=max(1, 2 * depth), depth=depth, min_score=None, dedupe=False)
        choice = choose(view, whole)
        late = self._late(view, request, choice)
        ranked = kept = _Ranked([], {})
        if len(index) and (rows is None or len(rows)):
            ranked = self._ranked(view, whole, choice, vector, rows, whole.limit, clock, late)
            sifted = replace(whole, min_score=request.min_score, dedupe=request.dedupe)
            kept = self._ranked(view, sifted, choice, vector, rows, whole.limit, clock, late)
        ids_of = [_chunk_id(view, r.row) for r in kept.rows]
        scores: dict[str, float] = {}
        if reranking is not None:
            terms = terms_of(request.query)
            best = [make_hit(view, r, mask, terms) for r in kept.rows[:top]]
            ordered, _ = reranking.order(request.query, best, insist=request.rerank is True)
            ids_of[: len(ordered)] = [hit.chunk_id for hit in ordered]
            scores = {h.chunk_id: h.scores["rerank"] for h in ordered if "rerank" in h.scores}
        return SearchTrace(vector, mask, rows, depth, ranked.rows, kept.similar, ids_of, scores)

    def _by_words(self, view: View, request: SearchRequest) -> tuple[SearchRequest, str]:
        """The request, and nothing. Where the embedder that is set now makes other vectors than the view
        holds, which an ingest has still to replace: the request by words alone, and a sentence that says so.
        """
        may_go_by_words = request.mode not in ("keyword", "vector") and len(view.index)
        foreign = self._query_vectors.foreign(view) if may_go_by_words else ""
        if not foreign:
            return request, ""
        told = f"{foreign} Words alone were searched: `taboot ingest` embeds it anew."
        return replace(request, mode="keyword"), told

    def _ranked(
        self,
        view: View,
        request: SearchRequest,
        choice: ModeChoice,
        vector: Vectors | None,
        rows: Rows | None,
        wanted: int,
        clock: Clock,
        late: LateInteraction | None,
    ) -> _Ranked:
        """The first ``wanted`` of the ranked list, or all there are: near duplicates left out where that was
        asked for, and what scores less than ``min_score``.
        """
        ask = wanted
        while True:
            deeper = replace(request, limit=ask)
            found, why = rank_request(
                view, deeper, choice, vector, rows, self._candidates(), self._settings, clock, late
            )
            enough = len(found) < ask
            if request.min_score is not None and found and found[-1].score < request.min_score:
                found = [r for r in found if r.score >= request.min_score]
                enough = True
            made = _distinct(view, found, wanted) if request.dedupe else _Ranked(found, {})
            if enough or len(made.rows) >= wanted:
                return replace(made, why=why)
            ask *= 4

    def _late(self, view: View, request: SearchRequest, choice: ModeChoice) -> LateInteraction | None:
        """What orders the best hits anew, or makes a second hop; None where settings, request or embedder
        leave that out."""
        if request.mode not in ("hybrid", "adaptive"):
            return None
        if not self._settings.late_interaction or not len(view.index):
            return None
        if request.fusion != "auto" or not (request.vector_weight and request.keyword_weight):
            return None
        return self._query_vectors.tokens(view, request.query)

    def _depth(self, request: SearchRequest, cursor: Cursor | None, top: int) -> int:
        """How many of each arm's best are fused: for all pages of a list as many as for its first."""
        if cursor is not None:
            return cursor.depth
        return max(self._settings.candidates, request.limit, top) if request.joins else 0

    def _reranking_for(self, request: SearchRequest, cursor: Cursor | None) -> Reranking | None:
        if request.rerank is False or not self._reranker_configured:
            return None
        if cursor is not None and not cursor.reranked:
            return None  # the first page was not, and this one goes on with it
        return self._reranking()


def _distinct(view: View, found: Sequence[RankedRow], wanted: int) -> _Ranked:
    """The first ``wanted`` rows whose text is not nearly that of one before."""
    kept: list[tuple[RankedRow, Shingles]] = []
    similar: dict[int, tuple[int, ...]] = {}
    for row in found:
        own = shingles(view.index.chunk(row.row)["text"])
        twin = next((other for other, theirs in kept if alike(own, theirs)), None)
        if twin is not None:
            similar[twin.row] = (*similar.get(twin.row, ()), row.row)
        elif len(kept) < wanted:
            kept.append((row, own))
        else:
            break
    return _Ranked([row for row, _ in kept], similar)


def _total(view: View, request: SearchRequest, rows: Rows | None, ranked: _Ranked, end: int) -> int:
    """How many distinct texts there are to be found: exact where the list ends within the page."""
    if len(ranked.rows) <= end:
        return len(ranked.rows)
    index = view.index
    if request.mode == "keyword" or (request.joins and request.vector_weight == 0):
        scores = view.keywords.scores(request.query)
        return int(np.count_nonzero(scores if rows is None else scores[rows]))
    return len(index) if rows is None else len(rows)


def _remarks(view: View, request: SearchRequest) -> list[str]:
    """A sentence for a query that was cut, and for each value of the filter that nothing here has."""
    sources = view.manifest.sources
    tags = view.manifest.all_tags()
    wanted = request.filter
    said = []
    if request.uncut:
        said.append(
            f"Of the query's {request.uncut} characters the first {len(request.query)} were searched."
        )
    for name, values, known in (
        ("source is called", wanted.sources, set(sources)),
        ("document has the tag", wanted.tags, tags),
        (
            "document is of the domain",
            wanted.domains,
            set(view.index.domains.values) if wanted.domains else set(),
        ),
    ):
        for value in sorted(values or ()):
            if value not in known:
                said.append(f"No {name} {value[:80]!r}." + or_near(value, known))
    return said


def _chunk_id(view: View, row: int) -> str:
    return view.index.chunk_id(row)


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
