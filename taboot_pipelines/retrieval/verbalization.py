"""How edges and nodes are said: a relation with the properties that matter, names that are told apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Properties = Mapping[str, Any]

#: Properties of an edge that are bookkeeping, or stand beside it anyway.
BOOKKEEPING = frozenset({"chunkHash", "chunkId", "chunkIndex", "span", "schemaVersion"})


class NodeName(NamedTuple):
    """A node as far as its name needs it; ``scope`` is where its name means it, if that is known."""

    label: str
    key: str
    name: str
    scope: str | None = None


def plain(value: object) -> str:
    """A property's value in one line, without the marks of JSON."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(v) for v in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {plain(v)}" for k, v in value.items())
    return str(value)


def relation(type_: str, properties: Properties) -> str:
    """A relation as a person reads it: ``BINDS 3010→3000/tcp``, ``DEPENDS_ON (service_healthy)``."""
    words = said(type_, properties)
    return f"{type_} {words}" if words else type_


def said(type_: str, properties: Properties) -> str:
    """What a relation says beyond its type and its ends: ``3010→3000/tcp``; empty if nothing."""
    say = _SAID.get(type_)
    return say(properties) if say is not None else ""


def statement(start: str, type_: str, properties: Properties, end: str) -> str:
    """``(Service web)-[BINDS 80→8080/tcp]->(Host nas)``; the ends as :func:`node` says them."""
    return f"({start})-[{relation(type_, properties)}]->({end})"


def names_of(nodes: Iterable[NodeName]) -> dict[tuple[str, str], str]:
    """What each node, by (label, key), is called: ``Service db``, or where several of the label have the name
    ``Service db in nas/forge``; without a scope the beginning of the key tells them apart.
    """
    distinct = {(n.label, n.key): n for n in nodes}
    alike = Counter((n.label, n.name) for n in distinct.values())
    called = {at: node(n, alone=alike[n.label, n.name] == 1) for at, n in distinct.items()}
    twice = Counter(called.values())
    return {
        at: name if twice[name] == 1 else f"{at[0]} {distinct[at].name} [{at[1]}]"
        for at, name in called.items()
    }


def node(n: NodeName, *, alone: bool) -> str:
    """A node by label and name; unless it is ``alone`` in them, with what tells it apart."""
    if alone:
        return f"{n.label} {n.name}"
    scope = n.scope or _scope(n)
    return f"{n.label} {n.name} in {scope}" if scope else f"{n.label} {n.name} [{n.key[:8]}]"


def _scope(n: NodeName) -> str:
    """The scope of a node whose key is (scope, name)."""
    try:
        parts = json.loads(n.key)
    except ValueError:
        parts = None
    if isinstance(parts, list) and len(parts) == 2 and isinstance(parts[0], str):
        return parts[0]
    scope, _, name = n.key.rpartition("/")
    return scope if name == n.name else ""


def _binds(p: Properties) -> str:
    if not p.get("port"):
        return ""
    published = f"{p['hostIp']}:{p['port']}" if p.get("hostIp") else f"{p['port']}"
    inside = f"→{p['targetPort']}" if p.get("targetPort") else ""
    return f"{published}{inside}/{p.get('protocol', 'tcp')}"


def _routes(p: Properties) -> str:
    # The rule as it is written matters where it is more than a path.
    place = p.get("location") or p.get("path") or ""
    path = p.get("path") or ""
    where = path if place.removeprefix("= ").removeprefix("^~ ") == path else f" {place}"
    asked = f"{p.get('host') or ''}{where}".strip()
    scheme = p.get("scheme") or ""
    port = f":{p['port']}" if p.get("port") else ""
    target = f"{scheme}{' ' if scheme and port else ''}{port}" if scheme not in ("", "http") else port
    told = f"{asked} → {target}" if asked and target else asked or (f"→ {target}" if target else "")
    return ", ".join(filter(None, [told, "tls" if p.get("tls") else ""]))


def _depends(p: Properties) -> str:
    return _listed(
        p.get("condition"),
        "not required" if p.get("required") is False else None,
        "restarted with it" if p.get("restart") else None,
    )


def _connects(p: Properties) -> str:
    ports = p.get("port") or p.get("ports")
    where = f":{ports}" if ports else ""
    protocol = p.get("protocol")
    joined = f"{where}/{protocol}" if where and protocol else where or str(protocol or "")
    more = _listed(
        "encrypted" if p.get("encrypted") else None,
        f"via {', '.join(p['via'])}" if p.get("via") else None,
        f"posture {', '.join(p['posture'])}" if p.get("posture") else None,
        f"under conditions {', '.join(p['conditionalPorts'])}" if p.get("conditionalPorts") else None,
    )
    return " ".join(filter(None, [joined, more]))


def _exposes(p: Properties) -> str:
    auth = p.get("auth")
    return _listed(
        f"auth {auth}" if auth and auth != "none" else None,
        p.get("authInclude") if auth else None,
        f"at most {p['rateLimit']} requests" if p.get("rateLimit") else None,
    )


def _builds(p: Properties) -> str:
    return _listed(
        f"target {p['target']}" if p.get("target") else None,
        p.get("dockerfile"),
        f"arguments {', '.join(p['buildArgs'])}" if p.get("buildArgs") else None,
    )


def _listed(*parts: str | None) -> str:
    kept = [str(p) for p in parts if p]
    return f"({', '.join(kept)})" if kept else ""


_SAID: dict[str, Callable[[Properties], str]] = {
    "BINDS": _binds,
    "ROUTES_TO": _routes,
    "DEPENDS_ON": _depends,
    "CONNECTS_TO": _connects,
    "EXPOSES_ENDPOINT": _exposes,
    "BUILDS": _builds,
    "RUNS": lambda p: _listed(p.get("restartPolicy")),
    "RESOLVES_TO": lambda p: _listed(p.get("recordType"), f"ttl {p['ttl']}" if p.get("ttl") else None),
    "RUNS_IN": lambda p: _listed(
        p.get("networkMode"), f"as {', '.join(p['aliases'])}" if p.get("aliases") else None
    ),
}
