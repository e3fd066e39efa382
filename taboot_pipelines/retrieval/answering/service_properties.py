"""Which services have a property of their declaration, or lack it, and whether one has it: host networking, a
device, a health check, a mount below a path.

A property is more than its key: the value asked for is compared with the value that is set, and what is not
set is said only of services whose declarations are known whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from taboot_pipelines.retrieval.answering.config import Config
from taboot_pipelines.retrieval.answering.config_values import WORDS
from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions, subject_of
from taboot_pipelines.retrieval.answering.fact_base import FactKind, over
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.answering.vocabulary import PROPERTIES, Property
from taboot_pipelines.retrieval.queries.citations import MAX_CITED, CitedStatement, Found, listed, plural
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry
from taboot_pipelines.retrieval.queries.service_index import Service, ServiceIndex

#: Services whose values a listing looks at.
_MAX_LISTED = 400
#: Services that are named where it suffices to say how many.
_FEW = 3
#: Values by which a property is declared not to be there.
_NONE = re.compile(r"(?:no|none|false|off|disabled|0)?$", re.IGNORECASE)
#: Keys of Compose of which that is a value like others: no network is a mode of it.
_MODES = ("network_mode", "ipc")
#: By what a device is one that draws.
_GPU = re.compile(r"/dev/(?:dri|kfd|nvidia)|nvidia|gpu", re.IGNORECASE)
_NOUNS = frozenset({"list", "image", "images"})
_WRITING = re.compile(r"\b(?:writes?|written|writing|saves?|stores?)\b")
_MOUNTING = re.compile(
    r"\b(?:(?:bind )?(?:mounts?|mounted|mounting|binds?)(?: something| anything)?(?: from| under| below)?"
    r"|(?:writes?|saves?|stores?|reads?|access(?:es)?|uses?)(?: something| anything)?(?: to| from| in)?"
    r"|shar(?:es?|ed|ing)|volumes?|attach(?:es|ed)?)\b"
)


class ServiceProperties(FactKind):
    """The services that have a property, over one house."""

    def __init__(self, house: ServiceIndex, config: Config) -> None:
        super().__init__(house)
        self._config = config

    def find(self, scoped: ResolvedMentions) -> Found | None:
        """The services that have what is asked for, or whether one has it; None if nothing says so."""
        question = scoped.question
        if question.yes_no and not question.lower.startswith(("is anything", "does anything")):
            return self._has(scoped)
        named = [m for m in scoped.mentions if m.of("service")]
        services, used = scoped.declared()
        if len(services) > _MAX_LISTED:
            return None
        # Who else mounts it; what of a service is asked else is no list of others.
        users = {s.number for m in named for s in scoped.services(m)[0]}
        others = [s for s in services if s.number not in users]
        mounting = self._mounting(question, others, used | scoped.words(*named))
        if mounting is not None or named or question.paths or not question.reading.lists:
            return mounting
        return self._having(question, services, used)

    def asks(self, question: Question) -> bool:
        """Whether a question asks for services by a property, which its words alone would not decide."""
        reading = question.reading
        named = not reading.lists_services and any(m.of("service") for m in question.mentions)
        asked = asked_property(question)
        if asked is None or named or not reading.lists:
            return False
        # A further word may be a value that some of them have.
        return question.negated or (reading.lists_services and not question.unexplained(asked[1]))

    @staticmethod
    def _is_switch(question: Question, of: Property) -> bool:
        """Whether a question asks which services are so, by a switch that a declaration sets or not."""
        return question.reading.lists_services and of.phrase.startswith("~")

    def _having(self, question: Question, services: Sequence[Service], used: set[int]) -> Found | None:
        asked = asked_property(question)
        if asked is None:
            return None
        of, words = asked
        left = question.unexplained(used | words)
        wanted = [i for i in left if question.linked.words[i].text not in _NOUNS]
        # A word that fills a sentence may be what one is set to: host.
        set_to = {p.value.value.lower() for s in services for p in self._values(s, of, question, ())}
        known = {*words, *used, *wanted, *question.named}
        wanted += [i for i, w in enumerate(question.linked.words) if i not in known and w.text in set_to]
        held = {s.number: self._values(s, of, question, wanted) for s in services}
        having = [s for s in services if held[s.number]]
        explained = used | words | set(wanted)
        none = services and not (having or question.negated or wanted) and self._is_switch(question, of)
        if none and all(map(self._config.whole, services)):
            text = f"None: {plural(len(services), 'service')} {_lacks(of, len(services))}."
            return Found([CitedStatement(text, self.declarations(services))], explained, looked_for=of.phrase)
        if not having or (question.negated and wanted):
            return None
        places = [p.cite for s in having for p in held[s.number][:2]][:MAX_CITED]
        if not question.negated:
            shown: dict[str, list[Service]] = {}
            for service in having:
                shown.setdefault(_shown(of, held[service.number]), []).append(service)
            count = f"{plural(len(having), 'service')}{over(having)}: "
            text = "; ".join(f"{self._all(g)} {_has(of, len(g))}{value}" for value, g in shown.items())
            text = f"{count if question.counts or over(having) else ''}{text}."
            return Found([CitedStatement(text, places)], explained, looked_for=of.phrase)
        # Of those without it the ones of which all is known lack it.
        others = [s for s in services if not held[s.number]]
        lacking = [s for s in others if self._config.whole(s)]
        unknown = [s for s in others if s not in lacking]
        if lacking:
            count = f"{plural(len(lacking), 'service')}{over(lacking)}: "
            count = count if question.counts or over(lacking) else ""
            said = [
                CitedStatement(
                    f"{count}{self._all(lacking)} {_lacks(of, len(lacking))}.", self.declarations(lacking)
                )
            ]
        elif unknown:
            return None  # whether there is one is not known
        else:
            names = self._all(having) if len(having) <= _FEW else plural(len(having), "service")
            said = [CitedStatement(f"None: {names} {_has(of, len(having))}.", places)]
        if unknown:
            verb = "are" if len(unknown) > 1 else "is"
            text = f"Not all that {self._all(unknown)} {verb} declared with is known."
            said.append(CitedStatement(text, self.declarations(unknown)))
        return Found(said, explained, looked_for=of.phrase)

    def _all(self, services: Sequence[Service]) -> str:
        return listed(self.names(services), len(services))

    def _values(
        self, service: Service, of: Property, question: Question, wanted: Sequence[int]
    ) -> list[ConfigEntry]:
        """The values by which a service has a property, of those that hold all words asked for."""
        found: dict[tuple[str, ...], ConfigEntry] = {}
        for placed in self._config.of_service(service):
            value = placed.value.value.strip()
            if not any(placed.ends_in(k) for k in of.keys):
                continue
            if _NONE.match(value) and not any(placed.ends_in(k) for k in _MODES):
                continue
            if of.phrase == "GPU" and not _GPU.search(value):
                continue
            said = set(WORDS.findall(value.lower()))
            if all(question.linked.words[i].text in said for i in wanted):
                found.setdefault((*placed.value.path, value), placed)
        return list(found.values())

    def _has(self, scoped: ResolvedMentions) -> Found | None:
        """Whether one service has a property."""
        subject, asked = subject_of(scoped), asked_property(scoped.question)
        if subject is None or asked is None or scoped.question.negated:
            return None
        of, words = asked
        _, services, used = subject
        left = scoped.question.unexplained(used | words)
        if left or len(services) != 1 or not services[0].declared:
            return None
        called, values = self.called(services[0]), self._values(services[0], of, scoped.question, ())
        if values:
            text = f"Yes: {called} {_has(of, 1)}{_shown(of, values)}."
            return Found([CitedStatement(text, [p.cite for p in values])], used | words, looked_for=of.phrase)
        off = [p for p in self._config.of_service(services[0]) if any(p.ends_in(k) for k in of.keys)]
        if off:
            text = f"No: {called} sets {off[0].value.key} to {off[0].value.value.strip()}."
            return Found([CitedStatement(text, [off[0].cite])], used | words, looked_for=of.phrase)
        if not self._config.whole(services[0]):
            return None
        said = CitedStatement(f"No: {called} {_lacks(of, 1)}.", self.declaration(services))
        return Found([said], used | words, looked_for=of.phrase)

    def _mounting(self, question: Question, services: Sequence[Service], used: set[int]) -> Found | None:
        """The services that mount what lies at or below a path of this machine, or a volume that is named."""
        asking = question.words_matching(_MOUNTING)
        if not asking or question.negated:
            return None
        hits: list[tuple[Service, str, ConfigEntry]] = []
        writes = bool(question.paths) and _WRITING.search(question.lower)
        for service in services:
            for placed in self._config.of_service(service):
                source, colon, rest = placed.value.value.partition(":")
                reads = rest.rpartition(":")[2].startswith("ro") and writes
                if placed.value.path[2] == "volumes" and colon and ", " not in source and not reads:
                    hits.append((service, source, placed))
        if question.paths:
            words = {i for p in question.paths for i in question.literals.get(p, ())}
            hits = [
                h
                for h in hits
                if any(f"{h[1].lower()}/".startswith(f"{p.rstrip('/')}/") for p in question.paths)
            ]
        else:
            words, hits = self._named_volume(question, hits)
            asking |= {i for i, w in enumerate(question.linked.words) if w.text in ("both", "same", "volume")}
            if question.unexplained(used | asking | words):
                return None
        if not hits:
            return None
        of = {s.number: s for s, *_ in hits}
        text = listed(
            [
                f"{name} mounts {listed([src for s, src, _ in hits if s.number == number])}"
                for number, name in zip(of, self.names(list(of.values())), strict=True)
            ]
        )
        count = f"{plural(len(of), 'service')}: " if question.counts else ""
        cited = [p.cite for *_, p in hits][:MAX_CITED]
        return Found([CitedStatement(f"{count}{text}.", cited)], used | asking | words, looked_for="mounts")

    @staticmethod
    def _named_volume(
        question: Question, hits: Sequence[tuple[Service, str, ConfigEntry]]
    ) -> tuple[set[int], list[tuple[Service, str, ConfigEntry]]]:
        """The words that name a volume, the longest name first, and what mounts it."""
        for name in sorted({source for _, source, _ in hits if "/" not in source}, key=len, reverse=True):
            match = re.search(rf"(?<![\w.-]){re.escape(name.lower())}(?![\w-])", question.linked.text.lower())
            if match and (words := set(question.words_at(*match.span()))):
                return words, [h for h in hits if h[1] == name]
        return set(), []


def asked_property(question: Question) -> tuple[Property, set[int]] | None:
    """The property that the question asks for in the most words, and these."""
    found = [(p, set(question.words_matching(p.pattern) - question.named)) for p in PROPERTIES if p.phrase]
    best = max(found, key=lambda f: len(f[1]))
    return best if best[1] else None


def _has(of: Property, count: int) -> str:
    if of.phrase.startswith("~"):
        return f"{'is' if count == 1 else 'are'} {of.phrase[1:]}"
    return f"{'has' if count == 1 else 'have'} {'a' if not of.phrase.endswith('s') else 'the'} {of.phrase}"


def _lacks(of: Property, count: int) -> str:
    if of.phrase.startswith("~"):
        return f"{'is' if count == 1 else 'are'} not {of.phrase[1:]}"
    return f"{'has' if count == 1 else 'have'} no {of.phrase}"


def _shown(of: Property, values: Sequence[ConfigEntry]) -> str:
    return "" if of.phrase.startswith("~") else f" ({listed([p.value.value.strip() for p in values])})"
