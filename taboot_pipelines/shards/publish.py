"""From a snapshot to a published manifest: builds the shards that are not there yet, and nothing else.

A shard's key is the hash of what it holds (the fingerprints of its rows, the embedding space, the analyzer,
the format), so the same content gives the same keys whether it was reached by edits or at once, and a leaf
whose key is in the manifest already is neither loaded nor written. A shard counts as there when it is whole;
the manifest follows last. Killed anywhere, the old manifest stands, and the next publish adopts the shards
that were finished.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids, tables
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.settings import ShardSettings
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.analyzer import ANALYZER
from taboot_pipelines.shards.build import build_documents, build_entities
from taboot_pipelines.shards.files import file_entry
from taboot_pipelines.shards.inputs import PublishReport, ShardInput
from taboot_pipelines.shards.manifest import Manifest, ShardEntry, SourceEntry, SpaceEntry
from taboot_pipelines.shards.store import ShardStore, load_manifest, manifest_and_etag, shards_at

_ENTITY_COLUMNS = ("label", "key", "name", "scope", "properties")


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A shard that should exist: what the manifest will say of it, and how to write it into a folder.
    ``build`` returns the words of its chunks."""

    entry: ShardEntry
    build: Callable[[Path], int]


def publish(where: Path | ShardStore, shard_input: ShardInput, settings: ShardSettings) -> PublishReport:
    """Bring the knowledge base of a namespace, in a directory or another store, to what ``shard_input`` says.

    Nothing is written if it already is. Shards that the manifest no longer names stay for the readers that
    have them open, until :func:`prune`. Raises ``E_CONFLICT`` if another publisher was first, ``E_TABLE`` for
    rows that do not fit together, ``E_STORAGE`` if the disk or the store refuses.
    """
    store = shards_at(where)
    namespace = check_namespace(shard_input.namespace)
    previous, etag = manifest_and_etag(store, namespace)
    damaged = store.damage(namespace)
    known = {s.key: s for s in previous.shards} if previous else {}
    shards: list[ShardEntry] = []
    new = written = 0
    for leaf in (*_document_leaves(shard_input, settings), *_entity_leaves(shard_input, settings)):
        entry = known.get(leaf.entry.key)
        if entry is None or damaged(entry):
            entry, size = _obtain(store, namespace, leaf)
            new += 1
            written += size
        # Where a shard begins depends on its rows alone, so an entry of the old manifest can be taken as it
        # is.
        shards.append(entry)
    try:
        manifest = Manifest(
            namespace=namespace,
            version=previous.version + 1 if previous else 1,
            snapshot=shard_input.snapshot,
            space=SpaceEntry.of(shard_input.space),
            analyzer=ANALYZER,
            shards=tuple(shards),
            sources={
                k: SourceEntry(
                    type=v["type"],
                    tags=tuple(v.get("tags") or ()),
                    root=os.fspath(v["root"]) if v.get("root") else None,
                )
                for k, v in sorted(shard_input.sources.items())
            },
        )
    except (ValueError, TypeError, KeyError) as error:
        raise TabootError(
            "E_CONFIG",
            "A source of the knowledge base has no type, or its tags or root are not text.",
            namespace=namespace,
        ) from error
    stale = previous is None or not manifest.same_content(previous)
    if stale:
        store.swap_manifest(manifest, etag)
        # Readers may just have opened the manifest before.
        store.leave(namespace, known.keys() - {s.key for s in manifest.shards})
    return PublishReport(
        shards_new=new,
        shards_reused=len(shards) - new,
        shards_removed=len(known.keys() - {s.key for s in shards}),
        bytes_written=written,
        chunks=manifest.chunks,
        documents=manifest.documents,
        entities=manifest.entities,
        manifest_version=manifest.version if stale or previous is None else previous.version,
        changed=stale or new > 0,
    )


def plan(shard_input: ShardInput, settings: ShardSettings) -> dict[str, ShardEntry]:
    """The shards that a publish of ``shard_input`` would name, by key; loads no document's rows."""
    return {
        leaf.entry.key: leaf.entry
        for leaf in (*_document_leaves(shard_input, settings), *_entity_leaves(shard_input, settings))
    }


def prune(
    where: Path | ShardStore,
    namespace: str,
    keep_manifest: Manifest | None = None,
    *,
    min_age_seconds: float = 0.0,
) -> list[str]:
    """Delete every shard of the namespace that ``keep_manifest`` (default: the current one) does not name and
    that was written, or left the manifest, at least ``min_age_seconds`` ago; from the local cache of a store
    as well.

    Returns their names. Call it under the namespace's lease: what another publisher is building goes too.
    Readers that have a deleted file open keep it; others look for the new manifest.
    """
    store = shards_at(where)
    return store.prune(
        check_namespace(namespace), keep_manifest or load_manifest(store, namespace), min_age_seconds
    )


