"""What directives mean: the variables of ``set``, the target of a pass, and a whole ``server`` block."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from taboot_pipelines.extraction.tier_a.endpoints import Target, normal_host
from taboot_pipelines.extraction.tier_a.nginx.parser import Directive

#: A value that grows beyond this stays as written.
MAX_VALUE = 4096
#: A regular expression of a map that is longer, repeats more, or repeats a group, is not tried; characters of
#: a host's name (RFC 1035).
MAX_PATTERN, _MAX_REPEATS, _MAX_NAME = 200, 2, 253
_REPEATED_GROUP = re.compile(r"\)[*+{]")

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """Code points ``[start, end)`` of ``path``; ``home`` names the block that the statement stands in."""

    path: str
    start: int
    end: int
    home: int


@dataclass(frozen=True, slots=True)
class Value:
    text: str
    sets: tuple[Span, ...]


#: What a `map` may look at to find out which host is asked for, and which path.
_OF_HOST = frozenset({"host", "http_host", "server_name", "ssl_server_name", "ssl_preread_server_name"})
_OF_PATH = frozenset({"uri", "document_uri", "request_uri"})


@dataclass(frozen=True, slots=True)
class MapEntry:
    """A line of a ``map``: the value of its variable where its source fits ``pattern``."""

    pattern: str
    value: str
    place: Span


@dataclass(frozen=True, slots=True)
class Mapped:
    """A value that a ``map`` may give: for which host or path, where the map is by one; None: as it was."""

    value: str
    place: Span
    host: str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Map:
    """A ``map $source $variable { … }``. ``default``: what holds where no line fits."""

    source: str
    entries: tuple[MapEntry, ...]
    default: MapEntry | None

    @property
    def by_name(self) -> bool:
        """Whether it is by the name that a client asks for in TLS."""
        return self.source == "ssl_preread_server_name"

    def values(self, names: Sequence[str]) -> Iterator[Mapped]:
        """What the variable may be in a server of these names, each for the host or path that it is for."""
        if self.source in _OF_HOST:
            open_ = [name for name in names if not _is_plain(name)]
            for name in names:
                entry = self._lookup(name) if _is_plain(name) else None
                if entry is not None:
                    yield Mapped(entry.value, entry.place, name)
            for entry in self.entries if open_ or not names else ():
                if not names or any(_may_be(name, entry.pattern) for name in open_):
                    yield Mapped(entry.value, entry.place, entry.pattern)
            if self.default is not None and (open_ or not names):
                for host in open_ or [""]:
                    yield Mapped(self.default.value, self.default.place, host or None)
            return
        by_path = self.source in _OF_PATH
        for entry in self.entries:
            yield Mapped(entry.value, entry.place, location=entry.pattern if by_path else None)
        if self.default is not None:
            yield Mapped(self.default.value, self.default.place)

    def _lookup(self, name: str) -> MapEntry | None:
        """The line for a host: the one that is it, the longest wildcard, the first regular expression."""
        folded = name.lower()
        wild: tuple[int, MapEntry] | None = None
        for entry in self.entries:
            pattern = entry.pattern.lower()
            if pattern == folded:
                return entry
            if _fits(folded, pattern) and (wild is None or len(pattern) > wild[0]):
                wild = len(pattern), entry
        if wild is not None:
            return wild[1]
        for entry in self.entries:
            matches = _matches(folded, entry.pattern)
            if matches is not False:
                # What is not tried may be it, and then nothing behind it holds.
                return entry if matches else None
        return self.default


def _is_plain(name: str) -> bool:
    """Whether a server's name is one host, and neither a pattern nor a name for any."""
    return "." in name.strip(".") and not name.startswith(("~", ".", "*")) and not name.endswith("*")


def _fits(name: str, pattern: str) -> bool:
    """Whether a host fits ``.example.com``, ``*.example.com`` or ``www.*``."""
    if pattern.startswith("."):
        return name == pattern[1:] or name.endswith(pattern)
    if pattern.startswith("*."):
        return name.endswith(pattern[1:])
    return pattern.endswith(".*") and name.startswith(pattern[:-1])


def _matches(name: str, pattern: str) -> bool | None:
    """Whether a host matches ``~regular expression``; None for one that is not tried: Python does not read
    it, or it might take Python a time without bounds."""
    if not pattern.startswith("~"):
        return False
    repeats = sum(map(pattern[1:].lstrip("*").count, "*+{"))
    if len(pattern) > MAX_PATTERN or repeats > _MAX_REPEATS or _REPEATED_GROUP.search(pattern):
        return None
    try:
        return re.search(pattern[1:].lstrip("*"), name[:_MAX_NAME], re.I) is not None
    except re.error:
        return None


def _may_be(name: str, pattern: str) -> bool:
    """Whether a line of a map may be for a host of a server whose name is a pattern."""
    return name.startswith("~") or "." not in name.strip(".*") or _fits(pattern.lower(), name.lower())


def expand(text: str, env: dict[str, Value]) -> tuple[str, tuple[Span, ...]]:
    """``text`` with known variables put in, and the assignments they came from; unknown ones stay."""
    if "$" not in text:
        return text, ()
    sets: dict[Span, None] = {}
    size = 0

    def put(m: re.Match[str]) -> str:
        nonlocal size
        value = env.get(m[1] or m[2])
        if value is None or size > MAX_VALUE:
            return m[0]
        size += len(value.text)
        sets.update(dict.fromkeys(value.sets))
        return value.text

    result = _VARIABLE.sub(put, text)
    return (text, ()) if size > MAX_VALUE else (result, tuple(sets))


