"""The words that tell one service from another beside its name, where they stand in its declaration:
what it runs, what it is built from, and what a comment calls it ("the celery worker").
"""

from __future__ import annotations

import re
from dataclasses import replace

from taboot_pipelines.model.stores import DATABASES
from taboot_pipelines.retrieval.answering.entity_linking import Linked, Mention, Thing, joined
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.answering.vocabulary import FILLER, LABELS
from taboot_pipelines.retrieval.answering.words import stem
from taboot_pipelines.retrieval.queries.citations import MAX_SCOPES
from taboot_pipelines.retrieval.queries.service_index import Service, ServiceIndex

_WORDS = re.compile(r"[a-z]{3,}")
_SAYING = re.compile(
    r"^\s*-?\s*(?:(?:image|command|entrypoint|container_name|hostname|context|dockerfile|build)\s*:|#)(.*)$"
)
#: The flags of a command say what it is set to, not what it is.
_FLAGS = re.compile(r"(?<![\w-])-.*")
_COMMENT = re.compile(r"(?:^|\s)#(.*)$")
#: Lines of a declaration that are read, and of comments above it.
_MAX_LINES, _MAX_ABOVE = 80, 3


def description(house: ServiceIndex, service: Service) -> frozenset[str]:
    """The stems of the words that describe a service in the files that declare it."""
    known = house.descriptions.get((service.name, str(service.number)))
    if known is None:
        said = [house.name(e.end) for e in house.out(service.number, "BUILDS")[:2]]
        known = _stems(said).union(
            *(describe(house, d, service.name) for d in house.declaring(service)[:3] if service.declared)
        )
        house.descriptions[service.name, str(service.number)] = known
    return known


def describe(house: ServiceIndex, doc_id: str, name: str) -> frozenset[str]:
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
        keyed = False
        for inside in lines[at + 1 : at + _MAX_LINES]:
            text = inside.strip()
            if text and len(inside) - len(inside.lstrip()) <= depth:
                break
            # A comment between two keys is about the next of them.
            saying = None if keyed and text.startswith("#") else _SAYING.match(inside)
            said += [_FLAGS.sub("", saying[1])] if saying else []
            keyed |= bool(text) and not text.startswith("#")
        comment = _COMMENT.search(line)
        return said + ([comment[1]] if comment else [])
    return []


# --- Which services and other things the names in a question mean, narrowed by each other


