"""The words that tell one service from another beside its name, where they stand in its declaration:
what it runs, what it is built from, and what a comment calls it ("the celery worker").
"""

from __future__ import annotations

import re

from taboot_pipelines.retrieval.answering.house import House, Service
from taboot_pipelines.retrieval.answering.vocabulary import DATABASES
from taboot_pipelines.retrieval.answering.words import stem

_WORDS = re.compile(r"[a-z]{3,}")
_SAYING = re.compile(
    r"^\s*-?\s*(?:(?:image|command|entrypoint|container_name|hostname|context|dockerfile|build)\s*:|#)(.*)$"
)
#: The flags of a command say what it is set to, not what it is.
_FLAGS = re.compile(r"(?<![\w-])-.*")
_COMMENT = re.compile(r"(?:^|\s)#(.*)$")
#: Lines of a declaration that are read, and of comments above it.
_MAX_LINES, _MAX_ABOVE = 80, 3


def description(house: House, service: Service) -> frozenset[str]:
    """The stems of the words that describe a service in the files that declare it."""
    known = house.descriptions.get((service.name, str(service.number)))
    if known is None:
        said = [house.name(e.end) for e in house.out(service.number, "BUILDS")[:2]]
        known = _stems(said).union(
            *(describe(house, d, service.name) for d in house.declaring(service)[:3] if service.declared)
        )
        house.descriptions[service.name, str(service.number)] = known
    return known


def describe(house: House, doc_id: str, name: str) -> frozenset[str]:
    """The stems of the words that describe a service in one file that declares it."""
    known = house.descriptions.get((doc_id, name))
    if known is None:
        known = house.descriptions[doc_id, name] = _stems(_said_of(name, house.text(doc_id).split("\n")))
    return known


def _stems(said: list[str]) -> frozenset[str]:
    words = _WORDS.findall(" ".join(said).lower())
    called = ["database"] if DATABASES.intersection(words) else []
    return frozenset(map(stem, [*words, *called]))


def _said_of(name: str, lines: list[str]) -> list[str]:
    key = re.compile(rf"( +)[\"']?{re.escape(name)}[\"']?\s*:")
    for at, line in enumerate(lines):
        begun = key.match(line)
        if begun is None:
            continue
        depth, said = len(begun[1]), []
        for above in reversed(lines[max(at - _MAX_ABOVE, 0) : at]):
            if not above.lstrip().startswith("#"):
                break
            said.append(above)
        for inside in lines[at + 1 : at + _MAX_LINES]:
            if inside.strip() and len(inside) - len(inside.lstrip()) <= depth:
                break
            saying = _SAYING.match(inside)
            said += [_FLAGS.sub("", saying[1])] if saying else []
        comment = _COMMENT.search(line)
        return said + ([comment[1]] if comment else [])
    return []
