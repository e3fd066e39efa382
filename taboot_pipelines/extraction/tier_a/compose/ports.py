"""The `ports` of a service, short and long, as single bindings."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.compose.scalars import resolved
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, Node

_RANGE = re.compile(r"0*(\d{1,5})(?:-0*(\d{1,5}))?", re.ASCII)
_PROTOCOL = re.compile(r"[a-z0-9][a-z0-9+._-]*")


@dataclass(frozen=True, slots=True)
class Binding:
    """``published`` is None where the engine picks the port; ``host_ip`` None where none is written."""

    target: int
    published: int | None
    protocol: str
    host_ip: str | None


@dataclass(frozen=True, slots=True)
class Ports:
    """What one entry says. ``open``: a range is published for one target, so the port is not known."""

    bindings: tuple[Binding, ...]
    open: bool = False


def _range(text: str) -> range | None:
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    return range(first, last + 1) if first <= last <= 65535 else None


def _address(text: str) -> str | None:
    """The normal form of an address; None if it is none."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    try:
        return str(ipaddress.ip_address(text)) if "%" not in text else None
    except ValueError:
        return None


def read_ports(node: Node) -> Ports | None:
    """The bindings of one entry of `ports`; None if it is none that Compose accepts."""
    if node.kind == SCALAR:
        return _short(resolved(node).strip())
    if node.kind == MAPPING:
        return _long(node)
    return None


def _short(text: str) -> Ports | None:
    """``[[IP:]PUBLISHED:]TARGET[/PROTOCOL]``, IPv6 with or without brackets, ports as ranges of equal length.

    An address that is empty, as a variable without a value leaves it, is none.
    """
    parts = text.rsplit(":", 2)
    target, _, protocol = parts[-1].partition("/")
    address = None
    if len(parts) == 3 and parts[0] != "":
        address = _address(parts[0])
        if address is None:
            return None
    published = parts[-2] if len(parts) > 1 else ""
    return _bindings(target, published, protocol or "tcp", address)


def _long(node: Node) -> Ports | None:
    target = node.scalar("target")
    published = node.scalar("published")
    protocol = node.scalar("protocol")
    host_ip = node.scalar("host_ip")
    if target is None:
        return None
    address = None
    if host_ip is not None:
        address = _address(host_ip.text)
        if address is None:
            return None
    return _bindings(
        resolved(target),
        resolved(published) if published else "",
        protocol.text if protocol else "tcp",
        address,
    )


def _bindings(target_text: str, published_text: str, protocol: str, address: str | None) -> Ports | None:
    targets = _range(target_text)
    protocol = protocol.lower()
    if targets is None or targets[0] == 0 or _PROTOCOL.fullmatch(protocol) is None:
        return None
    if published_text.strip("0") == "":
        return Ports(tuple(Binding(t, None, protocol, address) for t in targets))
    published = _range(published_text)
    if published is None:
        return None
    if len(published) != len(targets):
        return (
            Ports((Binding(targets[0], None, protocol, address),), open=True) if len(targets) == 1 else None
        )
    return Ports(
        tuple(Binding(t, p or None, protocol, address) for t, p in zip(targets, published, strict=True))
    )
