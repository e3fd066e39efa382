"""What a text states as claims of the graph model: keys, bases and properties of both ends."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from taboot_pipelines.extraction.tier_a.endpoints import DEFAULT_PORTS, endpoint, normal_host
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.prose.pairs import Candidate
from taboot_pipelines.extraction.tier_a.prose.reading import STRUCTURED, Stated, stated
from taboot_pipelines.extraction.tier_a.prose.things import Thing
from taboot_pipelines.model.graph import SCHEMES, TEXT_METHOD, Basis, is_hostname, is_ip
from taboot_pipelines.model.ids import bare_key
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeRef

#: What a relation begins at and ends at where that is no service.
_STARTS = {"ROUTES_TO": "ReverseProxy", "RUNS": "Container", "RUNS_IN": "Container"}
_ENDS = {"RUNS_IN": "Network", "USES_VPN": "VPNTunnel"}
_NO_NAME = re.compile(r"[^a-z0-9._-]+")
#: What follows a name in running text and says what it is: "a postgres database" is postgres.
_ROLE = re.compile(
    r"(?<=\w)\s+(?:micro)?(?:services?|servers?|databases?|db|containers?|instances?|clusters?|"
    r"daemon|pods?|deployment|image|broker)\Z"
)
#: The same behind the name of a place: "the `backend` Docker network" is backend.
_PLACE = re.compile(
    r"(?i)(?<=\w)\s+(?:(?:docker|podman|bridge|overlay|vpn|wireguard)\s+)?"
    r"(?:networks?|tunnels?|hosts?|nodes?|machines?|servers?)\Z"
)
_POSSESSIVE = re.compile(r"['’]s\Z")
_ADDRESS = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]{1,10})://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(?P<port>\d{1,5})"
    r")?(?P<path>/\S*)?"
)


def relations(text: str, document: str, forms: Collection[str] = STRUCTURED) -> tuple[EdgeClaim, ...]:
    """Return what the pieces of these forms of a Markdown text state, each claim once; evidence stands in the
    file ``document``."""
    found: dict[str, EdgeClaim] = {}
    for one in stated(text, forms):
        said = claim(one, document, text)
        if said is not None:
            found.setdefault(repr(replace(said, confidence=0.0)), said)
    return tuple(found.values())


def claim(said: Stated, document: str, text: str) -> EdgeClaim | None:
    """Return the claim that a stated candidate of a document's text makes; None where an end cannot be keyed:
    a name without a letter, an address without a port."""
    ends = ends_of(said.candidate)
    if ends is None:
        return None
    place = said.segment.text.start, said.segment.text.end
    quoted = text[place[0] : place[1]]
    return EdgeClaim(
        said.candidate.type,
        ends.start,
        ends.end,
        Evidence(document, *place),
        method=TEXT_METHOD + said.segment.form.replace("-", "_").replace(" ", "_"),
        start_basis=ends.start_basis(quoted),
        end_basis=ends.end_basis(quoted),
        properties=ends.properties,
        confidence=said.confidence,
    )


@dataclass(frozen=True, slots=True)
class Ends:
    """What a candidate leads from and to as nodes, and the properties of its edge.

    ``named``: whether the text names the end.
    """

    start: NodeRef
    end: NodeRef
    named: bool
    properties: Mapping[str, Any]

    def start_basis(self, quoted: str) -> Basis:
        return _basis(self.start, quoted)

    def end_basis(self, quoted: str) -> Basis:
        return _basis(self.end, quoted) if self.named else Basis.DERIVED


def ends_of(one: Candidate) -> Ends | None:
    """Return the nodes that a candidate's names stand for; None where one has no key, or both are one."""
    start, end = _start(one), _end(one)
    if start is None or end is None or start.key == end.key:
        return None
    return Ends(start, end, one.end is not None, _properties(one, end))


def service_name(text: str) -> str | None:
    """The name that a service has in keys: lower case, blanks as hyphens; None if nothing is left of it."""
    name = _NO_NAME.sub("-", text.strip().lower()).strip("-._")
    return name[:255] if any(c.isalnum() for c in name) else None


