"""Scripts and playbooks that back up or restore: the name of the file says so, and so does its head comment.

What they are and how they are run is quoted from that comment; that they do it to a service, from the lines
that name it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from taboot_pipelines.retrieval.handbook.instructions import Names, is_object, says
from taboot_pipelines.retrieval.queries.service_index import Document, Service, ServiceIndex

#: What files are looked for: by what loses data when it is not found. Many scripts update or restart.
_ACTIONS = ("back up", "restore")
_SCRIPTS = frozenset({"text/x-shellscript", "text/x-python"})
#: A play: an item of a list with the machines that it is for.
_PLAY = re.compile(r"^(?:- |  )hosts:", re.MULTILINE)
_COMMENT, _BEFORE = re.compile(r"#(?!!)[ \t]?"), re.compile(r"#!|---\s*$|\s*$")
#: Lines of a head comment, and of those that name one service.
_HEAD, _NAMING = 40, 5

#: Lines of a file: the code point at which they begin, and what they say.
Lines = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Script:
    """``head``: its first comment; ``named``: by the services' numbers the lines that name them, none where
    the name of the file or its folder does."""

    document: Document
    actions: tuple[str, ...]
    head: Lines
    named: dict[int, list[Lines]]


def scripts(
    house: ServiceIndex,
    documents: Iterable[Document],
    names: Names,
    beside: Callable[[Document], Sequence[Service]],
) -> Iterator[Script]:
    """Those among ``documents``; ``beside``: the services that are declared in the folder of one."""
    for document in documents:
        file = PurePosixPath(document.path).name.partition(".")[0]
        told = tuple(a for a in says(_words(file)) if a in _ACTIONS)
        text = house.text(document.doc_id) if told else ""
        if not (document.mime in _SCRIPTS or text.startswith("#!") or _PLAY.search(text)):
            continue
        at, head = _head_of(text)
        actions = tuple(a for a in told if a in says(_words(head)))
        if not actions:
            continue
        named = _named(text, names)
        by_file = [s for services in names.of_heading(file).values() for s in services]
        for service in by_file or (() if named else beside(document)):
            named.setdefault(service.number, [])
        shown = "\n".join(_COMMENT.sub("", line, count=1).rstrip() for line in head.split("\n"))
        yield Script(document, actions, (at, shown), named)


def _words(text: str) -> str:
    return re.sub(r"[-_]", " ", text)


def _head_of(text: str) -> Lines:
    """The comment that a file begins with, after the line that says what runs it."""
    at, lines = 0, list[str]()
    for line in text.split("\n"):
        if _COMMENT.match(line):
            lines.append(line)
        elif lines or not _BEFORE.match(line):
            break
        else:
            at += len(line) + 1
    return at, "\n".join(lines[:_HEAD])


def _named(text: str, names: Names) -> dict[int, list[Lines]]:
    """The lines of code that name a service as what they are about."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for at, name, services in names.at(text):
        start = text.rfind("\n", 0, at) + 1
        line = text[start:].partition("\n")[0]
        if not _COMMENT.match(line.lstrip()) and is_object(name, line):
            for service in services:
                found[service.number][start] = line.strip()
    return {number: list(lines.items())[:_NAMING] for number, lines in found.items()}
