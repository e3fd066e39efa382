"""From sections to routes: which backends a frontend leads to, on which conditions, and their servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.endpoints import Target
from taboot_pipelines.extraction.tier_a.haproxy.conditions import (
    ANY,
    Alternative,
    Pattern,
    alternatives,
    read_acl,
)
from taboot_pipelines.extraction.tier_a.haproxy.lines import Line, Lines
from taboot_pipelines.extraction.tier_a.proxying import (
    Guard,
    Route,
    RouteClaims,
    Steps,
    port_number,
    products,
)
from taboot_pipelines.extraction.tier_a.texts import BAD_TEXT, UNKNOWN, UnitTexts, untemplated
from taboot_pipelines.model.records import Evidence, FileView, Interpretation, SourceFacts

_PROXIES = frozenset({"frontend", "backend", "listen", "defaults"})
_SECTIONS = _PROXIES | {
    "global", "peers", "resolvers", "mailers", "userlist", "program", "cache", "ring", "log-forward",
    "http-errors", "fcgi-app", "crt-store", "traces", "log-profile", "acme", "dynamic-update",
}  # fmt: skip
# nginx has directives of the same names, with braces and semicolons.
_SECTION_LINE = re.compile(r"^[ \t]*(?:frontend|backend|listen)[ \t]+[^\s;{}#]+[^;{}\n]*$", re.MULTILINE)
_PROXY_LINE = re.compile(
    r"^[ \t]*(?:(?:defaults|global)\b|"
    r"(?:bind|server|server-template|default_backend|use_backend|balance|mode)[ \t]+[^\s;{}]+)[^;{}\n]*$",
    re.MULTILINE,
)
#: An address of no machine stands for this one.
_ANY_ADDRESS = re.compile(r"\*|[0:]*|0\.0\.0\.0")
_FAMILY = re.compile(r"(?:(?:ipv4|ipv6|tcp|tcp4|tcp6|udp|udp4|udp6|quic4|quic6|mptcp|mptcp4|mptcp6)@)")
_SOCKET = re.compile(
    r"(?:unix|uxst|uxdg|uxmp|abns|abnsz|abns@|fd|sockpair|rhttp|rev|dgram\+unix|stream\+unix)@|/"
)


def looks_like_haproxy(head: str) -> bool:
    """Whether a text has sections of HAProxy and lines that only stand in them."""
    return _SECTION_LINE.search(head) is not None and _PROXY_LINE.search(head) is not None


@dataclass(slots=True)
class _Server:
    """A ``server`` line: the address as written, and whether it is spoken to by TLS or FastCGI."""

    address: str
    where: Evidence
    ssl: bool | None = None
    off: bool = False
    fastcgi: bool = False
    unknown: bool = False


@dataclass(slots=True)
class _Switch:
    """A way to a backend: ``use_backend`` with its condition, or ``default_backend`` without one."""

    backend: str
    where: Evidence
    condition: tuple[str, ...] | None = None


@dataclass(slots=True)
class _Proxy:
    """A section ``frontend``, ``backend``, ``listen`` or ``defaults``."""

    kind: str
    name: str
    where: Evidence
    mode: str | None = None
    ports: list[int | None] = field(default_factory=list)
    binds: int = 0
    ssl: bool = False
    off: bool = False
    servers: list[_Server] = field(default_factory=list)
    switches: list[_Switch] = field(default_factory=list)
    default: _Switch | None = None
    acls: dict[str, list[Pattern | None]] = field(default_factory=dict)
    guards: list[tuple[Guard, tuple[str, ...]]] = field(default_factory=list)
    server_ssl: bool = False
    fastcgi: bool = False
    off_servers: bool = False
    #: It has rules on what only HTTP has.
    asks_http: bool = False

    @property
    def web(self) -> bool:
        """Whether it speaks HTTP: by its mode, which is ``tcp`` unless said. A file whose defaults stand in
        another one shows it by its rules."""
        return self.mode == "http" or (self.mode is None and self.asks_http)


class HaproxyReader:
    """Tier A for HAProxy: a unit is one file."""

    name = "haproxy"
    version = "5"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        """What the file says. What cannot be read, followed or resolved is a problem beside the rest
        (``E_PARSE``, ``E_UNRESOLVED``, ``E_NOT_FOUND``, ``E_TOO_LARGE``)."""
        texts = UnitTexts(view)
        text = texts.text(path)
        claims = RouteClaims(texts, source, path, "haproxy", "haproxy_server")
        if text is not None:
            try:
                claims.add_all(_Unit(path, untemplated(text), texts).routes())
            except TabootError as error:
                if error.code not in BAD_TEXT:
                    raise
                texts.problem(path, error.code, error.message)
        return claims.result()


class _Unit:
    def __init__(self, path: str, text: str, texts: UnitTexts) -> None:
        self._path = path
        self._texts = texts
        self._steps = Steps(path)
        self._proxies: list[_Proxy] = []
        self._defaults: dict[str, _Proxy] = {}
        self._read(text)

    def _problem(self, where: Evidence, code: str, what: str) -> None:
        self._texts.problem_at(where, code, what)

    # --- sections -------------------------------------------------------------------------------------------

    def _read(self, text: str) -> None:
        lines = Lines(text)
        current: _Proxy | None = None
        latest: _Proxy | None = None
        for line in lines:
            words, where = line.words, Evidence(self._path, line.start, line.end)
            if words[0] in _SECTIONS:
                current = None
                if words[0] in _PROXIES:
                    current = self._section(words, where, latest)
                    if words[0] == "defaults":
                        latest = current
            elif current is not None:
                self._line(current, line, where)
        for offset, code, what in lines.problems:
            self._problem(Evidence(self._path, offset, offset + 1), code, what)

    def _section(self, words: Sequence[str], where: Evidence, latest: _Proxy | None) -> _Proxy:
        name = words[1] if len(words) > 1 and words[1] != "from" else ""
        base = latest
        if "from" in words[1:-1]:
            wanted = words[words.index("from", 1) + 1]
            base = self._defaults.get(wanted)
            if base is None:
                self._problem(where, "E_NOT_FOUND", "the defaults section that is named is not in the file.")
        proxy = _Proxy(words[0], name, where)
        if words[0] == "defaults":
            self._defaults[name] = proxy
            base = base if "from" in words else None
        else:
            self._proxies.append(proxy)
        if base is not None:
            proxy.mode, proxy.server_ssl, proxy.fastcgi = base.mode, base.server_ssl, base.fastcgi
            proxy.off, proxy.off_servers = base.off, base.off_servers
            if proxy.kind in ("frontend", "listen", "defaults"):
                proxy.default = base.default
        if words[0] == "listen" and len(words) > 2 and "from" not in words:
            self._bind(proxy, words[2:])
        return proxy

    def _line(self, proxy: _Proxy, line: Line, where: Evidence) -> None:
        words = line.words
        word, rest = words[0], words[1:]
        if word in ("http-request", "http-response") or any(
            "hdr(" in w or w.startswith("path") for w in rest
        ):
            proxy.asks_http = True
        if word == "bind" and rest:
            self._bind(proxy, rest)
        elif word == "mode" and rest:
            proxy.mode = rest[0]
        elif word in ("disabled", "enabled"):
            proxy.off = word == "disabled"
        elif word == "acl" and len(rest) > 1:
            proxy.acls.setdefault(rest[0], []).append(read_acl(rest[1:]))
        elif word == "default_backend" and rest:
            proxy.default = _Switch(rest[0], where)
        elif word == "use_backend" and rest:
            self._use(proxy, rest, where)
        elif word == "default-server":
            options = _options(rest)
            proxy.server_ssl = options.ssl if options.ssl is not None else proxy.server_ssl
            proxy.fastcgi = proxy.fastcgi or options.fastcgi
            proxy.off_servers = options.off
        elif word == "server" and len(rest) > 1:
            self._server(proxy, rest[1], rest[2:], where)
        elif word == "server-template" and len(rest) > 2:
            self._server(proxy, rest[2], rest[3:], where)
        elif word == "dispatch" and rest:
            self._server(proxy, rest[0], (), where)
        elif word == "use-fcgi-app":
            proxy.fastcgi = True
        elif word == "http-request" and rest:
            self._guard(proxy, rest)

    def _bind(self, proxy: _Proxy, words: Sequence[str]) -> None:
        proxy.binds += 1
        proxy.ssl = proxy.ssl or "ssl" in words[1:] or words[0].startswith("quic")
        for address in words[0].split(","):
            _, _, port = _FAMILY.sub("", address).rpartition(":")
            proxy.ports.append(port_number(port))

    def _use(self, proxy: _Proxy, words: Sequence[str], where: Evidence) -> None:
        condition: tuple[str, ...] | None = None
        if len(words) > 2 and words[1] in ("if", "unless"):
            condition = tuple(words[2:]) if words[1] == "if" else ()
        if words[0].startswith("%[") or "%[" in words[0] or UNKNOWN in words[0]:
            self._problem(where, "E_UNRESOLVED", "the backend depends on a value of the request.")
            return
        proxy.switches.append(_Switch(words[0], where, condition))

    def _server(self, proxy: _Proxy, address: str, words: Sequence[str], where: Evidence) -> None:
        server = _options(words)
        server.address, server.where = address, where
        server.unknown = UNKNOWN in address
        server.off = server.off or (proxy.off_servers and "enabled" not in words)
        if server.ssl is None:
            server.ssl = proxy.server_ssl
        server.fastcgi = server.fastcgi or proxy.fastcgi
        proxy.servers.append(server)

    def _guard(self, proxy: _Proxy, words: Sequence[str]) -> None:
        """``http-request auth`` asks for a password; a Lua action that asks elsewhere is single sign-on."""
        guard = None
        if words[0] == "auth":
            guard = Guard("basic")
        elif re.match(r"lua\.auth[-_](?:request|intercept)", words[0]) is not None:
            guard = Guard("oauth2", words[1] if len(words) > 1 and words[1] not in ("if", "unless") else None)
        if guard is not None:
            condition = tuple(words[words.index("if") + 1 :]) if "if" in words else ()
            proxy.guards.append((guard, condition))

    # --- routes ---------------------------------------------------------------------------------------------

    def routes(self) -> Iterator[Route]:
        backends = {p.name: p for p in reversed(self._proxies) if p.kind in ("backend", "listen")}
        for proxy in self._proxies:
            if proxy.kind == "backend" or proxy.off:
                continue
            if proxy.kind == "listen":
                yield from self._servers(proxy, proxy, ANY)
            for switch in (*proxy.switches, *([proxy.default] if proxy.default is not None else [])):
                backend = backends.get(switch.backend)
                if UNKNOWN in switch.backend:
                    self._problem(
                        switch.where, "E_UNRESOLVED", "the backend's name depends on the environment."
                    )
                elif backend is None:
                    self._problem(
                        switch.where, "E_NOT_FOUND", "the backend that is named is not in the file."
                    )
                elif not backend.off:
                    yield from self._switched(proxy, backend, switch)

    def _switched(self, proxy: _Proxy, backend: _Proxy, switch: _Switch) -> Iterator[Route]:
        found = [ANY] if switch.condition is None else alternatives(switch.condition, proxy.acls)
        if found is None:
            self._problem(switch.where, "E_TOO_LARGE", "the condition has too many alternatives.")
            return
        for alternative in found:
            if alternative.unknown:
                what = "a part of the condition does not stand in the file."
                self._problem(switch.where, "E_UNRESOLVED", what)
                if alternative.hosts is None and alternative.places is None:
                    continue
            yield from self._servers(proxy, backend, alternative)

    def _servers(self, proxy: _Proxy, backend: _Proxy, alternative: Alternative) -> Iterator[Route]:
        whole = (None, "/" if proxy.web else None)
        guard = self._guarding(proxy, backend, alternative)
        for server in backend.servers:
            self._steps.take()
            target = self._target(server, proxy, backend)
            if target is None:
                continue
            for host, location, path in products(
                alternative.hosts or (None,), alternative.places or (whole,)
            ):
                tls = proxy.ssl or alternative.sni
                yield Route(target, server.where, host, location, path, tls, guard)

    def _guarding(self, proxy: _Proxy, backend: _Proxy, alternative: Alternative) -> Guard | None:
        for owner in (backend, proxy):
            for guard, condition in owner.guards:
                asked = alternatives(condition, owner.acls) if condition else [ANY]
                if asked is not None and any(_covers(a, alternative) for a in asked):
                    return guard
        return None

    def _target(self, server: _Server, proxy: _Proxy, backend: _Proxy) -> Target | None:
        if server.off:
            return None
        if server.unknown:
            self._problem(server.where, "E_UNRESOLVED", "the address depends on the environment.")
            return None
        address = server.address
        if _SOCKET.match(address) is not None:
            return None
        udp = address.startswith("udp")
        address = _FAMILY.sub("", address, count=1)
        host, port = _split(address)
        scheme = "udp" if udp else "tcp"
        if backend.web or (backend.mode is None and proxy.web):
            scheme = "fastcgi" if server.fastcgi else "https" if server.ssl else "http"
        number = port_number(port)
        if number is None:
            number = self._same_port(port, proxy)
        if _ANY_ADDRESS.fullmatch(host) is not None:
            # HAProxy then connects to the address that the client asked for.
            self._problem(server.where, "E_UNRESOLVED", "the server's address is that of each connection.")
            return None
        if number is None:
            self._problem(server.where, "E_UNRESOLVED", "the server's port is that of each connection.")
            return None
        return Target(scheme, host, number)

    @staticmethod
    def _same_port(written: str, proxy: _Proxy) -> int | None:
        """The port of a server that has none of its own, or one relative to it: the client's."""
        ports = set(proxy.ports)
        if len(ports) != 1 or None in ports:
            return None
        (port,) = ports
        if re.fullmatch(r"[+-]\d{1,5}", written):
            moved = (port or 0) + int(written)
            return moved if 1 <= moved <= 65535 else None
        return port if written in ("", "0") else None


def _covers(guard: Alternative, route: Alternative) -> bool:
    """Whether a guard's condition holds for all that a route takes."""
    if guard.unknown:
        return False
    if guard.hosts is not None and not set(route.hosts or ()) <= set(guard.hosts):
        return False
    if guard.places is None:
        return guard.hosts is None or route.hosts is not None
    return route.places is not None and all(
        any(p is not None and path is not None and path.startswith(p) for _, p in guard.places)
        for _, path in route.places
    )


def _options(words: Sequence[str]) -> _Server:
    server = _Server("", Evidence("", 0, 0))
    for at, word in enumerate(words):
        if word in ("ssl", "no-ssl"):
            server.ssl = word == "ssl"
        elif word in ("disabled", "enabled"):
            server.off = word == "disabled"
        elif word == "proto" and at + 1 < len(words) and words[at + 1] == "fcgi":
            server.fastcgi = True
    return server


def _split(address: str) -> tuple[str, str]:
    """Host and port as written: HAProxy takes an IPv6 address without brackets, its port behind the last
    colon."""
    if address.startswith("["):
        host, _, rest = address.partition("]")
        return host[1:], rest.removeprefix(":")
    host, colon, port = address.rpartition(":")
    return (host, port) if colon else (address, "")
