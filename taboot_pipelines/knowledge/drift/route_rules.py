"""Routes of proxies against what is declared: wrong ports, and names of nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

from taboot_pipelines.knowledge.drift.declared import (
    NOT_HTTP,
    OF_PROXIES,
    Declared,
    Service,
    endpoint_of,
    listed,
    names_port,
    naming,
    smallest,
)
from taboot_pipelines.knowledge.drift.facts import Drift, DriftKind, Fact, Side, StatedSpan, Texts

#: Names that mean the machine itself, or are given by the engine.
_GIVEN = frozenset({"localhost", "host", "gateway", "dockerhost", "backend", "upstream", "default"})
_HTTP = frozenset({"http", "https", "ws", "wss"})
#: So much of what a proxy routes to by bare names must be declared before a name that is not is missed.
_MIN_SHARE, _MIN_SHARE_UNKNOWN_PROXY, _MIN_KNOWN_UNKNOWN_PROXY = 0.5, 0.66, 2
#: Routes within a cluster of Kubernetes, to its Service objects.
_CLUSTER = frozenset({"kubernetes_ingress", "traefik_ingressroute"})
#: Kinds of objects that bring no Service beside those which manifests show; a chart, and what an operator is
#: told to run, may.
_PLAIN_KINDS = frozenset(
    {
        *(
            "Deployment",
            "StatefulSet",
            "DaemonSet",
            "ReplicaSet",
            "Pod",
            "Job",
            "CronJob",
            "Service",
            "Endpoints",
        ),
        *(
            "EndpointSlice",
            "Ingress",
            "IngressClass",
            "IngressRoute",
            "IngressRouteTCP",
            "IngressRouteUDP",
            "Rule",
        ),
        *("Middleware", "MiddlewareTCP", "TLSOption", "TLSStore", "ServersTransport", "TraefikService"),
        *("ConfigMap", "Secret", "SealedSecret", "ExternalSecret", "Namespace", "ServiceAccount", "List"),
        *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "User", "Group", "NetworkPolicy"),
        *("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "HorizontalPodAutoscaler"),
        *("PodDisruptionBudget", "Certificate", "Issuer", "ClusterIssuer", "Kustomization"),
    }
)
_KIND = re.compile(r"(?m)^[\s-]*[\"']?kind[\"']?\s*:\s*[\"']?(\w+)")
#: A kustomization that takes in manifests from elsewhere, or charts.
_TAKEN_IN = re.compile(r"(?m)^\s*-\s*[\"']?(?:\.\./|https?://|git@|github\.com)|^\s*helm\w*:")


#: The ports at which the declaration of a service says that it listens beside those that it publishes, and
#: where it says so.
Listening = Callable[[Service], Mapping[int, StatedSpan]]


def routes_to_wrong_ports(declared: Declared, text: Texts, listening: Listening) -> Iterator[Drift]:
    """Routes to a port that the service does not listen on.

    Where proxy and service are on one network, the port must be one of the container's: a route to the
    *published* port of a mapping is wrong, and so is one to a port that the declaration of the service names
    nowhere, if that service declares a port for HTTP and no other route leads to it. Containers may
    listen on ports that they do not declare: a service that declares none for HTTP is not judged. Where the
    two share no network, either side of a mapping may be meant: a network can be joined by hand. In a cluster
    it must be one of the Service's.
    """
    routes = [f for f in declared.facts if f.type == "ROUTES_TO" and f.end_key in declared.services]
    routes.sort(key=lambda f: (f.end_key, f.port() or 0, f.start_key, f.place))
    for (key, port, proxy_key), group in groupby(routes, lambda f: (f.end_key, f.port(), f.start_key)):
        facts = list(group)
        service, proxy = declared.services[key], declared.proxies.get(proxy_key)
        if port is None or proxy is service:
            continue
        name = facts[0].start_name
        if any(f.methods & _CLUSTER for f in facts):
            if port not in service.cluster and _is_same_cluster(declared, service, facts):
                told = [f for own in service.cluster.values() for f in own]
                has = f"the Service has {listed(service.cluster)}"
                yield _wrong_port(service, name, port, f"and {has}", facts, Side(has, smallest(told)))
        elif service.container and not service.opaque and not declared.is_machine(service):
            judged = _why_wrong(service, proxy, port, facts, text, listening)
            if judged is not None:
                own = [f for f in service.named[port] if f.type == "EXPOSES_ENDPOINT"]
                yield _wrong_port(service, name, port, judged[0], [*own, *facts], judged[1])


def _wrong_port(service: Service, proxy: str, port: int, why: str, facts: list[Fact], side: Side) -> Drift:
    return Drift(
        DriftKind.ROUTE_PORT,
        "Service",
        service.key,
        service.name,
        f"{proxy} routes to {service.name}:{port}, {why}.",
        (Side(f"{proxy} routes to port {port}", naming(facts)), side),
    )


def mapped(service: Service) -> str:
    """The ports of a service as Compose writes them, TCP first."""
    written = {
        (protocol if protocol != "tcp" else "", port, fact.port("targetPort") or port)
        for port, facts in service.published.items()
        for fact in facts
        for protocol in [str(fact.properties.get("protocol"))]
    }
    return ", ".join(
        f"{outer}:{inner}{protocol and f'/{protocol}'}" for protocol, outer, inner in sorted(written)
    )


def _is_same_cluster(declared: Declared, service: Service, facts: list[Fact]) -> bool:
    """Whether routes mean this Service object: manifests without a namespace meet in `default`, whatever
    cluster they are for, so there the files must lie together."""
    if not service.cluster:
        return False
    folders = declared.folders(service)
    return not service.scope.endswith("/default") or all(declared.folder(f) in folders for f in facts)


def _why_wrong(
    service: Service,
    proxy: Service | None,
    port: int,
    facts: list[Fact],
    text: Texts,
    listening: Listening,
) -> tuple[str, Side] | None:
    """What is wrong with a route, as a clause, and what says so; None if that is not certain."""
    tcp = [f for f in service.binds() if f.properties.get("protocol") == "tcp"]
    targets = {p for f in tcp if (p := f.port("targetPort"))}
    outside = {p for f in tcp if (p := f.port())}
    if port in service.targets or (service.published and not targets):
        return None
    if port in outside and proxy is not None and _is_apart(proxy, service):
        return None
    own = [*facts, *(f for f in service.named.get(port, ()) if f.doc_id in {r.doc_id for r in facts})]
    if any(f not in own for f in service.named.get(port, ())) or names_port(service, port, own, text):
        return None
    publishes = Side(f"{service.name} publishes {mapped(service)}", service.binds())
    if port in outside:
        return f"which is the published port: the container listens on {listed(targets)}", publishes
    if any(f.properties.get("scheme") not in (None, *_HTTP) for f in facts):
        return None
    told = {} if targets - NOT_HTTP else listening(service)
    http = (targets | told.keys()) - NOT_HTTP
    if any(f.type == "ROUTES_TO" for p in http for f in service.named.get(p, ())):
        return None
    if http:
        at = f"{service.name} is told to listen on {listed(http)}"
        side = Side(at, stands=tuple(told[p] for p in sorted(http))) if told else publishes
        return f"and the container is declared to listen on {listed(http)}", side
    asked = {p: f for p, named in service.named.items() for f in named if "compose_env_url" in f.methods}
    if not asked.keys() - NOT_HTTP or port in asked:
        return None
    at = f"others ask {service.name} on {listed(asked)}"
    return f"and {at}", Side(at, smallest(asked.values()))


def _is_apart(proxy: Service, service: Service) -> bool:
    """Whether a proxy certainly has no network with a service."""
    if proxy.shares_network or service.shares_network or not service.networks:
        return False
    if proxy.on_host_network:
        return True
    return bool(proxy.networks) and proxy.networks.isdisjoint(service.networks)


def routes_past_services(declared: Declared, text: Texts) -> Iterator[Drift]:
    """Routes by which a machine is asked for a service on a port that the service does not publish there.

    Which service is meant, the host of the route tells: `jellyfin.example.org` at `hearth.lan:8097`, where
    the service `jellyfin` of `hearth.lan` publishes 8096 only. Nothing else of that machine may publish the
    port, nothing else of the configuration may name it, and no other service there may be called alike.
    """
    told: dict[tuple[str, int], set[str]] = defaultdict(set)
    routes: dict[tuple[str, str, str, int], list[Fact]] = defaultdict(list)
    for fact in declared.facts:
        if fact.end_label != "Endpoint":
            continue
        end = endpoint_of(fact)
        told[end.host, end.port].add(fact.doc_id)
        if fact.type == "ROUTES_TO" and end.scheme in _HTTP:
            wanted = str(fact.properties.get("host") or "").lower().partition(".")[0]
            service = _asked_for(declared, wanted, end.host)
            if service is not None:
                routes[service.key, fact.start_key, end.host, end.port].append(fact)
    for (key, _, host, port), facts in sorted(routes.items()):
        service = declared.services[key]
        tcp = {p for f in service.binds() if f.properties.get("protocol") == "tcp" and (p := f.port())}
        if port in OF_PROXIES or not tcp - NOT_HTTP or declared.is_taken(service.host, port):
            continue
        if told[host, port] - {f.doc_id for f in facts} or names_port(service, port, facts, text):
            continue
        name = facts[0].start_name
        publishes = f"{service.name} publishes {mapped(service)}"
        yield Drift(
            DriftKind.ROUTE_PORT,
            "Service",
            service.key,
            service.name,
            f"{name} routes {facts[0].properties['host']} to {host}:{port}, where {publishes}.",
            (Side(f"{name} routes to {host}:{port}", smallest(facts)), Side(publishes, service.binds())),
        )


def _asked_for(declared: Declared, name: str, host: str) -> Service | None:
    """The one container of a machine that a name means, if its ports are all known."""
    there = [s for s in declared.by_name.get(name, ()) if host in declared.names_of(s.host)]
    if len(there) != 1 or not there[0].container or there[0].opaque:
        return None
    (service,) = there
    alike = (s for s in declared.services.values() if s is not service and s.host == service.host)
    return None if any(n.startswith(name) for s in alike for n in s.names) else service


def missing_upstreams(declared: Declared, text: Texts) -> Iterator[Drift]:
    """Routes to a bare name that nothing declares: no service, container, alias, machine or host name.

    Only where the projects of the proxy's machine are known: most of the bare names that it routes to must be
    declared, and the proxy itself, or at least two of these names.
    """
    routes: dict[str, dict[str, list[Fact]]] = defaultdict(lambda: defaultdict(list))
    for fact in declared.facts:
        if fact.type == "ROUTES_TO" and fact.end_label == "Service" and fact.methods.isdisjoint(_CLUSTER):
            routes[fact.start_key][fact.end_key].append(fact)
    for proxy_key, ends in sorted(routes.items()):
        missing = {k: f for k, f in ends.items() if _is_missing(declared, k, f[0].end_name)}
        known = sum(k in declared.services for k in ends)
        proxy = declared.proxies.get(proxy_key)
        enough = (_MIN_SHARE, 1) if proxy else (_MIN_SHARE_UNKNOWN_PROXY, _MIN_KNOWN_UNKNOWN_PROXY)
        if not missing or known < enough[1] or known < enough[0] * len(ends):
            continue
        for key, facts in sorted(missing.items()):
            if not _is_host_name(declared, facts[0].end_name, text):
                yield _missing(key, facts, "which no project declares")


def missing_cluster_services(declared: Declared, text: Texts) -> Iterator[Drift]:
    """Routes of Ingresses to a Service that no manifest of the namespace declares.

    Charts and operators bring Services that no manifest shows. So the routes of one folder are judged only if
    most of their Services are declared there, and all that it holds is plain.
    """
    routes: dict[tuple[str, str], dict[str, list[Fact]]] = defaultdict(lambda: defaultdict(list))
    for fact in declared.facts:
        if fact.type == "ROUTES_TO" and fact.end_key in declared.services and fact.methods & _CLUSTER:
            scope = declared.services[fact.end_key].scope
            routes[declared.folder(fact), scope][fact.end_key].append(fact)
    for (folder, _), ends in sorted(routes.items()):
        missing = [k for k in ends if not declared.services[k].is_object]
        here = [k for k in ends if folder in declared.folders(declared.services[k])]
        if not folder or not missing or len(here) < max(1, _MIN_SHARE * len(ends)):
            continue
        if any(_brings_services(text(d)) for d in declared.lying_in(folder)):
            continue
        for key in sorted(missing):
            yield _missing(key, ends[key], "a Service that no manifest declares")


def _brings_services(manifest: str) -> bool:
    return _TAKEN_IN.search(manifest) is not None or any(
        k[1] not in _PLAIN_KINDS for k in _KIND.finditer(manifest)
    )


def _missing(key: str, facts: list[Fact], what: str) -> Drift:
    name, first = facts[0].end_name, min(facts, key=lambda f: f.place)
    return Drift(
        DriftKind.MISSING_UPSTREAM,
        "Service",
        key,
        name,
        f"{first.start_name} routes to {name}, {what}.",
        (Side(f"{first.start_name} routes to {name}", smallest(facts)),),
    )


def _is_missing(declared: Declared, key: str, name: str) -> bool:
    lower = name.lower()
    return (
        key not in declared.services
        and lower not in _GIVEN
        and "." not in lower
        and lower not in declared.by_name
        and lower not in declared.aliases
        and lower not in declared.machines
        and lower not in declared.engine_names
    )


def _is_host_name(declared: Declared, name: str, text: Texts) -> bool:
    """Whether a file that declares services gives one this name in another way: ``hostname``, or a link's."""
    said = re.compile(rf"(?i)(?:host_?name\s*[:=]\s*[\"']?|[\w.-]:){re.escape(name)}[\"']?\s*$", re.MULTILINE)
    return any(
        said.search(text(d)) for d in sorted({d for s in declared.services.values() for d in s.documents})
    )
