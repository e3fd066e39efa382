"""Answers by typed queries: the rows of the query that a kind of question asks, of the things that it names.

A name of the question narrows the rows by the first column that may hold it; a name that none holds is left
unexplained, and nothing is said of it. Who asks yes or no names what a row has to hold besides.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from ipaddress import ip_address
from typing import NamedTuple

from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions, subject_of
from taboot_pipelines.retrieval.answering.entity_linking import Mention
from taboot_pipelines.retrieval.answering.fact_base import NAMING, FactKind, over
from taboot_pipelines.retrieval.answering.vocabulary import LABELS, STORES
from taboot_pipelines.retrieval.queries.catalog import QUERIES, Query, Sentence
from taboot_pipelines.retrieval.queries.citations import (
    MAX_CITED,
    MAX_SCOPES,
    CitedStatement,
    Found,
    StatementSpan,
    listed,
    plural,
)
from taboot_pipelines.retrieval.queries.house import Arguments, House, Row
from taboot_pipelines.retrieval.queries.relations import is_public_name, left_open
from taboot_pipelines.retrieval.queries.run import phrase
from taboot_pipelines.retrieval.queries.service_index import Service

#: The columns that hold a service, each with that of its project.
_SERVICES = {
    c: "project" if c == "service" else f"{c}_project" for c in ("service", "peer", "owner", "target")
}
#: The columns that hold the name of another thing, each with the kind of thing.
_THINGS = {
    "network": "network",
    "proxy": "proxy",
    "image": "image",
    "hostname": "route",
    "login": "guard",
    "address": "address",
    "name": "host",
    "file": "file",
    "tunnel": "service",
}


class Asked(NamedTuple):
    """How a kind of question asks a typed query. ``columns``: those in which its names stand, first that of
    the subject; ``noun``: of what is counted; ``sentence``: how its rows are said, else as the query's own;
    ``lacking``: the query that it asks where it is denied; ``denies``: whether that there is no row is an
    answer; ``lists``: whether all rows are, where nothing is named."""

    query: str
    columns: tuple[str, ...]
    noun: str = ""
    sentence: Sentence | None = None
    lacking: str = ""
    denies: bool = False
    lists: bool = False


_ROUTES = ("target", "hostname", "file", "address", "proxy", "login", "path", "project", "host")
_OF_PROXY = ("proxy", "login", "hostname", "target", "project", "host")
_SUBJECT = ("service", "project", "host")
ASKED: dict[str, Asked] = {
    "networks": Asked("networks", ("service", "network", "project"), "network"),
    "network_members": Asked("networks", ("network", "project", "service")),
    "network_peers": Asked("network_peers", ("service", "network", "peer")),
    "shared_networks": Asked(
        "network_peers",
        ("service", "peer"),
        sentence=Sentence("{service} and {peer}", "share the network", "{network}"),
    ),
    "sharers": Asked("namespace_sharers", ("owner", "service")),
    "routes": Asked("routes", _ROUTES),
    "behind": Asked("routes", ("hostname", *_ROUTES)),
    "hostnames": Asked("routes", _ROUTES, "name"),
    "proxied": Asked("routes", _OF_PROXY, "name", lacking="services_behind_no_proxy", lists=True),
    "admitted": Asked("routes", _ROUTES),
    "auth": Asked("routes", ("target", "hostname", "login", "proxy", "project", "host")),
    "exposed": Asked(
        "exposed_services", _SUBJECT, lacking="services_behind_no_proxy", denies=True, lists=True
    ),
    "port_owner": Asked("published_ports", ("port", "container_port", *_SUBJECT)),
    "publishers": Asked("published_ports", _SUBJECT, lacking="services_without_published_ports", lists=True),
    "image_users": Asked("images", ("image", "project", "host")),
    "location": Asked("services", ("service", "host"), sentence=Sentence("{service}", "runs on", "{host}")),
    "members": Asked(
        "services",
        ("project", "host", "service"),
        "service",
        Sentence("the project {project}", "has", "{service}"),
    ),
    "project_of": Asked(
        "services",
        ("service", "project"),
        "project",
        Sentence("{service}", "is a service of the project", "{project}", ("file",)),
    ),
    "container_name": Asked(
        "services", ("service",), sentence=Sentence("the container of {service}", "is", "{container}")
    ),
    "vpn": Asked("vpn_users", ("service", "tunnel"), denies=True),
    "vpn_users": Asked("vpn_users", ("tunnel", *_SUBJECT), lists=True),
    "schedule_of": Asked(
        "schedules", ("service", "project"), sentence=Sentence("{service}", "runs by", "{key} {value}")
    ),
    "ip": Asked("addresses", ("name",)),
    "on_address": Asked("addresses", ("address",)),
}


#: Where a port is published, and whether on all addresses of a machine or only on its own loopback.
_WHERE = (
    (
        re.compile(
            r"\b(?:all|any|every|each)(?: of)?(?: the)?(?: (?:host|network))? (?:interfaces?|addresses)\b"
            r"|(?<![\w.])0\.0\.0\.0(?![\w.])"
        ),
        True,
    ),
    (re.compile(r"\blo(?:opback|calhost)(?: interface| address)?\b|(?<![\w.])127\.0\.0\.1(?![\w.])"), False),
)
#: How sure a list is that may lack services of which no file says where they run.
_INCOMPLETE = 0.8
#: What a login is called.
_LOGIN = re.compile(r"\b(?:log-?ins?|auth|authentication|passwords?|sign-?ins?|sso)\b")
#: How sure an answer is that leaves open what was asked.
_DOUBT = 0.85
#: Prepositions of what holds something; "part of", "belongs to".
_WITHIN = ("in", "of", "to", "within", "inside", "from", "under", "on")
#: How verbs are said of several.
_OF_SEVERAL = {"is": "are", "has": "have", "goes": "go", "publishes": "publish"}


class _Bound(NamedTuple):
    """Rows narrowed by the names of a question. ``columns``: by which; ``used``: the words of those names;
    ``refused``: whether one more name was asked for that none of them holds."""

    rows: list[Row]
    columns: tuple[str, ...] = ()
    used: frozenset[int] = frozenset()
    refused: bool = False


class TypedFacts(FactKind):
    """``asked_of``: what the queries are asked of."""

    def __init__(self, asked_of: House) -> None:
        super().__init__(asked_of.index)
        self._asked_of = asked_of

    def is_of_chart(self, service: Service) -> bool:
        """Whether a chart that is not here may set more of a service than is read."""
        return self._asked_of.entries.is_of_chart(service)

    def by_chart(self, service: Service, cited: list[StatementSpan]) -> tuple[bool, str, list[StatementSpan]]:
        """What is to be said where a service has no port and no way in: whether that is known as far as its
        declaration is, what a chart leaves open, and the places as sure as they are then."""
        if not self.is_of_chart(service):
            return True, "", cited
        known = not self._asked_of.is_opaque(service)
        sure = _DOUBT if known else NAMING
        places = [replace(c, confidence=min(c.confidence, sure)) for c in cited]
        return known, "; its chart, which is not here, may set more", places

    def find(self, kind: str, scoped: ResolvedMentions) -> Found | None:
        """What the query of a kind of question says; None if it says nothing."""
        asked, question = ASKED[kind], scoped.question
        on = next(((words, any_) for p, any_ in _WHERE if (words := question.words_matching(p))), None)
        if on is not None and kind in ("exposed", "proxied"):
            asked = ASKED["publishers"]  # A route has no interface.
        if kind == "shared_networks" and any(i not in question.named for i in question.stores):
            return None  # whether they share a database is another question
        if kind == "shared_networks" and any(map(question.is_generic, scoped.mentions)):
            return None
        if kind == "members" and question.yes_no:
            if not any(_is_within(scoped, m) for m in scoped.mentions if scoped.projects(m)):
                return None  # behind it, or beside it
            asked = ASKED["project_of"]
        query = QUERIES[asked.query]
        if question.negated and not question.yes_no:
            if not asked.lacking:
                return self._others(scoped) if kind == "network_members" else None
            query = QUERIES[asked.lacking]
            asked = Asked(asked.lacking, ("project", "host"), "service", lists=True)
        bound = self._bound(query, asked, scoped)
        if asked.lists and not bound.columns and question.numbers:
            return None  # of all those that have the number, and none has
        if on is not None and query.name == "published_ports":
            rows = [r for r in bound.rows if _is_where(str(r.cells["address"]), everywhere=on[1])]
            bound = bound._replace(rows=rows, used=bound.used | on[0])
        if kind == "location":
            bound = bound._replace(rows=[r for r in bound.rows if r.cells["host"]])
        if kind == "auth" and all(r.cells["login"] is None for r in bound.rows):
            return None  # Nothing states whether a login guards it.
        if query.name == "routes" and bound.columns == ("proxy",) and not question.yes_no:
            # Of all that a proxy leads to what has a login may be asked for.
            asking = [r for r in bound.rows if r.cells["login"]]
            if asking and (words := question.words_matching(_LOGIN)):
                bound = bound._replace(rows=asking, used=bound.used | words)
        if kind == "admitted":
            bound = bound._replace(rows=[r for r in bound.rows if r.cells["allowed"]])
        if kind == "port_owner" and not {"port", "container_port"}.intersection(bound.columns):
            return None
        if kind == "schedule_of" and len({r.cites[0].doc_id for r in bound.rows}) > 1:
            return None  # which of several schedules the other words of the question say
        if not bound.rows:
            return self._denied(query, scoped) if asked.denies else None
        if kind == "project_of" and question.counts:
            of = {str(r.cells["project"]) for r in bound.rows}
            have = f"{plural(len(of), 'project')} {'has' if len(of) == 1 else 'have'}"
            text = f"{have} a service {bound.rows[0].cells['service']}: {listed(sorted(of))}."
            cited = _lines(c for r in bound.rows for c in r.cites)
            return Found([CitedStatement(text, cited)], set(bound.used))
        if bound.refused and kind == "shared_networks":
            # They share none: which each is on.
            services = tuple(s for m in scoped.mentions for s in scoped.services(m)[0])
            query = QUERIES["networks"]
            asked, rows = ASKED["networks"], list(query.run(self._asked_of, Arguments(services=services)))
            bound = bound._replace(rows=rows, columns=("service",))
        on_machine = kind == "members" and not any(m.of("project") for m in scoped.mentions)
        if on_machine or (kind == "members" and not all(r.cells["project"] for r in bound.rows)):
            asked = ASKED["location"]  # What only a text places there is of no project.
        if query.name == "exposed_services":
            return self._ways_in(query.sentence, bound, scoped)
        said = self._said(asked.sentence or query.sentence, asked.noun, bound, scoped)
        if query.name == "routes":
            said += self._undeclared(bound.rows)
        # Whether others get in, no file says, nor whether a login is the only one.
        doubtful = question.negated
        # What only an archive or an example declares is not known to be so now.
        doubtful = doubtful or all(self.house.is_example(c.doc_id) for s in said for c in s.cites)
        unplaced = self._unplaced() if on_machine else 0
        if unplaced and said:
            said[-1].text += f" Of {plural(unplaced, 'other service')} no file names the machine."
        if kind in ("auth", "admitted"):
            doubtful = doubtful or not all(r.cells["login"] for r in bound.rows)
        if kind == "auth" and all(r.cells["login"] == "" for r in bound.rows):
            said[0].text = f"{said[0].text.removesuffix('.')}, and declares no login before it."
        if question.yes_no and not doubtful:
            said[0].text = f"{'No' if bound.refused else 'Yes'}: {said[0].text}"
        weight = _INCOMPLETE if unplaced else 1.0
        return Found(said, set(bound.used), weight, query.name.replace("_", " "))

    def _unplaced(self) -> int:
        """How many of the house's services run on a machine that nothing names."""
        services = (s for s in self.house.services.values() if s.declared and s.own)
        containers = (self.house.container_of.get(s.number) for s in services)
        return sum(c is None or not self.house.out(c, "RUNS") for c in containers)

    def _ways_in(self, frame: Sentence, bound: _Bound, scoped: ResolvedMentions) -> Found:
        """How services are reached: by public names, by names of the house's own network, and by ports, of
        which no file says whether a router forwards them."""
        ports = [r for r in bound.rows if r.cells["how"] == "published port"]
        names = [r for r in bound.rows if r.cells["how"] != "published port"]
        public = [r for r in names if is_public_name(str(r.cells["at"]).partition("/")[0])]
        local = [r for r in names if r not in public]
        said: list[CitedStatement] = []
        for rows, verb in ((public, frame.verb), (local, f"{frame.verb} on the local network")):
            if rows:
                of_rows = bound._replace(rows=rows)
                said += self._said(replace(frame, verb=verb), "", of_rows, scoped)
        if ports:
            none = "" if names else "no proxy is declared to lead there, and "
            unknown = "whether a router forwards a port from the internet, no file says."
            held = self._said(frame, "", bound._replace(rows=ports), scoped)
            if "service" not in bound.columns:
                of = defaultdict[str, list[str]](list)
                services = list({s.number: s for r in ports for s in self._of(r)}.values())
                called = dict(zip((s.number for s in services), self.names(services), strict=True))
                for row in ports:
                    port = str(row.cells["at"]).rpartition(":")[2]
                    of[called[self._of(row)[0].number]].append(port)
                what = listed([f"{name} ({', '.join(dict.fromkeys(held))})" for name, held in of.items()])
                publish = "publishes" if len(services) == 1 else "publish"
                many = plural(len(services), "service")
                text = f"{many} {publish} ports on the addresses of their machines"
                held = [CitedStatement(f"{text}: {what}.", _lines(c for r in ports for c in r.cites))]
            held[-1].text = f"{held[-1].text.removesuffix('.')}; {none}{unknown}"
            # That a port is published does not say that it is reached from where the question means.
            for one in held:
                one.cites = [replace(c, confidence=min(c.confidence, _DOUBT)) for c in one.cites]
            said += held
        return Found(said, set(bound.used), looked_for="exposed services")

    def _undeclared(self, rows: Sequence[Row]) -> list[CitedStatement]:
        """Which targets of several routes no file declares."""
        held = [r for r in rows if (to := self._of(r)) and not any(s.declared for s in to)]
        if not held or len(rows) == 1:
            return []
        names = list(dict.fromkeys(str(r.cells["target"]) for r in held))
        text = f"No file that was read declares {listed(names)}."
        return [CitedStatement(text, _lines(c for r in held for c in r.cites))]

    def _others(self, scoped: ResolvedMentions) -> Found | None:
        """The services of the house that are on other networks than the one that is named."""
        asked, query = ASKED["network_members"], QUERIES["networks"]
        bound = self._bound(query, asked, scoped)
        inside = {s.number for r in bound.rows for s in self._of(r)}
        every = list(query.run(self._asked_of, Arguments()))
        rows = {s.number: r for r in reversed(every) for s in self._of(r) if s.number not in inside}
        if not bound.columns or not rows:
            return None
        names = listed(sorted({str(r.cells["network"]) for r in bound.rows}))
        text = f"{listed(self.names([self.house.services[n] for n in rows]))} are not on {names}."
        return Found(
            [CitedStatement(text, _lines(c for r in rows.values() for c in r.cites))], set(bound.used)
        )

    def _denied(self, query: Query, scoped: ResolvedMentions) -> Found | None:
        """That the one service that is named has no row."""
        subject = subject_of(scoped)
        if subject is None or len(subject[1]) > 1:
            return None
        _, (service,), used = subject
        if not service.declared or left_open(service, query.field or "ports"):
            return None
        named, where = self.named_elsewhere(service) if not query.closed else ("", [])
        known, more, cited = self.by_chart(service, self.declaration([service]))
        begin = "No: " if known and not named else ""
        text = f"{begin}{self.called(service)}: {query.none}{named and f'; {named}'}{more}."
        said = CitedStatement(text, cited and cited + where, denies=True)
        return Found([said], used, looked_for=query.name.replace("_", " ")) if cited else None

    # --- rows, narrowed by what is named

    def _bound(self, query: Query, asked: Asked, scoped: ResolvedMentions) -> _Bound:
        """The rows that the names of the question narrow: of the ways to begin that which explains most."""
        begun, named = [], False
        for at, column in enumerate(asked.columns):
            for values, words in self._values(column, scoped):
                named = True
                if query.name == "network_peers" and column != "service":
                    continue  # all pairs on a network of many
                kept = [r for r in self._run(query, column, values) if self._holds(r, column, values)]
                if kept:
                    begun.append(
                        self._narrowed(_Bound(kept, (column,), words), asked.columns[at + 1 :], scoped)
                    )
        if begun:
            bound = max(begun, key=lambda b: (len(b.used), not b.refused))
        else:
            every = asked.lists and not named
            bound = _Bound(list(query.run(self._asked_of, Arguments())) if every else [])
        excepted = scoped.question.excepted
        rows = [r for r in bound.rows if not any(s.number in excepted for s in self._of(r))]
        own = [r for r in rows if not (services := self._of(r)) or any(s.own for s in services)]
        if query.name == "routes":
            # A route of the house's own file leads where it says, whether a file declares that or not.
            own = [r for r in rows if r in own or not any(s.declared for s in self._of(r))]
        return bound._replace(rows=own or rows)

    def _narrowed(self, bound: _Bound, columns: tuple[str, ...], scoped: ResolvedMentions) -> _Bound:
        """Rows narrowed by the other names."""
        question, refused = scoped.question, frozenset[int]()
        if bound.columns == ("network",) and question.stores and not question.store_words & bound.used:
            # "The databases on the network" are those of its members that are one.
            products = frozenset().union(*(STORES[question.linked.words[i].text] for i in question.stores))
            kept = [r for r in bound.rows if any(self.is_of(s.number, products) for s in self._of(r))]
            if kept:
                bound = bound._replace(rows=kept, used=bound.used | question.store_words)
        for column in columns:
            for values, words in self._values(column, scoped):
                if words <= bound.used:
                    continue
                kept = [r for r in bound.rows if self._holds(r, column, values)]
                if kept:
                    bound = _Bound(kept, (*bound.columns, column), bound.used | words)
                    break
                # That it is not where another scope is says nothing of anything else.
                if column not in ("project", "host") or len(columns) == 1:
                    refused |= words
        refused -= bound.used
        if any(r.cells.get("login", "") is None for r in bound.rows):
            # Nothing states whether a login guards it.
            refused -= scoped.words(*(m for m in scoped.mentions if m.of("guard")))
        if refused and question.yes_no and bound.columns[0] in _SERVICES:
            return bound._replace(refused=True, used=bound.used | refused)
        return bound

    def _values(self, column: str, scoped: ResolvedMentions) -> Iterator[tuple[set[object], frozenset[int]]]:
        """What each name of the question may be in a column, and the words that say so."""
        question = scoped.question
        if column in ("port", "container_port", "path"):
            held: set[object] = {*(question.paths if column == "path" else question.numbers)}
            texts = set(map(str, held))
            words = frozenset(i for i, w in enumerate(question.linked.words) if w.text in texts)
            if words:
                yield held, words
            return
        if column in ("image", "login"):
            yield from self._by_word(column, scoped)
        subject = subject_of(scoped) if column in _SERVICES else None
        if subject is not None:
            yield {(s.name, s.project) for s in subject[1]}, frozenset(subject[2])
        for mention in scoped.mentions:
            if column in _SERVICES:
                services, said = scoped.services(mention)
                values: set[object] = {(s.name, s.project) for s in services}
            else:
                values, said = self._things(column, mention, scoped), scoped.words(mention)
            if values:
                yield values, frozenset(said)

    def _by_word(self, column: str, scoped: ResolvedMentions) -> Iterator[tuple[set[object], frozenset[int]]]:
        """What a word that is no name may be: a part of an image's name, a kind of login."""
        question = scoped.question
        for i in question.unexplained(()):
            word = question.linked.words[i].text
            if column == "login" and word == "basic":
                yield {word}, frozenset([i])
            elif column == "image" and "image" in question.lower:
                names = ((n, re.split(r"[/:.]", self.house.name(n))) for n in self.house.of_label("Image"))
                nodes: set[object] = {n for n, parts in names if word in parts}
                if nodes:
                    yield nodes, frozenset([i])

    def _things(self, column: str, mention: Mention, scoped: ResolvedMentions) -> set[object]:
        if column == "project":
            return {p for _, p in scoped.projects(mention)}
        if column == "host":
            return set(scoped.hosts(mention))
        if column == "image":
            return {t.node for t in mention.of("image")}
        if column == "file" and mention.label not in ("conf", "config", "file"):
            return set()
        things = scoped.nodes(mention, "network") if column == "network" else mention.of(_THINGS[column])
        if column == "proxy" and not things:
            # Who says nginx means the proxy that is called so.
            names = {self.house.services[t.node].name for t in mention.of("service")}
            return {*(names & {self.house.name(p) for p in self.house.of_label("ReverseProxy")})}
        return {t.value or self.house.name(t.node) for t in things}

    def _run(self, query: Query, column: str, values: set[object]) -> list[Row]:
        """The rows of a query: of the services that are named, else of all."""
        own = ("service", "target")
        if column == "hostname":
            names = (str(v).replace(".*", ".any") for v in values)
            every = [Arguments(text={"hostname": name}) for name in names]
        elif "target" in query.columns and column != "target":
            every = [Arguments()]
        else:
            services = self.house.services.values()
            named = tuple(s for s in services if column not in own or (s.name, s.project) in values)
            images = tuple(v for v in values if isinstance(v, int)) if column == "image" else ()
            every = [Arguments(services=named, images=images)]
        return [row for args in every for row in query.run(self._asked_of, args)]

    def _holds(self, row: Row, column: str, values: set[object]) -> bool:
        held = row.cells.get(column)
        if column in _SERVICES:
            return (held, row.cells.get(_SERVICES[column])) in values
        if column in ("path", "login"):
            return any(str(v).lower() in str(held).lower() for v in values)
        if column == "file":
            return any(c.doc_id in values for c in row.cites)
        if column == "hostname":
            names = {str(v).removesuffix("*") for v in values}
            return any(str(held) == n or (n.endswith(".") and str(held).startswith(n)) for n in names)
        if column in ("host", "project") and held is None:
            return any({s.place, s.project} & values for s in self._of(row))
        return held in values or column == "image"

    def _of(self, row: Row) -> list[Service]:
        """The services that a row is about."""
        key = ("target", "target_project") if "target" in row.cells else ("service", "project")
        return self._named.get((row.cells.get(key[0]), row.cells.get(key[1])), [])

    @cached_property
    def _named(self) -> Mapping[tuple[object, object], list[Service]]:
        found: dict[tuple[object, object], list[Service]] = defaultdict(list)
        for service in self.house.services.values():
            found[service.name, service.project].append(service)
        return found

    # --- what rows say

    def _said(
        self, frame: Sentence, noun: str, bound: _Bound, scoped: ResolvedMentions
    ) -> list[CitedStatement]:
        """The rows of one subject together; where what it has was named, the subjects that have it."""
        parts = [(*phrase(frame, self._cells(r)), r) for r in bound.rows]
        of_subject = any(f"{{{c}}}" in frame.subject for c in bound.columns)
        counts, whos = scoped.question.counts, {who for who, _, _ in parts}
        several = not frame.subject or (not of_subject and len({what for _, what, _ in parts}) < len(whos))
        groups: dict[str, list[tuple[str, str, Row]]] = defaultdict(list)
        for who, what, row in parts:
            groups["" if not frame.subject else what if several else who].append((who, what, row))
        said = []
        for key, held in groups.items():
            rows = [row for *_, row in held]
            cited = _lines(c for r in rows for c in r.cites)
            if several:
                services = list({s.number: s for r in rows for s in self._of(r)}.values())
                among = frame.subject in ("", "{service}") and services
                names = self.names(services) if among else list(dict.fromkeys(p[0] for p in held))
                verb = _of_several(frame.verb.rstrip(":")) if len(names) > 1 else frame.verb.rstrip(":")
                text = f"{listed(names)} {' '.join(filter(None, (verb, key)))}."
                if counts or (among and over(services)):
                    count = f"{plural(len(names), 'service')}{over(services) if among else ''}"
                    text = f"{count} {' '.join(filter(None, (verb, key)))}: {listed(names)}."
            else:
                names = list(dict.fromkeys(what for _, what, _ in held))
                count = f"{plural(len(names), noun)}: " if noun and (counts or noun == "service") else ""
                text = " ".join(filter(None, (key, frame.verb, f"{count}{listed(names)}."))).strip()
            said.append(
                CitedStatement(f"{text[0].upper()}{text[1:]}" if text.startswith("the ") else text, cited)
            )
        if len(said) > MAX_SCOPES or not of_subject:
            texts = [s.text.removesuffix(".") for s in said]
            more = f"; and {len(texts) - MAX_CITED} more" if len(texts) > MAX_CITED else ""
            text = f"{'; '.join(texts[:MAX_CITED])}{more}."
            return [CitedStatement(text, _lines(c for s in said for c in s.cites))]
        return said

    def _cells(self, row: Row) -> dict[str, object]:
        """A row with a network by its name in its project before its real one."""
        network, project = str(row.cells.get("network", "")), row.cells.get("project")
        short = network.removeprefix(f"{project}_")
        return {**row.cells, "network": network if short == network else f"{short} ({network})"}


def _is_within(scoped: ResolvedMentions, project: Mention) -> bool:
    """Whether a preposition says that something is part of a project."""
    words = scoped.question.linked.words[: project.first]
    before = [w.text for w in words if w.text not in LABELS and w.text not in ("a", "an", "the")]
    return bool(before) and before[-1] in _WITHIN


def _is_where(address: str, *, everywhere: bool) -> bool:
    """Whether a port that is published on an address is so on all addresses, or on the loopback alone."""
    try:
        ip = ip_address(address.strip("[]"))
    except ValueError:
        # The name of the machine, where no address is given; of a variable nothing is known.
        return everywhere and not address.startswith("$")
    return ip.is_unspecified if everywhere else ip.is_loopback


def _of_several(verb: str) -> str:
    """A verb, with what follows it, as it is said of several."""
    first, space, rest = verb.partition(" ")
    return f"{_OF_SEVERAL.get(first, first.removesuffix('s'))}{space}{rest}"


def _lines(cited: Iterable[StatementSpan]) -> list[StatementSpan]:
    """Each line once, at most :data:`MAX_CITED`."""
    return list({(c.doc_id, c.line): c for c in cited}.values())[:MAX_CITED]
