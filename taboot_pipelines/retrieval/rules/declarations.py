"""What rules read: the declarations of one view that are in force, with their settings by key."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from taboot_pipelines.knowledge.reach import is_store_image
from taboot_pipelines.retrieval.drift.report import SET_ASIDE
from taboot_pipelines.retrieval.queries.citations import StatementSpan
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry, Value
from taboot_pipelines.retrieval.queries.house import Arguments, House
from taboot_pipelines.retrieval.queries.service_index import Document, Edge, Service, ServiceIndex

#: Paths of configuration that readers are shown, or that is kept as it was on a day.
_KEPT = re.compile(r"(?i)(?:^|/)(?:docs?|documentation|website|backups?)/|(?:19|20)\d\d-[01]\d-[0-3]\d")
#: Whose pods run on until something stops them.
_LASTING = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})


@dataclass(frozen=True, slots=True)
class Violation:
    """A place where a rule does not hold. ``subject``: what is to be changed, by which it is silenced:
    ``project/service``, the host name of a route, or the path of a file. ``supposed``: only if a source that
    names no machine is of one (rule ``unnamed-machine``)."""

    subject: str
    statement: str
    cites: Sequence[StatementSpan]
    supposed: bool = False


@dataclass(frozen=True)
class Declaration:
    """A service as its files in force declare it. ``form``: ``compose``, ``quadlet``, ``unit`` (of systemd),
    ``workload`` (a manifest that says all of it), else ``other``, such as what a chart brings."""

    service: Service
    form: str
    entries: tuple[ConfigEntry, ...]
    images: tuple[Edge, ...]

    @property
    def called(self) -> str:
        return f"{self.service.project}/{self.service.name}"

    @property
    def cites(self) -> list[StatementSpan]:
        """Where it is declared."""
        first = next((e for e in self.entries if _keys(e)[0] in ("image", "build", "command")), None)
        return [(first or self.entries[0]).cite]

    @cached_property
    def _by_key(self) -> dict[str, list[tuple[tuple[str, ...], ConfigEntry]]]:
        found: dict[str, list[tuple[tuple[str, ...], ConfigEntry]]] = defaultdict(list)
        for entry in self.entries:
            keys = _keys(entry)
            found[keys[0]].append((keys, entry))
        return found

    def all(self, *keys: str) -> Iterator[ConfigEntry]:
        """The settings under one of these keys (dotted)."""
        for wanted in (tuple(k.split(".")) for k in keys):
            for own, entry in self._by_key.get(wanted[0], ()):
                if own[: len(wanted)] == wanted:
                    yield entry

    def each(self, *keys: str) -> Iterator[ConfigEntry]:
        """The same; of a list its items alone."""
        return (e for e in self.all(*keys) if ", " not in e.value.value)

    def says(self, *keys: str) -> bool:
        return any(True for _ in self.all(*keys))

    @property
    def folders(self) -> frozenset[str]:
        return frozenset(posixpath.dirname(e.document.path) for e in self.entries)

    def is_variant_of(self, other: Declaration) -> bool:
        """Whether only one of two is meant to run: their profiles exclude each other, or they stand in
        different files of one folder, other than quadlets, of which each is a service."""
        a, b = (set(d.service.properties.get("profiles") or ()) for d in (self, other))
        files = {e.document.path for e in self.entries}.isdisjoint(e.document.path for e in other.entries)
        beside = files and not self.folders.isdisjoint(other.folders)
        return bool(a and b and a.isdisjoint(b)) or (beside and "quadlet" not in (self.form, other.form))


def _keys(entry: ConfigEntry) -> tuple[str, ...]:
    """The keys of a setting below the service, or below the further container of a pod."""
    own = entry.value.path[entry.lead :]
    return own[2:] if own[0] == "containers" and len(own) > 2 else own


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object of Kubernetes: its values as the file has them."""

    document: Document
    kind: str
    name: str
    values: tuple[Value, ...]

    @property
    def called(self) -> str:
        return f"{self.document.path} ({self.kind} {self.name})"

    def under(self, *keys: str) -> Iterator[Value]:
        """The values whose keys begin so; of a list its items."""
        return (v for v in self.values if v.path[: len(keys)] == keys and ", " not in v.value)


def spot(document: Document, value: Value) -> StatementSpan:
    return StatementSpan(document.doc_id, value.line, value.start, value.end)


