"""Which files one project is made of, where its paths start, and what it is called.

Compose looks into the directory that it is started in: ``COMPOSE_FILE`` of the ``.env`` there names the
files, else the directory's default file and its override are the project. The first file's directory is the
project's: it gives the name, the relative paths start there, and its own ``.env`` stands beneath the other.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.compose.files import DEFAULT_FILES, resolve_path
from taboot_pipelines.extraction.tier_a.compose.loading import MAX_CHAIN, MAX_INCLUDES, Loader
from taboot_pipelines.extraction.tier_a.compose.variables import Environment, parse_env
from taboot_pipelines.model.records import Problem


@dataclass(frozen=True, slots=True)
class Selection:
    """The files of a project in the order in which they are merged; ``base``: its directory.

    ``name`` is what it is called where neither it nor its environment says so. ``default``: Compose takes it
    without being told which files, so that ``COMPOSE_PROJECT_NAME`` of ``environment`` names it.
    """

    files: tuple[str, ...]
    base: str
    environment: Environment
    name: str
    default: bool


def select(loader: Loader, unit: Sequence[str], root: str) -> Selection:
    """The project of a unit's files. ``root`` is the name of the source's root folder.

    What is looked for goes through the loader's view, so that a file's appearance changes the unit. Files
    that ``COMPOSE_FILE`` adds become subordinates of the unit.
    """
    main = unit[0]
    directory, file = posixpath.split(main)
    default = file in DEFAULT_FILES and not _earlier(loader, directory, file)
    for place in _upwards(directory):
        env = posixpath.join(place, ".env")
        text = loader.read(env)
        if text is None or "COMPOSE_FILE" not in text:
            continue
        listed = _listed(loader, place, parse_env(text, {}))
        if not listed:
            continue
        if listed[0] == main or (
            default and place == directory and not _beneath(listed[0], place) and main in listed
        ):
            loader.subordinates.update(path for path in listed if path != main)
            base = posixpath.dirname(listed[0])
            outer = loader.read_environment(env, {}) or {}
            inner = loader.read_environment(posixpath.join(base, ".env"), outer) if base != place else None
            return Selection(listed, base, {**(inner or {}), **outer}, _folder(base, root), True)
        if place == directory:
            # Started here, Compose takes other files.
            default = False
    environment = loader.read_environment(posixpath.join(directory, ".env"), {}) or {}
    folder = _folder(directory, root)
    name = folder if default else f"{folder}-{posixpath.splitext(file)[0]}"
    return Selection(tuple(unit), directory, environment, name, default)


def _folder(directory: str, root: str) -> str:
    return posixpath.basename(directory) or root


def _earlier(loader: Loader, directory: str, file: str) -> bool:
    """Whether the directory has a default file that Compose prefers to this one."""
    preferred = DEFAULT_FILES[: DEFAULT_FILES.index(file)]
    return not all(loader.read(posixpath.join(directory, name)) is None for name in preferred)


def _upwards(directory: str) -> Iterator[str]:
    """The directory and those that hold it, up to the source's root."""
    for _ in range(MAX_CHAIN):
        yield directory
        if not directory:
            return
        directory = posixpath.dirname(directory)


def _beneath(path: str, directory: str) -> bool:
    return not directory or path.startswith(f"{directory}/")


def _listed(loader: Loader, place: str, environment: Environment) -> tuple[str, ...]:
    """The files that ``COMPOSE_FILE`` names, those that are not in the source left out; none if the first is
    missing."""
    written = environment.get("COMPOSE_FILE")
    if not written:
        return ()
    separator = environment.get("COMPOSE_PATH_SEPARATOR") or ":"
    found: list[str] = []
    parts = written.split(separator)
    env = posixpath.join(place, ".env")
    if len(parts) > MAX_INCLUDES:
        loader.problems.add(
            Problem(env, "E_TOO_LARGE", f"{env}: COMPOSE_FILE names more than {MAX_INCLUDES} files.")
        )
    for position, part in enumerate(parts[:MAX_INCLUDES]):
        path = resolve_path(place, part)
        # Read even where only its being there counts, so that its going is noticed.
        loader.read(path)
        if path is not None and path in loader.view.paths:
            found.append(path)
            continue
        loader.problems.add(
            Problem(env, "E_NOT_FOUND", f"{env}: a file that COMPOSE_FILE names is not in the source.")
        )
        if position == 0:
            return ()
    return tuple(dict.fromkeys(found))
