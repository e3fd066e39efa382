"""What the configuration of a namespace states, indexed once per manifest for questions: services with their
projects, the edges between nodes by either end, and the texts of the configuration documents.

MENTIONS are left out: they say where a name stands, not what is configured. Edges are read as rows only when
a question reaches them.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.connectors.walk import OF_TESTS, is_of_tests
from taboot_pipelines.extraction.tier_a.systemd.units import drop_in_unit, unit_of
from taboot_pipelines.model.graph import RUNNING_METHOD, TEXT_METHOD
from taboot_pipelines.model.ids import bare_key, container_id
from taboot_pipelines.retrieval.graph import Graph
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.shards.manifest import Manifest, SourceEntry
from taboot_pipelines.sources import Stance, source_kind, stance_of

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.session import View

Numbers = npt.NDArray[np.int64]

#: Edges of one node and kind that a question reads; the rest is counted only.
MAX_EDGES = 400
#: Documents whose texts are kept put together.
_MAX_TEXTS = 512
#: Nodes whose edges are kept once read, and edges.
_MAX_NODES = 50_000
_MAX_EDGES_KEPT = 50_000

#: What names the documents whose text is configuration, by content type.
CONFIG_TYPES = frozenset(
    {"application/yaml", "application/json", "application/toml", "text/x-nginx-conf", "text/x-ini"}
)
#: A path that says of itself that it is not in force.
_EXAMPLE = re.compile(
    r"(?:^|[/._-])(?:samples?|examples?|templates?|demos?|archived?|disabled|unused|deprecated|retired"
    rf"|inactive|trash|{'|'.join(OF_TESTS)})(?:$|[/._-])|\.dist$",
    re.IGNORECASE,
)

_EDGE_COLUMNS = (
    "edge_id",
    "type",
    "properties",
    "doc_id",
    "line",
    "supports",
    "extraction_method",
    "end_observed",
    "confidence",
)


#: What is less likely than this is no fact that anything is answered by: it is sooner wrong than right.
_LIKELY = 0.5


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge as facts use it. ``start`` and ``end``: numbers of nodes; ``span``: code points of its
    statement in the document; ``observed``: the name of its end as written."""

    edge_id: str
    type: str
    start: int
    end: int
    properties: dict[str, Any]
    doc_id: str
    line: int
    span: tuple[int, int]
    methods: frozenset[str]
    method: str
    observed: str
    confidence: float

    @property
    def is_of_text(self) -> bool:
        """Whether running text says so, and no configuration."""
        return self.method.startswith(TEXT_METHOD)


@dataclass(frozen=True, slots=True)
class Service:
    """A service. ``place``: the host or source of its scope, ``project``: the Compose project; both empty
    where only its name is known. ``own``: it runs on a host of the house, or its files declare it, and not
    only those of tests;
    ``declared``: its own project does, and not only what another needs or builds."""

    number: int
    name: str
    place: str
    project: str
    properties: dict[str, Any]
    own: bool
    declared: bool


@dataclass(frozen=True, slots=True)
class Document:
    """A document: ``row`` in the graph's table and ``index_row`` in the index's."""

    doc_id: str
    source: str
    path: str
    mime: str
    example: bool
    title: str
    source_type: str

    @property
    def folder(self) -> str:
        return posixpath.basename(posixpath.dirname(self.path))

    @property
    def declares(self) -> bool:
        """Whether services are declared in files of its kind: YAML, units of systemd and quadlets."""
        return self.mime == "application/yaml" or (self.mime.startswith("text/") and self.is_unit)

    @property
    def is_unit(self) -> bool:
        return unit_of(self.path) is not None


