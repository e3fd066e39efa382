"""Triples as claims of the graph model, and which names its nodes may have."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping

from taboot_pipelines.extraction.tier_a.endpoints import endpoint, normal_host
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_b.claims import service_name
from taboot_pipelines.extraction.tier_b.lexicon import no_services, software, words
from taboot_pipelines.extraction.tier_b.names import read_address
from taboot_pipelines.extraction.tier_c.naming import MARKS, is_known, is_name
from taboot_pipelines.extraction.tier_c.ontology import Named, of_graph
from taboot_pipelines.extraction.tier_c.reading import Triple
from taboot_pipelines.extraction.tier_c.telling import tells
from taboot_pipelines.extraction.tier_c.windows import Window
from taboot_pipelines.model.graph import SCHEMES, Basis, is_hostname, is_ip
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeRef

METHOD = "llm_window"
#: A model says less surely than grammar does, however sure it sounds.
_CONFIDENCE = 0.7
#: Words that a name of several may have: "Home Assistant Core", and no clause.
_MAX_WORDS = 3


def claims(triples: Iterable[Triple], document: str) -> tuple[EdgeClaim, ...]:
    """Return the claims that triples of a document make; evidence stands in the file ``document``."""
    found = []
    for triple in triples:
        start, end = node(*triple.start), node(*triple.end)
        # Of one name written in two ways nothing is said.
        if start is not None and end is not None and start.key != end.key:
            found.append(
                EdgeClaim(
                    triple.type,
                    start,
                    end,
                    Evidence(document, *triple.place),
                    method=METHOD,
                    start_basis=_basis(start, triple),
                    end_basis=_basis(end, triple),
                    properties=_properties(triple, end),
                    confidence=_CONFIDENCE,
                )
            )
    return tuple(found)


def node(label: str, name: str) -> NodeRef | None:
    """Return the node of a name as a text writes it; None if no thing of this label is called so."""
    make = _NODES.get(label)
    return None if make is None else make(name.strip(MARKS))


def _service(name: str) -> NodeRef | None:
    lower = name.lower()
    common = lower in no_services() or lower in words("generic") or lower in words("classes")
    if (common and lower not in software()) or len(name.split()) > _MAX_WORDS or "://" in name or is_ip(name):
        return None
    keyed = service_name(name)
    return None if keyed is None or keyed.isdigit() else NodeRef("Service", ("", keyed), keyed)


def _proxy(name: str) -> NodeRef | None:
    service = _service(name)
    return None if service is None else NodeRef("ReverseProxy", (service.name,), service.name)


def _host(name: str) -> NodeRef | None:
    host = normal_host(name)
    if host is None or not is_hostname(host) or is_ip(host) or host.isdigit() or host in words("machines"):
        return None
    return NodeRef("Host", (host,), host)


def _ip(name: str) -> NodeRef | None:
    try:
        address = str(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return None
    return NodeRef("IP", (address,), address)


def _endpoint(name: str) -> NodeRef | None:
    said = read_address(name)
    host = None if said is None or said.host is None else normal_host(said.host)
    if said is None or host is None or said.port is None or not (is_hostname(host) or is_ip(host)):
        return None
    scheme = said.scheme if said.scheme in SCHEMES else "http" if said.path != "/" else "tcp"
    return endpoint(scheme, host, said.port, said.path)


def _image(name: str) -> NodeRef | None:
    # A repository is in lower case; of a bare name a text may write the capital.
    reference = None if " " in name else try_reference(name if "/" in name else name.lower())
    return None if reference is None else NodeRef("Image", (reference.image_id,), reference.name)


_NODES: Mapping[str, Callable[[str], NodeRef | None]] = {
    "Service": _service,
    "ReverseProxy": _proxy,
    "Host": _host,
    "IP": _ip,
    "Endpoint": _endpoint,
    "Image": _image,
}


def _fits(relation: str, start: Named, end: Named, window: Window) -> bool:
    """Whether a window may call both ends so, and the relation lead to the second.

    What something uses or needs may be a library, a format or a protocol as well as another thing that runs.
    The second tier takes it for one that runs only if it is known as such or written as code, and so is it
    here.
    """
    if relation == "DEPENDS_ON" and not all(is_known(name, window) for _, name in (start, end)):
        return False
    return all(_is_called(*one, window) for one in (start, end))


def _is_called(label: str, name: str, window: Window) -> bool:
    """Whether a window may call a thing of a label so: addresses and images show what they are."""
    made = node(label, name)
    if made is None:
        return False
    shown = label not in _NAMED or (label == "Host" and "." in made.name)
    return shown or is_name(name, window)


#: What is called by a name, and not by an address.
_NAMED = frozenset(("Service", "ReverseProxy", "Host"))


#: The relations of the graph model between nodes that a text can key by itself: the ids of containers,
#: networks and tunnels come from declarations.
GRAPH = of_graph(_NODES.keys(), _fits, tells)


def _basis(node: NodeRef, triple: Triple) -> Basis:
    return Basis.BYTES if node.name in triple.quote else Basis.NORMALIZED


def _properties(triple: Triple, end: NodeRef) -> dict[str, object]:
    """Return the properties of the edge: those of the passage, and those that the ends tell."""
    if triple.type == "BINDS":
        return {"protocol": "tcp", **triple.properties}
    if triple.type == "RESOLVES_TO":
        return {"recordType": "AAAA" if ":" in end.name else "A"}
    if triple.type == "ROUTES_TO":
        return {"tls": end.label == "Endpoint" and end.key[0] == "https"}
    return dict(triple.properties)
