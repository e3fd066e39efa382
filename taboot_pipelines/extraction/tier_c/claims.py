"""Triples as claims of the graph model, and which names its nodes may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.prose.claims import address_endpoint, host_of, ip_of, service_name
from taboot_pipelines.extraction.tier_a.prose.pairs import is_generic
from taboot_pipelines.extraction.tier_c.ontology import Named, of_graph
from taboot_pipelines.extraction.tier_c.reading import Triple
from taboot_pipelines.extraction.tier_c.windows import Window
from taboot_pipelines.model.graph import Basis, is_ip
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeRef

METHOD = "llm_window"
#: A model says less surely than grammar does, however sure it sounds.
_CONFIDENCE = 0.7
#: Words that a name of several may have: "Home Assistant Core", and no clause.
_MAX_WORDS = 3
#: What may stand around a name, and is no part of it.
_MARKS = " `*_\"'"


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
    return None if make is None else make(name.strip(_MARKS))


def _service(name: str) -> NodeRef | None:
    if is_generic(name) or len(name.split()) > _MAX_WORDS or "://" in name or is_ip(name):
        return None
    keyed = service_name(name)
    return None if keyed is None or keyed.isdigit() else NodeRef("Service", ("", keyed), keyed)


def _proxy(name: str) -> NodeRef | None:
    service = _service(name)
    return None if service is None else NodeRef("ReverseProxy", (service.name,), service.name)


def _host(name: str) -> NodeRef | None:
    host = None if len(name.split()) > 1 or is_generic(name) else host_of(name)
    return None if host is None or host.name.isdigit() else host


def _image(name: str) -> NodeRef | None:
    # A repository is in lower case; of a bare name a text may write the capital.
    reference = None if " " in name else try_reference(name if "/" in name else name.lower())
    return None if reference is None else NodeRef("Image", (reference.image_id,), reference.name)


_NODES: Mapping[str, Callable[[str], NodeRef | None]] = {
    "Service": _service,
    "ReverseProxy": _proxy,
    "Host": _host,
    "IP": ip_of,
    "Endpoint": address_endpoint,
    "Image": _image,
}


def _fits(_relation: str, start: Named, end: Named, _window: Window) -> bool:
    """Whether both ends can be keyed: a name of so many words, an address, an image."""
    return all(node(*one) is not None for one in (start, end))


#: The relations of the graph model between nodes that a text can key by itself: the ids of containers,
#: networks and tunnels come from declarations.
GRAPH = of_graph(_NODES.keys(), _fits)


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