def _document_leaves(given: ShardInput, settings: ShardSettings) -> Iterator[_Leaf]:
    docs = given.docs.select(["doc_id", "chunk_count", "fingerprint"]).sort_by("doc_id")
    names, counts, prints = (docs.column(c).to_pylist() for c in docs.column_names)
    positions = [_position(d) for d in names]
    if any(a >= b for a, b in pairwise(names)):
        raise TabootError("E_TABLE", "A document stands twice in the list of documents.", table="docs")
    space = [given.space.model, given.space.revision, given.space.dimension]
    for lo, hi in layout.cut(positions, [max(c, 1) for c in counts], 128, settings.max_chunks):
        members, sizes = names[lo:hi], counts[lo:hi]
        key = ids.digest(
            "documents", layout.FORMAT, ANALYZER, space, list(zip(members, sizes, prints[lo:hi], strict=True))
        )

        def build(folder: Path, members: list[str] = members, sizes: list[int] = sizes) -> int:
            return build_documents(folder, members, sizes, given.load(members), given.space.dimension)

        yield _Leaf(
            ShardEntry(
                key=key, kind="documents", first=members[0], documents=len(members), chunks=sum(sizes)
            ),
            build,
        )


def _position(doc_id: str) -> int:
    """The bits of a doc_id (a hash in the form of a UUID); their order is the order of the text."""
    digits = doc_id.replace("-", "")
    try:
        if len(digits) == 32 and digits == digits.lower():
            return int(digits, 16)
    except ValueError:
        pass
    raise TabootError("E_TABLE", "A doc_id is not a UUID.", table="docs")


def _entity_leaves(given: ShardInput, settings: ShardSettings) -> Iterator[_Leaf]:
    """Entities and names in one trie over the hash of their (observed) key: a bare name and its node change
    together.
    """
    entities = given.entities.select(list(_ENTITY_COLUMNS))
    names = given.names.select(tables.NAMES.names)
    keys = [*entities.column("key").to_pylist(), *names.column("observed_key").to_pylist()]
    hashes = [ids.sha256_hex(k) for k in keys]
    order = sorted(range(len(keys)), key=hashes.__getitem__)
    positions = [int(hashes[i], 16) for i in order]
    for lo, hi in layout.cut(positions, [1] * len(order), 256, settings.max_entities):
        rows = np.array(order[lo:hi], dtype=np.int64)
        own = (
            entities.take(pa.array(rows[rows < len(entities)]))
            .sort_by([("key", "ascending"), ("label", "ascending")])
            .combine_chunks()
        )
        meant = (
            names.take(pa.array(rows[rows >= len(entities)] - len(entities)))
            .sort_by("observed_key")
            .combine_chunks()
        )
        key = ids.digest("entities", layout.FORMAT, _fingerprint(own), _fingerprint(meant))

        def build(folder: Path, own: pa.Table = own, meant: pa.Table = meant) -> int:
            build_entities(folder, own, meant)
            return 0

        yield _Leaf(
            ShardEntry(
                key=key, kind="entities", first=hashes[order[lo]], entities=len(own), names=len(meant)
            ),
            build,
        )


def _fingerprint(table: pa.Table) -> str:
    """SHA-256 of the rows in their order: per column its validity, the lengths of its texts and the texts."""
    h = hashlib.sha256()
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if pa.types.is_list(column.type):
            h.update(
                pc.fill_null(pc.list_value_length(column), -1)
                .to_numpy(zero_copy_only=False)
                .astype("<i8")
                .tobytes()
            )
            column = column.flatten()
        column = column.cast(pa.large_string())
        h.update(
            pc.fill_null(pc.binary_length(column.cast(pa.large_binary())), -1)
            .to_numpy(zero_copy_only=False)
            .astype("<i8")
            .tobytes()
        )
        h.update("".join(v for v in column.to_pylist() if v is not None).encode())
    return h.hexdigest()


def _obtain(store: ShardStore, namespace: str, leaf: _Leaf) -> tuple[ShardEntry, int]:
    """The shard in its place, and the bytes written for it: 0 if an earlier publish had finished it
    already.
    """
    try:
        return store.obtain(namespace, leaf.entry.key, lambda folder: _build(folder, leaf))
    except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise TabootError(
            "E_TABLE",
            f"The rows of shard {leaf.entry.key[:16]} do not fit together ({type(error).__name__}).",
            shard=leaf.entry.key,
        ) from error


def _build(folder: Path, leaf: _Leaf) -> ShardEntry:
    length = leaf.build(folder)
    files = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as f:
            os.fsync(f.fileno())
        files.append(file_entry(path))
    entry = leaf.entry.model_copy(update={"length": length, "files": tuple(files)})
    (folder / layout.ENTRY).write_text(entry.model_dump_json(), encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o444)
    return entry
