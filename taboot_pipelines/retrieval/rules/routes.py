"""Rules about how services are reached: routes, logins, certificates, ports, names and addresses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from taboot_pipelines.knowledge.drift.facts import DriftKind
from taboot_pipelines.model.stores import alike
from taboot_pipelines.retrieval.queries.citations import StatementSpan, cite, cites, listed
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry
from taboot_pipelines.retrieval.queries.house import TraefikRouter
from taboot_pipelines.retrieval.queries.logins import OF_LABELS, checked_by, is_on, login, root_of
from taboot_pipelines.retrieval.queries.relations import (
    guard_product,
    guards,
    networks_of,
    reachable,
    target_name_of,
    target_of,
)
from taboot_pipelines.retrieval.queries.service_index import Edge
from taboot_pipelines.retrieval.queries.services import drifted
from taboot_pipelines.retrieval.rules.declarations import RuleHouse, Violation, spot
from taboot_pipelines.retrieval.rules.services import Find
from taboot_pipelines.sources import Stance, stance_of

#: The proxies of which all that decides about TLS and logins stands in the file of the route.
_TELLING = frozenset({"nginx_proxy_pass", "caddy_upstream"})
#: Services that ask for the logins of others.
_ASKING = frozenset({"auth", "keycloak", "dex", "sso", "oauth", "pocket-id", "zitadel", "kanidm"})
#: Ports by which stores are asked, by the products that are asked by the same protocol.
_PORTS = {
    product: ports
    for name, ports in (
        ("postgres", {5432}),
        ("mysql", {3306}),
        ("mongo", {27017}),
        ("redis", {6379}),
        ("memcached", {11211}),
        ("elasticsearch", {9200, 9300}),
        ("opensearch", {9200, 9300}),
        ("influxdb", {8086}),
        ("clickhouse", {8123, 9000}),
        ("couchdb", {5984}),
        ("cassandra", {9042}),
        ("neo4j", {7687, 7474}),
        ("rabbitmq", {5672}),
        ("mssql", {1433}),
        ("etcd", {2379}),
        ("zookeeper", {2181}),
    )
    for product in alike(frozenset({name}))
}


def drift(kind: DriftKind) -> Find:
    """The rule that nothing drifted in one way."""

    def find(house: RuleHouse) -> Iterator[Violation]:
        for row in drifted(house.house, kind, "name"):
            if all(house.in_force(span.doc_id) for span in row.cites):
                yield Violation(str(row.cells["name"]), str(row.cells["statement"]), row.cites)

    return find


def store_published(house: RuleHouse) -> Iterator[Violation]:
    bound = house.by_start("BINDS")
    for one in house.declarations:
        words = {w for name in house.products(one) for w in re.split(r"[^a-z0-9]+", name.rpartition("/")[2])}
        asked = {port for word in words for port in _PORTS.get(word, ())} if house.is_store(one) else set()
        for edge in reachable(bound.get(one.service.number, ())):
            if (edge.properties.get("targetPort") or edge.properties["port"]) in asked:
                at = f"{edge.properties.get('hostIp') or 'every address'} port {edge.properties['port']}"
                yield Violation(one.called, f"It answers on {at} of its host.", [cite(edge)])


def route_without_login(house: RuleHouse) -> Iterator[Violation]:
    """Of proxies whose files tell whether they ask, and but for services that do the asking themselves.

    What a file says of a target at a host name is said of its front door, the route with the shortest path.
    """
    asking = {guard_product(e) for e in house.edges("EXPOSES_ENDPOINT", "ROUTES_TO")} | _ASKING
    checking = checked_by(house.house)
    doors: dict[tuple[object, ...], list[Edge]] = defaultdict(list)
    for route in house.edges("ROUTES_TO"):
        doors[route.doc_id, route.end, route.properties.get("port"), _host(route)].append(route)
    for routes in doors.values():
        to = target_name_of(house.index, routes[0])
        if any(word and word in to.lower() for word in asking) or routes[0].end in checking:
            continue
        shortest = min(map(_depth, routes))
        for route in routes:
            if _depth(route) == shortest and _has_name(route) and login(house.house, route).how == "":
                said_of_it = f"The proxy leads to {to} without asking for a login."
                yield Violation(_way(route), said_of_it, [_router_of(house, route)])


def _router_of(house: RuleHouse, route: Edge) -> StatementSpan:
    """Where a route is mended: at the rule of its router, where that does not stand with what it leads to."""
    router = house.house.router(route)
    rule = router.options.get("rule") if router is not None else None
    if rule is None or rule.value.line == route.line:
        return cite(route)
    return replace(cite(route), line=rule.value.line, start=rule.value.start, end=rule.value.end)


def _depth(route: Edge) -> tuple[bool, int]:
    """How far a route lies behind the front door; a pattern has no path and lies behind all that have one."""
    path = route.properties.get("path")
    return path is None, len(str(path or ""))


def _host(route: Edge) -> str:
    """The host name as it is written: what a comment calls it is not certain."""
    return str(route.properties.get("host") or "")


def _way(route: Edge) -> str:
    path = str(route.properties.get("path") or route.properties.get("location") or "/")
    return f"{_host(route)}{'' if path == '/' else path}"


def _has_name(route: Edge) -> bool:
    host = _host(route)
    return "." in host and not host.startswith("localhost")


def route_without_tls(house: RuleHouse) -> Iterator[Violation]:
    routes = [e for e in house.edges("ROUTES_TO") if e.method in _TELLING]
    secured = {_host(e) for e in routes if e.properties.get("tls")}
    for route in routes:
        host = _host(route)
        if not route.properties.get("tls") and _has_name(route) and host not in secured:
            at, to = _way(route), target_name_of(house.index, route)
            yield Violation(at, f"The proxy leads to {to} without TLS.", [cite(route)])


def login_passed_by(house: RuleHouse) -> Iterator[Violation]:
    for route in house.edges("ROUTES_TO"):
        asked = guards(house.index, route)
        for edge in reachable(house.index.out(route.end, "BINDS")) if asked else ():
            port = edge.properties["port"]
            same = (edge.properties.get("targetPort") or port) == route.properties.get("port")
            if same and house.in_force(edge.doc_id) and edge.start in house.by_number:
                said = f"The proxy asks for a login before it, and port {port} of its host does not."
                yield Violation(house.by_number[edge.start].called, said, cites([edge, *asked]))


def routed_twice(house: RuleHouse) -> Iterator[Violation]:
    """Of files that decide it alone, and of Traefik's routers that match the same with the same priority."""
    held: dict[tuple[object, ...], dict[str, Edge]] = defaultdict(dict)
    for route in house.edges("ROUTES_TO"):
        host, router = _host(route), house.house.router(route)
        if (route.method in _TELLING or router is not None) and _has_name(route):
            at = (route.start, host, route.properties.get("location") or route.properties.get("path"))
            own = (_said(router, "rule"), _said(router, "entrypoints"), _said(router, "priority"))
            held[(*at, *own)].setdefault(target_of(house.index, route), route)
    for targets in held.values():
        # Several in one file are the servers of one upstream, and of one router those of its service.
        routers = {e.edge_id: (e.doc_id, r.name if r else "") for e, r in _with_routers(house, targets)}
        if len(set(routers.values())) == len(targets) > 1:
            way = _way(next(iter(targets.values())))
            yield Violation(way, f"It leads to {listed(sorted(targets))}.", cites(targets.values()))


