"""Reads what a stage has published, at exactly the version that its pointer names.

A newer version that is not published is never read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from taboot_pipelines.model import tables as model
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table as its stage's pointer names it: its owner, its name, and its version (None: there is none)."""

    owner: str
    name: str
    version: TableVersion | None
    schema: str


def namespaces(workspace: Workspace, source_id: str) -> list[str]:
    """Return the namespaces that hold rows of a source: one, or two while it moves, the active one last."""
    rows = [r for r in workspace.catalog.sources.find() if r["source_id"] == source_id]
    return [r["namespace"] for r in sorted(rows, key=lambda r: r["state"] == "active")]


def published_versions(
    workspace: Workspace, namespace: str, owner: str, *assets: str
) -> dict[str, TableVersion | None]:
    """Return {table: its published version} of the tables of some assets, None where nothing is published."""
    found: dict[str, TableVersion | None] = {}
    for asset in assets:
        pointer = workspace.catalog.pointers.get(namespace, owner, asset)
        for table in CHAIN.stage(asset).tables:
            found[table.name] = None if pointer is None else pointer.tables.get(table.name)
    return found


def read_published(
    workspace: Workspace,
    namespace: str,
    source_id: str,
    asset: str,
    table: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    buckets: Collection[int] | None = None,
    members: tuple[str, Sequence[str]] | None = None,
) -> pa.Table:
    """Return rows of one of the asset's tables, by default its first; empty if nothing is published yet.

    Raises ``E_TABLE`` if the asset has no such table, or the table cannot be used.
    """
    found = published_table(workspace, namespace, source_id, asset, table)
    rows = workspace.tables.read(
        namespace,
        found.owner,
        found.name,
        found.version,
        columns=columns,
        buckets=buckets,
        members=members,
    )
    return rows if columns else model.conform(rows, found.schema)


def published_table(
    workspace: Workspace, namespace: str, source_id: str, asset: str, table: str | None = None
) -> PublishedTable:
    """Return one of the asset's tables, by default its first. Raises ``E_TABLE`` if it has no such table."""
    wanted = CHAIN.stage(asset).table(table)
    owner = NAMESPACE if wanted.owner == "namespace" else source_id
    if wanted.per_space:
        # Such a table only grows; the source's pointer says which embedding space its rows belong to.
        pointer = workspace.catalog.pointers.get(namespace, source_id, asset)
        if pointer is None:
            return PublishedTable(owner, wanted.name, None, wanted.schema)
        name = f"{wanted.name}.{pointer.applied['space']}"
        version = workspace.tables.version(namespace, owner, name)
        return PublishedTable(owner, name, version, wanted.schema)
    pointer = workspace.catalog.pointers.get(namespace, owner, asset)
    version = None if pointer is None else pointer.tables.get(wanted.name)
    return PublishedTable(owner, wanted.name, version, wanted.schema)
