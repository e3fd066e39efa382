"""Files of Traefik: dynamic configuration in YAML, TOML or as its API tells it, and that of Traefik 1."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.proxying import Guard, Route, RouteClaims, Steps
from taboot_pipelines.extraction.tier_a.recognition import base_name, ending, top_keys
from taboot_pipelines.extraction.tier_a.texts import BAD_TEXT, UNKNOWN, Problems, UnitTexts, untemplated
from taboot_pipelines.extraction.tier_a.toml_nodes import parse_toml
from taboot_pipelines.extraction.tier_a.traefik.dynamic import (
    EntryPoints,
    Protocol,
    Router,
    has,
    option,
    server_target,
    text_of,
    words_of,
)
from taboot_pipelines.extraction.tier_a.traefik.rules import old_targets
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, Node, Origin, parse
from taboot_pipelines.model.records import Evidence, FileView, Interpretation, SourceFacts

#: Files of one directory that a router's service is looked for in.
MAX_SIBLINGS = 200

_PROTOCOLS = ("http", "tcp", "udp")
_COMPOSE = re.compile(r"(?i)(?:.*[._-])?compose(?:[._-].*)?\.ya?ml")
_STATIC_NAMES = ("traefik.yml", "traefik.yaml", "traefik.toml")
#: What only Traefik has at the top, beside the protocols.
_STATIC_KEYS = frozenset(
    {"entryPoints", "providers", "certificatesResolvers", "serversTransport", "entrypoints"}
)
_YAML_PART = re.compile(
    r"^(?:http|tcp|udp):[ \t]*\r?\n(?:[ \t]*(?:#[^\n]*)?\r?\n|[ \t]+[^\s#][^\n]*\n)*?"
    r"[ \t]+[\"']?(?:routers|services|middlewares|serversTransports)[\"']?[ \t]*:",
    re.MULTILINE,
)
_YAML_FLOW = re.compile(r"^(?:http|tcp|udp):[ \t]*\{[^\n]*\b(?:routers|services|middlewares)\b", re.MULTILINE)
_TOML_PART = re.compile(
    r"^[ \t]*\[+[ \t]*(?:(?:http|tcp|udp)\.(?:routers|services|middlewares|serversTransports)\b"
    r"|frontends\b|backends\b|entryPoints\b|providers\.(?:file|docker|kubernetes\w*)\b)",
    re.MULTILINE | re.IGNORECASE,
)
#: A value that is an action, without quotes.
_BARE_ACTION = re.compile(r"([=:,\[][ \t]*)(\{\{[^{}\n\"]*\}\})")
_API = re.compile(r'"(?:routers|tcpRouters|udpRouters)"\s*:\s*\{')
_API_OTHER = re.compile(r'"(?:services|middlewares|tcpServices|udpServices)"\s*:\s*\{')


def looks_like_traefik(head: str) -> bool:
    """Whether a text begins as a configuration of Traefik, or as what its API tells (``/api/rawdata``)."""
    if head.lstrip("\ufeff \t\r\n").startswith("{"):
        return _API.search(head) is not None and (_API_OTHER.search(head) is not None or "@" in head)
    if _TOML_PART.search(head) is not None:
        return True
    if _YAML_PART.search(head) is not None or _YAML_FLOW.search(head) is not None:
        return True
    keys = top_keys(head)
    return "entryPoints" in keys and len(keys & (_STATIC_KEYS | {"api", "log", "http"})) > 1


class TraefikReader:
    """Tier A for Traefik's files. A unit is a file; a service or middleware that its routers name and it does
    not hold is looked for in the other files of its directory, which the file provider would read together.
    """

    name = "traefik"
    version = "7"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        """What the file says. What cannot be read, followed or resolved is a problem beside the rest
        (``E_PARSE``, ``E_CYCLE``, ``E_NOT_FOUND``, ``E_UNRESOLVED``, ``E_TOO_LARGE``)."""
        texts = UnitTexts(view)
        claims = RouteClaims(texts, source, path, "traefik", "traefik_file")
        try:
            claims.add_all(_Unit(path, texts).routes())
        except TabootError as error:
            if error.code not in BAD_TEXT:
                raise
            texts.problem(path, error.code, error.message)
        return claims.result()


class _Unit:
    def __init__(self, path: str, texts: UnitTexts) -> None:
        self._path = path
        self._texts = texts
        self._siblings: list[Node] | None = None
        self._steps = Steps(path)

    def routes(self) -> Iterator[Route]:
        for root in self._parsed(self._path, said=True):
            if root.kind != MAPPING:
                continue
            entry_points = self._entry_points(root)
            for name in _PROTOCOLS:
                yield from Router(
                    self._texts, _protocol(root, name), entry_points, self._elsewhere, self._steps
                ).routes()
            yield from self._old(root, entry_points)

    def _parsed(self, path: str, *, said: bool) -> list[Node]:
        """The documents of a file; what is wrong with it is ``said`` for the unit's own."""
        text = self._texts.text(path)
        if text is None:
            return []
        # The file provider runs templates first: what they give is not known, where they stand is.
        toml = ending(path) == "toml"
        plain = untemplated(_quoted(text) if toml else text)
        origin = Origin(path, plain, posixpath.dirname(path))
        found = Problems()
        try:
            roots = [parse_toml(origin)] if toml else parse(origin, found)
        except TabootError as error:
            if error.code not in BAD_TEXT:
                raise
            if said and untemplated(text) != text:
                self._texts.note_template(path)
            elif said:
                self._texts.problem(path, error.code, error.message)
            return []
        if said:
            for problem in found.listed():
                self._texts.problem(problem.path, problem.code, problem.message)
        return roots

    # --- other files ----------------------------------------------------------------------------------------

    def _elsewhere(self, protocol: str, kind: str, name: str) -> Node | None:
        if self._siblings is None:
            view, folder = self._texts.view, posixpath.dirname(self._path)
            paths = [
                p
                for kind in ("yml", "yaml", "toml")
                for p in view.glob(posixpath.join(folder, f"*.{kind}"))
                if p != self._path and _COMPOSE.fullmatch(base_name(p)) is None
            ]
            self._siblings = [root for p in paths[:MAX_SIBLINGS] for root in self._parsed(p, said=False)]
        for root in self._siblings:
            found = _named(option(root, protocol, kind)).get(name)
            if found is not None:
                return found
        return None

    def _entry_points(self, root: Node) -> EntryPoints:
        """Those of the file itself, else of the static file in its directory or one above."""
        if option(root, "entryPoints") is None:
            folder = posixpath.dirname(self._path)
            for place in (folder, posixpath.dirname(folder)):
                for name in _STATIC_NAMES:
                    path = posixpath.join(place, name)
                    if path != self._path and path in self._texts.view.paths:
                        for other in self._parsed(path, said=False):
                            if option(other, "entryPoints") is not None:
                                return _entry_points(other)
        return _entry_points(root)

    # --- Traefik 1 ------------------------------------------------------------------------------------------

    def _old(self, root: Node, entry_points: EntryPoints) -> Iterator[Route]:
        backends = _named(option(root, "backends"))
        for frontend in _named(option(root, "frontends")).values():
            wanted = option(frontend, "backend")
            backend = backends.get(text_of(wanted))
            if wanted is None:
                continue
            where = Evidence(wanted.origin.path, wanted.start, max(wanted.end, wanted.start + 1))
            if backend is None:
                self._texts.problem_at(where, "E_NOT_FOUND", "the backend that is named is not in the file.")
                continue
            tls = entry_points.tls(words_of(option(frontend, "entryPoints")) or ["http"])
            guard = None
            if any(
                option(frontend, *p) is not None
                for p in (("basicAuth",), ("auth", "basic"), ("auth", "digest"))
            ):
                guard = Guard("basic")
            elif option(frontend, "auth", "forward") is not None:
                guard = Guard("oauth2", text_of(option(frontend, "auth", "forward", "address")) or None)
            matched = [
                target
                for route in _named(option(frontend, "routes")).values()
                for target in old_targets(text_of(option(route, "rule")))
            ]
            for server in _named(option(backend, "servers")).values():
                url = option(server, "url")
                if url is None:
                    continue
                at = Evidence(url.origin.path, url.start, max(url.end, url.start + 1))
                target = server_target(url, "http")
                if target is None:
                    what = "the server's address does not stand in the file."
                    self._texts.problem_at(at, "E_UNRESOLVED", what)
                    continue
                for each in matched:
                    yield Route(target, at, each.host, each.location, each.path, tls, guard)


