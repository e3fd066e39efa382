"""Why a document is not among the hits of a search: the search is made again, and the document's chunks are
followed through each of its steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, get_args

import numpy as np

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.model.offsets import read_places
from taboot_pipelines.retrieval import vectors
from taboot_pipelines.retrieval.filters import Filter
from taboot_pipelines.retrieval.fusion import DIGITS, Scores
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.retrieval.pages import Pages, SearchTrace
from taboot_pipelines.retrieval.request import Mode, SearchRequest
from taboot_pipelines.retrieval.results.hits import Hit
from taboot_pipelines.retrieval.results.inspection import Compared, Comparison, Considered, Step, WhyNot
from taboot_pipelines.retrieval.search import Search
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.retrieval.snippets import terms_of

#: Chunks of a document that are told about: those that came furthest.
_MAX_CHUNKS = 20
#: Rows whose vectors are in memory at a time.
_BLOCK = 8192
#: The filter's fields as callers know them.
_ARGUMENTS = {
    "sources": "source",
    "types": "type",
    "tags": "tag",
    "languages": "language",
    "domains": "domain",
    "collections": "collection",
    "content_types": "content_type",
    "paths": "path_prefix",
    "date_from": "date_from",
    "date_to": "date_to",
}


@dataclass(frozen=True, slots=True)
class _Followed:
    """A chunk's steps. ``place`` orders chunks by how far they came."""

    shown: Considered
    reason: str
    place: tuple[float, ...]


class _Ended(Protocol):
    """Makes the end of a chunk's way: the sentence about it, how far it came, and its rank if it is a hit."""

    def __call__(self, reason: str, *place: float, rank: int | None = None) -> _Followed: ...


class WhyNotFound:
    """Safe to use from several threads."""

    def __init__(self, session: Session, pages: Pages) -> None:
        self._session = session
        self._pages = pages

    def why_not(self, document: str, request: SearchRequest) -> WhyNot:
        """See ``KnowledgeBase.why_not``."""
        if not isinstance(document, str) or not document.strip():
            raise TabootError("E_QUERY", "document must be a doc_id, a chunk_id, a URL or a path.")
        if request.cursor is not None:
            raise TabootError("E_QUERY", "cursor must not be given: all pages are looked at.")
        return self._session.ask(lambda view: self._explain(view, document.strip(), request))

    def _explain(self, view: View, document: str, request: SearchRequest) -> WhyNot:
        rows = _rows_of(view, document)
        trace = self._pages.trace(view, request)
        follower = _Follower(view, request, trace)
        followed = sorted((follower.follow(row) for row in rows), key=lambda f: f.place)
        best = followed[0]
        doc = view.index.chunk(view.index.row_of(*_parts(best.shown.chunk_id)) or 0)["doc"]
        return WhyNot(
            query=request.query,
            mode=request.mode,
            doc_id=doc["doc_id"],
            url=view.shown_url(doc["source_id"], doc["path"], doc["url"]),
            title=doc["title"],
            found=best.shown.rank is not None,
            reason=best.reason,
            chunks=tuple(f.shown for f in followed[:_MAX_CHUNKS]),
        )


