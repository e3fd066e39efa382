"""Reading what a stage has published: always at the version its pointer names, never a newer, unpublished
one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import tables as model
from taboot_pipelines.stages import embeddings
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE

#: asset -> its tables by schema name; the first is what loading the asset gives.
ASSET_TABLES: dict[str, tuple[str, ...]] = {
    "documents": ("documents",),
    "chunks": ("chunks",),
    "embeddings": ("vectors",),
    "tier_a_triples": ("observations",),
    "entity_snapshots": ("entities", "relations", "names", "declarations", "doc_state"),
}
#: Assets whose tables are the namespace's.
_SHARED = frozenset({"embeddings", "entity_snapshots"})


def namespaces(workspace: Workspace, source_id: str) -> list[str]:
    """The namespaces that hold rows of a source: one, or two while it moves. The active one comes last."""
    rows = [r for r in workspace.catalog.sources.find() if r["source_id"] == source_id]
    return [r["namespace"] for r in sorted(rows, key=lambda r: r["state"] == "active")]


def read_published(
    workspace: Workspace,
    namespace: str,
    source_id: str,
    asset: str,
    table: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    buckets: Collection[int] | None = None,
) -> pa.Table:
    """Rows of one of the asset's tables (default its first); empty if nothing is published yet. Raises
    ``E_TABLE``.
    """
    known = ASSET_TABLES.get(asset)
    if known is None or (table or known[0]) not in known:
        raise TabootError(
            "E_TABLE", f"The asset {asset} has no table {table or asset}.", table=table, asset=asset
        )
    base = table or known[0]
    owner = NAMESPACE if asset in _SHARED else source_id
    if asset == "embeddings":
        # The vectors grow only; the source's pointer says which space its chunks were embedded in.
        pointer = workspace.catalog.pointers.get(namespace, source_id, asset)
        name = base if pointer is None else embeddings.table_name(pointer.applied["space"])
        version = None if pointer is None else workspace.tables.version(namespace, owner, name)
    else:
        pointer, name = workspace.catalog.pointers.get(namespace, owner, asset), base
        version = None if pointer is None else pointer.tables.get(name)
    rows = workspace.tables.read(namespace, owner, name, version, columns=columns, buckets=buckets)
    return rows if columns else model.conform(rows, base)
