"""Networks of services, services of networks, and what two have in common."""

from __future__ import annotations

from collections.abc import Sequence

from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions
from taboot_pipelines.retrieval.answering.entity_linking import Mention
from taboot_pipelines.retrieval.answering.fact_base import FactKind
from taboot_pipelines.retrieval.answering.vocabulary import STORES
from taboot_pipelines.retrieval.queries.citations import (
    MAX_SCOPES,
    CitedStatement,
    Found,
    cites,
    listed,
    plural,
)
from taboot_pipelines.retrieval.queries.relations import networks_of, shares_namespace
from taboot_pipelines.retrieval.queries.service_index import Edge, Service

_NAMESPACE_WORDS = frozenset({"network", "namespace", "mode", "service", "share", "stack"})


#: A name, the services that it means and the words that say so.
_Named = tuple[Mention, list[Service], set[int]]


def _heads(named: list[_Named]) -> list[_Named]:
    """Of names that follow each other without a word between ("the wiki db") the last, which is the thing
    meant, with the words of all of them."""
    heads: list[_Named] = []
    for mention, services, used in named:
        if heads and heads[-1][0].last == mention.first and len(named) > 2:
            used = used | heads.pop()[2]
        heads.append((mention, services, used))
    return heads


class Networks(FactKind):
    """Networks of services, services of networks, and what two have in common."""

    def networks(self, scoped: ResolvedMentions) -> Found | None:
        subject = self.subject(scoped)
        if subject is None:
            return self._project_networks(scoped)
        mention, services, used = subject
        if scoped.question.yes_no:
            return self._on_network(scoped, mention, services, used)

        def joins(service: Service) -> CitedStatement | None:
            edges = networks_of(self.house, service)
            names = [self.network(e.end, service.project) for e in edges]
            if not names:
                return None  # its network mode says why, and is read with its line out of the file
            noun = "network" if len(names) == 1 else "networks"
            count = f"{len(names)} {noun}: " if scoped.question.counts else f"the {noun} "
            return CitedStatement(f"{self.called(service)} is on {count}{listed(names)}.", cites(edges))

        return self.each(scoped, joins, "networks")

    def _project_networks(self, scoped: ResolvedMentions) -> Found | None:
        for mention in scoped.mentions:
            projects = scoped.projects(mention)
            services = [
                self.house.services[n] for key in sorted(projects) for n in self.house.projects.get(key, ())
            ]
            edges = [e for s in services for e in networks_of(self.house, s)]
            first = {e.end: e for e in reversed(edges)}
            if first:
                project = services[0].project
                names = [self.network(node, project) for node in sorted(first, key=self.house.name)]
                return Found(
                    [
                        CitedStatement(
                            f"The services of {project} are on"
                            f" {plural(len(names), 'network')}: {listed(names)}.",
                            cites(first.values()),
                        )
                    ],
                    scoped.words(mention),
                    looked_for="networks",
                )
        return None

    def _on_network(
        self, scoped: ResolvedMentions, mention: Mention, services: list[Service], used: set[int]
    ) -> Found | None:
        for other in scoped.mentions:
            nodes = {t.node for t in scoped.nodes(other, "network")} if other is not mention else set()
            if not nodes:
                continue
            statements = []
            for service in services[:MAX_SCOPES]:
                edges = networks_of(self.house, service)
                hit = [e for e in edges if e.end in nodes]
                name = self.network((hit[0].end if hit else min(nodes)), service.project)
                if hit:
                    statements.append(
                        CitedStatement(f"Yes: {self.called(service)} is on the network {name}.", cites(hit))
                    )
                elif edges:
                    names = listed([self.network(e.end, service.project) for e in edges])
                    statements.append(
                        CitedStatement(
                            f"No: {self.called(service)} is on {names}, not on {name}.", cites(edges)
                        )
                    )
            if statements:
                return Found(statements, used | scoped.words(other), looked_for="the network")
        return None

    def network_members(self, scoped: ResolvedMentions) -> Found | None:
        several = [m for m in scoped.mentions if scoped.nodes(m, "network")]
        if len(several) > 1:
            return self._on_all(scoped, several)
        for mention in scoped.mentions:
            things = scoped.nodes(mention, "network")
            if not things:
                continue
            edges = [e for t in things for e in self.house.into(t.node, "RUNS_IN")]
            pairs = [
                (self.house.services[self.house.service_of[e.start]], e)
                for e in edges
                if e.start in self.house.service_of
            ]
            if not pairs:
                continue
            if scoped.question.negated:
                return self._not_on(scoped, mention, [s for s, _ in pairs])
            total: int | None = sum(self.house.count_into(t.node, "RUNS_IN") for t in things)
            # "The databases on the network" are those of its members that are one.
            asked = [i for i in scoped.question.stores if i not in range(mention.first, mention.last)]
            products = frozenset().union(*(STORES[scoped.question.linked.words[i].text] for i in asked))
            kept = [p for p in pairs if self.is_of(p[0].number, products)]
            if kept:
                pairs, total = kept, None
            services = [s for s, _ in pairs]
            names = listed(sorted({self.house.name(t.node) for t in things}))
            used = {
                i
                for m in scoped.mentions
                if m is mention or (scoped.projects(m) and not m.of("service"))
                for i in scoped.words(m)
            }
            used |= scoped.question.store_words if kept else set()
            return self.listing(
                scoped, services, [e for _, e in pairs], f"are on the network {names}", used, total
            )
        return None

    def _not_on(self, scoped: ResolvedMentions, mention: Mention, members: Sequence[Service]) -> Found | None:
        """The services of the house that are on other networks than the one that is named."""
        inside = {s.number for s in members}
        sharing = {e.start for n in inside for e in self.house.into(n, "DEPENDS_ON") if shares_namespace(e)}
        pairs = [
            (s, e)
            for s in self.house.services.values()
            if s.declared and s.own and s.number not in inside | sharing
            for e in networks_of(self.house, s)[:1]
        ]
        if not pairs:
            return None
        others, used = self.scope_pairs(scoped, pairs)
        what = f"are not on the network {mention.text}"
        return self.listing(
            scoped, [s for s, _ in others], [e for _, e in others], what, used | scoped.words(mention)
        )

    def network_peers(self, scoped: ResolvedMentions) -> Found | None:
        """The other services on the networks of a service, or on the one of them that is named."""
        subject = self.subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        named = [m for m in scoped.mentions if not m.of("service") and scoped.nodes(m, "network")]
        wanted = {t.node for m in named for t in scoped.nodes(m, "network")}
        own = {e.end for s in services[:MAX_SCOPES] for e in networks_of(self.house, s)}
        edges = [
            e
            for node in sorted(own & wanted if wanted else own)
            for e in self.house.into(node, "RUNS_IN")
            if self.house.service_of.get(e.start) not in {None, *(s.number for s in services)}
        ]
        if not edges:
            return None
        others = [self.house.services[self.house.service_of[e.start]] for e in edges]
        networks = listed(sorted({self.house.name(e.end) for e in edges}))
        what = f"are on {networks} with {listed([s.name for s in services])}"
        return self.listing(scoped, others, edges, what, used | scoped.words(*named))

    def _on_all(self, scoped: ResolvedMentions, mentions: Sequence[Mention]) -> Found | None:
        """The services that are on each of several networks."""
        sets = []
        for mention in mentions:
            nodes = [t.node for t in scoped.nodes(mention, "network")]
            edges = [e for n in nodes for e in self.house.into(n, "RUNS_IN")]
            sets.append(
                {self.house.service_of[e.start]: e for e in edges if e.start in self.house.service_of}
            )
        common = [n for n in sets[0] if all(n in s for s in sets[1:])]
        if not common:
            return None
        services = [self.house.services[n] for n in common]
        names = listed([m.text for m in mentions])
        return self.listing(
            scoped, services, [s[n] for n in common for s in sets], f"are on {names}", scoped.words(*mentions)
        )

    def shared_networks(self, scoped: ResolvedMentions) -> Found | None:
        named = [(m, *scoped.services(m)) for m in scoped.mentions]
        named = _heads([n for n in named if n[1]])
        store = scoped.question.store
        if len(named) < 2 or (store is not None and store not in scoped.question.named):
            return None  # whether they share a database is another question
        (_, left, used), (_, right, more) = named[0], named[1]
        if len(left) > MAX_SCOPES or len(right) > MAX_SCOPES:
            return None
        found: list[tuple[Service, Service, list[Edge], list[Edge]]] = []
        for a in left:
            for b in right:
                ours, theirs = networks_of(self.house, a), networks_of(self.house, b)
                both = {e.end for e in ours} & {e.end for e in theirs}
                found.append((a, b, [e for e in ours if e.end in both], [e for e in theirs if e.end in both]))
        hits = [f for f in found if f[2]] or found[:1]
        statements = []
        for a, b, ours, theirs in hits[:MAX_SCOPES]:
            if ours:
                project = a.project if a.project == b.project else ""
                names = listed([self.network(e.end, project) for e in ours])
                begin = "Yes: " if scoped.question.yes_no else ""
                noun = "network" if len(ours) == 1 else "networks"
                statements.append(
                    CitedStatement(
                        f"{begin}{self.called(a)} and {self.called(b)} share the {noun} {names}.",
                        cites([*ours, *theirs]),
                    )
                )
            elif networks_of(self.house, a) and networks_of(self.house, b):
                begin = "No: " if scoped.question.yes_no else ""
                mine = listed([self.network(e.end, a.project) for e in networks_of(self.house, a)])
                other = listed([self.network(e.end, b.project) for e in networks_of(self.house, b)])
                statements.append(
                    CitedStatement(
                        f"{begin}{self.called(a)} (on {mine}) and {self.called(b)} (on {other})"
                        " share no network.",
                        cites([*networks_of(self.house, a), *networks_of(self.house, b)]),
                    )
                )
        return Found(statements, used | more, looked_for="a shared network") if statements else None

    def sharers(self, scoped: ResolvedMentions) -> Found | None:
        """Whose network namespace is another service's."""
        subject = self.subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        edges = [
            e
            for s in services[:MAX_SCOPES]
            for e in self.house.into(s.number, "DEPENDS_ON")
            if shares_namespace(e)
        ]
        others = [self.house.services[e.start] for e in edges if e.start in self.house.services]
        if not others:
            return None
        names = listed([self.called(s) for s in services])
        words = {i for i, w in enumerate(scoped.question.linked.words) if w.text in _NAMESPACE_WORDS}
        return self.listing(scoped, others, edges, f"use the network namespace of {names}", used | words)
