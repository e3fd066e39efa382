"""Triples as claims of the graph model, keyed as what documents state is keyed by the other tiers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from taboot_pipelines.extraction.tier_a.prose.claims import Ends, ends_of
from taboot_pipelines.extraction.tier_a.prose.pairs import Candidate
from taboot_pipelines.extraction.tier_a.prose.segments import read_text
from taboot_pipelines.extraction.tier_a.prose.things import Thing, addresses
from taboot_pipelines.extraction.tier_c.ontology import Named, Ontology, Relation
from taboot_pipelines.extraction.tier_c.reading import Triple
from taboot_pipelines.model.records import EdgeClaim, Evidence

METHOD = "llm_window"
#: How sure a fact is of whose model nothing was measured: as likely wrong as right.
_UNMEASURED = 0.5
#: Words that a name may have; a model that understands nothing fills in whole sentences.
_MAX_WORDS = 6
#: What may stand around a name, and is no part of it.
_MARKS = " `*_\"'.,;:"
_ARTICLE = re.compile(r"(?i)\A(?:the|an?)\s+")


def claims(
    triples: Iterable[Triple], document: str, precision: Mapping[str, float] | None = None
) -> tuple[EdgeClaim, ...]:
    """Return the claims that triples of a document make; evidence stands in the file ``document``.

    ``precision``: how often the model was right, by relation; a claim is as sure as that.
    """
    found = []
    for triple in triples:
        ends = _ends(triple.type, triple.start, triple.end, triple.properties)
        if ends is not None:
            found.append(
                EdgeClaim(
                    triple.type,
                    ends.start,
                    ends.end,
                    Evidence(document, *triple.place),
                    method=METHOD,
                    start_basis=ends.start_basis(triple.quote),
                    end_basis=ends.end_basis(triple.quote),
                    properties=ends.properties,
                    confidence=(precision or {}).get(triple.type, _UNMEASURED),
                )
            )
    return tuple(found)


def _ends(kind: str, start: Named, end: Named, asked: Mapping[str, object]) -> Ends | None:
    """Return the nodes of a relation's ends; None if one cannot be keyed, or both are one thing."""
    first, second = _thing(start[1]), _thing(end[1]) if end[1] else None
    if first is None or (second is None and end[1]):
        return None
    port, protocol = asked.get("port"), asked.get("protocol")
    return ends_of(
        Candidate(
            kind,
            first,
            second,
            port if isinstance(port, int) else None,
            protocol if isinstance(protocol, str) else None,
        )
    )


def _thing(name: str) -> Thing | None:
    """Return what a name is by its form, an address or a plain name; None for what is no name, or stands for
    another's (RFC 2606)."""
    plain = _ARTICLE.sub("", read_text(name, 0, len(name)).plain.strip(_MARKS))
    for thing in addresses(read_text(plain, 0, len(plain))):
        if (thing.start, thing.end) == (0, len(plain)):
            return None if thing.placeholder else thing
    words = len(plain.split())
    return Thing(0, len(plain), plain, "name") if 0 < words <= _MAX_WORDS else None


def _fits(relation: str, start: Named, end: Named) -> bool:
    """Whether both ends can be keyed."""
    return _ends(relation, start, end, {"port": 1}) is not None


_SERVICE, _MACHINE = ("Service",), ("Service", "Host")
_PORTS: Mapping[str, Mapping[str, object]] = {
    "port": {"type": "integer", "minimum": 0, "maximum": 65535},
    "protocol": {"type": "string", "enum": ["", "tcp", "udp"]},
}
#: The relations of the graph model that a text can state. Containers and proxies are called by the names of
#: their services in texts, so that a model is asked about services alone. An answer of so many facts fits
#: into what it may be long: one that ends in the middle tells nothing.
GRAPH = Ontology(
    "infrastructure",
    (
        Relation("DEPENDS_ON", _SERVICE, _SERVICE, "needs it, or keeps its data there"),
        Relation("CONNECTS_TO", _MACHINE, (*_MACHINE, "Network"), "sends to or reads from; a bare arrow"),
        Relation("ROUTES_TO", _SERVICE, ("Service", "Endpoint"), "proxy passes requests on to"),
        Relation(
            "BINDS", _SERVICE, ("Host", "IP"), "listens on port; end may be empty", _PORTS, open_end=True
        ),
        Relation("RUNS", _SERVICE, ("Host",), "runs on the machine"),
        Relation("EXPOSES_ENDPOINT", _SERVICE, ("Endpoint",), "is at the URL or host name"),
        Relation("RESOLVES_TO", ("Host",), ("IP",), "has the address"),
        Relation("RUNS_IN", _SERVICE, ("Network",), "is on the container network"),
        Relation("BUILDS", _SERVICE, ("Image",), "runs the image"),
        Relation("USES_VPN", _MACHINE, ("Tunnel",), "its traffic goes through the VPN"),
    ),
    _fits,
    most=20,
)