def read_address(text: str) -> tuple[str, str, int | None, str] | None:
    """Return scheme, normal host, port (else the scheme's own) and path of a URL or ``host:port``."""
    match = _ADDRESS.fullmatch(text.strip())
    host = None if match is None else normal_host(match["host"])
    if match is None or host is None:
        return None
    scheme = match["scheme"] or ""
    port = int(match["port"]) if match["port"] else DEFAULT_PORTS.get(scheme)
    return scheme, host, port if port is None or 0 < port < 65536 else None, match["path"] or "/"


def address_endpoint(text: str, scheme: str = "") -> NodeRef | None:
    """Return the endpoint that an address names; ``scheme`` is of one that is written without."""
    said = read_address(text)
    if said is None:
        return None
    written, host, port, path = said
    own = written or scheme
    if not own:
        own = "http" if path != "/" else "tcp"
    own = own if own in SCHEMES else "tcp"
    port = port or DEFAULT_PORTS.get(own)
    return None if port is None else endpoint(own, host, port, path.rstrip(".,;") or "/")


def named(thing: Thing, role: re.Pattern[str] = _ROLE) -> str | None:
    """Return the name in keys of what a text names, without the word for its kind (``role``); None for a URL,
    which names a place."""
    if "://" in thing.text:
        return None
    text = _POSSESSIVE.sub("", re.sub(r"\s*\([^()]*\)?\Z", "", thing.text))
    return service_name(role.sub("", text)) or service_name(text)


def host_of(text: str) -> NodeRef | None:
    """Return the host that a text names; a name of several words is one label."""
    host = normal_host(text.strip()) or service_name(text)
    return None if host is None or not is_hostname(host) or is_ip(host) else NodeRef("Host", (host,), host)


def ip_of(text: str) -> NodeRef | None:
    """Return the address that a text is."""
    try:
        address = str(ipaddress.ip_address(text.strip("[] ")))
    except ValueError:
        return None
    return NodeRef("IP", (address,), address)


def _start(one: Candidate) -> NodeRef | None:
    if one.type == "RESOLVES_TO":
        return host_of(one.start.text)
    name = named(one.start)
    return None if name is None else bare(_STARTS.get(one.type, "Service"), name)


def bare(label: str, name: str) -> NodeRef:
    """Return the node that a name alone stands for, until the reducer finds what is declared by it."""
    return NodeRef(label, (name,) if label == "ReverseProxy" else bare_key(label, name), name)


def _end(one: Candidate) -> NodeRef | None:
    end = one.end
    if one.type == "BINDS":
        return NodeRef("IP", ("0.0.0.0",), "0.0.0.0") if end is None else _machine(end)
    if end is None:
        return None
    match one.type:
        case "EXPOSES_ENDPOINT":
            return address_endpoint(end.text, "https" if end.kind == "host" else "")
        case "RESOLVES_TO":
            return ip_of(end.text)
        case "BUILDS":
            reference = try_reference(end.text)
            return None if reference is None else NodeRef("Image", (reference.image_id,), reference.name)
        case "RUNS":
            return host_of(named(end, _PLACE) or "" if end.kind == "name" else end.host or "")
        case "ROUTES_TO" if end.kind != "name":
            return address_endpoint(end.text)
        case _:
            pass
    if end.kind != "name":
        host = end.host or ""
        if "." in host:
            return host_of(host)
        name = service_name(host)
    else:
        name = named(end, _PLACE if one.type in _ENDS else _ROLE)
    return None if name is None else bare(_ENDS.get(one.type, "Service"), name)


def _machine(thing: Thing) -> NodeRef | None:
    """Host or address where something listens."""
    text = thing.text if thing.kind == "name" else thing.host or ""
    if text.lower() == "localhost":
        text = "127.0.0.1"
    return ip_of(text) or host_of(text)


def _basis(node: NodeRef, quoted: str) -> Basis:
    return Basis.BYTES if node.name in quoted else Basis.NORMALIZED


def _properties(one: Candidate, end: NodeRef) -> Mapping[str, Any]:
    if one.type == "BINDS":
        target = {} if one.target is None else {"targetPort": one.target}
        return {"port": one.port, "protocol": one.protocol or "tcp", **target}
    if one.type == "RESOLVES_TO":
        return {"recordType": "AAAA" if ":" in end.name else "A"}
    if one.type == "ROUTES_TO":
        return {"tls": end.label == "Endpoint" and end.key[0] == "https"}
    if one.type == "CONNECTS_TO" and one.end is not None and one.end.kind == "hostport" and one.end.port:
        return {"port": one.end.port}
    return {}
