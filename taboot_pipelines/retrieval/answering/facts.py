"""Answers out of the graph: for each kind of question the edges that answer it, said in a sentence, with
every edge as a citation.

What is *closed*: a service's ports, networks, dependencies and image are all in the file that declares it, so
that it has none is an answer too, cited at its declaration. What comes from elsewhere (who routes to it, which
name it has outside) is open, and then nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from taboot_pipelines.retrieval.answering.house import Edge, House, Service, distinct
from taboot_pipelines.retrieval.answering.linking import Mention, Thing
from taboot_pipelines.retrieval.answering.question import Question

#: Names in a list; of longer ones the total is said.
MAX_LISTED = 25
#: Services of one name that are answered for, each with its project.
MAX_SCOPES = 5
#: Citations of one statement.
MAX_CITED = 12
#: Services that a transitive question walks over.
_MAX_WALK = 500


@dataclass(frozen=True, slots=True)
class Cite:
    """Where a statement stands: line and code points ``[start, end)`` of a document; the edge where it is
    one."""

    doc_id: str
    line: int
    start: int
    end: int
    edge_id: str = ""


@dataclass(slots=True)
class Statement:
    text: str
    cites: list[Cite]


@dataclass(slots=True)
class Found:
    """What answers a question. ``used``: words that it explains beyond those that asked for the kind;
    ``weight``: less than 1 where it is less sure; ``looked_for``: in words, for who abstains; ``matched``:
    words that a key holds, of a value of configuration."""

    statements: list[Statement]
    used: set[int] = field(default_factory=set)
    weight: float = 1.0
    looked_for: str = ""
    matched: int = 0


def cite(edge: Edge) -> Cite:
    return Cite(edge.doc_id, edge.line, *edge.span, edge.edge_id)


def cites(edges: Iterable[Edge]) -> list[Cite]:
    """The places of edges, each line once, at most :data:`MAX_CITED`."""
    found: dict[tuple[str, int], Cite] = {}
    for edge in edges:
        found.setdefault((edge.doc_id, edge.line), cite(edge))
        if len(found) == MAX_CITED:
            break
    return list(found.values())


def listed(names: Sequence[str], total: int | None = None) -> str:
    """Names in a row, ``a, b and c``; beyond :data:`MAX_LISTED` only how many more there are."""
    names = distinct(names)
    total = max(total or 0, len(names))
    shown = names[:MAX_LISTED]
    if total > len(shown):
        return ", ".join(shown) + f" and {total - len(shown)} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + f" and {shown[-1]}" if shown else "none"


def plural(count: int, noun: str) -> str:
    many = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count} {noun if count == 1 else many}"


def in_force(house: House, edges: Sequence[Edge]) -> list[Edge]:
    """The edges of files in force; where all are examples, those."""
    own = [e for e in edges if not house.is_example(e.doc_id)]
    return own or list(edges)


class Scoped:
    """The services and other things that the mentions of one reading mean, narrowed by each other."""

    def __init__(self, house: House, question: Question) -> None:
        self.house = house
        self.question = question

    @property
    def mentions(self) -> tuple[Mention, ...]:
        return self.question.mentions

    def words(self, *mentions: Mention) -> set[int]:
        return {i for m in mentions for i in (*range(m.first, m.last), *m.label_at)}

    def projects(self, mention: Mention) -> set[tuple[str, str]]:
        """The projects that a mention names: by their name, their folder or their file."""
        found = {(t.place, t.value) for t in mention.of("project")}
        documents = {t.value for t in mention.of("file")}
        if documents and not found:
            found = {
                key
                for key, services in self.house.projects.items()
                if documents & set(self.house.declaring(self.house.services[services[0]]))
            }
        return found

    def hosts(self, mention: Mention) -> set[str]:
        return {self.house.name(t.node) for t in mention.of("host")}

    def scope(self, services: list[Service], besides: Mention) -> tuple[list[Service], set[int]]:
        """Those of ``services`` that lie in what the other mentions name, and the words of those mentions."""
        used: set[int] = set()
        for other in self.mentions:
            if other is besides:
                continue
            projects, hosts = self.projects(other), self.hosts(other)
            kept = [s for s in services if (s.place, s.project) in projects or s.place in hosts]
            if kept and (len(kept) < len(services) or not other.of("service")):
                services, used = kept, used | self.words(other)
        if len(services) > 1:
            for other in self.mentions:
                if other is besides or not other.of("service"):
                    continue
                near = {(s.place, s.project) for s in self._best(other) if s.declared}
                kept = [s for s in services if (s.place, s.project) in near]
                if kept and len(kept) < len(services):
                    services, used = kept, used | self.words(other)
        return services, used

    def _best(self, mention: Mention) -> list[Service]:
        held = [(self.house.services[t.node], t) for t in mention.of("service")]
        if not held:
            return []
        rank = min(map(_rank, held))
        return list({s.number: s for s, t in held if _rank((s, t)) == rank}.values())

    def services(self, mention: Mention) -> tuple[list[Service], set[int]]:
        """The services that a mention means, and the words that said so: the house's own before others,
        declared ones before bare names, their names before other names for them."""
        held = [(self.house.services[t.node], t) for t in mention.of("service")]
        if not held:
            return [], set()
        every = list({s.number: s for s, _ in held}.values())
        scoped, used = self.scope(every, mention)
        inside = {s.number for s in scoped}
        held = [h for h in held if h[0].number in inside]
        rank = min(map(_rank, held))
        best = {s.number: s for s, t in held if _rank((s, t)) == rank}
        return list(best.values()), used | self.words(mention)

    def nodes(self, mention: Mention, kind: str) -> list[Thing]:
        """The networks, images, hosts or proxies of a mention, narrowed by the projects of the others; the
        house's own first."""
        things = list({t.node: t for t in mention.of(kind)}.values())
        for other in self.mentions:
            if other is not mention:
                names = {p for _, p in self.projects(other)}
                kept = [t for t in things if any(t.value.startswith(f"{p}_") for p in names)]
                things = kept or things
        own = [t for t in things if self.house.key(t.node).split("/")[0] in self._hosts]
        return own or things

    @property
    def _hosts(self) -> set[str]:
        return {s.place for s in self.house.services.values() if s.own}


def _rank(held: tuple[Service, Thing]) -> tuple[int, int]:
    service, thing = held
    return (0 if service.own else 1 if service.declared else 2, {"alias": 1, "typo": 2}.get(thing.how, 0))


