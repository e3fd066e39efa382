"""One way to interpret a few files of a tailnet, and to look at what comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from taboot_pipelines.extraction.tier_a.tailscale.extractor import TailscaleExtractor
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts
from taboot_pipelines_tests.world import DATA

TAILSCALE = DATA / "tailscale"


def read(files: Mapping[str, Any]) -> Interpretation:
    """Interpret ``files`` (texts, or values that are written as JSON), which are one unit; what comes out
    follows the model and stands where it says."""
    texts = {path: f if isinstance(f, str) else json.dumps(f, indent=1) for path, f in files.items()}
    extractor = TailscaleExtractor()
    (unit,) = extractor.units(list(texts))
    assert set(unit.files) == set(texts)
    found = extractor.interpret(
        unit, FileView(frozenset(texts), texts.__getitem__), SourceFacts("default", "home")
    )
    for node in found.nodes:
        check_node(
            node.node.label, node.node.key, {k: v for k, v in node.properties.items() if v is not None}
        )
        assert 0 <= node.evidence.start < node.evidence.end <= len(texts[node.evidence.path])
    declared = {n.node for n in found.nodes}
    for edge in found.edges:
        properties = {k: v for k, v in edge.properties.items() if v is not None}
        check_edge(edge.type, edge.start.label, edge.end.label, properties, edge.confidence)
        quote = texts[edge.evidence.path][edge.evidence.start : edge.evidence.end]
        assert quote.strip() == quote != ""
        for ref, basis in ((edge.start, edge.start_basis), (edge.end, edge.end_basis)):
            assert ref in declared
            if basis is Basis.BYTES:
                assert ref.name in quote
    return found


def nodes(found: Interpretation, label: str) -> dict[str, dict[str, Any]]:
    """{key: properties that are set} of the nodes of a label; of several claims the first."""
    return {
        n.node.key[0]: {k: v for k, v in n.properties.items() if v is not None}
        for n in reversed(found.nodes)
        if n.node.label == label
    }


def edges(found: Interpretation, type_: str) -> set[tuple[str, str]]:
    return {(e.start.key[0], e.end.key[0]) for e in found.edges if e.type == type_}


def access(found: Interpretation) -> set[tuple[str, str, str, str]]:
    """(source, target, protocol or -, ports) of the connections that a policy or a filter lets through."""
    for edge in found.edges:
        if "ports" in edge.properties:
            # WireGuard reaches from device to device, and not behind a router of a subnet.
            assert edge.properties.get("encrypted") is (True if edge.end.label == "Host" else None)
    return {
        (e.start.key[0], e.end.key[0], e.properties.get("protocol") or "-", e.properties["ports"])
        for e in found.edges
        if e.type == "CONNECTS_TO" and e.method != "tailscale_route"
    }


def device(hostname: str, number: int, **more: Any) -> dict[str, Any]:
    """A device as Tailscale's API gives it."""
    return {
        "nodeId": f"n{number}",
        "hostname": hostname,
        "name": f"{hostname}.tail1.ts.net",
        "addresses": [f"100.64.0.{number}", f"fd7a:115c:a1e0::{number:x}"],
        "os": "linux",
        "user": "anna@example.com",
        "authorized": True,
        **more,
    }
