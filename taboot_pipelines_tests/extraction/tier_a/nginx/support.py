"""One way to interpret a few files, and where the real ones lie."""

from __future__ import annotations

from collections.abc import Mapping

from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxExtractor
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import EdgeClaim, FileView, Interpretation, SourceFacts, UnitSpec
from taboot_pipelines_tests.needs import DATA as DATA

SOURCE = SourceFacts("default", "swag")


def read(
    files: Mapping[str, str], main: str | None = None, source: SourceFacts = SOURCE
) -> tuple[Interpretation, FileView]:
    """Interpret ``files`` with ``main`` (default: the first) as the main file; what comes out follows the
    model.
    """
    view = FileView(frozenset(files), files.__getitem__)
    unit = UnitSpec(main or next(iter(files)), (main or next(iter(files)),))
    result = NginxExtractor().interpret(unit, view, source)
    for edge in result.edges:
        check_edge(edge.type, edge.start.label, edge.end.label, edge.properties, edge.confidence)
        quote = files[edge.evidence.path][edge.evidence.start : edge.evidence.end]
        assert quote.strip() == quote != ""
        for ref, basis in ((edge.start, edge.start_basis), (edge.end, edge.end_basis)):
            check_node(ref.label, ref.key, {})
            if basis is Basis.BYTES:
                assert ref.name in quote
    claimed = set()
    for node in result.nodes:
        check_node(node.node.label, node.node.key, node.properties)
        assert 0 <= node.evidence.start < node.evidence.end <= len(files[node.evidence.path])
        claimed.add(node.node)
    assert {e.start for e in result.edges} | {e.end for e in result.edges} <= claimed
    for path in result.subordinates:
        assert path in files
    return result, view


def routes(result: Interpretation) -> list[EdgeClaim]:
    return [e for e in result.edges if e.type == "ROUTES_TO"]


def exposures(result: Interpretation) -> list[EdgeClaim]:
    return [e for e in result.edges if e.type == "EXPOSES_ENDPOINT"]


def ends(result: Interpretation) -> list[tuple[object, ...]]:
    """(host, location, path, end key) of every route, in order."""
    return [
        (e.properties.get("host"), e.properties.get("location"), e.properties.get("path"), e.end.key)
        for e in routes(result)
    ]


def in_location(body: str, before: str = "") -> str:
    return f"server {{ {before}\n location / {{\n {body}\n }}\n}}\n"
