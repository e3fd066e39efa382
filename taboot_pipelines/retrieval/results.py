"""What queries return: pydantic models that are tables (Arrow, pandas) and notebook output."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import DrawnEdge, DrawnNode


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class Hit(_Result):
    """A chunk that was found.

    ``start``, ``end``: code points of the document; ``line``: of the file, from 1, where the document has the
    file's lines; ``scores``: of every arm; ``also_in``: chunk ids of the same text elsewhere.
    """

    doc_id: str
    chunk_id: str
    url: str
    title: str
    text: str
    score: float
    scores: dict[str, float]
    start: int
    end: int
    line: int | None
    section: str
    content_type: str
    source: str
    source_type: str
    tags: tuple[str, ...]
    language: str
    also_in: tuple[str, ...] = ()


_HIT_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("chunk_id", pa.string()),
        ("url", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("score", pa.float64()),
        ("scores", pa.map_(pa.string(), pa.float64())),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("line", pa.int32()),
        ("section", pa.string()),
        ("content_type", pa.string()),
        ("source", pa.string()),
        ("source_type", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("language", pa.string()),
        ("also_in", pa.list_(pa.string())),
    ]
)


class SearchResult(_Result):
    """The hits of one query, best first."""

    query: str
    mode: str
    hits: tuple[Hit, ...]

    def __len__(self) -> int:
        return len(self.hits)

    def to_arrow(self) -> pa.Table:
        rows = [{**h.model_dump(), "scores": list(h.scores.items())} for h in self.hits]
        return pa.Table.from_pylist(rows, schema=_HIT_SCHEMA)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        rows = [
            (f"{h.score:.4f}", h.title, _where(h.url, h.line), h.section, rendering.shorten(h.text))
            for h in self.hits
        ]
        return rendering.table(
            f"{len(self.hits)} hits for “{self.query}” ({self.mode})",
            ("score", "title", "where", "section", "text"),
            rows,
        )


class Node(_Result):
    """A node of the graph; ``properties`` as extracted."""

    label: str
    key: str
    name: str
    scope: str | None
    properties: dict[str, Any]


class Edge(_Result):
    """An edge of the graph; ``hop``: its distance from the start of a neighbourhood."""

    edge_id: str
    type: str
    start_label: str
    start_key: str
    start_name: str
    end_label: str
    end_key: str
    end_name: str
    properties: dict[str, Any]
    doc_id: str
    url: str
    line: int
    confidence: float
    source: str
    hop: int


class Subgraph(_Result):
    """What surrounds a node. ``start``: the nodes that the name means; ``truncated``: the limit cut edges."""

    start: tuple[Node, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    truncated: bool = False

    def to_arrow(self) -> pa.Table:
        """The edges; ``properties`` as JSON."""
        columns = [(n, f.annotation) for n, f in Edge.model_fields.items()]
        types = {int: pa.int64(), float: pa.float64()}
        schema = pa.schema(
            [(n, types.get(t, pa.string()) if isinstance(t, type) else pa.string()) for n, t in columns]
        )
        return pa.Table.from_pylist(
            [{**e.model_dump(), "properties": canonical_json(e.properties)} for e in self.edges],
            schema=schema,
        )

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        starts = {(n.label, n.key) for n in self.start}
        picture = rendering.picture(
            [DrawnNode(n.label, n.key, n.name, start=(n.label, n.key) in starts) for n in self.nodes],
            [DrawnEdge(e.type, (e.start_label, e.start_key), (e.end_label, e.end_key)) for e in self.edges],
        )
        rows = [
            (
                f"{e.start_label} {e.start_name}",
                e.type,
                f"{e.end_label} {e.end_name}",
                _where(e.url, e.line),
                f"{e.confidence:.2f}",
            )
            for e in self.edges
        ]
        title = f"{len(self.nodes)} nodes, {len(self.edges)} edges" + (
            " (cut at the limit)" if self.truncated else ""
        )
        return picture + rendering.table(title, ("start", "relation", "end", "where", "confidence"), rows)


class End(_Result):
    """One end of an edge, and why it is what it is (rule ``support``); ``observed``: its name as written."""

    role: str
    label: str
    key: str
    name: str
    observed: str
    basis: str
    rule: str


class Quote(_Result):
    """A statement read from a blob just now, secrets masked: bytes ``[byte_start, byte_end)`` of the blob."""

    text: str
    url: str
    line: int
    line_end: int
    blob_sha256: str
    byte_start: int
    byte_end: int


class Explanation(_Result):
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

    @property
    def quote(self) -> str:
        return self.quotes[0].text

    @property
    def line(self) -> int:
        return self.quotes[0].line

    def _repr_html_(self) -> str:
        rows = [("quote", _where(q.url, q.line), q.text) for q in self.quotes]
        rows += [(f"{e.role}: {e.label} {e.name}", e.basis, e.rule) for e in self.ends]
        return rendering.table(self.statement, ("", "", ""), rows, preformatted=2)


class Citation(_Result):
    """A sentence and where it stands: code points ``[start, end)`` of the document, and the line of the file
    where that is known.
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


class Answer(_Result):
    """Sentences that answer a question, each with its citation; ``found`` says whether there are any.

    ``kind``: whether they come from facts of the graph, from what documents state, from a model that put
    these into words, or there is none;
    ``confidence``: the probability that the answer is right, from 0 to 1 (``answering.confidence``);
    ``looked_for``: what an answer had to hold; ``answer_id``: what ``KnowledgeBase.replay`` takes.
    """

    question: str
    found: bool
    text: str
    citations: tuple[Citation, ...]
    confidence: float = 0.0
    kind: Literal["facts", "text", "synthesis", "none"] = "none"
    looked_for: str = ""
    answer_id: str = ""

    def to_arrow(self) -> pa.Table:
        """The citations."""
        types = {"number": pa.int32(), "line": pa.int32(), "start": pa.int64(), "end": pa.int64()}
        schema = pa.schema([(n, types.get(n, pa.string())) for n in Citation.model_fields])
        return pa.Table.from_pylist([c.model_dump() for c in self.citations], schema=schema)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        rows = [(f"[{c.number}]", c.text, _where(c.url, c.line)) for c in self.citations]
        said = f"{self.text} ({self.kind}, confidence {self.confidence:.2f})" if self.found else self.text
        return rendering.table(f"{self.question} {said}", ("", "sentence", "where"), rows)


class Replay(_Result):
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
            (f"{h.score:.4f}", h.title, _where(h.url, h.line), rendering.shorten(h.text)) for h in self.hits
        ]
        return rendering.table(
            f"{self.question} ({self.answer_id})", ("score", "title", "where", "text"), rows
        )


def _where(url: str, line: int | None) -> str:
    return f"{url}:{line}" if line else url
