"""The claims of one unit: a reader says what its grammar says, and everything else is decided here.

That each node and edge is claimed once, that it follows the model, how many there may be, and why each end of
an edge is called as it is (rule ``support``) is the same for every format.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.endpoints import endpoint, normal_host
from taboot_pipelines.extraction.tier_a.images import ImageReference
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import Basis, check_edge, check_node, is_hostname, is_public
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    Interpretation,
    NodeClaim,
    NodeRef,
    Reach,
    SourceFacts,
    Use,
)

#: Edges of one unit; what lies beyond is a problem.
MAX_EDGES = 100_000


#: A few addresses, ``0.0.0.0`` first of all, stand in most files.
_is_public = lru_cache(maxsize=4096)(is_public)


@dataclass(frozen=True, slots=True)
class Quote:
    """Text that stands in a file, at code points ``[start, end)`` of it. ``text`` is what the format makes of
    it: without its quotes, its continued lines joined."""

    text: str
    path: str
    start: int
    end: int

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.path, self.start, self.end)


class Located(Protocol):
    """Whatever knows where it stands: a :class:`Quote`, a node of YAML."""

    @property
    def evidence(self) -> Evidence: ...


Where = Evidence | Located


def stands_in(name: str, text: str, joints: str = "") -> bool:
    """Whether ``name`` stands in ``text`` as a whole name, not as part of another one (``web`` in
    ``webhook-relay`` or ``web.lan``). ``joints``: further characters that join what stands before them to a
    name (the colon of ``tag:web``)."""
    at = text.find(name)
    while at >= 0:
        if not _goes_on_before(text, at, joints) and not _goes_on_behind(text, at + len(name)):
            return True
        at = text.find(name, at + 1)
    return False


def _goes_on_before(text: str, at: int, joints: str) -> bool:
    """Whether what stands before ``at`` belongs to the name there: letters, digits, ``_`` and ``-``, the dot
    of a longer name, and the sign of a variable (``web`` in ``$web``)."""
    before = text[at - 1 : at] if at else ""
    return before != "" and (
        before.isalnum() or before in "_-.$" or before in joints or text.endswith("${", 0, at)
    )


def _goes_on_behind(text: str, at: int) -> bool:
    """Whether what stands at ``at`` still belongs to the name before it."""
    behind = text[at : at + 1]
    if behind == ".":
        behind = text[at + 1 : at + 2]
        return behind.isalnum() or behind == "_"
    return behind != "" and (behind.isalnum() or behind in "_-")


def basis_of(name: str, quote: str, written: str = "", joints: str = "") -> Basis:
    """Why a node is called ``name``: ``bytes`` where the name stands in the quote as a whole,
    ``normalized`` where ``written`` does, of which the name is another form, else ``derived``."""
    if stands_in(name, quote, joints):
        return Basis.BYTES
    return Basis.NORMALIZED if written and stands_in(written, quote, joints) else Basis.DERIVED


class ClaimBuilder:
    """Builds the claims of one unit, each node and edge once, in the order in which they are claimed.

    A node of which the model knows no such key or property, or an edge that it does not allow, is no claim
    but a problem (``E_PARSE``): no input may break the run.
    """

    def __init__(
        self,
        source: SourceFacts,
        texts: UnitTexts,
        *,
        once_per_file: bool = False,
        max_edges: int = MAX_EDGES,
        joints: str = "",
    ) -> None:
        """``texts``: the files that are quoted. ``once_per_file``: nodes are claimed once for each file that
        names them, not once for the unit. ``joints``: as in :func:`stands_in`."""
        self.source = source
        self.texts = texts
        host = (source.host or "").lower().rstrip(".")
        self.host = NodeRef("Host", (host,), host) if is_hostname(host) else None
        #: What scopes and the keys of networks begin with.
        self.place = host or source.source_id
        self._once_per_file = once_per_file
        self._max_edges = max_edges
        self._joints = joints
        self._nodes: dict[tuple[str, tuple[Any, ...], str], NodeClaim] = {}
        self._edges: dict[tuple[Any, ...], EdgeClaim] = {}
        self._reaches: list[Reach] = []
        self._uses: dict[tuple[Any, ...], Use] = {}
        self._full: set[str] = set()

    # --- nodes ----------------------------------------------------------------------------------------------

    def node(
        self,
        ref: NodeRef,
        where: Where,
        properties: Mapping[str, Any] | None = None,
        *,
        declared: bool = False,
        aliases: Iterable[str] = (),
        confidence: float = 1.0,
    ) -> NodeRef | None:
        """Claim a node and return it; None if it does not follow the model. The first claim counts, but for a
        declaration, which goes before. Properties that are None or empty are left out."""
        evidence = where if isinstance(where, Evidence) else where.evidence
        key = (ref.label, ref.key, evidence.path if self._once_per_file else "")
        known = self._nodes.get(key)
        if known is not None and (known.declared or not declared):
            return ref
        given = _present(properties or {})
        try:
            check_node(ref.label, ref.key, given)
        except TabootError:
            self.problem(evidence, "E_PARSE", f"the name or a value is none that a {ref.label} can have.")
            return None
        self._nodes[key] = NodeClaim(
            ref, evidence, given, declared, tuple(dict.fromkeys(aliases)), confidence
        )
        return ref

    def amend(self, ref: NodeRef, **properties: Any) -> None:
        """Add properties to a node that is claimed."""
        for key in [k for k in self._nodes if k[0] == ref.label and k[1] == ref.key]:
            claim = self._nodes[key]
            given = {**claim.properties, **_present(properties)}
            check_node(ref.label, ref.key, given)
            self._nodes[key] = replace(claim, properties=given)

    def claim_host(self, where: Where) -> NodeRef | None:
        """The machine that the source's entry names, as a node that ``where`` speaks of."""
        return None if self.host is None else self.node(self.host, where, declared=True)

    def ip(self, address: str, where: Where) -> NodeRef | None:
        """An address in its normal form as a node."""
        return self.node(NodeRef("IP", (address,), address), where, {"isPublic": _is_public(address)})

    def image(self, reference: ImageReference, written: str, where: Where) -> NodeRef | None:
        """An image as a node; ``written``: the reference as it was written."""
        return self.node(
            NodeRef("Image", (reference.image_id,), reference.name),
            where,
            {
                "name": reference.name,
                "registry": reference.registry,
                "repository": reference.repository,
                "tag": reference.tag,
                "digest": reference.digest,
                "reference": written,
                "declared": True,
            },
        )

    def endpoint(self, scheme: str, host: str, port: int, path: str, where: Where) -> NodeRef | None:
        """An endpoint at a host as it is written."""
        fqdn = normal_host(host)
        return None if fqdn is None else self.node(endpoint(scheme, fqdn, port, path), where)

    # --- edges ----------------------------------------------------------------------------------------------

    def edge(
        self,
        type_: str,
        start: NodeRef | None,
        end: NodeRef | None,
        where: Where,
        method: str,
        *,
        written: str = "",
        start_basis: Basis = Basis.DERIVED,
        end_basis: Basis | None = None,
        confidence: float = 1.0,
        **properties: Any,
    ) -> None:
        """Claim an edge that ``where`` states; nothing where an end is no node.

        What a statement is about follows as a rule from where it stands, so its start is ``derived`` unless
        the reader says otherwise; the basis of its end is found in the quote (:func:`basis_of`), where
        ``written`` is what the end's name was made from.
        """
        if start is None or end is None:
            return
        evidence = where if isinstance(where, Evidence) else where.evidence
        given = _present(properties)
        key = (type_, start.label, start.key, end.label, end.key, evidence, method, repr(given))
        if key in self._edges:
            return
        if len(self._edges) >= self._max_edges:
            if evidence.path not in self._full:
                self._full.add(evidence.path)
                self.problem(evidence, "E_TOO_LARGE", f"only the first {self._max_edges} relations are kept.")
            return
        try:
            check_edge(type_, start.label, end.label, given, confidence)
        except TabootError:
            self.problem(evidence, "E_PARSE", f"this states no {type_} that the graph can hold.")
            return
        self._edges[key] = EdgeClaim(
            type_,
            start,
            end,
            evidence,
            method,
            start_basis,
            self.basis(end, evidence, written) if end_basis is None else end_basis,
            given,
            confidence,
        )

    def bind(
        self,
        service: NodeRef | None,
        where: Where,
        port: int,
        protocol: str,
        method: str,
        *,
        target: int | None = None,
        address: str | None = None,
        unset: str = "",
        written: str = "",
        own: bool = False,
    ) -> None:
        """Claim that a service binds a port of the source's host or, without one, of an ``address`` (all of
        them, where none is written). ``unset``: the variable without a value, as it is written, that stands
        in its place. ``own``: the address is no machine's, so that the host does not go before it.
        ``written``: the address as it stands in the quote, where that is another form. An address that is
        none is a problem."""
        try:
            normal = str(ipaddress.ip_address(address.strip("[]"))) if address else None
        except ValueError:
            self.problem(where, "E_PARSE", "this is no address that a port can be bound at.")
            return
        if self.host is not None and not (own and normal is not None):
            end: NodeRef | None = self.claim_host(where)
            basis: Basis | None = Basis.SOURCE
        else:
            end = self.ip(normal or "0.0.0.0", where)
            basis = None if normal is not None else Basis.DERIVED
        self.edge(
            "BINDS",
            service,
            end,
            where,
            method,
            written=written or address or "",
            end_basis=basis,
            port=port,
            protocol=protocol,
            targetPort=target,
            hostIp=normal or unset or None,
        )

    def basis(self, node: NodeRef, where: Where, written: str = "") -> Basis:
        """Why a node is called as it is, by the quote at ``where`` (:func:`basis_of`)."""
        evidence = where if isinstance(where, Evidence) else where.evidence
        return basis_of(node.name, self.texts.quote(evidence), written, self._joints)

    # --- hosts ----------------------------------------------------------------------------------------------

    def reach(self, service: NodeRef | None, network: str, names: Iterable[str], where: Where) -> None:
        """Claim that a service is on a network, and there answers to ``names``. ``network``: its key."""
        if service is not None:
            evidence = where if isinstance(where, Evidence) else where.evidence
            self._reaches.append(Reach(service, network, tuple(dict.fromkeys(names)), evidence))

    def use(
        self,
        service: NodeRef | None,
        host: str,
        where: Where,
        method: str,
        *,
        protocol: str | None = None,
        port: int | None = None,
        encrypted: bool | None = None,
        confidence: float = 0.9,
        patterns: Iterable[str] = (),
    ) -> None:
        """Claim that a service asks for a host by this name; which service that is the reducer finds out.
        ``patterns``: what a release may answer to that made the name (``records.Use``)."""
        if service is None:
            return
        evidence = where if isinstance(where, Evidence) else where.evidence
        key = (service.key, host.lower(), evidence, protocol, port)
        if key not in self._uses and len(self._uses) < self._max_edges:
            written = stands_in(host, self.texts.quote(evidence))
            asked = ids.host_id(ids.open_host(self.place, host) if "${" in host else host)
            made = tuple(ids.host_id(pattern) for pattern in patterns)
            self._uses[key] = Use(
                service, asked, evidence, method, written, protocol, port, encrypted, confidence, made
            )

    # --- the result -----------------------------------------------------------------------------------------

    def problem(self, where: Where, code: str, what: str) -> None:
        """``what``, with the file and the line of ``where``; it must not quote the file."""
        evidence = where if isinstance(where, Evidence) else where.evidence
        self.texts.problem_at(evidence, code, what)

    def result(self, subordinates: Iterable[str] = (), environment: Iterable[str] = ()) -> Interpretation:
        """All that was claimed, with the problems of the unit's files."""
        return Interpretation(
            tuple(self._placed()),
            tuple(self._edges.values()),
            frozenset(subordinates),
            frozenset(environment),
            self.texts.problems.listed(),
            reaches=tuple(self._reaches),
            uses=tuple(self._uses.values()),
        )

    def _placed(self) -> Iterator[NodeClaim]:
        """The nodes; a host has the one address that the unit says it has (of IPv4, where it has some of
        IPv6 beside), an address the smallest of the unit's networks that it lies in."""
        blocks = _Blocks(
            cidr
            for claim in self._nodes.values()
            if claim.node.label == "Network"
            for cidr in claim.properties.get("cidrs", ())
        )
        addresses: dict[tuple[Any, ...], set[str]] = {}
        for edge in self._edges.values():
            if edge.type == "RESOLVES_TO" and edge.properties["recordType"] in ("A", "AAAA"):
                addresses.setdefault(edge.start.key, set()).add(edge.end.name)
        for claim in self._nodes.values():
            label, key = claim.node.label, claim.node.key
            derived: dict[str, str | None] = {}
            if label == "Host" and key in addresses:
                of_four = {a for a in addresses[key] if ":" not in a} or addresses[key]
                derived["ip"] = min(of_four) if len(of_four) == 1 else None
            elif label == "IP":
                derived["cidr"] = blocks.around(key[0])
            missing = {k: v for k, v in derived.items() if v and k not in claim.properties}
            yield replace(claim, properties={**claim.properties, **missing}) if missing else claim


class _Blocks:
    """Networks, to look up in which of them an address lies."""

    def __init__(self, cidrs: Iterable[str]) -> None:
        self._networks = {ipaddress.ip_network(cidr, strict=False) for cidr in cidrs}
        self._lengths = sorted({(n.version, n.prefixlen) for n in self._networks}, reverse=True)

    def around(self, address: str) -> str | None:
        """The smallest network that ``address`` lies in; None if it is in none."""
        if not self._networks:
            return None
        version = 6 if ":" in address else 4
        around = (
            ipaddress.ip_network((address, length), strict=False)
            for family, length in self._lengths
            if family == version
        )
        return next((str(network) for network in around if network in self._networks), None)


def _present(properties: Mapping[str, Any]) -> dict[str, Any]:
    # False and 0 are values; nothing, an empty text and an empty list are none.
    return {k: v for k, v in properties.items() if v or v == 0}
