"""The node and relation types, with the fields and rules of each.

Nodes and edges travel as observations (:mod:`taboot_pipelines.model.records`) whose ``properties`` hold the
fields declared here; :func:`check_node` and :func:`check_edge` are the one gate that every extractor's output
passes. ``createdAt``/``updatedAt`` are not properties: they are
``first_seen``/``last_seen``, derived from the support (rule ``incremental-equals-scratch``). Keys and
discriminators: ``graph-mapping``.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from taboot_pipelines.errors import TabootError

SCHEMA_VERSION = "1.0.0"


class EdgeSource(StrEnum):
    """Who says it; the reducer's priorities (rule ``deterministic-reducer``) are :data:`PRIORITY`."""

    CORRECTION = "correction"
    STRUCTURED = "structured"
    TIER_A = "tier_a"
    TIER_B = "tier_b"
    TIER_C = "tier_c"


PRIORITY = {
    EdgeSource.CORRECTION: 1000,
    EdgeSource.STRUCTURED: 100,
    EdgeSource.TIER_A: 30,
    EdgeSource.TIER_B: 20,
    EdgeSource.TIER_C: 10,
}


class Basis(StrEnum):
    """Why an end of an edge is what it is (rule ``support``)."""

    BYTES = "bytes"
    NORMALIZED = "normalized"
    DERIVED = "derived"
    SOURCE = "source"


Check = Callable[[Any], bool]

_SERVICE_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}")
_HOST_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_OS_TYPE = re.compile(r"[a-z0-9_]+")
_PROTOCOL = re.compile(r"[a-z0-9][a-z0-9+._-]*")
#: ``*``, or ports and ranges of them: ``22,80-443``.
_PORT_LIST = re.compile(r"\*|[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
_HEX64 = re.compile(r"[0-9a-f]{64}")
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}|[0-9a-f]{64}")
_DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,}")
_SOURCE_TYPE = re.compile(r"[a-z][a-z0-9_]{0,62}")
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

SCHEMES = frozenset(
    {"http", "https", "grpc", "grpc+tls", "ws", "wss", "fastcgi", "uwsgi", "scgi", "tcp", "udp"}
)
AUTHS = frozenset({"bearer", "basic", "oauth2", "apikey", "mtls", "none"})
RESTART_POLICIES = frozenset({"no", "always", "unless-stopped", "on-failure"})
NETWORK_MODES = frozenset({"bridge", "host", "none", "overlay", "macvlan", "custom"})
#: How the names of the extraction methods begin that read text, not configuration.
TEXT_METHOD = "prose_"
#: ... and those that read what an engine or a machine says that runs: no declaration, whatever it says.
RUNNING_METHOD = "running_"
#: Whether what depends goes down with the other, or only starts after it.
DEPENDENCY_KINDS = frozenset({"need", "order"})
RECORD_TYPES = frozenset({"A", "AAAA", "CNAME", "MX", "TXT", "NS", "PTR"})
TAILNET = ipaddress.ip_network("100.64.0.0/10")


def _text(v: Any) -> bool:
    return isinstance(v, str) and v != ""


def _str(v: Any) -> bool:
    return isinstance(v, str)


def _bool(v: Any) -> bool:
    return isinstance(v, bool)


def _port(v: Any) -> bool:
    return isinstance(v, int) and not isinstance(v, bool) and 1 <= v <= 65535


def is_source_type(v: Any) -> bool:
    """Whether ``v`` can be the name of a source type; ``taboot_pipelines.sources`` knows which there are."""
    return isinstance(v, str) and _SOURCE_TYPE.fullmatch(v) is not None


def _full(pattern: re.Pattern[str]) -> Check:
    return lambda v: isinstance(v, str) and pattern.fullmatch(v) is not None


def _one_of(values: frozenset[str]) -> Check:
    return lambda v: isinstance(v, str) and v in values


def _map(v: Any) -> bool:
    return isinstance(v, Mapping)


def _strings(v: Any) -> bool:
    return isinstance(v, list) and all(isinstance(i, str) for i in v)


def is_ip(v: Any) -> bool:
    try:
        return isinstance(v, str) and str(ipaddress.ip_address(v)) == v.lower()
    except ValueError:
        return False


