"""Routes as claims (mapping "nginx, SWAG"): reverse proxies, what they route to, and the endpoints there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from taboot_pipelines.extraction.tier_a.endpoints import Target
from taboot_pipelines.extraction.tier_a.nginx.directives import Miss, Span, parse_pass
from taboot_pipelines.extraction.tier_a.nginx.routes import Pass, Reader
from taboot_pipelines.extraction.tier_a.proxying import Guard, Route, RouteClaims
from taboot_pipelines.extraction.tier_a.texts import untemplated
from taboot_pipelines.model.records import Evidence, FileView, Interpretation, SourceFacts, UnitSpec

#: A quote that begins at a `set` must stay one statement that a person takes in at a glance.
MAX_QUOTE = 2000


#: Directives that no other program's configuration begins a line with.
_NGINX = re.compile(
    r"^[ \t]*(?:server_name|(?:proxy|fastcgi|grpc|uwsgi|scgi)_pass)[ \t]+[^;{}]{0,2000};", re.M
)
_BLOCK = re.compile(r"^[ \t]*(?:server|http|stream|upstream[ \t]+\S+|map[ \t]+\S+[ \t]+\$\w+)\s*\{", re.M)


def looks_like_nginx(head: str) -> bool:
    """Whether a text begins as a configuration of nginx."""
    plain = untemplated(head, "$")
    return _BLOCK.search(plain) is not None or _NGINX.search(plain) is not None


class NginxReader:
    """Reads a configuration file of nginx, or a fragment of SWAG, with all that it includes (a
    :class:`~taboot_pipelines.extraction.tier_a.recognition.FormatReader`)."""

    name = "nginx"
    version = "9"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        """What the file and its includes say. Raises nothing but what the store behind ``view`` raises; what
        cannot be read, followed or resolved is a problem beside the rest (``E_PARSE``, ``E_CYCLE``,
        ``E_UNRESOLVED``, ``E_TOO_LARGE``, ``E_NOT_FOUND``)."""
        reader = Reader(path, view)
        reader.read()
        claims = RouteClaims(reader.texts, source, path, "nginx", "")
        _claimed(claims, reader)
        return claims.result(frozenset(reader.subordinates))


class NginxExtractor:
    """Tier A of a source all of whose files are nginx's."""

    name, version = NginxReader.name, NginxReader.version

    def units(self, paths: Iterable[str]) -> list[UnitSpec]:
        """Each file handed in is a unit, named by its path; the connector says which files are in force."""
        return [UnitSpec(path, (path,)) for path in sorted(set(paths))]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """See :meth:`NginxReader.interpret`."""
        return NginxReader().interpret(unit.files[0], view, source)


def _claimed(claims: RouteClaims, reader: Reader) -> None:
    """The routes that the reader found, as those of any proxy."""
    for found in reader.routes:
        if claims.full:
            return
        target = parse_pass(found.directive, found.value, found.transport)
        peers = None if isinstance(target, Miss) else reader.peers(found, target)
        if isinstance(target, Miss) or peers is None:
            _add(claims, reader, found, target, found.place, f"nginx_{found.directive}")
            continue
        for peer, place in peers:
            _add(claims, reader, found, peer, place, "nginx_upstream")


def _add(
    claims: RouteClaims, reader: Reader, found: Pass, target: Target | Miss, place: Span, method: str
) -> None:
    if isinstance(target, Miss):
        if target is not Miss.SOCKET:
            what = (
                "the target depends on a variable that only a request sets"
                if target is Miss.VARIABLE
                else "the target is not an address"
            )
            reader.problem_at(place, "E_UNRESOLVED", what)
        return
    where = _quote(found) if place is found.place else Evidence(place.path, place.start, place.end)
    server = found.server
    names: list[str | None] = [
        n for n in dict.fromkeys(server.names if server else ()) if n and not any(map(str.isspace, n))
    ]
    if found.host is not None:
        names = [found.host]
    for name in names or [None]:
        claims.add(
            Route(
                target,
                where,
                name,
                found.location,
                found.path,
                found.named_by_tls or (server is not None and server.tls),
                _guard(found),
                method=method,
                rate_limit=reader.rate_limit(found),
                methods=found.methods,
            )
        )


def _guard(found: Pass) -> Guard | None:
    if found.guard is not None or found.guarded:
        # `auth_request` by itself: someone else's single sign-on.
        return Guard("oauth2", found.guard)
    return Guard("basic") if found.basic else None


def _quote(found: Pass) -> Evidence:
    """The pass directive, with the assignments beside it that it is put together from."""
    place = found.place
    start, end = place.start, place.end
    for s in found.sets:
        if s.path == place.path and s.home == place.home:
            start, end = min(start, s.start), max(end, s.end)
    return (
        Evidence(place.path, start, end)
        if end - start <= MAX_QUOTE
        else Evidence(place.path, place.start, place.end)
    )
