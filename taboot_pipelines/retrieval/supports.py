"""What is behind an entity: the claims of the snapshot's documents, with where each stands, and decisions.

The shards say what an entity is and not who said what; that is in the tables, which stay with the home.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.names import merges_of
from taboot_pipelines.knowledge.reducer import PROPOSED, resolve_key
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import NODES, PRIORITY, EdgeSource
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval.explanations import notes
from taboot_pipelines.retrieval.graph import check_label
from taboot_pipelines.retrieval.results.decisions import EntityName, EntitySupports, Observed
from taboot_pipelines.retrieval.results.graph import Node
from taboot_pipelines.retrieval.session import View

if TYPE_CHECKING:
    from taboot_pipelines.stages.workspace import Workspace


# --- The one entity that a person means by what they name

_CANDIDATES = 10


def entity_of(
    view: View, named: EntityName, label: str | None, *, prefer: frozenset[str] | None = None
) -> Node:
    """The one entity of a view that a key, a name, a reference or a node means, of this label (None: of any).

    Of several that have a name, documents do not count, nor those of other labels than ``prefer``. Raises
    ``E_NOT_FOUND``; ``E_QUERY`` naming the candidates.
    """
    check_label(label)
    if isinstance(named, NodeRef):
        if named.label not in NODES or len(named.key) != len(NODES[named.label].key):
            raise TabootError("E_QUERY", f"{str(named.label)[:100]!r} and its key name no entity.")
        found = view.graph.find(named)
    elif isinstance(named, Node):
        found = view.graph.find(NodeRef(named.label, (named.key,), named.name))
    else:
        found = view.graph.find(named)
    nodes = [view.graph.node(int(number)) for number in found]
    if label is not None:
        nodes = [n for n in nodes if n.label == label]
        if not nodes:
            raise TabootError("E_NOT_FOUND", f"There is no {label} named {str(named)[:200]!r}.")
    entities = [n for n in nodes if n.label != "Document"] or nodes
    entities = [n for n in entities if prefer is None or n.label in prefer] or entities
    if len(entities) > 1:
        candidates = [f"{n.label} {n.key}" for n in entities[:_CANDIDATES]]
        raise TabootError(
            "E_QUERY",
            f"{len(entities)} entities are called {str(named)[:200]!r}: {'; '.join(candidates)}.",
            remedy="Name one by its key, or by its label too.",
            candidates=candidates,
        )
    return entities[0]


def supports(
    view: View, workspace: Workspace, namespace: str, named: EntityName, label: str | None, limit: int
) -> EntitySupports:
    """See ``KnowledgeBase.supports``."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 100_000:
        raise TabootError("E_QUERY", "limit must be a whole number from 1 to 100000.")
    node = entity_of(view, named, label)
    claims = _claims(view, workspace, namespace, node)
    claims.sort(key=_strength)
    shown = claims[:limit]
    lines = _lines(view, {c["doc_id"] for c in shown}, node)
    return EntitySupports(
        entity=node,
        observations=tuple(
            Observed(
                observed_key=c["observed_key"],
                source=c["source"],
                confidence=c["confidence"],
                properties=json.loads(c["properties"]),
                doc_id=c["doc_id"],
                url=view.document_url(c["doc_id"]),
                line=lines.get(c["doc_id"]),
            )
            for c in shown
        ),
        decisions=notes(view, _decisions(view, node)),
        truncated=len(claims) > limit,
    )


def _resolved(view: View) -> tuple[dict[str, str], Any]:
    names = view.graph.names
    known = names.filter(pc.is_valid(names.column("resolved_key")))
    return dict(rows_of(known, "observed_key", "resolved_key")), merges_of(view.graph.decisions)


def _decisions(view: View, node: Node) -> list[str]:
    """The ids of the decisions about an entity: of its fields, and the merges that led to it."""
    resolved, merges = _resolved(view)
    return [
        id_
        for id_, kind, label, key in rows_of(view.graph.decisions, "id", "kind", "label", "key")
        if kind != "edge" and label == node.label and resolve_key(label, key, resolved, merges) == node.key
    ]


def _claims(view: View, workspace: Workspace, namespace: str, node: Node) -> list[dict[str, Any]]:
    """What each document says of the entity, from the snapshot's tables."""
    from taboot_pipelines.stages.snapshot import SnapshotReader, needed_snapshot

    resolved, merges = _resolved(view)
    # All keys under which the entity was observed.
    keys = {node.key} | {key for (label, key), _ in merges.items() if label == node.label}
    keys |= set(resolved)
    keys = {key for key in keys if resolve_key(node.label, key, resolved, merges) == node.key}
    reader = SnapshotReader(workspace, namespace, needed_snapshot(workspace, namespace))
    states = reader.snapshot("doc_state", ["doc_id", "claims"]).combine_chunks()
    made = states.column("claims").combine_chunks()
    if not len(made):
        return []
    flat = pc.list_flatten(made)
    wanted = pc.and_(
        pc.is_in(pc.struct_field(flat, "observed_key"), pa.array(sorted(keys), pa.string())),
        pc.equal(pc.struct_field(flat, "label"), node.label),
    )
    owners = states.column("doc_id").combine_chunks().take(pc.list_parent_indices(made).filter(wanted))
    return [
        {**claim, "doc_id": doc_id}
        for doc_id, claim in zip(owners.to_pylist(), flat.filter(wanted).to_pylist(), strict=True)
    ]


def _strength(claim: Mapping[str, Any]) -> tuple[Any, ...]:
    source = claim["source"]
    told = source.removeprefix(PROPOSED)
    return (
        told != source,
        -PRIORITY[EdgeSource(told)],
        claim["properties"] == "{}",
        -claim["confidence"],
        claim["doc_id"],
        ids.composite(*claim.values()),
    )


def _lines(view: View, claiming: Collection[str], node: Node) -> dict[str, int]:
    """{document: the line at which it declares the entity}."""
    edges = view.graph.edges
    doc_ids = pa.array(sorted(claiming), pa.string())
    declaring = pc.and_(
        pc.and_(pc.equal(edges.column("end_label"), node.label), pc.equal(edges.column("end_key"), node.key)),
        pc.and_(
            pc.equal(edges.column("extraction_method"), "declaration"),
            pc.is_in(edges.column("doc_id"), value_set=doc_ids),
        ),
    )
    return dict(rows_of(edges.filter(declaring), "doc_id", "line"))
