"""embeddings: one vector for each distinct chunk text of the namespace.

Holds rules ``equal-text-once`` and ``spaces-never-mix``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.embedding.remembered import SpaceChanged
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stages.stage import SourceWork
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion, table_id

STAGE = "embeddings"
#: A slice is committed before the next begins; the bound on time limits what a kill costs with
#: a slow embedder.
_SLICE_TEXTS = 256
_COMMIT_TEXTS = 8192
_COMMIT_SECONDS = 15.0


def table_name(space_id: str) -> str:
    return f"vectors.{space_id}"


def run(work: SourceWork) -> None:
    """Embed the texts of this source for which the namespace has no vector yet."""
    try:
        _run(work)
    except SpaceChanged:
        # The server's model was changed since the last text was embedded: every text lacks a vector now.
        _run(work)


def _run(work: SourceWork) -> None:
    workspace, report = work.workspace, work.report
    namespace, source_id = work.namespace, work.source_id
    tables = workspace.tables
    chunks = work.upstream["chunks"].tables["chunks"]
    space = workspace.embedder.space
    name = table_name(space.id)
    inputs = ids.digest(work.upstream["chunks"].tables, space.id)
    table = tables.version(namespace, NAMESPACE, name)
    others = work.old is not None and work.old.applied != _applied(space, chunks, table)
    if work.unchanged(inputs, unless=others):
        report.tables = {name: table}
        return
    at = work.changed_buckets("chunks", _applied(space, chunks, table))
    present = tables.read(namespace, source_id, "chunks", chunks, columns=["sha256", "bucket"], buckets=at)
    homes = dict(rows_of(present, "sha256", "bucket"))
    if at is not None and work.old is not None:
        # The texts that were there before have their vectors.
        before = tables.read(
            namespace, source_id, "chunks", work.old.applied["chunks"], columns=["sha256"], buckets=at
        )
        for sha256 in before.column("sha256").to_pylist():
            homes.pop(sha256, None)
    missing = homes.keys() - _known(workspace, namespace, name, homes)
    report.counts |= {"distinct_texts": len(homes), "reused": len(homes) - len(missing), "new": 0}
    slices = _texts(workspace, namespace, source_id, chunks, {s: homes[s] for s in missing})
    for texts in _embed(workspace, namespace, name, slices, inputs):
        report.add("new", texts)
        work.progress(STAGE, report.counts["new"], len(missing))
    table = tables.version(namespace, NAMESPACE, name)
    work.publish(inputs, tables={}, applied=_applied(space, chunks, table))
    report.tables = {name: table}


def _applied(space: Space, chunks: TableVersion | None, table: TableVersion | None) -> dict[str, Any]:
    """Return what has been done: which chunks, in which space, into which table.

    A table that was lost and made again counts as another table.
    """
    return {"chunks": chunks, "space": space.id, "table": table_id(table) if table is not None else None}


def fill(
    workspace: Workspace,
    namespace: str,
    versions: Mapping[str, TableVersion | None],
    progress: Progress = no_progress,
) -> Space:
    """Embed what the chunks of these sources ({source: version}) lack in the present space; return the space.

    A source is skipped if its pointer says that this has been done.
    """
    try:
        return _fill(workspace, namespace, versions, progress)
    except SpaceChanged:
        return _fill(workspace, namespace, versions, progress)


def _fill(
    workspace: Workspace, namespace: str, versions: Mapping[str, TableVersion | None], progress: Progress
) -> Space:
    space = workspace.embedder.space
    name, done = table_name(space.id), 0
    table = workspace.tables.version(namespace, NAMESPACE, name)
    pointers = workspace.catalog.pointers.of_stages(namespace, [STAGE])
    for source, version in versions.items():
        pointer = pointers.get((source, STAGE))
        if pointer is not None and pointer.applied == _applied(space, version, table):
            continue
        missing = lacking(workspace, namespace, space, source, version)
        for texts in _embed(
            workspace, namespace, name, _texts(workspace, namespace, source, version, missing), "fill"
        ):
            done += texts
            progress(STAGE, done, 0)
    return space


def lacking(
    workspace: Workspace, namespace: str, space: Space, source: str, version: TableVersion | None
) -> dict[str, int]:
    """Return {hash: bucket of its chunk} of the texts of a source's chunks that have no vector in a space."""
    rows = workspace.tables.read(namespace, source, "chunks", version, columns=["sha256", "bucket"])
    homes = dict(rows_of(rows, "sha256", "bucket"))
    known = _known(workspace, namespace, table_name(space.id), homes)
    return {sha256: bucket for sha256, bucket in homes.items() if sha256 not in known}


def _known(workspace: Workspace, namespace: str, name: str, wanted: Collection[str]) -> set[str]:
    """Return which of the wanted texts have vectors."""
    # Under the lease, so that no housekeeping removes the files while they are read.
    with workspace.leases.exclusive(f"{namespace}.vectors"):
        version = workspace.tables.version(namespace, NAMESPACE, name)
        found = workspace.tables.read(
            namespace,
            NAMESPACE,
            name,
            version,
            columns=["sha256"],
            buckets={ids.bucket(sha256) for sha256 in wanted},
            members=("sha256", sorted(wanted)),
        )
        return set(found.column("sha256").to_pylist())


def _embed(
    workspace: Workspace, namespace: str, name: str, slices: Iterable[dict[str, str]], txn: str
) -> Iterator[int]:
    """Embed slices of {hash: text} and commit each; yield the number of texts of each slice."""
    pending: list[pa.Table] = []
    last = time.monotonic()
    for texts in slices:
        vectors = workspace.embedder.embed(list(texts.values()))
        pending.append(
            pa.table(
                {
                    "bucket": pa.array([ids.bucket(s) for s in texts], pa.int32()),
                    "sha256": list(texts),
                    "vector": pa.ListArray.from_arrays(
                        pa.array(range(0, vectors.size + 1, vectors.shape[1]), pa.int32()),
                        pa.array(vectors.reshape(-1)),
                    ),
                }
            )
        )
        yield len(texts)
        if time.monotonic() - last > _COMMIT_SECONDS or sum(p.num_rows for p in pending) >= _COMMIT_TEXTS:
            _commit(workspace, namespace, name, pending, txn)
            pending, last = [], time.monotonic()
    _commit(workspace, namespace, name, pending, txn)


def _texts(
    workspace: Workspace,
    namespace: str,
    source_id: str,
    version: TableVersion | None,
    missing: Mapping[str, int],
) -> Iterator[dict[str, str]]:
    """Yield slices of {hash: text} of the missing texts, each text once.

    ``missing`` says for each hash in which bucket its text is found.
    """
    todo = set(missing)
    part: dict[str, str] = {}
    for b in sorted(set(missing.values())):
        rows = workspace.tables.read(
            namespace, source_id, "chunks", version, columns=["sha256", "text"], buckets=[b]
        )
        for sha, text in rows_of(rows, "sha256", "text"):
            if sha in todo:
                todo.discard(sha)
                part[sha] = text
                if len(part) == _SLICE_TEXTS:
                    yield part
                    part = {}
    if part:
        yield part


def _commit(workspace: Workspace, namespace: str, name: str, pending: list[pa.Table], txn: str) -> None:
    if pending:
        # Two sources may embed the same text at once; a reader takes either row, since they are equal.
        with workspace.leases.exclusive(f"{namespace}.vectors"):
            workspace.tables.append(namespace, NAMESPACE, name, pa.concat_tables(pending), txn=txn)