def _ports_of_texts(graph: Graph) -> npt.NDArray[np.bool_]:
    """Which edges are ports that only a text names of a service that configuration declares: a text says on
    what a process listens, the declaration what is published of it."""
    binds = pc.and_(
        pc.equal(graph.edges.column("type"), "BINDS"),
        pc.starts_with(graph.edges.column("extraction_method"), TEXT_METHOD),
    ).to_numpy()
    scopes = pc.fill_null(graph.nodes.column("scope"), "")
    declared = pc.match_substring_regex(scopes, "[^/]$").to_numpy()
    known = graph.start >= 0
    found = np.zeros(len(binds), dtype=bool)
    found[known] = binds[known] & declared[graph.start[known]]
    return found


class ServiceIndex:
    """Made once per view. Safe to use from several threads: what is filled later is only ever replaced by its
    equal."""

    def __init__(self, graph: Graph, index: Index, manifest: Manifest) -> None:
        self.graph = graph
        self._index = index
        self._sources = manifest.sources
        #: The folder of each source, where it has one.
        self.roots = {name: entry.root for name, entry in manifest.sources.items() if entry.root}
        self._namespace = manifest.namespace
        labels = graph.nodes.column("label").combine_chunks().dictionary_encode()
        self._label_codes = labels.indices.to_numpy(zero_copy_only=False)
        self._label_names: list[str] = labels.dictionary.to_pylist()
        types = graph.edges.column("type").combine_chunks()
        facts = pc.not_equal(types, "MENTIONS").to_numpy(zero_copy_only=False)
        self._mentions = np.flatnonzero(~facts & (graph.end >= 0))
        facts &= (graph.start >= 0) & (graph.end >= 0)
        facts &= graph.edges.column("confidence").to_numpy() >= _LIKELY
        facts &= ~_ports_of_texts(graph)
        # What runs is compared with what is declared (``taboot drift``), and is no declaration.
        facts &= ~pc.starts_with(graph.edges.column("extraction_method"), RUNNING_METHOD).to_numpy()
        self._edges = np.flatnonzero(facts)
        self._types = np.array(types.take(pa.array(self._edges)).to_pylist(), dtype=object)
        self._starts, self._ends = graph.start[self._edges], graph.end[self._edges]
        self._by_start = np.argsort(self._starts, kind="stable")
        self._by_end = np.argsort(self._ends, kind="stable")
        self._sorted_starts = self._starts[self._by_start]
        self._sorted_ends = self._ends[self._by_end]
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._declaring: dict[int, list[str]] = {}
        self._known: dict[int, Edge] = {}
        self._read_out: dict[int, list[Edge]] = {}
        self._read_into: dict[int, list[Edge]] = {}
        #: What ``describing`` made of services, by its own keys.
        self.descriptions: dict[tuple[str, str], frozenset[str]] = {}

    # --- nodes ----------------------------------------------------------------------------------------------

    def label(self, node: int) -> str:
        return self._label_names[int(self._label_codes[node])]

    def name(self, node: int) -> str:
        name: str = self.graph.nodes.column("name")[node].as_py()
        return name

    def key(self, node: int) -> str:
        key: str = self.graph.nodes.column("key")[node].as_py()
        return key

    def properties(self, node: int) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.graph.nodes.column("properties")[node].as_py())
        return found

    def of_label(self, label: str) -> list[int]:
        if label not in self._label_names:
            return []
        found: list[int] = np.flatnonzero(self._label_codes == self._label_names.index(label)).tolist()
        return found

    def parts_of(self, service: Service) -> list[Service]:
        """The services that a release of a chart consists of, which are called after it (``shop-server``), if
        it is none itself; else the service."""
        if not service.declared or self.out(service.number, "BUILDS", "EXPOSES_ENDPOINT", "BINDS"):
            return [service]
        beside = (self.services[n] for n in self.projects.get((service.place, service.project), ()))
        parts = [s for s in beside if s.name.startswith(f"{service.name}-") and self.out(s.number, "BUILDS")]
        return parts or [service]

    @cached_property
    def shared_names(self) -> frozenset[str]:
        """The names that several services of projects have."""
        held = Counter(s.name for s in self.services.values() if s.declared and s.project)
        return frozenset(name for name, count in held.items() if count > 1)

    def with_key(self, key: str) -> Service | None:
        """The service whose node has a key, if there is one."""
        return self._by_key.get(key)

    @cached_property
    def _by_key(self) -> dict[str, Service]:
        return {self.key(number): service for number, service in self.services.items()}

    @cached_property
    def services(self) -> dict[int, Service]:
        """Every service, by its node."""
        numbers = self.of_label("Service")
        columns = ["name", "scope", "properties", "doc_ids"]
        held = self.graph.nodes.take(pa.array(numbers, pa.int64())).select(columns).to_pylist()
        scopes = [(row["scope"] or "").rpartition("/")[::2] for row in held]
        # The place is a machine, or a source with the folder in it; a source may be called as a machine is.
        places = {place for place, _ in scopes if place in self._sources}
        machines = {self.name(e.end) for e in self.of_type("RUNS") if not e.is_of_text} if places else set()
        sources = [
            None if place in machines else self._sources.get(place.partition("/")[0]) for place, _ in scopes
        ]
        hosted = any(project and source is None for (_, project), source in zip(scopes, sources, strict=True))
        found = {}
        for number, row, (place, project), source in zip(numbers, held, scopes, sources, strict=True):
            # What configuration declares without a machine is the house's where its files are; and what no
            # source says a machine of, since then none tells the house from examples.
            own = bool(project) and (source is None or not hosted or source_kind(source.type).kept_here)
            own = own and not self._only_tested(row["doc_ids"] or ())
            properties = orjson.loads(row["properties"])
            declared = bool(project) and number not in self._built_by_others
            if declared and properties.keys() <= {"schemaVersion"}:
                declared = not self._only_needed(number, f"{place}/{project}", row["name"])
            found[number] = Service(number, row["name"], place, project, properties, own, declared)
        return found

    def _only_tested(self, doc_ids: Iterable[str]) -> bool:
        """Whether all files that declare something, of those that name it, lie in a folder of tests."""
        found = (self.documents.get(d) for d in doc_ids)
        paths = [d.path for d in found if d is not None and d.declares]
        return bool(paths) and all(is_of_tests(path.split("/")) for path in paths)

    def _only_needed(self, number: int, scope: str, name: str) -> bool:
        """Whether only what others of a Compose project need says that there is such a service in it: one
        that the project has makes a container."""
        named = [e.method.startswith("compose_") for e in self.into(number)]
        made = container_id(self._namespace, scope, name, 1) in self._containers
        return bool(named) and all(named) and not made and not self.out(number)

    @cached_property
    def _containers(self) -> dict[str, int]:
        """The containers by their keys."""
        return {self.key(n): n for n in self.of_label("Container")}

    @cached_property
    def _built_by_others(self) -> frozenset[int]:
        """The services of Dockerfiles that stand for what a declared service builds, whichever source has the
        file: that one is the service."""
        builds = self.of_type("BUILDS")
        builders = {e.start for e in builds if "compose_build" in e.methods}
        held: dict[str, set[int]] = defaultdict(set)
        for edge in builds:
            if "dockerfile_from" in edge.methods:
                document = self.documents[edge.doc_id]
                root = self.roots.get(document.source) or f"{document.source}:"
                held[posixpath.normpath(posixpath.join(root, document.path))].add(edge.start)
        return frozenset(s for starts in held.values() if starts & builders for s in starts - builders)

    @cached_property
    def described(self) -> dict[str, tuple[str, str, datetime]]:
        """The descriptions of services that people decided: key -> text, who said so, when."""
        rows = self.graph.decisions.to_pylist()
        said = [
            r for r in rows if (r["kind"], r["label"], r["property"]) == ("field", "Service", "description")
        ]
        return {r["key"]: (text, r["who"], r["at"]) for r in said if (text := orjson.loads(r["value"]))}

    @cached_property
    def container_of(self) -> dict[int, int]:
        """The first container of each service, by its service; of one that is known by its name alone the
        container of that name."""
        found = {}
        for number, service in self.services.items():
            scope = f"{service.place}/{service.project}"
            key = (
                container_id(self._namespace, scope, service.name, 1)
                if service.declared
                else bare_key("Container", service.name)[0]
            )
            if (container := self._containers.get(key)) is not None:
                found[number] = container
        return found

    @cached_property
    def service_of(self) -> dict[int, int]:
        """The service of each container that has one."""
        return {container: service for service, container in self.container_of.items()}

    @cached_property
    def projects(self) -> dict[tuple[str, str], list[int]]:
        """The declared services of each (place, project), in the order of their names."""
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        for number, service in self.services.items():
            if service.declared:
                found[service.place, service.project].append(number)
        return dict(found)

    # --- edges ----------------------------------------------------------------------------------------------

    def out(self, node: int, *types: str) -> list[Edge]:
        """The edges of these types that begin at a node, at most :data:`MAX_EDGES`."""
        return self._at(self._read_out, self._sorted_starts, self._by_start, node, types)

    def into(self, node: int, *types: str) -> list[Edge]:
        """The edges of these types that end at a node, at most :data:`MAX_EDGES`."""
        return self._at(self._read_into, self._sorted_ends, self._by_end, node, types)

    def count_into(self, node: int, *types: str) -> int:
        """How many edges of these types end at a node, from how many starts."""
        at = self._slice(self._sorted_ends, self._by_end, node, types)
        return len(np.unique(self._starts[at]))

    def of_type(self, type_: str) -> list[Edge]:
        return self._rows(np.flatnonzero(self._types == type_), most=20_000)

    def numbered(self, numbers: Sequence[int] | Numbers) -> list[Edge]:
        """Edges by their numbers in the graph."""
        at = np.array(numbers, dtype=np.int64)
        return self._in_order(self._read(self.graph.edges.select(_EDGE_COLUMNS).take(pa.array(at)), at))

    def mentions(self, node: int) -> list[Edge]:
        """The places where documents name a node, at most :data:`MAX_EDGES`."""
        return self.numbered(self._mentions[self.graph.end[self._mentions] == node][:MAX_EDGES])

    def _at(
        self, read: dict[int, list[Edge]], keys: Numbers, order: Numbers, node: int, types: Sequence[str]
    ) -> list[Edge]:
        """The edges at a node, which are read once: a query over all services asks each for its own."""
        known = read.get(node)
        if known is None:
            at = self._slice(keys, order, node, ())
            if len(at) > MAX_EDGES:  # of a hub, those of the types alone
                return self._rows(self._slice(keys, order, node, types))
            if len(read) >= _MAX_NODES:
                read.clear()
            known = read[node] = self._rows(at)
        return [edge for edge in known if edge.type in types] if types else list(known)

    def _slice(self, keys: Numbers, order: Numbers, node: int, types: Sequence[str]) -> Numbers:
        at = order[np.searchsorted(keys, node) : np.searchsorted(keys, node, side="right")]
        found: Numbers = at[np.isin(self._types[at], types)] if types else at
        return found

    def _rows(self, at: Numbers, most: int = MAX_EDGES) -> list[Edge]:
        known = {n: self._known.get(n) for n in at[:most].tolist()}
        if missing := [n for n, edge in known.items() if edge is None]:
            if len(self._known) + len(missing) > _MAX_EDGES_KEPT:
                self._known.clear()
            made = self._read(self._facts.take(pa.array(missing)), self._edges[missing])
            new = dict(zip(missing, made, strict=True))
            self._known.update(new)
            known |= new
        return self._in_order(edge for edge in known.values() if edge is not None)

    def _in_order(self, edges: Iterable[Edge]) -> list[Edge]:
        """Those of files in force first."""
        return sorted(edges, key=lambda e: (self.is_example(e.doc_id), e.doc_id, e.line, e.edge_id))

    @cached_property
    def _facts(self) -> pa.Table:
        """The edges that are no mentions, in one piece: of a table of many pieces each row is dear."""
        return self.graph.edges.select(_EDGE_COLUMNS).take(pa.array(self._edges)).combine_chunks()

    def _read(self, table: pa.Table, edges: Numbers) -> list[Edge]:
        rows = table.to_pylist()
        starts, ends = self.graph.start[edges], self.graph.end[edges]
        return [
            Edge(
                row["edge_id"],
                row["type"],
                int(start),
                int(end),
                orjson.loads(row["properties"]),
                row["doc_id"],
                row["line"],
                *_supported(row["supports"], row["line"]),
                row["extraction_method"],
                row["end_observed"],
                row["confidence"],
            )
            for row, start, end in zip(rows, starts, ends, strict=True)
        ]

    # --- documents ------------------------------------------------------------------------------------------

    @cached_property
    def documents(self) -> dict[str, Document]:
        table = self.graph.documents.select(["doc_id", "source_id", "path", "mime", "title", "source_type"])
        places = places_in_house(self._sources)
        return {
            r["doc_id"]: Document(
                r["doc_id"],
                r["source_id"],
                r["path"],
                r["mime"],
                is_example_path(posixpath.join(places.get(r["source_id"], ""), r["path"])),
                r["title"],
                r["source_type"],
            )
            for r in table.to_pylist()
        }

    @cached_property
    def config_documents(self) -> list[Document]:
        """The documents whose text is configuration, those in force first, and of these those of
        sources that declare things."""
        found = [
            d
            for d in self.documents.values()
            if (d.mime in CONFIG_TYPES or d.declares) and stance_of(d.source_type) is not Stance.RUNS
        ]
        return sorted(
            found, key=lambda d: (d.example, not stance_of(d.source_type).of_the_house, d.source, d.path)
        )

    @cached_property
    def by_path(self) -> dict[tuple[str, str], str]:
        """The document at each (source, path)."""
        return {(d.source, d.path): d.doc_id for d in self.documents.values()}

    def is_example(self, doc_id: str) -> bool:
        document = self.documents.get(doc_id)
        return document is None or document.example

    def declaring(self, service: Service) -> list[str]:
        """The documents that declare a service, its project's main file first."""
        known = self._declaring.get(service.number)
        if known is None:
            known = self._declaring[service.number] = self._find_declaring(service)
        return known

    def stating(self, service: Service) -> list[str]:
        """The documents that declare a service, and those that state it without any relation: a release whose
        chart is not here."""
        stated = self.graph.nodes.column("doc_ids")[service.number].as_py() or ()
        known = (self.documents.get(d) for d in (*self.declaring(service), *stated))
        return list(dict.fromkeys(d.doc_id for d in known if d is not None and d.declares))

    def _find_declaring(self, service: Service) -> list[str]:
        edges = self.out(service.number, "BUILDS", "BINDS", "DEPENDS_ON", "CONNECTS_TO")
        container = self.container_of.get(service.number)
        if container is not None:
            edges += self.out(container, "RUNS_IN", "RUNS")
        found: dict[str, int] = {}
        for edge in edges:
            document = self.documents.get(edge.doc_id)
            if document is not None and document.declares:
                found[edge.doc_id] = found.get(edge.doc_id, 0) + 1
        folders = {posixpath.dirname(self.documents[d].path) for d in found}
        for document_id in self.graph.nodes.column("doc_ids")[service.number].as_py() or ():
            document = self.documents.get(document_id)
            if document is None or not document.declares:
                continue
            unit = unit_of(document.path) if document.is_unit and not folders else None
            # A unit that opens and needs nothing has no edge, and is declared by the file of its name.
            if posixpath.dirname(document.path) in folders or (unit and unit.service == service.name):
                found.setdefault(document_id, 0)
        for document_id in list(found):
            document = self.documents[document_id]
            for drop_in in self._drop_ins.get((document.source, document.path), ()):
                found.setdefault(drop_in, 0)
        return sorted(found, key=lambda d: (-found[d], self.documents[d].path))

    @cached_property
    def _drop_ins(self) -> dict[tuple[str, str], list[str]]:
        """The drop-ins of each unit, by (source, path)."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for document in self.documents.values():
            if ".d/" in document.path and (main := drop_in_unit(document.path)) is not None:
                found[document.source, main].append(document.doc_id)
        return dict(found)

    @cached_property
    def _index_rows(self) -> dict[str, int]:
        ids = self._index.documents.column("doc_id").to_pylist() if len(self._index) else []
        return {doc_id: row for row, doc_id in enumerate(ids)}

    @cached_property
    def _chunk_cuts(self) -> tuple[Numbers, Numbers]:
        order = np.argsort(self._index.document, kind="stable")
        return order, self._index.document[order]

    def text(self, doc_id: str) -> str:
        """The text of a document, put together from its chunks; what stands in none (blanks between two) is
        blank here too, with as many line breaks. Empty if there is no such document."""
        known = self._texts.get(doc_id)
        if known is not None:
            return known
        at = self._index_rows.get(doc_id)
        if at is None:
            return ""
        order, keys = self._chunk_cuts
        rows = np.sort(order[np.searchsorted(keys, at) : np.searchsorted(keys, at, side="right")])
        parts: list[str] = []
        length, line = 0, 1
        for row in rows.tolist():
            shard, local = self._index.locate(row)
            chunks = self._index.shards[shard].chunks
            start, text = chunks.column("start")[local].as_py(), chunks.column("text")[local].as_py()
            if start > length:
                begins = chunks.column("line")[local].as_py() or line
                breaks = min(max(begins - line, 0), start - length)
                parts.append(" " * (start - length - breaks) + "\n" * breaks)
                length, line = start, line + breaks
            new = text[length - start :]
            parts.append(new)
            length, line = length + len(new), line + new.count("\n")
        made = "".join(parts)
        self._texts[doc_id] = made
        while len(self._texts) > _MAX_TEXTS:
            self._texts.popitem(last=False)
        return made

    def line_text(self, doc_id: str, line: int) -> str:
        lines = self.text(doc_id).split("\n", line)
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _supported(supports: str, line: int) -> tuple[tuple[int, int], frozenset[str]]:
    """The code points of the statement at the edge's line (its supports' span there, else the first one's),
    and by which methods it was read. The ground of a statement, which names its document, may stand in
    another one."""
    own = [s for s in orjson.loads(supports) if "doc" not in s]
    found = [s for s in own if len(s.get("span") or ()) == 2]
    at = next((s for s in found if s.get("line") == line), found[0] if found else None)
    span = (int(at["span"][0]), int(at["span"][1])) if at else (0, 0)
    return span, frozenset(str(s.get("method")) for s in own)


def service_index(view: View) -> ServiceIndex:
    """The index of a view, made once."""
    return view.once(_service_index)


def _service_index(view: View) -> ServiceIndex:
    return ServiceIndex(view.graph, view.index, view.manifest)


def places_in_house(sources: Mapping[str, SourceEntry]) -> dict[str, str]:
    """Where the folder of each source lies in the outermost one of another source that holds it: a source may
    be of ``archive/old`` alone, so that no path of its documents says so."""
    roots = {source: PurePath(entry.root) for source, entry in sources.items() if entry.root}
    held = set(roots.values())
    found = {}
    for source, root in roots.items():
        outermost = next((above for above in reversed(root.parents) if above in held), root)
        found[source] = root.relative_to(outermost).as_posix()
    return found


def is_example_path(path: str) -> bool:
    """Whether a path says of itself that what it holds is not in force."""
    return _EXAMPLE.search(path) is not None


def distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def plain_name(text: str) -> str:
    """A name as it is compared: ``Discovery Server`` and ``discovery_server`` are ``discovery-server``."""
    return re.sub(r"[\s_]+", "-", text.strip().lower())
