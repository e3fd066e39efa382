"""What the edges of a house mean together: what needs what, which networks a service is on, and how a route
leads to its target."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

from taboot_pipelines.retrieval.queries.citations import StatementSpan
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, ServiceIndex, distinct

#: What a comment draws: a line or a corner, or a mark that is repeated.
_RULE = re.compile(r"[\u2500-\u259f]+|(?<![^\s])([-=#*~_+/.])\1{2,}(?![^\s])")
#: Services that a transitive question walks over.
MAX_WALK = 500
#: Domains that nobody has in public: RFC 6762, RFC 8375, ICANN's resolution of 2024, and those of routers.
PRIVATE_DOMAINS = frozenset(
    [
        "home",
        "lan",
        "local",
        "internal",
        "localdomain",
        "intranet",
        "private",
        "corp",
        "homelab",
        "lab",
        "box",
        "test",
    ]
)


def in_force(house: ServiceIndex, edges: Sequence[Edge]) -> list[Edge]:
    """The edges of files in force; where all are examples, those."""
    own = [e for e in edges if not house.is_example(e.doc_id)]
    return own or list(edges)


# --- Needs


def is_order(edge: Edge) -> bool:
    """Whether a dependency says no more than what starts first."""
    return edge.properties.get("kind") == "order"


def depends_in_name(edge: Edge) -> bool:
    """Whether a statement is one that its format calls a dependency; `After=` calls itself an order."""
    return edge.type != "DEPENDS_ON" or edge.properties.get("condition") != "after"


def shares_namespace(edge: Edge) -> bool:
    """Whether a service uses the network namespace of the one that it depends on."""
    return "compose_network_mode" in edge.methods


def walk(house: ServiceIndex, node: int, *, forward: bool) -> list[Edge]:
    """The dependency edges reached from a service, nearest first, each service once."""
    seen, found, layer = {node}, [], [node]
    while layer and len(seen) < MAX_WALK:
        following = []
        for at in layer:
            edges = house.out(at, "DEPENDS_ON") if forward else house.into(at, "DEPENDS_ON")
            for edge in filter(depends_in_name, edges):
                other = edge.end if forward else edge.start
                if other not in seen:
                    seen.add(other)
                    found.append(edge)
                    following.append(other)
        layer = following
    return found


def left_open(service: Service, field: str) -> list[str]:
    """What of a field of its declaration is set elsewhere, by variables that have no value: the ports of a
    service with ``${PORT}:80`` are not known, which is another thing than that it has none."""
    marks = (m.partition(": ") for m in service.properties.get("unresolved") or ())
    return list(dict.fromkeys(value for name, _, value in marks if name == field))


def used_by(house: ServiceIndex, service: Service) -> list[Edge]:
    """What a service connects to or needs; where several files say so, those in force."""
    edges = house.out(service.number, "CONNECTS_TO", "DEPENDS_ON")
    return in_force(house, [e for e in edges if depends_in_name(e) and e.end in house.services])


def unexplained_mentions(house: ServiceIndex, service: Service) -> list[Edge]:
    """The mentions of a service in documents of which nothing more is known about it, one a document, those
    beside a declaration of it first: what they say may be a dependency that no declaration states."""
    node = service.number
    container = house.container_of.get(node, node)
    known = {e.doc_id for n in (node, container) for e in (*house.out(n), *house.into(n))}
    once = {e.doc_id: e for e in reversed(house.mentions(node)) if e.doc_id not in known}

    def folder(doc_id: str) -> str:
        document = house.documents[doc_id]
        return posixpath.dirname(posixpath.join(house.roots.get(document.source, ""), document.path))

    own = {folder(doc_id) for doc_id in house.declaring(service)}
    return sorted(once.values(), key=lambda e: (folder(e.doc_id) not in own, house.documents[e.doc_id].path))


#: What the names of Services in full have in common (kubernetes.io, "DNS for Services and Pods").
_IN_FULL = r"(?<![\w.-])(?:[\w-]+\.)*{name}(?:-[\w-]+)*\.{namespace}\.svc\b"


def named_in_full(house: ServiceIndex, other: Service, service: Service | None = None) -> list[StatementSpan]:
    """Where files that state nothing name a service of a cluster in full, or what is called after it, as
    charts and operators call their Services: of each file the first place. ``service``: only the files at or
    below those that declare it, and these themselves."""
    name, namespace = re.escape(other.name), re.escape(other.project)
    pattern = re.compile(_IN_FULL.format(name=name, namespace=namespace)) if other.project else None
    # Those that only need it state it too.
    own = house.declaring(service) or house.stating(service) if service is not None else []
    within = {(house.documents[d].source, posixpath.dirname(house.documents[d].path)) for d in own}
    found = []
    for document in house.config_documents if pattern is not None else ():
        above = posixpath.dirname(document.path)
        near = service is None or any(
            document.source == source and (not folder or f"{above}/".startswith(f"{folder}/"))
            for source, folder in within
        )
        states = document.doc_id in house.graph.stating and document.doc_id not in own
        text = house.text(document.doc_id) if near and not states and not document.example else ""
        match = pattern.search(text) if pattern is not None and ".svc" in text else None
        if match is not None:
            line = text.count("\n", 0, match.start()) + 1
            found.append(StatementSpan(document.doc_id, line, match.start(), match.end()))
    return found


# --- Networks


def networks_of(house: ServiceIndex, service: Service) -> list[Edge]:
    """The networks that a service's container is on."""
    container = house.container_of.get(service.number)
    return house.out(container, "RUNS_IN") if container is not None else []