def variables(text: str) -> list[str]:
    """The names of the variables in a value."""
    return [m[1] or m[2] for m in _VARIABLE.finditer(text)]


#: The scheme of what each directive talks to; ``proxy_pass`` writes its own.
PASSES: dict[str, str | None] = {
    "proxy_pass": None,
    "grpc_pass": "grpc",
    "fastcgi_pass": "fastcgi",
    "uwsgi_pass": "uwsgi",
    "scgi_pass": "scgi",
}
_SCHEMES = {
    "http": "http",
    "https": "https",
    "ws": "ws",
    "wss": "wss",
    "grpc": "grpc",
    "grpcs": "grpc+tls",
    "uwsgi": "uwsgi",
    "suwsgi": "uwsgi",
    "fastcgi": "fastcgi",
    "scgi": "scgi",
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: Variables that begin with a path or a query: what stands before them is the whole authority.
_URI_TAIL = re.compile(r"\$\{?(?:request_uri|uri|document_uri|is_args|args|query_string)\b")
_CAPTURE_TAIL = re.compile(r":\d{1,5}(?=\$)")
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)


class Miss(Enum):
    """Why there is no target."""

    #: Known, and not an address of the network: a unix socket.
    SOCKET = "socket"
    #: Depends on a variable that only a request sets.
    VARIABLE = "variable"
    #: Not what nginx accepts there.
    SYNTAX = "syntax"


def parse_pass(directive: str, value: str, transport: str | None) -> Target | Miss:
    """The target of ``directive value;`` with its ``set`` variables already put in.

    ``transport`` is ``tcp`` or ``udp`` in a server of the stream module, whose ``proxy_pass`` has no scheme.
    """
    scheme = PASSES[directive]
    if value.lower().startswith("unix:") and (scheme or transport):
        # `unix:/x` as well as `unix:///x`, whose slashes begin a path and end no scheme.
        return Miss.SOCKET
    if (m := _SCHEME.match(value)) is not None:
        written = _SCHEMES.get(m[1].lower())
        if written is None:
            return Miss.SYNTAX
        scheme, value = written, value[m.end() :]
    elif scheme is None:
        scheme = transport
    if scheme is None:
        return Miss.VARIABLE if "$" in value else Miss.SYNTAX
    return parse_address(scheme, value)


def parse_address(scheme: str, value: str) -> Target | Miss:
    """The target of ``host``, ``host:port`` or either with a path behind it."""
    if value.lower().startswith("unix:"):
        return Miss.SOCKET
    authority = re.split(r"[/?#]", value, maxsplit=1)[0]
    if (m := _URI_TAIL.search(authority)) is not None:
        authority = authority[: m.start()]
    elif (m := _CAPTURE_TAIL.search(authority)) is not None:
        authority = authority[: m.end()]
    if "$" in authority:
        return Miss.VARIABLE
    m = _AUTHORITY.fullmatch(authority)
    if m is None or normal_host(m[1]) is None:
        return Miss.SYNTAX
    if m[2] is None:
        return Target(scheme, m[1], None)
    if not (m[2].isascii() and m[2].isdigit() and len(m[2]) <= 5 and 1 <= int(m[2]) <= 65535):
        return Miss.SYNTAX
    return Target(scheme, m[1], int(m[2]))


_GLUED = re.compile(r"(=|\^~|~\*|~)(.+)", re.DOTALL)
_META = frozenset("^$.|?*+()[]{}")


def location_path(args: list[str]) -> str | None:
    """The literal prefix that every URI of a ``location args… {`` begins with; None if there is none."""
    if len(args) == 1 and (m := _GLUED.fullmatch(args[0])) is not None:
        args = [m[1], m[2]]
    modifier, pattern = ("", args[0]) if len(args) == 1 else (args[0], args[1])
    if modifier in ("~", "~*"):
        return _regex_prefix(pattern)
    return pattern if pattern.startswith("/") else None


def _regex_prefix(pattern: str) -> str | None:
    """The path that every match of a regular expression begins with, if it is anchored and fixes one."""
    if not pattern.startswith("^") or _has_outer_alternative(pattern):
        return None
    prefix: list[str] = []
    i, n = 1, len(pattern)
    while i < n:
        c = pattern[i]
        if c == "\\":
            if i + 1 == n or pattern[i + 1].isalnum():
                break
            c, i = pattern[i + 1], i + 1
        elif c in _META:
            if c in "?*{" and prefix:
                # The quantifier makes the character before it optional.
                prefix.pop()
            break
        prefix.append(c)
        i += 1
    text = "".join(prefix)
    return text if text.startswith("/") else None


def _has_outer_alternative(pattern: str) -> bool:
    """Whether a regular expression has a ``|`` outside all groups: its right side may begin with anything."""
    depth, escaped, in_class = 0, False, False
    for c in pattern:
        if escaped:
            escaped = False
        elif c == "\\":
            escaped = True
        elif in_class:
            in_class = c != "]"
        elif c == "[":
            in_class = True
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "|" and depth <= 0:
            return True
    return False


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
