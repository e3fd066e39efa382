"""The evidence behind an edge or a hit."""

from __future__ import annotations

from datetime import datetime

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import Cell, Place
from taboot_pipelines.retrieval.results.base import Result
from taboot_pipelines.retrieval.results.decisions import DecisionNote


class End(Result):
    """One end of an edge, and why it is what it is (rule ``support``); ``observed``: its name as written."""

    role: str
    label: str
    key: str
    name: str
    observed: str
    basis: str
    rule: str


class Quote(Result):
    """A statement read from a blob just now, secrets masked: bytes ``[byte_start, byte_end)`` of the blob.

    Of a document that is rendered from its blob, such as a PDF, it is the document's text; it has no lines,
    and ``section`` says where in the document it stands.
    """

    text: str
    url: str
    line: int | None
    line_end: int | None
    blob_sha256: str
    byte_start: int
    byte_end: int
    section: str = ""


class Explanation(Result):
    """Why the knowledge base says something: ``quotes[0]`` is the statement, the others support it too."""

    kind: str
    id: str
    statement: str
    doc_id: str
    url: str
    quotes: tuple[Quote, ...]
    ends: tuple[End, ...] = ()
    confidence: float | None = None
    extraction_method: str | None = None
    since: datetime | None = None
    #: What people decided of it: of an edge, what was corrected.
    decisions: tuple[DecisionNote, ...] = ()

    @property
    def quote(self) -> str:
        return self.quotes[0].text

    @property
    def line(self) -> int | None:
        return self.quotes[0].line

    def _repr_html_(self) -> str:
        rows: list[tuple[Cell, ...]] = [
            ("quote", Place(q.url, q.line, q.section), q.text) for q in self.quotes
        ]
        rows += [("decision", f"{d.who}: {d.reason}", d.says) for d in self.decisions]
        rows += [(f"{e.role}: {e.label} {e.name}", e.basis, e.rule) for e in self.ends]
        return rendering.table(self.statement, ("", "", ""), rows, preformatted=2)
