"""What a typed query reads, one view's services, edges and settings, and what it returns: rows with the
places that say so."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.knowledge.drift.facts import Drift
from taboot_pipelines.retrieval.queries.citations import StatementSpan, cites
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry, config_entries
from taboot_pipelines.retrieval.queries.relations import declaring_edges
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, ServiceIndex, service_index
from taboot_pipelines.retrieval.results.queries import Cell
from taboot_pipelines.retrieval.session import View

#: The keys of settings of Traefik's middlewares and routers, in a file or as a container's label.
_MIDDLEWARE = re.compile(r"(?:^|\.)(?:http|tcp)\.middlewares\.([^.]+)\.([^.]+)(\.address$)?", re.IGNORECASE)
_ROUTER = re.compile(r"(?:^|\.)((?:http|tcp)\.routers\.[^.]+)\.([^.]+)", re.IGNORECASE)
#: Those of its entry points: in its file, as a flag of its command, or as a variable of its environment.
_ENTRY_POINT = re.compile(r"(?:^|\.)(?:--)?entrypoints\.([^.]+)\.(.+)$", re.IGNORECASE)
_ENTRY_VARIABLE = re.compile(r"(?:^|\.)TRAEFIK_ENTRYPOINTS_([^_]+)_(.+)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Row:
    """One answer to a query: its cells by column, and where they stand."""

    cells: Mapping[str, Cell]
    cites: Sequence[StatementSpan]


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a query is asked with, names resolved. Of what was not given the fields are empty.

    ``projects``: (place, project); ``hosts``: names of hosts; ``networks``, ``proxies``, ``images``: nodes.
    """

    services: tuple[Service, ...] = ()
    others: tuple[Service, ...] = ()
    projects: frozenset[tuple[str, str]] = frozenset()
    hosts: frozenset[str] = frozenset()
    networks: tuple[int, ...] = ()
    proxies: tuple[int, ...] = ()
    images: tuple[int, ...] = ()
    port: int | None = None
    text: Mapping[str, str] = field(default_factory=dict)
    transitive: bool = False

    def within(self, service: Service) -> bool:
        """Whether a service lies in the projects and on the hosts that were named, if any were."""
        return (not self.projects or (service.place, service.project) in self.projects) and (
            not self.hosts or service.place in self.hosts
        )


@dataclass(slots=True)
class TraefikRouter:
    """A router of Traefik's as a file or a label writes it: {option: the first setting of it}, and the hosts
    and paths that its rule matches."""

    name: str
    options: dict[str, ConfigEntry] = field(default_factory=dict)
    matches: frozenset[tuple[str | None, str | None]] = frozenset()


