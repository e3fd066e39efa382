"""From routers to servers, in whatever form Traefik's dynamic configuration was written.

Names of options are taken in any case, as Traefik takes them. Services lead to servers directly
(``loadBalancer``) or by other services (``weighted``, ``mirroring``, ``failover``, ``highestRandomWeight``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from taboot_pipelines.extraction.tier_a.endpoints import Target
from taboot_pipelines.extraction.tier_a.proxying import (
    Guard,
    Route,
    Steps,
    per_minute,
    port_number,
    split_address,
)
from taboot_pipelines.extraction.tier_a.texts import UNKNOWN, UnitTexts
from taboot_pipelines.extraction.tier_a.traefik import rules
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, SEQUENCE, Node
from taboot_pipelines.model.records import Evidence

#: Services (or middlewares) that name one another.
_MAX_CHAIN = 16
#: Servers that one router may lead to, counted each time.
_MAX_SERVERS = 2_000
_SCHEMES = {"http": "http", "https": "https", "h2c": "http", "ws": "ws", "wss": "wss"}
#: Entry points that people give TLS, by their names, where no static configuration tells.
SECURE_ENTRY_POINTS = frozenset({"websecure", "https", "web-secure", "websecured"})
#: Names of middlewares that are single sign-on, where the files do not hold them.
SINGLE_SIGN_ON = re.compile(
    r"(?i)(?:^|[._@-])(?:authelia|authentik|ldap|tinyauth|oauth2?-?proxy|forward-?auth)(?:[._@-]|$)"
)
_TEMPLATE = re.compile(rf"\{{\{{|\$\{{|{UNKNOWN}")

Named = dict[str, Node]
#: What names a middleware: the Kubernetes namespace ("": none) and the name as written.
Ref = tuple[str, str]


def option(node: Node | None, *names: str) -> Node | None:
    """The value at a path of options, whose names are taken in any case; None if there is none."""
    for name in names:
        if node is None or node.kind != MAPPING:
            return None
        found = node.get(name)
        if found is None:
            wanted = name.lower()
            found = next((value for key, (_, value) in node.entries.items() if key.lower() == wanted), None)
            if found is not None and found.is_null:
                return None
        node = found
    return node


def has(node: Node | None, name: str) -> bool:
    """Whether an option is written, even without a value (``tls:``)."""
    wanted = name.lower()
    return node is not None and any(key.lower() == wanted for key in node.entries)


def text_of(node: Node | None) -> str:
    return node.text.strip() if node is not None and node.kind == SCALAR and not node.is_null else ""


def words_of(node: Node | None) -> list[str]:
    """The words of a list, or of a text parted by commas."""
    if node is None:
        return []
    if node.kind == SEQUENCE:
        return [text for item in node.items if (text := text_of(item))]
    return [word.strip() for word in text_of(node).split(",") if word.strip()]


@dataclass(slots=True)
class Protocol:
    """Routers, services and middlewares of HTTP, TCP or UDP, by name as written."""

    name: str
    routers: Named = field(default_factory=dict)
    services: Named = field(default_factory=dict)
    middlewares: Named = field(default_factory=dict)


@dataclass(slots=True)
class EntryPoints:
    """What the static configuration says: {entry point: whether it has TLS}, and its middlewares."""

    secure: dict[str, bool] = field(default_factory=dict)
    middlewares: dict[str, list[str]] = field(default_factory=dict)

    def tls(self, names: Sequence[str]) -> bool:
        """Whether a router at these entry points (none: at all) has TLS by them."""
        if not names:
            return bool(self.secure) and all(self.secure.values())
        return any(self.secure.get(n.lower(), n.lower() in SECURE_ENTRY_POINTS) for n in names)


#: Looks a service or middleware up elsewhere: (protocol, ``services`` or ``middlewares``, name) to its node.
Elsewhere = Callable[[str, str, str], Node | None]


class Router:
    """Follows the routers of one protocol."""

    def __init__(
        self,
        texts: UnitTexts,
        protocol: Protocol,
        entry_points: EntryPoints,
        elsewhere: Elsewhere,
        steps: Steps,
    ) -> None:
        self._steps = steps
        self._texts = texts
        self._protocol = protocol
        self._entry_points = entry_points
        self._elsewhere = elsewhere

    def routes(self) -> Iterator[Route]:
        for name, router in self._protocol.routers.items():
            if router.kind == MAPPING and text_of(option(router, "status")) != "disabled":
                yield from self._of(name, router)

    def _of(self, name: str, router: Node) -> Iterator[Route]:
        wanted = option(router, "service")
        if wanted is None or text_of(wanted).endswith("@internal"):
            return
        found = self._targets(name, router, ())
        if found is None:
            return
        tls = self._tls(router, found, ())
        guard = self._guard(router)
        rate = min(self._rates(words_of(option(router, "middlewares")), ()), default=None)
        for target, where in self._servers(self._named(text_of(wanted), name), wanted, ()):
            for rule in found:
                path = rule.path if self._protocol.name == "http" else None
                yield Route(
                    target,
                    where,
                    rule.host,
                    rule.location,
                    path,
                    tls,
                    guard,
                    rate_limit=rate,
                    methods=rule.methods,
                )

    def _parents(self, router: Node) -> list[Node]:
        found = [
            self._protocol.routers.get(n.partition("@")[0]) for n in words_of(option(router, "parentRefs"))
        ]
        return [parent for parent in found if parent is not None and parent is not router]

    def _targets(self, name: str, router: Node, chain: tuple[str, ...]) -> list[rules.Target] | None:
        """What a router's rule matches, with the rules of the routers it stands below."""
        rule = option(router, "rule")
        found: list[rules.Target] = [rules.Target(None, None, None if self._protocol.name != "http" else "/")]
        if rule is not None:
            where = _evidence(rule)
            if _TEMPLATE.search(text_of(rule)) is not None:
                self._unresolved(where, "the rule depends on a template.")
                return None
            found = rules.targets(text_of(rule))
            if not found:
                self._texts.problem_at(where, "E_PARSE", "the router's rule cannot be read.")
                return None
        elif self._protocol.name == "tcp" and not self._parents(router):
            return None
        if len(chain) < _MAX_CHAIN:
            below: dict[rules.Target, None] = {}
            for parent in self._parents(router):
                above = self._targets(name, parent, (*chain, name)) or []
                self._steps.take(len(above) * len(found))
                below |= dict.fromkeys(_below(a, t) for a in above for t in found)
            found = list(below) or found
        return found

    def _tls(self, router: Node, found: Sequence[rules.Target], chain: tuple[str, ...]) -> bool:
        if has(router, "tls"):
            tls = option(router, "tls")
            return tls is None or tls.kind != SCALAR or tls.boolean(default=True)
        if self._protocol.name != "http":
            return False
        names = words_of(option(router, "entryPoints"))
        if self._entry_points.tls(names):
            return True
        return len(chain) < _MAX_CHAIN and any(
            self._tls(parent, found, (*chain, "")) for parent in self._parents(router)
        )

    # --- guards ---------------------------------------------------------------------------------------------

    def _guard(self, router: Node, depth: int = 0) -> Guard | None:
        names = words_of(option(router, "middlewares"))
        for entry in words_of(option(router, "entryPoints")):
            names += self._entry_points.middlewares.get(entry.lower(), [])
        refs = [("", name) for name in names]
        guard = first_guard(refs, self._middleware, lambda _, part: _chained(part), self._steps)
        if guard is not None and guard.auth is not None:
            return guard
        if depth < _MAX_CHAIN:
            for parent in self._parents(router):
                above = self._guard(parent, depth + 1)
                if above is not None and above.auth is not None:
                    return above
                guard = guard or above
        return guard

    def _middleware(self, ref: Ref) -> Node | None:
        own, (bare, _, provider) = self._protocol.middlewares, ref[1].partition("@")
        found = own.get(ref[1]) or own.get(bare)
        if found is None and provider in ("", "file"):
            found = self._elsewhere(self._protocol.name, "middlewares", bare)
        return found

    def _rates(self, names: Sequence[str], chain: tuple[str, ...]) -> Iterator[int]:
        """The requests a minute that each of these middlewares lets a client make, if it limits them."""
        for name in names:
            self._steps.take()
            middleware = self._protocol.middlewares.get(name.partition("@")[0])
            limit = option(middleware, "rateLimit")
            rate = per_minute(text_of(option(limit, "average")), text_of(option(limit, "period")) or "1s")
            if rate is not None:
                yield rate
            if name not in chain and len(chain) < _MAX_CHAIN:
                yield from self._rates(words_of(option(middleware, "chain", "middlewares")), (*chain, name))

    # --- servers --------------------------------------------------------------------------------------------

    def _named(self, name: str, router: str) -> str:
        """A service's name with the provider of its router, where that is written (in what the API tells)."""
        provider = router.partition("@")[2]
        return f"{name}@{provider}" if provider and "@" not in name else name

    def _service(self, name: str) -> Node | None:
        services = self._protocol.services
        bare, _, provider = name.partition("@")
        found = services.get(name)
        if found is None and provider in ("", "file"):
            found = services.get(bare) or self._elsewhere(self._protocol.name, "services", bare)
        return found

    def _servers(
        self, name: str, said: Node, chain: tuple[str, ...], count: list[int] | None = None
    ) -> Iterator[tuple[Target, Evidence]]:
        count = [0] if count is None else count
        where = _evidence(said)
        if name in chain:
            self._texts.problem_at(where, "E_CYCLE", "a service leads back to itself.")
            return
        if len(chain) >= _MAX_CHAIN or count[0] > _MAX_SERVERS:
            self._texts.problem_at(where, "E_TOO_LARGE", "a router leads to more services than are followed.")
            return
        if _TEMPLATE.search(name) is not None:
            self._unresolved(where, "the service's name depends on a template.")
            return
        service = self._service(name)
        if service is None:
            code = "E_UNRESOLVED" if "@" in name else "E_NOT_FOUND"
            self._texts.problem_at(where, code, "the service that is named is not in the files.")
            return
        for server in _each(option(service, "loadBalancer", "servers")):
            self._steps.take()
            count[0] += 1
            found = self._target(server)
            if found is not None:
                yield found
        provider = name.partition("@")[2]
        for inner in _inner(service):
            written = text_of(inner)
            following = f"{written}@{provider}" if provider and "@" not in written else written
            if following and not following.endswith("@internal"):
                count[0] += 1
                yield from self._servers(following, inner, (*chain, name), count)

    def _target(self, server: Node) -> tuple[Target, Evidence] | None:
        url = option(server, "url") or option(server, "address")
        if url is None:
            return None
        where = _evidence(url)
        target = server_target(url, self._protocol.name) if url.kind == SCALAR else None
        if target is None:
            self._unresolved(where, "the server's address does not stand in the file.")
            return None
        return target, where

    def _unresolved(self, where: Evidence, what: str) -> None:
        self._texts.problem_at(where, "E_UNRESOLVED", what)


