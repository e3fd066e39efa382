"""Traefik's Docker labels (v2 and v3): routers, their services, and what a rule says about host and path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from taboot_pipelines.extraction.tier_a.yaml_nodes import Entry, Node

_LABEL = re.compile(r"traefik\.(http|tcp|udp)\.(routers|services)\.([^.]+)(?:\.(.+))?", re.IGNORECASE)
_TOKEN = re.compile(r"\s*(?:(&&|\|\||!|\(|\))|([A-Za-z]+)\s*\(|(\S))")
_ARGUMENT = re.compile(r"\s*(?:`([^`]*)`|\"((?:[^\"\\]|\\.)*)\"|'([^']*)')\s*(,|\))")
_HOSTS = frozenset({"host", "hostheader", "hostregexp", "hostsni", "hostsniregexp"})
_LITERAL_PATHS = frozenset({"path", "pathprefix"})
_PATHS = frozenset({"path", "pathprefix", "pathregexp", "pathstrip", "pathprefixstrip"})
_SECURE_ENTRYPOINTS = frozenset({"websecure", "https", "web-secure", "websecured"})
_MAX_DEPTH = 16
#: The alternatives that one rule may multiply out to.
_MAX_ALTERNATIVES = 256


@dataclass(frozen=True, slots=True)
class Target:
    """One alternative of a rule: ``host`` and ``location`` as written, ``path`` where it is literal."""

    host: str | None
    location: str | None
    path: str | None


@dataclass(slots=True)
class Router:
    name: str
    protocol: str
    rule: Node | None = None
    #: The first label of the router, which stands for it when it has no rule.
    label: Node | None = None
    service: str | None = None
    tls: bool = False
    tls_off: bool = False


@dataclass(slots=True)
class Balancer:
    """A Traefik service: where its port stands."""

    name: str
    protocol: str
    port: int | None = None
    scheme: str | None = None
    node: Node | None = None


@dataclass(slots=True)
class Labels:
    routers: dict[tuple[str, str], Router] = field(default_factory=dict)
    balancers: dict[tuple[str, str], Balancer] = field(default_factory=dict)


def read_labels(labels: Mapping[str, Entry]) -> Labels:
    """The routers and services of one container's labels; nothing if ``traefik.enable`` is false."""
    found = Labels()
    lowered = {name.lower(): value for name, (_, value) in labels.items()}
    enable = lowered.get("traefik.enable")
    if enable is not None and not enable.boolean(default=True):
        return found
    for name, (_, node) in labels.items():
        match = _LABEL.fullmatch(name)
        if match is None:
            continue
        protocol = match[1].lower()
        kind = match[2].lower()
        who = match[3]
        field_name = (match[4] or "").lower()
        text = node.text
        if kind == "routers":
            router = found.routers.setdefault((protocol, who.lower()), Router(who, protocol))
            router.label = router.label or node
            if field_name == "rule":
                router.rule = node
            elif field_name == "service":
                router.service = text.strip()
            elif field_name == "tls":
                router.tls, router.tls_off = node.boolean(default=True), not node.boolean(default=True)
            elif field_name.startswith("tls.") or (
                field_name == "entrypoints"
                and not _SECURE_ENTRYPOINTS.isdisjoint(e.strip().lower() for e in text.split(","))
            ):
                router.tls = True
        elif field_name.startswith("loadbalancer"):
            balancer = found.balancers.setdefault((protocol, who.lower()), Balancer(who, protocol))
            if (
                field_name == "loadbalancer.server.port"
                and text.isascii()
                and text.strip().isdecimal()
                and len(text) < 12
                and 1 <= int(text) <= 65535
            ):
                balancer.port, balancer.node = int(text), node
            elif field_name == "loadbalancer.server.scheme":
                balancer.scheme = text.strip().lower()
    for router in found.routers.values():
        router.tls = router.tls and not router.tls_off
    return found


def targets(rule: str) -> list[Target]:
    """What a rule matches, one entry for each host and path of each alternative; [] if the rule cannot be
    read.

    Negated matchers and those on headers, methods or clients say nothing about where a request goes, and are
    passed over.
    """
    parser = _Rule(rule)
    alternatives = parser.parse()
    found: dict[Target, None] = {}
    for matchers in alternatives or ():
        hosts: list[str | None] = [
            a
            for name, args, _ in matchers
            if name in _HOSTS
            for a in args
            if a and not any(c.isspace() for c in a)
        ]
        paths: list[tuple[str | None, str | None]] = [
            (raw, a if name in _LITERAL_PATHS and a.startswith("/") and "{" not in a else None)
            for name, args, raw in matchers
            if name in _PATHS
            for a in args
        ]
        for host in hosts or [None]:
            for location, path in paths or [(None, "/")]:
                found[Target(host, location, path)] = None
    return list(found)


Matcher = tuple[str, list[str], str]


class _Rule:
    """Recursive descent over ``||``, ``&&``, ``!`` and matchers; the value is a list of alternatives."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def parse(self) -> list[list[Matcher]] | None:
        value = self.either(0)
        return value if value is not None and not self.text[self.at :].strip() else None

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return "" if match is None else match[1] or ""

    def take(self) -> None:
        match = _TOKEN.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def either(self, depth: int) -> list[list[Matcher]] | None:
        value = self.both(depth)
        while value is not None and self.peek() == "||":
            self.take()
            other = self.both(depth)
            value = None if other is None or len(value) + len(other) > _MAX_ALTERNATIVES else [*value, *other]
        return value

    def both(self, depth: int) -> list[list[Matcher]] | None:
        value = self.one(depth)
        while value is not None and self.peek() == "&&":
            self.take()
            other = self.one(depth)
            value = (
                None
                if other is None or len(value) * len(other) > _MAX_ALTERNATIVES
                else [[*a, *b] for a in value for b in other]
            )
        return value

    def one(self, depth: int) -> list[list[Matcher]] | None:
        match = _TOKEN.match(self.text, self.at)
        if match is None or depth > _MAX_DEPTH:
            return None
        self.at = match.end()
        if match[1] == "!":
            return None if self.one(depth + 1) is None else [[]]
        if match[1] == "(":
            value = self.either(depth + 1)
            if self.peek() != ")":
                return None
            self.take()
            return value
        if match[2] is None:
            return None
        start = match.start(2)
        arguments: list[str] = []
        while True:
            argument = _ARGUMENT.match(self.text, self.at)
            if argument is None:
                return None
            self.at = argument.end()
            arguments.append(next(g for g in argument.group(1, 2, 3) if g is not None))
            if argument[4] == ")":
                return [[(match[2].lower(), arguments, self.text[start : self.at])]]
