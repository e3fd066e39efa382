"""nDCG@10 and Recall@100 of words, vectors and both, on judged sets; of both also without late interaction,
and what that adds to a search of ten hits, in milliseconds of the process's CPU. Peers in the same run: BM25
over whole documents, of plain words and of Snowball stems without function words, and the arms joined by
rank alone.

    python benchmarks/retrieval_quality.py [DATA] [SET …]

DATA holds folders in the BEIR layout (corpus.jsonl, queries.jsonl, qrels.tsv). A document's rank is that of
its best chunk. Vectors are kept in the system's temporary folder, since the bundled model makes some 20 texts
a second.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import Stemmer

sys.path.insert(0, str(Path(__file__).parent))

from kb_fixture import Text, shard_input

from taboot_pipelines.documents.tokens import Tokenizer
from taboot_pipelines.embedding import open_embedder
from taboot_pipelines.embedding.protocol import Embedder
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.request import Mode
from taboot_pipelines.settings import load_settings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.analyzer import STOP_WORDS
from taboot_pipelines.shards.publish import publish

DATA = Path(os.environ.get("TABOOT_TEST_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
SETS = (
    "retrieval-cranfield",
    "multihop-musique-train-100",
    "retrieval-faq-mlops",
    "multihop-hotpotqa-100",
)
MAX_TOKENS, OVERLAP = 250, 50
STEMMER = Stemmer.Stemmer("english")

Terms = Callable[[str], list[str]]


def read(folder: Path) -> tuple[list[dict], list[dict], dict[str, dict[str, int]]]:
    rows = [
        [json.loads(line) for line in (folder / name).open(encoding="utf-8")]
        for name in ("corpus.jsonl", "queries.jsonl")
    ]
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels.tsv").open(encoding="utf-8"):
        parts = line.split()
        if parts[-1].lstrip("-").isdigit() and int(parts[-1]) > 0:
            judged[parts[0]][parts[-2]] = int(parts[-1])
    return rows[0], rows[1], judged


def chunk(text: str, tokens: Tokenizer) -> list[tuple[int, int]]:
    """Whole sentences up to the limit, neighbours sharing some."""
    if not text.strip():
        return []
    if tokens.count(text) <= MAX_TOKENS:
        return [(0, len(text))]
    cuts = [0, *(m.end() for m in re.finditer(r"(?<=[.!?])\s+|\s+(?=\. )|\n+", text)), len(text)]
    parts = [p for a, b in itertools.pairwise(cuts) if a < b for p in halved(text, a, b, tokens)]
    sizes = tokens.count_many([text[a:b] for a, b in parts])
    spans, first = [], 0
    while first < len(parts):
        last, used = first, 0
        while last < len(parts) and (last == first or used + sizes[last] <= MAX_TOKENS):
            used += sizes[last]
            last += 1
        spans.append((parts[first][0], parts[last - 1][1]))
        if last == len(parts):
            break
        back, shared = last, 0
        while back > first + 1 and shared + sizes[back - 1] <= OVERLAP:
            back -= 1
            shared += sizes[back]
        first = back
    return spans


def halved(text: str, start: int, end: int, tokens: Tokenizer) -> list[tuple[int, int]]:
    """A sentence over the limit in pieces that are not."""
    if tokens.count(text[start:end]) <= MAX_TOKENS or end - start < 2:
        return [(start, end)]
    middle = (start + end) // 2
    return halved(text, start, middle, tokens) + halved(text, middle, end, tokens)


def embed(texts: list[str], embedder: Embedder, name: str) -> np.ndarray:
    cache = (
        Path(tempfile.gettempdir())
        / f"taboot-benchmark-{name}-{embedder.space.id}-{sha256_hex(chr(0).join(texts))[:16]}.npy"
    )
    if not cache.exists():
        np.save(cache, embedder.embed(texts))
    return np.load(cache)


def judge(
    ranks: list[list[str]], queries: list[dict], judged: dict[str, dict[str, int]]
) -> tuple[float, float]:
    gains, recalls = [], []
    for query, ranked in zip(queries, ranks, strict=True):
        gold = judged.get(query["_id"])
        if not gold:
            continue
        got = sum(gold.get(d, 0) / math.log2(i + 2) for i, d in enumerate(ranked[:10]))
        best = sum(g / math.log2(i + 2) for i, g in enumerate(sorted(gold.values(), reverse=True)[:10]))
        gains.append(got / best)
        recalls.append(len(gold.keys() & set(ranked[:100])) / len(gold))
    return float(np.mean(gains)), float(np.mean(recalls))


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def stems(text: str) -> list[str]:
    return STEMMER.stemWords([w for w in words(text) if w not in STOP_WORDS])


def peer(texts: list[str], names: list[str], queries: list[dict], terms: Terms) -> list[list[str]]:
    """Plain BM25 (k1 1.2, b 0.75) over whole documents; terms in over half of them are ignored."""
    held = [Counter(terms(t)) for t in texts]
    df = Counter(w for c in held for w in c)
    mean = sum(c.total() for c in held) / len(held)
    ranks = []
    for query in queries:
        scores = np.zeros(len(texts))
        for term in set(terms(query["text"])):
            if 0 < df[term] <= len(texts) / 2:
                idf = math.log(1 + (len(texts) - df[term] + 0.5) / (df[term] + 0.5))
                scores += [
                    (
                        idf * c[term] * 2.2 / (c[term] + 1.2 * (0.25 + 0.75 * c.total() / mean))
                        if term in c
                        else 0.0
                    )
                    for c in held
                ]
        ranks.append([names[i] for i in np.argsort(-scores, kind="stable")[:100]])
    return ranks


def joined_by_rank(arms: list[list[str]], weights: tuple[float, ...]) -> list[str]:
    """Reciprocal rank fusion, as a peer of what the knowledge base does."""
    scores: Counter[str] = Counter()
    for ranked, weight in zip(arms, weights, strict=True):
        for i, name in enumerate(ranked, 1):
            scores[name] += weight / (60 + i)
    return [name for name, _ in scores.most_common()]


def searched(kb: KnowledgeBase, query: str, mode: Mode) -> list[str]:
    """The documents of the hits, best first."""
    hits = kb.search(query, 300, mode=mode, cache=False).hits
    return list(dict.fromkeys(hit.title for hit in hits))


def spent(kb: KnowledgeBase, queries: list[dict]) -> float:
    times = []
    for query in queries[:100]:
        begin = time.process_time()
        kb.search(query["text"], cache=False)
        times.append((time.process_time() - begin) * 1000)
    return float(np.median(times))


def main(data: Path, sets: list[str]) -> None:
    tokens = Tokenizer()
    print(f"{'set':28} {'arm':18} {'nDCG@10':>8} {'Recall@100':>10}")
    for name in sets:
        corpus, queries, judged = read(data / name)
        texts = [f"{d['title']}\n\n{d['text']}" if d["title"] else d["text"] for d in corpus]
        spans = [chunk(t, tokens) for t in texts]
        with tempfile.TemporaryDirectory() as home:
            settings = load_settings(home=Path(home))
            embedder = open_embedder(settings)
            vectors = embed([t[a:b] for t, s in zip(texts, spans, strict=True) for a, b in s], embedder, name)
            at = np.cumsum([0, *(len(s) for s in spans)])
            docs = [
                Text("set", d["_id"], t, s, vectors[at[i] : at[i + 1]])
                for i, (d, t, s) in enumerate(zip(corpus, texts, spans, strict=True))
            ]
            publish(
                open_shards(settings),
                shard_input(docs, embedder.space, {"set": {"type": "files", "tags": []}}),
                settings.shards,
            )
            kb = KnowledgeBase.open(settings=settings, embedder=embedder)
            without = settings.retrieval.model_copy(update={"late_interaction": False})
            fused = KnowledgeBase.open(
                settings=settings.model_copy(update={"retrieval": without}), embedder=embedder
            )
            names = [d["_id"] for d in corpus]
            found = {
                "peer: BM25, words": judge(peer(texts, names, queries, words), queries, judged),
                "peer: BM25, stems": judge(peer(texts, names, queries, stems), queries, judged),
            }
            ranks = {
                mode: [searched(kb, query["text"], mode) for query in queries]
                for mode in ("keyword", "vector", "hybrid")
            }
            ranks["without late"] = [searched(fused, query["text"], "hybrid") for query in queries]
            late_ms = spent(kb, queries) - spent(fused, queries)
            found |= {mode: judge(own, queries, judged) for mode, own in ranks.items()}
            arms = [list(pair) for pair in zip(ranks["vector"], ranks["keyword"], strict=True)]
            for weights in ((1.0, 1.0), (3.0, 1.0)):
                by_rank = [joined_by_rank(pair, weights) for pair in arms]
                found[f"peer: RRF {weights[0]:g}:{weights[1]:g}"] = judge(by_rank, queries, judged)
        for arm, (ndcg, recall) in found.items():
            print(f"{name:28} {arm:18} {ndcg:8.3f} {recall:10.3f}", flush=True)
        better = max(found["keyword"][0], found["vector"][0])
        print(
            f"{name:28} hybrid / better arm {found['hybrid'][0] / better:.3f}, keyword / peer"
            f" {found['keyword'][0] / found['peer: BM25, stems'][0]:.3f}, late {late_ms:.1f} ms\n",
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA, sys.argv[2:] or list(SETS))
