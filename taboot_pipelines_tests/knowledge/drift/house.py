"""A house out of a few files, read by the real extractors, and what drifted in it."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.config_files import ConfigFiles
from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxExtractor
from taboot_pipelines.extraction.tier_a.prose.claims import relations
from taboot_pipelines.extraction.tier_a.prose.reading import SENTENCES, STRUCTURED
from taboot_pipelines.knowledge.drift.declared import Declared
from taboot_pipelines.knowledge.drift.facts import Authority, DocumentView, Drift
from taboot_pipelines.knowledge.drift.rules import find_drift
from taboot_pipelines.knowledge.drift.running import Dump, running_drift
from taboot_pipelines.knowledge.graph import OBSERVED_EDGES
from taboot_pipelines.model.graph import EdgeSource
from taboot_pipelines.model.ids import canonical_json, digest, node_key
from taboot_pipelines.model.records import EdgeClaim, FileView, Interpretation, NodeRef, SourceFacts, UnitSpec
from taboot_pipelines.model.tables import NODES_SCHEMA

NAMESPACE = "default"


@dataclass
class House:
    """Files by path: ``*.md`` is text; what lies in ``etc/`` is configuration of any format of ``host``, its
    proxy called ``edge``; of the rest ``*.yaml`` are Compose projects of ``host``, ``*.conf`` of the proxy
    ``swag``. What lies in ``records/`` is of a day, what lies in ``vendor/`` speaks of no house. ``dumps``:
    what runs on ``machine``, by default the host; where that is None too, on one that nobody names."""

    files: Mapping[str, str]
    host: str | None = "hearth.lan"
    dumps: Mapping[str, str] = field(default_factory=dict)
    machine: str | None = None

    def drifts(self, order: Sequence[str] = ()) -> tuple[Drift, ...]:
        """``order``: of the paths, in which their edges come."""
        read = [*self._projects(), *self._confs(), *self._others(), *self._texts()]
        edges, nodes = self._graph(read, list(order) or sorted(self.files))
        documents = {
            path: DocumentView(_standing(path), posixpath.dirname(path), path) for path in self.files
        }
        return find_drift(NAMESPACE, edges, nodes, documents, lambda d: self.files.get(d, ""), self._running)

    def _running(self, declared: Declared) -> Iterator[Drift]:
        place = self.machine or self.host
        dumps = [Dump(p, p, p, place or "runs", place is not None, None, t) for p, t in self.dumps.items()]
        confs = {p: (p, t) for p, t in self.files.items() if p.endswith(".conf")}
        return running_drift(declared, dumps, ("stacks", "proxy", "etc"), lambda *_: None, confs)

    def found(self) -> list[tuple[str, str]]:
        """What is certain."""
        return [(d.kind.value, d.name) for d in self.drifts() if not d.supposed]

    def _projects(self) -> list[tuple[str, Interpretation]]:
        extractor, facts = ComposeExtractor(), SourceFacts(NAMESPACE, "stacks", self.host, "traefik")
        paths = self._chosen(".yaml", ".yml", "Dockerfile")
        view = FileView(frozenset(paths), paths.__getitem__)
        return [
            (EdgeSource.TIER_A, extractor.interpret(unit, view, facts)) for unit in extractor.units(paths)
        ]

    def _confs(self) -> list[tuple[str, Interpretation]]:
        extractor, facts = NginxExtractor(), SourceFacts(NAMESPACE, "proxy", None, "swag")
        paths = self._chosen(".conf")
        view = FileView(frozenset(paths), paths.__getitem__)
        return [(EdgeSource.TIER_A, extractor.interpret(UnitSpec(p, (p,)), view, facts)) for p in paths]

    def _chosen(self, *ends: str) -> dict[str, str]:
        return {p: t for p, t in self.files.items() if p.endswith(ends) and not p.startswith("etc/")}

    def _others(self) -> list[tuple[str, Interpretation]]:
        extractor, facts = ConfigFiles(), SourceFacts(NAMESPACE, "etc", self.host, "edge")
        paths = {p: t for p, t in self.files.items() if p.startswith("etc/") and not p.endswith(".md")}
        view = FileView(frozenset(paths), paths.__getitem__)
        return [
            (EdgeSource.TIER_A, extractor.interpret(unit, view, facts))
            for unit in extractor.units(list(paths))
        ]

    def _texts(self) -> list[tuple[str, Interpretation]]:
        return [(EdgeSource.TIER_B, _asserted(p, t)) for p, t in self.files.items() if p.endswith(".md")]

    def _graph(self, read: list[tuple[str, Interpretation]], order: list[str]) -> tuple[pa.Table, pa.Table]:
        nodes: dict[tuple[str, str], dict[str, Any]] = {}
        declared: dict[str, set[NodeRef]] = {}
        for _, one in read:
            for claim in one.nodes:
                ref = claim.node
                known = nodes.setdefault((ref.label, node_key(ref.key)), {"ref": ref, "properties": {}})
                known["properties"] |= {k: v for k, v in claim.properties.items() if v is not None}
                if ref.label == "Service" and ref.key[0] and claim.declared:
                    for name in (ref.name, *claim.aliases):
                        declared.setdefault(name, set()).add(ref)

        def meant(ref: NodeRef) -> NodeRef:
            bare = ref.label == "Service" and ref.key[0] == ""
            found = declared.get(ref.name, set()) if bare else set()
            return next(iter(found)) if len(found) == 1 else ref

        rows = [
            _row(source, edge, meant(edge.start), meant(edge.end), self.files)
            for source, one in read
            for edge in one.edges
        ]
        rows.sort(key=lambda r: (order.index(r["doc_id"]), r["edge_id"]))
        listed = [
            {
                "label": label,
                "key": key,
                "name": n["ref"].name,
                "scope": n["ref"].key[0] if label == "Service" else None,
                "properties": canonical_json(n["properties"]),
                "doc_ids": [],
            }
            for (label, key), n in sorted(nodes.items())
        ]
        return pa.Table.from_pylist(rows, schema=OBSERVED_EDGES), pa.Table.from_pylist(
            listed, schema=NODES_SCHEMA
        )


@cache
def _asserted(path: str, text: str) -> Interpretation:
    return Interpretation((), relations(text, path, STRUCTURED | SENTENCES))


def _standing(path: str) -> Authority:
    if not path.endswith(".md"):
        return Authority.CONFIG
    first = path.partition("/")[0]
    return {"records": Authority.RECORD, "vendor": Authority.OTHER}.get(first, Authority.HOUSE)


def _row(
    source: str, edge: EdgeClaim, start: NodeRef, end: NodeRef, files: Mapping[str, str]
) -> dict[str, Any]:
    where = edge.evidence
    line = files[where.path].count("\n", 0, where.start) + 1
    properties = canonical_json({k: v for k, v in edge.properties.items() if v is not None})
    return {
        "edge_id": digest(edge.type, start.key, end.key, properties, where.path, where.start),
        "type": edge.type,
        "start_label": start.label,
        "start_key": node_key(start.key),
        "start_name": start.name,
        "end_label": end.label,
        "end_key": node_key(end.key),
        "end_name": end.name,
        "properties": properties,
        "doc_id": where.path,
        "source": str(source),
        "extraction_method": edge.method,
        "line": line,
        "supports": json.dumps([{"method": edge.method, "span": [where.start, where.end]}]),
        "start_observed": edge.start.name,
        "end_observed": edge.end.name,
    }
