"""Values of configuration that are no edges: read from the text of the configuration documents, found by the
thing and the property that a question names.

A value belongs to a thing if it stands in its service, in its file, or under its name. The property is found
by the table of ``vocabulary.PROPERTIES`` or by the words of the key itself: every word of the question that
means something must stand in the key, beside it in a comment, or in the value. A word that stands nowhere
means that something else is asked.
"""

from __future__ import annotations

import posixpath
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from taboot_pipelines.retrieval.answering.config_files import SETTING, ConfigFile, Value, read
from taboot_pipelines.retrieval.answering.house import Document, House, Service
from taboot_pipelines.retrieval.answering.question import Question, spelled
from taboot_pipelines.retrieval.answering.scoping import Scoped, subject_of
from taboot_pipelines.retrieval.answering.statements import Cite, Found, Statement, listed
from taboot_pipelines.retrieval.answering.vocabulary import FILLER, PROPERTIES

#: Files that are kept parsed, and files that one question parses.
_MAX_FILES = 2000
_MAX_PARSED = 40
#: Services whose values a listing looks at.
_MAX_LISTED = 400
#: Values of one statement.
MAX_SHOWN = 6
#: Characters of a value that are shown.
MAX_VALUE_CHARS = 300

_MASK = re.compile(r"[*•█]{3,}")
_LISTING = re.compile(
    r"(?:which|what|list|show|how many|all|name)(?: me)?(?: all| the| of the| of our| our)* (?:services?|containers?|apps?|stacks?)\b"
)
_PORT_KEY = re.compile(
    r"^(?:expose|(?:web_?|http_?|listen_?|server_?|app_?|webui_?|ui_?)?port|--port|-p|--web\.listen-address|listen)$",
    re.IGNORECASE,
)
_CHECKED_PORT = re.compile(
    r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(\d{2,5})\b|(?:^|\s)-p[ =]?(\d{2,5})\b|localhost (\d{2,5})\b"
)
_SECRET_KEY = re.compile(
    r"pass(?:word|wd|phrase)?s?$|secrets?$|token$|(?:api|private|encryption|storage)_?key$", re.IGNORECASE
)
_PARTS = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+|\d+")
_WORDS = re.compile(r"[a-z0-9]+")
_SERVICE_KEYS = frozenset({"services", "x-templates"})

#: Words of a question to the words that a key may have for them.
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "address": ("address", "host", "url", "server", "endpoint"),
    "backup": ("backup", "dump", "snapshot"),
    "certificate": ("cert", "ssl", "tls", "certificate", "validation"),
    "connect": ("host", "url", "addr"),
    "database": ("db", "database", "postgres", "mysql", "mariadb", "mongo", "sql", "dbname"),
    "db": ("db", "database"),
    "directory": ("dir", "path", "directory", "root", "folder"),
    "domain": ("domain", "host", "url", "fqdn"),
    "email": ("email", "mail", "smtp"),
    "external": ("external", "public", "root"),
    "folder": ("dir", "path", "directory", "folder"),
    "language": ("lang", "language", "locale", "languages"),
    "log": ("log", "logging", "loglevel"),
    "mail": ("mail", "smtp", "email", "mailer"),
    "max": ("max", "maximum", "limit"),
    "maximum": ("max", "maximum", "limit"),
    "method": ("method", "type", "validation", "mode"),
    "minimum": ("min", "minimum"),
    "name": ("name",),
    "password": ("password", "passwd", "pass", "secret"),
    "path": ("path", "dir", "directory", "root"),
    "port": ("port", "listen", "address"),
    "provider": ("provider", "service"),
    "public": ("public", "external", "published", "url", "root"),
    "quota": ("quota", "limit", "max"),
    "registration": ("registration", "signup", "signups", "register"),
    "registrations": ("registration", "signup", "signups", "register"),
    "retention": ("retention", "keep", "retain"),
    "keep": ("keep", "retention", "retain"),
    "kept": ("keep", "retention", "retain"),
    "schedule": ("schedule", "cron"),
    "server": ("server", "host", "address", "url"),
    "signup": ("signup", "signups", "registration"),
    "signups": ("signup", "signups", "registration"),
    "size": ("size", "max", "limit", "memory"),
    "ssh": ("ssh",),
    "store": ("repository", "path", "dir", "storage", "store", "volumes", "data"),
    "storage": ("storage", "data", "volumes"),
    "time": ("time", "schedule", "cron"),
    "timezone": ("tz", "timezone"),
    "token": ("token", "key"),
    "url": ("url", "uri", "endpoint", "address", "domain"),
    "user": ("user", "username", "uid"),
    "username": ("user", "username"),
    "eviction": ("eviction", "maxmemory"),
}


