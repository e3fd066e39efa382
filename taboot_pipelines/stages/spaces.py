"""The embedding spaces of a namespace: which of them is searched, which one the next ingest fills, and what
each takes.

Holds rule ``spaces-never-mix``. A new space is built beside the old one, which goes on being searched until
one publication switches to it. The old one's vectors stay: who goes back to its model embeds nothing twice.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.stages import embeddings
from taboot_pipelines.stages.housekeeping import texts_in_use, vector_tables
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE


@dataclass(frozen=True, slots=True)
class SpaceState:
    """A space by its id (``embedding.protocol.Space``), its vectors and the bytes of their table.

    ``searched``: it is the one that was published. ``chosen``: the settings name its embedder, so the next
    ingest fills it. ``lacking``: texts of the present documents that have no vector in it.
    """

    space: str
    vectors: int
    bytes: int
    searched: bool
    chosen: bool
    lacking: int


def states(workspace: Workspace, namespace: str) -> list[SpaceState]:
    """Every space that has vectors, is searched or is chosen, by id. Raises what the embedder does that is
    asked for its space.
    """
    tables = workspace.tables
    manifest = load_manifest(workspace.shards, namespace)
    searched = "" if manifest is None else manifest.space.space().id
    chosen = workspace.embedder.space.id
    texts = texts_in_use(workspace, namespace)
    held = {name.removeprefix(embeddings.table_name("")) for name in vector_tables(workspace, namespace)}
    found = []
    for space in sorted({*held, chosen, *([searched] if searched else [])}):
        name = embeddings.table_name(space)
        version = tables.version(namespace, NAMESPACE, name)
        size = tables.size(namespace, NAMESPACE, name, version)
        rows = tables.read(namespace, NAMESPACE, name, version, columns=["sha256"])
        lacking = len(texts.difference(rows.column("sha256").to_pylist()))
        found.append(SpaceState(space, size.rows, size.bytes, space == searched, space == chosen, lacking))
    return found


def drop(workspace: Workspace, namespace: str, space: str) -> SpaceState:
    """Delete the vectors of a space that is neither searched nor chosen; returns what it was.

    Raises ``E_NOT_FOUND`` if there is none of the name, ``E_QUERY`` if it is in use, ``E_BUSY`` while a
    source of the namespace is worked on: it may be filling the space by other settings.
    """
    with ExitStack() as others:
        for row in workspace.catalog.sources.find(namespace):
            others.enter_context(workspace.leases.source(namespace, row["source_id"], wait=0))
        others.enter_context(workspace.leases.exclusive(f"{namespace}.vectors"))
        known = {state.space: state for state in states(workspace, namespace)}
        if space not in known:
            raise TabootError(
                "E_NOT_FOUND", f"There is no embedding space {space[:80]!r}." + or_near(space, known)
            )
        state = known[space]
        if state.searched or state.chosen:
            why = "is searched" if state.searched else "is the one that the next ingest fills"
            raise TabootError(
                "E_QUERY",
                f"The embedding space {space} {why}.",
                remedy="Set another embedder and ingest: what was searched before can be dropped then.",
                space=space,
            )
        workspace.tables.drop(namespace, NAMESPACE, embeddings.table_name(space))
    return state