def first_guard(
    refs: Iterable[Ref],
    held: Callable[[Ref], Node | None],
    within: Callable[[Ref, Node], Iterable[Ref]],
    steps: Steps,
    chain: tuple[Ref, ...] = (),
) -> Guard | None:
    """The first of some middlewares that asks who one is, those of chains among them. Where none does, those
    that the files do not hold, whose ``auth`` is not known; None where all are held and none asks.

    ``held``: the options of a middleware; ``within``: the middlewares that a chain names.
    """
    unknown: list[str] = []
    for ref in refs:
        steps.take()
        called, middleware = ref[1].partition("@")[0], held(ref)
        if middleware is None:
            if SINGLE_SIGN_ON.search(ref[1]) is not None:
                return Guard("oauth2", called)
            unknown.append(ref[1])
        for kind, (_, value) in middleware.entries.items() if middleware is not None else ():
            kind = kind.lower()
            if kind in ("basicauth", "digestauth"):
                return Guard("basic")
            if kind == "forwardauth":
                return Guard("oauth2", called)
            if kind == "chain" and ref not in chain and len(chain) < _MAX_CHAIN:
                guard = first_guard(within(ref, value), held, within, steps, (*chain, ref))
                if guard is not None and guard.auth is not None:
                    return guard
                unknown += [guard.name] if guard is not None and guard.name else []
    return Guard(None, ", ".join(dict.fromkeys(unknown))) if unknown else None