def is_built_in(house: ServiceIndex, network: int) -> bool:
    """Whether a network is one that Docker makes on each machine: two machines have two of one name."""
    return house.name(network) in ("bridge", "host", "none")


def declaring_edges(house: ServiceIndex, service: Service) -> list[Edge]:
    """Where a service is declared: its image, else any edge of its container; at most one."""
    edges = house.out(service.number, "BUILDS")
    container = house.container_of.get(service.number)
    if container is not None and not edges:
        edges = house.out(container, "RUNS_IN", "RUNS")
    return edges[:1]


def declared_description(house: ServiceIndex, service: Service) -> tuple[str, StatementSpan] | None:
    """The description that a label, a comment or a unit gives a service, and where it stands."""
    told = service.properties.get("description", "").removesuffix("…").split()
    words = re.compile(r"[\s#]+".join(map(re.escape, told)))
    for doc_id in house.declaring(service) if told else ():
        text = house.text(doc_id)
        match = words.search(text)
        if match is not None:
            line = text.count("\n", 0, match.start()) + 1
            said = " ".join(_RULE.sub(" ", " ".join(told)).split())
            return (said, StatementSpan(doc_id, line, match.start(), match.end())) if said else None
    return None


# --- Routes and ports


def reachable(edges: Iterable[Edge], *, perhaps: bool = False) -> list[Edge]:
    """The published ports that others than the machine itself reach; ``perhaps``: those too whose address a
    variable without a value says."""
    unreached = ("127.", "::1") if perhaps else ("127.", "::1", "$")
    return [e for e in edges if not str(e.properties.get("hostIp") or "").startswith(unreached)]


def way_of(house: ServiceIndex, edge: Edge) -> str:
    """``host/path``, the place where a route begins."""
    facts = edge.properties
    host, path = host_of_route(house, edge), facts.get("path") or ""
    location = str(facts.get("location") or "")
    shown = path if path and path != "/" else ("" if location in ("", "/") or path else location)
    return f"{host}{shown}" if host else (shown or "/")


def is_public_name(host: str) -> bool:
    """Whether a host name is of a domain that one may have in public; a variable or a star may be one."""
    _, dot, last = host.lower().rpartition(".")
    return "$" in host or (bool(dot) and last not in PRIVATE_DOMAINS and not last.isdigit())


def ways(house: ServiceIndex, edges: Iterable[Edge]) -> list[str]:
    """The places where routes begin, each once; of a host that leads to one target as a whole not the paths
    that lead there too."""
    edges = list(edges)
    whole = {
        (e.properties.get("host"), e.start, e.end, e.properties.get("port"))
        for e in edges
        if e.properties.get("host") and e.properties.get("path") == "/"
    }
    return distinct(
        way_of(house, e)
        for e in edges
        if e.properties.get("path") == "/"
        or (e.properties.get("host"), e.start, e.end, e.properties.get("port")) not in whole
    )


def host_of_route(house: ServiceIndex, edge: Edge) -> str:
    """The host name of a route, in full where a comment of its conf says it; empty where it has none."""
    host = str(edge.properties.get("host") or "")
    return _full_host(house, edge.doc_id, host) if host.endswith(".*") else host


def _full_host(house: ServiceIndex, doc_id: str, host: str) -> str:
    """What a comment of the conf calls a host name under any domain (``tv.*``), else the name itself."""
    label = re.escape(host.removesuffix(".*"))
    said = re.search(rf"#.*?(?<![\w.-])({label}(?:\.[a-z0-9-]+)+)(?![\w*-])", house.text(doc_id))
    if house.is_example(doc_id):
        return host
    known = said is not None and not said[1].endswith((".conf", ".sample", ".subdomain", ".subfolder"))
    return said[1] if known and said is not None else host


