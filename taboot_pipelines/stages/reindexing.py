"""Derives single documents anew from their stored bytes: parsed, cut, embedded, interpreted and published.

Nothing is fetched and no model that answers questions is asked: its answers are inputs (rule
``incremental-equals-scratch``). What is made follows from the bytes and the settings, so that where nothing
was wrong nothing is another than before; what was lost or damaged is there again. The memory of the stages
goes before the rows do, so that the next run completes what was killed (rule ``kill-anywhere``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import replace_keys
from taboot_pipelines.knowledge.runs import RunLog
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import CHUNKS, DOCUMENTS, rows_of
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.stages import chunks, documents, embeddings, kb_shards
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.document_lookup import documents_called, documents_of, present_documents
from taboot_pipelines.stages.storage_audit import derive_again, forget_progress
from taboot_pipelines.stages.tiers import TierStage
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.locators import Locator
from taboot_pipelines.stores.tables import NAMESPACE

#: Tables of a source whose rows of a document are made anew whatever they hold.
_DROPPED: Mapping[str, pa.Schema] = {documents.STAGE: DOCUMENTS, chunks.STAGE: CHUNKS}


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What became of a document. ``state``: ``unchanged``; ``changed``, where its text, its pieces or what is
    read in it are others; ``restored``, where some of it was lost; ``failed``, with the code and the reason.
    ``chunks``: how many pieces it has; ``facts``: how many statements were read in it."""

    doc_id: str
    source_id: str
    path: str
    state: str
    chunks: int = 0
    facts: int = 0
    code: str | None = None
    message: str | None = None


class _Held(NamedTuple):
    """What the tables hold of a document; ``text``: its hash, None where it has no row."""

    text: str | None
    chunks: tuple[str, ...]
    facts: tuple[str, ...]
    #: Of its pieces, whether all have a vector.
    vectors: bool


def reindex(
    workspace: Workspace, namespace: str, names: Sequence[str] = (), *, source: str | None = None
) -> list[Reindexed]:
    """Derive documents, and all of a source, anew and bring everything that serves them up to date; by source
    and path.

    Raises ``E_NOT_FOUND`` naming the nearest where nothing is called so, ``E_QUERY`` where several are,
    ``E_SOURCE_UNKNOWN``, ``E_BLOB_MISSING`` or ``E_BLOB_CORRUPT`` for bytes that are no longer as they were
    stored; then nothing was changed. Raises ``E_BUSY``, and what the stages raise; the next run does what is
    left then.
    """
    called = documents_called(workspace, namespace, names)
    of_source = [] if source is None else documents_of(workspace, namespace, source)
    wanted = present_documents(workspace, namespace, [*called, *of_source])
    upgrade_tables(workspace, namespace)
    with workspace.alone(namespace):
        by_source: dict[str, list[Locator]] = {}
        for owner, x in workspace.catalog.locators.of_documents(namespace, wanted):
            workspace.blobs.get(namespace, x.sha256)
            by_source.setdefault(owner, []).append(x)
        before = _held(workspace, namespace, by_source)
        forget_progress(workspace, namespace, [*by_source, NAMESPACE])
        for owner, located in by_source.items():
            _drop(workspace, namespace, owner, located)
        _check_shards(workspace, namespace, wanted)
        stores = {serving.store for serving in CHAIN.serving.values()}
        derive_again(workspace, namespace, [*by_source, NAMESPACE], ask=stores)
        workspace.catalog.audit_log.record(namespace, "reindex", ids.digest(*wanted), doc_ids=wanted)
        after = _held(workspace, namespace, by_source)
        return [
            _became(workspace, namespace, owner, x, before[x.doc_id], after[x.doc_id])
            for owner, located in sorted(by_source.items())
            for x in sorted(located, key=lambda x: x.path)
        ]


