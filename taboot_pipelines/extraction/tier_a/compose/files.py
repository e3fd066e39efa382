"""Which files are Compose files, how a listing falls into projects, and what a path in them leads to."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Collection

from taboot_pipelines.extraction.tier_a.recognition import filled
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, Entry, Node, with_children
from taboot_pipelines.packaged import word_list

#: Compose's own order of the files it looks for in a directory.
DEFAULT_FILES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
OVERRIDE_FILES = (
    "compose.override.yml",
    "compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
)
#: The folders of a role of Ansible whose files are put elsewhere.
_OF_ROLES = ("templates", "files")
_MODEL_KEYS = frozenset(
    {"version", "name", "services", "networks", "volumes", "configs", "secrets", "include", "models", "jobs"}
)
#: Keys that tell a Compose service from what other programs call a service.
_SERVICE_KEYS = word_list("taboot_pipelines.extraction.tier_a.compose", "service_keys.txt")
_HINT = re.compile(r"services|include|image|build")


def resolve_path(base: str, path: str) -> str | None:
    """``path`` relative to ``base``, as a path from the source's root; None if it leads out of it."""
    if not path or path[0] in "/~" or "\x00" in path:
        return None
    joined = posixpath.normpath(posixpath.join(base, unicodedata.normalize("NFC", path)))
    if joined == ".." or joined.startswith(("../", "/")):
        return None
    return "" if joined == "." else joined


def looks_like_compose(path: str, text: str) -> bool:
    """A cheap look before parsing: False only for a text that cannot be a Compose file."""
    return _HINT.search(text) is not None or named_compose(path)


def named_compose(path: str) -> bool:
    name = posixpath.basename(path).lower()
    return "compose" in name or name.startswith("fig.")


def normalize_project(name: str) -> str:
    """Compose's project names: lower case, only ``a-z0-9_-``, starting with a letter or digit."""
    return re.sub(r"[^a-z0-9_-]", "", name.lower()).lstrip("_-")


def is_model(document: Node, path: str) -> bool:
    """Whether it is a Compose model: `services` or `include` at the top, and no key of another program's
    files."""
    if document.kind != MAPPING:
        return False
    services, include = document.get("services"), document.get("include")
    named = named_compose(path)
    if services is None and include is None:
        return named and _is_version_1(document)
    if services is not None and services.kind != MAPPING:
        return False
    if named:
        return True
    if any(key not in _MODEL_KEYS and not key.startswith("x-") for key in document.entries):
        return False
    if services is None:
        return include is not None and any(
            i.kind == SCALAR or i.get("path") is not None for i in include.items
        )
    return any(not _SERVICE_KEYS.isdisjoint(value.entries) for _, value in services.entries.values())


def _is_version_1(document: Node) -> bool:
    """The first format: services at the top, no `version`, every one with an image or a build."""
    return (
        bool(document.entries)
        and "version" not in document.entries
        and all(
            value.kind == MAPPING and ("image" in value.entries or "build" in value.entries)
            for _, value in document.entries.values()
        )
    )


def modernized(document: Node, path: str) -> Node:
    """``document`` in the present format if it is in the first one; else itself."""
    if (
        "services" in document.entries
        or "include" in document.entries
        or not (named_compose(path) and _is_version_1(document))
    ):
        return document
    services: dict[str, Entry] = {}
    for name, (key, value) in document.entries.items():
        entries = {("network_mode" if k == "net" else k): e for k, e in value.entries.items()}
        dockerfile = entries.pop("dockerfile", None)
        build = value.scalar("build")
        if dockerfile is not None and build is not None:
            entries["build"] = (
                entries["build"][0],
                with_children(build, entries={"context": (build, build), "dockerfile": dockerfile}),
            )
        services[name] = (key, with_children(value, entries=entries))
    return with_children(
        document, entries={"services": (document, with_children(document, entries=services))}
    )


def naming_folder(directory: str) -> str:
    """The folder that a project in ``directory`` is called after: of a role's files and templates the role,
    which are put elsewhere before they are used."""
    outer, inner = posixpath.split(directory)
    in_role = posixpath.basename(posixpath.dirname(outer)) == "roles"
    return outer if inner in _OF_ROLES and in_role else directory


def group_units(paths: Collection[str]) -> list[tuple[str, ...]]:
    """The YAML files of a listing by unit, main file first: a directory's default file and its override are
    one. A template is a unit where what it becomes is not there."""
    folders: dict[str, dict[str, str]] = {}
    units: list[tuple[str, ...]] = []
    present = set(paths)
    for path in present:
        if path.lower().endswith((".yml", ".yaml")):
            folders.setdefault(posixpath.dirname(path), {})[posixpath.basename(path)] = path
        elif path.lower().endswith((".yml.j2", ".yaml.j2")) and filled(path) not in present:
            units.append((path,))
    for files in folders.values():
        main = next((files[n] for n in DEFAULT_FILES if n in files), None)
        override = next((files[n] for n in OVERRIDE_FILES if n in files), None)
        default = () if main is None else (main,) if override is None else (main, override)
        if default:
            units.append(default)
        units.extend((path,) for path in files.values() if path not in default)
    return sorted(units)
