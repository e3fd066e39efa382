"""All rules over one snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from taboot_pipelines.knowledge.drift import port_rules, prose_rules, route_rules
from taboot_pipelines.knowledge.drift.declared import Declared
from taboot_pipelines.knowledge.drift.facts import DocumentView, Drift, Standing, Texts, read_facts


def find_drift(
    namespace: str,
    edges: pa.Table,
    nodes: pa.Table,
    documents: Mapping[str, DocumentView],
    text: Texts,
) -> tuple[Drift, ...]:
    """What drifted in a namespace: first what is to be mended, the surest kinds before; then what texts of a
    day say.

    ``edges``: ``knowledge.graph.OBSERVED_EDGES``; ``nodes``: ``tables.NODES_SCHEMA``; ``documents``: by
    doc_id; ``text``: read only for what may be a drift. In one pass, in memory that grows with the edges that
    are not mentions.
    """
    facts, asserted = read_facts(edges, documents)
    declared = Declared(namespace, facts, nodes, documents)
    found = [
        *port_rules.ports_bound_twice(declared),
        *route_rules.routes_to_wrong_ports(declared, text),
        *route_rules.routes_past_services(declared, text),
        *route_rules.missing_upstreams(declared, text),
        *route_rules.missing_cluster_services(declared, text),
    ]
    for standing, said in asserted.items():
        record = standing is Standing.RECORD
        for rule in (prose_rules.ports_of_text, prose_rules.images_of_text, prose_rules.addresses_of_text):
            found += rule(declared, said, text, record=record)
    return tuple(sorted(found, key=lambda d: d.order))
