"""Where the claims of one project come together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from taboot_pipelines.extraction.tier_a.compose.loading import Loader, Project
from taboot_pipelines.extraction.tier_a.images import ImageReference
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import Basis, is_hostname
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeClaim, NodeRef, SourceFacts

SERVICE_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}", re.ASCII)
_VERSION_TAG = re.compile(r"(?:v|version-|release[.-])?\d", re.IGNORECASE)


def version_of(image: ImageReference) -> str | None:
    """The image's tag, if it is a version and not the name of a flavour (``latest``, ``alpine``)."""
    return image.tag if image.tag is not None and _VERSION_TAG.match(image.tag) else None


def quote(node: Node) -> str:
    return node.origin.text[node.start : node.end]


def evidence(node: Node) -> Evidence:
    return Evidence(node.origin.path, node.start, node.end)


class Collector:
    """Collects the claims of one project, in the order of its files."""

    def __init__(self, project: Project, loader: Loader, source: SourceFacts) -> None:
        self.project = project
        self.loader = loader
        self.source = source
        host = (source.host or "").lower().rstrip(".")
        self.host = NodeRef("Host", (host,), host) if is_hostname(host) else None
        self.place = host or source.source_id
        self.scope = f"{self.place}/{project.name}"
        self.nodes: dict[tuple[str, tuple[Any, ...]], NodeClaim] = {}
        self.edges: dict[tuple[Any, ...], EdgeClaim] = {}
        self.bindings = 0
        #: name in the project's networks -> the Compose service that answers to it
        self.answering: dict[str, str] = {}
        #: service -> the image that its `image` names, and the node that does
        self.images: dict[str, tuple[ImageReference, Node]] = {}
        self.unresolved: dict[str, list[str]] = {}

    def node(
        self,
        ref: NodeRef,
        where: Evidence,
        properties: Mapping[str, Any] | None = None,
        *,
        declared: bool = False,
        aliases: tuple[str, ...] = (),
        confidence: float = 1.0,
    ) -> NodeRef:
        """Claim a node, of which the first claim counts. Properties that are None or [] are left out."""
        given = {k: v for k, v in (properties or {}).items() if v is not None and v != []}
        self.nodes.setdefault(
            (ref.label, ref.key), NodeClaim(ref, where, given, declared, aliases, confidence)
        )
        return ref

    def edge(
        self,
        type_: str,
        start: NodeRef,
        end: NodeRef,
        node: Node,
        method: str,
        end_basis: Basis | None = None,
        *,
        where: Evidence | None = None,
        start_basis: Basis = Basis.DERIVED,
        confidence: float = 1.0,
        **properties: Any,
    ) -> None:
        """Claim an edge that ``node`` states (or the span ``where``). ``end_basis`` None: ``bytes`` if the
        end's name stands in the quote, else ``derived``."""
        if end_basis is None:
            end_basis = Basis.BYTES if end.name in quote(node) else Basis.DERIVED
        given = {k: v for k, v in properties.items() if v is not None and v != []}
        claim = EdgeClaim(
            type_, start, end, where or evidence(node), method, start_basis, end_basis, given, confidence
        )
        self.edges.setdefault((type_, start, end, claim.evidence, method, ids.composite(given)), claim)

    def report(self, node: Node, code: str, what: str) -> None:
        self.loader.problems.at(node, code, what)

    def service(self, name: str, scope: str | None = None) -> NodeRef:
        return NodeRef("Service", (self.scope if scope is None else scope, name), name)

    def container_name(self, service: str, index: int) -> str:
        """The name that Compose gives to a service's container where `container_name` does not."""
        return self.project.separator.join((self.project.name, service, str(index)))

    def mark(self, service: str, what: str, node: Node) -> bool:
        """Note that a field of a service could not be resolved; True if so."""
        if not node.missing:
            return False
        marks = self.unresolved.setdefault(service, [])
        for name in node.missing:
            mark = f"{what}: ${{{name}}}" if name not in ("", "$") else f"{what}: $"
            if mark not in marks:
                marks.append(mark)
        return True