def _drop(workspace: Workspace, namespace: str, source: str, located: Iterable[Locator]) -> None:
    """Take out the rows of documents, their letters, and the memory of what was read in them."""
    tables, doc_ids, paths = workspace.tables, {x.doc_id for x in located}, {x.path for x in located}
    for name, schema in _DROPPED.items():
        version = tables.version(namespace, source, name)
        if version is not None:
            replace_keys(
                tables,
                namespace,
                source,
                name,
                version,
                key="doc_id",
                buckets={ids.doc_bucket(doc_id) for doc_id in doc_ids},
                drop=doc_ids,
                rows=schema.empty_table(),
                txn="reindex",
            )
    workspace.catalog.dead_letters.record(namespace, source, documents.STAGE, [], paths)
    units = workspace.catalog.runs.touching(namespace, source, paths | doc_ids, paths)
    for stage in CHAIN.of_source:
        if isinstance(stage, TierStage):
            RunLog(workspace.catalog, namespace, source, stage.tier).forget(sorted(units))


def _check_shards(workspace: Workspace, namespace: str, doc_ids: Collection[str]) -> None:
    """Let shards of these documents be built anew that are not as they were published."""
    try:
        manifest = load_manifest(workspace.shards, namespace)
    except TabootError:
        return  # what cannot be read is published anew
    entries = () if manifest is None else manifest.of_kind("documents")
    for entry, following in zip(entries, (*entries[1:], None), strict=True):
        if manifest is not None and any(
            entry.first <= doc_id and (following is None or doc_id < following.first) for doc_id in doc_ids
        ):
            kb_shards.is_damaged(workspace, namespace, manifest, entry)


def _held(
    workspace: Workspace, namespace: str, by_source: Mapping[str, Iterable[Locator]]
) -> dict[str, _Held]:
    """Return what the tables hold of these documents."""
    found = {}
    for source, located in by_source.items():
        doc_ids = sorted(x.doc_id for x in located)
        texts = dict(_rows(workspace, namespace, source, documents.STAGE, doc_ids, "text_sha256"))
        cut, said = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for doc_id, sha256 in _rows(workspace, namespace, source, chunks.STAGE, doc_ids, "sha256"):
            cut[doc_id].append(sha256)
        for stage in CHAIN.of_source:
            if isinstance(stage, TierStage):
                for doc_id, fact in _facts(workspace, namespace, source, stage.tier.table, doc_ids):
                    said[doc_id].append(fact)
        version = workspace.tables.version(namespace, source, chunks.STAGE)
        lacking = embeddings.lacking(workspace, namespace, workspace.embedder.space, source, version)
        for doc_id in doc_ids:
            own, facts = tuple(cut[doc_id]), tuple(sorted(said[doc_id]))
            found[doc_id] = _Held(texts.get(doc_id), own, facts, lacking.keys().isdisjoint(own))
    return found


def _rows(
    workspace: Workspace, namespace: str, source: str, table: str, doc_ids: Collection[str], column: str
) -> list[tuple[str, str]]:
    """Return (doc_id, value of the column) of the newest rows of these documents, in their order."""
    rows = workspace.tables.read(
        namespace,
        source,
        table,
        workspace.tables.version(namespace, source, table),
        columns=["doc_id", column],
        buckets={ids.doc_bucket(doc_id) for doc_id in doc_ids},
        members=("doc_id", sorted(doc_ids)),
    )
    return list(rows_of(rows, "doc_id", column))


def _facts(
    workspace: Workspace, namespace: str, source: str, table: str, doc_ids: Collection[str]
) -> list[tuple[str, str]]:
    """Return (doc_id, digest of a statement) of what a tier reads in these documents."""
    rows = workspace.tables.read(
        namespace,
        source,
        table,
        workspace.tables.version(namespace, source, table),
        members=("doc_id", sorted(doc_ids)),
    )
    return [(row["doc_id"], ids.digest(row)) for row in rows.to_pylist()]


def _became(
    workspace: Workspace, namespace: str, source: str, x: Locator, before: _Held, after: _Held
) -> Reindexed:
    letters = {d["item"]: d for d in workspace.catalog.dead_letters.find(namespace, source, documents.STAGE)}
    letter = letters.get(x.path)
    done = Reindexed(x.doc_id, source, x.path, "unchanged", len(after.chunks), len(after.facts))
    if letter is not None:
        return replace(done, state="failed", code=letter["code"], message=letter["message"])
    if before == after:
        return done
    lost = (
        before.text is None
        or not before.vectors
        or set(before.chunks) < set(after.chunks)
        or set(before.facts) < set(after.facts)
    )
    same = before.text in (None, after.text)
    return replace(done, state="restored" if lost and same else "changed")
