"""How a job of Prometheus reaches its targets, and what an address in it names."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from taboot_pipelines.extraction.tier_a.endpoints import DEFAULT_PORTS, normal_host
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node, is_open

_TARGET = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@]+)(?::(\d{1,5}))?", re.ASCII)
_WHOLE = frozenset({"(.*)", ".*", "(.+)"})
_COPIED = frozenset({"$1", "${1}"})
_DECIDING = frozenset({"__address__", "__scheme__", "__metrics_path__"})
_FILTERS = frozenset({"keep", "drop", "keepequal", "dropequal"})
_LOCAL = frozenset({"localhost", "localhost.localdomain", "host.docker.internal"})
#: {what a module of an exporter is called after: the protocol that it probes by}
_MODULES = {
    "icmp": "icmp",
    "ping": "icmp",
    "http": "http",
    "tcp": "tcp",
    "dns": "dns",
    "ssh": "ssh",
    "grpc": "grpc",
}


@dataclass(slots=True)
class Job:
    """How the targets of one job are reached."""

    scheme: str | None = "http"
    path: str = "/metrics"
    auth: str | None = None
    method: str = "prometheus_scrape"
    #: The address of the exporter that is asked in place of the targets.
    exporter: Node | None = None
    #: Whether that exporter is told to probe the targets.
    probes: bool = False
    module: str = ""


@dataclass(frozen=True, slots=True)
class Peer:
    """A target as it is written: ``host``, and ``port`` where it is said or the scheme has one."""

    host: str
    port: int | None
    scheme: str | None
    path: str


def apply_rule(rule: Node, found: Job) -> bool:
    """Apply a rule of relabelling that is one of the idioms; False if it decides something otherwise."""
    action = rule.scalar("action")
    kind = action.text.lower() if action is not None else "replace"
    if kind in _FILTERS:
        return False
    target = rule.scalar("target_label")
    name = target.text if target is not None else ""
    sources = rule.get("source_labels")
    given = [source.text for source in sources.each()] if sources is not None else []
    regex, replacement = rule.scalar("regex"), rule.scalar("replacement")
    whole = regex is None or regex.text in _WHOLE
    copies = replacement is None or replacement.text in _COPIED
    if kind == "labelmap":
        return replacement is None or not replacement.text.startswith("__")
    if name == "__param_target":
        found.probes = kind == "replace" and given == ["__address__"] and whole and copies
        return True
    if name not in _DECIDING or (kind == "replace" and given == [name] and whole and copies):
        return True
    constant = replacement is not None and "$" not in replacement.text and not given and regex is None
    if kind != "replace" or not constant or replacement is None or is_open(replacement.text):
        return False
    if name == "__address__":
        found.exporter = replacement
    elif name == "__scheme__":
        found.scheme = replacement.text.lower()
    else:
        found.path = replacement.text
    return True


def auth_of(job: Node) -> str | None:
    """How a job shows who it is."""
    keys = job.entries.keys()
    if "basic_auth" in keys:
        return "basic"
    if keys & {"authorization", "bearer_token", "bearer_token_file"}:
        return "bearer"
    if "oauth2" in keys:
        return "oauth2"
    tls = job.get("tls_config")
    return "mtls" if tls is not None and tls.scalar("cert_file") is not None else None


def peer_of(text: str, found: Job) -> Peer | None:
    """``host[:port]``; None if it is none."""
    match = _TARGET.fullmatch(text.strip())
    if match is None or normal_host(match[1]) is None:
        return None
    port = int(match[2]) if match[2] else DEFAULT_PORTS.get(found.scheme or "")
    if port is not None and not 1 <= port <= 65535:
        return None
    return Peer(match[1], port, found.scheme, found.path if found.path.startswith("/") else f"/{found.path}")


def peer_of_url(text: str) -> Peer | None:
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        return None
    # `hostname` is in lower case; names of services keep theirs.
    host = parts.netloc.rpartition("@")[2]
    host = host if host.endswith("]") else re.sub(r":\d*$", "", host)
    if not parts.scheme or normal_host(host) is None:
        return None
    return Peer(host, port or DEFAULT_PORTS.get(parts.scheme), parts.scheme, parts.path or "/")


def probed_by(found: Job) -> str | None:
    """The protocol by which an exporter probes a target that is no URL, by the name of its module."""
    if found.path.rstrip("/").endswith("snmp"):
        return "snmp"
    if not found.module:
        # The blackbox exporter's default module.
        return "http" if found.path == "/probe" else None
    return next((protocol for word, protocol in _MODULES.items() if word in found.module), None)


def is_local(host: str) -> bool:
    """Whether a name or an address is the machine's own."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".") in _LOCAL
