"""Which services and other things the names in a question mean, narrowed by each other."""

from __future__ import annotations

from taboot_pipelines.retrieval.answering.describing import description
from taboot_pipelines.retrieval.answering.house import House, Service
from taboot_pipelines.retrieval.answering.linking import Mention, Thing
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.answering.statements import MAX_SCOPES
from taboot_pipelines.retrieval.answering.vocabulary import FILLER, LABELS
from taboot_pipelines.retrieval.answering.words import stem


class Scoped:
    """The services and other things that the mentions of one reading mean, narrowed by each other."""

    def __init__(self, house: House, question: Question) -> None:
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
        """Those of ``services`` that lie in a project or on a host that a mention names."""
        projects, hosts = self.projects(mention), self.hosts(mention)
        return [s for s in services if (s.place, s.project) in projects or s.place in hosts]

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
                if other is besides or not other.of("service"):
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
        best, said = self._described(best, mention)
        return best, used | self.words(mention) | said

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


def subject_of(scoped: Scoped) -> tuple[Mention, list[Service], set[int]] | None:
    """The mention whose services a question is about, those services, and the words that say which: a mention
    that others narrow before one that narrows, the one called a service before others, else the first."""
    held = [(m, *scoped.services(m)) for m in scoped.mentions]
    held = [h for h in held if h[1]]
    if not held:
        return _of_project(scoped)
    return max(held, key=lambda h: (_precise(h[0]), len(h[2]) - (h[0].last - h[0].first), -h[0].first))


def _of_project(scoped: Scoped) -> tuple[Mention, list[Service], set[int]] | None:
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
