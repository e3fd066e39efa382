"""How traffic reaches a service: host name, proxy, target, TLS and authentication."""

from __future__ import annotations

import re
from collections.abc import Sequence

from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions
from taboot_pipelines.retrieval.answering.entity_linking import Mention
from taboot_pipelines.retrieval.answering.fact_base import FactKind
from taboot_pipelines.retrieval.queries.citations import (
    MAX_SCOPES,
    CitedStatement,
    Found,
    cites,
    listed,
    plural,
)
from taboot_pipelines.retrieval.queries.relations import (
    guard,
    guard_product,
    guards,
    in_force,
    target_name_of,
    target_of,
    way_of,
    ways,
)
from taboot_pipelines.retrieval.queries.service_index import Edge, distinct

_PLURAL_NAMES = re.compile(r"\b(?:(?:host ?|domain )?names|(?:sub ?)?domains|urls|hosts|addresses)\b")


_SITES = frozenset({"site", "sites", "vhost", "vhosts", "page", "pages", "sit", "sits", "auth"})


class Routes(FactKind):
    """How traffic reaches a service: host name, proxy, target, TLS and authentication."""

    def routes_of(self, scoped: ResolvedMentions) -> tuple[list[Edge], set[int]]:
        """The routes that the mentions mean, by service, host name, file or proxy, those in force first."""
        sets: list[tuple[dict[str, Edge], set[int], set[int]]] = []
        every: list[Edge] | None = None
        for mention in scoped.mentions:
            found: dict[str, Edge] = {}
            services, used = scoped.services(mention)
            for service in services[:MAX_SCOPES]:
                found.update((e.edge_id, e) for e in self.house.into(service.number, "ROUTES_TO"))
            hosts = {t.value for t in mention.of("route") if t.how != "alias"} or {
                t.value for t in mention.of("route")
            }
            files = {t.value for t in mention.of("file")}
            addresses = {t.node for t in mention.of("address")}
            proxies = {t.node for t in mention.of("proxy")} or self._run_by(mention)
            if hosts or files or addresses:
                every = every if every is not None else self.house.of_type("ROUTES_TO")
                exact = any(t.kind == "route" and t.how in ("exact", "normalized") for t in mention.things)
                if not (found and not exact and mention.label not in ("conf", "config", "file")):
                    found.update(
                        (e.edge_id, e)
                        for e in every
                        if e.properties.get("host") in hosts or e.doc_id in files or e.end in addresses
                    )
            if found or proxies:
                sets.append((found, proxies, used | scoped.words(mention)))
        if not sets and scoped.question.paths:
            sets.append(({e.edge_id: e for e in self.house.of_type("ROUTES_TO")}, set(), set()))
        if not sets:
            return [], set()
        sets.sort(key=lambda s: bool(s[1]))
        first = sets[0]
        kept, used = (
            first[0] or {e.edge_id: e for p in first[1] for e in self.house.out(p, "ROUTES_TO")},
            set(first[2]),
        )
        for found, through, words in sets[1:]:
            both = {k: v for k, v in kept.items() if v.start in through} or {
                k: v for k, v in kept.items() if k in found
            }
            if both:
                kept, used = both, used | words
        edges = in_force(self.house, list(kept.values()))
        paths = scoped.question.paths
        if paths:
            edges = [
                e
                for e in edges
                if any(
                    str(e.properties.get("path") or e.properties.get("location") or "")
                    .rstrip("/")
                    .endswith(p)
                    for p in paths
                )
            ]
            used |= {i for i, w in enumerate(scoped.question.linked.words) if w.text in paths}
        return edges, used

    def routes(self, scoped: ResolvedMentions) -> Found | None:
        edges, used = self.routes_of(scoped)
        if not edges:
            return self._unrouted(scoped)
        if scoped.question.yes_no:
            text = f"Yes: {self._described(edges)}"
        else:
            text = self._described(edges)
        return Found([CitedStatement(text, cites(edges))], used, looked_for="the route")

    def _described(self, edges: Sequence[Edge]) -> str:
        """``way → proxy → target``, ways with one proxy and target together."""
        groups: dict[tuple[str, str], list[Edge]] = {}
        for edge in edges:
            proxy = self.house.name(edge.start)
            scheme = edge.properties.get("scheme")
            target = target_of(self.house, edge)
            target = f"{scheme}://{target}" if scheme and scheme != "http" else target
            groups.setdefault((proxy, target), []).append(edge)
        said = []
        for (proxy, target), held in list(groups.items())[:MAX_SCOPES]:
            said_ways = listed(ways(self.house, held)[:8])
            tls = " (TLS)" if any(e.properties.get("tls") for e in held) else ""
            said.append(f"{said_ways} → {proxy}{tls} → {target}")
        return "; ".join(said) + "."

    def _unrouted(self, scoped: ResolvedMentions) -> Found | None:
        """A service that no proxy leads to: the port that it publishes."""
        subject = self.subject(scoped)
        if subject is None or scoped.question.yes_no:
            return None
        _, services, used = subject
        statements = []
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "BINDS")
            if edges:
                made = self.published(service, edges, scoped.question)
                statements.append(CitedStatement(f"No proxy leads to it; {made.text}", made.cites))
        return Found(statements, used, 0.95, "the route") if statements else None

    def route_ports(self, scoped: ResolvedMentions) -> Found | None:
        edges, used = self.routes_of(scoped)
        edges = [e for e in edges if e.properties.get("port")]
        if not edges:
            return None
        by: dict[str, list[Edge]] = {}
        for edge in edges:
            by.setdefault(f"{target_of(self.house, edge)}", []).append(edge)
        text = listed(
            [f"port {e[0].properties['port']} of {target_name_of(self.house, e[0])}" for e in by.values()]
        )
        return Found([CitedStatement(f"Traffic goes to {text}.", cites(edges))], used, looked_for="port")

    def _run_by(self, mention: Mention) -> set[int]:
        """The proxies that the services of a mention run, which have their names: who says nginx means the
        proxy whose image that is."""
        names = {self.house.services[t.node].name for t in mention.of("service")}
        return {p for p in self.house.of_label("ReverseProxy") if self.house.name(p) in names}

    def reached_through(self, called: str, edges: Sequence[Edge]) -> CitedStatement:
        """What is reached through a proxy, each target once, and the ways there."""
        first = list({e.end: e for e in reversed(edges)}.values())
        first.sort(key=lambda e: target_name_of(self.house, e))
        names = distinct(target_name_of(self.house, e) for e in first)
        places = listed(ways(self.house, edges))
        verb = "is" if len(names) == 1 else "are"
        return CitedStatement(f"{listed(names)} {verb} reached through {called}: {places}.", cites(first))

    def behind(self, scoped: ResolvedMentions) -> Found | None:
        edges, used = self.routes_of(scoped)
        if not edges or not any(m.of("route") for m in scoped.mentions):
            return None
        targets = listed([target_of(self.house, e) for e in edges])
        places = ways(self.house, edges)
        proxies = listed([self.house.name(e.start) for e in edges])
        return Found(
            [
                CitedStatement(
                    f"{listed(places[:8])} {'leads' if len(places) == 1 else 'lead'} to {targets} through"
                    f" {proxies}.",
                    cites(edges),
                )
            ],
            used,
            looked_for="what stands behind it",
        )

    def hostnames(self, scoped: ResolvedMentions) -> Found | None:
        edges, used = self.routes_of(scoped)
        edges = [e for e in edges if e.properties.get("host") or e.properties.get("path")]
        subject = self.subject(scoped)
        meant = {s.number for m in scoped.mentions for s in scoped.services(m)[0]}
        # The host names of a proxy are all that it serves; its one name is its own.
        every = any(m.of("proxy") for m in scoped.mentions) and _PLURAL_NAMES.search(scoped.question.lower)
        hosts = {t.value for m in scoped.mentions for t in m.of("route")}
        if meant and not every:
            edges = [e for e in edges if e.end in meant or e.properties.get("host") in hosts]
        if not edges:
            return None
        places = ways(self.house, [e for e in edges if e.properties.get("host")]) or ways(self.house, edges)
        named = [self.called(s) for s in subject[1]] if subject else [m.text for m in scoped.mentions[-1:]]
        names = listed(named[:MAX_SCOPES])
        proxies = listed([self.house.name(e.start) for e in edges])
        count = f"{plural(len(places), 'name')}: " if scoped.question.counts else ""
        return Found(
            [
                CitedStatement(
                    f"{names} is reached at {count}{listed(places)} through {proxies}.", cites(edges)
                )
            ],
            used,
            looked_for="its host name",
        )

    def proxy_scheme(self, scoped: ResolvedMentions) -> Found | None:
        edges, used = self.routes_of(scoped)
        edges = [e for e in edges if e.properties.get("scheme")]
        if not edges:
            return self._protocol(scoped)
        schemes = distinct(str(e.properties["scheme"]) for e in edges)
        target = listed([target_of(self.house, e) for e in edges])
        proxies = listed([self.house.name(e.start) for e in edges])
        return Found(
            [CitedStatement(f"{proxies} reaches {target} by {listed(schemes)}.", cites(edges))],
            used,
            looked_for="the protocol",
        )

    def _protocol(self, scoped: ResolvedMentions) -> Found | None:
        subject = self.subject(scoped)
        if subject is None or not scoped.question.numbers:
            return None
        _, services, used = subject
        edges = [
            e
            for s in services
            for e in self.house.out(s.number, "BINDS")
            if e.properties.get("port") in scoped.question.numbers
        ]
        if not edges:
            return None
        protocols = distinct(str(e.properties.get("protocol") or "tcp") for e in edges)
        words = {i for i, w in enumerate(scoped.question.linked.words) if w.text.isdigit()}
        return Found(
            [
                CitedStatement(
                    f"{self.called(services[0])} publishes port {edges[0].properties['port']}"
                    f" by {listed(protocols)}.",
                    cites(edges),
                )
            ],
            used | words,
            looked_for="the protocol",
        )

    def proxied(self, scoped: ResolvedMentions) -> Found | None:
        for mention in scoped.mentions:
            proxies = {t.node for t in mention.of("proxy")}
            edges = in_force(self.house, [e for p in proxies for e in self.house.out(p, "ROUTES_TO")])
            first = {e.end: e for e in reversed(edges)}
            if first:
                targets = sorted(first.values(), key=lambda e: target_name_of(self.house, e))
                names = distinct(target_name_of(self.house, e) for e in targets)
                proxy = listed([self.house.name(p) for p in sorted(proxies)])
                count = f"{plural(len(names), 'service')}: " if scoped.question.counts else ""
                text = f"{proxy} routes to {count}{listed(names)}."
                return Found(
                    [CitedStatement(text, cites(targets))],
                    scoped.words(mention),
                    looked_for="what it routes to",
                )
        return None

    def proxy_hosts(self, scoped: ResolvedMentions) -> Found | None:
        if any(mention.of("guard") for mention in scoped.mentions):
            return self._protected(scoped)
        for mention in scoped.mentions:
            proxies = {t.node for t in mention.of("proxy")}
            edges = in_force(self.house, [e for p in proxies for e in self.house.out(p, "ROUTES_TO")])
            edges = [e for e in edges if e.properties.get("host")]
            if edges:
                names = distinct(way_of(self.house, e).split("/")[0].split("~")[0] for e in edges)
                proxy = listed([self.house.name(p) for p in sorted(proxies)])
                count = f"{plural(len(names), 'name')}: " if scoped.question.counts else ""
                text = f"{proxy} serves {count}{listed(names)}."
                return Found(
                    [CitedStatement(text, cites(edges))], scoped.words(mention), looked_for="its host names"
                )
        return None

    def tls(self, scoped: ResolvedMentions) -> Found | None:
        if not scoped.question.yes_no:
            return None
        edges, used = self.routes_of(scoped)
        if not edges:
            return None
        secure = [e for e in edges if e.properties.get("tls")]
        begin = "Yes" if secure else "No"
        shown = secure or edges
        how = "with TLS" if secure else "without TLS"
        return Found(
            [
                CitedStatement(
                    f"{begin}: {listed(ways(self.house, shown))} is served {how}.",
                    cites(shown),
                )
            ],
            used,
            looked_for="TLS",
        )

    def auth(self, scoped: ResolvedMentions) -> Found | None:
        protected = self._protected(scoped)
        if protected is not None:
            return protected
        edges, used = self.routes_of(scoped)
        held = list({x.edge_id: x for e in edges for x in guards(self.house, e)}.values())
        if not held:
            own = [e for e in edges if not self.house.is_example(e.doc_id) and self._is_guard_known(e)]
            by_proxy = re.search(r"authelia|authentik|sso|proxy|basic|ldap", scoped.question.lower)
            if not (scoped.question.yes_no and own and by_proxy):
                return None
            asked = [m for m in scoped.mentions if not scoped.words(m) & used]
            text = f"No: {listed(ways(self.house, own))} asks for no authentication at its proxy."
            return Found([CitedStatement(text, cites(own))], used.union(*(scoped.words(m) for m in asked)))
        kinds = distinct(map(guard, held))
        begin = "Yes: " if scoped.question.yes_no else ""
        name = listed([target_name_of(self.house, e) for e in edges])
        said = [m for m in scoped.mentions if any(m.text.lower() in kind.lower() for kind in kinds)]
        return Found(
            [CitedStatement(f"{begin}{name} is protected by {listed(kinds)} at its proxy.", cites(held))],
            used | scoped.words(*said),
            looked_for="authentication",
        )

    def _is_guard_known(self, route: Edge) -> bool:
        """Whether the file that states a route would tell what guards it: that is a property of the endpoint,
        which nothing states where the port is not known."""
        if self.house.label(route.end) != "Service":
            return True
        return any(e.doc_id == route.doc_id for e in self.house.out(route.end, "EXPOSES_ENDPOINT"))

    def _protected(self, scoped: ResolvedMentions) -> Found | None:
        """What a named product guards at the proxy, within the projects and hosts that are named too."""
        if scoped.question.yes_no or scoped.question.negated:
            return None
        guarded = [e for e in self.house.of_type("EXPOSES_ENDPOINT") if not self.house.is_example(e.doc_id)]
        names = [m.text.lower() for m in scoped.mentions] or [w.text for w in scoped.question.linked.words]
        name = next((n for n in names if any(_guards(n, e) for e in guarded)), "")
        pairs = [
            (self.house.services[e.start], e)
            for e in guarded
            if _guards(name, e) and e.start in self.house.services
        ]
        others = [m for m in scoped.mentions if m.text.lower() != name]
        kept, used = self.scope_pairs(scoped, pairs)
        if any(scoped.words(m) - used for m in others):
            return None  # something is named that does not narrow
        services, edges = [s for s, _ in kept], [e for _, e in kept]
        if not services:
            return None
        asked = {i for i, w in enumerate(scoped.question.linked.words) if w.text in _SITES or w.text == name}
        words = asked | scoped.words(*scoped.mentions)
        shown = "basic authentication" if name == "basic" else name
        found = self.listing(scoped, services, edges, f"are protected by {shown} at the proxy", words)
        documents = {e.doc_id for e in edges}
        routes = [
            r for s in services for r in self.house.into(s.number, "ROUTES_TO") if r.doc_id in documents
        ]
        if routes:
            places = listed(ways(self.house, routes))
            found.statements[0].text = f"{found.statements[0].text.removesuffix('.')}: {places}."
        return found


def _guards(name: str, edge: Edge) -> bool:
    """Whether an endpoint is protected by what is called so: a product, or ``basic``."""
    return name == guard_product(edge) or (name == "basic" and edge.properties.get("auth") == "basic")
