"""What queries return: pydantic models that are tables (Arrow, pandas) and notebook output."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import DrawnEdge, DrawnNode


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class Passage(_Result):
    """A piece of a document: code points ``[start, end)``, of the chunk ``chunk_id``."""

    chunk_id: str
    start: int
    end: int
    text: str


class Hit(_Result):
    """A chunk that was found.

    ``start``, ``end``: code points of the document; ``line``: of the file, from 1, where the document has the
    file's lines; ``scores``: of every arm; ``ranks``: its place, from 1, in each arm that has it among its
    best; ``also_in``: chunk ids of the same text elsewhere; ``similar``: of hits left out for nearly the same
    text; ``highlights``: where words of the query stand, ``[start, end)`` in code points of ``text``;
    ``context``: the hit and its neighbours in the document, in order and without what two of them share.
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
    ranks: dict[str, int] = {}
    similar: tuple[str, ...] = ()
    highlights: tuple[tuple[int, int], ...] = ()
    context: tuple[Passage, ...] = ()

    @property
    def expanded(self) -> str:
        """The text of ``context``, an empty line where something of the document lies between two pieces;
        the hit's own text where no context was asked for.
        """
        joined, last = "", None
        for piece in self.context:
            joined += ("" if last is None or piece.start == last else "\n\n") + piece.text
            last = piece.end
        return joined or self.text


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
        ("ranks", pa.map_(pa.string(), pa.int32())),
        ("similar", pa.list_(pa.string())),
        ("highlights", pa.list_(pa.list_(pa.int32()))),
        ("expanded", pa.string()),
    ]
)


class SearchResult(_Result):
    """The hits of one query, best first.

    ``query`` as it was searched; ``total``: an estimate of how many distinct texts there are to be found;
    ``next_cursor``: asks for the page after this one, None on the last; ``chosen``: the mode that the hits
    were ranked in, which may be another for ``adaptive``, and ``why``; ``fusion``, ``rrf_k`` and
    ``weights``: how the arms were joined; ``reranked``: whether a cross-encoder ordered the best hits;
    ``notes``: what to know about it, in sentences; ``manifest_version``: of the publication it was found in;
    ``cached`` and ``embedding_cached``: what was not computed anew; ``latency_ms``: milliseconds by part, and
    ``total``. Equal results may differ in these last three, and in ``next_cursor``.
    """

    query: str
    mode: str
    hits: tuple[Hit, ...]
    total: int = 0
    next_cursor: str | None = None
    chosen: str = ""
    why: str = ""
    fusion: str = ""
    rrf_k: int = 0
    weights: dict[str, float] = {}
    reranked: bool = False
    notes: tuple[str, ...] = ()
    manifest_version: int = 0
    cached: bool = Field(False, exclude=True)
    embedding_cached: bool = Field(False, exclude=True)
    latency_ms: dict[str, float] = Field(default_factory=dict, exclude=True)

    def __eq__(self, other: object) -> bool:
        # A cursor names the request, and two requests may have one result.
        own, theirs = (
            r.model_dump(exclude={"next_cursor"}) if isinstance(r, SearchResult) else None
            for r in (self, other)
        )
        return own == theirs

    @property
    def made(self) -> dict[str, Any]:
        """How it came about: ``cached``, ``embedding_cached``, ``latency_ms``. What two equal searches differ
        in, and so no part of the result.
        """
        return {n: getattr(self, n) for n in ("cached", "embedding_cached", "latency_ms")}

    def __len__(self) -> int:
        return len(self.hits)

    def to_arrow(self) -> pa.Table:
        rows = [
            {
                **h.model_dump(exclude={"context"}),
                "scores": list(h.scores.items()),
                "ranks": list(h.ranks.items()),
                "expanded": h.expanded,
            }
            for h in self.hits
        ]
        return pa.Table.from_pylist(rows, schema=_HIT_SCHEMA)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        rows = [
            (f"{h.score:.4f}", h.title, _where(h.url, h.line), h.section, rendering.shorten(h.text))
            for h in self.hits
        ]
        return rendering.table(
            ". ".join((f"{len(self.hits)} hits for “{self.query}” ({self.mode})", *self.notes)),
            ("score", "title", "where", "section", "text"),
            rows,
        )


class Compared(_Result):
    """A text that at least one mode found, with its rank (from 1) and score in each that did."""

    chunk_id: str
    doc_id: str
    url: str
    title: str
    text: str
    line: int | None
    ranks: dict[str, int]
    scores: dict[str, float]


class Comparison(_Result):
    """What every mode finds for one query, side by side: by the best rank in any, then by the mode's place.

    ``notes``: by mode, what to know about it, such as why it found nothing.
    """

    query: str
    modes: tuple[str, ...]
    rows: tuple[Compared, ...]
    latency_ms: dict[str, float]
    notes: dict[str, tuple[str, ...]] = {}

    def to_arrow(self) -> pa.Table:
        """One row a text, with a column ``{mode}_rank`` and ``{mode}_score`` for each mode."""
        fixed = [("chunk_id", pa.string()), ("doc_id", pa.string()), ("url", pa.string())]
        fixed += [("title", pa.string()), ("text", pa.string()), ("line", pa.int32())]
        for mode in self.modes:
            fixed += [(f"{mode}_rank", pa.int32()), (f"{mode}_score", pa.float64())]
        rows = []
        for row in self.rows:
            made: dict[str, Any] = row.model_dump(exclude={"ranks", "scores"})
            for mode in self.modes:
                made[f"{mode}_rank"], made[f"{mode}_score"] = row.ranks.get(mode), row.scores.get(mode)
            rows.append(made)
        return pa.Table.from_pylist(rows, schema=pa.schema(fixed))

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        rows = [
            (
                *(f"{r.ranks[m]} ({r.scores[m]:.4f})" if m in r.ranks else "–" for m in self.modes),
                r.title,
                _where(r.url, r.line),
                rendering.shorten(r.text, 120),
            )
            for r in self.rows
        ]
        return rendering.table(
            f"{len(rows)} texts for “{self.query}”: rank and score in each mode",
            (*self.modes, "title", "where", "text"),
            rows,
        )


