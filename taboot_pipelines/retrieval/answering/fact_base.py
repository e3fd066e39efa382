"""What the kinds of facts have in common: how things are called, and lists of services."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions, subject_of
from taboot_pipelines.retrieval.answering.entity_linking import Mention
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.answering.vocabulary import STORES
from taboot_pipelines.retrieval.queries.citations import (
    MAX_CITED,
    MAX_SCOPES,
    CitedStatement,
    Found,
    StatementSpan,
    cite,
    cites,
    listed,
    plural,
)
from taboot_pipelines.retrieval.queries.relations import (
    declaring_edges,
    named_in_full,
    product_of,
    reachable,
    unexplained_mentions,
)
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, ServiceIndex

#: Documents that are named of those that name a service.
_MAX_NAMING = 3
#: How sure it is that a document that names a service states what is asked of it.
NAMING = 0.5


def over(services: Sequence[Service]) -> str:
    """``in 3 projects``, with a blank before it, of services of several; else empty."""
    projects = {(s.place, s.project) for s in services}
    return f" in {plural(len(projects), 'project')}" if len(projects) > 1 else ""


class FactKind:
    """Facts of one kind over one house."""

    def __init__(self, house: ServiceIndex) -> None:
        self.house = house

    def subject(self, scoped: ResolvedMentions) -> tuple[Mention, list[Service], set[int]] | None:
        """The mention whose services the question is about: the first that another does not narrow."""
        return subject_of(scoped)

    def each(
        self,
        scoped: ResolvedMentions,
        say: Callable[[Service], CitedStatement | None],
        looked_for: str,
        weight: float = 1.0,
    ) -> Found | None:
        """What is said of each service that the question is about, of at most :data:`MAX_SCOPES`."""
        subject = self.subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        said = [s for s in map(say, services[:MAX_SCOPES]) if s is not None and s.cites]
        return Found(said, used, weight, looked_for) if said else None

    def called(self, service: Service, among: Sequence[Service] = ()) -> str:
        """A service's name, with its project where there is one."""
        return f"{service.name} ({service.project})" if service.declared else service.name

    def names(self, services: Sequence[Service]) -> list[str]:
        """The names of services, each with its project where these are of several."""
        projects = {(s.place, s.project) for s in services}
        return [self.called(s) if len(projects) > 1 else s.name for s in services]

    def named_elsewhere(
        self, service: Service, beside: Service | None = None
    ) -> tuple[str, list[StatementSpan]]:
        """``it is named in …``, and where: the documents of which nothing more is known about a service, of
        these those that name another one that is given. What is declared nowhere may be said there; empty
        where there are none."""
        edges = unexplained_mentions(self.house, service)
        if beside is not None:
            both = {e.doc_id for e in self.house.mentions(beside.number)}
            return self._naming("both are", [cite(e) for e in edges if e.doc_id in both])
        known = {e.doc_id for e in edges}
        in_full = [c for c in named_in_full(self.house, service) if c.doc_id not in known]
        return self._naming("it is", [*map(cite, edges), *in_full])

    def named_beside(self, service: Service, other: Service) -> tuple[str, list[StatementSpan]]:
        """The same of another service that the files of a service name in full."""
        return self._naming(f"{other.name} is", named_in_full(self.house, other, service))

    def _naming(self, who: str, named: list[StatementSpan]) -> tuple[str, list[StatementSpan]]:
        paths = [self.house.documents[c.doc_id].path for c in named[:_MAX_NAMING]]
        more = [f"{len(named) - _MAX_NAMING} more"] if len(named) > _MAX_NAMING else []
        # What these say of it is not read, so an answer that rests on them is not sure.
        places = [replace(c, confidence=NAMING) for c in named[:_MAX_NAMING]]
        return (f"{who} named in {listed(paths + more)}" if named else ""), places

    @cached_property
    def products(self) -> dict[int, dict[str, Edge]]:
        """{service: {what it runs, by its image: the edge that says so}}"""
        found: dict[int, dict[str, Edge]] = {}
        for edge in self.house.of_type("BUILDS"):
            found.setdefault(edge.start, {}).setdefault(product_of(self.house, edge.end), edge)
        return found

    def is_of(self, node: int, products: frozenset[str]) -> bool:
        """Whether a service runs one of these products, by its image or its name."""
        said = " ".join((*self.products.get(node, ()), self.house.name(node))).lower()
        return any(
            word in products or not products.isdisjoint(STORES.get(word, ()))
            for word in re.findall(r"[a-z]+", said)
        )

    def declaration(self, services: Sequence[Service]) -> list[StatementSpan]:
        """Where services are declared: their image, else any edge of theirs."""
        return cites(e for s in services for e in declaring_edges(self.house, s))

    def declarations(self, services: Sequence[Service]) -> list[StatementSpan]:
        return self.declaration(services[: 2 * MAX_CITED])

    def listing(
        self,
        scoped: ResolvedMentions,
        services: Sequence[Service],
        edges: Sequence[Edge],
        what: str,
        used: set[int],
        total: int | None = None,
    ) -> Found:
        """``a, b and c do what``, or how many; without those that the question leaves out."""
        distinct_services = list({s.number: s for s in services}.values())
        excepted = scoped.question.excepted
        only = [s for s in distinct_services if s.number not in excepted]
        nothing_but = "nothing but " if distinct_services and not only else ""
        if excepted and only:
            edges = [e for e in edges if e.start not in excepted]
            distinct_services, total = only, None
        count = total or len(distinct_services)
        names = nothing_but + listed(self.names(distinct_services), count)
        verb, _, rest = what.partition(" ")
        if count == 1:
            verb = {
                "use": "uses",
                "publish": "publishes",
                "depend": "depends",
                "are": "is",
                "need": "needs",
                "start": "starts",
                "connect": "connects",
                "run": "runs",
            }.get(verb, verb)
        if not nothing_but and (scoped.question.counts or over(distinct_services)):
            text = f"{plural(count, 'service')}{over(distinct_services)} {verb} {rest}: {names}."
        else:
            text = f"{names} {verb} {rest}."
        return Found([CitedStatement(text, cites(edges))], used, looked_for=what)

    def published(self, service: Service, edges: Sequence[Edge], question: Question) -> CitedStatement:
        pairs: dict[tuple[int, int, str], list[str]] = {}
        for edge in edges:
            facts = edge.properties
            port = facts.get("port") or 0
            key = (port, facts.get("targetPort") or port, str(facts.get("hostIp") or ""))
            pairs.setdefault(key, []).append(str(facts.get("protocol") or "tcp"))
        said = []
        for (port, target, address), protocols in pairs.items():
            text = f"{port}/{'+'.join(sorted(set(protocols)))}"
            text += f" (container port {target})" if target != port else ""
            text += f" on {address}" if address else ""
            said.append(text)
        # An address of the port's own is told with it.
        ends = [(self.house.name(e.end), e.properties.get("hostIp")) for e in edges]
        others = [name for name, own in ends if name != own]
        places = listed(others) if others else ""
        where = "" if places in ("", "0.0.0.0", "::") else f" on {places}"
        if question.counts:
            count = len({(p, a) for p, _, a in pairs})
            return CitedStatement(
                f"{self.called(service)} publishes {plural(count, 'port')}{where}: {listed(said)}.",
                cites(edges),
            )
        # What only the machine itself reaches is open to nobody else by this, and may be by a proxy.
        asked = question.yes_no and "publish" not in question.lower
        inside = asked and not reachable(edges, perhaps=True)
        begin = "Yes: " if question.yes_no and not inside else ""
        end = ", which the machine itself reaches alone" if inside else ""
        noun = "port" if len(said) == 1 else "ports"
        return CitedStatement(
            f"{begin}{self.called(service)} publishes {noun} {listed(said, len(said))}{where}{end}.",
            cites(edges),
        )
