"""What configuration declares of each service, indexed for the rules."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, takewhile
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.knowledge.drift.facts import Authority, DocumentView, Fact, Texts
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import rows_of

# --- What is known of port numbers themselves, and what a text says of one

#: Ports beside the one that a program is known by: shells, names, peers of file sharing, discovery. A service
#: that declares only these may well listen on another for its users. From IANA's registry of service names
#: and the documentation of the programs.
SIDE = frozenset(
    {
        *(22, 53, 123, 161, 546, 547, 853, 1900, 2222, 3478, 5349, 5353, 6881, 7359, 21027, 22000, 27036),
        *(51413, 51820),
    }
)
#: Ports of protocols other than HTTP (same registry): nothing that a browser's proxy would be led to.
NOT_HTTP = SIDE | frozenset(
    {
        *(20, 21, 23, 25, 69, 110, 111, 119, 137, 138, 139, 143, 179, 389, 445, 465, 514, 554, 563, 587, 636),
        *(873, 989, 990, 993, 995, 1080, 1194, 1433, 1521, 1883, 1935, 2049, 2181, 3306, 3389, 4222),
        *(5060, 5061),
        *(5222, 5269, 5432, 5671, 5672, 5900, 6379, 6667, 6697, 8333, 8554, 8883, 9042, 9092, 11211, 25565),
        *(19132, 27015, 27017, 30033, 33060, 64738),
    }
)
#: Ports of proxies: behind them a name is served that another service answers.
OF_PROXIES = frozenset({80, 443})
#: A statement that has one of these is of another time, or of no time.
_NOT_NOW = re.compile(
    r"(?i)(?<![\w-])(?:was|were|formerly|previous\w*|earlier|old|used to|until|before|moved|changed?|changing"
    r"|instead|default\w*|optional\w*|example|e\.g|such as|planned|will|upgrad\w+|migrat\w+|free|unused"
    r"|blocked|closed|would|could|might|cannot|never|nothing)\b"
)
#: One that has one of these may speak of a port beside those that are declared.
_PURPOSE = re.compile(
    r"(?i)\b(?:metrics?|prometheus|exporters?|debug\w*|profil\w*|health\w*|gossip|clusters?|peers?|replica\w*"
    r"|discovery|dlna|telemetry|second\w*|another|alternative\w*|additional\w*)\b"
)
#: What makes a sentence less than certain besides.
_ASIDE = re.compile(
    r"(?i)\b(?:admin\w*|ssh|sftp|ftp|grpc|console|internal\w*|websockets?|webhooks?|smtp|imap|ldaps?|mqtt"
    r"|also|move|changes|tests?|testing|staging|development|should)\b"
)


def is_of_another_time(text: str) -> bool:
    """Whether a statement may be of another time, or of no time."""
    return _NOT_NOW.search(text) is not None


def is_of_a_purpose(text: str) -> bool:
    """Whether a statement may speak of a port beside the one that a thing is known by."""
    return _PURPOSE.search(text) is not None


def is_aside(sentence: str) -> bool:
    """Whether a sentence may speak of another port, or another time, than the one in force."""
    return is_of_another_time(sentence) or is_of_a_purpose(sentence) or _ASIDE.search(sentence) is not None


def names_number(text: str, number: int) -> bool:
    """Whether a number stands by itself in a text."""
    return re.search(rf"(?<![\d.]){number}(?!\d|\.\d)", text) is not None


def blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text with these spans (code points) left blank."""
    for start, end in spans:
        text = text[:start] + " " * (min(end, len(text)) - start) + text[end:]
    return text


def listed(ports: Iterable[int]) -> str:
    """Ports as people list them."""
    *most, last = [str(p) for p in sorted(set(ports))]
    return f"{', '.join(most)} and {last}" if most else last


