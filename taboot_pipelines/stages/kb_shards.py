"""kb_shards: the embedded serving store and the portable copy, equal to the snapshot.

Holds rule ``bounded-rewrite``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.connectors.files import told_directory
from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.embedding.remembered import UNANSWERED
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.audit import Discrepancy
from taboot_pipelines.model.retention import Policies
from taboot_pipelines.shards.analyzer import ANALYZER
from taboot_pipelines.shards.inputs import DocumentRows, ShardInput
from taboot_pipelines.shards.manifest import Manifest, NewerManifest, ShardEntry
from taboot_pipelines.shards.plan import plan
from taboot_pipelines.shards.protocol import ShardStore, damaged_shards, load_manifest
from taboot_pipelines.shards.publish import publish
from taboot_pipelines.shards.reader import PublishedVectors, Shards, altered_texts, verify
from taboot_pipelines.sources import stance_of
from taboot_pipelines.stages import embeddings
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.snapshot import (
    SnapshotReader,
    needed_snapshot,
    policies_of,
    snapshot_pointer,
    tags_of,
)
from taboot_pipelines.stages.workspace import COLLECTIONS, Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.tables import NAMESPACE

STAGE = "kb_shards"
VERSION = "1"


def run(
    workspace: Workspace, namespace: str, source_id: str, progress: Progress = no_progress
) -> StageReport:
    """Publish the shards of the snapshot's exact versions; write nothing if nothing changed.

    While the embedder does not answer, what needs none of its vectors is published all the same: a deletion
    does not wait for them.
    """
    catalog = workspace.catalog
    with reporting(STAGE, source_id, namespace) as report, workspace.leases.namespace(namespace):
        snapshot = needed_snapshot(workspace, namespace)
        old = catalog.pointers.get(namespace, NAMESPACE, STAGE)
        held: Manifest | None = None
        if old is not None and old.inputs == _known_inputs(workspace, namespace, snapshot):
            held = _published(workspace.shards, namespace)
        if old is not None and held is not None and held.version == old.applied["manifest"]:
            report.data_version, report.skipped = old.inputs, "unchanged"
            report.counts |= {"shards_new": 0, "shards_reused": old.applied["shards"], **_held(held)}
            return report
        space = _space(workspace, namespace, snapshot, progress)
        said = _said(workspace, namespace, snapshot)
        report.data_version = inputs = _inputs(workspace, snapshot, said, space)
        published = publish(
            workspace.shards,
            _input(workspace, namespace, snapshot, said, space, progress),
            workspace.settings.shards,
        )
        shards = published.shards_new + published.shards_reused
        for source in snapshot.applied:
            catalog.locators.activate(namespace, source)
        catalog.pointers.publish(
            namespace,
            NAMESPACE,
            Pointer(
                stage=STAGE,
                tables={},
                inputs=inputs,
                txn=inputs,
                applied={"manifest": published.manifest_version, "shards": shards},
            ),
        )
        report.counts |= {
            "shards_new": published.shards_new,
            "shards_reused": published.shards_reused,
            "shards_removed": published.shards_removed,
            "manifest_version": published.manifest_version,
        }
        held = load_manifest(workspace.shards, namespace)
        if held is not None:
            report.counts |= _held(held)
        report.bytes = published.bytes_written
    return report


class _Shards:
    """The shards of a namespace, as one of the stores that serve readers."""

    store = "shards"

    def applied(self, workspace: Workspace, namespace: str) -> bool:
        """Whether the published shards are those of the newest snapshot, as far as the catalog knows."""
        snapshot = snapshot_pointer(workspace, namespace)
        own = workspace.catalog.pointers.get(namespace, NAMESPACE, STAGE)
        return snapshot is None or (
            own is not None and own.inputs == _known_inputs(workspace, namespace, snapshot)
        )

    def audit(self, workspace: Workspace, namespace: str, *, deep: bool = False) -> Iterator[Discrepancy]:
        """Yield what the published shards lack or have in excess of the snapshot, by key.

        ``deep`` hashes every file, and every text against the hash beside it.
        """
        snapshot = snapshot_pointer(workspace, namespace)
        if snapshot is None:
            return
        try:
            manifest = load_manifest(workspace.shards, namespace)
        except TabootError as error:
            if error.code != "E_SHARD_CORRUPT":
                raise
            yield Discrepancy("shards", "unreadable", namespace, "The manifest cannot be read.", True)
            return
        if manifest is None:
            yield Discrepancy("shards", "missing", namespace, "Nothing was published yet.", True)
            return
        if manifest.snapshot != snapshot.inputs:
            yield Discrepancy(
                "shards", "different", namespace, "The manifest is of another snapshot than the newest.", True
            )
        space = workspace.embedder.space
        said = _said(workspace, namespace, snapshot)
        given = _input(workspace, namespace, snapshot, said, space, no_progress)
        wanted = plan(given, workspace.settings.shards)
        held = {s.key: s for s in manifest.shards}
        for key in sorted(wanted.keys() ^ held.keys()):
            if key in wanted:
                yield Discrepancy(
                    "shards", "missing", key, "The manifest does not name a shard of the snapshot.", True
                )
            else:
                yield Discrepancy(
                    "shards", "surplus", key, "The manifest names a shard that is not of the snapshot.", True
                )
        damaged = set(damaged_shards(workspace.shards, manifest))
        for key, entry in held.items():
            if key not in damaged and deep and is_damaged(workspace, namespace, manifest, entry):
                damaged.add(key)
        for key in sorted(damaged):
            yield Discrepancy(
                "shards",
                "unreadable",
                key,
                "A file of the shard is missing or does not hash to what the manifest says, or a text in it "
                "is not that of its hash.",
                True,
            )

    def repair(self, workspace: Workspace, namespace: str) -> None:
        """Publish what the snapshot asks for; a shard that is damaged or missing is built again."""
        run(workspace, namespace, "")


SERVING = _Shards()


def is_damaged(workspace: Workspace, namespace: str, manifest: Manifest, entry: ShardEntry) -> bool:
    """Hash every file of a shard, and every text in it; what is not as published is marked, so that the next
    publish builds it again."""
    alone = manifest.model_copy(update={"shards": (entry,)})
    try:
        verify(workspace.shards, alone)
        altered = any(map(altered_texts, Shards.open(workspace.shards, alone).documents))
    except TabootError as error:
        if error.code not in {"E_SHARD_CORRUPT", "E_SHARD_MISSING"}:
            raise
        return True
    if altered:
        workspace.shards.mark_damaged(namespace, entry)
    return altered


@dataclass(frozen=True)
class _Said:
    """What people say of a snapshot that a manifest tells beside its shards: {source id: its type, tags and
    root}, policies, tags of documents, and saved filters."""

    sources: Mapping[str, Mapping[str, Any]]
    policies: Policies
    tags: Mapping[str, tuple[str, ...]]
    collections: Mapping[str, Any]


def _said(workspace: Workspace, namespace: str, snapshot: Pointer) -> _Said:
    saved = workspace.catalog.pointers.get(namespace, NAMESPACE, COLLECTIONS)
    return _Said(
        _sources(workspace, namespace, snapshot),
        policies_of(workspace, namespace, snapshot),
        tags_of(workspace, namespace, snapshot),
        {} if saved is None else saved.applied,
    )


def _inputs(workspace: Workspace, snapshot: Pointer, said: _Said, space: Space) -> str:
    settings, policies = workspace.settings.shards.model_dump(), said.policies
    kept = (
        *([[policies.sources, policies.documents]] if policies else ()),
        *([said.tags] if said.tags else ()),
        *([["collections", said.collections]] if said.collections else ()),
    )
    return ids.digest(
        snapshot.tables, snapshot.inputs, said.sources, space.id, settings, VERSION, ANALYZER, *kept
    )


def _known_inputs(workspace: Workspace, namespace: str, snapshot: Pointer) -> str | None:
    """Return the inputs that the shards should have; None while nobody knows which space is in force."""
    try:
        said = _said(workspace, namespace, snapshot)
        return _inputs(workspace, snapshot, said, workspace.embedder.space)
    except TabootError as error:
        if error.code not in UNANSWERED:
            raise
        return None


def _space(workspace: Workspace, namespace: str, snapshot: Pointer, progress: Progress) -> Space:
    """Return the space to serve in, in which every text of the snapshot has a vector.

    After a change of the embedder, sources that have not run since are embedded here: nothing waits for
    their next run. If the new embedder does not answer, the shards stay in the space that they are in,
    provided that it has all vectors. Raises the embedder's failure if neither will do.
    """
    chunks = {source: versions["chunks"] for source, versions in snapshot.applied.items()}
    try:
        return embeddings.fill(workspace, namespace, chunks, progress)
    except TabootError as error:
        if error.code not in UNANSWERED:
            raise
        try:
            manifest = load_manifest(workspace.shards, namespace)
        except TabootError:
            raise error from None
        space = None if manifest is None else manifest.space.space()
        if space is None or any(
            embeddings.lacking(workspace, namespace, space, source, version)
            for source, version in chunks.items()
        ):
            raise
        return space


def _sources(workspace: Workspace, namespace: str, snapshot: Pointer) -> dict[str, dict[str, Any]]:
    """Return {source id: its type, tags and root, and what of it could not be read} of the sources in the
    snapshot; the latter of those that declare the house, so that nobody takes what is left for the whole.

    These are the sources that the snapshot names, so that neither a new one that has not run nor one that has
    retired calls for another manifest.
    """
    entries = workspace.entries_in(namespace, snapshot.applied)
    declaring = [e.source_id for e in entries if stance_of(e.config.type).of_the_house or e.config.interprets]
    failed = workspace.catalog.dead_letters.failed(namespace, declaring)
    return {
        e.source_id: {
            "type": e.config.type,
            "tags": sorted(e.config.tags),
            "root": _root(e),
            **({"unread": items} if (items := failed.get(e.source_id)) else {}),
        }
        for e in entries
    }


def _input(
    workspace: Workspace, namespace: str, snapshot: Pointer, said: _Said, space: Space, progress: Progress
) -> ShardInput:
    """Return the snapshot in the form that a publisher takes."""
    published = PublishedVectors(workspace.shards, namespace, space)
    reader = SnapshotReader(workspace, namespace, snapshot, embeddings.table_name(space.id), published)
    docs, done = reader.docs(), 0

    def load(doc_ids: Sequence[str]) -> DocumentRows:
        nonlocal done
        done += len(doc_ids)
        progress(STAGE, done, docs.num_rows)
        return reader.load(doc_ids)

    return ShardInput(
        namespace=namespace,
        space=space,
        docs=docs,
        entities=reader.snapshot("entities", ["position", "fingerprint"]),
        names=reader.snapshot("names", None),
        sources=said.sources,
        snapshot=snapshot.inputs,
        load=load,
        load_entities=reader.entities,
        decisions=reader.snapshot("decisions", None),
        policies=said.policies,
        tags=said.tags,
        collections=said.collections,
    )


def _published(store: ShardStore, namespace: str) -> Manifest | None:
    """Return the manifest in force.

    None if it cannot be read or a shard of it is damaged; a publish mends both.
    """
    try:
        manifest = load_manifest(store, namespace)
    except NewerManifest:
        raise
    except TabootError:
        return None
    return None if manifest is None or damaged_shards(store, manifest) else manifest


def _held(manifest: Manifest) -> dict[str, int]:
    """Return how much readers are served from."""
    return {
        "documents": manifest.documents,
        "chunks": manifest.chunks,
        "entities": manifest.entities,
        "bytes_stored": sum(file.size for shard in manifest.shards for file in shard.files),
    }


def _root(entry: Any) -> str | None:
    path = getattr(entry.config, "path", None)
    return None if path is None else str(told_directory(path, entry.root))