def _with_routers(
    house: RuleHouse, targets: Mapping[str, Edge]
) -> Iterator[tuple[Edge, TraefikRouter | None]]:
    return ((edge, house.house.router(edge)) for edge in targets.values())


def _said(router: TraefikRouter | None, option: str) -> str:
    entry = router.options.get(option) if router is not None else None
    return "".join(entry.value.value.split()) if entry is not None else ""


_TAKEN = re.compile(r"(?i)(?:^|\.|--)(?:traefik_)?providers[._](?:docker|swarm)[._]exposedbydefault$")


def router_not_taken(house: RuleHouse) -> Iterator[Violation]:
    """Of containers with routers where the static configuration in their folders takes none of itself."""
    told: dict[str, list[ConfigEntry]] = defaultdict(list)
    for document in house.holding(re.compile("(?i)exposedbydefault")):
        held = house.house.entries.of_document(document.doc_id)
        told[root_of(house.house, document.doc_id)] += [e for e in held if _TAKEN.search(e.value.key)]
    routed = {e.end: e for e in house.edges("ROUTES_TO") if e.method == OF_LABELS} if told else {}
    for one in house.declarations:
        route = routed.get(one.service.number)
        said = told.get(root_of(house.house, route.doc_id), ()) if route is not None else ()
        labels = {e.value.path[-1].lower(): e for e in one.all("labels", "deploy.labels")}
        if route is None or not said or any(is_on(e) for e in said) or "traefik.enable" in labels:
            continue
        at = f"{said[0].document.path}:{said[0].value.line}"
        statement = (
            f"Its labels have a router, and Traefik takes no container without `traefik.enable` ({at})."
        )
        yield Violation(one.called, statement, [cite(route), said[0].cite])


def network_of_no_name(house: RuleHouse) -> Iterator[Violation]:
    """Of containers whose networks are all known, and of which Traefik shall use another one."""
    names = {house.index.name(n) for n in house.index.of_label("Network")}
    for one in house.declarations:
        own = {house.index.name(e.end) for e in networks_of(house.index, one.service)}
        for entry in one.all("labels", "deploy.labels"):
            wanted = entry.value.value.strip()
            key = entry.value.path[-1].lower()
            asked = key in ("traefik.docker.network", "traefik.swarm.network") and not re.search(
                r"[${]", wanted
            )
            if asked and own and wanted not in names:
                said = f"Traefik shall reach it by the network {wanted}; its networks are"
                yield Violation(one.called, f"{said} {listed(sorted(own))}.", [entry.cite])


