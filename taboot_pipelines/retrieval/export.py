"""All of one manifest as a single DuckDB file, which whoever gets it reads with DuckDB alone."""

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
from taboot_pipelines.shards.attaching import attached
from taboot_pipelines.stores.disk import on_disk, refusal, storage_error


@dataclass(frozen=True)
class Exported:
    """The file that was written, its bytes, and {table: rows} of it."""

    path: Path
    bytes: int
    tables: dict[str, int]


def export(view: View, path: Path, *, replace: bool = False) -> Exported:
    """Write what ``view`` serves to a DuckDB file: ``about``, ``documents``, ``chunks`` with their text and
    vectors, ``nodes`` and ``edges``; documents, nodes and edges have the columns of ``KnowledgeBase``.

    Chunks are copied shard by shard, so that memory is bounded by the graph. The file appears when it is
    whole, for its owner alone. Raises ``E_CONFLICT`` where there is one already, ``E_STORAGE``, and what
    reading raises.
    """
    if path.exists() and not (replace and path.is_file()):
        raise TabootError(
            "E_CONFLICT",
            f"{path} is there already.",
            remedy="Name another file, or say that it is replaced (--replace, replace=True).",
            path=str(path),
        )
    with (
        on_disk("The knowledge base cannot be exported", path),
        tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder,
    ):
        made = Path(folder, path.name)
        rows = _write(view, made)
        made.chmod(0o600)
        made.replace(path)
        return Exported(path, path.stat().st_size, rows)


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
