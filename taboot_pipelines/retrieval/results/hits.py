"""What a search returns: its hits."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
from pydantic import Field, computed_field

from taboot_pipelines.model.tables import TIME
from taboot_pipelines.retrieval.results.base import Result, TableResult
from taboot_pipelines.retrieval.snippets import Ranges, heading, snippet, word_ranges


class Passage(Result):
    """A piece of a document: code points ``[start, end)``, of the chunk ``chunk_id``."""

    chunk_id: str
    start: int
    end: int
    text: str


class Hit(Result):
    """A chunk that was found.

    ``url``: of the document; where its passages have places of their own there (a video's second), of that
    which has most of the query's words; ``start``, ``end``: code points of the document; ``line``: of the
    file, from 1, where the document has the file's lines; ``scores``: of every arm; ``ranks``: its place,
    from 1, in each arm that has it among its best; ``expires_at``: when its retention deletes the
    document (UTC), None: never; ``also_in``: chunk ids of the same text elsewhere; ``similar``: of hits
    left out for nearly the same text; ``terms``: ``snippets.terms_of`` the query; ``context``: the hit and
    its neighbours in the document, in order and without what two of them share.
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
    expires_at: datetime | None = None
    also_in: tuple[str, ...] = ()
    ranks: dict[str, int] = Field(default_factory=dict)
    similar: tuple[str, ...] = ()
    terms: frozenset[str] = Field(frozenset(), exclude=True, repr=False)
    context: tuple[Passage, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def highlights(self) -> Ranges:
        """Where words of the query stand, ``[start, end)`` in code points of ``text``. They are looked for
        when they are first asked for: that takes longer than all else of a hit.
        """
        return word_ranges(self.text, self.terms)

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

    @property
    def metadata(self) -> dict[str, Any]:
        """Every other field that has a value, as JSON has it."""
        told = self.model_dump(mode="json", exclude={"text", "context", "chunk_id", "highlights"})
        return {name: value for name, value in told.items() if value not in (None, "", [], {})}


#: Characters of a hit's text that a notebook shows.
_SNIPPET = 240
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
        ("expires_at", TIME),
        ("also_in", pa.list_(pa.string())),
        ("ranks", pa.map_(pa.string(), pa.int32())),
        ("similar", pa.list_(pa.string())),
        ("highlights", pa.list_(pa.list_(pa.int32()))),
        ("expanded", pa.string()),
    ]
)


class SearchResult(TableResult):
    """The hits of one query, best first.

    ``query`` as it was searched; ``total``: an estimate of how many distinct texts there are to be found;
    ``next_cursor``: asks for the page after this one, None on the last; ``chosen``: the mode that the hits
    were ranked in, which may be another for ``adaptive``, and ``why``, and what a second hop did; ``fusion``,
    ``rrf_k`` and ``weights``: how the arms were joined; ``reranked``: whether a cross-encoder ordered the
    best hits; ``notes``: what to know about it, in sentences; ``manifest_version``: of the publication it was
    found in; ``cached`` and ``embedding_cached``: what was not computed anew; ``latency_ms``: milliseconds by
    part, and ``total``. Equal results may differ in these last three, and in ``next_cursor``.
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
    weights: dict[str, float] = Field(default_factory=dict)
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

    def _repr_html_(self) -> str:
        from taboot_pipelines.retrieval import rendering

        rows = []
        for h in self.hits:
            place = rendering.SourceLocation(h.url, h.line)
            shown = snippet(h.text, h.highlights, _SNIPPET)
            section = heading(h.title, h.section).removeprefix(h.title).removeprefix(" > ")
            rows.append(
                (
                    f"{h.score:.4f}",
                    rendering.Stack((h.title, section, place)),
                    rendering.Marked(shown.pieces, h.text),
                )
            )
        return rendering.table(
            ". ".join((f"{len(self.hits)} hits for “{self.query}” ({self.mode})", *self.notes)),
            ("score", "document", "passage"),
            rows,
        )
