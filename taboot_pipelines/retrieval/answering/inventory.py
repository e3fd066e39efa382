"""Where things run, what is in a project or on a host, and all that there is."""

from __future__ import annotations

import re

from taboot_pipelines.retrieval.answering.house import Edge, House, Service
from taboot_pipelines.retrieval.answering.routes import Routes
from taboot_pipelines.retrieval.answering.scoping import Scoped
from taboot_pipelines.retrieval.answering.statements import (
    MAX_SCOPES,
    Cite,
    Found,
    Statement,
    cites,
    listed,
    plural,
)
from taboot_pipelines.retrieval.answering.topic import Topic

_NOUN = re.compile(
    r"\b(?:services?|containers?|apps?|projects?|stacks?|networks?|hosts?|images?|prox(?:y|ies))\b"
)


class Inventory(Topic):
    """Where things run, what is in a project or on a host, and all that there is."""

    def __init__(self, house: House, routes: Routes) -> None:
        super().__init__(house)
        self._routes = routes

    def location(self, scoped: Scoped) -> Found | None:
        def runs(service: Service) -> Statement | None:
            container = self.house.container_of.get(service.number)
            edges = self.house.out(container, "RUNS") if container is not None else []
            host = listed([self.house.name(e.end) for e in edges])
            return Statement(f"{self.called(service)} runs on {host}.", cites(edges))

        return self.each(scoped, runs, "the host")

    def _is_member(self, scoped: Scoped) -> Found | None:
        """Whether a service belongs to a project."""
        for mention in scoped.mentions:
            for other in scoped.mentions:
                projects = scoped.projects(other)
                if other is mention or not projects or not mention.of("service"):
                    continue
                services = [self.house.services[t.node] for t in mention.of("service") if t.how != "alias"]
                inside = [s for s in services if (s.place, s.project) in projects]
                known = inside or [s for s in services if s.own]
                if known:
                    said = "Yes" if inside else "No"
                    text = f"{said}: {known[0].name} is a service of the project {known[0].project}."
                    return Found([Statement(text, self.declaration(known[:1]))], scoped.words(mention, other))
        return None

    def members(self, scoped: Scoped) -> Found | None:
        if scoped.question.yes_no:
            return self._is_member(scoped)
        question = scoped.question
        for mention in scoped.mentions:
            projects = scoped.projects(mention)
            if projects:
                own = {
                    p
                    for p in projects
                    if any(self.house.services[n].own for n in self.house.projects.get(p, ()))
                }
                statements = []
                for place, project in sorted(own or projects)[:MAX_SCOPES]:
                    services = [self.house.services[n] for n in self.house.projects.get((place, project), ())]
                    if not services:
                        continue
                    names = listed([s.name for s in services])
                    statements.append(
                        Statement(
                            f"The project {project} has {plural(len(services), 'service')}: {names}.",
                            self.declarations(services),
                        )
                    )
                if statements:
                    return Found(statements, scoped.words(mention), looked_for="its services")
            hosts = scoped.hosts(mention)
            services = [s for s in self.house.services.values() if s.place in hosts] if hosts else []
            if services:
                names = listed([s.name for s in services], len(services))
                text = f"{plural(len(services), 'service')} run on {listed(sorted(hosts))}: {names}."
                return Found(
                    [Statement(text, self.declarations(services))],
                    scoped.words(mention),
                    looked_for="its services",
                )
        if not scoped.mentions and question.counts and "project" in question.lower:
            return None
        return None

    def project_of(self, scoped: Scoped) -> Found | None:
        if scoped.question.counts:
            return self._projects_with(scoped)

        def belongs(service: Service) -> Statement | None:
            documents = self.house.declaring(service)
            if not service.declared or not documents:
                return None
            path = self.house.documents[documents[0]].path
            text = f"{service.name} is a service of the project {service.project}, declared in {path}."
            return Statement(text, self.declaration([service]))

        return self.each(scoped, belongs, "its project")

    def _projects_with(self, scoped: Scoped) -> Found | None:
        """How many projects declare a service of the name that is asked for."""
        subject = self.subject(scoped)
        services = [s for s in subject[1] if s.declared] if subject else []
        if subject is None or not services:
            return None
        first = {s.project: s for s in reversed(services)}
        count, name = plural(len(first), "project"), subject[0].text
        text = f"{count} {'has' if len(first) == 1 else 'have'} a service {name}: {listed(sorted(first))}."
        return Found([Statement(text, self.declarations(list(first.values())))], subject[2])

    def inventory(self, scoped: Scoped) -> Found | None:
        """All that there is of a kind, in a question that names nothing."""
        asking = {i for asked in scoped.question.asked() if asked.kind == "inventory" for i in asked.words}
        if scoped.mentions or scoped.question.unexplained(asking):
            return None  # a further word asks for some of them
        noun_asked = _NOUN.search(scoped.question.lower)
        lower = noun_asked[0] if noun_asked else ""
        services = [s for s in self.house.services.values() if s.declared]
        services = [s for s in services if s.own] or services
        if not services:
            return None
        if "project" in lower or "stack" in lower:
            names = sorted({s.project for s in services})
            return _there_are("project", names, self.declarations(services))
        if "network" in lower:
            return self._ends("network", [e for s in services for e in self.networks_of(s)])
        if "host" in lower:
            containers = [c for s in services for c in [self.house.container_of.get(s.number)] if c]
            return self._ends("host", [e for c in containers for e in self.house.out(c, "RUNS")])
        if re.search(r"image|prox", lower):
            return None
        names = sorted({s.name for s in services})
        return _there_are("service", names, self.declarations(services), len(services))

    def _ends(self, noun: str, edges: list[Edge]) -> Found | None:
        """The things that edges end at, each with the first of them."""
        first = {e.end: e for e in reversed(edges)}
        names = sorted({self.house.name(n) for n in first})
        return _there_are(noun, names, cites(first.values())) if names else None

    def container_name(self, scoped: Scoped) -> Found | None:
        def named(service: Service) -> Statement | None:
            container = self.house.container_of.get(service.number)
            if container is None or service.properties.get("containerName"):
                return None  # what is declared is read with its line out of the file
            text = f"The container of {self.called(service)} is {self.house.name(container)}."
            return Statement(text, self.declaration([service]))

        return self.each(scoped, named, "the container's name")

    def vpn(self, scoped: Scoped) -> Found | None:
        subject = self.subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        edges = [e for s in services[:MAX_SCOPES] for e in self.house.out(s.number, "USES_VPN")]
        if not edges:
            return self._without_vpn(scoped, services, used)
        begin = "Yes: " if scoped.question.yes_no else ""
        tunnels = listed([self.house.name(e.end) for e in edges])
        return Found(
            [
                Statement(
                    f"{begin}{listed([self.called(s) for s in services])} goes through"
                    f" the VPN tunnel {tunnels}.",
                    cites(edges),
                )
            ],
            used,
            looked_for="its VPN",
        )

    def _without_vpn(self, scoped: Scoped, services: list[Service], used: set[int]) -> Found | None:
        """A declared service that is on networks of its own goes through no tunnel of another."""
        if not scoped.question.yes_no or len(services) != 1 or not services[0].declared:
            return None
        edges = self.networks_of(services[0])
        tunnels = {e.end for e in self.house.of_type("USES_VPN")}
        if not edges or services[0].number in tunnels or self.house.into(services[0].number, "USES_VPN"):
            return None
        names = listed([self.network(e.end, services[0].project) for e in edges])
        noun = "network" if len(edges) == 1 else "networks"
        text = f"No: {self.called(services[0])} goes through no VPN tunnel; it is on the {noun} {names}."
        return Found([Statement(text, cites(edges))], used, looked_for="its VPN")

    def vpn_users(self, scoped: Scoped) -> Found | None:
        edges = self.house.of_type("USES_VPN")
        tunnels = {self.house.name(e.end) for e in edges}
        asked = [m for m in scoped.mentions if m.of("service")]
        if asked and not any(m.text.lower() in tunnels for m in asked):
            return None
        wanted = {t.value or self.house.name(t.node) for m in scoped.mentions for t in m.of("service")}
        edges = [e for e in edges if not wanted or self.house.name(e.end) in wanted] or edges
        pairs, used = self.scope_pairs(
            scoped, [(self.house.services[e.start], e) for e in edges if e.start in self.house.services]
        )
        if not pairs:
            return None
        used = used.union(*(scoped.words(m) for m in asked))
        return self.listing(scoped, [s for s, _ in pairs], [e for _, e in pairs], "use a VPN tunnel", used)

    def on_address(self, scoped: Scoped) -> Found | None:
        for mention in scoped.mentions:
            if not mention.of("address"):
                continue
            address = mention.of("address")[0].value
            nodes = {t.node for t in mention.of("address")}
            names = [e for node in nodes for e in self.house.into(node, "RESOLVES_TO")]
            routes = [e for node in nodes for e in self.house.into(node, "ROUTES_TO")]
            bound = [e for node in nodes for e in self.house.into(node, "BINDS")]
            bound += [e for e in self.house.of_type("BINDS") if e.properties.get("hostIp") == address]
            parts = []
            if names:
                parts.append(f"{address} is {listed([self.house.name(e.start) for e in names])}")
            if routes:
                targets = listed([self._routes.target(e) for e in routes])
                parts.append(f"{listed([self._routes.way(e) for e in routes])} leads to {targets}")
            if bound:
                ports = listed(
                    [
                        f"{self.house.services[e.start].name} ({e.properties.get('port')})"
                        for e in bound
                        if e.start in self.house.services
                    ]
                )
                parts.append(f"{ports} listen on {address}")
            if parts:
                return Found(
                    [Statement("; ".join(parts) + ".", cites([*names, *routes, *bound]))],
                    scoped.words(mention),
                    looked_for="what is there",
                )
        return None

    def ip(self, scoped: Scoped) -> Found | None:
        """What a host name resolves to."""
        for mention in scoped.mentions:
            edges = [e for t in mention.of("host") for e in self.house.out(t.node, "RESOLVES_TO")]
            if edges:
                first = {e.end: e for e in reversed(edges)}
                name = self.house.name(edges[0].start)
                return Found(
                    [
                        Statement(
                            f"{name} is {listed([self.house.name(n) for n in first])}.", cites(first.values())
                        )
                    ],
                    scoped.words(mention),
                    looked_for="its address",
                )
        return None


def _there_are(noun: str, names: list[str], places: list[Cite], total: int | None = None) -> Found:
    count = len(names) if total is None else total
    verb = "is" if count == 1 else "are"
    return Found([Statement(f"There {verb} {plural(count, noun)}: {listed(names, total)}.", places)])
