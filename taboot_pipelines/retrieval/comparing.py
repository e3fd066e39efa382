"""One query in every mode, side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.request import Mode, SearchRequest
from taboot_pipelines.retrieval.results.hits import Hit
from taboot_pipelines.retrieval.results.inspection import Compared, Comparison
from taboot_pipelines.retrieval.search import Search


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