class ResolvedMentions:
    """The services and other things that the mentions of one reading mean, narrowed by each other."""

    def __init__(self, house: ServiceIndex, question: Question) -> None:
        self.house = house
        self.question = question

    @property
    def mentions(self) -> tuple[Mention, ...]:
        return self.question.mentions

    def words(self, *mentions: Mention) -> set[int]:
        return {i for m in mentions for i in (*range(m.first, m.last), *m.label_at)}

    def projects(self, mention: Mention) -> set[tuple[str, str]]:
        """The projects that a mention names: by their name, their folder or their file."""
        found = {(t.place, t.value) for t in mention.of("project")}
        documents = {t.value for t in mention.of("file")}
        if documents and not found:
            found = {
                key
                for key, services in self.house.projects.items()
                if documents & set(self.house.declaring(self.house.services[services[0]]))
            }
        return found

    def hosts(self, mention: Mention) -> set[str]:
        return {self.house.name(t.node) for t in mention.of("host")}

    def _inside(self, services: list[Service], mention: Mention) -> list[Service]:
        """Those of ``services`` that lie in a project, on a host or beneath a folder that a mention names."""
        projects, hosts = self.projects(mention), self.hosts(mention)
        found = [s for s in services if (s.place, s.project) in projects or s.place in hosts]
        folders = {(t.place, t.value) for t in mention.of("folder")} if not found else set()
        return [s for s in services if self._is_beneath(s, folders)] if folders else found

    def _is_beneath(self, service: Service, folders: set[tuple[str, str]]) -> bool:
        """Whether the files that declare a service lie beneath one of some folders, of (source, path)."""
        documents = [self.house.documents[d] for d in self.house.declaring(service)] if folders else []
        return any(
            d.source == source and d.path.startswith(f"{path}/")
            for d in documents
            for source, path in folders
        )

    def declared(self) -> tuple[list[Service], set[int]]:
        """The declared services of the projects and hosts that are named, else the house's own; and the words
        that name these."""
        services = [s for s in self.house.services.values() if s.declared]
        used: set[int] = set()
        for mention in self.mentions:
            kept = self._inside(services, mention)
            if kept:
                services, used = kept, used | self.words(mention)
        if not used:
            services = [s for s in services if s.own] or services
        return services, used

    def scope(self, services: list[Service], besides: Mention) -> tuple[list[Service], set[int]]:
        """Those of ``services`` that lie in what the other mentions name, and the words of those mentions."""
        used: set[int] = set()
        for other in self.mentions:
            if other is besides:
                continue
            kept = self._inside(services, other)
            if kept and (len(kept) < len(services) or not other.of("service")):
                services, used = kept, used | self.words(other)
        if len(services) > 1:
            for other in self.mentions:
                # Any database is no particular thing that others lie near.
                generic = other.last - other.first == 1 and other.first in self.question.stores
                if other is besides or generic or not other.of("service"):
                    continue
                near = {(s.place, s.project) for s in self._best(other) if s.declared}
                kept = [s for s in services if (s.place, s.project) in near]
                if kept and len(kept) < len(services):
                    services, used = kept, used | self.words(other)
        return services, used

    def _best(self, mention: Mention) -> list[Service]:
        held = [(self.house.services[t.node], t) for t in mention.of("service")]
        if not held:
            return []
        rank = min(map(_rank, held))
        return list({s.number: s for s, t in held if _rank((s, t)) == rank}.values())

    def services(self, mention: Mention) -> tuple[list[Service], set[int]]:
        """The services that a mention means, and the words that said so: the house's own before others,
        declared ones before bare names, their names before other names for them."""
        held = [(self.house.services[t.node], t) for t in mention.of("service")]
        if not held:
            return [], set()
        every = list({s.number: s for s, _ in held}.values())
        scoped, used = self.scope(every, mention)
        inside = {s.number for s in scoped}
        held = [h for h in held if h[0].number in inside]
        rank = min(map(_rank, held))
        best = list({s.number: s for s, t in held if _rank((s, t)) == rank}.values())
        if mention.label == "database":
            best = self.databases(best)
        best, said = self._described([p for s in best for p in self.house.parts_of(s)], mention)
        return best, used | self.words(mention) | said

    def databases(self, services: list[Service]) -> list[Service]:
        """The databases among services that are called so; where none is one, those of their projects: the
        database of librenms is what its project runs as one."""
        word = stem("database")
        if any(word in description(self.house, s) for s in services):
            return services
        projects = {(s.place, s.project) for s in services if s.declared}
        beside = [self.house.services[n] for p in sorted(projects) for n in self.house.projects.get(p, ())]
        return [s for s in beside[:_MAX_SERVICES] if word in description(self.house, s)] or services

    def _described(self, services: list[Service], mention: Mention) -> tuple[list[Service], set[int]]:
        """Those of ``services`` that the words beside their name describe, and those words: the celery
        worker."""
        beside = self._beside(mention)
        if not beside or len(services) > MAX_SCOPES:
            return services, set()
        said = {
            s.number: {i for i, word in beside.items() if word in description(self.house, s)}
            for s in services
        }
        most = max(map(len, said.values()))
        kept = [s for s in services if len(said[s.number]) == most]
        return (kept, set().union(*(said[s.number] for s in kept))) if most else (services, set())

    def _beside(self, mention: Mention) -> dict[int, str]:
        """The stems of the words right before a name, up to two, and of the one behind it, that are no names
        themselves and mean something, by their numbers."""
        words, named = self.question.linked.words, self.question.named
        found = {}
        for numbers in ((mention.first - 1, mention.first - 2), (mention.last,)):
            for i in numbers:
                word = words[i].text if 0 <= i < len(words) else ""
                if not word.isalpha() or i in named or word in FILLER or word in LABELS:
                    break
                found[i] = stem(word)
        return found

    def nodes(self, mention: Mention, kind: str) -> list[Thing]:
        """The networks, images, hosts or proxies of a mention, narrowed by the projects of the others; the
        house's own first."""
        things = list({t.node: t for t in mention.of(kind)}.values())
        for other in self.mentions:
            if other is not mention:
                names = {p for _, p in self.projects(other)}
                kept = [t for t in things if any(t.value.startswith(f"{p}_") for p in names)]
                things = kept or things
        own = [t for t in things if self.house.key(t.node).split("/")[0] in self._hosts]
        return own or things

    @property
    def _hosts(self) -> set[str]:
        return {s.place for s in self.house.services.values() if s.own}


