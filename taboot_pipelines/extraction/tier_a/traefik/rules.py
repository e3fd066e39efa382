"""What a router's rule says about the host and the path of a request, in each syntax of Traefik's."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*(?:(&&|\|\||!|\(|\))|([A-Za-z]+)\s*\(|(\S))")
_ARGUMENT = re.compile(r"\s*(?:`([^`]*)`|\"((?:[^\"\\]|\\.)*)\"|'([^']*)')\s*(,|\))")
_HOSTS = frozenset({"host", "hostheader", "hostregexp", "hostsni", "hostsniregexp"})
_LITERAL_PATHS = frozenset({"path", "pathprefix"})
_PATHS = frozenset({"path", "pathprefix", "pathregexp", "pathstrip", "pathprefixstrip"})
_MAX_DEPTH = 16
#: The alternatives that one rule may multiply out to.
_MAX_ALTERNATIVES = 256
#: The longest rule that is read.
_MAX_RULE = 65_536


@dataclass(frozen=True, slots=True)
class Target:
    """One alternative of a rule: ``host`` and ``location`` as written, ``path`` where it is literal, and the
    ``methods`` of which a request must have one."""

    host: str | None
    location: str | None
    path: str | None
    methods: tuple[str, ...] = ()


def targets(rule: str) -> list[Target]:
    """What a rule matches, one entry for each host and path of each alternative; [] if the rule cannot be
    read.

    Negated matchers and those on headers or clients say nothing about where a request goes, and are passed
    over.
    """
    alternatives = _Rule(rule).parse() if len(rule) <= _MAX_RULE else None
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
            (
                # Of several arguments each is a fact of its own.
                raw if len(args) == 1 else f"{raw.partition('(')[0]}(`{a}`)",
                a if name in _LITERAL_PATHS and a.startswith("/") and "{" not in a else None,
            )
            for name, args, raw in matchers
            if name in _PATHS
            for a in args
        ]
        methods = tuple(a.upper() for name, args, _ in matchers if name == "method" for a in args if a)
        for host in hosts or [None]:
            for location, path in paths or [(None, "/")]:
                found[Target(host, location, path, methods)] = None
    return list(found)


_OLD_RULE = re.compile(r"\s*([A-Za-z]+)\s*:\s*(.*?)\s*", re.DOTALL)
_OLD_PATHS = frozenset({"path", "pathprefix", "pathstrip", "pathprefixstrip"})


def old_targets(rule: str) -> list[Target]:
    """What a rule of Traefik 1 matches (``Host:a,b;PathPrefix:/x``); [] if it cannot be read."""
    hosts: list[str] = []
    paths: list[tuple[str | None, str | None]] = []
    if len(rule) > _MAX_RULE:
        return []
    # A pattern may hold the signs that part rules, in braces.
    for part in re.split(r";(?![^{]*\})", rule):
        match = _OLD_RULE.fullmatch(part)
        if match is None:
            if part.strip():
                return []
            continue
        kind = match[1].lower()
        values = [v.strip() for v in re.split(r",(?![^{]*\})", match[2]) if v.strip()]
        if kind in ("host", "hostregexp"):
            hosts += [v for v in values if not any(map(str.isspace, v))]
        elif kind in _OLD_PATHS or kind in ("pathregexp", "pathstripregex", "pathprefixstripregex"):
            literal = kind in _OLD_PATHS
            paths += [
                (f"{match[1]}:{v}", v if literal and v.startswith("/") and "{" not in v else None)
                for v in values
            ]
    named: list[str | None] = [*hosts] or [None]
    found = [Target(host, location, path) for host in named for location, path in paths or [(None, "/")]]
    return list(dict.fromkeys(found))


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
