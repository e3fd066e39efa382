"""kb_shards: the embedded serving store and the portable copy, equal to the snapshot (DESIGN rule 21)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.shards import DocumentRows, ShardInput, ShardStore, damaged_shards, load_manifest, publish
from taboot_pipelines.stages import embeddings
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.snapshot_reader import SnapshotReader
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog import Pointer
from taboot_pipelines.stores.tables import NAMESPACE

STAGE = "kb_shards"
VERSION = "1"


def run(workspace: Workspace, namespace: str, source_id: str, progress: Progress = no_progress) -> StageReport:
    """Publish the shards of the snapshot's exact versions; writes nothing if nothing changed."""
    catalog = workspace.catalog
    with reporting(STAGE, source_id, namespace) as report, workspace.leases.namespace(namespace):
        snapshot = catalog.pointer(namespace, NAMESPACE, "entity_snapshots")
        if snapshot is None:
            raise TabootError("E_NOT_FOUND", f"Namespace {namespace} has no snapshot yet.", remedy="Materialize entity_snapshots first.")
        sources = {
            e.source_id: {"type": e.config.type, "tags": sorted(e.config.tags), "root": _root(e)} for e in workspace.entries_of(namespace)
        }
        space = workspace.embedder.space
        inputs = ids.digest(snapshot.tables, snapshot.inputs, sources, space.id, workspace.settings.shards.model_dump(), VERSION)
        report.data_version = inputs
        old = catalog.pointer(namespace, NAMESPACE, STAGE)
        if old is not None and old.inputs == inputs and _published(workspace.shards, namespace) == old.applied["manifest"]:
            report.skipped = "unchanged"
            report.counts |= {"shards_new": 0, "shards_reused": old.applied["shards"]}
            return report
        # After a change of the embedder, sources that have not run since are embedded here: nobody waits for them.
        embeddings.fill(workspace, namespace, {s: v["chunks"] for s, v in snapshot.applied.items()}, progress)
        reader = SnapshotReader(workspace, namespace, snapshot, embeddings.table_name(space.id))
        docs, done = reader.docs(), 0

        def load(doc_ids: Sequence[str]) -> DocumentRows:
            nonlocal done
            done += len(doc_ids)
            progress(STAGE, done, docs.num_rows)
            return reader.load(doc_ids)

        published = publish(workspace.shards, ShardInput(
            namespace=namespace, space=space, docs=docs, entities=reader.snapshot("entities", ["label", "key", "name", "scope", "properties"]),
            names=reader.snapshot("names", None), sources=sources, snapshot=snapshot.inputs, load=load,
        ), workspace.settings.shards)
        shards = published.shards_new + published.shards_reused
        for source in snapshot.applied:
            catalog.activate(namespace, source)
        catalog.publish(namespace, NAMESPACE, Pointer(STAGE, {}, inputs, inputs, {"manifest": published.manifest_version, "shards": shards}))
        report.counts |= {
            "shards_new": published.shards_new, "shards_reused": published.shards_reused, "shards_removed": published.shards_removed,
            "documents": published.documents, "chunks": published.chunks, "entities": published.entities, "manifest_version": published.manifest_version,
        }
        report.bytes = published.bytes_written
    return report


def _published(store: ShardStore, namespace: str) -> int | None:
    """The version of the manifest in force; None if it cannot be read or a shard of it is damaged, which a publish mends."""
    try:
        manifest = load_manifest(store, namespace)
    except TabootError:
        return None
    return None if manifest is None or damaged_shards(store, manifest) else manifest.version


def _root(entry: Any) -> str | None:
    path = getattr(entry.config, "path", None)
    return None if path is None else str((entry.root / path).absolute())
