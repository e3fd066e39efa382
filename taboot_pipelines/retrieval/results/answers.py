"""What answers a question, and what an answer was chosen from."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import Cell, SourceLocation, Stack
from taboot_pipelines.retrieval.results.base import Result, TableResult
from taboot_pipelines.retrieval.results.hits import Hit


class Citation(Result):
    """A sentence and where it stands: code points ``[start, end)`` of the document, and the line of the file
    where that is known; ``section``: that of a document that has no lines, such as a PDF.
    """

    number: int
    text: str
    doc_id: str
    chunk_id: str
    url: str
    title: str
    line: int | None
    start: int
    end: int
    section: str = ""


#: From here on an answer is called sure: of those out of text nine in ten are right, in houses that were left
#: out of the fit (``benchmarks/answer_reading.py``).
SURE = 0.9


class Answer(TableResult):
    """Sentences that answer a question, each with its citation; ``found`` says whether they answer all that
    is asked; where only a part of it is answered, ``text`` says which, with its ``citations``.

    ``kind``: whether they come from facts of the graph, from what documents state, from a model that read
    these, or there is none;
    ``confidence``: the probability that the answer is right, from 0 to 1; ``closest``: where nothing answers,
    what comes nearest to it, which may well be about something else;
    ``looked_for``: what an answer had to hold; ``notes``: values of a filter that nothing has, what of the
    house could not be read at all, and why a model did not answer; ``drift``: what other documents say
    against what is cited (``KnowledgeBase.drift``);
    ``answer_id``: what ``KnowledgeBase.replay`` takes, of an answer of which a record is kept.
    """

    question: str
    found: bool
    text: str
    citations: tuple[Citation, ...]
    closest: tuple[Citation, ...] = ()
    confidence: float = 0.0
    kind: Literal["facts", "text", "model", "none"] = "none"
    looked_for: str = ""
    notes: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    answer_id: str = ""

    @property
    def certainty(self) -> Literal["sure", "likely", "closest"]:
        """In a word: ``closest`` where nothing is said but what comes nearest."""
        return "closest" if not self.found else "sure" if self.confidence >= SURE else "likely"

    def to_arrow(self) -> pa.Table:
        """The citations."""
        types = {"number": pa.int32(), "line": pa.int32(), "start": pa.int64(), "end": pa.int64()}
        schema = pa.schema([(n, types.get(n, pa.string())) for n in Citation.model_fields])
        return pa.Table.from_pylist([c.model_dump() for c in self.citations], schema=schema)

    def _repr_html_(self) -> str:
        shown = [*((f"[{c.number}]", c) for c in self.citations), *(("closest", c) for c in self.closest)]
        rows: list[tuple[Cell, ...]] = [
            (mark, c.text, Stack((c.title, SourceLocation(c.url, c.line, c.section)))) for mark, c in shown
        ]
        sure = f" ({self.kind}, {self.certainty}, confidence {self.confidence:.2f})" if self.found else ""
        rows += [("!", note, "") for note in (*self.notes, *self.drift)]
        return rendering.table(f"{self.question}{sure}", ("", "sentence", "where"), rows, lead=self.text)


class Replay(Result):
    """The candidates that an answer was chosen from. ``version``: of the manifest; ``parameters``: limit,
    mode and filters of the question.
    """

    answer_id: str
    question: str
    version: int
    parameters: dict[str, Any]
    hits: tuple[Hit, ...]

    def _repr_html_(self) -> str:
        rows = [
            (f"{h.score:.4f}", Stack((h.title, SourceLocation(h.url, h.line))), rendering.folded(h.text))
            for h in self.hits
        ]
        return rendering.table(f"{self.question} ({self.answer_id})", ("score", "document", "passage"), rows)
