"""Where shards lie, and how rows are assigned to them: a function of the content alone (DESIGN rule 21).

Keys follow seed 004: ``{namespace}.duckdb.manifest.json`` and ``{namespace}.duckdb.shards/<content hash>/…``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

#: Raised whenever the files of a shard change their form: every shard then gets another key.
FORMAT = 1

DATABASE = "shard-00000.duckdb"
CHUNKS = "chunks.arrow"
DOCUMENTS = "documents.arrow"
POSTINGS = "postings.arrow"
VECTORS_INT8 = "vectors.i8"
VECTORS_FLOAT32 = "vectors.f32"
#: What a shard holds, with sizes and hashes, written last: lets a publisher adopt a finished one that no
#: manifest names yet.
ENTRY = "shard.json"
#: Put by a reader that found the shard damaged, so that the next publish builds it again.
DAMAGED = "damaged"
#: Put on an object store, where a folder has no time of its own, when the shard leaves the manifest: its
#: grace begins.
LEFT = "left"
#: Beginning of the name of a folder in which a shard is being built.
BUILDING = ".building-"


def manifest_name(namespace: str) -> str:
    return f"{namespace}.duckdb.manifest.json"


def shards_name(namespace: str) -> str:
    return f"{namespace}.duckdb.shards"


def manifest_path(root: Path, namespace: str) -> Path:
    return root / manifest_name(namespace)


def shards_dir(root: Path, namespace: str) -> Path:
    return root / shards_name(namespace)


def shard_dir(root: Path, namespace: str, key: str) -> Path:
    return shards_dir(root, namespace) / key


def cut(positions: Sequence[int], weights: Sequence[int], bits: int, limit: int) -> list[tuple[int, int]]:
    """The leaves of the smallest binary trie over ``positions`` (ascending, ``bits`` wide) that weigh at most
    ``limit``.

    Returns ranges ``[lo, hi)`` of the rows, in order. A leaf whose rows all have one position may weigh more.
    Leaves depend on the rows under their prefix alone, so a change elsewhere never moves them.
    """
    total = [0]
    for w in weights:
        total.append(total[-1] + w)
    leaves: list[tuple[int, int]] = []
    stack = [(0, len(positions), 0, 0)] if positions else []
    while stack:
        lo, hi, depth, base = stack.pop()
        if total[hi] - total[lo] <= limit or positions[lo] == positions[hi - 1] or depth == bits:
            leaves.append((lo, hi))
            continue
        middle = base | (1 << (bits - depth - 1))
        split = bisect_left(positions, middle, lo, hi)
        if split < hi:
            stack.append((split, hi, depth + 1, middle))
        if lo < split:
            stack.append((lo, split, depth + 1, base))
    return leaves
