"""Which other files Compose texts and projects need: what a connector has to fetch with them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose.ansible import is_put_elsewhere, play_files, variable_files
from taboot_pipelines.extraction.tier_a.compose.builds import dockerfile_path
from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.compose.files import is_model, looks_like_compose, resolve_path
from taboot_pipelines.extraction.tier_a.compose.loading import documents_of
from taboot_pipelines.extraction.tier_a.compose.mounted import mount, mounted_files, mounted_path
from taboot_pipelines.extraction.tier_a.compose.variables import expand
from taboot_pipelines.extraction.tier_a.recognition import examples_of
from taboot_pipelines.extraction.tier_a.texts import Problems
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    MAPPING,
    SCALAR,
    SEQUENCE,
    Node,
    with_text,
)
from taboot_pipelines.model.records import FileView, Role, SourceFacts

_NAMES_FILES = re.compile(r"env_file|extends|include|build|label_file|configs|volumes")


def references(
    text: str,
    path: str,
    env: Mapping[str, str | None],
    listing: FileView | None = None,
    project_directory: str | None = None,
) -> set[tuple[str, Role]]:
    """(path from the source's root, role) of the files that the Compose text at ``path`` names, present or
    not; of the configuration that its services mount what is in the ``listing``.

    Files of `extends`, `include` and `configs`, mounted ones, Dockerfiles and what says what is put into a
    template are documents; `env_file`, `label_file`, each ``.env`` and encrypted variables are input. ``env``
    is the parsed ``.env`` beside the project;
    ``project_directory`` defaults to the text's own directory. A text that is no Compose file, or no YAML,
    names nothing. What only a merge of two files names is seen by :func:`project_files`.
    """
    base = posixpath.dirname(path) if project_directory is None else project_directory
    if not looks_like_compose(path, text):
        return set()
    models = _models(path, text, base)
    found: set[tuple[str, Role]] = {(posixpath.join(base, ".env"), "input")} if models else set()
    if models and listing is not None and "{{" in text:
        found |= {(named, "document") for level in variable_files(path, listing) for named in level}
    if models and listing is not None and ("{{" in text or is_put_elsewhere(path)):
        found |= play_files(path, listing)
    if _NAMES_FILES.search(text) is None:
        return found
    for document in models:
        for named, role in _of_model(document, env):
            if named is not None and named != path:
                found.add((named, role))
        if listing is not None:
            found |= {(named, "document") for named in _mounted(document, env, listing) if named != path}
    return found


@lru_cache(maxsize=256)
def _models(path: str, text: str, base: str) -> Sequence[Node]:
    """The documents of a text that are Compose files. Who compares two states of a folder asks twice."""
    try:
        documents = documents_of(path, text, base, Problems())
    except TabootError:
        return ()
    return [document for document in documents if is_model(document, path)]


def project_files(
    files: Collection[str], paths: Collection[str], load: Callable[[str], str | None]
) -> set[tuple[str, Role]]:
    """(path, role) of what the projects whose main file is among ``files`` read of ``paths``, put together as
    Compose does. That shows what no text by itself names: a Dockerfile that one file names and another gives
    the context of, the files of ``COMPOSE_FILE``. ``load`` gives a file's text, or None."""
    found: set[tuple[str, Role]] = set()
    extractor = ComposeExtractor()
    present = frozenset(paths)
    for unit in extractor.units(files):
        view = FileView(present, load)
        said = extractor.interpret(unit, view, SourceFacts("default", "source"))
        for path, there in view.reads.items():
            if there:
                found.add((path, "input" if path in said.environment else "document"))
    return found


def _of_model(document: Node, env: Mapping[str, str | None]) -> Iterator[tuple[str | None, Role]]:
    include = document.get("include")
    for item in (include.items if include.kind == SEQUENCE else [include]) if include is not None else ():
        paths = [
            _resolved(n, env) for n in ([item] if item.kind == SCALAR else (item.get("path") or item).each())
        ]
        yield from ((p, "document") for p in paths)
        directory, files = item.scalar("project_directory"), item.get("env_file")
        if files is not None:
            yield from ((_resolved(n, env), "input") for n in files.each())
        elif directory is not None or (paths and paths[0] is not None):
            base = _resolved(directory, env) if directory is not None else posixpath.dirname(paths[0] or "")
            yield (None if base is None else posixpath.join(base, ".env")), "input"
    configs = document.get("configs")
    for _, config in configs.entries.values() if configs is not None else ():
        file = config.scalar("file")
        if file is not None:
            yield _resolved(file, env), "document"
    services = document.get("services")
    for _, service in services.entries.values() if services is not None else ():
        for field in ("env_file", "label_file"):
            files = service.get(field)
            for item in (files.items if files.kind == SEQUENCE else [files]) if files is not None else ():
                node = item.scalar("path") if item.kind == MAPPING else item
                path = _resolved(node, env) if node is not None else None
                yield path, "input"
                for example in examples_of(path) if path is not None and field == "env_file" else ():
                    yield example, "input"
        extends = service.get("extends")
        file = extends.scalar("file") if extends is not None else None
        if file is not None:
            yield _resolved(file, env), "document"
        build = service.get("build")
        if build is not None and build.get("dockerfile_inline") is None:
            context = build if build.kind == SCALAR else build.scalar("context")
            dockerfile = build.scalar("dockerfile")
            yield (
                dockerfile_path(
                    service.entries["build"][0], _expanded(context, env), _expanded(dockerfile, env)
                ),
                "document",
            )


def _mounted(document: Node, env: Mapping[str, str | None], listing: FileView) -> Iterator[str]:
    """The files of configuration that the services of a model mount."""
    services = document.get("services")
    for _, service in services.entries.values() if services is not None else ():
        volumes = service.get("volumes")
        for item in volumes.items if volumes is not None else ():
            source = _expanded(mount(item), env)
            if source is not None and not source.missing:
                path = mounted_path(source, long=item.is_map)
                yield from mounted_files(listing, path) if path else ()


def _expanded(node: Node | None, env: Mapping[str, str | None]) -> Node | None:
    if node is None or "$" not in node.text:
        return node
    result = expand(node.text, env)
    return with_text(node, result.text, result.missing if result.valid else ("$",))


def _resolved(node: Node, env: Mapping[str, str | None]) -> str | None:
    node = _expanded(node, env) or node
    return None if node.missing or node.kind != SCALAR else resolve_path(node.origin.base, node.text)
