"""Triples of sentences as claims of the graph model: keys, bases and properties of both ends."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from taboot_pipelines.extraction.tier_a.endpoints import endpoint, normal_host
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_b.names import Mention, read_address
from taboot_pipelines.extraction.tier_b.triple import Triple
from taboot_pipelines.model.graph import SCHEMES, Basis, is_hostname
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeRef

#: A sentence says less surely than a declaration; where a heading names the subject, a little less.
_CONFIDENCE, _WITH_CONTEXT = 0.8, 0.75
#: Relations of what is keyed by the project that declares it.
_OF_DECLARED = frozenset(("RUNS", "RUNS_IN", "USES_VPN"))
_NO_NAME = re.compile(r"[^a-z0-9._-]+")
#: The machine on which a port is published, where the sentence does not name it.
_SOME_HOST = re.compile(r"(?i)(?:docker )?(?:host|hosts|node|nodes|machine|host machine)")
_THIS_HOST = frozenset(("localhost", "127.0.0.1"))


def claim(triple: Triple, document: str, sentence: tuple[int, int], text: str) -> EdgeClaim | None:
    """The claim that a triple of the sentence at ``sentence`` of a document's text makes; None where an end
    cannot be keyed: a name without a letter, an address without a port, and the containers, networks and
    tunnels of sentences, whose ids only a declaration has."""
    if triple.type in _OF_DECLARED:
        return None
    start = _start(triple)
    end = _end(triple, start.name if start is not None else "")
    if start is None or end is None or start == end:
        return None
    quoted = text[sentence[0] : sentence[1]]
    in_context = triple.start.context or triple.end.context
    return EdgeClaim(
        triple.type,
        start,
        end,
        Evidence(document, *sentence),
        method=f"prose_{triple.rule.split(' ')[0]}",
        start_basis=_basis(triple.start, start, quoted),
        end_basis=_basis(triple.end, end, quoted),
        properties=_properties(triple, end),
        confidence=_WITH_CONTEXT if in_context else _CONFIDENCE,
    )


def service_name(text: str) -> str | None:
    """The name that a service has in keys: lower case, blanks as hyphens; None if nothing is left of it."""
    name = _NO_NAME.sub("-", text.strip().lower()).strip("-._")
    return name[:255] if any(c.isalnum() for c in name) else None


def _start(triple: Triple) -> NodeRef | None:
    mention = triple.start
    if triple.type == "RESOLVES_TO" or mention.kind == "host":
        return _host(mention.text)
    name = service_name(_of_image(mention))
    if name is None:
        return None
    if triple.type == "ROUTES_TO":
        return NodeRef("ReverseProxy", (name,), name)
    return NodeRef("Service", ("", name), name)


def _end(triple: Triple, service: str) -> NodeRef | None:
    mention = triple.end
    if triple.type == "EXPOSES_ENDPOINT":
        return _endpoint(triple, service)
    if triple.type == "BINDS":
        return _machine(mention)
    if triple.type == "RESOLVES_TO":
        return _ip(mention.text)
    if triple.type == "BUILDS":
        reference = try_reference(mention.text.lower() if "/" not in mention.text else mention.text)
        return None if reference is None else NodeRef("Image", (reference.image_id,), reference.name)
    if triple.type == "ROUTES_TO" and mention.kind in ("url", "hostport"):
        return _endpoint(triple, "")
    if mention.kind == "host":
        return _host(mention.text)
    name = service_name(_of_image(mention))
    return None if name is None else NodeRef("Service", ("", name), name)


def _of_image(mention: Mention) -> str:
    """The name of a service that is called by its image: the last part of the repository."""
    if mention.kind != "image":
        return mention.text
    reference = try_reference(mention.text)
    return mention.text if reference is None else reference.repository.rpartition("/")[2]


def _endpoint(triple: Triple, service: str) -> NodeRef | None:
    """Where a placeholder stands for the host, the service's own name does, as in a proxy's configuration."""
    said = read_address(triple.end.text)
    if said is None:
        port = triple.properties.get("port")
        return endpoint("tcp", service, port) if isinstance(port, int) and is_hostname(service) else None
    host = normal_host(said.host) if said.host is not None else service
    if said.port is None or not host or not (is_hostname(host) or ":" in host):
        return None
    scheme = (
        said.scheme if said.scheme in SCHEMES else "http" if said.path != "/" or not said.scheme else "tcp"
    )
    return endpoint(scheme, host, said.port, said.path)


def _machine(mention: Mention) -> NodeRef | None:
    """Host or address; every address of the machine where the sentence only says "the host"."""
    if mention.text.lower() in _THIS_HOST:
        return NodeRef("IP", ("127.0.0.1",), "127.0.0.1")
    if _SOME_HOST.fullmatch(mention.text):
        return NodeRef("IP", ("0.0.0.0",), "0.0.0.0")
    # "binds 10.8.0.1:53" names the address with its port.
    return _ip(mention.text) or _ip(mention.text.rpartition(":")[0]) or _host(mention.text)


def _ip(text: str) -> NodeRef | None:
    try:
        address = str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        return None
    return NodeRef("IP", (address,), address)


def _host(text: str) -> NodeRef | None:
    host = normal_host(text)
    return None if host is None or not is_hostname(host) else NodeRef("Host", (host,), host)


def _basis(mention: Mention, node: NodeRef, quoted: str) -> Basis:
    if mention.context:
        return Basis.DERIVED
    return Basis.BYTES if node.name in quoted else Basis.NORMALIZED


def _properties(triple: Triple, end: NodeRef) -> Mapping[str, Any]:
    said = triple.properties
    if triple.type == "BINDS":
        return {"port": said["port"], "protocol": said["protocol"], "targetPort": said.get("targetPort")}
    if triple.type == "RESOLVES_TO":
        return {"recordType": "AAAA" if ":" in end.name else "A"}
    if triple.type == "ROUTES_TO":
        return {"tls": end.label == "Endpoint" and end.key[0] == "https"}
    return {}
