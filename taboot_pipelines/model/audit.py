"""A difference between two stores that should agree (``storage_audit``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["missing", "surplus", "different", "unreadable"]


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """``item`` is the id of a blob, table, shard, point, node, edge …, never a text; ``repairable`` says
    whether it can be derived again."""

    store: str  # catalog, blobs, tables, shards, qdrant, neo4j, state
    kind: Kind
    item: str
    message: str
    repairable: bool
