"""What a publisher is given: one namespace as a snapshot has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.model import tables
from taboot_pipelines.model.retention import Policies


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """Everything that a document shard holds of some documents: rows of ``tables.DOCUMENTS``, ``CHUNKS``,
    ``RELATIONS``, ``LINKS`` and ``TITLE_LINKS`` (``bucket`` may be missing), and ``vectors`` with at least
    (sha256, vector) for each text of a chunk."""

    documents: pa.Table
    chunks: pa.Table
    vectors: pa.Table
    relations: pa.Table
    links: pa.Table
    title_links: pa.Table


@dataclass(frozen=True, slots=True)
class ShardInput:
    """One namespace as a snapshot has it.

    ``docs``: doc_id, chunk_count (int32) and fingerprint of every live document; the fingerprint covers all
    that ``load`` would return for it. ``entities``: position and fingerprint of every entity (see
    ``tables.ENTITIES``). ``names``: ``tables.NAMES``. ``sources``: source id -> type, tags, root (absolute
    directory or None), and ``unread`` where something could not be read. ``snapshot`` names the snapshot.
    ``load(doc_ids)`` fetches the rows of some documents, ``load_entities(first, last)`` label, key, name,
    scope and properties of the entities between two positions, both included; each is called for one shard at
    a time. ``decisions``: ``tables.DECISIONS``. ``policies``: how long documents are kept; ``tags``: {doc_id:
    its own}; both of live documents only. ``collections``: the fields of saved filters by name.
    """

    namespace: str
    space: Space
    docs: pa.Table
    entities: pa.Table
    names: pa.Table
    sources: Mapping[str, Mapping[str, Any]]
    snapshot: str
    load: Callable[[Sequence[str]], DocumentRows]
    load_entities: Callable[[int, int], pa.Table]
    decisions: pa.Table = field(default_factory=lambda: tables.empty("decisions"))
    policies: Policies = field(default_factory=Policies)
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    collections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
