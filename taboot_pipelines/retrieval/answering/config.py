"""Values of configuration that are no edges: read from the text of the configuration documents, found by the
thing and the property that a question names.

A value belongs to a thing if it stands in its service, in its file, or under its name. The property is found
by the table of ``vocabulary.PROPERTIES`` or by the words of the key itself: every word of the question that
means something must stand in the key, beside it in a comment, or in the value. A word that stands nowhere
means that something else is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from taboot_pipelines.retrieval.answering.config_values import (
    MAX_SHOWN,
    WORDS,
    activity,
    akin_any,
    best_value,
    key_words,
    strength_of,
    value_statement,
    worth_of,
)
from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions, describe, subject_of
from taboot_pipelines.retrieval.answering.entity_linking import Mention
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.answering.vocabulary import PROPERTIES
from taboot_pipelines.retrieval.answering.words import stem
from taboot_pipelines.retrieval.queries.citations import (
    MAX_CITED,
    MAX_SCOPES,
    CitedStatement,
    Found,
    listed,
    plural,
)
from taboot_pipelines.retrieval.queries.config_files import (
    CHECKED_PORT,
    ConfigEntries,
    ConfigEntry,
    of_servers,
)
from taboot_pipelines.retrieval.queries.relations import left_open
from taboot_pipelines.retrieval.queries.service_index import Document, Edge, Service, distinct
from taboot_pipelines.sources import source_kind

#: Files that one question parses.
_MAX_PARSED = 40
#: Confs among which a setting that is asked for without a name is still told.
_MAX_ANYWHERE = 3
#: Services whose values a listing looks at.
_MAX_LISTED = 400

#: A key as it is written in a file; it says more surely than any other words what is asked.
_KEY = re.compile(r"(?<![\w/.])[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+(?![\w/])")
_EXACT = 1.1
_PORT_KEY = re.compile(
    r"^(?:expose|(?:web_?|http_?|listen_?|server_?|app_?|webui_?|ui_?)?port|--port|-p"
    r"|--web\.listen-address|listen)$",
    re.IGNORECASE,
)


class Config(ConfigEntries):
    """Questions about the configuration of one house."""

    @cached_property
    def _lowered(self) -> list[tuple[Document, str]]:
        """The texts of all configuration documents in lower case, for the words of a question that names
        nothing."""
        return [(d, self.house.text(d.doc_id).lower()) for d in self.house.config_documents[:5000]]

    def find(self, scoped: ResolvedMentions) -> Found | None:
        """The value that a question asks for; None if none fits."""
        question = scoped.question
        if question.literals:
            literal = self._by_literal(scoped)
            if literal is not None:
                return literal
        keyed = self._by_key(scoped)
        if keyed is not None:
            return keyed
        best: Found | None = None
        if question.reading.lists_services and question.negated:
            return None
        if question.reading.lists_services and not any(m.of("service") for m in scoped.mentions):
            return self._listing(scoped)
        alike: list[Found] = []
        subject = subject_of(scoped)
        of_project = subject is not None and not subject[0].of("service")
        for values, used, sure in self._candidates(scoped):
            if not values:
                continue
            found = best_value(question, values, used)
            if found is not None and not scoped.mentions and question.unexplained(found.used):
                found = None  # the word may name the thing that is asked about, which is not known here
            if found is None or question.unexplained(found.used):
                found = activity(question, values, used) or found
            if found is not None:
                found.used |= self._describing(question, found)
                found.weight *= sure
            if found is not None and (best is None or worth_of(question, found) > worth_of(question, best)):
                best, alike = found, [found]
            elif found is not None and best is not None and _as_good(question, found, best, of_project):
                alike.append(found)
        if best is not None and of_project:
            every = [s for found in alike for s in found.statements]
            return replace(best, statements=every[:MAX_SCOPES])
        return best if best is None else self._each(best, alike)

    def _each(self, best: Found, alike: Sequence[Found]) -> Found:
        """The best value and those of services of its name in other projects, which answer as well, each with
        its project."""
        if best.about is None:
            return best
        projects = {
            (d, s.name): s.project
            for s in self.house.services.values()
            if s.own and s.name == best.about[1]
            for d in self.house.declaring(s)
        }
        held: dict[str, Found] = {}
        for found in alike:
            if found.about in projects:
                held.setdefault(projects[found.about], found)
        if len(held) < 2:
            return best
        said = [
            CitedStatement(f"In the project {project}: {s.text[0].lower()}{s.text[1:]}", s.cites)
            for project, found in list(held.items())[:MAX_SCOPES]
            for s in found.statements
        ]
        return replace(best, statements=said)

    def _describing(self, question: Question, found: Found) -> set[int]:
        """The words left that describe the one service whose values were found."""
        left = question.unexplained(found.used)
        if found.about is None or not left:
            return set()
        said = describe(self.house, *found.about)
        return {i for i in left if stem(question.linked.words[i].text) in said}

    def with_own_version(self, scoped: ResolvedMentions, found: Found | None) -> Found | None:
        """What the images of services say of their versions, after the version that a service's own settings
        ask its image to run; of releases that name no image the versions of their charts."""
        about = subject_of(scoped)
        if about is None or scoped.question.yes_no:
            return found
        if found is None:
            charts = [(s, v) for s in about[1][:MAX_SHOWN] if (v := self.chart_version(s)) is not None]
            told = [
                CitedStatement(
                    f"{s.name} ({s.project}) is installed by the chart"
                    f" {s.properties.get('chart') or s.name} of version {v.shown}.",
                    [v.cite],
                )
                for s, v in charts
            ]
            return Found(told, about[2], looked_for="the version") if told else None
        said = [
            value_statement([p])
            for service in about[1][:MAX_SHOWN]
            for p in self.of_service(service)
            if p.value.path[-1] == "VERSION" and re.search(r"\d", p.value.value)
        ]
        return replace(found, statements=[*said, *found.statements])

    def listening(self, scoped: ResolvedMentions) -> Found | None:
        """The port that a service listens on without publishing it, where its own configuration names it:
        what it exposes, a port among its settings, or the one that its health check asks."""
        about = subject_of(scoped)
        if about is None:
            return None
        _, services, used = about
        statements, checks = [], []
        closed = {s.name for s in services if not (left_open(s, "ports") or self.is_of_chart(s))}
        for service in services[:5]:
            values = self.of_service(service)
            named = [
                p for p in values if _PORT_KEY.search(p.value.path[-1]) and p.value.value.strip(":").isdigit()
            ]
            checks += [
                (p, asked)
                for p in values
                if not named
                and p.value.path[2] == "healthcheck"
                and (asked := CHECKED_PORT.search(p.value.value))
            ]
            if named:
                statements.append(value_statement(named[:2]))
        for placed, asked in checks[:1]:
            statements.append(
                CitedStatement(
                    f"{placed.service} is checked on port {asked['port']} ({placed.value.key})"
                    f"{', and publishes none' if placed.service in closed else ''}.",
                    [placed.cite],
                )
            )
        return Found(statements[:3], used, 0.95, "the port it listens on") if statements else None

    def _candidates(self, scoped: ResolvedMentions) -> Iterator[tuple[list[ConfigEntry], set[int], float]]:
        """The values that may be meant, each set with the words that lead to it and how sure that is."""
        about = subject_of(scoped)
        if about is not None:
            _, services, used = about
            for service in services[:5]:
                yield self.of_service(service), used, 1.0
            for service, words in self._siblings(scoped, services, used):
                yield self.of_service(service), words, 0.95
        seen: set[str] = set()
        for mention in scoped.mentions:
            if mention.text.lower() in seen:
                continue
            seen.add(mention.text.lower())
            words = scoped.words(mention)
            first = about is None or mention.text.lower() != about[0].text.lower()
            if first:
                services, used = scoped.services(mention)
                for service in services[:3]:
                    yield self.of_service(service), used, 1.0
            if scoped.nodes(mention, "network"):
                yield self._of_networks(scoped, mention), words | self._project_words(scoped), 1.0
            hosts = self._hosts_of(scoped, mention)
            for doc_id in (self._serving(hosts) or self._confs(scoped, mention))[:6]:
                yield of_servers(self.of_document(doc_id), hosts), words, 1.0
            if first and scoped.projects(mention):
                yield self._of_projects(scoped, mention), words, 1.0
        if not scoped.mentions:
            for values in self._anywhere(scoped.question):
                yield values, set(), 1.0

    def _project_words(self, scoped: ResolvedMentions) -> set[int]:
        named = [m for m in scoped.mentions if scoped.projects(m) and not m.of("service")]
        return scoped.words(*named)

    def _of_networks(self, scoped: ResolvedMentions, mention: Mention) -> list[ConfigEntry]:
        names: set[str] = set()
        documents: set[str] = set()
        for thing in scoped.nodes(mention, "network")[:5]:
            documents |= {e.doc_id for e in self.house.into(thing.node, "RUNS_IN")[:50]}
            names |= {thing.value, thing.value.split("_", 1)[-1]}
        return self.under_name(names, sorted(documents)[:20])

    def _of_projects(self, scoped: ResolvedMentions, mention: Mention) -> list[ConfigEntry]:
        documents = {
            document
            for project in sorted(scoped.projects(mention))[:5]
            for number in self.house.projects.get(project, ())[:1]
            for document in self.house.declaring(self.house.services[number])
        }
        return [value for document in sorted(documents) for value in self.of_document(document)]

    def _confs(self, scoped: ResolvedMentions, mention: Mention) -> list[str]:
        """The files that a mention names and that make no project, then those that route to it."""
        files = sorted(
            {t.value for t in mention.of("file")},
            key=lambda d: (self.house.is_example(d), self.house.documents[d].path),
        )
        found = distinct([*files, *(e.doc_id for e in self._routes(scoped, mention))])
        return [d for d in found if not source_kind(self.house.documents[d].source_type).projects]

    def _hosts_of(self, scoped: ResolvedMentions, mention: Mention) -> set[str]:
        """The host names that a mention is, else those that lead to it; none for a file that it names."""
        if mention.of("file"):
            return set()
        named = {t.value for t in mention.of("route") if t.how != "alias"}
        return named or {str(e.properties.get("host") or "") for e in self._routes(scoped, mention)} - {""}

    def _serving(self, hosts: set[str]) -> list[str]:
        """The confs that serve host names; another file may say what stands behind them."""
        named = {h.lower() for h in hosts}
        return [
            d.doc_id
            for d, text in (self._lowered if named else ())
            if d.mime == "text/x-nginx-conf" and "server_name" in text and any(h in text for h in named)
        ][:_MAX_PARSED]

    def _siblings(
        self, scoped: ResolvedMentions, services: Sequence[Service], used: set[int]
    ) -> list[tuple[Service, set[int]]]:
        """Services of the same project that a further word of the question names in part: ``gitea-dump`` for
        when gitea is dumped."""
        left = {stem(scoped.question.linked.words[i].text): i for i in scoped.question.unexplained(used)}
        found = []
        for service in services[:2]:
            if not service.declared or len(left) > 20:
                continue
            for number in self.house.projects.get((service.place, service.project), ())[:200]:
                other = self.house.services[number]
                names = " ".join(
                    [other.name, *(self.house.name(e.end) for e in self.house.out(number, "BUILDS")[:1])]
                )
                shared = {left[w] for w in map(stem, WORDS.findall(names.lower())) if w in left}
                if shared and other.number != service.number:
                    found.append((other, used | shared))
        return found[:5]

    def _routes(self, scoped: ResolvedMentions, mention: Mention) -> list[Edge]:
        """The routes to what a mention names, those in force first."""
        services, _ = scoped.services(mention)
        found = [e for s in services[:3] for e in self.house.into(s.number, "ROUTES_TO")]
        hosts = {t.value for t in mention.of("route")}
        if hosts:
            found += [e for e in self.house.of_type("ROUTES_TO") if e.properties.get("host") in hosts]
        return sorted(found, key=lambda e: self.house.is_example(e.doc_id))

    def _anywhere(self, question: Question) -> list[list[ConfigEntry]]:
        """The values of the few files that hold the question's words, for a question that names nothing."""
        # A stem that ends in another letter than its word stands in no text.
        words = [stem(question.linked.words[i].text).rstrip("i") for i in question.unexplained(())]
        keys = [k for pattern, keys, _ in PROPERTIES if question.words_matching(pattern) for k in keys]
        texts = [(d, t) for d, t in self._lowered if d.mime == "text/x-nginx-conf"]
        set_in = [d.doc_id for d, t in texts if any(k in t for k in keys if "_" in k)]
        if 0 < len(set_in) <= _MAX_ANYWHERE:
            return [self.of_document(d) for d in set_in]
        if len(words) < 2:
            return []
        scored = []
        for document, text in self._lowered:
            hits = sum(w in text for w in words)
            if hits >= max(2, len(words) - 1):
                scored.append((-hits, document.example, document.path, document.doc_id))
        return [self.of_document(d) for _, _, _, d in sorted(scored)[:_MAX_PARSED]]

    def _listing(self, scoped: ResolvedMentions) -> Found | None:
        """Which services have a property, or a value in it: every word of the question that means something
        must be in one value of theirs or its key."""
        question = scoped.question
        services, used = scoped.declared()
        left = set(question.unexplained(used)) - {
            i for i, w in enumerate(question.linked.words) if w.text in ("list", "mounted", "have", "has")
        }
        things = [m for m in question.linked.mentions if m.of("service", "host")]
        if any(left & set(range(m.first, m.last)) for m in things):
            return None
        tables = [(question.words_matching(p) & left, keys) for p, keys, _ in PROPERTIES]
        tables = [(words, keys) for words, keys in tables if words]
        if not left:
            return None
        hits: list[tuple[Service, ConfigEntry]] = []
        for service in services[:_MAX_LISTED]:
            for placed in self.of_service(service):
                matched = {i for words, keys in tables if any(placed.ends_in(k) for k in keys) for i in words}
                matched |= {i for i in left - matched if _holds(placed, question.linked.words[i].text)}
                if matched >= left:
                    hits.append((service, placed))
                    break
        if not hits:
            return None
        asked = {question.linked.words[i].text.lower() for i in left}
        # A value that the question says in full, before longer ones with its word somewhere inside.
        hits = [(s, p) for s, p in hits if p.value.value.lower() in asked] or hits
        one = len({(s.place, s.project) for s, _ in hits}) == 1
        names = listed([s.name if one else f"{s.name} ({s.project})" for s, _ in hits])
        under = listed(sorted({".".join(p.value.path[2:]) for _, p in hits})[:4])
        places = [p.cite for _, p in hits]
        count = f"{plural(len(hits), 'service')}: " if question.counts else ""
        text = f"{count}{names} {'have' if len(hits) > 1 else 'has'} it, under {under}."
        # A word that stands under several keys says of none of them that it is what is asked for.
        weight = 1.0 if len({p.value.path[2] for _, p in hits}) == 1 else 0.7
        return Found(
            [CitedStatement(text, places[:MAX_CITED])], used | left, weight, looked_for="such services"
        )

    def _by_key(self, scoped: ResolvedMentions) -> Found | None:
        """The value of a key that the question writes as it stands in the file (``LOG_LEVEL``), of what it
        names, else of all that is."""
        question = scoped.question
        keys = {m[0].lower(): m.span() for m in _KEY.finditer(question.linked.text)}
        for key, (start, end) in keys.items():
            words = {i for i, w in enumerate(question.linked.words) if start <= w.start and w.end <= end}
            sets = [(v, used) for v, used, _ in self._candidates(scoped)]
            if not scoped.mentions:
                held = [d.doc_id for d, text in self._lowered if key in text][:_MAX_PARSED]
                sets = [(v, set()) for v in map(self.of_document, held)]
            for values, used in sets:
                found = [p for p in values if p.value.path[-1].lower() == key and not p.value.secret]
                if found:
                    said = value_statement(found[:MAX_SHOWN])
                    return Found([said], used | words, _EXACT, f"the value of {key}", len(words))
        return None

    def _by_literal(self, scoped: ResolvedMentions) -> Found | None:
        """The values that hold a path of the question: what is mounted there, and whose it is."""
        question = scoped.question
        matches: list[ConfigEntry] = []
        for path in question.literals:
            for document, text in self._lowered:
                if path in text:
                    matches += [
                        p
                        for p in self.of_document(document.doc_id)
                        if re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w/-])", p.value.value.lower())
                        and (p.lead or p.value.path[0] in ("networks", "volumes"))
                    ]
                if len(matches) > 50:
                    break
        matches = [m for m in matches if "volumes" in m.value.path] or matches
        named = {m.text.lower() for m in scoped.mentions if m.of("service")}
        kept = [m for m in matches if m.service.lower() in named] or ([] if named else matches)
        single = [m for m in kept if ", " not in m.value.value]
        own = [m for m in (single or kept) if self._own(m)]
        kept = own or single or kept
        if not kept:
            return None
        used = {i for words in question.literals.values() for i in words}
        used |= {i for m in scoped.mentions for i in scoped.words(m)}
        used |= question.words_matching(
            re.compile(
                r"(?:volumes?|mounts?|mounted|bind|paths?|folder|directory|data|stored?)"
                r"(?: mounted| is mounted)?"
            )
        )
        used |= question.words_matching(re.compile(r"mounted|mount"))
        used |= question.words_matching(re.compile(r"networks?"))
        used |= question.words_matching(re.compile(r"sub ?nets?|(?:ip )?ranges?|cidrs?|gateways?"))
        used |= question.words_matching(re.compile(r"(?:static |fixed )*(?:ip|address)(?: address)?"))
        return Found(
            [value_statement(kept[:MAX_SHOWN])], used, 1.0, f"what has {listed(list(question.literals))}"
        )

    def _own(self, placed: ConfigEntry) -> bool:
        hosts = {s.place for s in self.house.services.values() if s.own and s.name == placed.service}
        return bool(hosts) and not placed.document.example


def _as_good(question: Question, found: Found, best: Found, of_project: bool) -> bool:
    """Whether a value answers as well as the best, of another service of the same name or project."""
    if not found.about or not best.about or found.about == best.about:
        return False
    same = of_project or found.about[1] == best.about[1]
    return same and worth_of(question, found) == worth_of(question, best)


def _holds(placed: ConfigEntry, word: str) -> bool:
    """Whether a word stands in a value or in the keys that lead to it."""
    tokens = set(WORDS.findall(placed.value.value.lower()))
    keys = key_words(placed.value.path[2:])
    said = strength_of(word, keys, placed.value.path[-1], "", tokens, set())
    return said >= 0.5 or akin_any(word, tokens)
