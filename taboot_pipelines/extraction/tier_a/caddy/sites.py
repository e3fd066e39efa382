"""From the directives of a Caddyfile to routes: sites, matchers, handlers and what they pass on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.caddy.parsing import Directive, Imports, Token, directives
from taboot_pipelines.extraction.tier_a.caddy.upstreams import (
    Guarded,
    Match,
    Scope,
    UnresolvedError,
    dialled,
    places_of,
    upstream_targets,
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
from taboot_pipelines.model.records import Evidence, FileView, Interpretation, SourceFacts

_ADDRESS = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[^\]]*\]|(?:\{[^}]*\}|[^:/{])*)"
    r"(?::(?P<port>\d{1,5}|\{[^}]*\}))?(?P<path>/.*)?",
    re.DOTALL,
)
#: A host where a directive is expected.
_LIKE_ADDRESS = re.compile(r"(?:https?://\S+|[\w-]+(?:\.[\w-]+)+(?::\d+)?,?|[\w.-]*:\d+,?)")
#: Words that are no hosts at the top of a file.
_DIRECTIVES = frozenset(
    {"handle", "handle_path", "route", "reverse_proxy", "respond", "redir", "file_server", "root", "rewrite"}
    | {
        "php_fastcgi",
        "forward_auth",
        "basic_auth",
        "header",
        "encode",
        "log",
        "tls",
        "bind",
        "abort",
        "error",
    }
)
_BLOCKS = frozenset({"handle", "route", "handle_path", "handle_errors", "handle_response", "intercept"})
_BASIC = frozenset({"basic_auth", "basicauth"})
_HTTP_PORT, _HTTPS_PORT = "80", "443"


class CaddyfileReader:
    """Tier A for Caddyfiles: a unit is a Caddyfile with all that it imports."""

    name = "caddyfile"
    version = "6"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        """What the file says with its imports. What cannot be read, followed or resolved is a problem beside
        the rest (``E_PARSE``, ``E_CYCLE``, ``E_NOT_FOUND``, ``E_UNRESOLVED``, ``E_TOO_LARGE``)."""
        texts = UnitTexts(view)
        claims = RouteClaims(texts, source, path, "caddy", "caddy_upstream")
        imports = Imports(path, texts)
        try:
            claims.add_all(_Unit(path, texts, directives(imports.words(), path)).routes())
        except TabootError as error:
            if error.code not in BAD_TEXT:
                raise
            texts.problem(path, error.code, error.message)
        return claims.result(frozenset(imports.subordinates))


@dataclass(frozen=True, slots=True)
class _Address:
    """One address of a site. ``host`` None: any; ``scheme`` and ``port`` empty where not written."""

    scheme: str
    host: str | None
    port: str
    path: str
    where: Evidence


@dataclass(slots=True)
class _Options:
    """Global options that routes depend on."""

    http_port: str = _HTTP_PORT
    https_port: str = _HTTPS_PORT
    automatic: bool = True
    named: dict[str, Directive] = field(default_factory=dict)


class _Unit:
    def __init__(self, path: str, texts: UnitTexts, found: Sequence[Directive]) -> None:
        self._texts = texts
        self._steps = Steps(path)
        self._options = _Options()
        self._sites = self._site_blocks(list(found))

    def _site_blocks(self, found: list[Directive]) -> list[tuple[tuple[Token, ...], tuple[Directive, ...]]]:
        if found and not found[0].words and found[0].block is not None:
            self._global(found.pop(0).block or ())
        sites: list[tuple[tuple[Token, ...], tuple[Directive, ...]]] = []
        keys: tuple[Token, ...] = ()
        for at, directive in enumerate(found):
            first = directive.words[0].text if directive.words else ""
            if not directive.words:
                where = directive.block[0].words[0] if directive.block and directive.block[0].words else None
                if where is not None:
                    place = Evidence(where.path, where.start, where.end)
                    self._texts.problem_at(place, "E_PARSE", "a block stands without a name.")
                continue
            place = directive.where(directive.words[0])
            if first.startswith("&(") and first.endswith(")") and directive.block is not None:
                if first[2:-1] in self._options.named:
                    self._texts.problem_at(place, "E_PARSE", "a named route stands twice; the first counts.")
                self._options.named.setdefault(first[2:-1], directive)
                continue
            if first.startswith("@") or first in _DIRECTIVES:
                what = "a matcher" if first.startswith("@") else "a directive"
                self._texts.problem_at(place, "E_PARSE", f"{what} stands outside of a site.")
                continue
            keys = (*keys, *directive.words)
            if directive.block is not None:
                sites.append((keys, directive.block))
                keys = ()
            elif not keys[-1].text.endswith(","):
                # A file with one site needs no braces: the rest is its directives.
                rest = tuple(found[at + 1 :])
                for other in rest:
                    if _LIKE_ADDRESS.fullmatch(other.name) is not None:
                        what = "a second site begins in a file whose first one has no braces."
                        self._texts.problem_at(other.where(other.words[0]), "E_PARSE", what)
                sites.append((keys, rest))
                break
        return sites

    def _global(self, block: Sequence[Directive]) -> None:
        for directive in block:
            args = [a.text for a in directive.args]
            if directive.name == "http_port" and args:
                self._options.http_port = args[0]
            elif directive.name == "https_port" and args:
                self._options.https_port = args[0]
            elif directive.name == "auto_https" and "off" in args:
                self._options.automatic = False

    # --- sites ----------------------------------------------------------------------------------------------

    def routes(self) -> Iterator[Route]:
        for keys, block in self._sites:
            addresses = [a for key in keys if (a := self._address(key)) is not None]
            for scope in self._scopes(addresses, block):
                yield from self._block(block, scope, {}, (), "site")

    def _address(self, key: Token) -> _Address | None:
        text = key.text.rstrip(",")
        if not text:
            return None
        where = Evidence(key.path, key.start, key.end)
        match = _ADDRESS.fullmatch(text)
        if match is None:
            self._texts.problem_at(where, "E_PARSE", "this is not the address of a site.")
            return None
        if "{$" in text:
            self._texts.problem_at(where, "E_UNRESOLVED", "the site's address depends on the environment.")
        host = _lowered(match["host"])
        if host.startswith("["):
            host = host[1:-1]
        return _Address(match["scheme"] or "", host or None, match["port"] or "", match["path"] or "", where)

    def _scopes(self, addresses: Sequence[_Address], block: Sequence[Directive]) -> Iterator[Scope]:
        """The scopes of a site: one for the hosts of each port, since an address without a host takes all
        that comes to its port."""
        secured = any(s.name == "tls" for s in block)
        ports: dict[tuple[str, str], list[_Address]] = {}
        for address in addresses:
            port = address.port or (
                self._options.http_port if address.scheme == "http" else self._options.https_port
            )
            ports.setdefault((port, address.path), []).append(address)
        for (port, path), each in ports.items():
            tls = [self._tls(a, port, secured) for a in each]
            hosts: list[tuple[str | None, bool]] = [(a.host, t) for a, t in zip(each, tls, strict=True)]
            if any(host is None for host, _ in hosts):
                hosts = [(None, any(tls))]
            scope = Scope(tuple(dict.fromkeys(hosts)))
            yield scope if not path else scope.matching(Match(None, (path,)))

    def _tls(self, address: _Address, port: str, secured: bool) -> bool:
        if address.scheme == "http" or port == self._options.http_port:
            return False
        if secured or address.scheme == "https":
            return True
        if not self._options.automatic:
            return False
        return address.host is not None or port == self._options.https_port

    # --- blocks ---------------------------------------------------------------------------------------------

    def _block(
        self,
        block: Sequence[Directive],
        scope: Scope,
        outer: Mapping[str, Match],
        invoked: tuple[str, ...],
        kind: str,
    ) -> Iterator[Route]:
        """A block's routes. What guards it holds for all of it, but in a ``route``, where order counts."""
        self._steps.take()
        own = {s.name: _matcher(s) for s in block if s.name.startswith("@")}
        for matcher in (s for s in block if s.name.startswith("@")):
            if any(not s.words for s in matcher.block or ()):
                where = matcher.where(matcher.words[0])
                self._texts.problem_at(where, "E_PARSE", "a block in a matcher stands without a name.")
        matchers = {**outer, **own} if own else outer
        if kind != "route":
            for directive in block:
                scope = self._guarded(directive, scope, matchers)
        for directive in block:
            name = directive.name
            if kind == "route":
                scope = self._guarded(directive, scope, matchers)
            if name in ("reverse_proxy", "php_fastcgi"):
                yield from self._passed(directive, scope, matchers, invoked)
            elif name == "invoke" and directive.args:
                yield from self._invoked(directive, scope, matchers, invoked)
            elif name in _BLOCKS and directive.block is not None:
                inner, _ = _matched(directive, scope, matchers)
                if name == "handle_path" and directive.args:
                    inner = inner.under(directive.args[0].text.partition("*")[0].rstrip("/"))
                yield from self._block(directive.block, inner, matchers, invoked, name)

    def _invoked(
        self, directive: Directive, scope: Scope, matchers: Mapping[str, Match], invoked: tuple[str, ...]
    ) -> Iterator[Route]:
        inner, args = _matched(directive, scope, matchers)
        named = self._options.named.get(args[0].text) if args else None
        where = directive.where(directive.words[-1])
        if named is None or not args:
            self._texts.problem_at(where, "E_NOT_FOUND", "the named route is not in the file.")
        elif args[0].text in invoked:
            self._texts.problem_at(where, "E_CYCLE", "a named route invokes itself.")
        else:
            yield from self._block(named.block or (), inner, {}, (*invoked, args[0].text), "route")

    def _guarded(self, directive: Directive, scope: Scope, matchers: Mapping[str, Match]) -> Scope:
        guard: Guard | None = None
        match, args = _matching(directive, matchers)
        if directive.name == "rate_limit" and match is None:
            rates = [r for zone in directive.block or () if (r := _rate(zone)) is not None]
            return replace(scope, rate_limit=min(rates)) if rates else scope
        if directive.name == "forward_auth":
            to = [*args, *(a for s in directive.block or () if s.name == "to" for a in s.args)]
            guard = Guard("oauth2", dialled(to[0].text) if to else None)
        elif directive.name in _BASIC:
            guard = Guard("basic")
        elif directive.name == "authorize":
            guard = Guard("oauth2", args[-1].text if args else None)
        if guard is None:
            return scope
        places = None if match is None or match.places is None else places_of(match.places)
        return scope.guarded(Guarded(guard, places))

    # --- what is passed on ----------------------------------------------------------------------------------

    def _passed(
        self, directive: Directive, scope: Scope, matchers: Mapping[str, Match], invoked: tuple[str, ...]
    ) -> Iterator[Route]:
        inner, args = _matched(directive, scope, matchers)
        block = directive.block or ()
        scheme = "http"
        if directive.name == "php_fastcgi":
            scheme = "fastcgi"
            split = [a.text for s in block if s.name == "split" for a in s.args] or [".php"]
            inner = inner.matching(Match(None, tuple(f"*{ending}" for ending in split)))
        upstreams = [(word, directive) for word in args]
        for option in block:
            if option.name == "to":
                upstreams += [(word, option) for word in option.args]
            elif option.name == "transport" and option.args:
                scheme = _transport(option, scheme)
            elif option.name == "dynamic":
                yield from self._dynamic(option, inner, scheme)
            elif option.name == "handle_response" and len(option.args) > 1:
                place = option.where(option.words[0])
                self._texts.problem_at(place, "E_PARSE", "`handle_response` takes one matcher.")
            elif option.name == "handle_response" and option.block is not None:
                yield from self._block(option.block, inner, matchers, invoked, "handle_response")
        if any(word.text.startswith("https://") for word, _ in upstreams) and scheme == "http":
            scheme = "https"
        for word, owner in upstreams:
            where = owner.where(word)
            try:
                targets = upstream_targets(word.text, scheme)
            except UnresolvedError:
                what = "the upstream depends on what only a request or the environment sets."
                self._texts.problem_at(where, "E_UNRESOLVED", what)
                continue
            for target in targets:
                yield from inner.routes(target, where)

    def _dynamic(self, option: Directive, scope: Scope, scheme: str) -> Iterator[Route]:
        """``dynamic a NAME PORT`` asks for the addresses of a name; a SRV record tells ports of its own."""
        kind = option.args[0].text if option.args else ""
        if kind == "multi":
            for each in option.block or ():
                made = replace(each, words=(option.words[0], *each.words))
                yield from self._dynamic(made, scope, scheme)
            return
        values = {s.name: s.args[0] for s in option.block or () if s.args}
        words = option.args[1:]
        name = values.get("name", words[0] if words else None)
        port = values.get("port", words[1] if len(words) > 1 else None)
        number = port_number(port.text) if port is not None else 80
        where = option.where(name if name is not None else option.words[0])
        if kind != "a" or name is None or number is None or "{" in name.text:
            self._texts.problem_at(where, "E_UNRESOLVED", "the upstreams are found while Caddy runs.")
            return
        yield from scope.routes(Target(scheme, name.text, number), where)


