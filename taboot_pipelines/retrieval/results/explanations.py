"""The evidence behind an edge or a hit."""

from __future__ import annotations

from datetime import datetime

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import Cell, SourceLocation
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
            ("quote", SourceLocation(q.url, q.line, q.section), q.text) for q in self.quotes
        ]
        rows += [("decision", f"{d.who}: {d.reason}", d.says) for d in self.decisions]
        rows += [(f"{e.role}: {e.label} {e.name}", e.basis, e.rule) for e in self.ends]
        return rendering.table(self.statement, ("", "", ""), rows, preformatted=2)


# --- A document beside the bytes that it was read from


class Mark(Result):
    """A place of an original: code points ``[start, end)`` of its ``text``, and the bytes of the blob that
    they are.
    """

    start: int
    end: int
    byte_start: int
    byte_end: int


class Original(Result):
    """A document and the file that it was read from, secrets masked in both.

    ``text``: the file as text, with the lines that people know; of a document that is rendered from its blob
    (``rendered``), such as a PDF, the document's text. ``read``: the document's text where that is another
    (a page of HTML became Markdown), else empty. ``marks``: the places that were asked for, in order;
    ``unread``: why the bytes cannot be shown, in which case ``text`` is the document's and the marks are in
    it. ``metadata``: JSON.
    """

    doc_id: str
    url: str
    title: str
    source: str
    source_type: str
    tags: tuple[str, ...]
    path: str
    mime: str
    language: str
    date: datetime | None
    since: datetime
    blob_sha256: str
    metadata: str
    text: str
    rendered: bool
    read: str = ""
    marks: tuple[Mark, ...] = ()
    unread: str = ""