@dataclass(frozen=True, slots=True)
class Placed:
    """A value in its document, and how many keys lead to the thing that it belongs to."""

    document: Document
    value: Value
    lead: int
    service: str = ""


@dataclass(slots=True)
class Match:
    """A value that answers: the words that it explains, and how well its key fits."""

    placed: Placed
    words: set[int]
    fit: float


class Config:
    """The configuration documents of one house, parsed when a question needs them."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._files: OrderedDict[str, ConfigFile] = OrderedDict()

    def file(self, doc_id: str) -> ConfigFile:
        known = self._files.get(doc_id)
        if known is None:
            document = self.house.documents[doc_id]
            known = read(doc_id, document.path, document.mime, self.house.text(doc_id))
            self._files[doc_id] = known
            while len(self._files) > _MAX_FILES:
                self._files.popitem(last=False)
        return known

    @cached_property
    def _lowered(self) -> list[tuple[Document, str]]:
        """The texts of all configuration documents in lower case, for the words of a question that names
        nothing."""
        return [(d, self.house.text(d.doc_id).lower()) for d in self.house.config_documents[:5000]]

    # --- what belongs to a thing ----------------------------------------------------------------------------

    def of_service(self, service: Service) -> list[Placed]:
        """The values of a service: its own in every file of its project, then those that it extends."""
        found: list[Placed] = []
        for doc_id in self.house.declaring(service):
            self._of_service(doc_id, service.name, found, set())
        return found

    def _of_service(self, doc_id: str, name: str, found: list[Placed], seen: set[tuple[str, str]]) -> None:
        if (doc_id, name) in seen or len(seen) > 16:
            return
        seen.add((doc_id, name))
        file, document = self.file(doc_id), self.house.documents[doc_id]
        held = {p.value.path[p.lead :] for p in found}
        for value in file.values:
            if len(value.path) > 2 and value.path[0] == "services" and value.path[1] == name:
                if (
                    len(seen) == 1
                    or value.path[2:] not in held
                    or value.path[2] in ("volumes", "extra_hosts")
                ):
                    found.append(Placed(document, value, 2, name))
        if name in file.extends:
            path, other = file.extends[name]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(document.path), path))
            other_doc = self.house.by_path.get((document.source, target)) if path else doc_id
            if other_doc is not None:
                self._of_service(other_doc, other, found, seen)

    def of_document(self, doc_id: str) -> list[Placed]:
        """The values of a file. What leads to one is its service, or in an nginx conf the blocks around it."""
        document = self.house.documents[doc_id]
        nginx = document.mime == "text/x-nginx-conf"
        found = []
        for value in self.file(doc_id).values:
            path, service = value.path, ""
            if nginx:
                lead = len(path) - (2 if len(path) > 1 and path[-2] in SETTING else 1)
            elif path and path[0] == "services" and len(path) > 2:
                lead, service = 2, path[1]
            else:
                lead = 0
            found.append(Placed(document, value, lead, service))
        return found

    def under_name(self, names: Iterable[str], doc_ids: Iterable[str]) -> list[Placed]:
        """The values under a top-level section's entry of one of these names (a network, a volume)."""
        wanted = {n.lower() for n in names}
        return [
            Placed(self.house.documents[doc_id], v, 2)
            for doc_id in doc_ids
            for v in self.file(doc_id).values
            if len(v.path) > 2
            and v.path[0] in ("networks", "volumes", "secrets", "configs")
            and v.path[1].lower() in wanted
        ]

    # --- questions ------------------------------------------------------------------------------------------

    def find(self, scoped: Scoped) -> Found | None:
        """The value that a question asks for; None if none fits."""
        question = scoped.question
        if question.literals:
            literal = self._by_literal(scoped)
            if literal is not None:
                return literal
        best: Found | None = None
        if _LISTING.match(question.lower) and question.negated:
            return None
        if _LISTING.match(question.lower) and not any(m.of("service") for m in scoped.mentions):
            return self._listing(scoped)
        for values, used, sure in self._candidates(scoped):
            if not values:
                continue
            found = self._best(question, values, used)
            if found is not None:
                found.weight *= sure
            if found is not None and (best is None or _worth(question, found) > _worth(question, best)):
                best = found
        return best

    def listening(self, scoped: Scoped) -> Found | None:
        """The port that a service listens on without publishing it, where its own configuration names it:
        what it exposes, a port among its settings, or the one that its health check asks."""
        about = subject_of(scoped)
        if about is None:
            return None
        _, services, used = about
        statements, checks = [], []
        for service in services[:5]:
            values = self.of_service(service)
            said = [
                p for p in values if _PORT_KEY.search(p.value.path[-1]) and p.value.value.strip(":").isdigit()
            ]
            for placed in values if not said else ():
                if placed.value.path[-1] == "test" or placed.value.path[2] == "healthcheck":
                    if _CHECKED_PORT.search(placed.value.value):
                        checks.append(placed)
            if said:
                statements.append(self._said(said[:2]))
        for placed in checks[:1]:
            match = _CHECKED_PORT.search(placed.value.value)
            port = next(g for g in match.groups() if g) if match else ""
            cite = Cite(placed.document.doc_id, placed.value.line, placed.value.start, placed.value.end)
            statements.append(
                Statement(
                    f"{placed.service} is checked on port {port} ({placed.value.key}), and publishes none.",
                    [cite],
                )
            )
        return Found(statements[:3], used, 0.95, "the port it listens on") if statements else None

    def _candidates(self, scoped: Scoped) -> list[tuple[list[Placed], set[int], float]]:
        house = self.house
        found: list[tuple[list[Placed], set[int], float]] = []
        about = subject_of(scoped)
        if about is not None:
            _, services, used = about
            for service in services[:5]:
                found.append((self.of_service(service), used, 1.0))
            for service, words in self._siblings(scoped, services, used):
                found.append((self.of_service(service), words, 0.95))
        for mention in scoped.mentions:
            words = scoped.words(mention)
            if about is None or mention is not about[0]:
                services, used = scoped.services(mention)
                for service in services[:3]:
                    found.append((self.of_service(service), used, 1.0))
            networks = scoped.nodes(mention, "network")
            if networks:
                names: set[str] = set()
                documents: set[str] = set()
                for thing in networks[:5]:
                    for edge in house.into(thing.node, "RUNS_IN")[:50]:
                        documents.add(edge.doc_id)
                    names |= {thing.value, thing.value.split("_", 1)[-1]}
                more = {
                    i
                    for m in scoped.mentions
                    if scoped.projects(m) and not m.of("service")
                    for i in scoped.words(m)
                }
                found.append((self.under_name(names, sorted(documents)[:20]), words | more, 1.0))
            files = [
                t.value for t in mention.of("file") if house.documents[t.value].mime != "application/yaml"
            ]
            files.sort(key=lambda d: (house.is_example(d), house.documents[d].path))
            routed = [e.doc_id for e in self._routes(scoped, mention)]
            for doc_id in list(dict.fromkeys([*files, *routed]))[:6]:
                if house.documents[doc_id].mime != "application/yaml":
                    found.append((self.of_document(doc_id), words, 1.0))
            projects = scoped.projects(mention)
            if projects and (about is None or mention is not about[0]):
                documents_of = {
                    d
                    for p in sorted(projects)[:5]
                    for n in house.projects.get(p, ())[:1]
                    for d in house.declaring(house.services[n])
                }
                values = [v for d in sorted(documents_of) for v in self.of_document(d)]
                found.append((values, words, 1.0))
        if not scoped.mentions:
            found += [(values, set(), 1.0) for values in self._anywhere(scoped.question)]
        return found

    def _siblings(
        self, scoped: Scoped, services: Sequence[Service], used: set[int]
    ) -> list[tuple[Service, set[int]]]:
        """Services of the same project that a further word of the question names in part: ``gitea-dump`` for
        when gitea is dumped."""
        left = {_stem(scoped.question.linked.words[i].text): i for i in scoped.question.unexplained(used)}
        found = []
        for service in services[:2]:
            if not service.declared or len(left) > 20:
                continue
            for number in self.house.projects.get((service.place, service.project), ())[:200]:
                other = self.house.services[number]
                names = " ".join(
                    [other.name, *(self.house.name(e.end) for e in self.house.out(number, "BUILDS")[:1])]
                )
                shared = {left[w] for w in map(_stem, _WORDS.findall(names.lower())) if w in left}
                if shared and other.number != service.number:
                    found.append((other, used | shared))
        return found[:5]

    def _routes(self, scoped: Scoped, mention: object) -> list[Cite]:
        house, found = self.house, []
        for m in scoped.mentions:
            if m is not mention:
                continue
            services, _ = scoped.services(m)
            for service in services[:3]:
                found += house.into(service.number, "ROUTES_TO")
            hosts = {t.value for t in m.of("route")}
            if hosts:
                found += [e for e in house.of_type("ROUTES_TO") if e.properties.get("host") in hosts]
        found.sort(key=lambda e: house.is_example(e.doc_id))
        return [Cite(e.doc_id, e.line, *e.span) for e in found]

    def _anywhere(self, question: Question) -> list[list[Placed]]:
        """The values of the few files that hold the question's words, for a question that names nothing."""
        words = [_stem(question.linked.words[i].text) for i in question.unexplained(())]
        if len(words) < 2:
            return []
        scored = []
        for document, text in self._lowered:
            hits = sum(w in text for w in words)
            if hits >= max(2, len(words) - 1):
                scored.append((-hits, document.example, document.path, document.doc_id))
        return [self.of_document(d) for _, _, _, d in sorted(scored)[:_MAX_PARSED]]

    def _listing(self, scoped: Scoped) -> Found | None:
        """Which services have a property, or a value in it: every word of the question that means something
        must be in one value of theirs or its key."""
        question = scoped.question
        services = [s for s in self.house.services.values() if s.declared]
        used: set[int] = set()
        for mention in scoped.mentions:
            projects, hosts = scoped.projects(mention), scoped.hosts(mention)
            kept = [s for s in services if (s.place, s.project) in projects or s.place in hosts]
            if kept:
                services, used = kept, used | scoped.words(mention)
        if not used:
            services = [s for s in services if s.own] or services
        left = set(question.unexplained(used)) - {
            i for i, w in enumerate(question.linked.words) if w.text in ("list", "mounted", "have", "has")
        }
        if any(left & set(range(m.first, m.last)) for m in question.linked.mentions if m.of("service")):
            return None
        tables = [(question.words_matching(p) & left, keys) for p, keys in PROPERTIES]
        tables = [(words, keys) for words, keys in tables if words]
        if not left:
            return None
        hits: list[tuple[Service, Placed]] = []
        for service in services[:_MAX_LISTED]:
            for placed in self.of_service(service):
                found = set()
                for words, keys in tables:
                    if any(_ends(placed, key) for key in keys):
                        found |= words
                tokens = set(_WORDS.findall(placed.value.value.lower()))
                keys_here = _key_words(placed.value.path[2:])
                for i in left - found:
                    word = question.linked.words[i].text
                    if _strength(
                        word, keys_here, placed.value.path[-1].lower(), "", tokens, set()
                    ) >= 0.5 or _akin_any(word, tokens):
                        found.add(i)
                if found >= left:
                    hits.append((service, placed))
                    break
        if not hits:
            return None
        names = [f"{s.name} ({s.project})" for s, _ in hits]
        if len({(s.place, s.project) for s, _ in hits}) == 1:
            names = [s.name for s, _ in hits]
        keys = listed(sorted({".".join(p.value.path[2:]) for _, p in hits})[:4])
        found_cites = [Cite(p.document.doc_id, p.value.line, p.value.start, p.value.end) for _, p in hits][
            :12
        ]
        count = f"{len(hits)} service{'s' if len(hits) > 1 else ''}: " if question.counts else ""
        return Found(
            [
                Statement(
                    f"{count}{listed(names)} {'have' if len(hits) > 1 else 'has'} it, under {keys}.",
                    found_cites,
                )
            ],
            used | left,
            1.0,
            "such services",
        )

    def _by_literal(self, scoped: Scoped) -> Found | None:
        """The values that hold a path of the question: what is mounted there, and whose it is."""
        question = scoped.question
        matches: list[Placed] = []
        for path in question.literals:
            for document, text in self._lowered:
                if path in text:
                    matches += [
                        p
                        for p in self.of_document(document.doc_id)
                        if re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w/-])", p.value.value.lower())
                        and p.lead
                    ]
                if len(matches) > 50:
                    break
        if re.search(r"\bmount|\bvolume", question.lower):
            matches = [m for m in matches if "volumes" in m.value.path] or matches
        named = {m.text.lower() for m in scoped.mentions}
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
                r"(?:volumes?|mounts?|mounted|bind|paths?|folder|directory|data|stored?)(?: mounted| is mounted)?"
            )
        )
        used |= question.words_matching(re.compile(r"mounted|mount"))
        used |= question.words_matching(re.compile(r"(?:static |fixed )*(?:ip|address)(?: address)?"))
        return Found([self._said(kept[:MAX_SHOWN])], used, 1.0, f"what has {listed(list(question.literals))}")

    def _own(self, placed: Placed) -> bool:
        hosts = {s.place for s in self.house.services.values() if s.own and s.name == placed.service}
        return bool(hosts) and not placed.document.example

    # --- matching -------------------------------------------------------------------------------------------

    def _best(self, question: Question, values: Sequence[Placed], used: set[int]) -> Found | None:
        matches = self._by_table(question, values, used)
        words = self._by_words(question, values, used)
        by_words = False
        if words and (not matches or _left(question, words, used) < _left(question, matches, used)):
            matches, by_words = words, True
        if not matches:
            return None
        matches = [m for m in matches if not _secret(m.placed.value)]
        if not matches:
            return None
        explained = set(used).union(*(m.words for m in matches))
        placed = [m.placed for m in matches]
        weight = 1.0 if max(m.fit for m in matches) >= 0.5 else 0.95
        if by_words and len({p.value.path[-1] for p in placed}) > 2:
            weight = 0.7
        matched = max(len(m.words - set(used)) for m in matches)
        return Found([self._said(placed, question)], explained, weight, "its configuration", matched)

    def _by_table(self, question: Question, values: Sequence[Placed], used: set[int]) -> list[Match]:
        best: list[Match] = []
        fewest = len(question.linked.words) + 1
        for pattern, keys in PROPERTIES:
            words = question.words_matching(pattern) - question.named
            if not words:
                continue
            for key in keys:
                matches = [Match(p, set(words), 1.0) for p in values if _ends(p, key)]
                if not matches:
                    continue
                left = len(question.unexplained(used | words))
                if left < fewest or (left == fewest and len(words) > len(best[0].words)):
                    best, fewest = self._narrow(question, matches, used), left
                break
        return best

    def _narrow(self, question: Question, matches: list[Match], used: set[int]) -> list[Match]:
        """Of several values of one property those that hold further words of the question: a volume by the
        path that is asked for, an address by its network."""
        matches = _whole(matches)
        rest = [i for i in range(len(question.linked.words)) if i not in matches[0].words]
        counted = []
        for match in matches:
            text = " ".join([*match.placed.value.path[match.placed.lead :], match.placed.value.value]).lower()
            tokens = set(_WORDS.findall(text))
            hits = {
                i
                for i in rest
                if question.linked.words[i].text in tokens and question.linked.words[i].text not in FILLER
            }
            counted.append((len(hits - _service_words(question, match, used)), hits))
        top = max(n for n, _ in counted)
        if top:
            kept = [(m, h) for m, (n, h) in zip(matches, counted, strict=True) if n == top]
            for match, hits in kept:
                match.words |= hits
            return [m for m, _ in kept]
        return matches

    def _by_words(self, question: Question, values: Sequence[Placed], used: set[int]) -> list[Match]:
        """The values whose key, value or comment holds the words that are left, best key first."""
        left = question.unexplained(used)
        # Words that fill a sentence may still be a key's: "default", "host".
        wanted = {i: spelled([question.linked.words[i].text])[0] for i in left}
        if not wanted:
            return []
        best: list[Match] = []
        score = 0.0
        for placed in values:
            keys = _key_words(placed.value.path[placed.lead :])
            if not keys or not _suits(question, placed.value.value):
                continue
            inside = set(_WORDS.findall(placed.value.value.lower()))
            around = [placed.value.comment, *placed.value.path[2 if placed.service else 0 : placed.lead]]
            beside = set(_WORDS.findall(" ".join(around).lower()))
            total, key_hits, hits = 0.0, 0, set()
            for i, word in wanted.items():
                strength = _strength(
                    word, keys, placed.value.path[-1].lower(), placed.value.value, inside, beside
                )
                if strength:
                    total += strength
                    key_hits += strength >= 0.8
                    hits.add(i)
            if not key_hits:
                continue
            owner = {_stem(w) for w in _WORDS.findall(placed.service.lower())}
            named = {_stem(question.linked.words[i].text) for i in used if i < len(question.linked.words)}
            foreign = [k for k in _key_words(placed.value.path[-1:]) if k not in owner | named]
            fit = key_hits / max(len(foreign), key_hits, 1)
            worth = (
                total
                + 0.3 * fit
                - 0.02 * (len(placed.value.path) - placed.lead)
                + 0.05 * _suits(question, placed.value.value)
            )
            match = Match(placed, hits, fit)
            if worth > score + 1e-9:
                best, score = [match], worth
            elif abs(worth - score) <= 1e-9 and len(best) < MAX_SHOWN:
                best.append(match)
        return _whole(best)

    # --- wording --------------------------------------------------------------------------------------------

    def _said(self, placed: Sequence[Placed], question: Question | None = None) -> Statement:
        parts, found = [], []
        for p in placed[:MAX_SHOWN]:
            value = p.value.value.strip()
            shown = value if len(value) <= MAX_VALUE_CHARS else value[: MAX_VALUE_CHARS - 1] + "…"
            if _MASK.search(value):
                shown = "a secret, which is masked"
            parts.append((p.value.key, shown or "(empty)"))
            found.append(Cite(p.document.doc_id, p.value.line, p.value.start, p.value.end))
        groups: dict[str, list[str]] = {}
        for key, shown in parts:
            groups.setdefault(key, []).append(shown)
        text = "; ".join(f"{key} is {listed(shown)}" for key, shown in groups.items())
        rest = len(placed) - len(parts)
        text += f"; and {rest} more" if rest > 0 else ""
        return Statement(f"In {placed[0].document.path}, {text}.", found)


