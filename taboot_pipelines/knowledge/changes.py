"""Which documents of a namespace differ from what its snapshot has applied, by their fingerprints (rules
``watermark`` and ``incremental-equals-scratch``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import rows_of

#: Columns of a source's tables that :func:`source_state` needs.
FINGERPRINT_COLUMNS = ("doc_id", "fingerprint")
RUN_COLUMNS = ("doc_id", "bucket", "run_id")
#: Columns of the snapshot's list of documents by which the sources to compare are found.
LISTING_COLUMNS = ("bucket", "source_id", "document_fingerprint", "relations_fingerprint")


@dataclass(frozen=True)
class SourceState:
    """The fingerprints of one source's documents at its version, by doc_id."""

    documents: Mapping[str, str]
    chunks: Mapping[str, str]
    chunk_counts: Mapping[str, int]
    #: Only of documents that have links.
    links: Mapping[str, str]
    runs: Mapping[str, str]
    #: {table: {doc_id: the buckets of that table of observations that hold something of it}}
    buckets: Mapping[str, Mapping[str, Collection[int]]]


@dataclass(frozen=True)
class Changes:
    """What a snapshot has to apply."""

    #: The sources that were compared; documents of no other have changed.
    sources: Mapping[str, SourceState]
    #: The buckets of documents that were compared; documents of no other have changed. None: all.
    buckets: frozenset[int] | None
    #: {doc_id: source_id} of every document that was compared, the removed ones included.
    owner: Mapping[str, str]
    changed: frozenset[str]
    removed: frozenset[str]
    #: How many documents the snapshot holds when all is applied.
    documents: int


def source_state(
    documents: pa.Table,
    chunks: pa.Table,
    links: pa.Table,
    observations: Mapping[str, pa.Table],
    salt: str,
    *,
    without: Collection[str] = frozenset(),
) -> SourceState:
    """The state of a source from its tables (see the columns above; observations by table name).

    ``salt`` is the snapshot's own version: with another one every document counts as changed. The documents
    ``without`` count as not being there.
    """
    grouped = chunks.group_by("doc_id").aggregate([("fingerprint", "min"), ("fingerprint", "count")])
    runs: dict[str, set[str]] = {}
    buckets: dict[str, dict[str, set[int]]] = {}
    for name, rows in observations.items():
        held = buckets.setdefault(name, {})
        distinct = rows.group_by(list(RUN_COLUMNS)).aggregate([])
        for doc_id, bucket, run_id in rows_of(distinct, *RUN_COLUMNS):
            runs.setdefault(doc_id, set()).add(run_id)
            held.setdefault(doc_id, set()).add(bucket)
    return SourceState(
        documents={
            d: ids.digest(f, salt) for d, f in rows_of(documents, *FINGERPRINT_COLUMNS) if d not in without
        },
        chunks=dict(rows_of(grouped, "doc_id", "fingerprint_min")),
        chunk_counts=dict(rows_of(grouped, "doc_id", "fingerprint_count")),
        links=dict(rows_of(links, *FINGERPRINT_COLUMNS)),
        runs={doc_id: ids.digest(*sorted(found)) for doc_id, found in runs.items()},
        buckets=buckets,
    )


@dataclass(frozen=True)
class Scope:
    """Where a snapshot has to look for changes: in these sources, and in these buckets of documents (None:
    all)."""

    sources: list[str]
    buckets: set[int] | None


def scope(listed: pa.Table, versions: Mapping[str, Any], applied: Mapping[str, Any], salt: str) -> Scope:
    """What may differ as far as the snapshot itself says.

    ``listed``: all rows of ``tables.DOC_STATE``, with :data:`LISTING_COLUMNS`. The buckets are those of
    documents that could not be read last time, and of sources that are no longer in ``versions``; those in
    which the ``sources`` have changed come on top.
    """
    # After a change of the snapshot's own version every source is compared.
    current = pc.all(pc.starts_with(listed.column("relations_fingerprint"), pattern=version_mark(salt)))
    if current.as_py() is False:
        return Scope(list(versions), None)
    unread = pc.equal(listed.column("document_fingerprint"), "")
    failed = set(pc.unique(listed.filter(unread).column("source_id")).to_pylist())
    sources = [s for s in versions if versions[s] != applied.get(s) or s in failed]
    gone = pc.invert(pc.is_in(listed.column("source_id"), pa.array(sorted(versions), pa.string())))
    rows = listed.filter(pc.or_(gone, unread))
    return Scope(sources, set(pc.unique(rows.column("bucket")).to_pylist()))


def version_mark(salt: str) -> str:
    """What the fingerprint of a document's relations begins with, to say which version made them."""
    return salt[:8]


def compare(
    held: Collection[Mapping[str, Any]],
    versions: Collection[str],
    sources: Mapping[str, SourceState],
    *,
    buckets: frozenset[int] | None,
    documents: int,
) -> Changes:
    """Compare what the snapshot holds (rows of ``tables.DOC_STATE``) with the states of some sources.

    ``versions``: the sources that there are; documents of others are removed. ``buckets``: those that
    ``held`` and the states are of (None: all). ``documents``: how many the snapshot holds in all.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    current: dict[str, tuple[str, ...]] = {}
    owner = {row["doc_id"]: row["source_id"] for row in held}
    known = frozenset(owner)
    for source, state in sources.items():
        for doc_id, fingerprint in state.documents.items():
            wanted[doc_id] = (
                fingerprint,
                state.chunks.get(doc_id, ""),
                state.links.get(doc_id, ""),
                state.runs.get(doc_id, ""),
            )
            owner[doc_id] = source
    for row in held:
        if row["source_id"] in sources or row["source_id"] not in versions:
            current[row["doc_id"]] = (
                row["document_fingerprint"],
                row["chunks_fingerprint"],
                row["links_fingerprint"],
                row["runs_fingerprint"],
            )
    changed = frozenset(doc_id for doc_id, prints in wanted.items() if current.get(doc_id) != prints)
    removed = frozenset(current.keys() - wanted.keys())
    return Changes(
        sources=sources,
        owner=owner,
        changed=changed,
        removed=removed,
        documents=documents - len(removed) + len(changed - known),
        buckets=buckets,
    )
