"""Brings the tables of an earlier release to the columns that are declared today, without fetching anything.

A home lives longer than a release. What is declared of the tables is kept as one digest for each namespace.
Where it is another than today's, each table is compared once. One with other columns is dropped, and what it
held is derived anew from the catalog, the blobs and the tables before it. Vectors and archived runs cannot be
derived: their rows are carried over. The digest is published last, so a kill anywhere only repeats the work.
"""

from __future__ import annotations

from importlib import metadata

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.runs import ARCHIVES
from taboot_pipelines.knowledge.structured import STATED
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import TABLES, declared
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deriving import derive
from taboot_pipelines.stages.embeddings import table_name
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.tables import NAMESPACE

STAGE = "table_schemas"
#: What the names of tables begin with whose rows nothing can derive again.
_CARRIED_OVER = (table_name(""), ARCHIVES)


def upgrade_tables(workspace: Workspace, namespace: str) -> None:
    """Make every table of a namespace one that can be read and written; called before anything else is.

    Raises ``E_TABLE`` if a newer release wrote them, ``E_BUSY`` while another process uses them, and whatever
    a stage raises; what is done stays done.
    """
    if namespace in workspace.current_tables:
        return
    release = metadata.version("taboot-pipelines")
    wanted = ids.digest(declared({*TABLES, *(t.name for stage in CHAIN.stages for t in stage.tables)}))
    known = workspace.catalog.pointers.get(namespace, NAMESPACE, STAGE)
    if known is None or known.inputs != wanted:
        if known is not None and _parts(known.applied["release"]) > _parts(release):
            raise TabootError(
                "E_TABLE",
                f"The tables of {namespace} were written by taboot-pipelines {known.applied['release']},"
                f" which is newer than this version, {release}.",
                remedy="Install that version or a newer one, or restore a backup from before.",
                namespace=namespace,
            )
        _replace(workspace, namespace)
        derive(workspace, namespace, _incomplete(workspace, namespace))
        pointer = Pointer(stage=STAGE, tables={}, inputs=wanted, txn=wanted, applied={"release": release})
        workspace.catalog.pointers.publish(namespace, NAMESPACE, pointer)
    workspace.current_tables.add(namespace)


def _replace(workspace: Workspace, namespace: str) -> None:
    """Carry over or drop the tables whose columns are others than declared."""
    tables = workspace.tables
    sources = [row["source_id"] for row in workspace.catalog.sources.find(namespace)]
    found = [
        (owner, name) for owner in (*sources, STATED, NAMESPACE) for name in tables.names(namespace, owner)
    ]
    misfits = [(owner, name) for owner, name in found if not tables.fits(namespace, owner, name)]
    if not misfits:
        return
    with workspace.alone(namespace):
        for owner, name in misfits:
            if tables.fits(namespace, owner, name):
                continue  # another process was first
            if name.startswith(_CARRIED_OVER):
                tables.carry_over(namespace, owner, name)
            else:
                tables.drop(namespace, owner, name)


def _incomplete(workspace: Workspace, namespace: str) -> set[str]:
    """Return the sources with a stage that has published nothing yet, or of which a table is gone."""
    pointers = workspace.catalog.pointers.of_stages(namespace, CHAIN.names)
    found = set()
    for row in workspace.catalog.sources.find(namespace):
        source = row["source_id"]
        if (source, CHAIN.first.name) not in pointers:
            continue  # never fetched
        for stage in CHAIN.derived:
            pointer = pointers.get((source, stage.name))
            if pointer is None or not workspace.tables.exist(namespace, source, pointer.tables):
                found.add(source)
    return found


def _parts(release: str) -> list[int]:
    """Return the numbers of a release, which compare as releases do."""
    return [int(part) for part in release.split(".") if part.isdigit()]