def _worth(question: Question, found: Found) -> tuple[float, float]:
    return (-len(question.unexplained(found.used)), found.weight)


def _left(question: Question, matches: Sequence[Match], used: set[int]) -> int:
    return len(question.unexplained(set(used).union(*(m.words for m in matches))))


def _service_words(question: Question, match: Match, used: set[int]) -> set[int]:
    own = set(_WORDS.findall(match.placed.service.lower()))
    return {i for i in used if question.linked.words[i].text in own}


def _whole(matches: list[Match]) -> list[Match]:
    """Without the single items of a list that stands there as a whole, of few items; else without the
    whole."""
    paths = [m.placed.value.path for m in matches]
    wholes = [m for m in matches if paths.count(m.placed.value.path) > 1 and ", " in m.placed.value.value]
    return [m for m in matches if m not in wholes] or matches


def _ends(placed: Placed, key: str) -> bool:
    """Whether a value's key path ends in ``key`` (dotted, any case; an all-upper key may also be the end of a
    longer name)."""
    path = placed.value.path[placed.lead :]
    if not path:
        return False
    if key.isupper():
        last = path[-1].upper()
        return last == key or last.endswith("_" + key)
    parts = key.lower().split(".")
    own = [x.lower().lstrip("-") for x in path]
    if key in (
        "volumes",
        "environment",
        "labels",
        "devices",
        "sysctls",
        "ulimits",
        "extra_hosts",
        "secrets",
        "configs",
        "command",
        "entrypoint",
        "cap_add",
        "tmpfs",
        "build.args",
    ):
        return own[: len(parts)] == parts and (key not in ("command", "entrypoint") or len(own) == len(parts))
    if own[-len(parts) :] == parts:
        return True
    return own[-1].replace("__", "_").endswith(key.lower()) and len(parts) > 1