#: Methods of formats that declare all published ports of a container in one place.
_CONTAINERS = ("compose_", "quadlet_")
#: Methods by which something else takes a port of a machine, if that machine is known.
_TAKING = frozenset({"systemd_listen", "kubernetes_host_port", "kubernetes_node_port"})
#: ... and one of an address that is asked for.
_TAKING_ADDRESSES = frozenset({"kubernetes_load_balancer", "kubernetes_external_ip"})
#: Methods by which a container has the network of another.
_SHARING = frozenset({"compose_network_mode", "quadlet_network", "quadlet_pod"})
_ANY = "0.0.0.0"
#: Fields of a service whose values are not known: its ports then are not either.
_NEEDED = frozenset({"ports", "expose", "network_mode", "networks", "profiles"})


@dataclass(slots=True)
class Service:
    """A declared service. ``host``: the machine that its scope names, or the source where none is known."""

    key: str
    name: str
    scope: str
    properties: dict[str, Any]
    #: BINDS of a container's declaration, by published port.
    published: dict[int, list[Fact]] = field(default_factory=lambda: defaultdict(list))
    #: Ports of a Service object of Kubernetes, which has no others.
    cluster: dict[int, list[Fact]] = field(default_factory=lambda: defaultdict(list))
    #: BINDS of other declarations than a container's, that take a port of a machine or an address.
    taken: list[Fact] = field(default_factory=list)
    #: Other statements of configuration that name a port of it, by port.
    named: dict[int, list[Fact]] = field(default_factory=lambda: defaultdict(list))
    #: References of images that it runs, by repository, as (tag, fact).
    images: dict[str, list[tuple[str, Fact]]] = field(default_factory=lambda: defaultdict(list))
    #: Documents that declare it.
    documents: set[str] = field(default_factory=set)
    networks: set[str] = field(default_factory=set)
    on_host_network: bool = False
    #: Whether it has the network of another service, or another has its.
    shares_network: bool = False
    #: Whether it is a container that one file declares.
    container: bool = False
    #: How many containers of it are declared; what they mount (``compose.volumes``), None where that is not
    #: read; the reference of the image, as written.
    replicas: int = 0
    mounts: list[str] | None = None
    image: str = ""
    #: What says which images it runs (as a container, built for it, as pods), and which networks it is on.
    references: list[Fact] = field(default_factory=list)
    builds: list[Fact] = field(default_factory=list)
    pods: list[Fact] = field(default_factory=list)
    joins: list[Fact] = field(default_factory=list)

    @property
    def host(self) -> str:
        return self.scope.rpartition("/")[0]

    @property
    def names(self) -> set[str]:
        """What it is called, in lower case."""
        alias = self.properties.get("containerName")
        return {self.name.lower(), *([str(alias).lower()] if alias else [])}

    @property
    def targets(self) -> set[int]:
        """Ports that the container listens on, as far as its declaration says."""
        found = {p for facts in self.published.values() for f in facts if (p := f.port("targetPort"))}
        first = self.properties.get("port")
        return found | ({first} if isinstance(first, int) else set())

    @property
    def known(self) -> set[int]:
        """Every port that some configuration names for it, of either side and protocol."""
        return {*self.published, *self.named, *self.targets}

    @property
    def is_object(self) -> bool:
        """Whether a manifest of a cluster, or a project, declares it, rather than only routes to it."""
        return "schemaVersion" in self.properties

    @property
    def opaque(self) -> bool:
        """Whether its ports are not all told by its own declaration."""
        unresolved = {str(u).partition(":")[0] for u in self.properties.get("unresolved") or ()}
        return (
            not (self.container or self.cluster)
            or self.on_host_network
            or self.shares_network
            or not _NEEDED.isdisjoint(unresolved)
        )

    def binds(self) -> tuple[Fact, ...]:
        return smallest(f for facts in self.published.values() for f in facts)