class _Follower:
    """Follows rows through one search."""

    def __init__(self, view: View, request: SearchRequest, trace: SearchTrace) -> None:
        self._view = view
        self._index = view.index
        self._request = request
        self._trace = trace
        index = self._index
        self._passing = np.ones(len(index), dtype=bool) if trace.mask is None else trace.mask
        self._rows = np.arange(len(index), dtype=np.int64) if trace.rows is None else trace.rows
        self._fused = {r.row: n for n, r in enumerate(trace.ranked, 1)}
        self._twin = {row: twin for twin, others in trace.similar.items() for row in others}
        self._final = {chunk_id: n for n, chunk_id in enumerate(trace.hits, 1)}
        self._arms: dict[str, Scores] = {}
        if trace.vector is not None and len(index):
            exactly = trace.vector.astype(np.float64)
            self._arms["vector"] = np.concatenate(
                [
                    vectors.exact(index, exactly, np.arange(a, min(a + _BLOCK, len(index)), dtype=np.int64))
                    for a in range(0, len(index), _BLOCK)
                ]
            ).round(DIGITS)
        if request.mode != "vector":
            self._arms["keyword"] = view.keywords.scores(request.query).round(DIGITS)

    def follow(self, row: int) -> _Followed:
        index = self._index
        chunk = index.chunk(row)
        steps: list[Step] = []

        def ended(reason: str, *place: float, rank: int | None = None) -> _Followed:
            shown = Considered(
                chunk_id=chunk["chunk_id"],
                line=chunk["line"],
                text=chunk["text"],
                rank=rank,
                fell_out=None if rank is not None else steps[-1].step,
                steps=tuple(steps),
            )
            return _Followed(shown, reason, (*place, float(row)))

        if not self._passing[row]:
            reason = " ".join(_failing(index, row, self._request.filter))
            steps.append(Step(step="filter", passed=False, reason=reason))
            return ended(reason, 5.0, 0.0)
        steps.append(Step(step="filter", passed=True, reason="Every condition holds."))
        stands_for = row
        if index.repeats:
            same = np.flatnonzero((index.group == index.group[row]) & self._passing)
            stands_for = int(same[0])
        if stands_for != row:
            other = index.chunk(stands_for)["chunk_id"]
            reason = f"Its text is also that of {other}, which stands for both."
            rank = self._final.get(other)
            if rank is not None:
                reason += f" That is hit {rank}, and names this one in also_in."
            steps.append(Step(step="equal text", passed=False, reason=reason, rank=rank))
            return ended(reason, 1.5, float(rank or len(index)))
        steps += [self._arm(arm, row) for arm in self._arms]
        return self._after_arms(row, chunk["chunk_id"], steps, ended)

    def _after_arms(self, row: int, chunk_id: str, steps: list[Step], ended: _Ended) -> _Followed:
        request, trace = self._request, self._trace
        rank = self._fused.get(row)
        if rank is None:
            arms = [s for s in steps if s.step in self._arms]
            reason = " ".join(s.reason for s in arms if not s.passed) or "No arm that counts has it."
            best = min((s.rank for s in arms if s.rank is not None), default=len(self._index) + 1)
            steps.append(Step(step="ranking", passed=False, reason="It is in the ranked list of no arm."))
            return ended(reason, 4.0, float(best))
        score = trace.ranked[rank - 1].score
        steps.append(
            Step(
                step="ranking",
                passed=True,
                reason=f"It is number {rank} of {len(trace.ranked)}.",
                rank=rank,
                score=score,
            )
        )
        late = trace.ranked[rank - 1].ranks.get("late")
        if late is not None:
            score_late = trace.ranked[rank - 1].scores["late"]
            reason = f"Its words, one by one, are number {late} of the best; its rank takes part of that."
            steps.append(Step(step="late", passed=True, reason=reason, rank=late, score=score_late))
        hop = trace.ranked[rank - 1].scores.get("hop")
        if hop is not None:
            reason = "One of the first hits leads to it; its score takes part of that."
            steps.append(Step(step="hop", passed=True, reason=reason, score=hop))
        if request.min_score is not None and score < request.min_score:
            reason = f"Its score {score:g} is below min_score {request.min_score:g}."
            steps.append(Step(step="min_score", passed=False, reason=reason, rank=rank, score=score))
            return ended(reason, 3.0, float(rank))
        twin = self._twin.get(row)
        if twin is not None:
            other = self._index.chunk(twin)["chunk_id"]
            reason = f"Its text is nearly that of {other}, which ranks before it."
            steps.append(Step(step="dedupe", passed=False, reason=reason, rank=rank, score=score))
            return ended(reason, 2.0, float(rank))
        final = self._final.get(chunk_id)
        reranked = trace.rerank_scores.get(chunk_id)
        if final is not None and reranked is not None:
            reason = f"The reranker put it at {final}."
            steps.append(Step(step="rerank", passed=True, reason=reason, rank=final, score=reranked))
        if final is not None and final <= request.limit:
            reason = f"It is hit {final} of {min(len(self._final), request.limit)}."
            steps.append(Step(step="limit", passed=True, reason=reason, rank=final, score=score))
            return ended(reason, 0.0, float(final), rank=final)
        place = final if final is not None else rank
        reason = f"It is number {place} of the ranked list, and {request.limit} hits were asked for."
        steps.append(Step(step="limit", passed=False, reason=reason, rank=place, score=score))
        return ended(reason, 1.0, float(place))

    def _arm(self, arm: str, row: int) -> Step:
        scores = self._arms[arm][self._rows]
        own = float(self._arms[arm][row])
        weight = getattr(self._request, f"{arm}_weight") if self._request.joins else 1.0
        if arm == "keyword" and own <= 0:
            terms = ", ".join(sorted(terms_of(self._request.query))) or "none"
            return Step(
                step=arm, passed=False, reason=f"It has none of the query's words ({terms}).", score=0.0
            )
        rank = (
            1
            + int(np.count_nonzero(scores > own))
            + int(np.count_nonzero((scores == own) & (self._rows < row)))
        )
        depth = self._trace.depth
        if weight == 0:
            return Step(step=arm, passed=False, reason=f"The {arm} arm has weight 0.", rank=rank, score=own)
        inside = rank <= depth
        reason = f"Rank {rank} of the {arm} arm" + (
            "." if inside else f", of which the best {depth} take part."
        )
        return Step(step=arm, passed=inside, reason=reason, rank=rank, score=own)


