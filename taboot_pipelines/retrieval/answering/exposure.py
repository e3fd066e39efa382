"""What can be reached, how and from where: through a proxy, by a published port, by a service whose network
is shared, and whom a proxy lets in.

Whether the internet itself reaches a proxy is stated in no file, so what is said is which proxy leads where
and which ports are published.
"""

from __future__ import annotations

import json
import re

from taboot_pipelines.retrieval.answering.config import Config
from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions
from taboot_pipelines.retrieval.answering.fact_base import FactKind
from taboot_pipelines.retrieval.answering.routes import Routes
from taboot_pipelines.retrieval.queries.citations import (
    MAX_CITED,
    MAX_SCOPES,
    CitedStatement,
    Found,
    cites,
    listed,
)
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry, of_servers
from taboot_pipelines.retrieval.queries.relations import (
    in_force,
    left_open,
    reachable,
    target_name_of,
    ways,
)
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, ServiceIndex, distinct

# --- Which ports are published, by whom, and where else a service listens


class Ports(FactKind):
    """Which ports are published, by whom, and where else a service listens."""

    def __init__(self, house: ServiceIndex, routes: Routes) -> None:
        super().__init__(house)
        self._routes = routes

    def ports(self, scoped: ResolvedMentions) -> Found | None:
        question = scoped.question
        if len(scoped.mentions) > 1 and any(m.of("proxy") for m in scoped.mentions):
            routed_ports = self._routes.route_ports(scoped)
            if routed_ports is not None and len(routed_ports.used) >= len(scoped.words(*scoped.mentions)):
                return routed_ports
        subject = self.subject(scoped)
        if subject is None:
            return self._of_project(scoped) or self._routes.route_ports(scoped)
        _, services, used = subject
        published = bool(
            re.search(
                r"\b(?:publish\w*|expos\w+|host ports?|external\w*|public\w*|mapped|forward\w*"
                r"|binds?|bound)\b",
                question.lower,
            )
        )
        statements: list[CitedStatement] = []
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "BINDS")
            if edges:
                statements.append(self.published(service, edges, question))
                continue
            reached = self._reached(service)
            if reached is not None and not published:
                statements.append(reached)
            elif service.declared and published and not left_open(service, "ports"):
                begin = "No: " if question.yes_no else ""
                text = f"{begin}{self.called(service)} publishes no port."
                statements.append(CitedStatement(text, self.declaration([service]), denies=True))
        statements = [s for s in statements if s.cites]
        if len(statements) > 1:
            statements = [s for s in statements if "publishes no port" not in s.text] or statements[:1]
        if not statements:
            return None
        if question.numbers:
            used = used | {
                i
                for i, w in enumerate(question.linked.words)
                if w.text.isdigit() and any(w.text in s.text for s in statements)
            }
        return Found(statements, used, looked_for="ports")

    def _of_project(self, scoped: ResolvedMentions) -> Found | None:
        """What the services of a project publish, of one that has many."""
        for mention in scoped.mentions:
            services = [
                self.house.services[n]
                for project in sorted(scoped.projects(mention))
                for n in self.house.projects.get(project, ())
            ]
            held = [(s, e) for s in services for e in [self.house.out(s.number, "BINDS")] if e]
            statements = [self.published(s, e, scoped.question) for s, e in held[:MAX_SCOPES]]
            if statements:
                return Found(statements, scoped.words(mention), looked_for="ports")
        return None

    def _reached(self, service: Service) -> CitedStatement | None:
        """The port at which proxies, else other services, reach one that publishes none."""
        routes = in_force(self.house, self.house.into(service.number, "ROUTES_TO"))
        for edges in (routes, self.house.into(service.number, "CONNECTS_TO")):
            known = [e for e in edges if e.properties.get("port")]
            if known:
                port = listed([str(e.properties["port"]) for e in known])
                by = listed([self.house.name(e.start) for e in known])
                rest = ", and publishes none" if service.declared else ""
                return CitedStatement(
                    f"{self.called(service)} is reached on port {port} by {by}{rest}.", cites(known)
                )
        # A Service of Kubernetes is reached in its cluster.
        offered = [
            e
            for e in self.house.out(service.number, "EXPOSES_ENDPOINT")
            if e.method.startswith("kubernetes_")
        ]
        ports = distinct(str(json.loads(self.house.key(e.end))[2]) for e in offered)
        text = f"{self.called(service)} listens on port {listed(ports)}, and publishes none."
        return CitedStatement(text, cites(offered)) if offered else None

    def port_owner(self, scoped: ResolvedMentions) -> Found | None:
        numbers = [n for n in scoped.question.numbers if 0 < n < 65536]
        if not numbers:
            return None
        edges = [e for e in self.house.of_type("BINDS") if e.properties.get("port") in numbers]
        inside = re.search(
            r"container port|inside|internal|(?:forwards?|maps?|goes|mapped|forwarded) to",
            scoped.question.lower,
        )
        if inside or not edges:
            edges = (not inside and edges) or [
                e for e in self.house.of_type("BINDS") if e.properties.get("targetPort") in numbers
            ]
        services = [self.house.services[e.start] for e in edges if e.start in self.house.services]
        pairs = list(zip(services, edges, strict=False))
        scoped_pairs, used = self.scope_pairs(scoped, pairs)
        if not scoped_pairs:
            return None
        statements = []
        names = listed([self.called(s) for s, _ in scoped_pairs])
        words = {
            i
            for i, w in enumerate(scoped.question.linked.words)
            if w.text.isdigit() and int(w.text) in numbers
        }
        of = listed(
            distinct(f"{e.properties['port']}/{e.properties.get('protocol', 'tcp')}" for _, e in scoped_pairs)
        )
        verb = "publishes" if len({s.number for s, _ in scoped_pairs}) == 1 else "publish"
        targets = distinct(str(e.properties.get("targetPort") or "") for _, e in scoped_pairs)
        if not {str(n) for n in numbers} & {str(e.properties["port"]) for _, e in scoped_pairs}:
            of += f" (container port {listed(targets)})"
        begin = "Yes: " if scoped.question.yes_no else ""
        statements.append(
            CitedStatement(f"{begin}{names} {verb} port {of}.", cites(e for _, e in scoped_pairs))
        )
        return Found(statements, used | words, looked_for="the service that publishes the port")

    def publishers(self, scoped: ResolvedMentions) -> Found | None:
        """Which services publish a port, or none."""
        pairs = [
            (self.house.services[e.start], e)
            for e in self.house.of_type("BINDS")
            if e.start in self.house.services
        ]
        pairs, used = self.scope_pairs(scoped, pairs)
        if not pairs or any(m.of("service") and not scoped.projects(m) for m in scoped.mentions):
            return None
        if not scoped.question.negated:
            of_project = self._of_project(scoped) if "port" in scoped.question.reading.noun else None
            if of_project is not None:
                return of_project
            first = {s.number: (s, e) for s, e in reversed(pairs)}.values()
            return self.listing(scoped, [s for s, _ in first], [e for _, e in first], "publish a port", used)
        places = {(s.place, s.project) for s, _ in pairs} if used else None
        binding = {s.number for s, _ in pairs}
        rest = [
            s
            for s in self.house.services.values()
            if s.declared
            and s.number not in binding
            and not left_open(s, "ports")
            and (s.own if places is None else (s.place, s.project) in places)
        ]
        if not rest:
            return None
        found = self.listing(scoped, rest, (), "publish no port", used)
        found.statements[0].cites = self.declaration(rest[:MAX_CITED])
        return found