def _rate(zone: Directive) -> int | None:
    """The requests a minute that a zone of the module ``rate_limit`` lets each client make."""
    said = {option.name: option.args[0].text for option in zone.block or () if option.args}
    return per_minute(said.get("events", ""), said.get("window", ""))


def _transport(option: Directive, scheme: str) -> str:
    kind = option.args[0].text
    if kind == "fastcgi":
        return "fastcgi"
    if kind == "http" and any(s.name.startswith("tls") for s in option.block or ()):
        return "https"
    return scheme


def _matching(directive: Directive, matchers: Mapping[str, Match]) -> tuple[Match | None, tuple[Token, ...]]:
    """The matcher that a directive begins with (None: it takes all), and its other arguments."""
    args = directive.args
    if not args or args[0].quoted:
        return None, args
    first = args[0].text
    if first == "*":
        return None, args[1:]
    if first.startswith("@"):
        return matchers.get(first), args[1:]
    return (Match(None, (first,)), args[1:]) if first.startswith("/") else (None, args)


def _matched(
    directive: Directive, scope: Scope, matchers: Mapping[str, Match]
) -> tuple[Scope, tuple[Token, ...]]:
    match, args = _matching(directive, matchers)
    return scope if match is None else scope.matching(match), args


def _matcher(directive: Directive) -> Match:
    """A named matcher: ``@name type args…``, or a block with a line for each type."""
    lines = [[a.text for a in directive.args]] if directive.args else []
    # A block whose line has no name, as a brace on a line of its own has none, is no matcher.
    lines += [[w.text for w in s.words] for s in directive.block or () if s.words]
    hosts: list[str] = []
    places: list[str] = []
    for words in lines:
        kind, values = words[0], words[1:]
        if kind == "host":
            hosts += [_lowered(v) for v in values]
        elif kind == "path":
            places += values
        elif kind == "path_regexp" and values:
            places.append(f"~ {values[-1]}")
    return Match(tuple(hosts) or None, tuple(places) or None)


def _lowered(host: str) -> str:
    """A host in lower case, but for the placeholders in it."""
    return "".join(p if p.startswith("{") else p.lower() for p in re.split(r"(\{[^}]*\})", host))
