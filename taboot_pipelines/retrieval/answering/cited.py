"""An answer from facts as it is returned: its sentences, each with the numbers of its citations."""

from __future__ import annotations

import numpy as np

from taboot_pipelines.documents.mime import has_form
from taboot_pipelines.retrieval.answering.answerer import FactAnswer, FactCitation, answer_from_facts
from taboot_pipelines.retrieval.answering.nearest import Near
from taboot_pipelines.retrieval.request import SearchRequest
from taboot_pipelines.retrieval.results.answers import Answer, Citation
from taboot_pipelines.retrieval.session import View


def fact_answer(
    view: View, request: SearchRequest, limit: int = 50, near: Near | None = None
) -> Answer | None:
    """What the facts say to ``request.query``, at most ``limit`` sentences; None if they do not answer it, or
    not out of documents that pass the request's filter. ``near``: how near texts are to the question."""
    facts = answer_from_facts(view, request.query, near)
    if facts is None or not facts.found or not _pass(view, request, facts):
        return None
    citations: list[Citation] = []
    parts = []
    for sentence in facts.sentences[:limit]:
        numbers = []
        for cited in sentence.citations:
            citations.append(_citation(view, cited, len(citations) + 1))
            numbers.append(f"[{len(citations)}]")
        parts.append(f"{sentence.text} {''.join(numbers)}")
    return Answer(
        question=request.query,
        found=True,
        text=" ".join(parts),
        citations=tuple(citations),
        confidence=facts.confidence,
        kind="facts",
        looked_for=facts.looked_for,
    )


def _pass(view: View, request: SearchRequest, facts: FactAnswer) -> bool:
    mask = view.index.passing(request.filter)
    if mask is None:
        return True
    ids = view.index.documents.column("doc_id")
    allowed = {ids[int(row)].as_py() for row in np.unique(view.index.document[mask])}
    return all(c.doc_id in allowed for s in facts.sentences for c in s.citations)


def _citation(view: View, cited: FactCitation, number: int) -> Citation:
    index = view.index
    at = index.document_row(cited.doc_id)
    row = index.row_at(cited.doc_id, cited.start)
    title = "" if at is None else index.documents.column("title")[at].as_py()
    chunk = "" if row is None else index.chunk_id(row)
    url = view.document_url(cited.doc_id)
    if at is not None:
        url = view.passage_url(index.document_fields(at), cited.start)
    return Citation(
        number=number,
        text=cited.text,
        doc_id=cited.doc_id,
        chunk_id=chunk,
        url=url,
        title=title,
        # The lines of what is rendered from a PDF or a message are none that people know.
        line=None if _is_rendered(view, cited.doc_id) else cited.line,
        start=cited.start,
        end=cited.end,
    )


def _is_rendered(view: View, doc_id: str) -> bool:
    documents = view.graph.documents
    at = documents.column("doc_id").index(doc_id).as_py()
    return at >= 0 and has_form(documents.column("mime")[at].as_py())
