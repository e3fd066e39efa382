"""The tables of what people stated: the records of ``knowledge.structured``, as the documents and
observations of a source of its own, so that the snapshot takes them like those of any other.

The catalog holds what was asserted; the tables follow from it, and are made under the namespace's lease by
the stage that reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.documents.secrets.masking import MASK_VERSION
from taboot_pipelines.knowledge.assertions import (
    STATING,
    Assertion,
    in_force,
    read_assertions,
)
from taboot_pipelines.knowledge.observations import observation_table
from taboot_pipelines.knowledge.structured import (
    RECORD_MIME,
    RECORD_VERSION,
    STATED,
    Record,
    record,
    record_fingerprint,
    record_id,
)
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import DOCUMENTS, rows_of
from taboot_pipelines.stages.housekeeping import vacuum
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.assertions import HandedIn
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.tables import TableVersion

STAGE = "stated"
OBSERVATIONS = "observations.structured"
_TABLES = ("documents", OBSERVATIONS)
#: So many files of a table that no version in use has are removed.
_STALE_FILES = 64


def asserted(workspace: Workspace, namespace: str) -> list[Assertion]:
    """Return everything that was asserted in the namespace, in its order."""
    return read_assertions(workspace.catalog.assertions.all(namespace))


def handed_in(namespace: str, assertions: Iterable[Assertion]) -> set[str]:
    """Return the names of the blobs of assertions: their records, and what was handed in with them."""
    found = set[str]()
    for a in assertions:
        if a.kind in STATING and not a.erased:
            found.add(record(namespace, a).sha256)
            if a.payload["raw"] is not None:
                found.add(a.payload["raw"]["sha256"])
    return found


def bring_up_to_date(workspace: Workspace, namespace: str) -> None:
    """Make the tables equal to what is in force. Only under the namespace's lease.

    Records that are new or gone rewrite the buckets that they are in, and nothing else is touched. Raises
    ``E_STORAGE``.
    """
    catalog, tables = workspace.catalog, workspace.tables
    position = catalog.assertions.position(namespace)
    pointer = catalog.pointers.get(namespace, STATED, STAGE)
    inputs = _inputs(position)
    whole = pointer is not None and tables.exist(namespace, STATED, pointer.tables)
    if not position or (pointer is not None and pointer.inputs == inputs and whole):
        return
    before = pointer.tables if pointer is not None and whole else dict.fromkeys(_TABLES)
    versions = {name: tables.rollback(namespace, STATED, name, before[name]) for name in _TABLES}
    stated = {
        record_id(namespace, a): a for a in in_force(asserted(workspace, namespace)) if a.kind in STATING
    }
    held = dict(
        rows_of(
            tables.read(
                namespace, STATED, "documents", versions["documents"], columns=["doc_id", "fingerprint"]
            )
        )
    )
    # Of thousands of records only those are made that are not there yet.
    new = [record(namespace, a) for doc_id, a in stated.items() if held.get(doc_id) != record_fingerprint(a)]
    gone = held.keys() - stated.keys()
    _keep_blobs(workspace, namespace, new)
    if new or gone:
        versions = _write(workspace, namespace, versions, new, gone, inputs)
    catalog.pointers.publish(
        namespace,
        STATED,
        Pointer(stage=STAGE, tables=versions, inputs=inputs, txn=inputs, applied={"position": position}),
    )
    for name in _TABLES:
        if tables.stale_files(namespace, STATED, name) >= _STALE_FILES:
            vacuum(workspace, namespace, STATED, name)


def stated_version(workspace: Workspace, namespace: str) -> dict[str, Any] | None:
    """Return what a snapshot has to apply of all that people decided, in the form of a source's version; None
    if nobody has decided anything yet.

    While the tables are behind it names the position alone, and is thus another than any that was applied.
    """
    position = workspace.catalog.assertions.position(namespace)
    if not position:
        return None
    pointer = workspace.catalog.pointers.get(namespace, STATED, STAGE)
    if pointer is None or pointer.inputs != _inputs(position):
        return {"position": position}
    return {**pointer.tables, "chunks": None, "links": None, "position": position}


def _inputs(position: str) -> str:
    return ids.digest(position, RECORD_VERSION, MASK_VERSION)


def _keep_blobs(workspace: Workspace, namespace: str, records: Sequence[Record]) -> None:
    """Put the records themselves among the blobs."""
    if not records:
        return
    for r in records:
        workspace.blobs.put(namespace, r.blob)
    workspace.catalog.assertions.record_blobs(
        namespace,
        [HandedIn(r.sha256, len(r.blob), RECORD_MIME) for r in records],
        workspace.blobs.path(namespace, "").rstrip("/"),
    )


def _write(
    workspace: Workspace,
    namespace: str,
    versions: Mapping[str, TableVersion | None],
    new: Sequence[Record],
    gone: set[str],
    txn: str,
) -> dict[str, TableVersion | None]:
    tables = workspace.tables
    changed = gone | {r.doc_id for r in new}
    buckets = {ids.doc_bucket(doc_id) for doc_id in changed}
    rows = {
        "documents": pa.Table.from_pylist([r.document() for r in new], schema=DOCUMENTS),
        OBSERVATIONS: observation_table(o for r in new for o in r.observations()),
    }
    after = dict(versions)
    for name, added in rows.items():
        old = tables.read(namespace, STATED, name, versions[name], buckets=buckets)
        kept = old.filter(pc.invert(pc.is_in(old.column("doc_id"), pa.array(sorted(changed), pa.string()))))
        after[name] = tables.replace(
            namespace,
            STATED,
            name,
            pa.concat_tables([kept, added]).sort_by("doc_id"),
            buckets=buckets,
            txn=txn,
        )
    return after
