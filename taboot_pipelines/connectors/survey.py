"""Looks around beneath a folder for what a sources file may name: projects, proxy confs, documents."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from taboot_pipelines.connectors.compose import COMPOSE_NAME
from taboot_pipelines.connectors.walk import PRUNED

#: A tree with more entries is not looked through to its end.
MAX_ENTRIES = 200_000
#: Of a conf so much is read to see whether it is one of nginx.
_HEAD_BYTES = 64 * 1024
_NGINX = re.compile(rb"^\s*(proxy_pass|server_name|upstream|location)\b", re.MULTILINE)
_DOCUMENT = re.compile(r".+\.(md|markdown|rst|adoc)", re.IGNORECASE)
#: From so many folders on that each hold one, what holds them all is the source.
_MANY = 4


@dataclass(frozen=True)
class Found:
    """A folder that a source may be made of: ``path`` relative to where was looked, ``.`` for all of it;
    ``files`` of the type's kind lie beneath. ``ending``: of a folder of documents that of most of them."""

    type: str
    path: str
    files: int
    ending: str = ""


@dataclass(frozen=True)
class Survey:
    """What was found, and whether all of the tree was looked through."""

    found: tuple[Found, ...]
    whole: bool


def survey(folder: Path) -> Survey:
    """Look through what is beneath ``folder``; links are not followed, folders of tools are passed over."""
    kinds: dict[str, list[PurePosixPath]] = {"compose": [], "swag": [], "files": []}
    left = MAX_ENTRIES
    for directory, names, files in os.walk(folder):
        names[:] = sorted(n for n in names if n not in PRUNED and not n.startswith("."))
        left -= len(names) + len(files)
        if left < 0:
            break
        at = PurePosixPath(Path(directory).relative_to(folder).as_posix())
        for name in sorted(files):
            kind = _kind(Path(directory), name)
            if kind is not None:
                kinds[kind].append(at / name)
    return Survey(tuple(f for kind, paths in kinds.items() for f in _folders(kind, paths)), left >= 0)


def _kind(directory: Path, name: str) -> str | None:
    if COMPOSE_NAME.fullmatch(name):
        return "compose"
    if name.endswith(".conf"):
        try:
            with (directory / name).open("rb") as file:
                return "swag" if _NGINX.search(file.read(_HEAD_BYTES)) else None
        except OSError:
            return None
    return "files" if _DOCUMENT.fullmatch(name) else None


def _folders(kind: str, paths: Collection[PurePosixPath]) -> Iterator[Found]:
    """The folders that hold these files: of each first folder the deepest that holds all of its own."""
    tops: dict[str, list[PurePosixPath]] = {}
    # What says what the whole folder is makes no source of all of it.
    inner = [p for p in paths if len(p.parts) > 1 or p.stem.upper() != "README"]
    for path in inner or paths:
        tops.setdefault(path.parts[0] if len(path.parts) > 1 else ".", []).append(path)
    if "." in tops or len(tops) >= _MANY:
        tops = {".": list(paths)} if paths else {}
    for top, inside in sorted(tops.items()):
        common = PurePosixPath(".") if top == "." else _common([_home(kind, p) for p in inside])
        endings = [p.suffix.lower() for p in inside]
        ending = max(sorted(set(endings)), key=endings.count) if kind == "files" else ""
        yield Found(kind, str(common), len(inside), ending)


def _home(kind: str, path: PurePosixPath) -> PurePosixPath:
    """The folder that a file stands for: of a Compose file the one that holds its project's folder."""
    return path.parent.parent if kind == "compose" and len(path.parts) > 2 else path.parent


def _common(folders: Collection[PurePosixPath]) -> PurePosixPath:
    return PurePosixPath(os.path.commonpath([str(f) for f in folders]))
