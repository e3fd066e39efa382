"""All of one manifest elsewhere: as a copy that a knowledge base is opened from, or as one DuckDB file."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import tables
from taboot_pipelines.retrieval.documents import documents
from taboot_pipelines.retrieval.filters import read_filter
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.settings import Settings
from taboot_pipelines.shards import open_target
from taboot_pipelines.shards.attaching import attached
from taboot_pipelines.shards.protocol import ShardStore
from taboot_pipelines.shards.publish import copy
from taboot_pipelines.stores.disk import on_disk, refusal, storage_error


@dataclass(frozen=True)
class Exported:
    """Where it was written, its bytes and of these how many were written now, and how many rows it has of
    each kind."""

    path: str
    bytes: int
    written: int
    tables: dict[str, int]


def export_copy(
    store: ShardStore, view: View, where: str | Path, settings: Settings, *, replace: bool = False
) -> Exported:
    """Copy the shards that ``view`` serves, and its manifest, to a folder or the URL of an object store; what
    is there already is not copied again.

    Raises ``E_CONFLICT`` where another publication lies there that is not to be replaced, ``E_CONFIG`` for an
    unusable URL, ``E_STORAGE``, and what reading raises.
    """
    manifest, target = view.manifest, open_target(where, settings)
    there = target.read_manifest(manifest.namespace)
    if "://" not in str(where) and Path(where).is_file():
        raise _conflict(where)
    if there is not None and not replace:
        raise _conflict(where, manifest.namespace)
    done = copy(store, manifest, target)
    rows = {"documents": done.documents, "chunks": done.chunks, "entities": done.entities}
    size = sum(f.size for s in manifest.shards for f in s.files)
    return Exported(str(where), size, done.bytes_written, rows)


def _conflict(where: str | Path, namespace: str | None = None) -> TabootError:
    return TabootError(
        "E_CONFLICT",
        f"{where} holds a knowledge base {namespace!r}." if namespace else f"{where} is there already.",
        remedy="Name another place, or say that it is replaced (--replace, replace=True).",
        path=str(where),
    )


def export_file(view: View, path: Path, *, replace: bool = False) -> Exported:
    """Write what ``view`` serves to a DuckDB file: ``about``, ``documents``, ``chunks`` with their text and
    vectors, ``nodes`` and ``edges``; documents, nodes and edges have the columns of ``KnowledgeBase``.

    Chunks are copied shard by shard, so that memory is bounded by the graph. The file appears when it is
    whole, for its owner alone. Raises ``E_CONFLICT`` where there is one already, ``E_STORAGE``, and what
    reading raises.
    """
    if path.exists() and not (replace and path.is_file()):
        raise _conflict(path)
    with (
        on_disk("The knowledge base cannot be exported", path),
        tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder,
    ):
        made = Path(folder, path.name)
        rows = _write(view, made)
        made.chmod(0o600)
        made.replace(path)
        size = path.stat().st_size
        return Exported(str(path), size, size, rows)


def _write(view: View, path: Path) -> dict[str, int]:
    import duckdb

    whole = {
        "about": _about(view),
        "documents": documents(view, read_filter(), None, None),
        "nodes": tables.nodes(view),
        "edges": tables.edges(view),
    }
    try:
        with attached(path, "READ_WRITE") as connection:
            for name, table in whole.items():
                connection.register("rows", table)
                connection.execute(f"CREATE TABLE {name} AS FROM rows")
                connection.unregister("rows")
            made = "CREATE TABLE chunks AS"
            for shard in view.shards.documents:
                database = str(shard.database()).replace("'", "''")
                connection.execute(f"ATTACH '{database}' AS shard (READ_ONLY)")
                connection.execute(f"{made} SELECT * EXCLUDE (row, length) FROM shard.docs")
                connection.execute("DETACH shard")
                made = "INSERT INTO chunks"
            connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise storage_error(
            "The knowledge base cannot be exported", refusal(error), path, reason=type(error).__name__
        ) from error
    return {**{name: len(table) for name, table in whole.items()}, "chunks": view.manifest.chunks}


def _about(view: View) -> pa.Table:
    """What the file is of, as names and values."""
    manifest = view.manifest
    said = {
        "namespace": manifest.namespace,
        "manifest": str(manifest.version),
        "model": manifest.space.model,
        "release": version("taboot-pipelines"),
    }
    return pa.table({"name": list(said), "value": list(said.values())})