_NAMESPACE_WORDS = frozenset({"network", "namespace", "mode", "service", "share", "stack"})


class Facts:
    """The typed patterns over one house."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._handlers: dict[str, Callable[[Scoped], Found | None]] = {
            "ports": self.ports,
            "port_owner": self.port_owner,
            "images": self.images,
            "versions": self.versions,
            "image_users": self.image_users,
            "networks": self.networks,
            "network_members": self.network_members,
            "shared_networks": self.shared_networks,
            "subnet": self.subnet,
            "dependencies": self.dependencies,
            "dependents": self.dependents,
            "users": self.users,
            "conditions": self.dependencies,
            "routes": self.routes,
            "behind": self.behind,
            "hostnames": self.hostnames,
            "proxy_scheme": self.proxy_scheme,
            "location": self.location,
            "members": self.members,
            "restart": self.restart,
            "container_name": self.container_name,
            "vpn": self.vpn,
            "vpn_users": self.vpn_users,
            "on_address": self.on_address,
            "proxied": self.proxied,
            "project_of": self.project_of,
            "connections": self.connections,
            "proxy_hosts": self.proxy_hosts,
            "sharers": self.sharers,
            "publishers": self.publishers,
            "inventory": self.inventory,
            "tls": self.tls,
            "auth": self.auth,
            "ip": self.ip,
        }

    def find(self, kind: str, scoped: Scoped) -> Found | None:
        """What the graph says to a question of this kind; None if it says nothing."""
        handler = self._handlers.get(kind)
        return handler(scoped) if handler is not None else None

    # --- naming ---------------------------------------------------------------------------------------------

    def called(self, service: Service, among: Sequence[Service] = ()) -> str:
        """A service's name, with its project where there is one."""
        return f"{service.name} ({service.project})" if service.declared else service.name

    def names(self, services: Sequence[Service]) -> list[str]:
        """The names of services, each with its project where these are of several."""
        projects = {(s.place, s.project) for s in services}
        return [self.called(s) if len(projects) > 1 else s.name for s in services]

    def network(self, node: int, project: str = "") -> str:
        """A network's name as its project writes it, and its real name where that is another."""
        name = self.house.name(node)
        short = name.removeprefix(f"{project}_") if project else name
        return short if short == name else f"{short} ({name})"

    def declaration(self, services: Sequence[Service]) -> list[Cite]:
        """Where services are declared: their image, else any edge of theirs."""
        found = []
        for service in services:
            edges = self.house.out(service.number, "BUILDS")
            container = self.house.container_of.get(service.number)
            if container is not None and not edges:
                edges = self.house.out(container, "RUNS_IN", "RUNS")
            found += edges[:1]
        return cites(found)

    def _subject(self, scoped: Scoped) -> tuple[Mention, list[Service], set[int]] | None:
        """The mention whose services the question is about: the first that another does not narrow."""
        return subject_of(scoped)

    # --- ports ----------------------------------------------------------------------------------------------

    def ports(self, scoped: Scoped) -> Found | None:
        question = scoped.question
        if len(scoped.mentions) > 1 and any(m.of("proxy") for m in scoped.mentions):
            routed_ports = self._route_ports(scoped)
            if routed_ports is not None and len(routed_ports.used) >= len(scoped.words(*scoped.mentions)):
                return routed_ports
        subject = self._subject(scoped)
        if subject is None:
            return self._route_ports(scoped)
        _, services, used = subject
        published = bool(
            re.search(
                r"\b(?:publish\w*|expos\w+|host ports?|external\w*|public\w*|mapped|forward\w*|binds?|bound)\b",
                question.lower,
            )
        )
        statements: list[Statement] = []
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "BINDS")
            if edges:
                statements.append(self._published(service, edges, question))
                continue
            routed = in_force(self.house, self.house.into(service.number, "ROUTES_TO"))
            if routed and not published:
                port = distinct(str(e.properties["port"]) for e in routed if e.properties.get("port"))
                if port:
                    text = f"{self.called(service)} is reached on port {listed(port)} by {listed([self.house.name(e.start) for e in routed])}"
                    statements.append(
                        Statement(text + self._no_port(service, ", and publishes none."), cites(routed))
                    )
                    continue
            callers = [e for e in self.house.into(service.number, "CONNECTS_TO") if e.properties.get("port")]
            if callers and not published:
                port = listed(distinct(str(e.properties["port"]) for e in callers))
                by = listed(distinct(self.house.name(e.start) for e in callers))
                text = f"{self.called(service)} is reached on port {port} by {by}, and publishes none."
                statements.append(Statement(text, cites(callers)))
                continue
            if service.declared and published:
                if question.yes_no:
                    statements.append(
                        Statement(
                            f"No: {self.called(service)} publishes no port.", self.declaration([service])
                        )
                    )
                else:
                    statements.append(
                        Statement(f"{self.called(service)} publishes no port.", self.declaration([service]))
                    )
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

    def _no_port(self, service: Service, text: str) -> str:
        return text if service.declared else "."

    def _published(self, service: Service, edges: Sequence[Edge], question: Question) -> Statement:
        pairs: dict[tuple[int, int, str], list[str]] = {}
        for edge in edges:
            facts = edge.properties
            port = facts.get("port") or 0
            key = (port, facts.get("targetPort") or port, str(facts.get("hostIp") or ""))
            pairs.setdefault(key, []).append(str(facts.get("protocol") or "tcp"))
        said = []
        for (port, target, address), protocols in pairs.items():
            text = f"{port}/{'+'.join(sorted(set(protocols)))}"
            text += f" (container port {target})" if target != port else ""
            text += f" on {address}" if address else ""
            said.append(text)
        places = listed([self.house.name(e.end) for e in edges])
        where = "" if places in ("0.0.0.0", "::") else f" on {places}"
        if question.counts:
            count = len({(p, a) for p, _, a in pairs})
            return Statement(
                f"{self.called(service)} publishes {plural(count, 'port')}{where}: {listed(said)}.",
                cites(edges),
            )
        begin = "Yes: " if question.yes_no else ""
        noun = "port" if len(said) == 1 else "ports"
        return Statement(
            f"{begin}{self.called(service)} publishes {noun} {listed(said, len(said))}{where}.", cites(edges)
        )

    def _route_ports(self, scoped: Scoped) -> Found | None:
        edges, used = self._routes_of(scoped)
        edges = [e for e in edges if e.properties.get("port")]
        if not edges:
            return None
        by: dict[str, list[Edge]] = {}
        for edge in edges:
            by.setdefault(f"{self._target(edge)}", []).append(edge)
        text = listed([f"port {e[0].properties['port']} of {self._target_name(e[0])}" for e in by.values()])
        return Found([Statement(f"Traffic goes to {text}.", cites(edges))], used, looked_for="port")

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
        scoped_pairs, used = self._scope_pairs(scoped, pairs)
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

    def _scope_pairs(
        self, scoped: Scoped, pairs: list[tuple[Service, Edge]]
    ) -> tuple[list[tuple[Service, Edge]], set[int]]:
        """Pairs in what the mentions name as a project or host; the house's own where nothing is named."""
        used: set[int] = set()
        named = False
        for mention in scoped.mentions:
            projects, hosts = scoped.projects(mention), scoped.hosts(mention)
            kept = [p for p in pairs if (p[0].place, p[0].project) in projects or p[0].place in hosts]
            if kept:
                pairs, used, named = kept, used | scoped.words(mention), True
        own = [p for p in pairs if p[0].own]
        return (pairs if named or not own else own), used

    # --- images ---------------------------------------------------------------------------------------------

    def images(self, scoped: Scoped) -> Found | None:
        return self._built(scoped, version=False)

    def versions(self, scoped: Scoped) -> Found | None:
        return self._built(scoped, version=True)

    def _built(self, scoped: Scoped, *, version: bool) -> Found | None:
        subject = self._subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        question, statements, weight = scoped.question, [], 1.0
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "BUILDS")
            main = [e for e in edges if e.method in ("compose_image", "compose_build")] or edges
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
                statements.append(Statement(text + ".", cites(main[-1:])))
                weight = 0.9
                continue
            if version:
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
            else:
                text = f"{self.called(service)} uses the image {reference}"
            statements.append(Statement(text + ".", cites(main)))
        if question.yes_no:
            return self._compared(scoped, statements, used)
        return (
            Found(statements, used, weight, "the image" if not version else "the version")
            if statements
            else None
        )

    def _compared(self, scoped: Scoped, statements: list[Statement], used: set[int]) -> Found | None:
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

    def image_users(self, scoped: Scoped) -> Found | None:
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
        self, scoped: Scoped, edges: list[Edge], words: set[int], called: str = ""
    ) -> Found | None:
        pairs = [(self.house.services[e.start], e) for e in edges if e.start in self.house.services]
        others, used = self._scope_pairs(scoped, pairs)
        if not others:
            return None
        called = called or f"the image {listed([self._image(e.end) for _, e in others])}"
        return self._listing(
            scoped, [s for s, _ in others], [e for _, e in others], f"use {called}", used | words
        )

    def _listing(
        self,
        scoped: Scoped,
        services: Sequence[Service],
        edges: Sequence[Edge],
        what: str,
        used: set[int],
        total: int | None = None,
    ) -> Found:
        """``a, b and c do what``, or how many."""
        distinct_services = list({s.number: s for s in services}.values())
        count = total or len(distinct_services)
        names = listed(self.names(distinct_services), count)
        verb, _, rest = what.partition(" ")
        if count == 1:
            verb = {
                "use": "uses",
                "publish": "publishes",
                "depend": "depends",
                "are": "is",
                "need": "needs",
                "run": "runs",
            }.get(verb, verb)
        if scoped.question.counts:
            text = f"{plural(count, 'service')} {verb} {rest}: {names}."
        else:
            text = f"{names} {verb} {rest}."
        return Found([Statement(text, cites(edges))], used, looked_for=what)

    # --- networks -------------------------------------------------------------------------------------------

    def _networks(self, service: Service) -> list[Edge]:
        container = self.house.container_of.get(service.number)
        return self.house.out(container, "RUNS_IN") if container is not None else []

    def networks(self, scoped: Scoped) -> Found | None:
        subject = self._subject(scoped)
        if subject is None:
            return self._project_networks(scoped)
        mention, services, used = subject
        question = scoped.question
        if question.yes_no:
            return self._on_network(scoped, mention, services, used)
        statements = []
        for service in services[:MAX_SCOPES]:
            edges = self._networks(service)
            names = [self.network(e.end, service.project) for e in edges]
            if not names:
                continue  # its network mode says why, and is read with its line out of the file
            noun = "network" if len(names) == 1 else "networks"
            count = f"{len(names)} {noun}: " if question.counts else f"the {noun} "
            statements.append(
                Statement(f"{self.called(service)} is on {count}{listed(names)}.", cites(edges))
            )
        return Found(statements, used, looked_for="networks") if statements else None

    def _project_networks(self, scoped: Scoped) -> Found | None:
        for mention in scoped.mentions:
            projects = scoped.projects(mention)
            services = [
                self.house.services[n] for key in sorted(projects) for n in self.house.projects.get(key, ())
            ]
            edges = [e for s in services for e in self._networks(s)]
            first = {e.end: e for e in reversed(edges)}
            if first:
                project = services[0].project
                names = [self.network(node, project) for node in sorted(first, key=self.house.name)]
                return Found(
                    [
                        Statement(
                            f"The services of {project} are on {plural(len(names), 'network')}: {listed(names)}.",
                            cites(first.values()),
                        )
                    ],
                    scoped.words(mention),
                    looked_for="networks",
                )
        return None

    def _on_network(
        self, scoped: Scoped, mention: Mention, services: list[Service], used: set[int]
    ) -> Found | None:
        for other in scoped.mentions:
            nodes = {t.node for t in scoped.nodes(other, "network")} if other is not mention else set()
            if not nodes:
                continue
            statements = []
            for service in services[:MAX_SCOPES]:
                edges = self._networks(service)
                hit = [e for e in edges if e.end in nodes]
                name = self.network((hit[0].end if hit else min(nodes)), service.project)
                if hit:
                    statements.append(
                        Statement(f"Yes: {self.called(service)} is on the network {name}.", cites(hit))
                    )
                elif edges:
                    names = listed([self.network(e.end, service.project) for e in edges])
                    statements.append(
                        Statement(f"No: {self.called(service)} is on {names}, not on {name}.", cites(edges))
                    )
            if statements:
                return Found(statements, used | scoped.words(other), looked_for="the network")
        return None

    def network_members(self, scoped: Scoped) -> Found | None:
        several = [m for m in scoped.mentions if scoped.nodes(m, "network")]
        if len(several) > 1:
            return self._on_all(scoped, several)
        for mention in scoped.mentions:
            things = scoped.nodes(mention, "network")
            if not things:
                continue
            edges = [e for t in things for e in self.house.into(t.node, "RUNS_IN")]
            pairs = [
                (self.house.services[self.house.service_of[e.start]], e)
                for e in edges
                if e.start in self.house.service_of
            ]
            if not pairs:
                continue
            total = sum(self.house.count_into(t.node, "RUNS_IN") for t in things)
            services = [s for s, _ in pairs]
            names = listed(sorted({self.house.name(t.node) for t in things}))
            used = {
                i
                for m in scoped.mentions
                if m is mention or (scoped.projects(m) and not m.of("service"))
                for i in scoped.words(m)
            }
            return self._listing(
                scoped, services, [e for _, e in pairs], f"are on the network {names}", used, total
            )
        return None

    def _on_all(self, scoped: Scoped, mentions: Sequence[Mention]) -> Found | None:
        """The services that are on each of several networks."""
        sets = []
        for mention in mentions:
            nodes = [t.node for t in scoped.nodes(mention, "network")]
            edges = [e for n in nodes for e in self.house.into(n, "RUNS_IN")]
            sets.append(
                {self.house.service_of[e.start]: e for e in edges if e.start in self.house.service_of}
            )
        common = [n for n in sets[0] if all(n in s for s in sets[1:])]
        if not common:
            return None
        services = [self.house.services[n] for n in common]
        names = listed([m.text for m in mentions])
        return self._listing(
            scoped, services, [s[n] for n in common for s in sets], f"are on {names}", scoped.words(*mentions)
        )

    def shared_networks(self, scoped: Scoped) -> Found | None:
        named = [(m, *scoped.services(m)) for m in scoped.mentions]
        named = [n for n in named if n[1]]
        if len(named) < 2:
            return None
        (_, left, used), (_, right, more) = named[0], named[1]
        if len(left) > MAX_SCOPES or len(right) > MAX_SCOPES:
            return None
        found: list[tuple[Service, Service, list[Edge], list[Edge]]] = []
        for a in left:
            for b in right:
                ours, theirs = self._networks(a), self._networks(b)
                both = {e.end for e in ours} & {e.end for e in theirs}
                found.append((a, b, [e for e in ours if e.end in both], [e for e in theirs if e.end in both]))
        hits = [f for f in found if f[2]] or found[:1]
        statements = []
        for a, b, ours, theirs in hits[:MAX_SCOPES]:
            if ours:
                project = a.project if a.project == b.project else ""
                names = listed([self.network(e.end, project) for e in ours])
                begin = "Yes: " if scoped.question.yes_no else ""
                noun = "network" if len(ours) == 1 else "networks"
                statements.append(
                    Statement(
                        f"{begin}{self.called(a)} and {self.called(b)} share the {noun} {names}.",
                        cites([*ours, *theirs]),
                    )
                )
            elif self._networks(a) and self._networks(b):
                begin = "No: " if scoped.question.yes_no else ""
                mine = listed([self.network(e.end, a.project) for e in self._networks(a)])
                other = listed([self.network(e.end, b.project) for e in self._networks(b)])
                statements.append(
                    Statement(
                        f"{begin}{self.called(a)} (on {mine}) and {self.called(b)} (on {other}) share no network.",
                        cites([*self._networks(a), *self._networks(b)]),
                    )
                )
        return Found(statements, used | more, looked_for="a shared network") if statements else None

    def subnet(self, scoped: Scoped) -> Found | None:
        for mention in scoped.mentions:
            things = [t for t in scoped.nodes(mention, "network")]
            held = [(t, self.house.properties(t.node).get("cidrs") or []) for t in things]
            # The value is read with its line out of the file: here only that there is one.
            if any(c for _, c in held):
                return None
        return None

    # --- dependencies ---------------------------------------------------------------------------------------

    def dependencies(self, scoped: Scoped) -> Found | None:
        question = scoped.question
        if question.yes_no and len(scoped.mentions) > 1:
            return self._depends(scoped)
        subject = self._subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        statements = []
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "DEPENDS_ON")
            if question.transitive and edges:
                edges = self._walk(service.number, forward=True)
            others = [self.house.services[e.end] for e in edges if e.end in self.house.services]
            if others:
                names = []
                for name, edge in zip(self.names(others), edges, strict=False):
                    condition = edge.properties.get("condition")
                    names.append(
                        f"{name} ({condition})" if condition and condition != "service_started" else name
                    )
                count = f"{plural(len(set(names)), 'service')}: " if question.counts else ""
                statements.append(
                    Statement(f"{self.called(service)} depends on {count}{listed(names)}.", cites(edges))
                )
                continue
            links = self.house.out(service.number, "CONNECTS_TO")
            if links:
                names = self.names([self.house.services[e.end] for e in links])
                statements.append(
                    Statement(
                        f"{self.called(service)} declares no dependency, but connects to {listed(names)}.",
                        cites(links),
                    )
                )
            elif service.declared:
                statements.append(
                    Statement(f"{self.called(service)} depends on nothing.", self.declaration([service]))
                )
        statements = [s for s in statements if s.cites]
        return Found(statements, used, looked_for="dependencies") if statements else None

    def connections(self, scoped: Scoped) -> Found | None:
        """What a service connects to by its own settings; else what it depends on."""
        if scoped.question.yes_no and len(scoped.mentions) > 1:
            return self._depends(scoped)
        subject = self._subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        statements = []
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "CONNECTS_TO")
            others = [self.house.services[e.end] for e in edges if e.end in self.house.services]
            if others:
                text = f"{self.called(service)} connects to {listed(self.names(others))}."
                statements.append(Statement(text, cites(edges)))
        found = Found(statements, used, looked_for="what it connects to")
        return found if statements else self.dependencies(scoped)

    def sharers(self, scoped: Scoped) -> Found | None:
        """Whose network namespace is another service's."""
        subject = self._subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        edges = [
            e
            for s in services[:MAX_SCOPES]
            for e in self.house.into(s.number, "DEPENDS_ON")
            if "compose_network_mode" in e.methods
        ]
        others = [self.house.services[e.start] for e in edges if e.start in self.house.services]
        if not others:
            return None
        names = listed([self.called(s) for s in services])
        words = {i for i, w in enumerate(scoped.question.linked.words) if w.text in _NAMESPACE_WORDS}
        return self._listing(scoped, others, edges, f"use the network namespace of {names}", used | words)

    def _depends(self, scoped: Scoped) -> Found | None:
        """Does A depend on B?"""
        named = [(m, *scoped.services(m)) for m in scoped.mentions]
        named = [n for n in named if n[1]]
        if len(named) < 2:
            return None
        (_, left, used), (_, right, more) = named[0], named[1]
        passive = re.search(r"@\w* (?:\w+ )?(?:needed|required|used) by", scoped.question.masked[0])
        if passive:
            left, right = right, left
        wanted = {s.number for s in right}
        closed = [s for s in left if s.declared]
        for service in closed[:MAX_SCOPES]:
            edges = self.house.out(service.number, "DEPENDS_ON", "CONNECTS_TO")
            hit = [e for e in edges if e.end in wanted]
            if hit:
                other = self.house.services[hit[0].end]
                verb = "depends on" if any(e.type == "DEPENDS_ON" for e in hit) else "connects to"
                return Found(
                    [
                        Statement(
                            f"Yes: {self.called(service)} {verb} {self.names([service, other])[1]}.",
                            cites(hit),
                        )
                    ],
                    used | more,
                    looked_for="the dependency",
                )
        for service in closed[:1]:
            indirect = [e for e in self._walk(service.number, forward=True) if e.end in wanted]
            if indirect:
                through = self.house.services[indirect[0].start]
                other = self.house.services[indirect[0].end]
                return Found(
                    [
                        Statement(
                            f"Yes, indirectly: {self.called(service)} depends on {other.name} through {through.name}.",
                            cites(indirect),
                        )
                    ],
                    used | more,
                    looked_for="the dependency",
                )
            edges = self.house.out(service.number, "DEPENDS_ON")
            names = listed([self.house.services[e.end].name for e in edges if e.end in self.house.services])
            target = right[0].name
            said = (
                f"{self.called(service)} depends on {names}, not on {target}."
                if edges
                else f"{self.called(service)} depends on nothing, so not on {target}."
            )
            return Found(
                [Statement(f"No: {said}", cites(edges) or self.declaration([service]))],
                used | more,
                looked_for="the dependency",
            )
        return None

    def _walk(self, node: int, *, forward: bool) -> list[Edge]:
        """The dependency edges reached from a service, nearest first, each service once."""
        seen, found, layer = {node}, [], [node]
        while layer and len(seen) < _MAX_WALK:
            following = []
            for at in layer:
                edges = self.house.out(at, "DEPENDS_ON") if forward else self.house.into(at, "DEPENDS_ON")
                for edge in edges:
                    other = edge.end if forward else edge.start
                    if other not in seen:
                        seen.add(other)
                        found.append(edge)
                        following.append(other)
            layer = following
        return found

    def dependents(self, scoped: Scoped) -> Found | None:
        if scoped.question.yes_no and len([m for m in scoped.mentions if m.of("service")]) > 1:
            found = self._depends(scoped)
            if found is not None:
                return found
        return self._depending(scoped, ("DEPENDS_ON",), "depend on")

    def users(self, scoped: Scoped) -> Found | None:
        if scoped.question.yes_no and len(scoped.mentions) > 1:
            return self._depends(scoped) or self.image_users(scoped)
        if not scoped.question.yes_no:
            active = re.search(r"\b(?:do|does) @\w* (?:\w+ )?(?:use|connect|talk)", scoped.question.masked[0])
            if active:
                return None
        return (
            self._depending(scoped, ("DEPENDS_ON", "CONNECTS_TO"), "use")
            or self.image_users(scoped)
            or self.network_members(scoped)
        )

    def _depending(self, scoped: Scoped, types: tuple[str, ...], verb: str) -> Found | None:
        subject = self._object(scoped)
        if subject is None:
            return None
        _, services, used = subject
        question, statements = scoped.question, []
        for service in services[:MAX_SCOPES]:
            if question.transitive and "DEPENDS_ON" in types:
                edges = self._walk(service.number, forward=False)
            else:
                edges = self.house.into(service.number, *types)
                if not edges:
                    edges = self.house.into(service.number, "DEPENDS_ON", "CONNECTS_TO")
            total = self.house.count_into(service.number, *types) if not question.transitive else len(edges)
            others = [self.house.services[e.start] for e in edges if e.start in self.house.services]
            if others:
                called = self.called(service)
                if len({(s.place, s.project) for s in (*others, service)}) == 1 and len(services) == 1:
                    called = service.name
                found = self._listing(scoped, others, edges, f"{verb} {called}", used, total)
                if question.yes_no:
                    found.statements[0].text = f"Yes: {found.statements[0].text}"
                statements += found.statements
            elif service.declared and (len(services) == 1):
                statements.append(
                    Statement(
                        f"{'No: nothing' if question.yes_no else 'Nothing'} depends on {self.called(service)}.",
                        self.declaration([service]),
                    )
                )
        statements = [s for s in statements if s.cites]
        return Found(statements, used, looked_for="what depends on it") if statements else None

    def _object(self, scoped: Scoped) -> tuple[Mention, list[Service], set[int]] | None:
        """As :meth:`_subject`, of the mention right after the verb."""
        after = re.search(
            r"(?:on|upon|for|uses?|using|needs?|needed|requires?|required|of|to|by|if|when|without|once) (?:the |our )?(@\w*)",
            scoped.question.masked[0],
        )
        if after:
            place = next((w for s, _, w in scoped.question.masked[1] if s == after.start(1)), ())
            for mention in scoped.mentions:
                if mention.first in place:
                    services, used = scoped.services(mention)
                    if services:
                        return mention, services, used
        return self._subject(scoped)

    # --- routes ---------------------------------------------------------------------------------------------

    def _routes_of(self, scoped: Scoped) -> tuple[list[Edge], set[int]]:
        """The routes that the mentions mean, by service, host name, file or proxy, those in force first."""
        sets: list[tuple[dict[str, Edge], set[int], set[int]]] = []
        every: list[Edge] | None = None
        for mention in scoped.mentions:
            found: dict[str, Edge] = {}
            services, used = scoped.services(mention)
            for service in services[:MAX_SCOPES]:
                found.update((e.edge_id, e) for e in self.house.into(service.number, "ROUTES_TO"))
            hosts = {t.value for t in mention.of("route") if t.how != "alias"} or {
                t.value for t in mention.of("route")
            }
            files = {t.value for t in mention.of("file")}
            addresses = {t.node for t in mention.of("address")}
            proxies = {t.node for t in mention.of("proxy")}
            if hosts or files or addresses:
                every = every if every is not None else self.house.of_type("ROUTES_TO")
                exact = any(t.kind == "route" and t.how in ("exact", "normalized") for t in mention.things)
                if not (found and not exact and mention.label not in ("conf", "config", "file")):
                    found.update(
                        (e.edge_id, e)
                        for e in every
                        if e.properties.get("host") in hosts or e.doc_id in files or e.end in addresses
                    )
            if found or proxies:
                sets.append((found, proxies, used | scoped.words(mention)))
        if not sets and scoped.question.paths:
            sets.append(({e.edge_id: e for e in self.house.of_type("ROUTES_TO")}, set(), set()))
        if not sets:
            return [], set()
        sets.sort(key=lambda s: bool(s[1]))
        first = sets[0]
        kept, used = (
            first[0] or {e.edge_id: e for p in first[1] for e in self.house.out(p, "ROUTES_TO")},
            set(first[2]),
        )
        for found, through, words in sets[1:]:
            both = {k: v for k, v in kept.items() if v.start in through} or {
                k: v for k, v in kept.items() if k in found
            }
            if both:
                kept, used = both, used | words
        edges = in_force(self.house, list(kept.values()))
        paths = scoped.question.paths
        if paths:
            edges = [
                e
                for e in edges
                if any(
                    str(e.properties.get("path") or e.properties.get("location") or "")
                    .rstrip("/")
                    .endswith(p)
                    for p in paths
                )
            ]
            used |= {i for i, w in enumerate(scoped.question.linked.words) if w.text in paths}
        return edges, used

    def _target(self, edge: Edge) -> str:
        facts = edge.properties
        return f"{self._target_name(edge)}:{facts['port']}" if facts.get("port") else self._target_name(edge)

    def _target_name(self, edge: Edge) -> str:
        service = self.house.services.get(edge.end)
        if service is not None:
            return service.name
        return re.sub(r"^\w+://|:\d+(?=/|$)|/$", "", self.house.name(edge.end))

    def _way(self, edge: Edge) -> str:
        """``host/path``, the place where a route begins."""
        facts = edge.properties
        host, path = facts.get("host") or "", facts.get("path") or ""
        location = str(facts.get("location") or "")
        shown = path if path and path != "/" else ("" if location in ("", "/") or path else location)
        if host.endswith(".*"):
            host = self._full_host(edge.doc_id, host)
        return f"{host}{shown}" if host else (shown or "/")

    def _full_host(self, doc_id: str, host: str) -> str:
        """What a comment of the conf calls a host name under any domain (``tv.*``), else the name itself."""
        label = re.escape(host.removesuffix(".*"))
        said = re.search(rf"#.*?(?<![\w.-])({label}(?:\.[a-z0-9-]+)+)(?![\w*-])", self.house.text(doc_id))
        if self.house.is_example(doc_id):
            return host
        known = said is not None and not said[1].endswith((".conf", ".sample", ".subdomain", ".subfolder"))
        return said[1] if known and said is not None else host

    def routes(self, scoped: Scoped) -> Found | None:
        edges, used = self._routes_of(scoped)
        if not edges:
            return self._unrouted(scoped)
        if scoped.question.yes_no:
            text = f"Yes: {self._described(edges)}"
        else:
            text = self._described(edges)
        return Found([Statement(text, cites(edges))], used, looked_for="the route")

    def _described(self, edges: Sequence[Edge]) -> str:
        """``way → proxy → target``, ways with one proxy and target together."""
        groups: dict[tuple[str, str], list[Edge]] = {}
        for edge in edges:
            proxy = self.house.name(edge.start)
            scheme = edge.properties.get("scheme")
            target = self._target(edge)
            target = f"{scheme}://{target}" if scheme and scheme != "http" else target
            groups.setdefault((proxy, target), []).append(edge)
        said = []
        for (proxy, target), held in list(groups.items())[:MAX_SCOPES]:
            ways = listed([self._way(e) for e in held][:8])
            tls = " (TLS)" if any(e.properties.get("tls") for e in held) else ""
            said.append(f"{ways} → {proxy}{tls} → {target}")
        return "; ".join(said) + "."

    def _unrouted(self, scoped: Scoped) -> Found | None:
        """A service that no proxy leads to: the port that it publishes."""
        subject = self._subject(scoped)
        if subject is None or scoped.question.yes_no:
            return None
        _, services, used = subject
        statements = []
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "BINDS")
            if edges:
                made = self._published(service, edges, scoped.question)
                statements.append(Statement(f"No proxy leads to it; {made.text}", made.cites))
        return Found(statements, used, 0.95, "the route") if statements else None

    def behind(self, scoped: Scoped) -> Found | None:
        edges, used = self._routes_of(scoped)
        if not edges or not any(m.of("route") for m in scoped.mentions):
            return None
        targets = listed([self._target(e) for e in edges])
        ways = listed([self._way(e) for e in edges][:8])
        proxies = listed([self.house.name(e.start) for e in edges])
        return Found(
            [Statement(f"{ways} leads to {targets} through {proxies}.", cites(edges))],
            used,
            looked_for="what stands behind it",
        )

    def hostnames(self, scoped: Scoped) -> Found | None:
        edges, used = self._routes_of(scoped)
        edges = [e for e in edges if e.properties.get("host") or e.properties.get("path")]
        subject = self._subject(scoped)
        if not edges:
            return None
        ways = [self._way(e) for e in edges if e.properties.get("host")] or [self._way(e) for e in edges]
        named = [self.called(s) for s in subject[1]] if subject else [m.text for m in scoped.mentions[-1:]]
        names = listed(named[:MAX_SCOPES])
        proxies = listed([self.house.name(e.start) for e in edges])
        count = f"{plural(len(set(ways)), 'name')}: " if scoped.question.counts else ""
        return Found(
            [Statement(f"{names} is reached at {count}{listed(ways)} through {proxies}.", cites(edges))],
            used,
            looked_for="its host name",
        )

    def proxy_scheme(self, scoped: Scoped) -> Found | None:
        edges, used = self._routes_of(scoped)
        edges = [e for e in edges if e.properties.get("scheme")]
        if not edges:
            return self._protocol(scoped)
        schemes = distinct(str(e.properties["scheme"]) for e in edges)
        target = listed([self._target(e) for e in edges])
        proxies = listed([self.house.name(e.start) for e in edges])
        return Found(
            [Statement(f"{proxies} reaches {target} by {listed(schemes)}.", cites(edges))],
            used,
            looked_for="the protocol",
        )

    def _protocol(self, scoped: Scoped) -> Found | None:
        subject = self._subject(scoped)
        if subject is None or not scoped.question.numbers:
            return None
        _, services, used = subject
        edges = [
            e
            for s in services
            for e in self.house.out(s.number, "BINDS")
            if e.properties.get("port") in scoped.question.numbers
        ]
        if not edges:
            return None
        protocols = distinct(str(e.properties.get("protocol") or "tcp") for e in edges)
        words = {i for i, w in enumerate(scoped.question.linked.words) if w.text.isdigit()}
        return Found(
            [
                Statement(
                    f"{self.called(services[0])} publishes port {edges[0].properties['port']} by {listed(protocols)}.",
                    cites(edges),
                )
            ],
            used | words,
            looked_for="the protocol",
        )

    def project_of(self, scoped: Scoped) -> Found | None:
        subject = self._subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        statements = []
        for service in services[:MAX_SCOPES]:
            documents = self.house.declaring(service)
            if service.declared and documents:
                path = self.house.documents[documents[0]].path
                statements.append(
                    Statement(
                        f"{service.name} is a service of the project {service.project}, declared in {path}.",
                        self.declaration([service]),
                    )
                )
        return Found(statements, used, looked_for="its project") if statements else None

    def publishers(self, scoped: Scoped) -> Found | None:
        """Which services publish a port, or none."""
        pairs = [
            (self.house.services[e.start], e)
            for e in self.house.of_type("BINDS")
            if e.start in self.house.services
        ]
        pairs, used = self._scope_pairs(scoped, pairs)
        if not pairs or any(m.of("service") and not scoped.projects(m) for m in scoped.mentions):
            return None
        if not scoped.question.negated:
            first = {s.number: (s, e) for s, e in reversed(pairs)}.values()
            return self._listing(scoped, [s for s, _ in first], [e for _, e in first], "publish a port", used)
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
        found = self._listing(scoped, rest, (), "publish no port", used)
        found.statements[0].cites = self.declaration(rest[:MAX_CITED])
        return found

    def proxied(self, scoped: Scoped) -> Found | None:
        for mention in scoped.mentions:
            proxies = {t.node for t in mention.of("proxy")}
            edges = in_force(self.house, [e for p in proxies for e in self.house.out(p, "ROUTES_TO")])
            first = {e.end: e for e in reversed(edges)}
            if first:
                targets = sorted(first.values(), key=self._target_name)
                names = distinct(self._target_name(e) for e in targets)
                proxy = listed([self.house.name(p) for p in sorted(proxies)])
                count = f"{plural(len(names), 'service')}: " if scoped.question.counts else ""
                text = f"{proxy} routes to {count}{listed(names)}."
                return Found(
                    [Statement(text, cites(targets))], scoped.words(mention), looked_for="what it routes to"
                )
        return None

    def inventory(self, scoped: Scoped) -> Found | None:
        """All that there is of a kind, in a question that names nothing."""
        if scoped.mentions:
            return None
        lower = scoped.question.lower
        services = [s for s in self.house.services.values() if s.declared]
        services = [s for s in services if s.own] or services
        if not services:
            return None
        if "project" in lower or "stack" in lower:
            names, noun = sorted({s.project for s in services}), "project"
        elif "network" in lower:
            edges = [e for s in services for e in self._networks(s)]
            first = {e.end: e for e in reversed(edges)}
            names = sorted({self.house.name(n) for n in first})
            return Found(
                [
                    Statement(
                        f"There are {plural(len(names), 'network')}: {listed(names)}.", cites(first.values())
                    )
                ]
            )
        elif re.search(r"\bhosts?\b", lower):
            edges = [
                e
                for s in services
                for c in [self.house.container_of.get(s.number)]
                if c
                for e in self.house.out(c, "RUNS")
            ]
            first = {e.end: e for e in reversed(edges)}
            if not first:
                return None
            names = sorted({self.house.name(n) for n in first})
            return Found(
                [
                    Statement(
                        f"There is {plural(len(names), 'host')}: {listed(names)}."
                        if len(names) == 1
                        else f"There are {plural(len(names), 'host')}: {listed(names)}.",
                        cites(first.values()),
                    )
                ]
            )
        elif re.search(r"image|prox", lower):
            return None
        else:
            names, noun = sorted({s.name for s in services}), "service"
            return Found(
                [
                    Statement(
                        f"There are {plural(len(services), noun)}: {listed(names, len(services))}.",
                        self._spread_cites(services),
                    )
                ]
            )
        return Found(
            [
                Statement(
                    f"There are {plural(len(names), noun)}: {listed(names)}.", self._spread_cites(services)
                )
            ]
        )

    def proxy_hosts(self, scoped: Scoped) -> Found | None:
        for mention in scoped.mentions:
            proxies = {t.node for t in mention.of("proxy")}
            edges = in_force(self.house, [e for p in proxies for e in self.house.out(p, "ROUTES_TO")])
            edges = [e for e in edges if e.properties.get("host")]
            if edges:
                ways = distinct(self._way(e).split("/")[0].split("~")[0] for e in edges)
                proxy = listed([self.house.name(p) for p in sorted(proxies)])
                count = f"{plural(len(ways), 'name')}: " if scoped.question.counts else ""
                text = f"{proxy} serves {count}{listed(ways)}."
                return Found(
                    [Statement(text, cites(edges))], scoped.words(mention), looked_for="its host names"
                )
        return None

    def tls(self, scoped: Scoped) -> Found | None:
        if not scoped.question.yes_no:
            return None
        edges, used = self._routes_of(scoped)
        if not edges:
            return None
        secure = [e for e in edges if e.properties.get("tls")]
        begin = "Yes" if secure else "No"
        shown = secure or edges
        how = "with TLS" if secure else "without TLS"
        return Found(
            [Statement(f"{begin}: {listed([self._way(e) for e in shown])} is served {how}.", cites(shown))],
            used,
            looked_for="TLS",
        )

    def auth(self, scoped: Scoped) -> Found | None:
        protected = self._protected(scoped)
        if protected is not None:
            return protected
        edges, used = self._routes_of(scoped)
        documents = {e.doc_id for e in edges}
        held = [
            x
            for e in edges
            if e.end in self.house.services
            for x in self.house.out(e.end, "EXPOSES_ENDPOINT")
            if x.doc_id in documents and x.properties.get("auth") not in (None, "none")
        ]
        if not held:
            own = [e for e in edges if not self.house.is_example(e.doc_id)]
            by_proxy = re.search(r"authelia|authentik|sso|proxy|basic|ldap", scoped.question.lower)
            if not (scoped.question.yes_no and own and by_proxy):
                return None
            asked = [m for m in scoped.mentions if not scoped.words(m) & used]
            text = f"No: {listed([self._way(e) for e in own])} asks for no authentication at its proxy."
            return Found([Statement(text, cites(own))], used.union(*(scoped.words(m) for m in asked)))
        kinds = distinct(" ".join(filter(None, (str(x.properties["auth"]), _include(x)))) for x in held)
        begin = "Yes: " if scoped.question.yes_no else ""
        name = listed([self._target_name(e) for e in edges])
        return Found(
            [Statement(f"{begin}{name} is protected by {listed(kinds)} at its proxy.", cites(held))],
            used,
            looked_for="authentication",
        )

    def _protected(self, scoped: Scoped) -> Found | None:
        """What a named product guards at the proxy."""
        if scoped.question.yes_no or len(scoped.mentions) != 1:
            return None
        name = scoped.mentions[0].text.lower()
        edges = [
            e
            for e in self.house.of_type("EXPOSES_ENDPOINT")
            if str(e.properties.get("authInclude") or "").startswith(name)
            and not self.house.is_example(e.doc_id)
        ]
        services = [self.house.services[e.start] for e in edges if e.start in self.house.services]
        if not services:
            return None
        words = scoped.words(scoped.mentions[0])
        return self._listing(scoped, services, edges, f"are protected by {name} at the proxy", words)

    # --- the rest -------------------------------------------------------------------------------------------

    def location(self, scoped: Scoped) -> Found | None:
        subject = self._subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        statements = []
        for service in services[:MAX_SCOPES]:
            container = self.house.container_of.get(service.number)
            edges = self.house.out(container, "RUNS") if container is not None else []
            if edges:
                host = listed([self.house.name(e.end) for e in edges])
                statements.append(Statement(f"{self.called(service)} runs on {host}.", cites(edges)))
        return Found(statements, used, looked_for="the host") if statements else None

    def members(self, scoped: Scoped) -> Found | None:
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
                            self._spread_cites(services),
                        )
                    )
                if statements:
                    return Found(statements, scoped.words(mention), looked_for="its services")
            hosts = scoped.hosts(mention)
            services = [s for s in self.house.services.values() if s.place in hosts] if hosts else []
            if services:
                text = f"{plural(len(services), 'service')} run on {listed(sorted(hosts))}: {listed([s.name for s in services])}."
                return Found(
                    [Statement(text, self._spread_cites(services))],
                    scoped.words(mention),
                    looked_for="its services",
                )
        if not scoped.mentions and question.counts and "project" in question.lower:
            return None
        return None

    def _spread_cites(self, services: Sequence[Service]) -> list[Cite]:
        return self.declaration(services[: 2 * MAX_CITED])

    def restart(self, scoped: Scoped) -> Found | None:
        return None  # read with its line out of the file, where every value of the policy stands

    def container_name(self, scoped: Scoped) -> Found | None:
        subject = self._subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        statements = []
        for service in services[:MAX_SCOPES]:
            if service.properties.get("containerName"):
                continue  # read with its line out of the file
            container = self.house.container_of.get(service.number)
            if container is not None:
                statements.append(
                    Statement(
                        f"The container of {self.called(service)} is {self.house.name(container)}.",
                        self.declaration([service]),
                    )
                )
        return Found(statements, used, looked_for="the container's name") if statements else None

    def vpn(self, scoped: Scoped) -> Found | None:
        subject = self._subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        edges = [e for s in services[:MAX_SCOPES] for e in self.house.out(s.number, "USES_VPN")]
        if not edges:
            return None
        begin = "Yes: " if scoped.question.yes_no else ""
        tunnels = listed([self.house.name(e.end) for e in edges])
        return Found(
            [
                Statement(
                    f"{begin}{listed([self.called(s) for s in services])} goes through the VPN tunnel {tunnels}.",
                    cites(edges),
                )
            ],
            used,
            looked_for="its VPN",
        )

    def vpn_users(self, scoped: Scoped) -> Found | None:
        edges = self.house.of_type("USES_VPN")
        tunnels = {self.house.name(e.end) for e in edges}
        asked = [m for m in scoped.mentions if m.of("service")]
        if asked and not any(m.text.lower() in tunnels for m in asked):
            return None
        wanted = {t.value or self.house.name(t.node) for m in scoped.mentions for t in m.of("service")}
        edges = [e for e in edges if not wanted or self.house.name(e.end) in wanted] or edges
        pairs, used = self._scope_pairs(
            scoped, [(self.house.services[e.start], e) for e in edges if e.start in self.house.services]
        )
        if not pairs:
            return None
        used = used.union(*(scoped.words(m) for m in asked))
        return self._listing(scoped, [s for s, _ in pairs], [e for _, e in pairs], "use a VPN tunnel", used)

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
                parts.append(
                    f"{listed([self._way(e) for e in routes])} leads to {listed([self._target(e) for e in routes])}"
                )
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