class Step(_Result):
    """One step of a search and what became of a chunk there. ``passed``: whether it went on; ``rank`` (from
    1) and ``score``: its own there, where the step has such.
    """

    step: str
    passed: bool
    reason: str
    rank: int | None = None
    score: float | None = None


class Considered(_Result):
    """A chunk of the document that was asked about. ``rank``: its place among the hits, where it is one;
    ``fell_out``: the step at which it did not go on, where it is none.
    """

    chunk_id: str
    line: int | None
    text: str
    rank: int | None
    fell_out: str | None
    steps: tuple[Step, ...]


class WhyNot(_Result):
    """Why a document is not among the hits of a search, or where among them it is.

    ``chunks``: those of the document that came furthest first; ``reason``: one sentence about the first.
    """

    query: str
    mode: str
    doc_id: str
    url: str
    title: str
    found: bool
    reason: str
    chunks: tuple[Considered, ...]

    def to_arrow(self) -> pa.Table:
        """One row a chunk and step."""
        schema = pa.schema(
            [
                ("chunk_id", pa.string()),
                ("step", pa.string()),
                ("passed", pa.bool_()),
                ("rank", pa.int32()),
                ("score", pa.float64()),
                ("reason", pa.string()),
            ]
        )
        rows = [{"chunk_id": c.chunk_id, **s.model_dump()} for c in self.chunks for s in c.steps]
        return pa.Table.from_pylist(rows, schema=schema)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        rows = [
            (
                _where(self.url, c.line) if s is c.steps[0] else "",
                s.step,
                "passed" if s.passed else "fell out",
                "" if s.rank is None else str(s.rank),
                "" if s.score is None else f"{s.score:.4f}",
                s.reason,
            )
            for c in self.chunks
            for s in c.steps
        ]
        return rendering.table(self.reason, ("chunk", "step", "", "rank", "score", "why"), rows)


class CacheStats(_Result):
    """What one cache keeps. ``kind``: ``results`` or ``embeddings``; ``store``: ``process`` or ``redis``, of
    which ``entries`` and ``bytes`` are; ``hits`` and ``misses`` are those of this process.
    """

    kind: str
    store: str
    hits: int
    misses: int
    entries: int
    bytes: int
    ttl_seconds: float


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


class Link(_Result):
    """A link between a document and another, which ``doc_id``, ``title`` and ``url`` name; they are empty
    where no document is meant.

    ``kind``: ``hyperlink``, or ``title`` where the other's title stands in the text. ``target``: what it
    leads to as observed, and ``fragment`` the place there; ``text``: what a reader sees of a hyperlink. It
    stands at code points ``[start, end)``, ``section`` and ``line`` (of the file, from 1, where that is
    known) of the document that holds it, first of ``count`` times.
    """

    kind: str
    target: str
    doc_id: str = ""
    title: str = ""
    url: str = ""
    fragment: str
    text: str
    section: str
    line: int | None
    start: int
    end: int
    count: int


_LINK_TYPES = {"line": pa.int32(), "start": pa.int64(), "end": pa.int64(), "count": pa.int32()}


class DocumentLinks(_Result):
    """The links of one document: to others, from others, and those that lead to no document of the namespace.
    ``truncated``: the limit cut one of them.
    """

    doc_id: str
    title: str
    url: str
    outgoing: tuple[Link, ...]
    incoming: tuple[Link, ...]
    unresolved: tuple[Link, ...]
    truncated: bool = False

    def to_arrow(self) -> pa.Table:
        """All links, with their ``direction``: outgoing, incoming or unresolved."""
        schema = pa.schema(
            [("direction", pa.string()), *((n, _LINK_TYPES.get(n, pa.string())) for n in Link.model_fields)]
        )
        return pa.Table.from_pylist(
            [{"direction": direction, **link.model_dump()} for direction, link in self._links()],
            schema=schema,
        )

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def _links(self) -> list[tuple[str, Link]]:
        return [
            (direction, link)
            for direction, links in (
                ("outgoing", self.outgoing),
                ("incoming", self.incoming),
                ("unresolved", self.unresolved),
            )
            for link in links
        ]

    def _repr_html_(self) -> str:
        rows = [
            (
                direction,
                link.kind,
                link.title or link.target,
                _where(link.url if direction == "incoming" else self.url, link.line),
                link.section,
                str(link.count),
            )
            for direction, link in self._links()
        ]
        caption = (
            f"{self.title}: {len(self.outgoing)} links to others, {len(self.incoming)} from others,"
            f" {len(self.unresolved)} to no document"
        )
        return rendering.table(
            caption + (" (cut at the limit)" if self.truncated else ""),
            ("", "kind", "document", "where", "section", "count"),
            rows,
        )


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
