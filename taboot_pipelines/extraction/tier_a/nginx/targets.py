"""What the argument of a ``*_pass`` directive, or of an upstream's ``server``, leads to."""

from __future__ import annotations

import re
from enum import Enum

from taboot_pipelines.extraction.tier_a.endpoints import Target, normal_host

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