def _include(edge: Edge) -> str:
    """The product that an include of authentication is of: ``(authelia)``."""
    name = re.sub(r"-(?:location|server)$", "", str(edge.properties.get("authInclude") or ""))
    return f"({name})" if name else ""


def subject_of(scoped: Scoped) -> tuple[Mention, list[Service], set[int]] | None:
    """The mention whose services a question is about, those services, and the words that say which: a mention
    that others narrow before one that narrows, the one called a service before others, else the first."""
    held = [(m, *scoped.services(m)) for m in scoped.mentions]
    held = [h for h in held if h[1]]
    if not held:
        return _of_project(scoped)
    return max(held, key=lambda h: (_precise(h[0]), len(h[2]) - (h[0].last - h[0].first), -h[0].first))


def _of_project(scoped: Scoped) -> tuple[Mention, list[Service], set[int]] | None:
    """The few services of the one project that a question names instead of a service."""
    for mention in scoped.mentions:
        projects = scoped.projects(mention)
        services = [
            scoped.house.services[n] for p in sorted(projects) for n in scoped.house.projects.get(p, ())
        ]
        if len(projects) == 1 and 0 < len(services) <= MAX_SCOPES:
            return mention, services, scoped.words(mention)
    return None


def _precise(mention: Mention) -> int:
    """How surely a mention is a service rather than a project or a network: the subject is the surest."""
    services = mention.of("service")
    if not services:
        return 0
    return 2 if mention.label in ("service", "container", "services", "containers", "database") else 1
