"""The JSON that Caddy runs on (``caddy adapt``, ``autosave.json``) as routes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.caddy.upstreams import (
    Guarded,
    Match,
    Scope,
    UnresolvedError,
    dial_targets,
    places_of,
)
from taboot_pipelines.extraction.tier_a.endpoints import Target
from taboot_pipelines.extraction.tier_a.proxying import (
    Guard,
    Route,
    RouteClaims,
    Steps,
    per_minute,
    port_number,
)
from taboot_pipelines.extraction.tier_a.texts import BAD_TEXT, UnitTexts
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.records import Evidence, FileView, Interpretation, SourceFacts

#: Subroutes inside subroutes.
MAX_DEPTH = 100
_APPS = re.compile(r'"apps"\s*:\s*\{')


def looks_like_caddy_json(head: str) -> bool:
    """Whether a text has the apps of Caddy with servers in one of them."""
    return head.lstrip("\ufeff \t\r\n").startswith("{") and (
        _APPS.search(head) is not None and '"servers"' in head and '"listen"' in head
    )


class CaddyJsonReader:
    """Tier A for Caddy's JSON: a unit is a file."""

    name = "caddy_json"
    version = "5"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        """What the file says, in the claims that its Caddyfile makes. What cannot be read or resolved is a
        problem (``E_PARSE``, ``E_UNRESOLVED``, ``E_TOO_LARGE``)."""
        texts = UnitTexts(view)
        claims = RouteClaims(texts, source, path, "caddy", "caddy_upstream")
        text = texts.text(path)
        if text is not None:
            try:
                claims.add_all(_Unit(path, texts, parse(text)).routes())
            except TabootError as error:
                if error.code not in BAD_TEXT:
                    raise
                texts.problem(path, error.code, f"{path}: {error.message}")
        return claims.result()


class _Unit:
    def __init__(self, path: str, texts: UnitTexts, root: Value) -> None:
        self._path = path
        self._texts = texts
        self._root = root
        self._steps = Steps(path)

    def _where(self, value: Value) -> Evidence:
        return Evidence(self._path, value.start, value.end)

    def routes(self) -> Iterator[Route]:
        http = self._root.at("apps", "http")
        for server in http.members("servers").values() if http is not None else ():
            secure = _Secure(http, server) if http is not None else None
            if secure is None:
                continue
            scope = Scope(((None, secure.of(None)),))
            for routes in (server.at("routes"), server.at("errors", "routes")):
                if routes is not None:
                    yield from self._routes(routes, scope, server, secure, (), 0)
        layer4 = self._root.at("apps", "layer4")
        for server in layer4.members("servers").values() if layer4 is not None else ():
            routes = server.at("routes")
            if routes is not None:
                yield from self._streams(routes, server)

    def _routes(
        self,
        routes: Value,
        scope: Scope,
        server: Value,
        secure: _Secure,
        invoked: tuple[str, ...],
        depth: int,
    ) -> Iterator[Route]:
        """The routes of a list; what guards one holds for those behind it."""
        if depth > MAX_DEPTH:
            self._texts.problem_at(
                self._where(routes), "E_TOO_LARGE", f"routes are nested deeper than {MAX_DEPTH}."
            )
            return
        for route in routes.items():
            self._steps.take()
            matches = [_match(m) for m in route.items("match")]
            # Automatic HTTPS looks at the hosts of the outermost routes only.
            inners = [_narrowed(scope, m, secure if depth == 0 else None) for m in matches] or [scope]
            for inner in inners:
                for handler in route.items("handle"):
                    guard = _guard(handler)
                    kind = handler.string("handler")
                    if guard is not None:
                        places = tuple(p for m in matches for p in m.places or ())
                        inner = inner.guarded(Guarded(guard, None))
                        whole = not places or any(m.places is None for m in matches)
                        scope = scope.guarded(Guarded(guard, None if whole else places_of(places)))
                    elif kind == "rate_limit" and (rate := _rate(handler)) is not None:
                        inner = replace(inner, rate_limit=rate)
                        if not matches:
                            scope = replace(scope, rate_limit=rate)
                    elif kind == "rewrite":
                        prefix = handler.string("strip_path_prefix")
                        # It holds for the routes behind this one, within the same list.
                        inner, scope = (
                            (inner.under(prefix), scope.under(prefix)) if prefix else (inner, scope)
                        )
                    elif kind == "subroute":
                        for part in (handler.at("routes"), handler.at("errors", "routes")):
                            if part is not None:
                                yield from self._routes(part, inner, server, secure, invoked, depth + 1)
                    elif kind == "invoke":
                        yield from self._invoked(handler, inner, server, secure, invoked, depth)
                    elif kind in ("reverse_proxy", "intercept"):
                        yield from self._passed(handler, inner, server, secure, invoked, depth)

    def _invoked(
        self,
        handler: Value,
        scope: Scope,
        server: Value,
        secure: _Secure,
        invoked: tuple[str, ...],
        depth: int,
    ) -> Iterator[Route]:
        name = handler.string("name")
        named = server.at("named_routes", name)
        if named is None:
            self._texts.problem_at(self._where(handler), "E_NOT_FOUND", "the named route is not in the file.")
        elif name in invoked:
            self._texts.problem_at(self._where(handler), "E_CYCLE", "a named route invokes itself.")
        else:
            listed = Value([named], named.start, named.end)
            yield from self._routes(listed, scope, server, secure, (*invoked, name), depth + 1)

    def _passed(
        self,
        handler: Value,
        scope: Scope,
        server: Value,
        secure: _Secure,
        invoked: tuple[str, ...],
        depth: int,
    ) -> Iterator[Route]:
        scheme = "http"
        if handler.string("transport", "protocol") == "fastcgi":
            scheme = "fastcgi"
        elif handler.at("transport", "tls") is not None:
            scheme = "https"
        for upstream in handler.items("upstreams"):
            dial = upstream.at("dial")
            if dial is not None and isinstance(dial.data, str):
                yield from self._dialled(dial, dial.data, scheme, scope)
        dynamic = handler.at("dynamic_upstreams")
        if dynamic is not None:
            yield from self._dynamic(dynamic, scheme, scope)
        for response in handler.items("handle_response"):
            routes = response.at("routes")
            if routes is not None:
                yield from self._routes(routes, scope, server, secure, invoked, depth + 1)

    def _dialled(self, value: Value, address: str, scheme: str, scope: Scope) -> Iterator[Route]:
        try:
            targets = dial_targets(address, scheme)
        except UnresolvedError:
            self._unresolved(value, "the upstream depends on what only a request or the environment sets.")
            return
        for target in targets:
            yield from scope.routes(target, self._where(value))

    def _dynamic(self, value: Value, scheme: str, scope: Scope) -> Iterator[Route]:
        if value.string("source") == "multi":
            for each in value.items("sources"):
                yield from self._dynamic(each, scheme, scope)
            return
        name, port = value.string("name"), value.string("port")
        number = port_number(port) if port else 80
        if value.string("source") != "a" or not name or number is None or "{" in name:
            self._unresolved(value, "the upstreams are found while Caddy runs.")
            return
        where = value.at("name") or value
        yield from scope.routes(Target(scheme, name, number), self._where(where))

    def _unresolved(self, value: Value, what: str) -> None:
        self._texts.problem_at(self._where(value), "E_UNRESOLVED", what)

    def _streams(self, routes: Value, server: Value) -> Iterator[Route]:
        """The layer4 app: streams, told apart by the name that TLS asks for."""
        udp = any(str(listen.data).startswith("udp/") for listen in server.items("listen"))
        for route in routes.items():
            names = [
                name.data
                for match in route.items("match")
                for name in match.items("tls", "sni")
                if isinstance(name.data, str)
            ]
            for handler in route.items("handle"):
                if handler.string("handler") != "proxy":
                    continue
                tls = bool(names)
                hosts = tuple((name, True) for name in names) or ((None, tls),)
                scope = Scope(hosts, ((None, None),))
                for upstream in handler.items("upstreams"):
                    for dial in upstream.items("dial"):
                        if isinstance(dial.data, str):
                            scheme = "udp" if udp or dial.data.startswith("udp/") else "tcp"
                            yield from self._dialled(dial, dial.data, scheme, scope)


