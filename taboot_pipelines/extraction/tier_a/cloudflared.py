"""Ingress rules of a Cloudflare Tunnel: which public name leads to which service of the house.

Read from the configuration file of ``cloudflared``, and from what Cloudflare's API tells of a tunnel that is
managed there (``/accounts/ACCOUNT/cfd_tunnel/TUNNEL/configurations``). Reference: Cloudflare's documentation
of Tunnel, "Configuration file", "Supported protocols" and "Origin parameters".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.endpoints import Target
from taboot_pipelines.extraction.tier_a.proxying import Guard, Route, RouteClaims, port_number, split_address
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node, documents, is_open, listed
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts

CLOUDFLARED = "cloudflared"
#: A list of rules at the left margin, and what stands in no other file beside one; or the API's answer.
_RULES = re.compile(r"^ingress:[ \t]*(?:#[^\n]*)?\r?\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*- ", re.MULTILINE)
_BESIDE = re.compile(
    r"^(?:tunnel|credentials-file|warp-routing):|^[ \t-]*service:[ \t]*[\"']?http_status:\d", re.MULTILINE
)
_API = re.compile(r'"ingress"\s*:\s*\[')
_API_BESIDE = re.compile(r'"tunnel_id"\s*:|"service"\s*:\s*"http_status:\d')
#: {the scheme of a service: (that of the endpoint, its port where none is written)}
_SCHEMES = {
    "http": ("http", None),
    "https": ("https", None),
    "ws": ("ws", None),
    "wss": ("wss", None),
    "tcp": ("tcp", None),
    "ssh": ("tcp", 22),
    "rdp": ("tcp", 3389),
    "smb": ("tcp", 445),
}
#: What cloudflared answers itself, and what is on no network.
_NOWHERE = re.compile(r"http_status:\d+|hello[_-]world|bastion|socks-proxy|unix(?:\+tls)?:.*")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}")


def looks_like_cloudflared(head: str) -> bool:
    """Whether a text begins as a tunnel's configuration, or as what the API tells of one."""
    if head.lstrip("\ufeff \t\r\n").startswith("{"):
        return _API.search(head) is not None and _API_BESIDE.search(head) is not None
    return _RULES.search(head) is not None and _BESIDE.search(head) is not None


class CloudflaredReader:
    """Reads ingress rules (a :class:`~taboot_pipelines.extraction.tier_a.recognition.FormatReader`)."""

    name = CLOUDFLARED
    version = "2"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        """What the file says. A service whose address is not written out is a problem (``E_UNRESOLVED``)."""
        texts = UnitTexts(view)
        found = [_configuration(document) for document in documents(path, texts)]
        names = [name for _, name in found if name is not None and _NAME.fullmatch(name)]
        # A tunnel is a proxy of its own, whatever other one the source speaks of.
        claims = RouteClaims(
            texts, source, path, CLOUDFLARED, "cloudflared_ingress", name=names[0] if names else CLOUDFLARED
        )
        for configuration, _ in found:
            claims.add_all(_routes(configuration, texts))
        return claims.result()


def _configuration(document: Node) -> tuple[Node, str | None]:
    """What a document configures, and the tunnel's name or id."""
    answer = document.get("result") or document
    tunnel = answer.scalar("tunnel") or answer.scalar("tunnel_id")
    return answer.get("config") or answer, tunnel.text if tunnel is not None else None


def _routes(configuration: Node, texts: UnitTexts) -> Iterator[Route]:
    general = configuration.get("originRequest")
    for rule in listed(configuration, "ingress"):
        service = rule.scalar("service")
        if service is None or _NOWHERE.fullmatch(service.text) is not None:
            continue
        target = None if is_open(service.text) else _target(service.text)
        if target is None:
            texts.problem_at(service.evidence, "E_UNRESOLVED", "the service's address does not stand here.")
            continue
        host, pattern = rule.scalar("hostname"), rule.scalar("path")
        yield Route(
            target,
            service.evidence,
            host.text if host is not None and host.text != "*" else None,
            pattern.text if pattern is not None else None,
            # A path is a pattern that may match anywhere in it.
            "/" if pattern is None else None,
            # Cloudflare's edge speaks TLS to everybody.
            True,
            _guard(rule, general),
        )


def _target(text: str) -> Target | None:
    scheme, mark, rest = text.partition("://")
    if not mark or scheme.lower() not in _SCHEMES:
        return None
    kind, usual = _SCHEMES[scheme.lower()]
    split = split_address(re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2])
    if split is None or not split[0]:
        return None
    port = usual if split[1] is None else port_number(split[1])
    return None if split[1] is not None and port is None else Target(kind, split[0], port)


def _guard(rule: Node, general: Node | None) -> Guard | None:
    """Cloudflare Access, where cloudflared itself lets nobody through without its token."""
    for settings in (rule.get("originRequest"), general):
        access = settings.get("access") if settings is not None else None
        required = access.get("required") if access is not None else None
        if required is not None:
            return Guard("oauth2", "access") if required.boolean() else None
    return None
