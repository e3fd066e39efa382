"""How well searches rank on judged sets, nDCG@10: floors a little below what was measured.

Passages here are cut by length alone, so the figures differ a little from those of
``benchmarks/retrieval_quality.py``.
"""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from taboot_pipelines.embedding import open_embedder
from taboot_pipelines.embedding.protocol import Embedder
from taboot_pipelines.model import tables
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import Settings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.inputs import DocumentRows, ShardInput
from taboot_pipelines.shards.publish import publish
from taboot_pipelines_tests.shards import builder
from taboot_pipelines_tests.shards.builder import Doc, HashEmbedder, World
from taboot_pipelines_tests.world import DATA

pytestmark = pytest.mark.slow

_PASSAGE_CHARACTERS = 400


class Judged:
    """A folder in the BEIR layout: documents in passages, and of each query the gains of documents."""

    def __init__(self, name: str) -> None:
        folder = DATA / name
        self.docs = [
            Doc(row["_id"], "\n\n".join(passages(f"{row['title']}\n{row['text']}")))
            for row in map(json.loads, (folder / "corpus.jsonl").open(encoding="utf-8"))
        ]
        gains: dict[str, dict[str, int]] = defaultdict(dict)
        for line in (folder / "qrels.tsv").open(encoding="utf-8"):
            query, *_, document, gain = line.split()
            if gain.isdigit() and int(gain) > 0:
                gains[query][document] = int(gain)
        self.queries = [
            (row["text"], gains[row["_id"]])
            for row in map(json.loads, (folder / "queries.jsonl").open(encoding="utf-8"))
            if row["_id"] in gains
        ]


def passages(text: str) -> list[str]:
    """The text in pieces that the model can read."""
    return textwrap.wrap(text, _PASSAGE_CHARACTERS) or [text]


class Embedded(World):
    """A world whose vectors are those of an embedder."""

    def __init__(self, docs: Sequence[Doc], embedder: Embedder) -> None:
        super().__init__(docs)
        self._embedder = embedder

    def load(self, doc_ids: Sequence[str]) -> DocumentRows:
        rows = super().load(doc_ids)
        texts = dict(zip(rows.chunks["sha256"].to_pylist(), rows.chunks["text"].to_pylist(), strict=True))
        made = self._embedder.embed(list(texts.values()))
        vectors = [
            {"bucket": 0, "sha256": sha256, "vector": vector.tolist()}
            for sha256, vector in zip(texts, made, strict=True)
        ]
        return dataclasses.replace(rows, vectors=pa.Table.from_pylist(vectors, schema=tables.VECTORS))

    def input(self, snapshot: str = "s1") -> ShardInput:
        return dataclasses.replace(super().input(snapshot), space=self._embedder.space)


def published(home: Path, docs: Sequence[Doc], embedder: Embedder) -> KnowledgeBase:
    settings = Settings(home=home)
    # The vectors of a world without an embedder are the hashes' already.
    world = World(docs) if isinstance(embedder, HashEmbedder) else Embedded(docs, embedder)
    publish(open_shards(settings), world.input(), settings.shards)
    return KnowledgeBase.open(settings=settings, embedder=embedder)


def ndcg(kb: KnowledgeBase, queries: Sequence[tuple[str, dict[str, int]]], mode: str) -> float:
    gains = []
    for query, gold in queries:
        hits = kb.search(query, 60, mode=mode).hits
        ranked = list(dict.fromkeys(h.title for h in hits))[:10]
        got = sum(gold.get(d, 0) / math.log2(i + 2) for i, d in enumerate(ranked))
        best = sorted(gold.values(), reverse=True)[:10]
        gains.append(got / sum(g / math.log2(i + 2) for i, g in enumerate(best)))
    return float(np.mean(gains))


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("retrieval-cranfield", 0.385),
        ("retrieval-faq-mlops", 0.955),
        ("multihop-hotpotqa-100", 0.795),
        ("multihop-musique-train-100", 0.570),
    ],
)
def test_words(tmp_path, monkeypatch, name, floor):
    """Abstracts, questions and names with one set of parameters."""
    # No search by words reads a vector, and those of all passages take as long as the rest.
    monkeypatch.setattr(builder, "embed", lambda text: np.full(builder.SPACE.dimension, 0.25, np.float32))
    judged = Judged(name)
    assert ndcg(published(tmp_path, judged.docs, HashEmbedder()), judged.queries, "keyword") >= floor


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    yield open_embedder(Settings(home=tmp_path_factory.mktemp("embedder")))


@pytest.mark.parametrize(("name", "floor", "gain"), [("retrieval-faq-mlops", 0.95, 1.0)])
def test_words_and_meaning_together(tmp_path, embedder, name, floor, gain):
    judged = Judged(name)
    kb = published(tmp_path, judged.docs, embedder)
    queries = judged.queries[::4] if len(judged.queries) > 200 else judged.queries
    found = {mode: ndcg(kb, queries, mode) for mode in ("hybrid", "keyword", "vector")}
    assert found["hybrid"] >= floor, found
    assert found["hybrid"] >= gain * max(found["keyword"], found["vector"]), found
