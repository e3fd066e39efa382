"""The one entity that a person means by what they name."""

from __future__ import annotations

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import NODES
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval.results.decisions import EntityName
from taboot_pipelines.retrieval.results.graph import Node
from taboot_pipelines.retrieval.session import View

_CANDIDATES = 10


def entity_of(
    view: View, named: EntityName, label: str | None, *, prefer: frozenset[str] | None = None
) -> Node:
    """The one entity of a view that a key, a name, a reference or a node means, of this label (None: of any).

    Of several that have a name, documents do not count, nor those of other labels than ``prefer``. Raises
    ``E_NOT_FOUND``; ``E_QUERY`` naming the candidates.
    """
    if label is not None and label not in NODES:
        raise TabootError("E_QUERY", f"{label!r} is no type of entity; there are {', '.join(sorted(NODES))}.")
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