@lru_cache(maxsize=1 << 14)
def _split(key: str) -> tuple[str, ...]:
    return tuple(_stem(p.lower()) for p in _PARTS.findall(key))


def _key_words(path: Sequence[str]) -> list[str]:
    return [w for key in path for w in _split(key)]


@lru_cache(maxsize=1 << 14)
def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    for end in ("ing", "sses", "xes", "ches", "shes", "ed"):
        if word.endswith(end) and len(word) - len(end) >= 3 and len(word) > 5:
            return word[: -len(end)] if end in ("ing", "ed") else word[:-2]
    return (
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
    )


def _strength(
    word: str, keys: Sequence[str], last: str, value: str, inside: set[str], beside: set[str]
) -> float:
    stem = _stem(word)
    if stem in keys or word in keys:
        return 1.0
    if len(stem) >= 5 and any(_akin(k, stem) for k in keys):
        return 0.95
    if any(_stem(s) in keys for s in _SYNONYMS.get(word, _SYNONYMS.get(stem, ()))):
        return 0.85
    if len(stem) >= 3 and stem in re.sub(r"[^a-z0-9]", "", last):
        return 0.85
    if word in inside or stem in {_stem(w) for w in inside}:
        return 0.6
    if len(stem) >= 5 and any(stem in w for w in inside):
        return 0.5
    if stem in ("database", "db") and "://" in value:
        return 0.6
    if word in beside or stem in {_stem(w) for w in beside}:
        return 0.5
    return 0.0


