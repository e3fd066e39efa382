"""The images of a service: the one it runs, the one it builds, and those its Dockerfile starts from."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.collector import ProjectClaims
from taboot_pipelines.extraction.tier_a.compose.dockerfile import base_images
from taboot_pipelines.extraction.tier_a.compose.files import resolve_path
from taboot_pipelines.extraction.tier_a.compose.scalars import resolved
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, Entry, Node, with_text
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import Evidence, NodeRef, Problem

_REMOTE_CONTEXT = re.compile(r"[a-z+]+://|git@|github\.com/", re.IGNORECASE)


def claim_builds(c: ProjectClaims, ref: NodeRef, name: str, key: Node, node: Node) -> None:
    """`image`, `build` and the Dockerfile of one service."""
    image = node.scalar("image")
    known = c.images.get(name)
    if image is not None and known is None and not c.mark(name, "image", image):
        c.report(image, "E_PARSE", "the image reference does not follow the OCI grammar.")
    build = node.get("build")
    if build is None:
        if known is not None and image is not None:
            end = c.image(known[0], image.text, image)
            c.edge("BUILDS", ref, end, image, "compose_image", written=image.text)
        return
    context = build if build.kind == SCALAR else build.scalar("context")
    inline = build.scalar("dockerfile_inline")
    dockerfile = build.scalar("dockerfile")
    target = build.scalar("target")
    arguments = merging.pairs(build.get("args"))
    build_key = node.entries["build"][0]
    said = context or dockerfile or inline or build_key
    for what, part in (("build", context), ("build.dockerfile", dockerfile), ("build.target", target)):
        if part is not None:
            c.mark(name, what, part)
    details: dict[str, Any] = {
        "dockerfile": dockerfile.text if dockerfile is not None else None,
        "target": target.text if target is not None else None,
        "buildArgs": sorted(a for a in arguments if a),
    }
    if known is not None and image is not None:
        end = c.image(known[0], image.text, image)
        c.edge("BUILDS", ref, end, image, "compose_build", written=image.text, **details)
    elif image is None:
        written = f"{c.project.name}{c.project.separator}{name}".lower()
        reference = try_reference(written)
        if reference is None:
            c.report(key, "E_PARSE", "the service's name gives no image name for its build.")
        else:
            end = c.image(reference, written, said)
            c.edge("BUILDS", ref, end, said, "compose_build", end_basis=Basis.DERIVED, **details)
    _base_images(c, ref, name, build_key, build, context, dockerfile, inline, arguments)


def _base_images(
    c: ProjectClaims,
    ref: NodeRef,
    name: str,
    key: Node,
    build: Node,
    context: Node | None,
    dockerfile: Node | None,
    inline: Node | None,
    arguments: Mapping[str, Entry],
) -> None:
    values = {
        k: None if v.missing else c.project.environment.get(k) if v.is_null else resolved(v)
        for k, (_, v) in arguments.items()
    }
    if inline is not None:
        text, path, place = inline.text, None, inline
    else:
        found = dockerfile_path(key, context, dockerfile)
        read = c.loader.read(found)
        if read is None or found is None:
            return
        text, path, place = read, found, build
    replaced = {k: v.text for k, (_, v) in merging.pairs(build.get("additional_contexts")).items()}
    for base in base_images(text, values):
        written = base.reference
        if written in replaced:
            if not replaced[written].startswith("docker-image://"):
                continue
            written = replaced[written].removeprefix("docker-image://")
        reference = None if base.missing else try_reference(written)
        if reference is None:
            if base.missing:
                c.mark(name, "FROM", with_text(place, "", base.missing))
            elif path is not None:
                c.loader.problems.add(_dockerfile_problem(path, text, base.start))
            continue
        where = place.evidence if path is None else Evidence(path, base.start, base.end)
        end = c.image(reference, written, where)
        c.edge(
            "BUILDS", ref, end, where, "dockerfile_from", written=written, dockerfile=path, stage=base.stage
        )


def dockerfile_path(key: Node, context: Node | None, dockerfile: Node | None) -> str | None:
    """The path from the source's root of the Dockerfile of the `build` at ``key``; None if it lies elsewhere
    or cannot be known."""
    if context is not None and (context.missing or _REMOTE_CONTEXT.match(context.text)):
        return None
    if dockerfile is not None and dockerfile.missing:
        return None
    directory = key.origin.base if context is None else resolve_path(context.origin.base, context.text)
    # Written with a slash at the front it is a path of the machine, not of the source.
    name = dockerfile.text if dockerfile is not None else "Dockerfile"
    return None if directory is None else resolve_path(directory, name)


def _dockerfile_problem(path: str, text: str, offset: int) -> Problem:
    line = text.count("\n", 0, offset) + 1
    return Problem(
        path,
        "E_PARSE",
        f"{posixpath.normpath(path)}, line {line}: FROM does not name an image that follows the OCI grammar.",
    )
