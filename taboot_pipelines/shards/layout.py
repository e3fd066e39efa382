"""How the files and folders of shards are named, and how numbers are read out of their columns.

Names: ``{namespace}.duckdb.manifest.json``, ``{namespace}.duckdb.shards/<key>/…``, and for each earlier
publication that is kept ``{namespace}.duckdb.kept/<version>-<microseconds since the epoch>.json``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from taboot_pipelines.model.tables import CHUNKS as CHUNKS_TABLE

# --- Numbers out of Arrow columns without a copy
#
# ``Array.to_numpy`` imports pandas wherever that is installed, which costs a first search more than its
# own work.


def numbers(column: pa.Array | pa.ChunkedArray, dtype: Any) -> Any:
    """The values of a fixed-width column without nulls as an array of ``dtype``, which must be as wide."""
    if isinstance(column, pa.ChunkedArray):
        parts = [numbers(chunk, dtype) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(
        data, dtype=dtype, count=len(column), offset=column.offset * np.dtype(dtype).itemsize
    )


#: Increased whenever the database of a shard changes its form: every shard then gets another key.
FORMAT = 4
#: The same for the shards of entities alone.
ENTITIES_FORMAT = 4
#: Increased whenever a search file changes its form: readers then derive theirs anew.
SEARCH_FORMAT = 3

#: The columns of ``tables.CHUNKS`` that a search maps as they are, every further one included.
MAPPED = ["chunk_index", "start", "end", "text", "section", "content_type", "tokens"]
#: What follows from the rest, or stands there in another form.
_NOT_MAPPED = {"bucket", "chunk_id", "doc_id", "sha256", "fingerprint"}
MAPPED += [name for name in CHUNKS_TABLE.names if name not in {*MAPPED, *_NOT_MAPPED}]

DATABASE = "shard-00000.duckdb"
#: What a shard holds, with sizes and hashes. It is written last, so a publisher can adopt a finished shard
#: that no manifest names yet.
ENTRY = "shard.json"
#: Written by a reader that found the shard damaged, so that the next publish builds it again.
DAMAGED = "damaged"
#: Written when the shard leaves the manifest, on an object store only, where a folder has no time of its own:
#: the period of grace begins.
LEFT = "left"
#: Beginning of the name of a folder in which a shard is being built.
BUILDING = ".building-"


def manifest_name(namespace: str) -> str:
    """The manifest's name under the root of the store."""
    return f"{namespace}.duckdb.manifest.json"


def shards_name(namespace: str) -> str:
    """The name of the folder of a namespace's shards under the root of the store."""
    return f"{namespace}.duckdb.shards"


def kept_name(namespace: str) -> str:
    """The name of the folder of the manifests of kept publications under the root of the store."""
    return f"{namespace}.duckdb.kept"


def search_file_name(sha256: str) -> str:
    """The name in the cache of the search file that is derived from the database with this hash."""
    return f"{sha256}.search-{SEARCH_FORMAT}"


def manifest_path(root: Path, namespace: str) -> Path:
    return root / manifest_name(namespace)


def shards_dir(root: Path, namespace: str) -> Path:
    return root / shards_name(namespace)


def shard_dir(root: Path, namespace: str, key: str) -> Path:
    return shards_dir(root, namespace) / key