_NAMES = re.compile(r"\b(?:(?:host ?)?names?|domains?|sub ?domains?|urls?)\b")
_PAGE = frozenset({"web", "ui", "webui", "interface", "page"})
_PROXY_ONLY = re.compile(r"\b(?:behind|prox(?:y|ied))\b")


class Exposure(FactKind):
    """What of a house can be reached, and by whom."""

    def __init__(self, house: ServiceIndex, config: Config, routes: Routes) -> None:
        super().__init__(house)
        self._config = config
        self._routes = routes

    def exposed(self, scoped: ResolvedMentions) -> Found | None:
        """The services that a proxy leads to, and those that publish ports; of one service that is named,
        its own."""
        subject = self.subject(scoped)
        if subject is not None:
            return self._exposed(scoped, subject[1], subject[2])
        if any(not m.of("proxy") for m in scoped.mentions):
            return None
        used = scoped.words(*scoped.mentions)
        routes = [
            e
            for e in in_force(self.house, self.house.of_type("ROUTES_TO"))
            if not self.house.is_example(e.doc_id)
        ]
        if not routes:
            return None
        if scoped.question.negated:
            return self._unproxied(scoped, routes, used)
        if _NAMES.search(scoped.question.lower):
            routes = [e for e in routes if e.properties.get("host")]
            places = ways(self.house, routes)
            text = f"The names that are served are {listed(places)}."
            return Found([CitedStatement(text, cites(routes))] if places else [], used, looked_for="names")
        led: dict[str, list[Edge]] = {}
        for edge in routes:
            led.setdefault(target_name_of(self.house, edge), []).append(edge)
        proxies = listed(distinct(self.house.name(e.start) for e in routes))
        said = listed([f"{name} ({listed(ways(self.house, held))})" for name, held in sorted(led.items())])
        count = f"{len(led)}: " if scoped.question.counts else ""
        statements = [CitedStatement(f"{proxies} leads to {count}{said}.", cites(routes))]
        if not _PROXY_ONLY.search(scoped.question.lower):
            statements += self._publishing()
        return Found(statements, used, looked_for="what can be reached")

    def _publishing(self) -> list[CitedStatement]:
        """Who publishes ports on an address that others reach."""
        edges = [
            e
            for e in reachable(self.house.of_type("BINDS"))
            if e.start in self.house.services and self.house.services[e.start].own
        ]
        ports: dict[str, list[str]] = {}
        for edge in edges:
            ports.setdefault(self.house.services[edge.start].name, []).append(str(edge.properties["port"]))
        said = listed([f"{name} ({listed(numbers)})" for name, numbers in sorted(ports.items())])
        return [CitedStatement(f"Ports are published by {said}.", cites(edges))] if edges else []

    def _unproxied(self, scoped: ResolvedMentions, routes: list[Edge], used: set[int]) -> Found | None:
        """The services of the house that no proxy leads to."""
        reached = {e.end for e in routes} | {e.start for e in routes}
        names = {self.house.name(n) for n in reached}
        services = [
            s
            for s in self.house.services.values()
            if s.declared and s.own and s.number not in reached and s.name not in names
        ]
        if not services:
            return None
        found = self.listing(scoped, services, (), "are behind no proxy", used)
        found.statements[0].cites = self.declarations(services)[:MAX_CITED]
        return found

    def _exposed(self, scoped: ResolvedMentions, services: list[Service], used: set[int]) -> Found | None:
        """Whether a proxy leads to a service, from where it may be reached, and what it publishes."""
        statements = []
        for service in services[:MAX_SCOPES]:
            routes = in_force(self.house, self.house.into(service.number, "ROUTES_TO"))
            bound = self.house.out(service.number, "BINDS")
            if routes:
                places = listed(ways(self.house, routes))
                proxies = listed(distinct(self.house.name(e.start) for e in routes))
                rules = [p for e in routes for p in self._rules(e)]
                only = _only(rules)
                begin = "Yes: " if scoped.question.yes_no and not only else ""
                text = f"{begin}{self.called(service)} is reached through {proxies} at {places}{only}."
                statements.append(CitedStatement(text, [*cites(routes), *(p.cite for p in rules)]))
            elif bound:
                made = self.published(service, bound, scoped.question)
                said = made.text.removeprefix("Yes: ")
                statements.append(CitedStatement(f"No proxy leads to it; {said}", made.cites))
            elif service.declared and not left_open(service, "ports"):
                called, (named, where) = self.called(service), self.named_elsewhere(service)
                text = f"No: no proxy leads to {called}, and it publishes no port."
                if named:
                    text = f"No route to {called} and no published port is declared; {named}."
                statements.append(CitedStatement(text, self.declaration([service]) + where, denies=True))
        statements = [s for s in statements if s.cites]
        return Found(statements, used, looked_for="how it is reached") if statements else None

    def admitted(self, scoped: ResolvedMentions) -> Found | None:
        """From which addresses a proxy lets in to what is named."""
        edges, used = self._routes.routes_of(scoped)
        rules = [p for e in edges for p in self._rules(e)]
        allowed = [p for p in rules if p.value.path[-1] == "allow"]
        if not allowed:
            return None
        places = listed(ways(self.house, edges))
        text = f"{places} may be opened from {listed([p.value.value for p in allowed])}"
        text += " only." if len(rules) > len(allowed) else "."
        return Found(
            [CitedStatement(text, [*(p.cite for p in rules), *cites(edges)][:MAX_CITED])],
            used,
            looked_for="who may",
        )

    def _rules(self, edge: Edge) -> list[ConfigEntry]:
        """The ``allow`` and ``deny`` that hold for the nginx location that a route is, each once."""
        location = f"location {edge.properties.get('location')}"
        values = of_servers(self._config.of_document(edge.doc_id), {str(edge.properties.get("host") or "")})
        rules = [p for p in values if p.value.path[-1] in ("allow", "deny")]
        # A location without rules of its own has those of its server.
        own = [p for p in rules if location in p.value.path]
        return own or [p for p in rules if len(p.value.path) > 1 and p.value.path[-2].startswith("server ")]

    def shared(self, scoped: ResolvedMentions) -> Found | None:
        """The ports by which a service is reached that shares another's network and publishes them there."""
        subject = self.subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        for service in services[:MAX_SCOPES]:
            owners = [
                e for e in self.house.out(service.number, "DEPENDS_ON") if "compose_network_mode" in e.methods
            ]
            bound = [b for e in owners for b in self.house.out(e.end, "BINDS")]
            if not bound or self.house.out(service.number, "BINDS"):
                continue
            settings = [p for p in self._config.of_service(service) if p.value.path[-1].endswith("PORT")]
            own = {p.value.value for p in settings}
            kept = [b for b in bound if str(b.properties.get("targetPort") or b.properties["port"]) in own]
            owner = self.house.services[owners[0].end]
            if not kept:
                continue  # which of the ports leads to it is not stated
            made = self.published(owner, kept, scoped.question)
            said = made.text.removeprefix("Yes: ")
            text = f"{self.called(service)} shares the network of {owner.name}; {said}"
            used = used | {i for i, w in enumerate(scoped.question.linked.words) if w.text in _PAGE}
            return Found(
                [CitedStatement(text, [*made.cites, *(p.cite for p in settings), *cites(owners)])],
                used,
                looked_for="its ports",
            )
        return None


def _only(rules: list[ConfigEntry]) -> str:
    allowed = [p.value.value for p in rules if p.value.path[-1] == "allow"]
    return f", only from {listed(allowed)}" if allowed and len(rules) > len(allowed) else ""
