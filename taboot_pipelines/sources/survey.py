"""Looks around beneath a folder for what a sources file may name: projects, proxy confs, documents."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
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
    """A folder that a source may be made of: ``path`` relative to where was looked, ``.`` for all of it.
    ``include`` and ``exclude``: globs of what is read of it, empty where the type says so; ``proxy``: the
    reverse proxy that its files are of."""

    type: str
    path: str
    beginning: Beginning
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    proxy: str | None = None


@dataclass(frozen=True)
class Survey:
    """What was found, and whether all of the tree was looked through."""

    found: tuple[Found, ...]
    whole: bool


def survey(folder: Path) -> Survey:
    """Look through what is beneath ``folder``; links are not followed, folders of tools are passed over."""
    # What declares things comes first, and takes a file that documents might take too.
    kinds = sorted(source_kinds().values(), key=lambda kind: kind.stance is not Stance.DECLARES)
    beginnings = [(kind.name, beginning) for kind in kinds for beginning in kind.beginnings]
    taken: list[list[PurePosixPath]] = [[] for _ in beginnings]
    hidden: list[PurePosixPath] = []
    left = MAX_ENTRIES
    for directory, names, files in os.walk(folder):
        at = PurePosixPath(Path(directory).relative_to(folder).as_posix())
        hidden += [at / n for n in names if n.startswith(".") and n not in PRUNED]
        names[:] = sorted(n for n in names if n not in PRUNED and not n.startswith("."))
        left -= len(names) + len(files)
        if left < 0:
            break
        for name in sorted(files):
            number = next((n for n, (_, b) in enumerate(beginnings) if b.takes(Path(directory, name))), None)
            if number is not None:
                taken[number].append(at / name)
    found = [
        replace(f, exclude=tuple(sorted({f"{h.name}/" for h in hidden if h.is_relative_to(f.path)})))
        for (type_, beginning), paths in zip(beginnings, taken, strict=True)
        for f in _folders(type_, beginning, paths, folder)
    ]
    return Survey(tuple(found), left >= 0)


def _folders(
    type_: str, beginning: Beginning, paths: Collection[PurePosixPath], folder: Path
) -> Iterator[Found]:
    """The folders that hold these files: of each first folder the deepest that holds all of its own."""
    tops: dict[str, list[PurePosixPath]] = {}
    # What says what the whole folder is makes no source of all of it, but one of its own.
    inner = [p for p in paths if len(p.parts) > 1 or p.stem.upper() != "README"]
    for path in inner or paths:
        tops.setdefault(path.parts[0] if len(path.parts) > 1 else ".", []).append(path)
    if "." in tops or len(tops) >= _MANY:
        tops = {".": list(paths)} if paths else {}
    elif beginning.by_ending and (readme := [p for p in paths if p not in inner]):
        yield Found(type_, ".", beginning, tuple(f"/{p}" for p in readme))
    for top, inside in sorted(tops.items()):
        common = PurePosixPath(".") if top == "." else _common([_home(beginning, p) for p in inside])
        proxy = beginning.proxy([folder / p for p in inside])
        yield Found(type_, str(common), beginning, tuple(_include(beginning, inside)), proxy=proxy)


def _include(beginning: Beginning, paths: Collection[PurePosixPath]) -> Iterator[str]:
    """The globs of what is read of a folder in which these files were found."""
    if beginning.by_ending:
        endings = [p.suffix.lower() for p in paths]
        yield f"**/*{max(sorted(set(endings)), key=endings.count)}"
    elif beginning.by_name:
        yield from sorted(
            {
                f"**/*{''.join(PurePosixPath(p.parent.name).suffixes[-2:])}/*{p.suffix}"
                if p.parent.suffix == ".d"
                else f"**/*{p.suffix}"
                if p.suffix
                else f"**/{p.name}"
                for p in paths
            }
        )


def _home(beginning: Beginning, path: PurePosixPath) -> PurePosixPath:
    """The folder that a file stands for: of one that makes a project the one that holds its folder."""
    return path.parent.parent if beginning.in_projects and len(path.parts) > 2 else path.parent


def _common(folders: Collection[PurePosixPath]) -> PurePosixPath:
    return PurePosixPath(os.path.commonpath([str(f) for f in folders]))