class Declared:
    """What the configuration of a namespace declares. ``nodes``: ``tables.NODES_SCHEMA``."""

    def __init__(
        self,
        namespace: str,
        facts: Sequence[Fact],
        nodes: pa.Table,
        documents: Mapping[str, DocumentView],
    ) -> None:
        self.facts = facts
        self.documents = documents
        self.services: dict[str, Service] = {}
        services = nodes.filter(pc.equal(nodes.column("label"), "Service"))
        for key, name, scope, properties in rows_of(services, "key", "name", "scope", "properties"):
            if scope:
                self.services[key] = Service(key, name, scope, json.loads(properties))
        self._nodes = nodes
        self._containers = {
            ids.container_id(namespace, s.scope, s.name, 1): s for s in self.services.values()
        }
        held = dict(rows_of(self._of("Container"), "key", "properties"))
        for key, service in self._containers.items():
            if key in held:
                said = json.loads(held[key])
                service.mounts = said.get("mounts") or ([] if "composeService" in said else None)
                service.image = str(said.get("image") or "")
                scope, name = service.scope, service.name
                further = (ids.container_id(namespace, scope, name, n) for n in count(2))
                service.replicas = 1 + sum(1 for _ in takewhile(held.__contains__, further))
        #: Names that containers have on their networks, in lower case.
        self.aliases: set[str] = set()
        #: Addresses that configuration gives to host names.
        self.addresses: dict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            self._note(fact)

    def _note(self, fact: Fact) -> None:
        if fact.type == "RUNS_IN":
            self._joined(fact)
        elif fact.type == "RESOLVES_TO":
            self.addresses[fact.start_key].append(fact)
        elif fact.type == "DEPENDS_ON":
            if not fact.methods.isdisjoint(_SHARING):
                for key in (fact.start_key, fact.end_key):
                    if key in self.services:
                        self.services[key].shares_network = True
        elif fact.type in ("ROUTES_TO", "CONNECTS_TO"):
            port = fact.port()
            ends = [fact.end_key]
            if "kubernetes_selector" in fact.methods:
                # The port of the pods is one of the Service in front of them too.
                ends.append(fact.start_key)
            for service in (self.services.get(key) for key in ends):
                if service is not None and port is not None:
                    service.named[port].append(fact)
        elif (service := self.services.get(fact.start_key)) is not None:
            self._stated(service, fact)
        if (service := self.services.get(fact.start_key)) is None:
            return
        if self._declares(fact):
            service.container = True
            service.documents.add(fact.doc_id)
        elif any(m.startswith("kubernetes_") for m in fact.methods):
            service.documents.add(fact.doc_id)

    def _stated(self, service: Service, fact: Fact) -> None:
        """What a service's own edge says: BINDS, BUILDS or EXPOSES_ENDPOINT."""
        if fact.type == "BINDS" and self._declares(fact):
            port = fact.port()
            if port is not None:
                service.published[port].append(fact)
        elif fact.type == "BINDS":
            for port in (fact.port(), fact.port("targetPort")):
                if port is not None:
                    service.named[port].append(fact)
            if fact.end_key != _ANY and fact.methods & (
                _TAKING if fact.end_label == "Host" else _TAKING_ADDRESSES
            ):
                service.taken.append(fact)
        elif fact.type == "EXPOSES_ENDPOINT":
            port = endpoint_of(fact).port
            service.named[port].append(fact)
            if "kubernetes_service_port" in fact.methods:
                service.cluster[port].append(fact)
        elif fact.type == "BUILDS" and fact.methods & {"compose_image", "quadlet_image"}:
            repository, tag = reference_of(fact.end_key)
            service.images[repository].append((tag, fact))
            service.references.append(fact)
        elif fact.type == "BUILDS" and "compose_build" in fact.methods:
            service.builds.append(fact)
        elif fact.type == "BUILDS" and "kubernetes_image" in fact.methods:
            service.pods.append(fact)

    def _joined(self, fact: Fact) -> None:
        service = self._containers.get(fact.start_key)
        self.aliases |= {str(a).lower() for a in fact.properties.get("aliases") or ()}
        if service is not None:
            service.networks.add(fact.end_key)
            service.joins.append(fact)
            service.on_host_network |= fact.properties.get("networkMode") == "host"

    @staticmethod
    def _declares(fact: Fact) -> bool:
        return any(m.startswith(_CONTAINERS) for m in fact.methods) and fact.type in ("BINDS", "BUILDS")

    # --- names ----------------------------------------------------------------------------------------------

    @cached_property
    def by_name(self) -> dict[str, list[Service]]:
        """Services by each of their names in lower case."""
        found: dict[str, list[Service]] = defaultdict(list)
        for service in self.services.values():
            for name in service.names:
                found[name].append(service)
        return found

    @cached_property
    def machines(self) -> set[str]:
        """What machines and containers are called, in lower case, with and without domain."""
        found: set[str] = {*self._named("Host", "TailscaleNode"), *self._containers_declared()}
        # The bare name in an endpoint is what a route says, which is in question.
        endpoints = (str(orjson.loads(key)[1]).lower() for key in self._keys("Endpoint"))
        found.update(name for name in endpoints if "." in name)
        return found | {name.partition(".")[0] for name in found}

    def _named(self, *labels: str) -> list[str]:
        return [str(name).lower() for (name,) in rows_of(self._of(*labels), "name")]

    def _containers_declared(self) -> Iterator[str]:
        for name, properties in rows_of(self._of("Container"), "name", "properties"):
            if json.loads(properties).get("declared") is not False:
                yield str(name).lower()

    def _keys(self, *labels: str) -> list[str]:
        return [str(key) for (key,) in rows_of(self._of(*labels), "key")]

    def _of(self, *labels: str) -> pa.Table:
        return self._nodes.filter(pc.is_in(self._nodes.column("label"), value_set=pa.array(labels)))

    @cached_property
    def engine_names(self) -> set[str]:
        """Names that engines give to services, in lower case: of stacks, and of the first Compose."""
        found = set()
        for service in self.services.values():
            name = f"{service.scope.rpartition('/')[2]}_{service.name}".lower()
            found |= {name, f"{name}_1"}
        return found

    @cached_property
    def proxies(self) -> dict[str, Service]:
        """The declared services that are reverse proxies, by the key of the proxy."""
        found = {}
        for fact in self.facts:
            if fact.type == "ROUTES_TO" and fact.start_key not in found:
                meant = self.by_name.get(fact.start_name.lower(), [])
                if len(meant) == 1:
                    found[fact.start_key] = meant[0]
        return found

    def is_machine(self, service: Service) -> bool:
        """Whether a machine is called as the service, so that a route may mean the machine."""
        return not service.names.isdisjoint(self._hosts)

    @cached_property
    def _hosts(self) -> set[str]:
        return {name.partition(".")[0] for name in self._named("Host", "TailscaleNode")}

    def names_of(self, host: str) -> set[str]:
        """The name and the addresses of a machine, as far as configuration tells them."""
        lower = host.lower()
        return {lower, *(f.end_key for f in self.addresses.get(lower, ()))}

    def is_taken(self, host: str, port: int) -> bool:
        """Whether anything that is declared has this port of a machine."""
        return (host, port) in self._ports_of_machines

    @cached_property
    def _ports_of_machines(self) -> set[tuple[str, int]]:
        taken = {(s.host, p) for s in self.services.values() for p in s.published}
        binds = (f for f in self.facts if f.type == "BINDS" and f.end_label == "Host")
        return taken | {(f.end_key, p) for f in binds if (p := f.port()) is not None}

    def folder(self, fact: Fact) -> str:
        """Where the file of a fact lies; empty if it is none."""
        document = self.documents.get(fact.doc_id)
        return document.folder if document is not None else ""

    def lying_in(self, folder: str) -> list[str]:
        """The documents of a folder that configure."""
        return sorted(
            i for i, d in self.documents.items() if d.folder == folder and d.standing is Authority.CONFIG
        )

    def folders(self, service: Service) -> set[str]:
        """Where the files that declare a service lie."""
        return {d.folder for i in service.documents if (d := self.documents.get(i)) and d.folder}

    @cached_property
    def _by_folder(self) -> dict[str, dict[str, list[Service]]]:
        found: dict[str, dict[str, list[Service]]] = defaultdict(lambda: defaultdict(list))
        for service in self.services.values():
            for folder in self.folders(service):
                for name in service.names:
                    found[folder][name].append(service)
        return found

    def meant(self, fact: Fact, name: str) -> Service | None:
        """The service that running text means by a name: the one that is called so, or of several the one
        whose files lie beside the text. None where it is not sure; text beside a project speaks of that
        project.
        """
        beside = self._by_folder.get(self.folder(fact)) if self.folder(fact) else None
        if beside is None and name == fact.start_observed:
            # As the reducer resolved it.
            return self.services.get(fact.start_key)
        there = (self.by_name if beside is None else beside).get(name.lower(), [])
        return there[0] if len(there) == 1 else None


