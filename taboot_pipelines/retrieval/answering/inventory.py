"""Where things run, what is in a project or on a host, and all that there is."""

from __future__ import annotations

import re

from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions
from taboot_pipelines.retrieval.answering.entity_linking import Mention
from taboot_pipelines.retrieval.answering.fact_base import FactKind
from taboot_pipelines.retrieval.answering.routes import Routes
from taboot_pipelines.retrieval.answering.vocabulary import LABELS
from taboot_pipelines.retrieval.queries.citations import (
    MAX_SCOPES,
    CitedStatement,
    Found,
    StatementSpan,
    cites,
    listed,
    plural,
)
from taboot_pipelines.retrieval.queries.relations import (
    declared_description,
    networks_of,
    product_of,
    target_of,
    ways,
)
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, ServiceIndex, distinct

# --- Images, versions and who uses an image


class Images(FactKind):
    """Images, versions and who uses an image."""

    def images(self, scoped: ResolvedMentions) -> Found | None:
        return self._built(scoped, version=False)

    def versions(self, scoped: ResolvedMentions) -> Found | None:
        return self._built(scoped, version=True)

    def _built(self, scoped: ResolvedMentions, *, version: bool) -> Found | None:
        subject = self.subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        question, statements, weight = scoped.question, [], 1.0
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "BUILDS")
            main = [e for e in edges if e.method in ("compose_image", "compose_build")] or self._containers(
                service, edges
            )
            if not main:
                continue
            facts = self.house.properties(main[0].end)
            reference = facts.get("reference") or self.house.name(main[0].end)
            tag = facts.get("tag") or ""
            built = main[0].method == "compose_build"
            if built and version:
                main = [e for e in edges if e.method == "dockerfile_from"] or main
                facts = self.house.properties(main[-1].end)
                reference = facts.get("reference") or self.house.name(main[-1].end)
                text = f"{self.called(service)} is built from {reference}"
                statements.append(CitedStatement(text + ".", cites(main[-1:])))
                weight = 0.9
                continue
            if version:
                main = [e for e in main if e.end == main[0].end]
                shown = (
                    tag if tag and not facts.get("digest") else str(facts.get("digest") or tag or "latest")
                )
                tagged = tag and tag in reference
                text = (
                    f"{self.called(service)} runs version {shown} (image {reference})"
                    if tagged
                    else f"{self.called(service)} runs {reference}, which names no version"
                )
            elif built:
                bases = [e for e in edges if e.method == "dockerfile_from"]
                text = f"{self.called(service)} is built here as {reference}"
                if bases:
                    text += f" from {listed([self._image(e.end) for e in bases])}"
                main = [*main, *bases]
            elif len(others := distinct([self._image(e.end) for e in main])) > 1:
                text = f"{self.called(service)} uses the images {listed(others)}"
            else:
                text = f"{self.called(service)} uses the image {reference}"
            statements.append(CitedStatement(text + ".", cites(main)))
        if question.yes_no:
            return self._compared(scoped, statements, used)
        return (
            Found(statements, used, weight, "the image" if not version else "the version")
            if statements
            else None
        )

    def _containers(self, service: Service, edges: list[Edge]) -> list[Edge]:
        """The images of a service of several containers as they are written; first that which is called as
        the service."""
        return sorted(edges, key=lambda e: (product_of(self.house, e.end) != service.name, e.doc_id, e.span))

    def _compared(
        self, scoped: ResolvedMentions, statements: list[CitedStatement], used: set[int]
    ) -> Found | None:
        """Yes or no to a version or an image that the question itself names."""
        if len(statements) != 1:
            return None
        text = scoped.question.linked.text
        versions = re.findall(r"(?<![\w.])v?\d+(?:\.\d+)*[\w.-]*\w|(?<![\w.])\d+(?![\w.])", text)
        versions += [w for w in ("latest", "alpine") if w in text.lower()]
        if not versions:
            return None
        said = statements[0].text
        yes = all(
            re.search(rf"(?<![\w.]){re.escape(v.lstrip('v'))}(?![\w])", re.sub(r"\bv(?=\d)", "", said))
            for v in versions
        )
        words = {
            i
            for i, w in enumerate(scoped.question.linked.words)
            if any(w.text in v.lower() for v in versions)
        }
        statements[0].text = f"{'Yes' if yes else 'No'}: {said}"
        return Found(statements, used | words, looked_for="the version")

    def _image(self, node: int) -> str:
        return str(self.house.properties(node).get("reference") or self.house.name(node))

    def image_users(self, scoped: ResolvedMentions) -> Found | None:
        says_image = "image" in scoped.question.lower
        for mention in scoped.mentions:
            if mention.of("service") and not says_image:
                continue
            nodes = [t.node for t in mention.of("image")]
            edges = [e for node in nodes for e in self.house.into(node, "BUILDS")]
            found = self._image_listing(scoped, edges, scoped.words(mention))
            if found is not None:
                return found
        if not says_image:
            return None
        free = {
            w.text: i
            for i, w in enumerate(scoped.question.linked.words)
            if i in scoped.question.unexplained(()) and w.text != "images" and w.text != "image"
        }
        edges = [e for e in self.house.of_type("BUILDS") if e.method == "compose_image"]
        for word, number in free.items():
            held = [e for e in edges if word in re.split(r"[/:.]", self.house.name(e.end))]
            if held:
                return self._image_listing(scoped, held, {number}, f"{word} images")
        return None

    def _image_listing(
        self, scoped: ResolvedMentions, edges: list[Edge], words: set[int], called: str = ""
    ) -> Found | None:
        pairs = [(self.house.services[e.start], e) for e in edges if e.start in self.house.services]
        others, used = self.scope_pairs(scoped, pairs)
        if not others:
            return None
        called = called or f"the image {listed([self._image(e.end) for _, e in others])}"
        return self.listing(
            scoped, [s for s, _ in others], [e for _, e in others], f"use {called}", used | words
        )


