"""The claims of one Compose project, with the names that lead to its services."""

from __future__ import annotations

import re

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote
from taboot_pipelines.extraction.tier_a.compose.loading import Loader, Project
from taboot_pipelines.extraction.tier_a.images import ImageReference
from taboot_pipelines.extraction.tier_a.texts import variable_called
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node
from taboot_pipelines.model.records import NodeRef, SourceFacts

#: Edges of one project: replicas of services in networks are many.
MAX_EDGES = 1_000_000

SERVICE_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}", re.ASCII)
_VERSION_TAG = re.compile(r"(?:v|version-|release[.-])?\d", re.IGNORECASE)


def version_of(image: ImageReference) -> str | None:
    """The image's tag, if it is a version and not the name of a flavour (``latest``, ``alpine``)."""
    return image.tag if image.tag is not None and _VERSION_TAG.match(image.tag) else None


class ProjectClaims(ClaimBuilder):
    """The claims of one project, and what its services are known by."""

    def __init__(self, project: Project, loader: Loader, source: SourceFacts) -> None:
        super().__init__(source, loader.texts, max_edges=MAX_EDGES)
        self.project = project
        self.loader = loader
        self.scope = f"{self.place}/{project.name}"
        self.bindings = 0
        #: Characters of mounted configuration that were looked through, once for each service that mounts it.
        self.mounted = 0
        #: name in the project's networks -> the Compose service that answers to it
        self.answering: dict[str, str] = {}
        #: service -> the image that its `image` names, and the node that does
        self.images: dict[str, tuple[ImageReference, Node]] = {}
        self.unresolved: dict[str, list[str]] = {}
        #: The machines to which plays of Ansible bring the project, and where each is said.
        self.machines: list[tuple[NodeRef, Quote]] = []
        self._services: dict[tuple[str, str], NodeRef] = {}

    def report(self, node: Node, code: str, what: str) -> None:
        """``what``, with the file and the position of ``node``."""
        node.report(self.texts.problems, code, what)

    def service(self, name: str, scope: str | None = None) -> NodeRef:
        key = (self.scope if scope is None else scope, name)
        return self._services.setdefault(key, NodeRef("Service", key, name))

    def container_name(self, service: str, index: int) -> str:
        """The name that Compose gives to a service's container where `container_name` does not."""
        return self.project.separator.join((self.project.name, service, str(index)))

    def stack_name(self, service: str) -> str:
        """The name that Swarm gives to a service of a stack."""
        return f"{self.project.name}_{service}"

    def mark(self, service: str, what: str, node: Node) -> bool:
        """Note that a field of a service could not be resolved; True if so."""
        if not node.missing:
            return False
        marks = self.unresolved.setdefault(service, [])
        for name in node.missing:
            mark = f"{what}: ${{{variable_called(name)}}}" if name not in ("", "$") else f"{what}: $"
            if mark not in marks:
                marks.append(mark)
        return True
