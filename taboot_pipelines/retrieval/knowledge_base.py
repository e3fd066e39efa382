"""``KnowledgeBase``: one namespace, searched, asked and explained, out of the published shards."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.embedding.protocol import Embedder, Vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.model.tables import EDGES_SCHEMA
from taboot_pipelines.retrieval import answers, vectors
from taboot_pipelines.retrieval.bm25 import Keywords, names_something
from taboot_pipelines.retrieval.evidence import Blobs, Source, check_chunk, check_ends
from taboot_pipelines.retrieval.fusion import Ids, rank, reciprocal_rank_fusion
from taboot_pipelines.retrieval.graph import Graph, check_types
from taboot_pipelines.retrieval.index import Filter, Index, Mask, as_moment
from taboot_pipelines.retrieval.query_cache import QueryCache, open_query_cache
from taboot_pipelines.retrieval.results import Answer, Edge, Explanation, Hit, SearchResult, Subgraph
from taboot_pipelines.settings import RetrievalSettings, Settings, load_settings
from taboot_pipelines.shards import Manifest, Seen, Shards, ShardStore, open_shards, verify

if TYPE_CHECKING:
    from taboot_pipelines.inference.rerank import Reranker
    from taboot_pipelines.retrieval.candidates import Candidates
    from taboot_pipelines.retrieval.graph_server import GraphServer
    from taboot_pipelines.retrieval.reranking import Reranking
    from taboot_pipelines.stages.deletion import Receipt, Restored
    from taboot_pipelines.stages.workspace import Workspace

Mode = Literal["hybrid", "vector", "keyword"]
Words = str | Collection[str] | None
Moment = datetime | date | str | None
T = TypeVar("T")

_CHUNK_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):([0-9]{1,9})")
_MOST_HITS = 10_000
_MOST_QUERY = 100_000


class _View:
    """One manifest, pinned: what a query sees from its start to its end."""

    def __init__(
        self, store: ShardStore, seen: Seen, settings: RetrievalSettings, before: _View | None
    ) -> None:
        self.seen = seen
        self.manifest = manifest = seen.manifest
        mapped = {s.entry.key: s for s in before.shards.documents} if before is not None else None
        self.shards: Shards = Shards.open(store, manifest, mapped)
        self._settings = settings
        self._lock = threading.RLock()

    # cached_property does not lock: two threads would build the same thing at once.
    @property
    def index(self) -> Index:
        with self._lock:
            return self._index

    @property
    def keywords(self) -> Keywords:
        with self._lock:
            return self._keywords

    @property
    def graph(self) -> Graph:
        with self._lock:
            return self._graph

    @cached_property
    def _index(self) -> Index:
        return Index(self.shards)

    @cached_property
    def _keywords(self) -> Keywords:
        return Keywords(self._index, self._settings.bm25_k1, self._settings.bm25_b)

    @cached_property
    def _graph(self) -> Graph:
        return Graph(self.shards)

    def shown(self, source: str, path: str, url: str) -> str:
        """A local file's absolute path where its source's root is known; any other URL as it is."""
        entry = self.manifest.sources.get(source)
        return (
            str(Path(entry.root) / path)
            if entry is not None and entry.root and url == f"{source}:{path}"
            else url
        )


class KnowledgeBase:
    """The knowledge of one namespace.

    Every call looks for a newly published manifest first and keeps to that one to its end; if a file of it
    goes away meanwhile, the call is made once more on the next. Safe to use from several threads.
    """

    def __init__(
        self,
        settings: Settings,
        namespace: str,
        *,
        embedder: Embedder | None = None,
        blobs: Blobs | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self.settings = settings
        self.namespace = check_namespace(namespace)
        self._store = open_shards(settings.home_dir, settings.shard_url, settings.storage)
        self._embedder = embedder
        self._queries: QueryCache | None = None
        self._blobs = blobs
        self._candidates: Candidates | None = None
        self._reranker = reranker
        self._reranking: Reranking | None = None
        self._graph_server: GraphServer | None = None
        self._pinned: _View | None = None
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        home: str | Path | None = None,
        namespace: str | None = None,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        blobs: Blobs | None = None,
        reranker: Reranker | None = None,
    ) -> KnowledgeBase:
        """Open the knowledge base under ``home`` (default: ``TABOOT_HOME``).

        ``embedder``, ``blobs`` and ``reranker`` default to what the settings name and are opened when first
        needed. Raises ``E_KB_UNINITIALIZED`` if nothing was published for the namespace yet.
        """
        settings = settings or load_settings()
        if home is not None:
            settings = settings.model_copy(update={"home": Path(home)})
        kb = cls(
            settings,
            settings.namespace if namespace is None else namespace,
            embedder=embedder,
            blobs=blobs,
            reranker=reranker,
        )
        kb._view()
        return kb

    def __repr__(self) -> str:
        return f"KnowledgeBase({str(self.settings.home_dir)!r}, {self.namespace!r})"

    @property
    def manifest(self) -> Manifest:
        """What is published now."""
        return self._view().manifest

    def verify(self) -> None:
        """Hash every file of the shards; ``E_SHARD_CORRUPT`` or ``E_SHARD_MISSING`` names the first that is
        not as published.
        """
        self._ask(lambda view: verify(self._store, view.manifest))

    # --- search ---------------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        source: Words = None,
        type: Words = None,
        tag: Words = None,
        language: Words = None,
        date_from: Moment = None,
        date_to: Moment = None,
        mode: Mode = "hybrid",
        vector_weight: float | None = None,
        keyword_weight: float | None = None,
        rerank: bool | None = None,
    ) -> SearchResult:
        """The chunks that fit ``query`` best, each distinct text once.

        ``source``, ``type``, ``tag``, ``language``: one or several, of which a hit must have one;
        ``date_from`` and ``date_to`` (inclusive days, or moments up to but excluding the second): the
        document's own date, else when its bytes were first seen. ``mode``: both arms joined by reciprocal
        rank fusion, or one of them. ``score`` is the fused score, the cosine or BM25. Ties go to the smaller
        (doc_id, chunk_index). The weights of the arms default to the settings; a query that names something
        (``bm25.names_something``) raises that of the words. ``rerank``: order the best
        ``TABOOT_RERANKER__CANDIDATES`` hits anew by a cross-encoder, whose score is ``scores["rerank"]``;
        None does so if one is configured and answers, True raises its error (``E_CONFIG`` if there is none).
        Raises ``E_QUERY`` naming the argument, ``E_CONFIG`` if the embedder's space is not that of the
        knowledge base.
        """
        text = _check_query(query)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MOST_HITS:
            raise TabootError("E_QUERY", f"limit must be a whole number from 1 to {_MOST_HITS}.")
        if mode not in get_args(Mode):
            raise TabootError("E_QUERY", f"mode must be one of {', '.join(get_args(Mode))}.")
        weights = (
            _check_weight("vector_weight", vector_weight, self.settings.retrieval.vector_weight),
            _check_weight("keyword_weight", keyword_weight, self.settings.retrieval.keyword_weight),
        )
        if vector_weight is None and keyword_weight is None and weights[1] > 0 and names_something(text):
            weights = (weights[0], max(weights))
        wanted = _filter(source, type, tag, language, date_from, date_to)
        reranking = self._open_reranking(rerank)
        depth = limit if reranking is None else max(limit, reranking.candidates)
        found = self._ask(lambda view: self._search(view, text, depth, wanted, mode, weights))
        if reranking is None:
            return found
        return found.model_copy(
            update={"hits": reranking.order(text, found.hits, insist=rerank is True)[:limit]}
        )

    def _search(
        self, view: _View, query: str, limit: int, wanted: Filter, mode: Mode, weights: tuple[float, float]
    ) -> SearchResult:
        index = view.index
        hits: tuple[Hit, ...] = ()
        if len(index):
            vector = self._embed_query(view, query) if mode != "keyword" else None
            mask = index.passing(wanted)
            rows = index.candidates(mask)
            if rows is None or len(rows):
                hits = self._rank(view, query, vector, rows, mask, wanted, limit, mode, weights)
        return SearchResult(query=query, mode=mode, hits=hits)

    def _rank(
        self,
        view: _View,
        query: str,
        vector: Vectors | None,
        rows: Ids | None,
        mask: Mask | None,
        wanted: Filter,
        limit: int,
        mode: Mode,
        weights: tuple[float, float],
    ) -> tuple[Hit, ...]:
        index = view.index
        depth = max(self.settings.retrieval.candidates, limit) if mode == "hybrid" else limit
        arms: list[tuple[Ids, float]] = []
        near = far = (np.zeros(0, dtype=np.int64), np.zeros(0))
        words = view.keywords.scores(query) if mode != "vector" else None
        candidates = self._open_candidates()
        narrowed = (
            None
            if candidates is None
            else candidates.narrow(index, view.keywords, query, vector, words, depth, rows, wanted)
        )
        near_rows, far_rows = narrowed or (rows, rows)
        if vector is not None:
            near = vectors.search(index, vector, depth, near_rows)
            arms.append((near[0], weights[0]))
        if words is not None:
            far = view.keywords.search(words, depth, far_rows)
            arms.append((far[0], weights[1]))
        if mode == "hybrid":
            best, scores = reciprocal_rank_fusion(arms, self.settings.retrieval.rrf_k, limit)
        else:
            best, scores = rank(*(near if mode == "vector" else far), limit)
        per_arm: dict[str, Any] = {}
        if vector is not None:
            order = np.argsort(best)
            cosines = np.empty(len(best))
            cosines[order] = vectors.exact(index, vector.astype(np.float64), best[order])
            per_arm["vector"] = cosines
        if words is not None:
            per_arm["keyword"] = words[best]
        return tuple(
            self._hit(
                view,
                int(row),
                float(score),
                {arm: round(float(values[i]), 6) for arm, values in per_arm.items()},
                mask,
            )
            for i, (row, score) in enumerate(zip(best, scores, strict=True))
        )

    def _hit(self, view: _View, row: int, score: float, scores: dict[str, float], mask: Mask | None) -> Hit:
        chunk = view.index.chunk(row)
        doc = chunk["doc"]
        source = view.manifest.sources.get(doc["source_id"])
        return Hit(
            doc_id=doc["doc_id"],
            chunk_id=chunk["chunk_id"],
            url=view.shown(doc["source_id"], doc["path"], doc["url"]),
            title=doc["title"],
            text=chunk["text"],
            score=score,
            scores=scores,
            start=chunk["start"],
            end=chunk["end"],
            line=chunk["line"],
            section=chunk["section"],
            content_type=chunk["content_type"],
            source=doc["source_id"],
            source_type=source.type if source else "",
            tags=source.tags if source else (),
            language=doc["lang"],
            also_in=tuple(view.index.chunk(r)["chunk_id"] for r in view.index.others(row, mask)),
        )

    def _embed_query(self, view: _View, query: str) -> Vectors:
        embedder = self._open_embedder()
        ours, theirs = view.manifest.space.space(), embedder.space
        if (ours.model, ours.revision, ours.dimension) != (theirs.model, theirs.revision, theirs.dimension):
            raise TabootError(
                "E_CONFIG",
                f"The knowledge base holds vectors of {ours.id}, the embedder makes {theirs.id}.",
                remedy=(
                    "Set the embedder that made the knowledge base, search with mode='keyword', or ingest"
                    " again with this one."
                ),
                ours=ours.id,
                theirs=theirs.id,
            )

        def embed(text: str) -> Vectors:
            vector = np.asarray(embedder.embed_query(text), dtype=np.float32)
            if vector.shape != (ours.dimension,) or not np.isfinite(vector).all():
                raise TabootError(
                    "E_VECTOR",
                    "The embedder returned an unusable vector for the query.",
                    dimension=ours.dimension,
                )
            return vector

        return embed(query) if self._queries is None else self._queries.vector(theirs, query, embed)

    def _open_candidates(self) -> Candidates | None:
        """Qdrant as the source of candidates; None where ``TABOOT_QDRANT__URL`` is not set."""
        if self.settings.qdrant.url is None:
            return None
        with self._lock:
            if self._candidates is None:
                from taboot_pipelines.retrieval.candidates import Candidates
                from taboot_pipelines.stores.vectors import open_vectors

                points = open_vectors(self.settings)
                if points is None:
                    return None
                self._candidates = Candidates(points, self.namespace, self.settings.retrieval)
            return self._candidates

    def _open_embedder(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                from taboot_pipelines.embedding import open_embedder

                # Another process's answers stand for the configured server's only, never for those of an
                # embedder that was passed in.
                self._queries = open_query_cache(self.settings, self.namespace)
                self._embedder = open_embedder(self.settings)
            return self._embedder

    def _open_reranking(self, wanted: bool | None) -> Reranking | None:
        if wanted not in (True, False, None):
            raise TabootError("E_QUERY", "rerank must be True, False or None.")
        given = self.settings.reranker
        configured = self._reranker is not None or given.url or given.torch.model
        if wanted is True and not configured:
            raise TabootError(
                "E_CONFIG",
                "There is no reranker to order the hits by.",
                remedy="Set TABOOT_RERANKER__URL or TABOOT_RERANKER__TORCH__MODEL.",
                settings=["TABOOT_RERANKER__URL", "TABOOT_RERANKER__TORCH__MODEL"],
            )
        if wanted is False or not configured:
            return None
        with self._lock:
            if self._reranking is None:
                from taboot_pipelines.inference.rerank import open_reranker
                from taboot_pipelines.retrieval.reranking import Reranking

                reranker = self._reranker or open_reranker(self.settings)
                self._reranking = Reranking(reranker, given.candidates) if reranker is not None else None
            return self._reranking

    # --- answers --------------------------------------------------------------------------------------------

    def answer(
        self,
        question: str,
        limit: int = 5,
        *,
        source: Words = None,
        type: Words = None,
        tag: Words = None,
        language: Words = None,
        date_from: Moment = None,
        date_to: Moment = None,
        mode: Mode = "hybrid",
    ) -> Answer:
        """The sentences that answer ``question`` best, at most ``limit``, each with its citation; filters as
        in :meth:`search`.
        """
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 50:
            raise TabootError("E_QUERY", "limit must be a whole number from 1 to 50.")
        hits = self.search(
            question,
            10,
            source=source,
            type=type,
            tag=tag,
            language=language,
            date_from=date_from,
            date_to=date_to,
            mode=mode,
        ).hits

        def extract(view: _View) -> Answer:
            text = _check_query(question)
            if not hits or mode == "keyword":
                return answers.extract(text, hits, view.keywords.idf, None, None, limit)
            return answers.extract(
                text,
                hits,
                view.keywords.idf,
                self._open_embedder().embed,
                self._embed_query(view, text),
                limit,
            )

        found = self._ask(extract)
        # Documents that are not their file's text (HTML) have no lines of their own: those come from the
        # blob.
        lines = {c.number: c.line or self._blob_line(c.doc_id, c.start, c.end) for c in found.citations}
        return found.model_copy(
            update={
                "citations": tuple(c.model_copy(update={"line": lines[c.number]}) for c in found.citations)
            }
        )

    def _blob_line(self, doc_id: str, start: int, end: int) -> int | None:
        def read(view: _View) -> int | None:
            document = view.shards.document(doc_id)
            if document is None:
                return None
            source = self._source(view, document, document["blob_sha256"])
            first, _ = OffsetMap.loads(document["offsets"]).to_bytes(start, end)
            return source.line(source.span(first, first)[0])

        try:
            return self._ask(read)
        except TabootError:
            return None  # the citation stands without a line; `explain` says what is wrong with the blob

    # --- graph ----------------------------------------------------------------------------------------------

    def neighbors(
        self, node: str | NodeRef, hops: int = 1, types: Collection[str] | str | None = None, limit: int = 100
    ) -> Subgraph:
        """What surrounds a node: its edges in both directions, up to ``hops`` (1 or 2), of the given relation
        ``types``.

        ``node``: a key, a name (of every node that has it) or a NodeRef. At most ``limit`` edges, nearest
        first, mentions last. Raises ``E_NOT_FOUND`` if nothing is called that, ``E_QUERY`` naming a wrong
        argument.
        """
        if hops not in (1, 2):
            raise TabootError("E_QUERY", "hops must be 1 or 2.")
        if not isinstance(limit, int) or not 1 <= limit <= 100_000:
            raise TabootError("E_QUERY", "limit must be a whole number from 1 to 100000.")
        wanted = check_types(types)

        def surround(view: _View) -> Subgraph:
            graph = view.graph
            start = graph.find(node)
            server = self._open_graph_server()
            among = (
                None
                if server is None
                else server.candidates(graph, view.manifest.snapshot, start, hops, wanted, limit)
            )
            edges, distance, truncated = graph.neighbourhood(start, hops, wanted, limit, among)
            urls = [
                self._document_url(view, d)
                for d in graph.edges.column("doc_id").take(pa.array(edges)).to_pylist()
            ]
            return graph.subgraph(start, edges, distance, truncated, urls)

        return self._ask(surround)

    def _open_graph_server(self) -> GraphServer | None:
        """Neo4j as the source of neighbourhoods; None where ``TABOOT_NEO4J__URL`` is not set."""
        if self.settings.neo4j.url is None:
            return None
        with self._lock:
            if self._graph_server is None:
                from taboot_pipelines.retrieval.graph_server import GraphServer

                self._graph_server = GraphServer.open(self.settings, self.namespace)
            return self._graph_server

    def nodes(self) -> pa.Table:
        """The whole graph's nodes, documents included (DESIGN §7), ascending by label and key."""
        return self._ask(lambda view: view.graph.nodes)

    def edges(self) -> pa.Table:
        """The whole graph's edges (DESIGN §7), ascending by edge_id; ``url`` as stored."""
        return self._ask(lambda view: view.graph.edges.select(EDGES_SCHEMA.names).cast(EDGES_SCHEMA))

    def documents(self) -> pa.Table:
        """One row a document: doc_id, source, type, tags, url (as shown), path, title, mime, language, date,
        since, chunks, blob_sha256, metadata (JSON); ascending by doc_id."""

        def collect(view: _View) -> pa.Table:
            table = view.graph.documents
            counts = (
                np.bincount(view.index.document, minlength=len(table))
                if len(table)
                else np.zeros(0, dtype=np.int64)
            )
            ids, paths, urls = (table.column(c).to_pylist() for c in ("source_id", "path", "url"))
            sources = view.manifest.sources
            return pa.table(
                {
                    "doc_id": table.column("doc_id"),
                    "source": table.column("source_id"),
                    "type": table.column("source_type"),
                    "tags": pa.array(
                        [list(sources[i].tags) if i in sources else [] for i in ids], pa.list_(pa.string())
                    ),
                    "url": pa.array(
                        [view.shown(*x) for x in zip(ids, paths, urls, strict=True)], pa.string()
                    ),
                    "path": table.column("path"),
                    "title": table.column("title"),
                    "mime": table.column("mime"),
                    "language": table.column("lang"),
                    "date": table.column("date"),
                    "since": table.column("since"),
                    "chunks": pa.array(counts.astype(np.int32)),
                    "blob_sha256": table.column("blob_sha256"),
                    "metadata": table.column("metadata"),
                }
            )

        return self._ask(collect)

    # --- evidence -------------------------------------------------------------------------------------------

    def explain(self, what: str | Hit | Edge | Mapping[str, Any]) -> Explanation:
        """Read the evidence of an edge or a hit again, and show it.

        ``what``: an edge_id, a chunk_id, a :class:`Hit`, an :class:`Edge`, or a row of ``edges()``. The
        blob's hash is verified (``E_BLOB_CORRUPT``, ``E_BLOB_MISSING``), the statement quoted with file and
        line, secrets masked; a name that should stand in the quote and does not is ``E_EVIDENCE``.
        ``E_EDGE_UNKNOWN`` if there is no such edge or hit.
        """
        target = _target(what)
        chunk = _CHUNK_ID.fullmatch(target)
        if chunk is not None:
            return self._ask(lambda view: self._explain_chunk(view, chunk[1], int(chunk[2])))
        return self._ask(lambda view: self._explain_edge(view, target))

    def _explain_edge(self, view: _View, edge_id: str) -> Explanation:
        row: dict[str, Any] | None = view.graph.edge(edge_id)
        if row is None:
            raise TabootError("E_EDGE_UNKNOWN", f"There is no edge {edge_id[:64]!r}.", edge_id=edge_id[:64])
        sources: dict[str, Source] = {}

        def source(sha256: str) -> Source:
            if sha256 not in sources:
                sources[sha256] = self._source(view, self._holder(view, sha256, row["doc_id"]), sha256)
            return sources[sha256]

        quote, quoted = source(row["blob_sha256"]).quote(row["byte_start"], row["byte_end"])
        ends = check_ends(row, quoted, quote)
        quotes = [quote]
        for support in json.loads(row["supports"]):
            if (support["blob"], support["start"], support["end"]) != (
                row["blob_sha256"],
                row["byte_start"],
                row["byte_end"],
            ):
                quotes.append(source(support["blob"]).quote(support["start"], support["end"])[0])
        return Explanation(
            kind="edge",
            id=edge_id,
            statement=(
                f"({row['start_label']} {row['start_name']})-[{row['type']}]->({row['end_label']}"
                f" {row['end_name']})"
            ),
            doc_id=row["doc_id"],
            url=self._document_url(view, row["doc_id"]),
            quotes=tuple(quotes),
            ends=ends,
            confidence=row["confidence"],
            extraction_method=row["extraction_method"],
            since=row["since"],
        )

    def _explain_chunk(self, view: _View, doc_id: str, chunk_index: int) -> Explanation:
        row = view.index.row_of(doc_id, chunk_index)
        document = view.shards.document(doc_id) if row is not None else None
        if row is None or document is None:
            raise TabootError(
                "E_EDGE_UNKNOWN",
                f"There is no chunk {doc_id}:{chunk_index}.",
                chunk_id=f"{doc_id}:{chunk_index}",
            )
        chunk = view.index.chunk(row)
        source = self._source(view, document, document["blob_sha256"])
        offsets = OffsetMap.loads(document["offsets"])
        quote, quoted = source.quote(*offsets.to_bytes(chunk["start"], chunk["end"]))
        check_chunk(
            chunk["text"],
            quoted,
            offsets,
            int(offsets.doc_end[-1]) if len(offsets) else 0,
            source,
            quote.line,
        )
        return Explanation(
            kind="hit",
            id=chunk["chunk_id"],
            statement=f"{document['title']}: {chunk['section']}" if chunk["section"] else document["title"],
            doc_id=doc_id,
            url=source.url,
            quotes=(quote,),
            since=document["since"],
        )

    def _holder(self, view: _View, sha256: str, doc_id: str) -> dict[str, Any]:
        """The document whose bytes a blob is: of equal ones the edge's own, then one of the same source; for
        a file that is no document (environment) what its document tells."""
        documents = view.graph.documents
        own = documents.filter(pc.equal(documents.column("doc_id"), doc_id)).to_pylist()
        same = documents.filter(pc.equal(documents.column("blob_sha256"), sha256)).to_pylist()
        mine = own[0]["source_id"] if own else ""
        for row in sorted(same, key=lambda d: (d["doc_id"] != doc_id, d["source_id"] != mine, d["doc_id"])):
            found: dict[str, Any] = row
            return found
        return {
            "source_id": mine,
            "path": "",
            "url": f"blob:{sha256}",
            "mime": "text/plain",
            "charset": "utf-8",
        }

    def _source(self, view: _View, document: Mapping[str, Any], sha256: str) -> Source:
        with self._lock:
            if self._blobs is None:
                from taboot_pipelines.stores.blobs import open_blobs

                self._blobs = open_blobs(self.settings)
        try:
            data = self._blobs.get(self.namespace, sha256)
        except TabootError as error:
            if error.code == "E_BLOB_MISSING" and self.settings.shard_url and not self.settings.blob_url:
                raise TabootError(
                    error.code,
                    error.message,
                    remedy="Set TABOOT_BLOB_URL too: evidence is read from the blobs, not from the shards.",
                    **error.details,
                ) from error
            raise
        return Source(
            data,
            sha256,
            view.shown(document["source_id"], document["path"], document["url"]),
            document["mime"],
            document["charset"],
        )

    def _document_url(self, view: _View, doc_id: str) -> str:
        documents = view.graph.documents
        at = pc.index(documents.column("doc_id"), doc_id).as_py()
        return (
            view.shown(*(documents.column(c)[at].as_py() for c in ("source_id", "path", "url")))
            if at >= 0
            else ""
        )

    # --- changing it ----------------------------------------------------------------------------------------

    def delete(self, doc_ids: Collection[str], erase: bool = False) -> Receipt:
        """Delete documents for good: connectors pass them by until :meth:`restore`. With ``erase`` no byte of
        them stays in our files. The receipt names each store. Raises ``E_NOT_FOUND`` (nothing is deleted
        then), ``E_BUSY``.
        """
        from taboot_pipelines.stages import deletion

        with self._workspace() as workspace:
            return deletion.delete(workspace, self.namespace, doc_ids, erase=erase)

    def restore(self, doc_ids: Collection[str]) -> Restored:
        """Bring deleted documents back; erased ones come back when their source is ingested. Raises
        ``E_NOT_FOUND``, ``E_BUSY``.
        """
        from taboot_pipelines.stages import deletion

        with self._workspace() as workspace:
            return deletion.restore(workspace, self.namespace, doc_ids)

    @contextlib.contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        # The writing half is loaded only when something is written.
        from taboot_pipelines.stages.workspace import Workspace

        workspace = Workspace(self.settings, self._embedder)
        try:
            yield workspace
        finally:
            workspace.close()

    # --- manifests ------------------------------------------------------------------------------------------

    def _view(self, *, now: bool = False) -> _View:
        """The view of the manifest that is current; ``now``, and not a second ago. Raises
        ``E_KB_UNINITIALIZED`` if there is none.
        """
        with self._lock:
            seen = self._store.look(self.namespace, self._pinned.seen if self._pinned else None, now=now)
            if seen is None:
                where = "TABOOT_SHARD_URL" if self.settings.shard_url else self.settings.home_dir
                raise TabootError(
                    "E_KB_UNINITIALIZED",
                    f"There is no knowledge base of namespace {self.namespace!r} under {where}.",
                    namespace=self.namespace,
                )
            if self._pinned is None or self._pinned.seen is not seen:
                self._pinned = _View(self._store, seen, self.settings.retrieval, self._pinned)
            return self._pinned

    def _ask(self, query: Callable[[_View], T]) -> T:
        view = self._view()
        try:
            return query(view)
        except TabootError as error:
            if error.code not in {"E_SHARD_MISSING", "E_SHARD_CORRUPT"}:
                raise
            fresh = self._view(now=True)
            if fresh is view:
                raise
            return query(fresh)


