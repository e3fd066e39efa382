"""Names of several words, of which the last is the thing and those before it say which: "the wiki db", "the
celery worker", "auth redis". Read as one name, so that patterns find it where they look for one.
"""

from __future__ import annotations

from dataclasses import replace

from taboot_pipelines.retrieval.answering.describing import description
from taboot_pipelines.retrieval.answering.house import House, Service
from taboot_pipelines.retrieval.answering.linking import Linked, Mention, joined
from taboot_pipelines.retrieval.answering.vocabulary import FILLER, LABELS
from taboot_pipelines.retrieval.answering.words import stem

#: Services of one name that are told apart.
_MAX_SERVICES = 200
#: Letters of a word that may be the beginning of a neighbour's name.
_MIN_BEGUN = 4


def compounded(house: House, linked: Linked) -> tuple[Mention, ...] | None:
    """The mentions of a question with such names as one mention each; None if it has none."""
    found: list[Mention] = []
    changed = False
    for mention in linked.mentions:
        before = found[-1] if found and found[-1].last == mention.first else None
        merged = _joined(house, linked, mention, before)
        if merged is not None:
            changed = True
            if before is not None:
                found.pop()
        found.append(merged or mention)
    return tuple(found) if changed else None


def _joined(house: House, linked: Linked, mention: Mention, before: Mention | None) -> Mention | None:
    services = {t.node: house.services[t.node] for t in mention.of("service")[:_MAX_SERVICES]}
    declared = [s for s in services.values() if s.declared]
    declared = [s for s in declared if s.own] or declared
    if not declared:
        return None
    if before is not None:
        first = before.first
        others = {t.node for t in before.of("service")}
        projects = {(house.services[n].place, house.services[n].project) for n in others}
        projects |= {(t.place, t.value) for t in before.of("project")}
        kept = [s for s in declared if s.number not in others and (s.place, s.project) in projects]
        if others.intersection(services) or len(kept) == len(services):
            return None  # two names for one thing, or two things in a row
    else:
        first = mention.first - 1
        word = linked.words[first] if first >= 0 else None
        if word is None or not word.text.isalpha() or word.text in FILLER or word.text in LABELS:
            return None
        if linked.text[word.end : linked.words[mention.first].start].strip():
            return None  # a comma or a bracket between them
        kept = [s for s in declared if _describes(house, word.text, s)]
    if not kept:
        return None
    numbers = {s.number for s in kept}
    things = [t for t in mention.of("service") if t.node in numbers]
    text = linked.text[linked.words[first].start : linked.words[mention.last - 1].end]
    return replace(mention, first=first, text=text, things=things, weak=False)


def _describes(house: House, word: str, service: Service) -> bool:
    """Whether a word stands in what declares a service, or begins the name of its project or of a service
    beside it."""
    if stem(word) in description(house, service):
        return True
    if len(word) < _MIN_BEGUN:
        return False
    beside = house.projects.get((service.place, service.project), ())[:_MAX_SERVICES]
    names = [service.project, *(house.services[n].name for n in beside if n != service.number)]
    return any(joined(n).startswith(word) for n in names)
