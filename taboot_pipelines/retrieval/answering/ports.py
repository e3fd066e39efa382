"""Which ports are published, by whom, and where else a service listens."""

from __future__ import annotations

import re

from taboot_pipelines.retrieval.answering.house import House, Service, distinct
from taboot_pipelines.retrieval.answering.routes import Routes
from taboot_pipelines.retrieval.answering.scoping import Scoped
from taboot_pipelines.retrieval.answering.statements import (
    MAX_CITED,
    MAX_SCOPES,
    Found,
    Statement,
    cites,
    in_force,
    listed,
)
from taboot_pipelines.retrieval.answering.topic import Topic


class Ports(Topic):
    """Which ports are published, by whom, and where else a service listens."""

    def __init__(self, house: House, routes: Routes) -> None:
        super().__init__(house)
        self._routes = routes

    def ports(self, scoped: Scoped) -> Found | None:
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
        statements: list[Statement] = []
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "BINDS")
            if edges:
                statements.append(self.published(service, edges, question))
                continue
            reached = self._reached(service)
            if reached is not None and not published:
                statements.append(reached)
            elif service.declared and published:
                begin = "No: " if question.yes_no else ""
                text = f"{begin}{self.called(service)} publishes no port."
                statements.append(Statement(text, self.declaration([service])))
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

    def _of_project(self, scoped: Scoped) -> Found | None:
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

    def _reached(self, service: Service) -> Statement | None:
        """The port at which proxies, else other services, reach one that publishes none."""
        routes = in_force(self.house, self.house.into(service.number, "ROUTES_TO"))
        for edges in (routes, self.house.into(service.number, "CONNECTS_TO")):
            known = [e for e in edges if e.properties.get("port")]
            if known:
                port = listed([str(e.properties["port"]) for e in known])
                by = listed([self.house.name(e.start) for e in known])
                rest = ", and publishes none" if service.declared else ""
                return Statement(
                    f"{self.called(service)} is reached on port {port} by {by}{rest}.", cites(known)
                )
        return None

    def port_owner(self, scoped: Scoped) -> Found | None:
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
        statements.append(Statement(f"{begin}{names} {verb} port {of}.", cites(e for _, e in scoped_pairs)))
        return Found(statements, used | words, looked_for="the service that publishes the port")

    def publishers(self, scoped: Scoped) -> Found | None:
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
            first = {s.number: (s, e) for s, e in reversed(pairs)}.values()
            return self.listing(scoped, [s for s, _ in first], [e for _, e in first], "publish a port", used)
        places = {(s.place, s.project) for s, _ in pairs} if used else None
        binding = {s.number for s, _ in pairs}
        rest = [
            s
            for s in self.house.services.values()
            if s.declared
            and s.number not in binding
            and (s.own if places is None else (s.place, s.project) in places)
        ]
        if not rest:
            return None
        found = self.listing(scoped, rest, (), "publish no port", used)
        found.statements[0].cites = self.declaration(rest[:MAX_CITED])
        return found
