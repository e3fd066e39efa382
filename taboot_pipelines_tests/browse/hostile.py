"""A knowledge base in which every text is the same hostile one, and a server over it on loopback."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import uvicorn

from taboot_pipelines.browse.app import make_app, take_port
from taboot_pipelines.model.tables import EDGES_SCHEMA, NODES_SCHEMA
from taboot_pipelines.retrieval.results.answers import Answer, Citation
from taboot_pipelines.retrieval.results.documents import DocumentChunk, DocumentVersion, DocumentView
from taboot_pipelines.retrieval.results.drift import DriftItem, DriftReport, DriftSide
from taboot_pipelines.retrieval.results.explanations import End, Explanation, Mark, Original, Quote
from taboot_pipelines.retrieval.results.graph import DocumentLinks, Edge, Link, Node, Subgraph
from taboot_pipelines.retrieval.results.hits import Hit, SearchResult
from taboot_pipelines.retrieval.snippets import terms_of
from taboot_pipelines.retrieval.states import Amount, DeadLetter, Job, SourceState, SourceStates
from taboot_pipelines.settings import load_settings
from taboot_pipelines.shards.manifest import SourceEntry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DOC = "00000000-0000-4000-8000-000000000000"
EDGE = "e" * 64
#: Each page that shows something of a knowledge base.
PAGES = (
    "/",
    "/search?q=anything&ask=1&scores=1",
    "/search?q=anything&after=something",
    f"/document/{DOC}?at=0-3",
    f"/document/{DOC}?kind=rendered",
    f"/document/{DOC}/life",
    "/node?label=Service&key=k",
    "/node?name=anything",
    "/nodes?label=Service",
    f"/edge/{EDGE}",
    "/map",
    "/sources",
    "/source/one",
    "/drift",
    "/dead-letters",
)


class HostileBase:
    """Answers as ``KnowledgeBase`` does; ``text`` stands wherever a source could have put it, and where it
    could not, too. Lists have one row for each of ``rows``.
    """

    def __init__(self, text: str, rows: Sequence[str] = ()) -> None:
        self.text, self.rows = text, tuple(rows) or (text,)
        self.namespace = text
        self.settings = load_settings()
        self.held_at = datetime(2026, 1, 31, tzinfo=UTC)

    @property
    def manifest(self) -> Any:
        entries = {t: SourceEntry(type=t, tags=(t,), root=t) for t in ("one", *self.rows)}
        tags = {t for entry in entries.values() for t in entry.tags}
        return SimpleNamespace(
            namespace="default",
            version=1,
            sources=entries,
            documents=1,
            chunks=1,
            all_tags=lambda: tags,
            tags={},
            space=SimpleNamespace(model=self.text, revision=self.text, dimension=3),
            collections=dict.fromkeys(tags),
        )

    def search(self, query: str, limit: int = 10, **_options: Any) -> SearchResult:
        hits = tuple(
            Hit(
                doc_id=t, chunk_id=f"{t}:1", url=t, title=t, text=t, score=1.0, scores={t: 1.0}, ranks={t: 1},
                start=0, end=3, line=1, section=f"{t} > {t}x", content_type="code", source=t, source_type=t,
                tags=(t,), language=t, also_in=(f"{t}:2",), terms=terms_of(t),
            )
            for t in self.rows
        )  # fmt: skip
        t = self.text
        return SearchResult(
            query=t, mode=t, hits=hits, total=1, next_cursor=t, chosen=t, why=t, fusion=t, weights={t: 1.0},
            notes=(t,), latency_ms={t: 1.0},
        )  # fmt: skip

    def answer(self, _question: str, _limit: int, **_options: Any) -> Answer:
        t = self.text
        citations = tuple(
            Citation(
                number=n, text=t, doc_id=t, chunk_id=t, url=t, title=t, line=None, start=0, end=3, section=t
            )
            for n, t in enumerate(self.rows, 1)
        )
        return Answer(question=t, found=True, text=f"{t} [1] {t}", citations=citations, kind="text",
                      closest=citations, looked_for=t, notes=(t,))  # fmt: skip

    def conversation(self, _limit: int, **_options: Any) -> Any:
        return SimpleNamespace(ask=lambda question: self.answer(question, 5))

    def original(self, doc_id: str, spans: Any = (), byte_spans: Any = ()) -> Original:
        t = "\n".join(self.rows)
        mark = Mark(start=0, end=5, byte_start=0, byte_end=5)
        return Original(
            doc_id=doc_id, url=self.text, title=self.text, source=self.text, source_type=self.text,
            tags=(self.text,), path=self.text, mime=self.text, language=self.text, date=NOW, since=NOW,
            blob_sha256="b" * 64,
            metadata=json.dumps({self.text: [self.text, {self.text: self.text}], "url": self.text}),
            text=t, rendered=not spans, read=t, marks=(mark,), unread=self.text if byte_spans else "",
        )  # fmt: skip

    def document(self, doc_id: str) -> DocumentView:
        t = self.text
        chunks = tuple(
            DocumentChunk(chunk_id=x, start=0, end=3, line=None, section=x, content_type=x) for x in self.rows
        )
        version = DocumentVersion(event=t, at=NOW, blob_sha256=t, job_id=t)
        return DocumentView(
            doc_id=doc_id, source=t, source_type=t, tags=(t,), path=t, url=t, title=t, mime=t, language=t,
            date=NOW, since=NOW, expires_at=NOW, blob_sha256=t, metadata=t, text=t, chunks=chunks,
            versions=(version,),
        )  # fmt: skip

    def links(self, _document: str, _limit: int) -> DocumentLinks:
        found = tuple(
            Link(kind=t, target=t, doc_id=t, title=t, url=t, fragment=t, text=t, section=t, line=1, start=0,
                 end=1, count=1) for t in self.rows
        )  # fmt: skip
        return DocumentLinks(doc_id=DOC, title=self.text, url=self.text, outgoing=found, incoming=found,
                             unresolved=found)  # fmt: skip

    def neighbors(self, node: Any, **_options: Any) -> Subgraph:
        t = self.text
        start = Node(label="Service", key="k", name=t, scope=t, properties={t: [t], "url": t})
        others = tuple(Node(label=x, key=x, name=x, scope=x, properties={}) for x in self.rows)
        edges = tuple(
            Edge(
                edge_id=x, type=type_, start_label="Service", start_key="k", start_name=t, end_label=x,
                end_key=x,
                end_name=x, properties={x: x, "host": x, "condition": x, "path": x}, doc_id=x, url=x, line=1,
                confidence=1.0, source=x, hop=1,
            )
            for x in self.rows for type_ in (x, "ROUTES_TO", "DEPENDS_ON")
        )  # fmt: skip
        named = tuple(
            Edge(
                edge_id=x, type="MENTIONS", start_label="Document", start_key=x, start_name=x,
                end_label="Service",
                end_key="k",
                end_name=t, properties={}, doc_id=x, url=x, line=1,
                confidence=1.0, source=x, hop=1,
            )
            for x in self.rows
        )  # fmt: skip
        second = (start.model_copy(update={"key": t}),) if isinstance(node, str) else ()
        return Subgraph(
            start=(start, *second), nodes=(start, *others), edges=(*edges, *named), truncated=True
        )

    def explain(self, _what: str) -> Explanation:
        t = self.text
        ends = tuple(
            End(role=t, label=t, key=t, name=t, observed=t, basis=t, rule=t) for _ in range(2)
        )  # fmt: skip
        quotes = tuple(
            Quote(
                text=x,
                url=x,
                line=line,
                line_end=line,
                blob_sha256="b" * 64,
                byte_start=0,
                byte_end=5,
                section=x,
            )
            for x, line in zip(self.rows, (1, *([None] * len(self.rows))), strict=False)
        )
        return Explanation(kind="edge", id=EDGE, statement=t, doc_id=t, url=t, quotes=quotes, ends=ends,
                           confidence=1.0, extraction_method=t, since=NOW)  # fmt: skip

    def drift(self, _kinds: Any = None, limit: int = 1) -> DriftReport:
        items = tuple(
            DriftItem(
                kind=t, label=t, key=t, name=t, statement=t, record=True,
                sides=(DriftSide(says=t, edge_ids=(t,), doc_id=t, url=t, line=1),
                       DriftSide(says=t, edge_ids=(t,), doc_id=t, url=t, line=0, quote=Quote(
                           text=t, url=t, line=1, line_end=1, blob_sha256=t, byte_start=0, byte_end=1))),
            )
            for t in self.rows
        )  # fmt: skip
        return DriftReport(items=items, truncated=True)

    def sources(self) -> SourceStates:
        t = self.text
        job = Job(state=t, started_at=NOW, discovered=1, fetched=1, not_modified=0, skipped=0, failed=1,
                  held=3,
                  complete=False, code=t, message=t)  # fmt: skip
        states = tuple(
            SourceState(id=x, type=x, tags=(x,), root=x, documents=1, state=x, last_job=job, failed=1)
            for x in ("one", *self.rows)
        )
        letters = tuple(
            DeadLetter(source=source, stage=x, item=x, code=x, message=x, kind=kind, attempts=1, first_at=NOW,
                       last_at=NOW)
            for x in self.rows for kind in ("failed", "skipped") for source in ("one", x)
        )  # fmt: skip
        return SourceStates(
            sources=states,
            dead_letters=letters,
            quotas=(Amount(what="bytes", used=9, limit=9),),
            expiring=3,
            deliveries={t: 2, "failed": 1},
            note=t,
        )

    def documents(self) -> pa.Table:
        rows = [
            {"doc_id": t, "source": "one", "title": t, "path": t, "url": t, "blob_sha256": "b" * 64}
            for t in self.rows
        ]
        return pa.Table.from_pylist(rows)

    def nodes(self) -> pa.Table:
        rows = [
            {
                "label": "Service", "key": t, "name": t, "scope": t, "properties": "{}", "doc_ids": [t],
                "first_seen": NOW, "last_seen": NOW,
            }
            for t in self.rows
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, schema=NODES_SCHEMA)

    def edges(self) -> pa.Table:
        blank = {f.name: "" for f in EDGES_SCHEMA if pa.types.is_string(f.type)}
        rows = [
            {
                **blank, "edge_id": edge_id, "type": type_, "start_label": "Service", "start_key": x,
                "start_name": x,
                "end_label": "Service", "end_key": x, "end_name": x, "doc_id": DOC, "url": x, "line": 1,
                "properties": json.dumps({x: x, "port": x, "host": x}), "confidence": 1.0, "source": x,
                "since": NOW, "blob_sha256": "b" * 64, "byte_start": 0, "byte_end": 5, "supports": "[]",
            }
            for n, x in enumerate(self.rows)
            for type_, edge_id in ((x, EDGE if n == 0 else x), (x, f"{x}2"), ("MENTIONS", f"{x}3"))
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, schema=EDGES_SCHEMA)


@contextlib.contextmanager
def serving(kb: Any) -> Iterator[str]:
    """The application over anything that answers as a knowledge base does; gives the address to open."""
    taken = take_port(0)
    port = taken.getsockname()[1]
    config = uvicorn.Config(
        make_app(kb, "token", "once", port), http="h11", lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/?token=token"
    finally:
        server.should_exit = True
        thread.join(30)
        taken.close()
