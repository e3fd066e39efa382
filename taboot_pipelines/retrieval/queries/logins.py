"""How a proxy asks who one is before it follows a route, whom it asks, and whether the route is by TLS: what
the file of a route leaves to middlewares and entry points of Traefik, which other files declare."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from taboot_pipelines.retrieval.queries.citations import StatementSpan, cite, cites
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry
from taboot_pipelines.retrieval.queries.house import House, TraefikRouter
from taboot_pipelines.retrieval.queries.relations import guard, guards, host_of_route, product_called
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, distinct
from taboot_pipelines.retrieval.session import View

#: Middlewares that name one another.
_MAX_CHAIN = 8
#: The kind of statement by which a container's labels say a route.
OF_LABELS = "compose_traefik_labels"
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[^/?#@]*@)?(?P<host>[\w.-]+)(?::(?P<port>\d+))?(?=[/?#]|$)"
)


@dataclass(frozen=True, slots=True)
class Login:
    """How a route asks who one is: ``how``, empty where it does not and None where that is not known;
    ``told``: what says so; ``by``: what is asked, by the name or address that the proxy has for it;
    ``missing``: the middlewares that it names and that nothing declares."""

    how: str | None
    told: Sequence[StatementSpan] = ()
    by: Sequence[str] = ()
    missing: Sequence[str] = ()


def login(house: House, route: Edge) -> Login:
    """How a route asks who one is, by its own file, the middlewares of its router and those of its entry
    points."""
    asking, router = guards(house.index, route), house.router(route)
    by = distinct(str(e.properties["authInclude"]) for e in asking if e.properties.get("authInclude"))
    said = (e.properties for e in (route, *_endpoints(house, route)))
    named = [str(p["authInclude"]) for p in said if p.get("authInclude") and not p.get("auth")]
    found = _Middlewares(house, route.doc_id)
    if router is not None and (held := router.options.get("middlewares")):
        named, found.own = [held.value.value], [held.cite]
    entered = _of_entry_points(house, route, router)
    asked = found.first(", ".join(named))
    if asked == "" and entered is not None:
        for doc_id, entry in entered:
            beside = _Middlewares(house, doc_id, [entry.cite])
            asked = asked or beside.first(entry.value.value)
            found.told += beside.told
            found.by += beside.by
    elif asked == "":
        asked = None
    if asking and not asked:
        how = ", ".join(distinct(guard(house.index, e) for e in asking))
        return Login(how, cites(asking), by, found.missing)
    if asked:
        return Login(asked, [*cites(asking), *found.told], found.by or by, found.missing)
    # A reader that does not say it of the route says it of the endpoint, if the port is known.
    told = route.properties.get("auth") or router is not None or _endpoints(house, route)
    if asked == "" and route.end in house.index.services and not told:
        asked = None
    return Login(asked, (), (), found.missing)


def _endpoints(house: House, edge: Edge) -> list[Edge]:
    """The endpoints behind a route that its own reader states: no other one knows what guards them."""
    held = house.index.out(edge.end, "EXPOSES_ENDPOINT")
    return [e for e in held if e.doc_id == edge.doc_id and edge.method in e.methods]


class _Middlewares:
    """Looks for the first of some middlewares that asks, as one document names them. ``own``: where they are
    named."""

    def __init__(self, house: House, doc_id: str, own: Sequence[StatementSpan] = ()) -> None:
        self._house = house
        self._doc_id = doc_id
        self.own = list(own)
        self.told: list[StatementSpan] = []
        self.by: list[str] = []
        self.missing: list[str] = []

    def first(self, names: str, depth: int = 0) -> str | None:
        """How the first of them asks that does; empty where none does, None where none of those does that are
        known, and others are not."""
        known = True
        for name in filter(None, re.split(r"[,\s]+", names)) if depth < _MAX_CHAIN else ():
            bare = name.partition("@")[0]
            kinds = middleware(self._house, self._doc_id, bare.lower())
            if not kinds:
                self.missing.append(name)
            known = known and bool(kinds)
            if entry := kinds.get("basicauth") or kinds.get("digestauth"):
                self.told = [*self.own, entry.cite]
                return "basic"
            if entry := kinds.get("forwardauth"):
                address = kinds.get("forwardauth.address", entry)
                self.told, self.by = [*self.own, address.cite], [bare]
                return f"forward-auth ({bare})"
            if chain := kinds.get("chain"):
                asked = self.first(chain.value.value, depth + 1)
                if asked:
                    self.told.insert(len(self.own), chain.cite)
                    return asked
                known = known and asked is not None
        return "" if known else None


def middleware(house: House, doc_id: str, name: str) -> Mapping[str, ConfigEntry]:
    """{kind: setting} of the middleware of a name: of the file's own, else of the files of its folder tree;
    nothing where these differ in what it is."""
    known = house.middlewares.get(name, {})
    if doc_id in known:
        return known[doc_id]
    root = root_of(house, doc_id)
    near = [held for other, held in known.items() if root_of(house, other) == root]
    kinds = {
        frozenset(
            (k, e.value.value if k in ("chain", "forwardauth.address") else "")
            for k, e in held.items()
            if "." not in k or k == "forwardauth.address"
        )
        for held in near
    }
    return near[0] if len(kinds) == 1 else {}


def root_of(house: House, doc_id: str) -> str:
    """Where the source of a document lies: sources of one folder are of one machine."""
    source = house.index.documents[doc_id].source
    return house.index.roots.get(source, source)


# --- entry points


def _entry_points(
    house: House, route: Edge, router: TraefikRouter | None
) -> list[tuple[str, list[Mapping[str, ConfigEntry]]]] | None:
    """The entry points that a router serves, as each static configuration of its folder tree has them; None
    where none has one of them. A router that names none serves those that are called default, else all; one
    that sends every request on to another serves none."""
    root, found = root_of(house, route.doc_id), []
    entry = router.options.get("entrypoints") if router is not None else None
    wanted = {w.lower() for w in re.split(r"[,\s]+", entry.value.value) if w} if entry is not None else set()
    for doc_id, points in house.entry_points.items():
        if root_of(house, doc_id) != root:
            continue
        default = {n for n, o in points.items() if o.get("asdefault") and is_on(o["asdefault"])}
        # That of the dashboard is never a default one.
        names = wanted or default or points.keys() - {"traefik"}
        served = [points[n] for n in sorted(names) if n in points]
        if len(served) == len(names):
            found.append(
                (doc_id, [o for o in served if not any(k.startswith("http.redirections.") for k in o)])
            )
    return found or None


def _of_entry_points(
    house: House, route: Edge, router: TraefikRouter | None
) -> list[tuple[str, ConfigEntry]] | None:
    """The middlewares of a route's entry points, where each of these has some; None where the static
    configuration that has them is not known, of a route that labels say."""
    known = _entry_points(house, route, router)
    if known is None:
        return None if route.method == OF_LABELS else []
    held = [(doc_id, [o.get("http.middlewares") for o in points]) for doc_id, points in known]
    each = [(doc_id, [e for e in entries if e is not None]) for doc_id, entries in held]
    if all(not entries for _, entries in each):
        return []
    # Of several entry points, or machines, of which some have none, one may be without a login.
    whole = all(entries and None not in entries for _, entries in held)
    return [(doc_id, e) for doc_id, entries in each for e in entries] if whole else None


def is_on(entry: ConfigEntry) -> bool:
    """Whether an option that is written is on: most are by being written."""
    return entry.value.value.strip().lower() not in ("false", "no", "off", "0")


def by_tls(house: House, route: Edge) -> bool | None:
    """Whether a route is by TLS: by what its file says, else, of Traefik, by its entry points; None where
    these are not known."""
    router = house.router(route)
    if route.properties.get("tls") or (router is None and route.method != OF_LABELS):
        return bool(route.properties.get("tls"))
    if router is not None and (said := router.options.get("tls")) is not None:
        return is_on(said)
    known = _entry_points(house, route, router)
    if known is None:
        return None
    each = {
        any((k == "http.tls" and is_on(e)) or k.startswith("http.tls.") for k, e in o.items())
        for _, points in known
        for o in points
    }
    return each.pop() if len(each) == 1 else None


# --- who is asked


def checked_by(house: House) -> Mapping[int, Sequence[tuple[Edge, Login]]]:
    """{service: the routes whose login it checks}, as files in force declare them: each fails without it."""
    return house.view.once(_checked_by)


def _checked_by(view: View) -> Mapping[int, Sequence[tuple[Edge, Login]]]:
    house = House(view, lambda _: ())
    found: dict[int, list[tuple[Edge, Login]]] = defaultdict(list)
    for route in house.index.of_type("ROUTES_TO"):
        if route.is_of_text or house.index.is_example(route.doc_id):
            continue
        asked = login(house, route)
        for service in askers(house, route, asked):
            if service.number != route.end:
                found[service.number].append((route, asked))
    return found


def askers(house: House, route: Edge, asked: Login) -> Iterator[Service]:
    """The services that check the logins of a route: what the address of its middleware leads to, else what
    has the name that its proxy has for it."""
    for name in asked.by if asked.how else ():
        entry = address_of(house, route.doc_id, name)
        written = entry.value.value if entry is not None else name
        service = addressed(house, route.doc_id, written)
        if service is None and entry is None:
            service = addressed(house, route.doc_id, product_called(name))
        if service is not None:
            yield service


def address_of(house: House, doc_id: str, name: str) -> ConfigEntry | None:
    """Where a middleware that a document names says whom it asks."""
    return middleware(house, doc_id, name.partition("@")[0].lower()).get("forwardauth.address")


def parts_of(written: str) -> tuple[str, int | None]:
    """The host of an address, in lower case, and its port where one is written; nothing of what is none."""
    match = _ADDRESS.match(written.strip())
    if match is None:
        return "", None
    return match["host"].lower(), int(match["port"]) if match["port"] else None


def addressed(house: House, doc_id: str, written: str) -> Service | None:
    """The one service that is declared and that an address leads to: by its name or its container's, in a
    cluster with its namespace, by a host name that a proxy leads to it, or by a port of its machine."""
    host, port = parts_of(written)
    declared = [s for s in house.index.services.values() if s.declared]
    bare, _, rest = host.partition(".")
    space = rest.partition(".svc")[0] if re.search(r"(?:^|\.)svc(?:\.|$)", rest) else None
    held = [
        s
        for s in declared
        if host in (s.name.lower(), str(s.properties.get("containerName") or "").lower())
        or (space is not None and (s.name.lower(), s.project.lower()) == (bare, space))
    ]
    if not held and "." in host:
        ends = {
            e.end
            for e in house.index.of_type("ROUTES_TO")
            if host_of_route(house.index, e).lower() == host and not e.is_of_text
        }
        held = [s for s in declared if s.number in ends]
    if not held and port is not None:
        binding = (house.index.out(s.number, "BINDS") for s in declared if s.place.lower() == host)
        held = [house.index.services[e.start] for es in binding for e in es if e.properties["port"] == port]
    if len(held) > 1:
        root = root_of(house, doc_id)
        held = [s for s in held if any(root_of(house, d) == root for d in house.index.declaring(s))]
    return held[0] if len({s.number for s in held}) == 1 else None


def cited(route: Edge, asked: Login) -> list[StatementSpan]:
    """Where a route and its login are said."""
    return list(dict.fromkeys([cite(route), *asked.told]))