def _failing(index: Index, row: int, wanted: Filter) -> Iterable[str]:
    """A sentence for each condition of the filter that a row does not meet."""
    doc = index.documents.slice(int(index.document[row]), 1).to_pylist()[0]
    source = index.manifest.sources.get(doc["source_id"])
    tags = index.manifest.tags_of(doc["source_id"], doc["doc_id"])
    has = {
        "sources": doc["source_id"],
        "types": source.type if source else "",
        "tags": ", ".join(tags),
        "languages": doc["lang"],
        "domains": index.domains.values[index.domains.codes[int(index.document[row])]],
        "collections": ", ".join((doc["source_id"], *tags)),
        "content_types": index.content_types.values[index.content_types.codes[row]],
        "paths": doc["path"],
        "date_from": str(doc["date"] or doc["since"]),
        "date_to": str(doc["date"] or doc["since"]),
    }
    for field in dataclasses.fields(Filter):
        value = getattr(wanted, field.name)
        if value is None:
            continue
        mask = index.passing(Filter(**{field.name: value}))
        if mask is not None and not mask[row]:
            asked = ", ".join(sorted(value)) if isinstance(value, frozenset) else str(value)
            yield (
                f"The filter {_ARGUMENTS[field.name]} wants {asked or 'nothing'}; the document has"
                f" {has[field.name] or 'none'}."
            )


def _rows_of(view: View, document: str) -> list[int]:
    """The rows of what is called ``document``. Raises ``E_NOT_FOUND`` if nothing is, or if it has no text."""
    index = view.index
    if not index.documents.num_rows:
        raise TabootError("E_NOT_FOUND", "The knowledge base holds no documents.")
    doc_id, number = _parts(document)
    if number >= 0:
        row = index.row_of(doc_id, number)
        if row is not None:
            return [row]
    columns = [
        index.documents.column(c).to_pylist() for c in ("doc_id", "source_id", "path", "url", "places")
    ]
    wanted = []
    for at, (own_id, source, path, url, stored) in enumerate(zip(*columns, strict=True)):
        if document in (own_id, path, url, f"{source}:{path}", view.shown_url(source, path, url)):
            wanted.append(at)
        elif stored and document.startswith(url.partition("#")[0]):
            places = read_places(stored)
            if places is not None and places.leads_into(document, url):
                wanted.append(at)
    if not wanted:
        known = {*columns[2], *columns[3]}
        raise TabootError(
            "E_NOT_FOUND", f"No document is called {document[:200]!r}." + or_near(document, known)
        )
    rows = np.flatnonzero(np.isin(index.document, wanted)).tolist()
    if not rows:
        raise TabootError("E_NOT_FOUND", f"The document {document[:200]!r} has no text that could be found.")
    return [int(row) for row in rows]


def _parts(chunk_id: str) -> tuple[str, int]:
    """The document and the number of a chunk; -1 for what is no chunk_id."""
    doc_id, _, number = chunk_id.rpartition(":")
    return (
        (doc_id, int(number)) if number.isascii() and number.isdigit() and len(number) < 10 else (doc_id, -1)
    )


# --- One query in every mode, side by side


def compare(search: Search, request_in: Callable[[Mode], SearchRequest]) -> Comparison:
    """What each mode finds. ``request_in``: the request in a mode; what it raises is raised here, while a
    mode that cannot answer says so in the notes.
    """
    modes: tuple[Mode, ...] = get_args(Mode)
    hits: dict[str, tuple[Hit, int, dict[str, int], dict[str, float]]] = {}
    latency: dict[str, float] = {}
    notes: dict[str, tuple[str, ...]] = {}
    query = ""
    for mode in modes:
        request = request_in(mode)
        query = request.query
        try:
            found = search.search(request)
        except TabootError as error:
            notes[mode] = (f"{error.code}: {error.message}",)
            continue
        latency[mode] = found.latency_ms.get("total", 0.0)
        if found.notes:
            notes[mode] = found.notes
        for rank, hit in enumerate(found.hits, 1):
            _, _, ranks, scores = hits.setdefault(hit.chunk_id, (hit, len(hits), {}, {}))
            ranks[mode], scores[mode] = rank, hit.score
    ordered = sorted(hits.values(), key=lambda entry: (min(entry[2].values()), entry[1]))
    return Comparison(
        query=query,
        modes=tuple(modes),
        rows=tuple(
            Compared(
                chunk_id=hit.chunk_id,
                doc_id=hit.doc_id,
                url=hit.url,
                title=hit.title,
                text=hit.text,
                line=hit.line,
                ranks=ranks,
                scores=scores,
            )
            for hit, _, ranks, scores in ordered
        ),
        latency_ms=latency,
        notes=notes,
    )