def certificate_without_host(house: RuleHouse) -> Iterator[Violation]:
    for one in house.manifests(re.compile(r"(?m)^kind:\s*Ingress\b")):
        covered = {v.value.strip() for v in one.under("spec", "tls", "hosts")}
        for value in one.under("spec", "rules", "host") if one.kind == "Ingress" and covered else ():
            host = value.value.strip()
            plain = not re.search(r"[${]", host + "".join(covered))
            if plain and not any(fnmatchcase(host, c) and host.count(".") == c.count(".") for c in covered):
                said = f"Its certificates are for {listed(sorted(covered))}, and it answers to {host}."
                yield Violation(one.called, said, [spot(one.document, value)])


def scraped_and_undeclared(house: RuleHouse) -> Iterator[Violation]:
    scraped = [
        e
        for e in house.edges("CONNECTS_TO")
        if e.method == "prometheus_scrape" and e.start in house.by_number and e.end in house.index.services
    ]
    unknown = [
        e for e in scraped if e.end not in house.by_number and not house.index.services[e.end].declared
    ]
    # Where most names are declared elsewhere, the house is not read whole.
    if 2 * len(unknown) > len(scraped):
        return
    for edge in unknown:
        name = house.index.name(edge.end)
        if "." not in name and not edge.properties.get("unresolved"):
            said = f"Prometheus asks {name}, which nothing declares."
            yield Violation(name, said, [cite(edge)])


_JOB = re.compile(r"\bjob\s*(=~?)\s*\"([^\"]*)\"")


def alert_on_unknown_job(house: RuleHouse) -> Iterator[Violation]:
    jobs: dict[str, StatementSpan] = {}
    for document in house.holding(re.compile(r"(?m)^scrape_configs:")):
        for value in house.values(document):
            if value.path == ("scrape_configs", "job_name"):
                jobs.setdefault(value.value, spot(document, value))
            if value.path[0] == "scrape_config_files":
                return  # more jobs stand elsewhere
    if not jobs:
        return
    for document in house.holding(re.compile(r"(?m)^groups:")):
        for value in house.values(document):
            for how, wanted in _JOB.findall(value.value) if value.path == ("groups", "rules", "expr") else ():
                names = wanted.split("|") if how == "=~" else [wanted]
                for name in names if re.fullmatch(r"[\w|/ -]+", wanted) else ():
                    if name not in jobs:
                        said = f"A rule asks for the job {name}; scraped are {listed(sorted(jobs))}."
                        yield Violation(f"{document.path}:{name}", said, [spot(document, value)])


def name_with_two_addresses(house: RuleHouse) -> Iterator[Violation]:
    held: dict[tuple[int, str], dict[str, list[Edge]]] = defaultdict(lambda: defaultdict(list))
    for edge in house.edges("RESOLVES_TO"):
        address = house.index.name(edge.end)
        if edge.method == "hosts_file":
            held[edge.start, "6" if ":" in address else "4"][address].append(edge)
    for (host, _), found in held.items():
        if len(found) > 1:
            name = house.index.name(host)
            said = f"{name} is {listed(list(found))}: the first that is found counts."
            yield Violation(name, said, cites(e for edges in found.values() for e in edges))


def _policies(house: RuleHouse) -> Iterator[tuple[str, tuple[str, ...], str, str, StatementSpan]]:
    """What tailnets' policies let through: path, sources, target, ports, where it stands."""
    from taboot_pipelines.errors import TabootError
    from taboot_pipelines.extraction.tier_a.tailscale.forms import JsonText
    from taboot_pipelines.extraction.tier_a.tailscale.policy import parse_policy, port_list

    for document in house.index.documents.values():
        text = house.index.text(document.doc_id) if stance_of(document.source_type) is Stance.RECORDS else ""
        if not re.search(r'"(?:acls|grants)"', text) or not house.in_force(document.doc_id):
            continue
        try:
            read = JsonText(document.path, text)
        except TabootError:
            continue
        for rule in parse_policy(read, read.root, lambda _, __: None).rules:
            start, end = rule.evidence.start, rule.evidence.end
            span = StatementSpan(document.doc_id, text.count("\n", 0, start) + 1, start, end)
            for target in () if rule.posture or rule.via else rule.targets:
                for allowance in target.allowances:
                    yield document.path, rule.sources, target.selector, port_list(allowance.ports), span


def tailnet_open(house: RuleHouse) -> Iterator[Violation]:
    for path, sources, target, ports, span in _policies(house):
        if "*" in sources and target == "*" and ports == "*":
            yield Violation(path, "It lets everyone reach every port of every device.", [span])


def exit_node(house: RuleHouse) -> Iterator[Violation]:
    for one in house.declarations:
        for entry in one.each("environment", "command"):
            if "--advertise-exit-node" in entry.value.value and "exit-node=false" not in entry.value.value:
                yield Violation(one.called, "It offers to be an exit node of the tailnet.", [entry.cite])
