"""Looks around beneath a folder for what a sources file may name: projects, proxy confs, documents."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from taboot_pipelines.connectors.walk import PRUNED, is_of_tests
from taboot_pipelines.sources.kind import Beginning, Stance
from taboot_pipelines.sources.registry import source_kinds

#: A tree with more entries is not looked through to its end.
MAX_ENTRIES = 200_000
#: From so many folders on that each hold one, what holds them all is the source.
_MANY = 4
#: What tools that fetch dependencies write of each one: no text of the house, and more than all of it.
_LOCK = re.compile(r"(?:.*[._-])?(?:lock|shrinkwrap)\.(?:json|ya?ml|hcl|toml|txt)")
#: The folder of Ansible's roles.
_ROLES = "roles"


@dataclass(frozen=True)
class Found:
    """A folder that a source may be made of: ``path`` relative to where was looked, ``.`` for all of it.
    ``exclude``: globs of what is not read of it; ``proxy``: the reverse proxy that its files are of."""

    type: str
    path: str
    beginning: Beginning
    exclude: tuple[str, ...] = ()
    proxy: str | None = None


@dataclass(frozen=True)
class Survey:
    """What was found, and whether all of the tree was looked through. ``seen``: the files that were looked
    at, relative to where was looked; ``hidden``: folders that were not, for the dot before their names."""

    found: tuple[Found, ...]
    whole: bool
    seen: tuple[PurePosixPath, ...]
    hidden: tuple[PurePosixPath, ...]


def survey(folder: Path, own: Collection[Path] = ()) -> Survey:
    """Look through what is beneath ``folder``; links are not followed, folders of tools are passed over.

    ``own``: files and folders of the knowledge base itself, which are no source of it.
    """
    # What declares things comes first, then what runs: each takes a file that documents might take too.
    order = (Stance.DECLARES, Stance.RUNS)
    kinds = sorted(
        source_kinds().values(), key=lambda k: order.index(k.stance) if k.stance in order else len(order)
    )
    beginnings = [(kind.name, kind.beginning) for kind in kinds if kind.beginning is not None]
    taken: list[list[PurePosixPath]] = [[] for _ in beginnings]
    hidden: list[PurePosixPath] = []
    seen: list[PurePosixPath] = []
    left = MAX_ENTRIES
    for directory, names, files in os.walk(folder):
        at = PurePosixPath(Path(directory).relative_to(folder).as_posix())
        hidden += (at / n for n in names if n.startswith(".") and n not in PRUNED)
        names[:] = sorted(n for n in names if n not in PRUNED and not n.startswith("."))
        left -= len(names) + len(files)
        if left < 0:
            break
        tested = is_of_tests(at.parts)
        for name in sorted(files):
            path = Path(directory, name)
            seen.append(at / name)
            fit = (n for n, (_, b) in enumerate(beginnings) if (b.the_rest or not tested) and b.takes(path))
            number = next(fit, None) if _LOCK.fullmatch(name) is None else None
            if number is not None:
                taken[number].append(at / name)
    parted = list(zip(beginnings, taken, strict=True))
    found = [
        f
        for (type_, b), paths in parted
        if paths and not b.the_rest
        for f in _folders(type_, b, paths, folder)
    ]
    read = {_glob(b, path) for (_, b), paths in parted if not b.the_rest for path in paths}
    inside = {f"/{_escaped(p.relative_to(folder).as_posix())}" for p in own if p.is_relative_to(folder)}
    read |= {_escaped(path.name) for path in seen if _LOCK.fullmatch(path.name)}
    read |= {
        f"{_beneath(f.path)}{_escaped(path.name)}"
        for f in found
        for path in seen
        if f.beginning.reads_too(path.name) and path.is_relative_to(f.path)
    }
    exclude = tuple(sorted(read | {f"{h.name}/" for h in hidden} | inside))
    found += [
        Found(type_, ".", b, exclude, b.proxy([folder / p for p in paths]))
        for (type_, b), paths in parted
        if paths and b.the_rest
    ]
    return Survey(tuple(found), left >= 0, tuple(seen), tuple(hidden))


def _folders(
    type_: str, beginning: Beginning, paths: Collection[PurePosixPath], folder: Path
) -> Iterator[Found]:
    """The folders that hold these files: of each first folder the deepest that holds all of its own."""
    tops: dict[str, list[PurePosixPath]] = {}
    for path in paths:
        tops.setdefault(path.parts[0] if len(path.parts) > 1 else ".", []).append(path)
    homes = {_home(beginning, path) for path in paths}
    if "." in tops or PurePosixPath() in homes or len(tops) >= _MANY:
        tops = {".": list(paths)}
    for top, inside in sorted(tops.items()):
        common = "." if top == "." else os.path.commonpath([_home(beginning, p) for p in inside])
        yield Found(type_, str(common), beginning, proxy=beginning.proxy([folder / p for p in inside]))


def _home(beginning: Beginning, path: PurePosixPath) -> PurePosixPath:
    """The folder that a file stands for: of one that makes a project the one that holds its folder, of one in
    a role of Ansible the one that holds the roles: the inventory says what is put into its templates."""
    if beginning.in_projects and _ROLES in path.parts[:-2]:
        return PurePosixPath(*path.parts[: path.parts.index(_ROLES)])
    return path.parent.parent if beginning.in_projects and len(path.parts) > 2 else path.parent


def _glob(beginning: Beginning, path: PurePosixPath) -> str:
    """What is passed over of the rest since another source reads it: a project's file by its name wherever it
    lies, others by their folder and ending."""
    if beginning.in_projects:
        return _escaped(path.name)
    folder = "" if len(path.parts) == 1 else f"{_escaped(path.parent.as_posix())}/"
    return f"/{folder}{'*' + _escaped(path.suffix) if path.suffix else _escaped(path.name)}"


def _beneath(folder: str) -> str:
    """The beginning of a glob of what lies anywhere in a folder."""
    return "" if folder == "." else f"/{_escaped(folder)}/**/"


def _escaped(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)
