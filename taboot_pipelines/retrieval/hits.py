"""What a hit shows of a row of the index, and what surrounds it in its document."""

from __future__ import annotations

from taboot_pipelines.retrieval.highlights import Highlighter
from taboot_pipelines.retrieval.index import Mask
from taboot_pipelines.retrieval.ranking import RankedRow
from taboot_pipelines.retrieval.results.hits import Hit, Passage
from taboot_pipelines.retrieval.session import View


def make_hit(
    view: View, ranked: RankedRow, mask: Mask | None, highlighter: Highlighter, similar: tuple[int, ...] = ()
) -> Hit:
    """The hit of a ranked row. ``mask``: the rows that pass the filter, among which equal text is named;
    ``highlighter``: of the query; ``similar``: rows that were left out for it.
    """
    index = view.index
    chunk = index.chunk(ranked.row)
    doc, start, text = chunk["doc"], chunk["start"], chunk["text"]
    marks = highlighter.ranges(text)
    source = view.manifest.sources.get(doc["source_id"])
    return Hit(
        doc_id=doc["doc_id"],
        chunk_id=chunk["chunk_id"],
        url=view.passage_url(doc, start, [(start + a, text[a:b].casefold()) for a, b in marks]),
        title=doc["title"],
        text=text,
        score=ranked.score,
        scores=ranked.scores,
        ranks=ranked.ranks,
        start=start,
        end=chunk["end"],
        line=chunk["line"],
        section=chunk["section"],
        content_type=chunk["content_type"],
        source=doc["source_id"],
        source_type=source.type if source else "",
        tags=source.tags if source else (),
        language=doc["lang"],
        also_in=tuple(index.chunk_id(r) for r in index.others(ranked.row, mask)),
        similar=tuple(index.chunk_id(r) for r in similar),
        highlights=marks,
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
