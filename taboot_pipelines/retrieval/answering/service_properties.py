"""The properties of a service's declaration that people ask for by a name of their own: the words that ask
for each, the keys that hold it, and how it is said.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import NamedTuple

from taboot_pipelines.retrieval.answering.config import Config
from taboot_pipelines.retrieval.answering.config_values import WORDS
from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions, subject_of
from taboot_pipelines.retrieval.answering.fact_base import FactKind, over
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.queries.citations import (
    MAX_CITED,
    CitedStatement,
    Found,
    StatementSpan,
    listed,
    plural,
)
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry
from taboot_pipelines.retrieval.queries.service_index import Service, ServiceIndex


class Trait(NamedTuple):
    """A property that a service has or lacks. ``pattern``: the words that ask for it; ``keys``: the ends of
    key paths that hold it; ``value``: what the value must be; ``has`` and ``lacks``: how it is said of
    several; ``shows``: whether the values are said too."""

    pattern: re.Pattern[str]
    keys: tuple[str, ...]
    value: re.Pattern[str]
    has: str
    lacks: str
    shows: bool


def _trait(pattern: str, keys: str, value: str, has: str, lacks: str, *, shows: bool = False) -> Trait:
    return Trait(
        re.compile(rf"\b(?:{pattern})(?!\w)"),
        tuple(keys.split()),
        re.compile(value, re.IGNORECASE),
        has,
        lacks,
        shows,
    )


_TRUE = r"(?:true|yes|on)$"
#: Special before general: the first whose words are there is asked for.
_TRAITS = (
    _trait(
        r"host(?:'s)? network(?:ing|s)?(?: mode| stack)?|host mode|network mode(?: is| set to| of)? host",
        "network_mode",
        r"host$",
        "are on the host network",
        "are not on the host network",
    ),
    _trait(
        r"privileged(?: mode)?",
        "privileged",
        _TRUE,
        "are privileged",
        "are not privileged",
    ),
    _trait(
        r"(?:i?gpu|graphics card|hardware acceleration)(?: pass ?through| access| acceleration)?",
        "devices runtime devices.capabilities",
        r".*(?:/dev/(?:dri|kfd|nvidia)|nvidia|gpu)",
        "have a GPU",
        "have no GPU",
        shows=True,
    ),
    _trait(
        r"(?:only )?(?:(?:starts?|started|runs?|active|enabled|launched) )?(?:only )?"
        r"(?:with|in|under|by|have|has)? ?(?:the |a )?(?:[\w-]+ )?profiles?",
        "profiles",
        r"",
        "start only with the profile",
        "start without a profile",
        shows=True,
    ),
    _trait(
        r"health ?checks?", "healthcheck.test", r"(?!none$)", "have a health check", "declare no health check"
    ),
    _trait(
        r"(?:automatically )?restart(?:s|ed|ing)?"
        r"(?: automatically| by (?:itself|themselves|docker)| polic(?:y|ies))?",
        "restart restart_policy.condition",
        r"(?!no$|none$|false$)",
        "are restarted",
        "are not restarted automatically",
        shows=True,
    ),
    _trait(
        r"(?:memory|ram|mem) (?:limits?|cap|ceiling)|limit\w* (?:of )?(?:memory|ram)",
        "mem_limit limits.memory",
        r"",
        "have a memory limit",
        "have no memory limit",
        shows=True,
    ),
    _trait(
        r"cpu (?:limits?|cap|quota)|limit\w* (?:of )?cpus?",
        "cpus limits.cpus cpu_quota",
        r"",
        "have a CPU limit",
        "have no CPU limit",
        shows=True,
    ),
    _trait(
        r"(?:static|fixed) (?:ip(?:v[46])?|ip address\w*|address\w*)",
        "ipv4_address ipv6_address",
        r"",
        "have a fixed address",
        "have no fixed address",
        shows=True,
    ),
    _trait(
        r"(?:(?:reads?|gets?|mounts?) )?(?:the )?secrets?",
        "secrets",
        r"",
        "use the secret",
        "use no secret",
        shows=True,
    ),
    _trait(
        r"read[- _]?only(?: (?:root )?file ?system)?",
        "read_only",
        _TRUE,
        "are read-only",
        "are not read-only",
    ),
    _trait(r"tmpfs", "tmpfs", r"", "use tmpfs", "use no tmpfs", shows=True),
    _trait(
        r"(?:built|build)(?: locally| here| ourselves| from source| by us)?",
        "build build.context",
        r"",
        "are built here",
        "are not built here",
    ),
    _trait(
        r"(?:passed |has |have |gets? )?(?:the |a )?(?:devices?(?: passed(?: through)?)?"
        r"|[\w-]+ (?:sticks?|dongles?|coordinators?))|attached to(?= (?:the )?(?:tty|usb))",
        "devices",
        r"",
        "have the device",
        "have no device",
        shows=True,
    ),
    _trait(
        r"time ?zones?",
        "TZ",
        r"",
        "have the time zone",
        "have no time zone",
        shows=True,
    ),
)
#: What is followed by the value itself, and where a word before the property may be the value.
NAMING = frozenset({"start only with the profile", "use the secret", "have the device", "have the time zone"})
_QUALIFIED = frozenset({"start only with the profile", "have the device"})
#: Words of those patterns that are no value.
_ASKING = frozenset(
    [
        *("a", "the", "any", "no", "only", "with", "in", "under", "by", "has", "have", "get", "gets", "to"),
        *("start", "starts", "started", "run", "runs", "active", "enabled", "launched", "attached"),
        *("passed", "through", "profile", "profiles", "device", "devices", "stick", "sticks", "dongle"),
        *("dongles", "coordinator", "coordinators", "which", "what"),
    ]
)


def asked_trait(question: Question) -> tuple[Trait, set[int]] | None:
    """The property that the question asks for, and the words that say so."""
    text, spans = "", []
    for word in question.linked.words:
        text += " " if text else ""
        spans.append((len(text), len(text) + len(word.text)))
        text += word.text
    for trait in _TRAITS:
        match = trait.pattern.search(text)
        if match:
            return trait, {i for i, (a, b) in enumerate(spans) if a < match.end() and b > match.start()}
    return None


def names_value(question: Question, trait: Trait, number: int) -> bool:
    """Whether a word among those that ask names the value: ``soulseek`` of the soulseek profile."""
    return trait.has in _QUALIFIED and question.linked.words[number].text not in _ASKING


# --- Which services have a property of their declaration, and whether one has it: host networking, a
#     device, a health check, a mount below a path
#
# A property is more than its key: the value asked for is compared with the value that is set, and what is
# not set is said only of services whose declarations are known whole.

#: Services whose values a listing looks at.
_MAX_LISTED = 400

_WRITING = re.compile(r"\b(?:writes?|written|writing|saves?|stores?)\b")
_MOUNTING = re.compile(
    r"(?:bind )?(?:mounts?|mounted|mounting|binds?)(?: something| anything)?(?: from| under| below)?"
    r"|(?:writes?|saves?|stores?|reads?|access(?:es)?|uses?)(?: something| anything)?(?: to| from| in)?"
)


_VOLUME = re.compile(r"shar(?:es?|ed|ing)|mount(?:s|ed|ing)?|volumes?|attach(?:es|ed)?|both|same")

#: The entries of a Compose file that may be external or internal.
_ENTRY = re.compile(r"\b(networks?|volumes?|secrets?|configs?)\b")
_ENTRY_TRAIT = re.compile(
    r"(?:external(?:ly)?|internal(?:ly)?)(?: (?:networks?|volumes?|secrets?|configs?))?"
    r"|(?:networks?|volumes?|secrets?|configs?)(?: (?:are|is))?(?: declared| defined| marked)?(?: as)?"
    r" (?:external|internal)(?:ly)?(?: declared| defined| managed)?"
)


#: Services that are named where it suffices to say how many.
_FEW = 3
_NOUNS = frozenset({"list", "image", "images"})


class ServiceProperties(FactKind):
    """The services that have a property, over one house."""

    def __init__(self, house: ServiceIndex, config: Config) -> None:
        super().__init__(house)
        self._config = config

    def find(self, scoped: ResolvedMentions) -> Found | None:
        """The services that have what is asked for, or whether one has it; None if nothing says so."""
        question = scoped.question
        if question.yes_no and not re.match(r"(?:is|does) anything\b", question.lower):
            return self._has(scoped)
        named = [m for m in scoped.mentions if m.of("service")]
        services, used = scoped.declared()
        if named:
            users = {s.number for m in named for s in scoped.services(m)[0]}
            others = [s for s in services if s.number not in users]
            return self._sharing(question, others, used.union(*(scoped.words(m) for m in named)))
        entries = self._entries(question, services, used)
        if entries is not None or not question.reading.lists:
            return entries
        if question.paths:
            return self._mounting(question, services, used)
        sharing = self._sharing(question, services, used)
        if sharing is not None:
            return sharing
        return self._having(question, services, used)

    def asks(self, question: Question) -> bool:
        """Whether a question asks for services by a property, which its words alone would not decide."""
        reading = question.reading
        named = not reading.lists_services and any(m.of("service") for m in question.mentions)
        return reading.lists and not named and asked_trait(question) is not None

    def _entries(self, question: Question, services: Sequence[Service], used: set[int]) -> Found | None:
        """The networks, volumes, secrets or configs that are external or internal, with the files that
        declare them so."""
        words = question.words_matching(_ENTRY_TRAIT)
        asked = _ENTRY.search(question.lower)
        if not words or asked is None or question.negated or question.unexplained(used | words):
            return None
        section, trait = (
            f"{asked[1].rstrip('s')}s",
            "external" if "external" in question.lower else "internal",
        )
        documents = {d for s in services for d in self.house.declaring(s)}
        places: dict[str, list[ConfigEntry]] = {}
        for doc_id in sorted(documents, key=lambda d: self.house.documents[d].path):
            for placed in self._config.of_document(doc_id):
                path = placed.value.path
                if (
                    len(path) > 2
                    and path[0] == section
                    and path[2] == trait
                    and placed.value.value != "false"
                ):
                    places.setdefault(path[1], []).append(placed)
        if not places:
            return None
        said = listed(
            [f"{name} (in {listed([p.document.path for p in held])})" for name, held in places.items()]
        )
        verb = "is" if len(places) == 1 else "are"
        text = f"{plural(len(places), section[:-1])} {verb} {trait}: {said}."
        cited = [p.cite for held in places.values() for p in held][:MAX_CITED]
        return Found([CitedStatement(text, cited)], used | words, looked_for=f"{trait} {section}")

    def _having(self, question: Question, services: Sequence[Service], used: set[int]) -> Found | None:
        asked = asked_trait(question)
        if asked is None or len(services) > _MAX_LISTED:
            return None
        trait, words = asked
        wanted = [
            i for i in question.unexplained(used | words) if question.linked.words[i].text not in _NOUNS
        ]
        wanted += [i for i in words if trait.shows and names_value(question, trait, i)]
        held = {s.number: self._values(s, trait, question, wanted) for s in services}
        having = [s for s in services if held[s.number]]
        explained = used | words | set(wanted)
        if question.negated:
            if wanted or not having:
                return None
            others = [s for s in services if not held[s.number]]
            cited = [held[s.number][0].cite for s in having]
            named = listed(self.names(having)) if len(having) <= _FEW else plural(len(having), "service")
            every = CitedStatement(f"None: {named} {_agree(trait.has, len(having))}.", cited[:MAX_CITED])
            return self._lacking(question, trait, others, every, explained)
        if not having:
            return None
        places = [p.cite for s in having for p in held[s.number][:2]]
        if not trait.shows:
            return self._listing(question, having, trait.has, places, explained)
        shown: dict[str, list[Service]] = {}
        for service in having:
            shown.setdefault(listed([_shown(p) for p in held[service.number]]), []).append(service)
        text = "; ".join(
            f"{listed(self._names_among(group, having))} {_agree(trait.has, len(group))}"
            + (f" {value}" if trait.has in NAMING else f" ({value})")
            for value, group in shown.items()
        )
        many = over(having)
        count = f"{plural(len(having), 'service')}{many}: " if question.counts or many else ""
        return Found([CitedStatement(f"{count}{text}.", places[:MAX_CITED])], explained, looked_for=trait.has)

    def _lacking(
        self,
        question: Question,
        trait: Trait,
        others: Sequence[Service],
        every: CitedStatement,
        used: set[int],
    ) -> Found:
        """The services that lack a property: of those without it, the ones of which all is known; and which
        the others are. ``every``: how it is said where none lacks it."""
        lacking = [s for s in others if self._config.whole(s)]
        unknown = [s for s in others if not self._config.whole(s)]
        if lacking:
            found = self._listing(question, lacking, trait.lacks, self.declarations(lacking), used)
        else:
            found = Found([every], used, looked_for=trait.lacks)
        if unknown:
            names = listed(self.names(unknown), len(unknown))
            text = f"Not all that {names} {_agree('are', len(unknown))} declared with is known."
            found.statements.append(CitedStatement(text, self.declarations(unknown)))
        return found

    def _names_among(self, group: Sequence[Service], among: Sequence[Service]) -> list[str]:
        one = len({(s.place, s.project) for s in among}) == 1
        return [s.name if one else self.called(s) for s in group]

    def _listing(
        self,
        question: Question,
        services: Sequence[Service],
        said: str,
        places: list[StatementSpan],
        used: set[int],
    ) -> Found:
        names, many = listed(self.names(services), len(services)), over(services)
        count = f"{plural(len(services), 'service')}{many}: " if question.counts or many else ""
        text = f"{count}{names} {_agree(said, len(services))}."
        return Found([CitedStatement(text, places[:MAX_CITED])], used, looked_for=said)

    def _values(
        self, service: Service, trait: Trait, question: Question, wanted: Sequence[int]
    ) -> list[ConfigEntry]:
        """The values by which a service has a property, of those that hold all words asked for."""
        found: dict[tuple[str, ...], ConfigEntry] = {}
        for placed in self._config.of_service(service):
            if not any(placed.ends_in(k) for k in trait.keys) or not trait.value.match(placed.value.value):
                continue
            said = set(WORDS.findall(placed.value.value.lower()))
            if all(question.linked.words[i].text in said for i in wanted):
                found.setdefault((*placed.value.path, placed.value.value), placed)
        return list(found.values())

    def _has(self, scoped: ResolvedMentions) -> Found | None:
        """Whether one service has a property."""
        subject, asked = subject_of(scoped), asked_trait(scoped.question)
        if subject is None or asked is None or scoped.question.negated:
            return None
        trait, words = asked
        _, services, used = subject
        left = scoped.question.unexplained(used | words)
        if left or len(services) != 1 or not services[0].declared or trait.keys[0] in ("TZ", "devices"):
            return None
        service = services[0]
        values = self._values(service, trait, scoped.question, ())
        if values:
            shown = f" ({listed([_shown(p) for p in values])})" if trait.shows else ""
            text = f"Yes: {self.called(service)} {_agree(trait.has, 1)}{shown}."
            return Found([CitedStatement(text, [p.cite for p in values])], used | words, looked_for=trait.has)
        if not self._config.whole(service):
            return None
        text = f"No: {self.called(service)} {_agree(trait.lacks, 1)}."
        return Found([CitedStatement(text, self.declaration([service]))], used | words, looked_for=trait.has)

    def _sharing(self, question: Question, services: Sequence[Service], used: set[int]) -> Found | None:
        """The services that mount a volume that the question names."""
        asking = frozenset(i for i, w in enumerate(question.linked.words) if _VOLUME.fullmatch(w.text))
        if not asking or question.negated or len(services) > _MAX_LISTED:
            return None
        hits: list[tuple[Service, str, ConfigEntry]] = []
        for service in services:
            for placed in self._config.of_service(service):
                path, (source, colon, _) = placed.value.path, placed.value.value.partition(":")
                if path[2] == "volumes" and colon and ", " not in placed.value.value and "/" not in source:
                    hits.append((service, source, placed))
        for name in sorted({source for _, source, _ in hits}, key=len, reverse=True):
            match = re.search(rf"(?<![\w.-]){re.escape(name.lower())}(?![\w-])", question.linked.text.lower())
            words = set(question.words_at(*match.span())) if match else set()
            if not words or question.unexplained(used | asking | words):
                continue
            held = [h for h in hits if h[1] == name]
            names = self.names(list({s.number: s for s, *_ in held}.values()))
            count = f"{plural(len(names), 'service')}: " if question.counts else ""
            text = f"{count}{listed(names)} {'mount' if len(names) > 1 else 'mounts'} the volume {name}."
            return Found(
                [CitedStatement(text, [p.cite for *_, p in held][:MAX_CITED])],
                used | asking | words,
                looked_for="it",
            )
        return None

    def _mounting(self, question: Question, services: Sequence[Service], used: set[int]) -> Found | None:
        """The services that mount what lies at or below a path of this machine."""
        words = question.words_matching(_MOUNTING)
        if not words or question.negated or len(services) > _MAX_LISTED:
            return None
        at = {i for p in question.paths for i in question.literals.get(p, ())}
        hits: list[tuple[Service, str, ConfigEntry]] = []
        for service in services:
            for placed in self._config.of_service(service):
                source, _, rest = placed.value.value.partition(":")
                listed_whole = ", " in placed.value.value
                if placed.value.path[2] != "volumes" or listed_whole or placed.value.path[-1] == "target":
                    continue
                reads = rest.rpartition(":")[2].startswith("ro")
                below = any(_below(source.lower(), p) for p in question.paths)
                if below and not (reads and _WRITING.search(question.lower)):
                    hits.append((service, source, placed))
        if not hits:
            return None
        names = {s.number: s for s, *_ in hits}
        text = listed(
            [
                f"{name} mounts {listed([src for s, src, _ in hits if s.number == number])}"
                for number, name in zip(names, self.names(list(names.values())), strict=True)
            ]
        )
        count = f"{plural(len(names), 'service')}: " if question.counts else ""
        places = [p.cite for *_, p in hits]
        return Found(
            [CitedStatement(f"{count}{text}.", places[:MAX_CITED])], used | words | at, looked_for="mounts"
        )


def _below(source: str, path: str) -> bool:
    return source == path or source.startswith(posixpath.join(path, ""))


def _shown(placed: ConfigEntry) -> str:
    return placed.value.value.strip()


def _agree(said: str, count: int) -> str:
    """What is said of several, of one where there is one."""
    if count != 1:
        return said
    verb, _, rest = said.partition(" ")
    one = {"are": "is", "have": "has"}.get(verb, f"{verb}s")
    return f"{one} {rest}"
