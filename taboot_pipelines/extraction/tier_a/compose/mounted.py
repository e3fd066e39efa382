"""The values in configuration that a service mounts out of its source, whatever format it has."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.claims import Located, Quote
from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.claims import ProjectClaims
from taboot_pipelines.extraction.tier_a.compose.files import resolve_path
from taboot_pipelines.extraction.tier_a.compose.variables import expand
from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, Node
from taboot_pipelines.model.records import FileView

#: Endings of names of files that configure something, and have a value on a line.
_ENDINGS = frozenset(
    {
        "caddyfile",
        "cfg",
        "cnf",
        "conf",
        "config",
        "env",
        "hcl",
        "ini",
        "json",
        "properties",
        "toml",
        "yaml",
        "yml",
    }
)
#: Names of files that are read and never documents (rule ``secrets-stop-at-the-blob``).
_ENVIRONMENT = re.compile(r"(?i).*\.env|\.env\..*", re.DOTALL)
#: Files of one mounted directory, characters of one file, and of all of a project, that are looked at.
_MAX_FILES = 50
_MAX_CHARACTERS = 200_000
_MAX_MOUNTED = 20_000_000
#: A line with a key and a value, as YAML, INI, TOML, JSON and properties have it; else any line.
_LINE = re.compile(
    r"^[ \t]*(?![#;]|//)(?:- +)?(?:[\"']?(?P<key>[A-Za-z_][\w.-]*)[\"']?[ \t]*[:=][ \t]*)?"
    r"(?P<value>\S[^\r\n]*?)[ \t]*,?[ \t]*$",
    re.MULTILINE,
)
_COMMENT = re.compile(r"[ \t]+#.*")


def mounted_values(c: ProjectClaims, node: Node) -> Iterator[tuple[str, str, Located]]:
    """(key, value, where it stands) of the lines of the files that a service mounts, and of its `configs`;
    the key is empty where there is none."""
    given = {
        name: None if value.missing else value.text
        for name, (_, value) in merging.pairs(node.get("environment")).items()
        if value.kind == SCALAR
    }
    volumes = node.get("volumes")
    for item in volumes.items if volumes is not None else ():
        source = mount(item)
        if source is None or source.missing:
            continue
        path = mounted_path(source, long=item.is_map)
        for found in mounted_files(c.loader.view, path) if path else ():
            for key, value, where in _values(c, found, source):
                # Many programs fill their configuration with the variables of their container.
                expanded = expand(value, given)
                known = expanded.valid and not expanded.missing
                yield key, expanded.text if known else value, where
    configs = node.get("configs")
    for item in configs.items if configs is not None else ():
        source = item.scalar("source") if item.is_map else item if item.kind == SCALAR else None
        config = c.project.configs.get(source.text) if source is not None else None
        file, content = (config[1].scalar(k) for k in ("file", "content")) if config else (None, None)
        if file is not None and not file.missing:
            path = resolve_path(file.origin.base, file.text)
            if path is not None and c.loader.read(path) is None:
                c.report(file, "E_NOT_FOUND", f"the file {path} is not in the source.")
            elif path is not None:
                yield from _values(c, path, file)
        elif content is not None:
            yield from _written(c, content)


def _values(c: ProjectClaims, path: str, naming: Node) -> Iterator[tuple[str, str, Located]]:
    """The lines of a file; of one that is no document ``naming``, which names it, is quoted."""
    text = c.loader.read(path)
    if text is None or len(text) > _MAX_CHARACTERS:
        return
    if c.mounted <= _MAX_MOUNTED < c.mounted + len(text):
        c.report(naming, "E_TOO_LARGE", "so much configuration is mounted that the rest of it is not read.")
    c.mounted += len(text)
    if c.mounted > _MAX_MOUNTED:
        return
    hidden = _ENVIRONMENT.fullmatch(posixpath.basename(path)) is not None
    for key, value, where in lines_of(path, text, 0, len(text)):
        yield key, value, naming if hidden else where


def _written(c: ProjectClaims, content: Node) -> Iterator[tuple[str, str, Located]]:
    """The lines of a configuration that the Compose file holds itself, with its variables put in."""
    origin = content.origin
    if origin.text[content.start] not in "|>":
        for key, value, _ in lines_of(origin.path, content.text, 0, len(content.text)):
            yield key, value, content
        return
    for key, value, where in lines_of(origin.path, origin.text, content.start, content.end):
        found = expand(value, c.project.environment)
        if not found.missing:
            yield key, found.text, where


def lines_of(path: str, text: str, start: int, end: int) -> Iterator[tuple[str, str, Quote]]:
    """(key, value, where it stands) of the lines of ``text[start:end]`` of a file."""
    for line in _LINE.finditer(text, start, end):
        value = _COMMENT.sub("", line["value"]).strip("\"'")
        yield line["key"] or "", value, Quote(value, path, line.start("value"), line.end("value"))


def mount(item: Node) -> Node | None:
    """What a volume of a service mounts, as it is written, in the short form or the long one."""
    return item.scalar("source") if item.is_map else item if item.kind == SCALAR else None


def mounted_path(source: Node, *, long: bool) -> str | None:
    """The path within the source of what a service mounts. Anything else is the name of a volume, or lies
    outside of the source."""
    written = source.text if long else source.text.partition(":")[0]
    return resolve_path(source.origin.base, written) if written.startswith(".") else None


def mounted_files(view: FileView, path: str) -> list[str]:
    """The files of configuration that a mounted path is, or has in it."""
    if path in view.paths:
        return [path] if _configures(path) else []
    if any(char in path for char in "*?["):
        return []
    return [p for p in view.glob(f"{path}/**") if _configures(p)][:_MAX_FILES]


def _configures(path: str) -> bool:
    """Whether a file may configure a program, by the end of its name."""
    return posixpath.basename(path).lower().rpartition(".")[2] in _ENDINGS
