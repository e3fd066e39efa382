"""The bundled embedder against its raw ONNX session: ``python benchmarks/embedding.py [FOLDER of Markdown]
[TEXTS]``.

The raw session gets the same texts, tokenized beforehand and sorted by length, in its best batches of 1, 2, 4
and 8, and is pooled. The two take turns on equal shares of the texts, so that a busy machine is busy for
both. Also printed: the latency of a query, and texts a second through the TEI client with a fake server.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from taboot_pipelines.documents.chunking import Chunker
from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.embedding.tei import TeiEmbedder
from taboot_pipelines.settings import ChunkingSettings, EmbeddingSettings, TeiSettings

DEFAULT = (
    Path(os.environ.get("TABOOT_TEST_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
    / "linuxserver-docs-md"
)
BATCHES = (1, 2, 4, 8)
SHARES = 3


def raw(session: Any, ids: list[list[int]], size: int) -> np.ndarray:
    """The vectors of tokenized texts, in batches sorted by length and padded to the longest."""
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    out = np.empty((len(ids), 384), np.float32)
    for at in range(0, len(order), size):
        batch = order[at : at + size]
        longest = max(len(ids[i]) for i in batch)
        tokens = np.zeros((len(batch), longest), np.int64)
        mask = np.zeros_like(tokens)
        for row, i in enumerate(batch):
            tokens[row, : len(ids[i])] = ids[i]
            mask[row, : len(ids[i])] = 1
        given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        hidden = session.run(None, given)[0]
        pooled = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1)[:, None]
        out[batch] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    return out


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 240
    chunker = Chunker(ChunkingSettings())
    chunks = sorted(
        {c.text for p in sorted(folder.rglob("*.md")) for c in chunker.chunk(p.read_text(), "text/markdown")}
    )
    if not chunks:
        sys.exit(f"no Markdown in {folder}")
    texts = random.Random(5).sample(chunks, min(wanted, len(chunks)))
    embedder = MiniLmEmbedder(EmbeddingSettings())
    embedder.embed(texts[:4])
    loaded = embedder._loaded()
    ids = [loaded.tokenizer.encode(text).ids for text in texts]
    print(f"{len(texts)} chunks of {statistics.mean(map(len, ids)):.0f} tokens on average")

    spent: dict[str | int, float] = dict.fromkeys(("taboot", *BATCHES), 0.0)
    nearest = 1.0
    for share in range(SHARES):
        mine = slice(share * len(texts) // SHARES, (share + 1) * len(texts) // SHARES)
        begin = time.perf_counter()
        vectors = embedder.embed(texts[mine])
        spent["taboot"] += time.perf_counter() - begin
        for size in BATCHES:
            begin = time.perf_counter()
            other = raw(loaded.session, ids[mine], size)
            spent[size] += time.perf_counter() - begin
        nearest = min(nearest, float((vectors * other).sum(axis=1).min()))
    best = min(BATCHES, key=lambda size: spent[size])
    for name, seconds in spent.items():
        print(
            f"  {name if name == 'taboot' else f'raw session, {name}':16} {len(texts) / seconds:6.1f} texts/s"
        )
    print(
        f"taboot / best raw (batch {best}): {spent[best] / spent['taboot']:.3f}   least cosine between the"
        f" two {nearest:.7f}"
    )

    times = []
    for i in range(40):
        begin = time.perf_counter()
        embedder.embed_query(f"how do I restart the nginx container number {i}")
        times.append(time.perf_counter() - begin)
    print(f"query: p50 {statistics.median(times) * 1000:.1f} ms, p95 {sorted(times)[37] * 1000:.1f} ms")

    from taboot_pipelines_tests.fakes.tei import FakeTei

    many = [text for _ in range(max(1, 4000 // len(chunks))) for text in chunks][:6400]
    with FakeTei() as fake, TeiEmbedder(TeiSettings(url=fake.url)) as client:
        client.embed(many[:64])
        begin = time.perf_counter()
        client.embed(many)
        print(
            f"TEI client with a fake server in this process: {len(many) / (time.perf_counter() - begin):.0f}"
            " texts/s"
        )


if __name__ == "__main__":
    main()