def _quoted(text: str) -> str:
    """TOML of equal length in which values that a template puts in are texts: others it does not know."""
    return _BARE_ACTION.sub(lambda m: f'{m[1]}"{UNKNOWN * (len(m[2]) - 2)}"', text)


def _protocol(root: Node, name: str) -> Protocol:
    """One protocol's part of a file, or of what the API tells."""
    prefix = "" if name == "http" else name
    found = Protocol(name)
    for kind, named in (
        ("routers", found.routers),
        ("services", found.services),
        ("middlewares", found.middlewares),
    ):
        named |= _named(option(root, name, kind))
        told = f"{prefix}{kind.capitalize()}" if prefix else kind
        # At the top these are the words of the API alone.
        if name != "http" or has(root, "routers"):
            named |= _named(option(root, told))
    return found


def _entry_points(root: Node) -> EntryPoints:
    found = EntryPoints()
    for name, node in _named(option(root, "entryPoints")).items():
        found.secure[name.lower()] = (
            option(node, "http", "tls") is not None or has(option(node, "http"), "tls") or has(node, "tls")
        )
        found.middlewares[name.lower()] = words_of(option(node, "http", "middlewares"))
    return found


def _named(node: Node | None) -> dict[str, Node]:
    if node is None or node.kind != MAPPING:
        return {}
    return {name: value for name, (_, value) in node.entries.items() if value.kind == MAPPING}