class House:
    """One view, for queries."""

    def __init__(self, view: View, drifts: Callable[[View], Sequence[Drift]]) -> None:
        self.view = view
        self.index: ServiceIndex = service_index(view)
        self.entries = config_entries(view)
        self._drifts = drifts
        self._routers: dict[str, list[TraefikRouter]] = {}

    @property
    def drifts(self) -> Sequence[Drift]:
        """What drifted of what edges say, which few queries ask."""
        return self._drifts(self.view)

    @cached_property
    def middlewares(self) -> Mapping[str, Mapping[str, Mapping[str, ConfigEntry]]]:
        """What Traefik's middlewares are, by name, document and kind: the first setting of each kind. A file
        of its dynamic configuration declares them as the label of a container does, or a resource of
        Kubernetes, whatever its namespace."""
        found: dict[str, dict[str, dict[str, ConfigEntry]]] = {}
        for document in self.index.config_documents:
            if document.example or "iddleware" not in self.index.text(document.doc_id):
                continue
            resources = self.entries.file(document.doc_id).middlewares
            for entry in (
                *self.entries.of_document(document.doc_id, _MIDDLEWARE),
                *(ConfigEntry(document, value, 0) for value in resources),
            ):
                if said := _MIDDLEWARE.search(entry.value.key):
                    held = found.setdefault(said[1].lower(), {}).setdefault(document.doc_id, {})
                    held.setdefault(said[2].lower(), entry)
                    if said[3]:
                        held.setdefault(f"{said[2]}{said[3]}".lower(), entry)
        return found

    @cached_property
    def entry_points(self) -> Mapping[str, Mapping[str, Mapping[str, ConfigEntry]]]:
        """The entry points of Traefik's static configurations, by document, name and option."""
        found: dict[str, dict[str, dict[str, ConfigEntry]]] = {}
        for document in self.index.config_documents:
            text = self.index.text(document.doc_id).lower()
            if document.example or re.search(r"entrypoints[.:_]", text) is None:
                continue
            for entry in self.entries.of_document(document.doc_id):
                key = entry.value.key
                said = _ENTRY_POINT.search(key) or _ENTRY_VARIABLE.search(key)
                if said is not None:
                    points = found.setdefault(document.doc_id, {})
                    option = said[2].lower()
                    option = option if said.re is _ENTRY_POINT else option.replace("_", ".")
                    points.setdefault(said[1].lower(), {}).setdefault(option, entry)
        return found

    def router(self, route: Edge) -> TraefikRouter | None:
        """The router of Traefik's that a route is, where its file or label holds it: that whose rule matches
        the host and path of the route, else the one on its line."""
        if route.doc_id not in self._routers:
            self._routers[route.doc_id] = self._routers_of(route.doc_id)
        held = self._routers[route.doc_id]
        on_line = [r for r in held if any(e.value.line == route.line for e in r.options.values())]
        at = route.properties.get("host"), route.properties.get("location")
        matching = [r for r in held if at in r.matches]
        both = [r for r in on_line if r in matching]
        return next(iter(both or matching or on_line), None)

    def _routers_of(self, doc_id: str) -> list[TraefikRouter]:
        from taboot_pipelines.extraction.tier_a.traefik.rules import targets

        if "routers" not in self.index.text(doc_id).lower():
            return []  # as nearly always
        found: dict[str, TraefikRouter] = {}
        for entry in self.entries.of_document(doc_id, _ROUTER):
            if said := _ROUTER.search(entry.value.key):
                # Of a list in a file its items follow the whole of it.
                name = said[1].lower()
                found.setdefault(name, TraefikRouter(name)).options.setdefault(said[2].lower(), entry)
        for router in found.values():
            if rule := router.options.get("rule"):
                router.matches = frozenset((t.host, t.location) for t in targets(rule.value.value))
        return list(found.values())

    # --- what names mean

    def services_named(self, name: str) -> list[Service]:
        """The services that a name, a key or the name of a container means, declared ones first. Raises
        ``E_NOT_FOUND`` with the nearest name."""
        held = [
            s
            for s in self.index.services.values()
            if name in (s.name, s.properties.get("containerName"), f"{s.project}/{s.name}")
        ]
        if not held:
            held = [self.index.services[int(n)] for n in self.view.graph.find(name, "Service")]
        if any(s.declared for s in held):
            held = [s for s in held if s.declared or not s.project]
        return sorted(held, key=lambda s: (not s.own, not s.declared, s.place, s.project))

    def projects_named(self, name: str) -> frozenset[tuple[str, str]]:
        """The projects called so, in any case. Raises ``E_NOT_FOUND`` with the nearest name."""
        found = frozenset(p for p in self.index.projects if p[1].lower() == name.lower())
        if not found:
            raise self._unknown("project", name, {p for _, p in self.index.projects})
        return found

    def hosts_named(self, name: str) -> frozenset[str]:
        """The host called so. Raises ``E_NOT_FOUND`` with the nearest name."""
        return frozenset(self.index.name(n) for n in self.nodes_named("Host", name))

    def nodes_named(self, label: str, name: str) -> tuple[int, ...]:
        """The nodes of a label with a key or a name; of an image also its repository or the last part of it,
        of a network also its name inside of its project. Raises ``E_NOT_FOUND`` with the nearest name."""
        if label in ("Image", "Network"):
            called = {n: self.index.name(n).lower() for n in self.index.of_label(label)}
            reference = try_reference(name) if label == "Image" else None
            wanted = {name.lower(), reference.name.lower() if reference is not None else name.lower()}
            found = tuple(n for n, full in called.items() if not wanted.isdisjoint(_short(label, full)))
            if found:
                return found
        return tuple(int(n) for n in self.view.graph.find(name, label))

    def _unknown(self, what: str, name: str, known: Collection[str]) -> TabootError:
        return TabootError("E_NOT_FOUND", f"There is no {what} named {name!r}.{or_near(name, known)}")

    # --- what there is

    def declared(self, args: Arguments) -> list[Service]:
        """The services that are declared within what was named; where nothing was, the house's own, else
        all."""
        found = [s for s in self.index.services.values() if s.declared and args.within(s)]
        own = [s for s in found if s.own]
        found = found if args.projects or args.hosts else own or found
        return sorted(found, key=lambda s: (s.place, s.project, s.name))

    def asked(self, args: Arguments) -> list[Service]:
        """The services that were named, else all that are declared within what was named."""
        return list(args.services) or self.declared(args)

    def settings(self, args: Arguments) -> list[ConfigEntry]:
        """The settings of the services that were named, else those of every file of configuration; each file
        once."""
        if args.services or args.projects or args.hosts:
            return [e for s in self.asked(args) for e in self.entries.of_service(s)]
        return [e for d in self.index.config_documents for e in self.entries.of_document(d.doc_id)]

    def own_words(self, args: Arguments) -> list[ConfigEntry]:
        """The same as :meth:`settings`, of what the files of a cluster say in other words than Compose."""
        if args.services or args.projects or args.hosts:
            return [e for s in self.asked(args) for e in self.own_words_of(s)]
        return [e for d in self.index.config_documents for e in self.entries.own_words(d.doc_id)]

    def own_words_of(self, service: Service) -> list[ConfigEntry]:
        files = self.index.stating(service)
        return [e for d in files for e in self.entries.own_words(d, service.name)]

    def is_of_cluster(self, service: Service) -> bool:
        """Whether manifests of Kubernetes declare a service."""
        return any("apiVersion" in self.index.text(d) for d in self.index.stating(service))

    def is_opaque(self, service: Service) -> bool:
        """Whether a chart brings a service, and no values say what runs or no port of it: where the chart has
        ports and routes of itself, nothing here says so."""
        known = {e.type for e in self.index.out(service.number, "BUILDS", "EXPOSES_ENDPOINT")}
        return len(known) < 2 and self.entries.is_of_chart(service)

    # --- cells

    def declaration(self, service: Service) -> list[StatementSpan]:
        """Where a service is declared."""
        return cites(declaring_edges(self.index, service))

    def service(self, service: Service) -> dict[str, Cell]:
        """The cells that say which service is meant."""
        return {"service": service.name, "project": service.project}

    def other(self, node: int, column: str) -> dict[str, Cell]:
        """The cells of the other end of an edge: a service with its project, else a name."""
        service = self.index.services.get(node)
        name = service.name if service is not None else self.index.name(node)
        return {column: name, f"{column}_project": service.project if service is not None else ""}


def _short(label: str, full: str) -> set[str]:
    """What a node with a long name is called for short."""
    if label == "Network":
        return {full, full.partition("_")[2] or full}
    repository = full.partition("@")[0]
    tag_at = repository.rfind(":")
    bare = repository[:tag_at] if tag_at > repository.rfind("/") else repository
    parts = bare.split("/")
    return {full, repository, *("/".join(parts[n:]) for n in range(len(parts)))}
