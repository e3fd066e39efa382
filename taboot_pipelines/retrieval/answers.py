"""Answers without a language model: a search, the sentences of its hits that fit, and where each stands."""

from __future__ import annotations

from collections.abc import Sequence

from taboot_pipelines.embedding.protocol import Vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import sentences
from taboot_pipelines.retrieval.answering import fact_answer
from taboot_pipelines.retrieval.evidence import Evidence
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.request import SearchRequest
from taboot_pipelines.retrieval.results import Answer, Citation, Hit
from taboot_pipelines.retrieval.search import Search
from taboot_pipelines.retrieval.session import Session, View

#: Sentences that an answer may be asked for.
MAX_SENTENCES = 50
#: Hits whose sentences are looked at.
PASSAGES = 10


class Answers:
    """Safe to use from several threads."""

    def __init__(
        self, session: Session, search: Search, query_vectors: QueryVectors, evidence: Evidence
    ) -> None:
        self._session = session
        self._search = search
        self._query_vectors = query_vectors
        self._evidence = evidence

    def answer(self, request: SearchRequest, limit: int) -> Answer:
        """At most ``limit`` sentences that answer ``request.query``, out of the hits of ``request``."""
        facts = self._session.ask(lambda view: fact_answer(view, request, limit))
        if facts is not None:
            return facts
        hits = self._search.search(request).hits
        found = self._session.ask(lambda view: self._extract(view, request, hits, limit))
        citations = tuple(c.model_copy(update={"line": self._line(c)}) for c in found.citations)
        return found.model_copy(update={"citations": citations})

    def _extract(self, view: View, request: SearchRequest, hits: Sequence[Hit], limit: int) -> Answer:
        idf = view.keywords.idf
        if not hits or request.mode == "keyword":
            return sentences.extract(request.query, hits, idf, None, None, limit)
        vector = self._query_vectors.vector(view, request.query)

        def embed(texts: Sequence[str]) -> Vectors:
            return self._query_vectors.passages(view, texts)

        return sentences.extract(request.query, hits, idf, embed, vector, limit)

    def _line(self, citation: Citation) -> int | None:
        """The line of a citation; out of the blob where a document that is not its file's text (HTML) has no
        lines of its own.
        """
        if citation.line:
            return citation.line
        try:
            return self._session.ask(
                lambda view: self._evidence.line(view, citation.doc_id, citation.start, citation.end)
            )
        except TabootError:
            return None  # the citation stands without a line; `explain` says what is wrong with the blob