def reference_of(key: str) -> tuple[str, str]:
    """Repository (with its registry) and tag of an image's key; the tag of a digest is empty."""
    reference = key.removeprefix("name:")
    if not key.startswith("name:") or "@" in reference:
        return reference.partition("@")[0], ""
    repository, colon, tag = reference.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (reference, "")


@dataclass(frozen=True, slots=True)
class EndpointKey:
    """What the key of an Endpoint says."""

    scheme: str
    host: str
    port: int
    path: str


def endpoint_of(fact: Fact) -> EndpointKey:
    """The Endpoint that a fact leads to."""
    scheme, host, port, path = json.loads(fact.end_key)
    return EndpointKey(str(scheme), str(host), int(port), str(path))


def smallest(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Facts once each, by place."""
    return tuple(sorted({f.edge_id: f for f in facts}.values(), key=lambda f: f.place))


def naming(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Facts that name a port, once each, by place; those first whose statement is the port's own, where that
    of a route is its rule."""
    return tuple(sorted(smallest(facts), key=lambda f: f.type != "EXPOSES_ENDPOINT"))


# --- What the text of a service's declaration says of a port, beside what its edges say

_SERVICES = re.compile(r"(?m)^services:[ \t]*(?:#.*)?$")
_LINE = re.compile(r"(?m)^(?P<indent>[ \t]*)(?P<rest>[^\s#].*)$")
#: What takes in values that stand elsewhere: aliases, merge keys, other services, other files.
_ELSEWHERE = re.compile(r"(?m)(?:^|[:\[,-])\s*\*\w|<<\s*:|^\s*(?:extends|env_file|configs|secrets)\s*:")


def names_port(service: Service, port: int, own: Iterable[Fact], text: Texts) -> bool:
    """Whether the files that declare a service give it a port in another way than by ``own`` and by what it
    publishes: in its environment, its command, a health check, a comment.

    Other services of a file have ports of their own, so of a Compose file only the service's part counts,
    where the whole of its declaration stands there for certain.
    """
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for fact in (*own, *service.binds()):
        spans[fact.doc_id] += fact.spans
    for doc_id in sorted(service.documents):
        whole = text(doc_id)
        begin, end = _part(whole, service.name)
        if names_number(blank(whole, spans[doc_id])[begin:end], port):
            return True
    return False


def _part(text: str, name: str) -> tuple[int, int]:
    """Where a Compose file in block style declares a service; the whole text where that is not sure."""
    whole = 0, len(text)
    services = _SERVICES.search(text)
    if services is None:
        return whole
    deep: str | None = None
    begin = None
    for line in _LINE.finditer(text, services.end()):
        if deep is None:
            deep = line["indent"]
        if len(line["indent"]) > len(deep) and begin is not None:
            continue
        if begin is not None:
            part = text[begin : line.start()]
            return whole if _ELSEWHERE.search(part) else (begin, line.start())
        if len(line["indent"]) < len(deep) or not deep:
            return whole
        if line["indent"] == deep and re.fullmatch(
            rf"[\"']?{re.escape(name)}[\"']?\s*:\s*(?:#.*)?", line["rest"]
        ):
            begin = line.start()
    return whole if begin is None or _ELSEWHERE.search(text[begin:]) else (begin, len(text))