class RuleHouse:
    """One view, for rules. What only a text says of a service counts for nothing here."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._edges: dict[str, list[Edge]] = {}
        self._lasting: dict[str, frozenset[str]] = {}

    @property
    def index(self) -> ServiceIndex:
        return self.house.index

    def in_force(self, doc_id: str) -> bool:
        """Whether a document is no example, is not set aside, and is not kept for readers."""
        document = self.index.documents.get(doc_id)
        if document is None or document.example or SET_ASIDE.search(document.path):
            return False
        return not _KEPT.search(document.path)

    def edges(self, *types: str) -> list[Edge]:
        """The edges of these types that files in force state."""
        return [e for type_ in types for e in self._edges_of(type_)]

    def _edges_of(self, type_: str) -> list[Edge]:
        if type_ not in self._edges:
            self._edges[type_] = [
                e for e in self.index.of_type(type_) if self.in_force(e.doc_id) and not e.is_of_text
            ]
        return self._edges[type_]

    @cached_property
    def files(self) -> list[Document]:
        """The files of configuration in force, each path of the disk once."""
        found: dict[str, Document] = {}
        for d in self.index.config_documents:
            if self.in_force(d.doc_id):
                found.setdefault(posixpath.join(self.index.roots.get(d.source, f"{d.source}:"), d.path), d)
        return list(found.values())

    @cached_property
    def by_folder(self) -> dict[tuple[str, str], list[Document]]:
        """The same by source and folder."""
        found: dict[tuple[str, str], list[Document]] = defaultdict(list)
        for document in self.files:
            found[document.source, posixpath.dirname(document.path)].append(document)
        return found

    def holding(self, pattern: re.Pattern[str]) -> Iterator[Document]:
        """The files whose text has it: only these are worth parsing."""
        return (d for d, text in self._texts if pattern.search(text))

    @cached_property
    def _texts(self) -> list[tuple[Document, str]]:
        return [(d, self.index.text(d.doc_id)) for d in self.files]

    @property
    def texts_of_all(self) -> Iterator[tuple[Document, str]]:
        """Configuration and scripts in force, with their texts."""
        for document in self.index.documents.values():
            if self.in_force(document.doc_id) and document.mime != "text/markdown":
                yield document, self.index.text(document.doc_id)

    def values(self, document: Document) -> list[Value]:
        return self.house.entries.file(document.doc_id).values

    def manifests(self, pattern: re.Pattern[str]) -> Iterator[Manifest]:
        """The objects of Kubernetes of the files that hold ``pattern``."""
        for document in self.holding(pattern):
            yield from self._manifests(document.doc_id)

    def _manifests(self, doc_id: str) -> list[Manifest]:
        document, parts = self.index.documents[doc_id], list[list[Value]]()
        for value in self.house.entries.file(doc_id).values:
            if value.path == ("apiVersion",):
                parts.append([])
            # The settings that read as those of Compose stand before all objects.
            if parts:
                parts[-1].append(value)
        found = []
        for values in parts:
            said = {v.path: v.value for v in values if len(v.path) <= 2}
            kind, name = said.get(("kind",), ""), said.get(("metadata", "name"), "")
            found.append(Manifest(document, kind, name, tuple(values)))
        return found

    def _is_workload(self, doc_id: str, name: str) -> bool:
        known = self._lasting.get(doc_id)
        if known is None:
            names = (m.name for m in self._manifests(doc_id) if m.kind in _LASTING)
            known = self._lasting[doc_id] = frozenset(names)
        return name in known

    # --- services

    @cached_property
    def declarations(self) -> list[Declaration]:
        """The services of the house, each as its files in force declare it."""
        found = []
        for service in self.house.declared(Arguments()):
            entries = tuple(
                e for e in self.house.entries.of_service(service) if self.in_force(e.document.doc_id)
            )
            if entries:
                images = tuple(self._built.get(service.number, ()))
                found.append(Declaration(service, self._form(service, entries, images), entries, images))
        return found

    def _form(self, service: Service, entries: Sequence[ConfigEntry], images: Sequence[Edge]) -> str:
        document = entries[0].document
        if document.is_unit:
            return "quadlet" if any(e.value.path[2:3] == ("image",) for e in entries) else "unit"
        if any(e.method.startswith("compose_") for e in images):
            return "compose"
        if any(self._is_workload(e.document.doc_id, service.name) for e in entries):
            return "workload"
        return "other"

    @cached_property
    def _built(self) -> dict[int, list[Edge]]:
        return self.by_start("BUILDS")

    def by_start(self, type_: str) -> dict[int, list[Edge]]:
        """The edges of a type by the node that they begin at."""
        found: dict[int, list[Edge]] = defaultdict(list)
        for edge in self.edges(type_):
            found[edge.start].append(edge)
        return found

    @cached_property
    def by_number(self) -> dict[int, Declaration]:
        return {d.service.number: d for d in self.declarations}

    @cached_property
    def needed(self) -> list[tuple[Declaration, Declaration, Edge]]:
        """What is declared to depend on what: dependent, needed, edge."""
        known = self.by_number
        return [
            (known[e.start], known[e.end], e)
            for e in self.edges("DEPENDS_ON")
            if e.start in known and e.end in known and e.start != e.end
        ]

    def products(self, declaration: Declaration) -> list[str]:
        """The images that it pulls and runs, by name; what is built here is called after the project."""
        built = ("dockerfile_from", "compose_build")
        return [self.index.name(e.end) for e in declaration.images if e.method not in built]

    def is_store(self, declaration: Declaration) -> bool:
        """Whether it runs software that keeps data for others."""
        return any(map(is_store_image, self.products(declaration)))
