"""A search over 100k chunks, text of the hits included: p50 and p95, exactness under filters, and opening.

    python benchmarks/search_100k.py [CHUNKS] [QUERIES]

Vectors are synthetic clusters, texts Zipf words; the query's vector is given (no embedder is timed). Peers in
the same process: numpy's scan of the float32 matrix for the vectors, bm25s for the words if it is installed;
neither returns texts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from kb_fixture import Text, shard_input

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import load_settings
from taboot_pipelines.shards import files, open_shards, publish

SPACE = Space("synthetic", "0", 384, 256)
PER_DOCUMENT = 10
#: source -> share of the documents: filters of 50, 10, 1 and 0.1 %.
SHARES = {"half": 0.5, "rest": 0.389, "tenth": 0.1, "hundredth": 0.01, "thousandth": 0.001}


class Given:
    """An embedder that is told the query's vector."""

    space = SPACE

    def __init__(self) -> None:
        self.next = np.zeros(SPACE.dimension, dtype=np.float32)

    def embed(self, texts: object) -> np.ndarray:
        raise NotImplementedError

    def embed_query(self, text: str) -> np.ndarray:
        return self.next


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
        embedder = Given()

        def search(i: int, mode: str = "hybrid", source: str | None = None) -> list[str]:
            embedder.next = targets[i]
            return [h.chunk_id for h in kb.search(queries[i], 10, mode=mode, source=source, cache=False).hits]

        show("open", timed(lambda _: KnowledgeBase.open(settings=settings, embedder=embedder), 5))
        kb = KnowledgeBase.open(settings=settings, embedder=embedder)
        show("first search (every file hashed and mapped)", timed(search, 1))
        files._verified.clear()
        kb = KnowledgeBase.open(settings=settings, embedder=embedder)
        show("the same, once more", timed(search, 1))
        kb = KnowledgeBase.open(settings=settings, embedder=embedder)
        show(
            "open and first search, files hashed before",
            timed(lambda i: (KnowledgeBase.open(settings=settings), search(i)), 1),
        )
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
        for source in (None, *SHARES):
            rows = np.arange(chunks) if source is None else np.flatnonzero(of == source)
            right = 0
            for i in range(min(count, 50)):
                scores = np.round(wide[rows] @ targets[i].astype(np.float64), 6)
                best = ids[rows[np.lexsort((place[rows], -scores))[:10]]]
                right += search(i, "vector", source) == best.tolist()
            print(f"exact top 10 in order, filter {source or 'none':12} {right} of {min(count, 50)} queries")

        peer = show(
            "peer: numpy float32 scan, ids only",
            timed(lambda i: np.argpartition(-(vectors @ targets[i]), 10)[:10], count),
        )
        print(f"vector search / numpy scan: {ours['vector'] / peer:.2f}")
        try:
            import bm25s
        except ImportError:
            print("peer bm25s is not installed")
            return
        model = bm25s.BM25(k1=1.2, b=0.75)
        corpus = [t.text[a:b].split() for t in texts for a, b in t.spans]
        model.index(corpus, show_progress=False)
        peer = show(
            "peer: bm25s, ids only",
            timed(lambda i: model.retrieve([queries[i].split()], k=10, show_progress=False), count),
        )
        print(f"keyword search / bm25s: {ours['keyword'] / peer:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, int(sys.argv[2]) if len(sys.argv) > 2 else 200)