def _check_query(query: str) -> str:
    if not isinstance(query, str) or not query.strip():
        raise TabootError("E_QUERY", "query must be a text that is not empty.")
    if len(query) > _MOST_QUERY:
        raise TabootError("E_QUERY", f"query must have at most {_MOST_QUERY} characters.")
    return query.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no place in any store


def _check_weight(name: str, value: float | None, default: float) -> float:
    if value is None:
        return default
    if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise TabootError("E_QUERY", f"{name} must be a number from 0.")
    return float(value)


def _filter(
    source: Words, type: Words, tag: Words, language: Words, date_from: Moment, date_to: Moment
) -> Filter:
    sets = {}
    for name, value in (("source", source), ("type", type), ("tag", tag), ("language", language)):
        try:
            words = None if value is None else frozenset([value] if isinstance(value, str) else value)
        except TypeError:
            words = frozenset([None])  # type: ignore[list-item]
        if words is not None and not all(isinstance(w, str) for w in words):
            raise TabootError("E_QUERY", f"{name} must be a text or a list of texts.")
        sets[name] = words
    moments = {}
    for name, moment, end in (("date_from", date_from, False), ("date_to", date_to, True)):
        try:
            moments[name] = None if moment is None else as_moment(moment, end=end)
        except (ValueError, TypeError, AttributeError, OverflowError):
            raise TabootError("E_QUERY", f"{name} must be a date or a time in ISO 8601.") from None
    return Filter(
        sets["source"], sets["type"], sets["tag"], sets["language"], moments["date_from"], moments["date_to"]
    )


def _target(what: Any) -> str:
    """The chunk_id or edge_id that a thing is or has."""
    if isinstance(what, Hit):
        return what.chunk_id
    if isinstance(what, Edge):
        return what.edge_id
    if not isinstance(what, str):
        for name in ("edge_id", "chunk_id"):
            try:
                found = what[name]
            except (KeyError, TypeError, IndexError):
                continue
            if isinstance(found, str):
                return found
        raise TabootError("E_QUERY", "explain takes an edge_id, a chunk_id, a hit, or a row of edges().")
    return what.strip()