def target_of(house: ServiceIndex, edge: Edge) -> str:
    """``name:port`` of what a route leads to."""
    name, port = target_name_of(house, edge), edge.properties.get("port")
    return f"{name}:{port}" if port else name


def target_name_of(house: ServiceIndex, edge: Edge) -> str:
    """The name of what a route leads to, a service or an address."""
    service = house.services.get(edge.end)
    if service is not None:
        shared = service.declared and service.name in house.shared_names
        return f"{service.name} ({service.project})" if shared else service.name
    return re.sub(r"^\w+://|:\d+(?=/|$)|/$", "", house.name(edge.end))


def served_by(house: ServiceIndex, service: Service) -> list[Edge]:
    """The routes in force of the proxies that a service runs: those of its name, else those of the product
    that it runs where no other service does and none has their name."""
    called = {service.name, service.properties.get("containerName")}
    proxies = {p: house.name(p) for p in house.of_label("ReverseProxy")}
    own = [p for p, name in proxies.items() if name in called]
    runs = _products(house, service)
    if not own and any(house.properties(p).get("type") in runs for p in proxies):
        named = {s.name for s in house.services.values() if s.declared}
        alone = not any(
            runs & _products(house, s) for s in house.services.values() if s.declared and s != service
        )
        own = [
            p
            for p, name in proxies.items()
            if alone and name not in named and house.properties(p).get("type") in runs
        ]
    edges = in_force(house, [e for p in own for e in house.out(p, "ROUTES_TO")])
    return [e for e in edges if e.end != service.number]


def _products(house: ServiceIndex, service: Service) -> set[str]:
    """The last parts of the names of the images that a service runs, and of the chart that it installs."""
    chart = service.properties.get("chart")
    return {product_of(house, e.end) for e in house.out(service.number, "BUILDS")} | (
        {str(chart)} if chart else set()
    )


def product_of(house: ServiceIndex, image: int) -> str:
    """The last part of an image's name, without its tag: what it is an image of."""
    return re.split(r"[:@]", house.name(image).rpartition("/")[2])[0]


def logins(house: ServiceIndex, route: Edge) -> list[Edge]:
    """The statements of a route's file that say how it asks who one is, or that it does not: the route's own.
    Where its file says so of no route to the target, what it says of the target (as facts did of old)."""
    if route.properties.get("auth"):
        return [route]
    if route.properties.get("authInclude"):
        return []  # by what another file declares
    beside = (e for e in house.into(route.end, "ROUTES_TO") if e.doc_id == route.doc_id)
    if route.end not in house.services or any(e.properties.get("auth") for e in beside):
        return []
    held = house.out(route.end, "EXPOSES_ENDPOINT")
    return [e for e in held if e.doc_id == route.doc_id and e.properties.get("auth")]


def guards(house: ServiceIndex, route: Edge) -> list[Edge]:
    """The same, of those that ask."""
    return [e for e in logins(house, route) if e.properties["auth"] != "none"]


def guard_product(edge: Edge) -> str:
    """The product that protects an endpoint or a route at its proxy, by the name of what is included there;
    empty where none does."""
    name = edge.properties.get("authInclude") if edge.properties.get("auth") else ""
    return product_called(str(name or ""))


def product_called(name: str) -> str:
    """The product by the name of what is included of it, or of its middleware: ``authelia-location``."""
    return re.split("[-@]", name)[0].lower()


#: What files call it that a proxy asks another service who one is, and how that is told.
_ASKED_ELSEWHERE = (
    *(("auth_request", "auth_request"), ("forwardauth", "forward-auth")),
    ("forward_auth", "forward-auth"),
)


def guard(house: ServiceIndex, edge: Edge) -> str:
    """How an endpoint or a route asks who one is: its kind, as its file calls it, and in brackets what is
    asked, as in ``auth_request (authelia)``."""
    name, kind = re.sub(r"-(?:location|server)$", "", str(edge.properties.get("authInclude") or "")), ""
    if edge.properties["auth"] == "oauth2":
        text = house.text(edge.doc_id).lower()
        kind = next((called for word, called in _ASKED_ELSEWHERE if word in text), "single sign-on")
    return " ".join(filter(None, (kind or str(edge.properties["auth"]), f"({name})" if name else "")))