def _chained(chain: Node) -> list[Ref]:
    return [("", name) for name in words_of(option(chain, "middlewares"))]


def server_target(url: Node, protocol: str) -> Target | None:
    """Where a server's URL, or ``host:port`` of TCP and UDP, leads; None if that is not written out."""
    text = text_of(url)
    if not text or _TEMPLATE.search(text) is not None:
        return None
    scheme, mark, rest = text.partition("://")
    if protocol != "http":
        scheme, rest = protocol, rest if mark else text
    elif not mark:
        scheme, rest = "http", text
    elif scheme.lower() in _SCHEMES:
        scheme = _SCHEMES[scheme.lower()]
    else:
        return None
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    split = split_address(authority)
    if split is None or not split[0]:
        return None
    number = None if split[1] is None else port_number(split[1])
    return None if split[1] is not None and number is None else Target(scheme, split[0], number)


def _inner(service: Node) -> Iterator[Node]:
    """The nodes that name other services."""
    for kind in ("weighted", "highestRandomWeight"):
        for each in _each(option(service, kind, "services")):
            name = option(each, "name")
            if name is not None:
                yield name
    for path in (("mirroring", "service"), ("failover", "service"), ("failover", "fallback")):
        name = option(service, *path)
        if name is not None:
            yield name
    for each in _each(option(service, "mirroring", "mirrors")):
        name = option(each, "name")
        if name is not None:
            yield name


def _each(node: Node | None) -> Sequence[Node]:
    return node.items if node is not None and node.kind == SEQUENCE else ()


def _evidence(node: Node) -> Evidence:
    return Evidence(node.origin.path, node.start, max(node.end, node.start + 1))


def _below(above: rules.Target, own: rules.Target) -> rules.Target:
    if own.location is None:
        return rules.Target(own.host or above.host, above.location, above.path, own.methods or above.methods)
    return rules.Target(own.host or above.host, own.location, own.path, own.methods or above.methods)
