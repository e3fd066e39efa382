"""Looks around beneath a folder for what a sources file may name: projects, proxy confs, documents."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from taboot_pipelines.connectors.walk import PRUNED
from taboot_pipelines.sources.kind import Beginning, Stance
from taboot_pipelines.sources.registry import source_kinds

#: A tree with more entries is not looked through to its end.
MAX_ENTRIES = 200_000
#: From so many folders on that each hold one, what holds them all is the source.
_MANY = 4


@dataclass(frozen=True)
class Found:
    """A folder that a source may be made of: ``path`` relative to where was looked, ``.`` for all of it;
    ``files`` of the type's kind lie beneath. ``ending``: of a folder of documents that of most of them."""

    type: str
    path: str
    files: int
    beginning: Beginning
    ending: str = ""


@dataclass(frozen=True)
class Survey:
    """What was found, and whether all of the tree was looked through."""

    found: tuple[Found, ...]
    whole: bool


def survey(folder: Path) -> Survey:
    """Look through what is beneath ``folder``; links are not followed, folders of tools are passed over."""
    # What declares things comes first, and takes a file that documents might take too.
    kinds = sorted(source_kinds().values(), key=lambda kind: kind.stance is not Stance.DECLARES)
    beginnings = {kind.name: kind.beginning for kind in kinds if kind.beginning is not None}
    taken: dict[str, list[PurePosixPath]] = {type_: [] for type_ in beginnings}
    left = MAX_ENTRIES
    for directory, names, files in os.walk(folder):
        names[:] = sorted(n for n in names if n not in PRUNED and not n.startswith("."))
        left -= len(names) + len(files)
        if left < 0:
            break
        at = PurePosixPath(Path(directory).relative_to(folder).as_posix())
        for name in sorted(files):
            type_ = next((t for t, b in beginnings.items() if b.takes(Path(directory, name))), None)
            if type_ is not None:
                taken[type_].append(at / name)
    found = (f for type_, paths in taken.items() for f in _folders(type_, beginnings[type_], paths))
    return Survey(tuple(found), left >= 0)


def _folders(type_: str, beginning: Beginning, paths: Collection[PurePosixPath]) -> Iterator[Found]:
    """The folders that hold these files: of each first folder the deepest that holds all of its own."""
    tops: dict[str, list[PurePosixPath]] = {}
    # What says what the whole folder is makes no source of all of it.
    inner = [p for p in paths if len(p.parts) > 1 or p.stem.upper() != "README"]
    for path in inner or paths:
        tops.setdefault(path.parts[0] if len(path.parts) > 1 else ".", []).append(path)
    if "." in tops or len(tops) >= _MANY:
        tops = {".": list(paths)} if paths else {}
    for top, inside in sorted(tops.items()):
        common = PurePosixPath(".") if top == "." else _common([_home(beginning, p) for p in inside])
        endings = [p.suffix.lower() for p in inside]
        ending = max(sorted(set(endings)), key=endings.count) if beginning.by_ending else ""
        yield Found(type_, str(common), len(inside), beginning, ending)


def _home(beginning: Beginning, path: PurePosixPath) -> PurePosixPath:
    """The folder that a file stands for: of one that makes a project the one that holds its folder."""
    return path.parent.parent if beginning.in_projects and len(path.parts) > 2 else path.parent


def _common(folders: Collection[PurePosixPath]) -> PurePosixPath:
    return PurePosixPath(os.path.commonpath([str(f) for f in folders]))
