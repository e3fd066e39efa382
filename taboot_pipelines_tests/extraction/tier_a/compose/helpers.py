"""Interpret files given as text, and check what holds for every claim."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    FileView,
    Interpretation,
    NodeClaim,
    SourceFacts,
)


@dataclass
class Read:
    """One unit's interpretation, with the texts it was read from."""

    files: Mapping[str, str]
    result: Interpretation
    reads: dict[str, bool] = field(default_factory=dict)

    def quote(self, evidence: Evidence) -> str:
        return self.files[evidence.path][evidence.start : evidence.end]

    def edges(self, type_: str, method: str | None = None) -> list[EdgeClaim]:
        return [e for e in self.result.edges if e.type == type_ and method in (None, e.method)]

    def pairs(self, type_: str, method: str | None = None) -> list[tuple[str, str]]:
        return [(e.start.name, e.end.name) for e in self.edges(type_, method)]

    def quotes(self, type_: str, method: str | None = None) -> list[str]:
        return [self.quote(e.evidence) for e in self.edges(type_, method)]

    def nodes(self, label: str) -> list[NodeClaim]:
        return [n for n in self.result.nodes if n.node.label == label]

    def node(self, label: str, name: str) -> NodeClaim:
        (found,) = [n for n in self.nodes(label) if n.node.name == name]
        return found

    def codes(self) -> list[str]:
        return [p.code for p in self.result.problems]


def check(read: Read) -> None:
    """Every claim follows the model, every quote lies in its file, every ``bytes`` end stands in its quote,
    every end is claimed as a node, and no node is claimed twice."""
    keys = [(n.node.label, n.node.key) for n in read.result.nodes]
    assert len(keys) == len(set(keys))
    for node in read.result.nodes:
        check_node(node.node.label, node.node.key, node.properties)
        assert 0 <= node.evidence.start < node.evidence.end <= len(read.files[node.evidence.path])
    for edge in read.result.edges:
        check_edge(edge.type, edge.start.label, edge.end.label, edge.properties, edge.confidence)
        assert 0 <= edge.evidence.start < edge.evidence.end <= len(read.files[edge.evidence.path])
        for end, basis in ((edge.start, edge.start_basis), (edge.end, edge.end_basis)):
            assert (end.label, end.key) in keys
            if basis is Basis.BYTES:
                assert end.name in read.quote(edge.evidence)
    assert len(read.result.edges) == len({repr(e) for e in read.result.edges})


def interpret(
    files: Mapping[str, str] | str,
    main: str | None = None,
    *,
    host: str | None = None,
    proxy: str | None = None,
) -> Read:
    """The interpretation of the unit whose main file is ``main`` (default: the first unit). A single text is
    ``app/compose.yaml``. Texts are dedented, so that tests can indent them."""
    texts = {"app/compose.yaml": files} if isinstance(files, str) else dict(files)
    texts = {path: textwrap.dedent(text) for path, text in texts.items()}
    extractor = ComposeExtractor()
    units = extractor.units(texts)
    unit = next(u for u in units if main in (None, u.name))
    view = FileView(frozenset(texts), texts.__getitem__)
    read = Read(
        texts, extractor.interpret(unit, view, SourceFacts("default", "lab", host, proxy)), view.reads
    )
    check(read)
    return read
