"""Endpoints and the hosts in them: one normal form and one name for every extractor."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from taboot_pipelines.model.graph import is_hostname
from taboot_pipelines.model.records import NodeRef

#: Where a scheme's service listens unless told otherwise (IANA; for fastcgi, uwsgi and scgi what their
#: servers' documentation uses). ``tcp`` and ``udp`` have none.
DEFAULT_PORTS = {
    "http": 80,
    "https": 443,
    "ws": 80,
    "wss": 443,
    "grpc": 80,
    "grpc+tls": 443,
    "fastcgi": 9000,
    "uwsgi": 3031,
    "scgi": 4000,
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a proxy leads. ``host`` as written (brackets kept), ``""`` for this machine; ``port`` None where
    none is written."""

    scheme: str
    host: str
    port: int | None

    @property
    def bare(self) -> bool:
        """A name without a dot: a service of the proxy's own network. ``localhost`` is the proxy itself."""
        return not any(c in self.host for c in ".:") and self.host.lower() not in ("", "localhost")

    def resolved_port(self) -> int | None:
        return self.port if self.port is not None else DEFAULT_PORTS.get(self.scheme)


def normal_host(host: str) -> str | None:
    """The key form of a host: an IP as RFC 5952 has it (brackets dropped), else the name in lower case
    without its trailing dot; None if it is neither an address nor a hostname."""
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if ":" in host:
        try:
            return str(ipaddress.IPv6Address(host)) if "%" not in host else None
        except ValueError:
            return None
    host = host.removesuffix(".").lower()
    if host.isascii() and host.replace(".", "").isdigit() and "." in host:
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            return None
    return host if is_hostname(host) else None


def endpoint(scheme: str, fqdn: str, port: int, path: str = "/") -> NodeRef:
    """The Endpoint of these key parts (``fqdn`` from :func:`normal_host`).

    Its name is how people write it: ``host:port`` for tcp and udp, else a URL without default port and bare
    slash.
    """
    host = f"[{fqdn}]" if ":" in fqdn else fqdn
    if scheme in ("tcp", "udp"):
        name = f"{host}:{port}"
    else:
        shown = "" if DEFAULT_PORTS.get(scheme) == port else f":{port}"
        name = f"{scheme}://{host}{shown}{'' if path == '/' else path}"
    return NodeRef("Endpoint", (scheme, fqdn, port, path), name)