def _is_bound_address(v: Any) -> bool:
    """Whether it is an address, or the variable without a value that stands in its place."""
    return is_ip(v) or (isinstance(v, str) and re.fullmatch(r"\$(?:\w+|\{\w+\})", v) is not None)


def is_cidr(v: Any) -> bool:
    try:
        return isinstance(v, str) and "/" in v and bool(ipaddress.ip_network(v, strict=False))
    except ValueError:
        return False


def is_hostname(v: Any) -> bool:
    """RFC 1123 without a trailing dot, at most 253 characters. Underscores are allowed: real names have
    them."""
    return (
        isinstance(v, str) and 0 < len(v) <= 253 and all(_HOST_LABEL.fullmatch(part) for part in v.split("."))
    )


def is_fqdn_or_ip(v: Any) -> bool:
    return is_hostname(v) or is_ip(v)


def is_public(address: str) -> bool:
    """Whether an IP or CIDR lies outside the private and reserved ranges (RFC 1918, 6890)."""
    return ipaddress.ip_network(address, strict=False).is_global


def _path(v: Any) -> bool:
    return isinstance(v, str) and v.startswith("/")


def _host_rule(v: Any) -> bool:
    # server_name and Traefik's rules allow wildcards, regexes and catch-alls: any token without spaces.
    return isinstance(v, str) and v != "" and not any(c.isspace() for c in v)


@dataclass(frozen=True)
class NodeType:
    """A label: the fields that make its key (each required), and its other properties with their rules."""

    label: str
    key: tuple[str, ...]
    key_checks: tuple[Check, ...]
    properties: Mapping[str, Check] = field(default_factory=dict)


NODES: dict[str, NodeType] = {
    n.label: n
    for n in (
        NodeType(
            "Document",
            ("docId",),
            (_full(_UUID4),),
            {
                "url": _text,
                "title": _str,
                "sourceType": is_source_type,
                "retentionPolicy": lambda v: isinstance(v, int) and v >= 1,
                "contentHash": _full(_HEX64),
                "metadata": _map,
            },
        ),
        NodeType(
            "Service",
            ("scope", "name"),
            (_str, _full(_SERVICE_NAME)),
            {
                "version": _text,
                "protocol": _full(_PROTOCOL),
                "port": _port,
                "description": _str,
                "schemaVersion": _text,
                "profiles": _strings,
                "restart": _text,
                "containerName": _text,
                "chart": _text,
                "unresolved": _strings,
            },
        ),
        NodeType(
            "Host",
            ("hostname",),
            (is_hostname,),
            {"ip": is_ip, "osType": _full(_OS_TYPE), "description": _str, "groups": _strings},
        ),
        NodeType("IP", ("addr",), (is_ip,), {"cidr": is_cidr, "isPublic": _bool}),
        NodeType(
            "ReverseProxy",
            ("name",),
            (_full(_SERVICE_NAME),),
            {"type": _full(_PROTOCOL), "version": _text, "configPath": _text},
        ),
        NodeType(
            "Endpoint",
            ("scheme", "fqdn", "port", "path"),
            (_one_of(SCHEMES), is_fqdn_or_ip, _port, _path),
            {"method": _text, "authRequired": _bool},
        ),
        NodeType(
            "Network",
            ("networkId",),
            (_text,),
            {
                "name": _text,
                "cidrs": lambda v: isinstance(v, list) and all(is_cidr(c) for c in v),
                "isPublic": _bool,
                "description": _str,
                "driver": _text,
                "declared": _bool,
                "vlan": lambda v: isinstance(v, int) and 1 <= v <= 4094,
            },
        ),
        NodeType(
            "Container",
            ("containerId",),
            (_full(_CONTAINER_ID),),
            {
                "name": _text,
                "image": _text,
                "composeProject": _text,
                "composeService": _text,
                "declared": _bool,
                "mounts": _strings,
                "running": _bool,
                "state": _text,
                "restart": _text,
                "imageDigest": _full(_DIGEST),
                "unit": _text,
            },
        ),
        NodeType(
            "Image",
            ("imageId",),
            (lambda v: isinstance(v, str) and (v.startswith("name:") or _DIGEST.fullmatch(v) is not None),),
            {
                "name": _text,
                "registry": _text,
                "repository": _text,
                "tag": _text,
                "digest": _text,
                "reference": _text,
                "declared": _bool,
            },
        ),
        NodeType(
            "VPNTunnel",
            ("tunnelId",),
            (_text,),
            {
                "name": _text,
                "type": _full(_PROTOCOL),
                "localEndpoint": lambda v: is_ip(v) or is_cidr(v),
                "remoteEndpoint": lambda v: is_ip(v) or is_cidr(v),
                "peerKeyHashes": lambda v: isinstance(v, list) and all(map(_full(_HEX64), v)),
                "declared": _bool,
            },
        ),
        NodeType(
            "TailscaleNode",
            ("nodeId",),
            (_text,),
            {
                "name": _text,
                "tailscaleIp": lambda v: is_ip(v) and ipaddress.ip_address(v) in TAILNET,
                "lastSeen": _text,
                "authorized": _bool,
                "tags": _strings,
                "advertisedRoutes": _strings,
                "enabledRoutes": _strings,
                "exitNode": _bool,
                "machineKeyHash": _full(_HEX64),
            },
        ),
    )
}


