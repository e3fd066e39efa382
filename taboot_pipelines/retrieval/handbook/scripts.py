"""Scripts and playbooks that back up or restore: the name of the file says so, and so does its head comment.

What they are and how they are run is quoted from that comment. A script is of the services that its name
says, else of those that are declared where it lies, and of what its commands name: not of what it only prints
or remarks on.
"""

from __future__ import annotations

import re
from bisect import bisect_right
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
#: Of a script what is no command: comments, what is printed, and the text that is given to what prints it
#: (POSIX, Shell Command Language, 2.3 and 2.7.4). Quotes go on over lines.
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
_NO_COMMAND = re.compile(
    rf"(?:^|(?<=\s))#.*?$"
    rf"|(?<![\w.$/-])(?:echo|printf|print|read)\b(?:[ \t(]+(?:{_QUOTED}|[^\s;|&\"'])+)*"
    rf"|(?<![\w.$/-])(?:cat|tee)\b[^\n]{{0,400}}?<<-?[ \t]*([\"']?)(?P<end>\w+)\1",
    re.MULTILINE | re.DOTALL,
)
#: A line that only sets a variable, and not to what a command says.
_SET = re.compile(
    r"^\s*(?:(?:export|local|readonly) +)?(\w+)="
    r"([\"'])?((?(2)(?:(?!\2|\$\(|`).)*|[^\s\"'`(;&|]*))(?(2)\2)\s*$",
    re.MULTILINE,
)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")

#: Lines of a file: the code point at which they begin, and what they say.
Lines = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Script:
    """``head``: its first comment; ``named``: by the services' numbers the lines that name them, none where
    the name of the file or its folder does; ``beside``: whether it is the folder."""

    document: Document
    actions: tuple[str, ...]
    head: Lines
    named: dict[int, list[Lines]]
    beside: bool


def scripts(
    house: ServiceIndex,
    documents: Iterable[Document],
    names: Names,
    beside: Callable[[Document], Sequence[Service]],
) -> Iterator[Script]:
    """Those among ``documents``; ``beside``: the services that are declared in the folder of one."""
    for document in documents:
        file = PurePosixPath(document.path).name.partition(".")[0]
        told = tuple(a for a in says(words(file)) if a in _ACTIONS)
        text = house.text(document.doc_id) if told else ""
        if not (document.mime in _SCRIPTS or text.startswith("#!") or _PLAY.search(text)):
            continue
        at, head = _head_of(text)
        actions = tuple(a for a in told if a in says(words(head)))
        if not actions:
            continue
        near = beside(document)
        by_file = [s for found in names.of_heading(file).values() for s in _one_of(found, near)]
        named = {s.number: list[Lines]() for s in by_file or near}
        for number, lines in _named(text, names, near).items():
            named.setdefault(number, lines)
        shown = "\n".join(_COMMENT.sub("", line, count=1).rstrip() for line in head.split("\n"))
        yield Script(document, actions, (at, shown.rstrip()), named, not by_file)


def words(text: str) -> str:
    """A name as words."""
    return re.sub(r"[-_]", " ", text)


def _head_of(text: str) -> Lines:
    """The comment that a file begins with, after the line that says what runs it, from its first words on."""
    at, lines = 0, list[str]()
    for line in text.split("\n"):
        if _COMMENT.match(line) and (lines or _COMMENT.sub("", line, count=1).strip()):
            lines.append(line)
        elif lines or not (_BEFORE.match(line) or _COMMENT.match(line)):
            break
        else:
            at += len(line) + 1
    return at, "\n".join(lines[:_HEAD])


def _commands(text: str) -> str:
    """The text with blanks for what is no command. Where a given text ends is looked up by its line, since a
    file may begin any number of them that end nowhere."""
    ends: dict[str, list[int]] = defaultdict(list)
    at = 0
    for line in text.split("\n"):
        at += len(line)
        ends[line.lstrip()].append(at)
        at += 1
    parts, done, start = list[str](), 0, 0
    while (match := _NO_COMMAND.search(text, start)) is not None:
        end = match.end()
        if match["end"] is not None:
            held = ends.get(match["end"], [])
            number = bisect_right(held, end)
            if number == len(held):
                start = match.start() + 1
                continue
            end = held[number]
        parts += (text[done : match.start()], re.sub(r"[^\n]", " ", text[match.start() : end]))
        done = start = end
    return "".join([*parts, text[done:]])


def _one_of(found: Sequence[Service], near: Sequence[Service]) -> Sequence[Service]:
    """Whom a name means: who is declared where the script lies, else the only one who is called so."""
    here = [s for s in found if s in near]
    return here or (found if len(found) == 1 else ())


def _named(text: str, names: Names, near: Sequence[Service]) -> dict[int, list[Lines]]:
    """The lines of commands that name a service as what they are about, by itself or by a variable."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    values = {name: value for name, _, value in _SET.findall(text) if not re.search(r"\s", value)}
    commands = _commands(text)
    start = 0
    for line, bare in zip(text.split("\n"), commands.split("\n"), strict=True):
        if _SET.match(bare) is None:
            called = _VARIABLE.sub(lambda m: values.get(m[1] or m[2], m[0]), bare)
            for _, name, services in names.at(called):
                for service in _one_of(services, near) if is_object(name, called) else ():
                    if service in near or not names.is_software(name, services):
                        found[service.number][start] = line.strip()
        start += len(line) + 1
    return {number: list(lines.items())[:_NAMING] for number, lines in found.items()}
