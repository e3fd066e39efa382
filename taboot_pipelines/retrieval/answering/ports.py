"""The ports of a service: those that it publishes, else where it is reached; of one that shares another's
network those that are published there."""

from __future__ import annotations

import json
import re

from taboot_pipelines.retrieval.answering.config import Config
from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions
from taboot_pipelines.retrieval.answering.fact_base import FactKind
from taboot_pipelines.retrieval.answering.typed_facts import TypedFacts
from taboot_pipelines.retrieval.queries.citations import (
    MAX_SCOPES,
    CitedStatement,
    Found,
    StatementSpan,
    cites,
    listed,
)
from taboot_pipelines.retrieval.queries.relations import in_force, left_open
from taboot_pipelines.retrieval.queries.service_index import Service, ServiceIndex, distinct

#: What a page of a service is called.
_PAGE = frozenset({"web", "ui", "webui", "interface", "page"})


class Ports(FactKind):
    """Which ports are published, by whom, and where else a service listens."""

    def __init__(self, house: ServiceIndex, config: Config, typed: TypedFacts) -> None:
        super().__init__(house)
        self._config = config
        self._typed = typed

    def ports(self, scoped: ResolvedMentions) -> Found | None:
        question = scoped.question
        if len(scoped.mentions) > 1 and any(m.of("proxy") for m in scoped.mentions):
            routed = self._typed.find("routes", scoped)
            if routed is not None and len(routed.used) >= len(scoped.words(*scoped.mentions)):
                return routed
        if (shared := self.shared(scoped)) is not None:
            return shared
        subject = self.subject(scoped)
        if subject is None:
            of_project = any(map(scoped.projects, scoped.mentions))
            return self._typed.find("publishers" if of_project else "routes", scoped)
        _, services, used = subject
        published = bool(
            re.search(
                r"\b(?:publish\w*|expos\w+|host ports?|external\w*|public\w*|mapped|forward\w*"
                r"|binds?|bound)\b",
                question.lower,
            )
        )
        statements: list[CitedStatement] = []
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "BINDS")
            if edges:
                statements.append(self.published(service, edges, question))
                continue
            if (left := self._left_open(service)) is not None:
                statements.append(left)
                continue
            reached = self._reached(service)
            if reached is not None and not published:
                statements.append(reached)
            elif service.declared and published:
                known, more, where = self._typed.by_chart(service, self.declaration([service]))
                begin = "No: " if question.yes_no and known else ""
                text = f"{begin}{self.called(service)} publishes no port{more}."
                statements.append(CitedStatement(text, where, denies=True))
        statements = [s for s in statements if s.cites]
        if len(statements) > 1:
            statements = [s for s in statements if "publishes no port" not in s.text] or statements[:1]
        if not statements:
            return None
        if question.numbers:
            used = used | {
                i
                for i, w in enumerate(question.linked.words)
                if w.text.isdigit() and any(w.text in s.text for s in statements)
            }
        return Found(statements, used, looked_for="ports")

    def _left_open(self, service: Service) -> CitedStatement | None:
        """The ports that a service has inside and publishes by variables that have no value."""
        variables = left_open(service, "ports")
        if not variables:
            return None
        said, where = [], list[StatementSpan]()
        for entry in self._config.of_service(service):
            short, space, note = entry.shown.partition(" (")
            at, _, inside = short.rpartition(":")
            if entry.value.path[2:] == ("ports",) and inside.partition("/")[0].isdigit() and "," not in short:
                said.append(
                    f"on port {inside}, published at {at}{space}{note}" if at else f"on port {inside}"
                )
                where += [entry.cite, *entry.also]
        if not said:
            text = f"The ports of {self.called(service)} are set elsewhere, by {listed(variables)}."
            return CitedStatement(text, self.declaration([service]))
        return CitedStatement(f"{self.called(service)} listens {listed(said)}.", where)

    def _reached(self, service: Service) -> CitedStatement | None:
        """The port at which proxies, else other services, reach one that publishes none."""
        routes = in_force(self.house, self.house.into(service.number, "ROUTES_TO"))
        for edges in (routes, self.house.into(service.number, "CONNECTS_TO")):
            known = [e for e in edges if e.properties.get("port")]
            if known:
                port = listed([str(e.properties["port"]) for e in known])
                by = listed([self.house.name(e.start) for e in known])
                rest = ", and publishes none" if service.declared else ""
                return CitedStatement(
                    f"{self.called(service)} is reached on port {port} by {by}{rest}.", cites(known)
                )
        # A Service of Kubernetes is reached in its cluster.
        offered = [
            e
            for e in self.house.out(service.number, "EXPOSES_ENDPOINT")
            if e.method.startswith("kubernetes_")
        ]
        ports = distinct(str(json.loads(self.house.key(e.end))[2]) for e in offered)
        text = f"{self.called(service)} listens on port {listed(ports)}, and publishes none."
        return CitedStatement(text, cites(offered)) if offered else None

    def shared(self, scoped: ResolvedMentions) -> Found | None:
        """The ports by which a service is reached that shares another's network and publishes them there."""
        subject = self.subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        for service in services[:MAX_SCOPES]:
            owners = [
                e for e in self.house.out(service.number, "DEPENDS_ON") if "compose_network_mode" in e.methods
            ]
            bound = [b for e in owners for b in self.house.out(e.end, "BINDS")]
            if not bound or self.house.out(service.number, "BINDS"):
                continue
            settings = [p for p in self._config.of_service(service) if p.value.path[-1].endswith("PORT")]
            own = {p.value.value for p in settings}
            kept = [b for b in bound if str(b.properties.get("targetPort") or b.properties["port"]) in own]
            owner = self.house.services[owners[0].end]
            if not kept:
                continue  # which of the ports leads to it is not stated
            made = self.published(owner, kept, scoped.question)
            said = made.text.removeprefix("Yes: ")
            text = f"{self.called(service)} shares the network of {owner.name}; {said}"
            used = used | {i for i, w in enumerate(scoped.question.linked.words) if w.text in _PAGE}
            return Found(
                [CitedStatement(text, [*made.cites, *(p.cite for p in settings), *cites(owners)])],
                used,
                looked_for="its ports",
            )
        return None