def _secret(value: Value) -> bool:
    """Whether a value is a secret: masked, or handed in from outside under a name of secrets. It is no answer,
    and what a question looked for says that it is masked."""
    text = value.value.strip()
    if _MASK.search(text):
        return True
    return bool(_SECRET_KEY.search(value.path[-1]) and (not text or text.startswith("$")))


def _akin_any(word: str, tokens: set[str]) -> bool:
    return len(word) >= 4 and any(_akin(t, word) for t in tokens)


def _akin(left: str, right: str) -> bool:
    """Whether one word begins with the other and is little longer."""
    short, long = sorted((left, right), key=len)
    return (
        len(short) >= 4
        and long.startswith(short)
        and len(long) - len(short) <= 3
        and len(short) >= 0.6 * len(long)
    )


def _suits(question: Question, value: str) -> bool:
    """Whether a value can be of the kind that the question asks for."""
    lower = question.lower
    if re.match(r"(?:how many|how much|how long|how big)\b", lower) or re.search(r"\bports?\b", lower):
        return bool(re.search(r"\d", value))
    if re.match(r"(?:when|at (?:what|which) time|what time|how often)\b", lower):
        return bool(re.search(r"\d|@|daily|weekly|hourly|night", value))
    if re.search(r"\b(?:url|link)\b", lower):
        return "/" in value or "." in value
    return bool(value)
