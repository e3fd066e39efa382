"""The reducer: many claims about one entity, one truth (rule ``deterministic-reducer``, seed 003 §4).

Deterministic and independent of order: each property is that of the claim with the highest rank (source
priority, then specificity, then recency, then id).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import NODES, PRIORITY, EdgeSource
from taboot_pipelines.model.ids import canonical_json

REDUCER_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one document says of one node. ``recency``: the document's own date, else its bytes' ``since``
    (microseconds).
    """

    doc_id: str
    observed_key: str
    name: str
    source: str
    confidence: float
    recency: int
    properties: str  # canonical JSON

    @property
    def rank(self) -> tuple[Any, ...]:
        return PRIORITY[EdgeSource(self.source)], self.confidence, self.recency, self.doc_id

    def dumps(self) -> list[Any]:
        return [
            self.doc_id,
            self.observed_key,
            self.name,
            self.source,
            self.confidence,
            self.recency,
            self.properties,
        ]


def reduce_entity(label: str, key: str, claims: Iterable[Claim]) -> dict[str, Any]:
    """A row of ``tables.ENTITIES`` (without ``bucket``) from at least one claim."""
    distinct = sorted(set(claims), key=Claim.dumps)
    properties: dict[str, tuple[tuple[Any, ...], Any]] = {}
    for claim in distinct:
        if claim.properties == "{}":
            continue
        for field, value in json.loads(claim.properties).items():
            rank = (*claim.rank, canonical_json(value))
            if field not in properties or rank > properties[field][0]:
                properties[field] = (rank, value)
    parts = json.loads(key) if len(NODES[label].key) > 1 else [key]
    if label == "Service":
        name = parts[1]
    else:
        # A claim with properties knows the node better than one that only refers to it.
        name = max(distinct, key=lambda c: (c.properties != "{}", *c.rank, c.name)).name
    return {
        "label": label,
        "key": key,
        "name": name,
        "scope": parts[0] if label == "Service" else None,
        "properties": canonical_json({k: v for k, (_, v) in properties.items()}),
        "claims": canonical_json([c.dumps() for c in distinct]),
    }


def load_claims(text: str) -> list[Claim]:
    return [Claim(*c) for c in json.loads(text)]


def resolve_key(label: str, key: str, resolved: Mapping[str, str]) -> str:
    """The key that a node observed under ``key`` has after resolution."""
    return resolved.get(key, key) if label == "Service" else key


#: A node: its label, and its key as one string.
Node = tuple[str, str]


def touched_entities(
    nodes: Iterable[Node], before: Mapping[str, str], resolved: Mapping[str, str]
) -> set[Node]:
    """The entities to reduce again when the claims about ``nodes``, as observed, have changed.

    ``before`` and ``resolved``: {key of a bare service: key of the one it means}, as it was and as it is. A
    node touches what it was resolved to, what it is resolved to now, and itself; so does every bare service
    of which that differs.
    """
    touched = {node for node in nodes if node[0] != "Document"}
    touched |= {
        ("Service", bare)
        for bare in before.keys() | resolved.keys()
        if before.get(bare) != resolved.get(bare)
    }
    for label, key in list(touched):
        touched |= {(label, resolve_key(label, key, before)), (label, resolve_key(label, key, resolved))}
    return touched


def reduce_entities(claims: Iterable[tuple[str, Claim]], resolved: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows of ``tables.ENTITIES``, ordered by label and key, from (label, claim) pairs in any order."""
    by_node: dict[Node, list[Claim]] = {}
    for label, claim in claims:
        node = (label, resolve_key(label, claim.observed_key, resolved))
        by_node.setdefault(node, []).append(claim)
    return [
        {"bucket": ids.bucket(key), **reduce_entity(label, key, by_node[label, key])}
        for label, key in sorted(by_node)
    ]