@dataclass(frozen=True)
class EdgeType:
    """A relation: its ends, its properties, which of them are required, and which make it another fact.
    ``further``: of these the ones that a statement gives at all."""

    type: str
    start: frozenset[str]
    end: frozenset[str]
    properties: Mapping[str, Check]
    required: frozenset[str] = frozenset()
    discriminator: tuple[str, ...] = ()
    further: tuple[str, ...] = ()

    @property
    def identifying(self) -> tuple[str, ...]:
        """Every property that may make it another fact."""
        return self.discriminator + self.further


_ANY = frozenset(NODES)

EDGES: dict[str, EdgeType] = {
    e.type: e
    for e in (
        EdgeType(
            "DEPENDS_ON",
            frozenset({"Service"}),
            frozenset({"Service"}),
            {
                "kind": _one_of(DEPENDENCY_KINDS),
                "condition": _text,
                "required": _bool,
                "restart": _bool,
            },
        ),
        EdgeType(
            "ROUTES_TO",
            frozenset({"ReverseProxy"}),
            frozenset({"Service", "Endpoint"}),
            {
                "host": _host_rule,
                "path": _path,
                "tls": _bool,
                "location": _text,
                "port": _port,
                "scheme": _one_of(SCHEMES),
                "auth": _one_of(AUTHS),
                "authInclude": _text,
                "unresolved": _strings,
            },
            frozenset({"tls"}),
            ("host", "location"),
            ("port",),
        ),
        EdgeType(
            "BINDS",
            frozenset({"Service", "Container", "Host"}),
            frozenset({"Host", "IP"}),
            {
                "port": _port,
                "protocol": _full(_PROTOCOL),
                "targetPort": _port,
                "hostIp": _is_bound_address,
                "process": _text,
                "running": _bool,
            },
            frozenset({"port", "protocol"}),
            ("port", "protocol"),
        ),
        EdgeType(
            "RUNS",
            frozenset({"Container"}),
            frozenset({"Host"}),
            {"restartPolicy": _one_of(RESTART_POLICIES), "running": _bool},
        ),
        EdgeType(
            "EXPOSES_ENDPOINT",
            frozenset({"Service"}),
            frozenset({"Endpoint"}),
            {
                "auth": _one_of(AUTHS),
                "authInclude": _text,
                "rateLimit": lambda v: isinstance(v, int) and v >= 1,
            },
        ),
        EdgeType(
            "CONNECTS_TO",
            frozenset({"Service", "Host"}),
            frozenset({"Service", "Host", "Network"}),
            {
                "protocol": _full(_PROTOCOL),
                "encrypted": _bool,
                "port": _port,
                "ports": _full(_PORT_LIST),
                "network": _text,
                "via": _strings,
                "posture": _strings,
                "conditionalPorts": _strings,
            },
            frozenset(),
            ("protocol",),
        ),
        EdgeType(
            "RESOLVES_TO",
            frozenset({"Host"}),
            frozenset({"IP"}),
            {"recordType": _one_of(RECORD_TYPES), "ttl": lambda v: isinstance(v, int) and v >= 0},
            frozenset({"recordType"}),
            ("recordType",),
        ),
        EdgeType(
            "RUNS_IN",
            frozenset({"Container"}),
            frozenset({"Network"}),
            {"networkMode": _one_of(NETWORK_MODES), "aliases": _strings, "external": _bool, "running": _bool},
        ),
        EdgeType(
            "BUILDS",
            frozenset({"Service", "Container"}),
            frozenset({"Image"}),
            {
                "buildArgs": _strings,
                "dockerfile": _text,
                "target": _text,
                "stage": _text,
                "running": _bool,
            },
        ),
        EdgeType(
            "MENTIONS",
            frozenset({"Document"}),
            _ANY,
            {
                "chunkId": _text,
                "chunkHash": _full(_HEX64),
                "chunkIndex": lambda v: isinstance(v, int) and v >= 0,
                "span": lambda v: isinstance(v, list) and len(v) == 2 and 0 <= v[0] <= v[1],
                "section": _text,
                "by": _text,
            },
            frozenset({"span"}),
            ("spanStart",),
        ),
        EdgeType("USES_VPN", frozenset({"Service", "Host"}), frozenset({"VPNTunnel", "TailscaleNode"}), {}),
    )
}