_NOUN = re.compile(
    r"\b(?:services?|containers?|apps?|projects?|stacks?|networks?|hosts?|images?|prox(?:y|ies))\b"
)


#: Prepositions of what holds something; "part of", "belongs to".
_WITHIN = ("in", "of", "to", "within", "inside", "from", "under", "on")


class Inventory(FactKind):
    """Where things run, what is in a project or on a host, and all that there is."""

    def __init__(self, house: ServiceIndex, routes: Routes) -> None:
        super().__init__(house)
        self._routes = routes

    def location(self, scoped: ResolvedMentions) -> Found | None:
        def runs(service: Service) -> CitedStatement | None:
            container = self.house.container_of.get(service.number)
            edges = self.house.out(container, "RUNS") if container is not None else []
            host = listed([self.house.name(e.end) for e in edges])
            return CitedStatement(f"{self.called(service)} runs on {host}.", cites(edges))

        return self.each(scoped, runs, "the host")

    def _is_member(self, scoped: ResolvedMentions) -> Found | None:
        """Whether a service belongs to a project."""
        for mention in scoped.mentions:
            for other in scoped.mentions:
                projects = scoped.projects(other)
                if other is mention or not projects or not mention.of("service"):
                    continue
                if mention.first < other.first and not self._is_within(scoped, other):
                    continue
                services = [self.house.services[t.node] for t in mention.of("service") if t.how != "alias"]
                inside = [s for s in services if (s.place, s.project) in projects]
                known = inside or [s for s in services if s.own]
                if known:
                    said = "Yes" if inside else "No"
                    text = f"{said}: {known[0].name} is a service of the project {known[0].project}."
                    return Found(
                        [CitedStatement(text, self.declaration(known[:1]))], scoped.words(mention, other)
                    )
        return None

    @staticmethod
    def _is_within(scoped: ResolvedMentions, project: Mention) -> bool:
        """Whether a preposition says that something is part of a project, and not behind it or beside it."""
        words = scoped.question.linked.words[: project.first]
        before = [w.text for w in words if w.text not in LABELS and w.text not in ("a", "an", "the")]
        return bool(before) and before[-1] in _WITHIN

    def members(self, scoped: ResolvedMentions) -> Found | None:
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
                        CitedStatement(
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
                    [CitedStatement(text, self.declarations(services))],
                    scoped.words(mention),
                    looked_for="its services",
                )
        if not scoped.mentions and question.counts and "project" in question.lower:
            return None
        return None

    def project_of(self, scoped: ResolvedMentions) -> Found | None:
        if scoped.question.counts:
            return self._projects_with(scoped)

        def belongs(service: Service) -> CitedStatement | None:
            documents = self.house.declaring(service)
            if not service.declared or not documents:
                return None
            path = self.house.documents[documents[0]].path
            text = f"{service.name} is a service of the project {service.project}, declared in {path}."
            return CitedStatement(text, self.declaration([service]))

        return self.each(scoped, belongs, "its project")

    def _projects_with(self, scoped: ResolvedMentions) -> Found | None:
        """How many projects declare a service of the name that is asked for."""
        subject = self.subject(scoped)
        services = [s for s in subject[1] if s.declared] if subject else []
        if subject is None or not services:
            return None
        first = {s.project: s for s in reversed(services)}
        count, name = plural(len(first), "project"), subject[0].text
        text = f"{count} {'has' if len(first) == 1 else 'have'} a service {name}: {listed(sorted(first))}."
        return Found([CitedStatement(text, self.declarations(list(first.values())))], subject[2])

    def inventory(self, scoped: ResolvedMentions) -> Found | None:
        """All that there is of a kind, in a question that names nothing."""
        asking = {i for asked in scoped.question.asked if asked.kind == "inventory" for i in asked.words}
        if scoped.mentions or scoped.question.unexplained(asking):
            return None  # a further word asks for some of them
        if any(not _NOUN.search(m.text.lower()) for m in scoped.question.linked.mentions):
            return None  # so does a name, though this reading takes it for none
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
            return self._ends("network", [e for s in services for e in networks_of(self.house, s)])
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

    def container_name(self, scoped: ResolvedMentions) -> Found | None:
        def named(service: Service) -> CitedStatement | None:
            container = self.house.container_of.get(service.number)
            if container is None or service.properties.get("containerName"):
                return None  # what is declared is read with its line out of the file
            text = f"The container of {self.called(service)} is {self.house.name(container)}."
            return CitedStatement(text, self.declaration([service]))

        return self.each(scoped, named, "the container's name")

    def description(self, scoped: ResolvedMentions) -> Found | None:
        """What a person said that a service is, which goes over every document; else what its declaration
        says."""

        def described(service: Service) -> CitedStatement | None:
            said = self.house.described.get(self.house.key(service.number))
            if said is None:
                return self._described_by_declaration(service)
            told, who, at = said
            text = f"{self.called(service)}: {told} ({who} said so on {at:%Y-%m-%d}.)"
            return CitedStatement(text, self.declaration([service]))

        return self.each(scoped, described, "a description")

    def _described_by_declaration(self, service: Service) -> CitedStatement | None:
        """The description that a label, a comment or a unit gives, where it stands."""
        found = declared_description(self.house, service)
        return found and CitedStatement(f"{self.called(service)}: {found[0]}", [found[1]])

    def vpn(self, scoped: ResolvedMentions) -> Found | None:
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
                CitedStatement(
                    f"{begin}{listed([self.called(s) for s in services])} goes through"
                    f" the VPN tunnel {tunnels}.",
                    cites(edges),
                )
            ],
            used,
            looked_for="its VPN",
        )

    def _without_vpn(self, scoped: ResolvedMentions, services: list[Service], used: set[int]) -> Found | None:
        """A declared service that is on networks of its own goes through no tunnel of another."""
        if not scoped.question.yes_no or len(services) != 1 or not services[0].declared:
            return None
        edges = networks_of(self.house, services[0])
        tunnels = {e.end for e in self.house.of_type("USES_VPN")}
        if not edges or services[0].number in tunnels or self.house.into(services[0].number, "USES_VPN"):
            return None
        names = listed([self.network(e.end, services[0].project) for e in edges])
        noun = "network" if len(edges) == 1 else "networks"
        text = f"No: {self.called(services[0])} goes through no VPN tunnel; it is on the {noun} {names}."
        return Found([CitedStatement(text, cites(edges))], used, looked_for="its VPN")

    def vpn_users(self, scoped: ResolvedMentions) -> Found | None:
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

    def on_address(self, scoped: ResolvedMentions) -> Found | None:
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
                targets = listed([target_of(self.house, e) for e in routes])
                parts.append(f"{listed(ways(self.house, routes))} leads to {targets}")
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
                    [CitedStatement("; ".join(parts) + ".", cites([*names, *routes, *bound]))],
                    scoped.words(mention),
                    looked_for="what is there",
                )
        return None

    def ip(self, scoped: ResolvedMentions) -> Found | None:
        """What a host name resolves to."""
        for mention in scoped.mentions:
            edges = [e for t in mention.of("host") for e in self.house.out(t.node, "RESOLVES_TO")]
            if edges:
                first = {e.end: e for e in reversed(edges)}
                name = self.house.name(edges[0].start)
                return Found(
                    [
                        CitedStatement(
                            f"{name} is {listed([self.house.name(n) for n in first])}.", cites(first.values())
                        )
                    ],
                    scoped.words(mention),
                    looked_for="its address",
                )
        return None


def _there_are(noun: str, names: list[str], places: list[StatementSpan], total: int | None = None) -> Found:
    count = len(names) if total is None else total
    verb = "is" if count == 1 else "are"
    return Found([CitedStatement(f"There {verb} {plural(count, noun)}: {listed(names, total)}.", places)])