class _Secure:
    """Which hosts of a server are served by TLS: by its policies, else by automatic HTTPS."""

    def __init__(self, http: Value, server: Value) -> None:
        http_port = str(http.integer("http_port") or 80)
        https_port = str(http.integer("https_port") or 443)
        ports = {str(v.data).rpartition(":")[2] for v in server.items("listen")}
        self._plain = ports == {http_port}
        self._standard = ports == {https_port}
        self._policies = bool(server.items("tls_connection_policies"))
        self._off = server.true("automatic_https", "disable")
        self._skipped = {v.data for v in server.items("automatic_https", "skip") if isinstance(v.data, str)}

    def of(self, host: str | None) -> bool:
        if self._plain or host in self._skipped:
            return False
        if self._policies:
            return True
        return not self._off and (host is not None or self._standard)


def _narrowed(scope: Scope, match: Match, secure: _Secure | None) -> Scope:
    inner = scope.matching(match)
    if match.hosts is None or secure is None:
        return inner
    hosts = tuple((host, secure.of(host)) for host in match.hosts)
    return replace(inner, hosts=hosts)


def _match(value: Value) -> Match:
    hosts = tuple(v.data.lower() for v in value.items("host") if isinstance(v.data, str))
    places = [v.data for v in value.items("path") if isinstance(v.data, str)]
    pattern = value.string("path_regexp", "pattern")
    return Match(hosts or None, (*places, *([f"~ {pattern}"] if pattern else [])) or None)


def _rate(handler: Value) -> int | None:
    """The requests a minute that the module ``rate_limit`` lets each client make; a span of time is written
    as Go does, or in nanoseconds."""
    rates = []
    for zone in handler.members("rate_limits").values():
        nanoseconds = zone.integer("window")
        window = zone.string("window") if nanoseconds is None else f"{nanoseconds // 1_000_000}ms"
        rates.append(per_minute(str(zone.integer("max_events") or ""), window))
    return min((rate for rate in rates if rate is not None), default=None)


def _guard(handler: Value) -> Guard | None:
    """What a handler asks of a request before it goes on: a password, or what another service says."""
    kind = handler.string("handler")
    if kind == "authentication":
        providers: Mapping[str, Value] = handler.members("providers")
        return Guard("basic") if "http_basic" in providers else Guard("oauth2", next(iter(providers), None))
    if kind != "reverse_proxy" or handler.string("rewrite", "method") != "GET":
        return None
    allowed = any(r.items("match", "status_code") for r in handler.items("handle_response"))
    if not allowed or handler.at("headers", "request", "set", "X-Forwarded-Uri") is None:
        return None
    return Guard("oauth2", handler.string("upstreams", 0, "dial") or None)
