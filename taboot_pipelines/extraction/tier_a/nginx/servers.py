"""What holds for a whole ``server`` block: its names, its sockets, and whether it ever passes a request
on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from taboot_pipelines.extraction.tier_a.nginx.parser import Directive

#: (address, port or path, whether it takes datagrams)
Socket = tuple[str, str, bool]

_LISTEN = re.compile(r"(?:(\[[^\]]*\]|[^:\[\]]*):)?(\d+(?:-\d+)?)", re.ASCII)
#: A range of more ports than this is one socket to us.
_MAX_PORTS = 1000
#: Patterns of `rewrite` that match every URI.
_ALL = frozenset(
    {"^", "/", "^/", ".*", "^.*", "^.*$", "(.*)", "^(.*)", "^(.*)$", "^/(.*)", "^/(.*)$", "^/.*", "^/.*$"}
)
_REDIRECTS = ("http://", "https://", "$scheme")


@dataclass(slots=True)
class Server:
    """A server block. ``dead``: it answers every request itself, so that its locations are never reached, but
    for those that an `error_page` leads to (``handlers``)."""

    names: list[str] = field(default_factory=list)
    sockets: set[Socket] = field(default_factory=set)
    #: Those of its sockets that it says have TLS. nginx then has it for the socket, whichever server answers.
    secure: set[Socket] = field(default_factory=set)
    tls: bool = False
    udp: bool = False
    #: In the stream module, where a server passes on by itself.
    stream: bool = False
    dead: bool = False
    handlers: set[str] = field(default_factory=set)


def read_server(directives: Iterable[Directive], stream: bool) -> Server:
    """The server that these directives make, its includes put in place. ``tls`` is what it says itself; what
    others say of its sockets is not seen here."""
    block = list(directives)
    server = Server(stream=stream, dead=answers(block))
    for d in block:
        if d.children is not None:
            continue
        if d.name == "server_name":
            server.names.extend(d.args)
        elif d.name == "listen" and d.args:
            options = d.args[1:]
            sockets = _sockets(d.args[0], "udp" in options or "quic" in options)
            server.sockets.update(sockets)
            if "ssl" in options or "quic" in options:
                server.secure.update(sockets)
                server.tls = True
            server.udp = server.udp or "udp" in options
        elif d.name == "error_page" and d.args and d.args[-1].startswith("@"):
            server.handlers.add(d.args[-1])
        elif d.name == "ssl" and d.args == ["on"]:
            server.tls = True
    if not server.sockets:
        server.sockets.update(_sockets("80", False))
    return server


def _sockets(address: str, datagrams: bool) -> list[Socket]:
    """What a `listen` opens: an address without a port is on port 80, a port alone on all of IPv4."""
    if address.lower().startswith("unix:"):
        return [(address, "", datagrams)]
    match = _LISTEN.fullmatch(address)
    if match is None:
        return [(address.lower(), "80", datagrams)]
    host = (match[1] or "*").lower()
    host = "*" if host == "0.0.0.0" else host
    first, _, last = match[2].partition("-")
    if last and len(first) <= 5 and len(last) <= 5 and 0 <= int(last) - int(first) < _MAX_PORTS:
        return [(host, str(port), datagrams) for port in range(int(first), int(last) + 1)]
    return [(host, match[2].lstrip("0"), datagrams)]


def answers(block: Iterable[Directive]) -> bool:
    """Whether every request that reaches a block is answered there by a `return`, or a `rewrite` that
    redirects: nginx runs these in their order before it passes anything on.

    After what may end that run before (`break`, a `rewrite` with `last` or `break`, in an `if` too), nothing
    is sure.
    """
    for d in block:
        if d.name == "return" and d.args and d.children is None:
            return True
        if d.name == "rewrite" and len(d.args) >= 2 and d.args[0] in _ALL and _redirects(d.args):
            return True
        if _ends_the_run(d) or (d.name == "if" and any(map(_ends_the_run, d.children or ()))):
            return False
    return False


def _redirects(args: list[str]) -> bool:
    flag = args[2] if len(args) > 2 else ""
    return flag in ("permanent", "redirect") or args[1].startswith(_REDIRECTS)


def _ends_the_run(d: Directive) -> bool:
    return d.name == "break" or (
        d.name == "rewrite" and len(d.args) > 2 and d.args[2] in ("last", "break") and not _redirects(d.args)
    )
