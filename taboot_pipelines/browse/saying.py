"""The properties of an edge in words: of each relation that which is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taboot_pipelines.retrieval.phrases import BOOKKEEPING, plain

#: Properties whose values say what they are, such as ``unless-stopped``.
_PLAIN = frozenset({"networkMode", "restartPolicy"})


def says(type_: str, properties: Mapping[str, Any]) -> str:
    """What an edge says beyond its type and its ends; empty if nothing."""
    known = {k: v for k, v in properties.items() if k not in BOOKKEEPING and v is not None}
    if type_ == "BINDS" and "port" in known:
        return _binds(known)
    if type_ == "ROUTES_TO":
        return _routes(known)
    if type_ == "DEPENDS_ON" and "condition" in known:
        first = str(known.pop("condition"))
        return "; ".join((first, *_others(known)))
    if type_ == "CONNECTS_TO" and "port" in known:
        first = _port(str(known.pop("port")), known.pop("protocol", None))
        return "; ".join((first, *_others(known)))
    return "; ".join(_others(known))


def _binds(known: dict[str, Any]) -> str:
    address = f"{known.pop('hostIp')}:" if "hostIp" in known else ""
    outer, inner = known.pop("port"), known.pop("targetPort", None)
    ports = f"{address}{outer}→{inner}" if inner is not None else f"{address}{outer}"
    return "; ".join((_port(ports, known.pop("protocol", None)), *_others(known)))


def _routes(known: dict[str, Any]) -> str:
    # The location says how the path is matched; of two that agree one is enough.
    path = known.pop("path", None)
    location = known.pop("location", None)
    what = f"{known.pop('host', '')}{path or location or ''}"
    port, tls = known.pop("port", None), known.pop("tls", None)
    known.pop("scheme", None)
    parts = [what] if what else []
    if port is not None:
        parts.append(f"→ :{port}")
    said = " ".join(parts)
    return "; ".join(x for x in (said, "TLS" if tls else "", *_others(known)) if x)


def _port(port: str, protocol: object) -> str:
    return f"{port}/{protocol}" if protocol else port


def _others(known: Mapping[str, Any]) -> list[str]:
    return [
        plain(value) if name in _PLAIN else f"{name} {plain(value)}" for name, value in sorted(known.items())
    ]