def _rank(held: tuple[Service, Thing]) -> tuple[int, int]:
    service, thing = held
    return (0 if service.own else 1 if service.declared else 2, {"alias": 1, "typo": 2}.get(thing.how, 0))


def subject_of(scoped: ResolvedMentions) -> tuple[Mention, list[Service], set[int]] | None:
    """The mention whose services a question is about, those services, and the words that say which: a mention
    that others narrow before one that narrows, the one called a service before others, else the first."""
    held = [(m, *scoped.services(m)) for m in scoped.mentions]
    held = [h for h in held if h[1]]
    if not held:
        return _of_project(scoped)
    return max(held, key=lambda h: (_precise(h[0]), len(h[2]) - (h[0].last - h[0].first), -h[0].first))


def _of_project(scoped: ResolvedMentions) -> tuple[Mention, list[Service], set[int]] | None:
    """The few services of the one project that a question names instead of a service."""
    for mention in scoped.mentions:
        projects = scoped.projects(mention)
        services = [
            scoped.house.services[n] for p in sorted(projects) for n in scoped.house.projects.get(p, ())
        ]
        if len(projects) == 1 and 0 < len(services) <= MAX_SCOPES:
            return mention, services, scoped.words(mention)
    return None


def _precise(mention: Mention) -> int:
    """How surely a mention is a service rather than a project or a network: the subject is the surest."""
    services = mention.of("service")
    if not services:
        return 0
    return 2 if mention.label in ("service", "container", "services", "containers", "database") else 1


# --- Names of several words, of which the last is the thing and those before it say which: "the wiki db",
#     "the celery worker", "auth redis". Read as one name, so that patterns find it where they look for one

#: Services of one name that are told apart.
_MAX_SERVICES = 200
#: Letters of a word that may be the beginning of a neighbour's name.
_MIN_BEGUN = 4


def compounded(house: ServiceIndex, linked: Linked) -> tuple[Mention, ...] | None:
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


def _joined(house: ServiceIndex, linked: Linked, mention: Mention, before: Mention | None) -> Mention | None:
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
        in_project = bool(before.of("project"))
        if not in_project and (others.intersection(services) or len(kept) == len(services)):
            return None  # two names for one thing, or two things in a row
        # What a project runs is called after it as well: the prefect worker.
        kept = [s for s in declared if s.number in others] or kept
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


def _describes(house: ServiceIndex, word: str, service: Service) -> bool:
    """Whether a word stands in what declares a service, or begins the name of its project or of a service
    beside it."""
    if stem(word) in description(house, service):
        return True
    if len(word) < _MIN_BEGUN:
        return False
    beside = house.projects.get((service.place, service.project), ())[:_MAX_SERVICES]
    names = [service.project, *(house.services[n].name for n in beside if n != service.number)]
    return any(joined(n).startswith(word) for n in names)
