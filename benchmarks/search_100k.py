"""A search over 100k chunks, text of the hits included: p50 and p95, exactness under filters, and opening.

    python benchmarks/search_100k.py [CHUNKS] [QUERIES]

Vectors are synthetic clusters, texts Zipf words; the query's vector is given (no embedder is timed). Peers in
the same process: the raw scan of the codes as the limit, numpy's scan of the float32 matrix, DuckDB, and
bm25s and LanceDB if they are installed. Only LanceDB returns texts too.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from kb_fixture import Given, Text, shard_input

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.settings import load_settings
from taboot_pipelines.shards import files, open_shards
from taboot_pipelines.shards.publish import publish

SPACE = Space("synthetic", "0", 384, 256)
PER_DOCUMENT = 10
#: source -> share of the documents: filters of 50, 10, 1 and 0.1 %.
SHARES = {"half": 0.5, "rest": 0.389, "tenth": 0.1, "hundredth": 0.01, "thousandth": 0.001}


def make(chunks: int) -> tuple[list[Text], np.ndarray]:
    rng = np.random.default_rng(7)
    centres = rng.standard_normal((2000, SPACE.dimension)).astype(np.float32)
    vectors = (
        centres[rng.integers(0, len(centres), chunks)]
        + rng.standard_normal((chunks, SPACE.dimension)).astype(np.float32) * 0.8
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = np.array([f"w{i}" for i in range(50_000)])
    weights = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(len(words), size=(chunks, 140), p=weights / weights.sum())
    names = list(SHARES)
    texts = []
    documents = chunks // PER_DOCUMENT
    bounds = np.cumsum([SHARES[n] for n in names]) * documents
    for i in range(documents):
        parts = [" ".join(words[drawn[i * PER_DOCUMENT + j]]) for j in range(PER_DOCUMENT)]
        at, spans = 0, []
        for p in parts:
            spans.append((at, at + len(p)))
            at += len(p) + 2
        source = names[int(np.searchsorted(bounds, i, side="right").clip(0, len(names) - 1))]
        texts.append(
            Text(
                source,
                f"{i}.txt",
                "\n\n".join(parts),
                spans,
                vectors[i * PER_DOCUMENT : (i + 1) * PER_DOCUMENT],
            )
        )
    return texts, vectors


def timed(work, repeat: int) -> np.ndarray:
    times = []
    for i in range(repeat):
        start = time.perf_counter()
        work(i)
        times.append(1000 * (time.perf_counter() - start))
    return np.array(times)


def show(name: str, times: np.ndarray) -> float:
    print(
        f"{name:44} p50 {np.percentile(times, 50):7.2f} ms   p95 {np.percentile(times, 95):7.2f} ms",
        flush=True,
    )
    return float(np.percentile(times, 50))


def main(chunks: int, count: int) -> None:
    texts, vectors = make(chunks)
    rng = np.random.default_rng(11)
    picked = rng.integers(0, chunks, count)
    queries = [
        " ".join(rng.choice(t.text[slice(*t.spans[int(p) % PER_DOCUMENT])].split(), 8))
        for p in picked
        for t in (texts[int(p) // PER_DOCUMENT],)
    ]
    targets = vectors[picked] + rng.standard_normal((count, SPACE.dimension)).astype(np.float32) * 0.03
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as home:
        settings = load_settings(home=Path(home))
        start = time.perf_counter()
        report = publish(
            open_shards(settings),
            shard_input(texts, SPACE, {s: {"type": "files", "tags": [s]} for s in SHARES}),
            settings.shards,
        )
        took = time.perf_counter() - start
        print(
            f"published {report.chunks} chunks in {report.shards_new} shards,"
            f" {report.bytes_written / 1e6:.0f} MB, {took:.1f} s"
        )
        start = time.perf_counter()
        again = publish(
            open_shards(settings),
            shard_input(texts, SPACE, {s: {"type": "files", "tags": [s]} for s in SHARES}),
            settings.shards,
        )
        print(
            f"published again, nothing changed: {1000 * (time.perf_counter() - start):.0f} ms, changed"
            f" {again.changed}"
        )
        embedder = Given(SPACE)

        def search(i: int, mode: str = "hybrid", source: str | None = None) -> list[str]:
            embedder.next = targets[i]
            return [h.chunk_id for h in kb.search(queries[i], 10, mode=mode, source=source, cache=False).hits]

        show("open", timed(lambda _: KnowledgeBase.open(settings=settings, embedder=embedder), 5))
        kb = KnowledgeBase.open(settings=settings, embedder=embedder)
        show("first search (every file hashed and mapped)", timed(search, 1))
        files._opened.clear()
        (settings.home_dir / "cache" / "verified.json").unlink(missing_ok=True)
        kb = KnowledgeBase.open(settings=settings, embedder=embedder)
        show("the same, once more", timed(search, 1))
        kb = KnowledgeBase.open(settings=settings, embedder=embedder)
        show(
            "open and first search, files hashed before",
            timed(lambda i: (KnowledgeBase.open(settings=settings), search(i)), 1),
        )
        # Words that are asked for the first time in a process are looked up in every shard.
        show("search, hybrid, words asked for the first time", timed(search, count))
        ours = {
            mode: show(f"search, {mode}", timed(lambda i, m=mode: search(i, m), count))
            for mode in ("hybrid", "vector", "keyword")
        }
        for source in SHARES:
            show(
                f"search, hybrid, filter {source} ({SHARES[source]:.1%})",
                timed(lambda i, s=source: search(i, "hybrid", s), count),
            )

        ids = np.array([f"{t.doc_id}:{j}" for t in texts for j in range(PER_DOCUMENT)])
        order = np.array(
            [(t.doc_id, j) for t in texts for j in range(PER_DOCUMENT)], dtype=[("d", "U36"), ("j", "i4")]
        )
        place = np.argsort(np.argsort(order))
        of = np.repeat([t.source for t in texts], PER_DOCUMENT)
        wide = vectors.astype(np.float64)
        judged = min(count, 50)
        best: dict[str | None, list[list[str]]] = {}
        for source in (None, *SHARES):
            rows = np.arange(chunks) if source is None else np.flatnonzero(of == source)
            best[source] = []
            for i in range(judged):
                scores = np.round(wide[rows] @ targets[i].astype(np.float64), 6)
                best[source].append(ids[rows[np.lexsort((place[rows], -scores))[:10]]].tolist())
            found = [search(i, "vector", source) for i in range(judged)]
            right = sum(own == all_best for own, all_best in zip(found, best[source], strict=True))
            print(
                f"filter {source or 'none':12} recall@10 {recall(found, best[source]):.3f}, exact top 10 in"
                f" order {right} of {judged} queries"
            )

        index = kb._session.view().index
        limit = show(
            "limit: the raw scan of the int8 codes", timed(lambda i: raw_scan(index, targets[i]), count)
        )
        print(f"vector search / raw scan: {ours['vector'] / limit:.2f}")
        peer = show(
            "peer: numpy float32 scan, ids only",
            timed(lambda i: np.argpartition(-(vectors @ targets[i]), 10)[:10], count),
        )
        print(f"vector search / numpy scan: {ours['vector'] / peer:.2f}")
        passages = [t.text[a:b] for t in texts for a, b in t.spans]
        peer_bm25s(passages, queries, ours["keyword"])
        peer_duckdb(vectors, ids, targets, best[None])
        peer_lancedb(Path(home) / "lance", vectors, passages, of, ids, queries, targets, best)


def recall(found: list[list[str]], best: list[list[str]]) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, best, strict=True)]))


def raw_scan(index: Index, target: np.ndarray) -> None:
    """What no search over these codes can be faster than: one pass over their bytes."""
    import numkong

    code = np.rint(target / np.abs(target).max() * 127).astype(np.int8)
    packed = numkong.dots_pack(np.stack([code, code]))
    for shard in index.shards:
        numkong.dots_packed(shard.int8, packed)


def peer_bm25s(passages: list[str], queries: list[str], ours: float) -> None:
    try:
        import bm25s
    except ImportError:
        print("peer bm25s is not installed")
        return
    model = bm25s.BM25(k1=1.2, b=0.75)
    model.index([p.split() for p in passages], show_progress=False)
    peer = show(
        "peer: bm25s, ids only",
        timed(lambda i: model.retrieve([queries[i].split()], k=10, show_progress=False), len(queries)),
    )
    print(f"keyword search / bm25s: {ours / peer:.2f}")


def peer_duckdb(vectors: np.ndarray, ids: np.ndarray, targets: np.ndarray, best: list[list[str]]) -> None:
    """DuckDB with an HNSW index where its vss extension can be installed, else its own scan."""
    import duckdb
    import pyarrow as pa

    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), SPACE.dimension)
    rows = pa.table({"id": ids, "vector": flat})
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute(f"CREATE TABLE chunks (id TEXT, vector FLOAT[{SPACE.dimension}])")
        connection.execute("INSERT INTO chunks FROM rows")
        del rows
        try:
            connection.execute("INSTALL vss; LOAD vss")
            connection.execute("CREATE INDEX near ON chunks USING HNSW (vector) WITH (metric = 'ip')")
            name = "peer: DuckDB vss (HNSW), ids only"
        except duckdb.Error:
            name = "peer: DuckDB's scan (vss cannot be installed here)"
        query = (
            "SELECT id FROM chunks ORDER BY array_negative_inner_product(vector,"
            f" $1::FLOAT[{SPACE.dimension}]) LIMIT 10"
        )
        found = []
        asked = len(best)
        show(
            name,
            timed(lambda i: found.append(connection.execute(query, [targets[i].tolist()]).fetchall()), asked),
        )
        print(f"  recall@10 {recall([[r[0] for r in rows] for rows in found], best):.3f}")


def peer_lancedb(
    folder: Path,
    vectors: np.ndarray,
    passages: list[str],
    of: np.ndarray,
    ids: np.ndarray,
    queries: list[str],
    targets: np.ndarray,
    best: dict[str | None, list[list[str]]],
) -> None:
    """LanceDB with a word index and an IVF-PQ index whose search is refined from the full vectors."""
    try:
        import lancedb
        import pyarrow as pa
        from lancedb.index import FTS, IvfPq
    except ImportError:
        print("peer lancedb is not installed")
        return
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), SPACE.dimension)
    rows = pa.table({"id": ids, "source": of, "text": passages, "vector": flat})
    start = time.perf_counter()
    table = lancedb.connect(folder).create_table("chunks", rows)
    table.create_index("text", config=FTS())
    table.create_index("vector", config=IvfPq(distance_type="dot"))
    print(f"peer lancedb: written and indexed in {time.perf_counter() - start:.0f} s")

    def near(i: int, source: str | None = None) -> list[str]:
        search = table.search(targets[i]).metric("dot").nprobes(40).refine_factor(10)
        search = search.where(f"source = '{source}'", prefilter=True) if source else search
        return [r["id"] for r in search.select(["id", "text", "_distance"]).limit(10).to_list()]

    def both(i: int) -> None:
        search = table.search(query_type="hybrid").vector(targets[i]).text(queries[i])
        search.metric("dot").nprobes(40).refine_factor(10).limit(10).to_list()

    count = len(best[None])
    show("peer: LanceDB, hybrid", timed(both, count))
    show("peer: LanceDB, vector", timed(near, count))
    show(
        "peer: LanceDB, keyword",
        timed(lambda i: table.search(queries[i], query_type="fts").limit(10).to_list(), count),
    )
    for source, right in best.items():
        found = [near(i, source) for i in range(count)]
        print(f"  recall@10, filter {source or 'none'}: {recall(found, right):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, int(sys.argv[2]) if len(sys.argv) > 2 else 200)
