"""Answers: first from facts, then from what documents state, else none, and what was looked for.

Without a language model nothing is said that does not stand in a document. A model, where one is asked for,
only puts the passages that were found into words (``answering.synthesis``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.answering.asking import Asked, read_question
from taboot_pipelines.retrieval.answering.confidence import THRESHOLD, confidence
from taboot_pipelines.retrieval.answering.documents import Documents
from taboot_pipelines.retrieval.answering.house import House
from taboot_pipelines.retrieval.answering.passages import Place, Scored, choose, rank_statements, read_out
from taboot_pipelines.retrieval.evidence import Evidence
from taboot_pipelines.retrieval.request import SearchRequest
from taboot_pipelines.retrieval.results import Answer, Citation, Hit
from taboot_pipelines.retrieval.search import Search
from taboot_pipelines.retrieval.session import Session, View

#: Sentences that an answer may be asked for.
MAX_SENTENCES = 50
#: Passages whose statements are looked at: the best of each arm, in equal parts.
PASSAGES = 40
#: Documents that an abstention names.
_NAMED = 3


class Answers:
    """Safe to use from several threads."""

    def __init__(self, session: Session, search: Search, evidence: Evidence, house: House) -> None:
        self._session = session
        self._search = search
        self._evidence = evidence
        self._house = house
        self._documents = Documents()

    def answer(self, request: SearchRequest, limit: int) -> Answer:
        """At most ``limit`` sentences that answer ``request.query``, out of what passes the filters of
        ``request``.
        """
        # What names something and what means something alike: each arm brings its own best.
        both = replace(request, limit=PASSAGES, vector_weight=1.0, keyword_weight=1.0)
        hits = self._search.search(both).hits
        found = self._session.ask(lambda view: self._from_text(view, request, hits, limit))
        citations = tuple(c.model_copy(update={"line": self._line(c)}) for c in found.citations)
        return found.model_copy(update={"citations": citations})

    def _from_text(self, view: View, request: SearchRequest, hits: Sequence[Hit], limit: int) -> Answer:
        asked = read_question(request.query, view.keywords.idf, self._house.names(view))
        places = self._places(view, hits)
        ranked = rank_statements(asked, places)
        sure = confidence(ranked[0].features) if ranked else 0.0
        if sure < THRESHOLD:
            return _nothing(asked, ranked, hits, sure)
        chosen = choose(asked, ranked, limit)
        citations = tuple(_cite(number, s) for number, s in enumerate(chosen, 1))
        text = " ".join(f"{read_out(s)} [{number}]" for number, s in enumerate(chosen, 1))
        return Answer(
            question=request.query,
            found=True,
            text=text,
            citations=citations,
            confidence=sure,
            kind="text",
            looked_for=looked_for(asked),
        )

    def _places(self, view: View, hits: Sequence[Hit]) -> list[Place]:
        places = []
        for hit in hits:
            doc_id, _, number = hit.chunk_id.rpartition(":")
            row = view.index.row_of(doc_id, int(number))
            if row is None:
                continue
            document = self._documents.read(view, row)
            own = self._house.owns(view, hit.source)
            near = hit.scores.get("vector", 0.0)
            places.append(Place(document, hit.start - document.start, hit.end - document.start, near, own))
        return places

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


def looked_for(asked: Asked) -> str:
    """What an answer must hold, in words."""
    about = ", ".join(t.text for t in asked.terms if t.weight >= 1 and t.text != "not")
    value = asked.value.value if asked.value is not None else "a statement"
    return f"{value} about {about}" if about else ""


def _nothing(asked: Asked, ranked: Sequence[Scored], hits: Sequence[Hit], sure: float) -> Answer:
    wanted = looked_for(asked)
    if not wanted:
        text = "The question names nothing that could be looked for."
    else:
        text = f"No document states {wanted}."
        titles = [s.place.document.title for s in ranked] or [h.title for h in hits]
        looked = list(dict.fromkeys(t for t in titles if t))[:_NAMED]
        if looked:
            text = f"{text[:-1]}; looked at {', '.join(looked)}."
    return Answer(
        question=asked.question,
        found=False,
        text=text,
        citations=(),
        confidence=sure,
        kind="none",
        looked_for=wanted,
    )


def _cite(number: int, s: Scored) -> Citation:
    document, statement = s.place.document, s.statement
    chunk_id, line = document.place(statement)
    return Citation(
        number=number,
        text=" ".join(document.text[statement.start : statement.end].split()),
        doc_id=document.doc_id,
        chunk_id=chunk_id,
        url=document.url,
        title=document.title,
        line=line,
        start=document.start + statement.start,
        end=document.start + statement.end,
    )
