"""What a service needs: `depends_on`, links, volumes and namespaces of others."""

from __future__ import annotations

from typing import Any

from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.collector import SERVICE_NAME, ProjectClaims
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node
from taboot_pipelines.model.graph import SCHEMA_VERSION
from taboot_pipelines.model.records import NodeRef


def _depend(
    c: ProjectClaims,
    ref: NodeRef,
    target: str,
    quoted: Node,
    method: str,
    *,
    project: bool = True,
    **properties: Any,
) -> None:
    if SERVICE_NAME.fullmatch(target) is None:
        c.report(quoted, "E_PARSE", "this does not name a service or container.")
        return
    end = c.service(target, None if project else "")
    if end == ref:
        return
    if project and target not in c.project.services:
        c.report(quoted, "E_NOT_FOUND", "the service is not declared in the project.")
    c.node(end, quoted, {"schemaVersion": SCHEMA_VERSION})
    c.edge("DEPENDS_ON", ref, end, quoted, method, **properties)


def claim_dependencies(c: ProjectClaims, ref: NodeRef, name: str, node: Node) -> None:
    """Each dependency once for every statement of it."""
    depends = node.get("depends_on")
    for target, (key, options) in merging.names(depends).items():
        if c.mark(name, "depends_on", key):
            continue
        condition, required, restart = (options.scalar(k) for k in ("condition", "required", "restart"))
        _depend(
            c,
            ref,
            target,
            key,
            "compose_depends_on",
            condition=condition.text if condition is not None and not condition.missing else None,
            required=required.boolean(default=True) if required is not None else None,
            restart=restart.boolean() if restart is not None else None,
        )
    for field, project in (("links", True), ("external_links", False)):
        links = node.get(field)
        for item in links.each() if links is not None else ():
            if not c.mark(name, field, item):
                _depend(
                    c, ref, item.text.partition(":")[0].lstrip("/"), item, f"compose_{field}", project=project
                )
    volumes = node.get("volumes_from")
    for item in volumes.each() if volumes is not None else ():
        if not c.mark(name, "volumes_from", item):
            container = item.text.startswith("container:")
            target = item.text.removeprefix("container:").partition(":")[0]
            _depend(c, ref, target, item, "compose_volumes_from", project=not container)
    for field in ("network_mode", "ipc", "pid"):
        mode = node.scalar(field)
        if mode is None:
            continue
        kind, colon, target = mode.text.partition(":")
        if colon and kind in ("service", "container") and not c.mark(name, field, mode):
            _depend(c, ref, target, mode, f"compose_{field}", project=kind == "service")
