"""What the containers of a service mount, each as ``source:target`` or ``source:target:ro``.

A source is a path as written, relative ones from the project's directory; the real name of a volume; nothing
for a volume that nobody names; ``?`` where it cannot be known. ``?`` alone: more may be mounted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.compose.claims import ProjectClaims
from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, Node

UNKNOWN = "?"


def mounts(c: ProjectClaims, node: Node) -> list[str]:
    """Of two at one place the later one counts, as Compose has it."""
    found: dict[str, str] = {}
    volumes = node.get("volumes")
    if volumes is not None and volumes.missing:
        found[UNKNOWN] = UNKNOWN
    for item in volumes.items if volumes is not None else ():
        said = _long(c, item) if item.is_map else _short(c, item) if item.kind == SCALAR else None
        if said is not None:
            target, mount = said
            found[target] = mount
    for section, folder in (("secrets", "/run/secrets/"), ("configs", "/")):
        for target in _files(node.get(section), folder):
            found[target] = f"{UNKNOWN}:{target}"
    if node.get("volumes_from") is not None:
        found[UNKNOWN] = UNKNOWN
    return list(found.values())


def _short(c: ProjectClaims, item: Node) -> tuple[str, str]:
    parts = item.text.split(":")
    if item.missing:
        # What is written behind the variables still tells where it is mounted.
        target = next((p for p in parts[1:] if p.startswith("/")), "")
        return (target, f"{UNKNOWN}:{target}") if target else (UNKNOWN, UNKNOWN)
    if len(parts) == 1:
        target = _target(parts[0])
        return target, f":{target}"
    options = parts[2].split(",") if len(parts) > 2 else []
    return _mount(_source(c, item, parts[0]), parts[1], "ro" in options)


def _long(c: ProjectClaims, item: Node) -> tuple[str, str] | None:
    kind, source, target, only = (item.scalar(k) for k in ("type", "source", "target", "read_only"))
    if target is None or kind is None or kind.text not in ("bind", "volume"):
        return None
    if target.missing:
        return UNKNOWN, UNKNOWN
    if source is None or source.missing:
        own = "" if source is None else UNKNOWN
    elif kind.text == "bind":
        own = _path(c, source, source.text)
    else:
        own = _source(c, source, source.text)
    return _mount(own, target.text, only is not None and only.boolean())


def _mount(source: str, target: str, read_only: bool) -> tuple[str, str]:
    at = _target(target)
    return at, f"{source}:{at}{':ro' if read_only else ''}"


def _target(text: str) -> str:
    return posixpath.normpath(text) if text.startswith("/") else text


def _source(c: ProjectClaims, where: Node, text: str) -> str:
    """A path, or the real name of a volume."""
    if text.startswith((".", "/", "~")):
        return _path(c, where, text)
    entry = c.project.volumes.get(text)
    if entry is None:
        return f"{c.project.name}_{text}"
    external, given = entry[1].get("external"), entry[1].scalar("name")
    if given is None and external is not None and external.is_map:
        given = external.scalar("name")
    if given is not None:
        return UNKNOWN if given.missing else given.text
    is_external = external is not None and (external.is_map or external.boolean())
    return text if is_external else f"{c.project.name}_{text}"


def _path(c: ProjectClaims, where: Node, text: str) -> str:
    """A path of the machine; one that is relative to another file, from the project's directory."""
    if text.startswith(("/", "~")):
        return posixpath.normpath(text)
    relative = posixpath.relpath(
        posixpath.join("/", where.origin.base, text), posixpath.join("/", c.project.base)
    )
    return relative if relative.startswith("..") else f"./{relative}"


def _files(held: Node | None, folder: str) -> Iterator[str]:
    """Where files of the project's `secrets` or `configs` are mounted."""
    for item in held.items if held is not None else ():
        source, target = (item.scalar("source"), item.scalar("target")) if item.is_map else (item, None)
        name = target if target is not None else source
        if name is not None and not name.missing:
            yield name.text if name.text.startswith("/") else f"{folder}{name.text}"
