"""The claims of one configuration file, as the readers of small formats collect them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.endpoints import endpoint, normal_host
from taboot_pipelines.extraction.tier_a.images import ImageReference
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import Basis, check_edge, check_node, is_hostname, is_public
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    Interpretation,
    NodeClaim,
    NodeRef,
    Problem,
    SourceFacts,
)

#: Edges of one file; what lies beyond is a problem.
MAX_EDGES = 100_000
#: Problems that are listed of one file.
_MAX_PROBLEMS = 200


@dataclass(frozen=True, slots=True)
class Said:
    """Text that stands in a file, at code points ``[start, end)`` of it. ``text`` is what the format makes of
    it: without its quotes, its continued lines joined."""

    text: str
    path: str
    start: int
    end: int

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.path, self.start, self.end)

    def part(self, text: str) -> Said:
        """``text`` where it stands in this one; all of this one's place where it does not stand there as it
        is written."""
        at = self.text.find(text)
        if at < 0 or self.end - self.start != len(self.text):
            return Said(text, self.path, self.start, self.end)
        return Said(text, self.path, self.start + at, self.start + at + len(text))


class Claims:
    """Collects nodes and edges, each once, in the order in which they are claimed.

    A node of which the model knows no such key or property, or an edge that it does not allow, is no claim
    but a problem: no input may break the run.
    """

    def __init__(self, source: SourceFacts, texts: Mapping[str, str]) -> None:
        """``texts``: {path: text} of the files that are quoted; a reader may add to it later."""
        self.source = source
        self.texts = texts
        host = (source.host or "").lower().rstrip(".")
        self.host = NodeRef("Host", (host,), host) if is_hostname(host) else None
        #: What scopes and the keys of networks begin with.
        self.place = host or source.source_id
        self._nodes: dict[tuple[str, tuple[Any, ...]], NodeClaim] = {}
        self._edges: dict[tuple[Any, ...], EdgeClaim] = {}
        self._problems: dict[Problem, None] = {}
        self._full: set[str] = set()

    # --- nodes ----------------------------------------------------------------------------------------------

    def node(
        self,
        ref: NodeRef,
        said: Said,
        properties: Mapping[str, Any] | None = None,
        *,
        declared: bool = False,
        aliases: Iterable[str] = (),
    ) -> NodeRef | None:
        """Claim a node and return it; None if it does not follow the model. The first claim counts, but for a
        declaration, which goes before. Properties that are None or empty are left out."""
        given = {k: v for k, v in (properties or {}).items() if v is not None and v != [] and v != ""}
        try:
            check_node(ref.label, ref.key, given)
        except TabootError:
            self.problem(said, "E_PARSE", f"the name or a value is none that a {ref.label} can have.")
            return None
        claim = NodeClaim(ref, said.evidence, given, declared, tuple(dict.fromkeys(aliases)))
        key = (ref.label, ref.key)
        if key not in self._nodes or (declared and not self._nodes[key].declared):
            self._nodes[key] = claim
        return ref

    def amend(self, ref: NodeRef, **properties: Any) -> None:
        """Add properties to a node that is claimed."""
        key = (ref.label, ref.key)
        claim = self._nodes[key]
        given = {k: v for k, v in properties.items() if v is not None and v != []}
        check_node(ref.label, ref.key, given)
        self._nodes[key] = replace(claim, properties={**claim.properties, **given})

    def claim_host(self, said: Said) -> NodeRef | None:
        """The machine that the source's entry names, as a node that ``said`` speaks of."""
        return None if self.host is None else self.node(self.host, said, declared=True)

    def ip(self, address: str, said: Said) -> NodeRef | None:
        """An address in its normal form as a node."""
        return self.node(NodeRef("IP", (address,), address), said, {"isPublic": is_public(address)})

    def image(self, reference: ImageReference, said: Said) -> NodeRef | None:
        return self.node(
            NodeRef("Image", (reference.image_id,), reference.name),
            said,
            {
                "name": reference.name,
                "registry": reference.registry,
                "repository": reference.repository,
                "tag": reference.tag,
                "digest": reference.digest,
                "reference": said.text,
                "declared": True,
            },
        )

    def endpoint(self, scheme: str, host: str, port: int, path: str, said: Said) -> NodeRef | None:
        """An endpoint at a host as it is written."""
        fqdn = normal_host(host)
        return None if fqdn is None else self.node(endpoint(scheme, fqdn, port, path), said)

    # --- edges ----------------------------------------------------------------------------------------------

    def edge(
        self,
        type_: str,
        start: NodeRef | None,
        end: NodeRef | None,
        said: Said,
        method: str,
        *,
        start_basis: Basis | None = None,
        end_basis: Basis | None = None,
        confidence: float = 1.0,
        **properties: Any,
    ) -> None:
        """Claim an edge that ``said`` states; nothing where an end is no node. A basis that is None is
        ``bytes`` where the end's name stands in the quote, ``derived`` elsewhere."""
        if start is None or end is None:
            return
        if len(self._edges) >= MAX_EDGES:
            if said.path not in self._full:
                self._full.add(said.path)
                self.problem(said, "E_TOO_LARGE", f"only the first {MAX_EDGES} relations are kept.")
            return
        given = {k: v for k, v in properties.items() if v is not None and v != []}
        try:
            check_edge(type_, start.label, end.label, given, confidence)
        except TabootError:
            self.problem(said, "E_PARSE", f"this states no {type_} that the graph can hold.")
            return
        claim = EdgeClaim(
            type_,
            start,
            end,
            said.evidence,
            method,
            start_basis or self.basis(start, said),
            end_basis or self.basis(end, said),
            given,
            confidence,
        )
        key = (type_, start, end, claim.evidence, method, ids.composite(given))
        self._edges.setdefault(key, claim)

    def basis(self, node: NodeRef, said: Said) -> Basis:
        """``bytes`` where the node's name stands in the quote, ``derived`` elsewhere."""
        return Basis.BYTES if node.name in self.quote(said) else Basis.DERIVED

    def quote(self, said: Said) -> str:
        return self.texts[said.path][said.start : said.end]

    def written(self, node: NodeRef, said: Said) -> Basis:
        """The basis of a node of which ``said`` holds another form, unless it is the form that stands
        there."""
        return Basis.BYTES if node.name in self.quote(said) else Basis.NORMALIZED

    # --- the result -----------------------------------------------------------------------------------------

    def problem(self, said: Said, code: str, what: str) -> None:
        """``what``, with the file and the line of ``said``; it must not quote the file."""
        if len(self._problems) > _MAX_PROBLEMS:
            return
        line = self.texts[said.path].count("\n", 0, said.start) + 1
        self.note(said.path, code, f"{said.path}, line {line}: {what}")

    def note(self, path: str, code: str, message: str) -> None:
        """A problem of a whole file."""
        if len(self._problems) == _MAX_PROBLEMS:
            code, message = "E_PARSE", f"{path}: there are more than {_MAX_PROBLEMS} problems, not listed."
        if len(self._problems) <= _MAX_PROBLEMS:
            self._problems.setdefault(Problem(path, code, message))

    def result(self, subordinates: Iterable[str] = ()) -> Interpretation:
        return Interpretation(
            tuple(self._nodes.values()),
            tuple(self._edges.values()),
            frozenset(subordinates),
            problems=tuple(self._problems),
        )