def weakness(type_: str, properties: Mapping[str, Any]) -> int:
    """How little a statement says of a dependency: 0 a need (and any other relation), 1 one that is not
    required, 2 an order alone."""
    if type_ != "DEPENDS_ON":
        return 0
    return 2 if properties.get("kind") == "order" else int(properties.get("required") is False)


def check_node(label: str, key: tuple[Any, ...], properties: Mapping[str, Any]) -> None:
    """Raise ``E_SCHEMA_INVALID`` unless the label, its key and its properties follow the model."""
    node = NODES.get(label)
    if node is None:
        raise TabootError("E_SCHEMA_INVALID", f"{label!r} is not a node label of the model.", label=label)
    if len(key) != len(node.key):
        raise TabootError(
            "E_SCHEMA_INVALID", f"A {label} is keyed by {', '.join(node.key)}.", label=label, key=list(key)
        )
    for name, value, ok in zip(node.key, key, node.key_checks, strict=True):
        if not ok(value):
            raise TabootError(
                "E_SCHEMA_INVALID", f"{label}.{name} = {value!r} is not valid.", label=label, field=name
            )
    _check_properties(label, node.properties, properties)


def check_edge(
    type_: str, start_label: str, end_label: str, properties: Mapping[str, Any], confidence: float
) -> None:
    """Raise ``E_SCHEMA_INVALID`` unless the edge's ends, properties and confidence follow the model."""
    edge = EDGES.get(type_)
    if edge is None:
        raise TabootError("E_SCHEMA_INVALID", f"{type_!r} is not a relation of the model.", type=type_)
    if start_label not in edge.start or end_label not in edge.end:
        raise TabootError(
            "E_SCHEMA_INVALID", f"{type_} does not lead from {start_label} to {end_label}.", type=type_
        )
    if not (math.isfinite(confidence) and 0.0 <= confidence <= 1.0):
        raise TabootError(
            "E_SCHEMA_INVALID", f"{type_}.confidence = {confidence!r} is not in 0..1.", type=type_
        )
    missing = sorted(edge.required - set(properties))
    if missing:
        raise TabootError("E_SCHEMA_INVALID", f"{type_} lacks {', '.join(missing)}.", type=type_)
    _check_properties(type_, edge.properties, properties)


def _check_properties(owner: str, rules: Mapping[str, Check], properties: Mapping[str, Any]) -> None:
    for name, value in properties.items():
        rule = rules.get(name)
        if rule is None:
            raise TabootError(
                "E_SCHEMA_INVALID", f"{owner} has no property {name!r}.", owner=owner, field=name
            )
        if value is not None and not rule(value):
            raise TabootError(
                "E_SCHEMA_INVALID", f"{owner}.{name} = {value!r} is not valid.", owner=owner, field=name
            )
