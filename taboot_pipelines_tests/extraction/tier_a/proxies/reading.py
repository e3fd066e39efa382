"""Interpret files given as text as files of a source, and check what holds for every claim."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec

#: A route: host, location, path, tls, "scheme target:port", auth (None: nothing says).
Row = tuple[str | None, str | None, str | None, bool, str]


def interpret(files: Mapping[str, str], main: str, **facts: str) -> Interpretation:
    """What the file ``main`` says; every claim is checked against the model and its quote."""
    texts = {path: textwrap.dedent(text) for path, text in files.items()}
    view = FileView(frozenset(texts), texts.__getitem__)
    said = ConfigFiles().interpret(UnitSpec(main, (main,)), view, SourceFacts("default", "edge", **facts))
    check(said, texts)
    return said


def check(said: Interpretation, texts: Mapping[str, str]) -> None:
    """Every claim follows the model and its evidence lies in a file that was read; an end that stands in the
    quote by its bytes does; every end of an edge is claimed as a node."""
    named = {node.node for node in said.nodes}
    for node in said.nodes:
        check_node(node.node.label, node.node.key, node.properties)
        assert 0 <= node.evidence.start < node.evidence.end <= len(texts[node.evidence.path])
    for edge in said.edges:
        check_edge(edge.type, edge.start.label, edge.end.label, edge.properties, edge.confidence)
        quote = texts[edge.evidence.path][edge.evidence.start : edge.evidence.end]
        assert quote.strip()
        assert {edge.start, edge.end} <= named
        for ref, basis in ((edge.start, edge.start_basis), (edge.end, edge.end_basis)):
            assert basis is not Basis.BYTES or ref.name in quote


def rows(said: Interpretation) -> set[Row]:
    """The routes."""
    found = set()
    for edge in said.edges:
        if edge.type == "ROUTES_TO":
            p = edge.properties
            target = f"{p['scheme']} {edge.end.key[1]}:{p['port']}"
            found.add((p.get("host"), p.get("location"), p.get("path"), p["tls"], target))
    return found


def auths(said: Interpretation) -> dict[str, tuple[str, str | None]]:
    """{service: how its endpoint is guarded, and by what}; not what a port of Kubernetes leaves open."""
    return {
        edge.start.name: (edge.properties["auth"], edge.properties.get("authInclude"))
        for edge in said.edges
        if edge.type == "EXPOSES_ENDPOINT" and edge.method != "kubernetes_service_port"
    }


def codes(said: Interpretation) -> list[str]:
    return [problem.code for problem in said.problems]


def quotes(said: Interpretation, texts: Mapping[str, str]) -> set[str]:
    """The statements that routes point to."""
    return {
        textwrap.dedent(texts[e.evidence.path])[e.evidence.start : e.evidence.end]
        for e in said.edges
        if e.type == "ROUTES_TO"
    }
