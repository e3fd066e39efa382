"""The two sides of a check: the files before and after, each with the graph that they give."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from functools import cached_property

from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval.check.states import State, folders_of
from taboot_pipelines.retrieval.drift.report import Drifts
from taboot_pipelines.retrieval.queries.config_files import Parsed, Value
from taboot_pipelines.retrieval.queries.house import House
from taboot_pipelines.retrieval.queries.service_index import CONFIG_TYPES, Document, Edge, Service
from taboot_pipelines.retrieval.rules.catalog import Rule
from taboot_pipelines.retrieval.rules.declarations import RuleHouse, Violation

_LABELS = {"ReverseProxy": "proxy", "IP": "address", "VPNTunnel": "tunnel", "TailscaleNode": "node"}


class Side:
    """One state, for comparison with another, in which things and documents have the same ids."""

    def __init__(self, state: State, drifts: Drifts, parsed: Parsed) -> None:
        """``drifts`` and ``parsed``: what was read of the files of other sides, and for them of this one."""
        self.state = state
        self.drifts = drifts
        self.house = House(state.view, self.drifts.of)
        self.index = self.house.index
        self.house.entries.share(parsed)
        self.rules = RuleHouse(self.house)
        self._found: dict[str, list[Violation]] = {}

    @property
    def documents(self) -> Mapping[str, Document]:
        return self.index.documents

    @cached_property
    def hashes(self) -> dict[str, tuple[str, str]]:
        """The hashes of each document's text, in which secrets are masked, and bytes."""
        rows = rows_of(self.state.view.graph.documents, "doc_id", "text_sha256", "blob_sha256")
        return {doc_id: (text, blob) for doc_id, text, blob in rows}

    @cached_property
    def edges(self) -> dict[str, tuple[int, str]]:
        """{edge_id: (number, properties as JSON)} of the edges that are no mentions."""
        table = self.state.view.graph.edges
        columns = (table.column(c).to_pylist() for c in ("edge_id", "type", "properties"))
        rows = zip(*columns, strict=True)
        return {edge: (n, said) for n, (edge, type_, said) in enumerate(rows) if type_ != "MENTIONS"}

    @cached_property
    def paths(self) -> frozenset[str]:
        """The files that are known, and their folders, by their paths from the folder that is checked."""
        return frozenset().union(*(files.known for files in self.state.files))

    def has(self, path: str) -> bool:
        """Whether a file or folder lies at a path from the folder that is checked."""
        return any(files.has(path) for files in self.state.files)

    def may_be_set_elsewhere(self, source: str, path: str, variable: str) -> bool:
        """Whether a variable that a Compose file uses may be set in a file which is not here: there is no
        ``.env`` beside it, and git would leave one out, or in its folder or above leaves a file out that sets
        it, or an example of one does."""
        folder = posixpath.dirname(path)
        if (source, posixpath.join(folder, ".env")) in self.state.variables:
            return False
        files = next(f for f in self.state.files if f.entry.source_id == source)
        if folder in files.unseen:
            return True
        told = files.told(folder)
        above = () if told.startswith("..") else (told, *folders_of(told), "", ".")
        return any(variable in self.state.elsewhere.get(at, ()) for at in above)

    def violations(self, rule: Rule) -> list[Violation]:
        """Where a rule of the house does not hold."""
        if rule.name not in self._found:
            self._found[rule.name] = list(rule.find(self.rules))
        return self._found[rule.name]

    def read(self, edge_ids: Collection[str]) -> list[Edge]:
        """Edges by their ids; those of which an end is no node are left out."""
        found = self.index.numbered(sorted(self.edges[edge_id][0] for edge_id in edge_ids))
        return [edge for edge in found if edge.start >= 0 and edge.end >= 0]

    @cached_property
    def services(self) -> dict[str, Service]:
        """The services that files declare, by their keys."""
        keys = {self.index.key(n): s for n, s in self.index.services.items()}
        return {key: s for key, s in keys.items() if key in self.state.declared}

    @cached_property
    def numbers(self) -> dict[tuple[str, str], int]:
        """The number of each node by (label, key)."""
        nodes = self.state.view.graph.nodes
        columns = (nodes.column(c).to_pylist() for c in ("label", "key"))
        return {node: n for n, node in enumerate(zip(*columns, strict=True))}

    def node(self, number: int) -> tuple[str, str]:
        return self.index.label(number), self.index.key(number)

    def file(self, doc_id: str) -> str:
        """Where a document lies: its path from the folder that is checked."""
        return self.state.view.document_url(doc_id).removeprefix("/./").removeprefix("/")

    def line(self, doc_id: str, text: str) -> int:
        """The line of a document that is this one but for blanks; 0 if there is none."""
        lines = self.index.text(doc_id).split("\n") if text else []
        return next((n for n, line in enumerate(lines, 1) if line.strip() == text), 0)

    def values(self, doc_id: str) -> list[Value]:
        """The values of a file of configuration."""
        document = self.documents.get(doc_id)
        configures = document is not None and (document.mime in CONFIG_TYPES or document.declares)
        return self.house.entries.file(doc_id).values if configures else []

    def owner(self, number: int) -> int:
        """The service of a container; any other node is its own."""
        return self.index.service_of.get(number, number)

    def called(self, number: int) -> str:
        """A node in words: ``service shop/db``, ``network proxy``."""
        service = self.index.services.get(self.owner(number))
        if service is not None:
            return (
                f"service {service.project}/{service.name}" if service.project else f"service {service.name}"
            )
        label = self.index.label(number)
        return f"{_LABELS.get(label, label).lower()} {self.index.name(number)}"
