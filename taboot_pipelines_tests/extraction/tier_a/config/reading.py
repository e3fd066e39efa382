"""Reads made-up files as a source with ``interpret: true`` does."""

from __future__ import annotations

from collections.abc import Mapping

from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import EdgeClaim, FileView, Interpretation, SourceFacts


def interpret(
    files: Mapping[str, str], *, host: str | None = None, proxy: str | None = None
) -> dict[str, Interpretation]:
    """{unit: what it says} of the files of a source called ``src``; what another unit takes in is none."""
    extractor = ConfigFiles()
    facts = SourceFacts("ns", "src", host, proxy)
    said = {}
    for unit in extractor.units(sorted(files)):
        view = FileView(frozenset(files), files.__getitem__)
        said[unit.name] = extractor.interpret(unit, view, facts)
        check(said[unit.name], files)
    taken = {path for one in said.values() for path in one.subordinates}
    return {name: one for name, one in said.items() if name not in taken}


def one(name: str, text: str, *, host: str | None = None, proxy: str | None = None) -> Interpretation:
    """What a source of one file says."""
    return interpret({name: text}, host=host, proxy=proxy)[name]


def check(said: Interpretation, files: Mapping[str, str]) -> None:
    """Every claim follows the model and points into a file, and what is said to stand there does."""
    for node in said.nodes:
        check_node(node.node.label, node.node.key, node.properties)
        at = node.evidence
        assert 0 <= at.start < at.end <= len(files[at.path]), node
    for edge in said.edges:
        check_edge(edge.type, edge.start.label, edge.end.label, edge.properties, edge.confidence)
        at = edge.evidence
        assert 0 <= at.start < at.end <= len(files[at.path]), edge
        quote = files[at.path][at.start : at.end]
        for end, basis in ((edge.start, edge.start_basis), (edge.end, edge.end_basis)):
            assert basis != Basis.BYTES or end.name in quote, edge
    for problem in said.problems:
        assert problem.code.startswith("E_") and problem.path in files


def facts(said: Interpretation) -> set[tuple[object, ...]]:
    """What is said, whatever its place in the file."""
    nodes = {(n.node.label, n.node.key, repr(sorted(n.properties.items())), n.aliases) for n in said.nodes}
    edges = {
        (e.type, e.start.key, e.end.key, e.method, repr(sorted(e.properties.items()))) for e in said.edges
    }
    return nodes | edges


def shown(edge: EdgeClaim) -> tuple[str, str, str]:
    return edge.type, edge.start.name, edge.end.name


def edges(said: Interpretation, type_: str) -> list[EdgeClaim]:
    return [edge for edge in said.edges if edge.type == type_]
