"""What depends on what, in both directions, and what connects to what."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice, product

from taboot_pipelines.model.stores import BROKERS, CACHES, DATABASES, alike
from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions
from taboot_pipelines.retrieval.answering.entity_linking import Mention
from taboot_pipelines.retrieval.answering.fact_base import NAMING, FactKind
from taboot_pipelines.retrieval.answering.question import Question
from taboot_pipelines.retrieval.answering.typed_facts import TypedFacts
from taboot_pipelines.retrieval.answering.vocabulary import FILLER, STORES
from taboot_pipelines.retrieval.queries.citations import (
    MAX_CITED,
    MAX_SCOPES,
    CitedStatement,
    Found,
    cites,
    listed,
    plural,
)
from taboot_pipelines.retrieval.queries.house import House
from taboot_pipelines.retrieval.queries.logins import checked_by, cited
from taboot_pipelines.retrieval.queries.relations import (
    depends_in_name,
    in_force,
    is_order,
    served_by,
    target_name_of,
    used_by,
    walk,
    ways,
)
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, plain_name

#: The words for a condition of ``depends_on``, and how each is said.
_CONDITIONS = (
    (r"\bhealth", "service_healthy"),
    (r"\b(?:complet\w+|finish\w*|exit\w*|succe\w+)\b", "service_completed_successfully"),
)
_SAID = {
    "service_healthy": "healthy",
    "service_started": "started",
    "service_completed_successfully": "completed successfully",
}
#: Letters of a word that may be the name of a product that an image is called after, and so many more may
#: stand behind it: postgresql is postgres, postgres-exporter is not.
_MIN_PRODUCT, _MORE_LETTERS = 4, 3
#: Ways in which several names together are read.
_MAX_TOGETHER = 100


class Dependencies(FactKind):
    """What depends on what, in both directions, and what connects to what."""

    def __init__(self, house: House, typed: TypedFacts) -> None:
        super().__init__(house.index)
        self._asked_of = house
        self._typed = typed

    def dependencies(self, scoped: ResolvedMentions) -> Found | None:
        question = scoped.question
        if question.yes_no and len(scoped.mentions) > 1:
            return self._depends(scoped)
        if (asking := self._asks_for_store(scoped)) is not None:
            return self._stores(scoped, asking)

        def depends(service: Service) -> CitedStatement | None:
            stated = self.house.out(service.number, "DEPENDS_ON")
            edges = [e for e in stated if depends_in_name(e)]
            if question.transitive and edges:
                edges = walk(self.house, service.number, forward=True)
            others = [self.house.services[e.end] for e in edges if e.end in self.house.services]
            if others:
                names = []
                for name, edge in zip(self.names(others), edges, strict=False):
                    condition = edge.properties.get("condition")
                    shown = condition and condition != "service_started"
                    names.append(f"{name} ({condition})" if shown else name)
                count = f"{plural(len(set(names)), 'service')}: " if question.counts else ""
                return CitedStatement(
                    f"{self.called(service)} depends on {count}{listed(names)}.", cites(edges)
                )
            links = self.house.out(service.number, "CONNECTS_TO")
            if links:
                connected = listed(self.names([self.house.services[e.end] for e in links]))
                text = f"{self.called(service)} declares no dependency, but connects to {connected}."
                return CitedStatement(text, cites(links))
            if not service.declared:
                return None
            named, where = self.named_elsewhere(service)
            more = [named] if named else []
            if stated:
                first = listed(self.names([self.house.services[e.end] for e in stated]))
                more.insert(0, f"it starts after {first}")
            text = "; ".join((f"{self.called(service)} declares no dependency", *more))
            declared = cites(stated) or self.declaration([service])
            return CitedStatement(f"{text}.", declared and declared + where, denies=True)

        return self.each(scoped, depends, "dependencies")

    def shared_services(self, scoped: ResolvedMentions) -> Found | None:
        """What services all connect to or need; asked for a database, a cache or a broker, or for one by its
        name, of these alone. That they share none is said only where it is known what each uses."""
        words = scoped.question.linked.words
        named = [(m, *self._with_project(scoped, m)) for m in scoped.mentions]
        named = [n for n in named if n[1] and not any(words[i].text in STORES for i in scoped.words(n[0]))]
        used = {i for _, _, said in named for i in said}
        every = [{s.number for s in services} for _, services, _ in named]
        # A project that all others are of only says where they are.
        inner = [
            n
            for i, n in enumerate(named)
            if not all(held <= every[i] for j, held in enumerate(every) if j != i)
        ]
        named = inner if len(inner) > 1 else named
        store = scoped.question.store
        kind = STORES[words[store].text] if store is not None else frozenset()
        used |= {store} if store is not None else set()
        # One that they all use may be among those named: "do A and B both use C?"
        if store is None and len(named) > 2:
            of_name = {s.number for s in named[-1][1]}
            found = self._shared(scoped, named[:-1], lambda end: end in of_name)
            if found:
                return Found(found, used, looked_for="what both use")
        found = self._shared(scoped, named, lambda end: not kind or self.is_of(end, kind))
        # Who says Redis may mean what speaks its protocol.
        found = found or self._shared(scoped, named, lambda end: self.is_of(end, alike(kind)))
        return Found(found, used, looked_for="what both use") if found else None

    def _shared(
        self,
        scoped: ResolvedMentions,
        named: Sequence[tuple[Mention, list[Service], set[int]]],
        fits: Callable[[int], bool],
    ) -> list[CitedStatement]:
        """What the named services share of what they use that ``fits``, or else what each of them uses."""

        def held(service: Service) -> list[Edge]:
            return [e for e in used_by(self.house, service) if fits(e.end)]

        each = [[s for s in services if held(s)][:MAX_SCOPES] for _, services, _ in named]
        if len(each) < 2:
            return []
        together = [t for t in islice(product(*each), _MAX_TOGETHER) if len({s.number for s in t}) == len(t)]
        yes_no = scoped.question.yes_no
        both = [s for t in together if (s := self._both(t, [held(one) for one in t], yes_no))]
        apart = (s for t in together if (s := self._apart(t, [held(one) for one in t], yes_no)))
        return both or [s for s in [next(apart, None)] if s is not None]

    def _with_project(self, scoped: ResolvedMentions, mention: Mention) -> tuple[list[Service], set[int]]:
        """The services that a mention means; of what is a project's name too, the project's."""
        services, used = scoped.services(mention)
        inside = [n for key in sorted(scoped.projects(mention)) for n in self.house.projects.get(key, ())]
        if not inside:
            return services, used
        both = {s.number: s for s in (*services, *(self.house.services[n] for n in inside))}
        return list(both.values()), used | scoped.words(mention)

    def _both(
        self, services: Sequence[Service], uses: Sequence[list[Edge]], yes_no: bool
    ) -> CitedStatement | None:
        common = set.intersection(*({e.end for e in edges} for edges in uses))
        if not common:
            return None
        shared = listed(self._stores_called([self.house.services[n] for n in sorted(common)]))
        every = "both" if len(services) == 2 else "all"
        text = f"{'Yes: ' if yes_no else ''}{listed(list(map(self.called, services)))} {every} use {shared}."
        return CitedStatement(text, cites(e for edges in uses for e in edges if e.end in common))

    def _apart(
        self, services: Sequence[Service], uses: Sequence[list[Edge]], yes_no: bool
    ) -> CitedStatement | None:
        if len(services) != 2:
            return None  # some of them may share it
        # With their projects: both may be called db.
        ends = [listed(list(dict.fromkeys(map(self.called, self._ends(edges))))) for edges in uses]
        said = [f"{self.called(s)} uses {end}" for s, end in zip(services, ends, strict=True)]
        sure = yes_no and not any(map(self._typed.is_of_chart, services))
        text = f"{'No: ' if sure else ''}{' and '.join(said)}."
        return CitedStatement(text, cites(e for edges in uses for e in edges))

    def _ends(self, edges: Iterable[Edge]) -> list[Service]:
        """What edges lead to; not a name that only a document has, where one of that name is declared."""
        found = [self.house.services[e.end] for e in edges]
        declared = {plain_name(s.name) for s in found if s.declared}
        return [s for s in found if s.declared or plain_name(s.name) not in declared]

    def _stores_called(self, services: Sequence[Service]) -> list[str]:
        """The names of stores, each with the image that it runs, unless that says no more than the name."""
        called = []
        for service, name in zip(services, self.names(services), strict=True):
            images = [self.house.name(e.end) for e in self.products.get(service.number, {}).values()]
            image = images[0].rpartition("/")[2].partition("@")[0] if len(images) == 1 else ""
            product, _, tag = image.partition(":")
            known = not product or (product in service.name and tag in ("", "latest"))
            called.append(name if known else f"{name}, which runs {image.removesuffix(':latest')}")
        return called

    def connections(self, scoped: ResolvedMentions) -> Found | None:
        """What a service connects to by its own settings; else what it depends on."""
        if scoped.question.yes_no and len(scoped.mentions) > 1:
            return self._depends(scoped)
        if (asking := self._asks_for_store(scoped)) is not None:
            return self._stores(scoped, asking)

        def connects(service: Service) -> CitedStatement | None:
            edges = self.house.out(service.number, "CONNECTS_TO")
            others = [self.house.services[e.end] for e in edges if e.end in self.house.services]
            return CitedStatement(
                f"{self.called(service)} connects to {listed(self.names(others))}.", cites(edges)
            )

        return self.each(scoped, connects, "what it connects to") or self.dependencies(scoped)

    def _asks_for_store(self, scoped: ResolvedMentions) -> Mention | None:
        """The service or project of which a store is asked for; None where none is, or a store itself is the
        subject: "what does the wiki db need", "the database of wiki"."""
        question = scoped.question
        which = question.asks_which_store
        if question.store is None and not which:
            return None
        inside = [m for m in scoped.mentions if question.store_words & set(range(m.first, m.last))]
        others = [m for m in scoped.mentions if m not in inside and m.of("service", "project")]
        others = [m for m in others if which or not _means_its_store(question, m)]
        return others[0] if others and all(m.last - m.first == 1 for m in inside) else None

    def _stores(self, scoped: ResolvedMentions, asking: Mention) -> Found | None:
        """Which database, cache or broker a service uses: of what it uses those that are one, and of its own
        containers, where it has several."""
        question = scoped.question
        kinds = [STORES[question.linked.words[i].text] for i in question.stores]
        # Who says postgres may mean postgresql, or what else speaks its protocol.
        kind = alike(frozenset().union(*kinds)) if kinds else DATABASES | CACHES | BROKERS
        services, used = self._with_project(scoped, asking)
        statements: list[CitedStatement] = []
        for service in services:
            if len(statements) >= MAX_SCOPES:
                break
            held = [e for e in used_by(self.house, service) if self.is_of(e.end, kind)]
            if held:
                names = listed(self._stores_called(self._ends(held)))
                statements.append(CitedStatement(f"{self.called(service)} uses {names}.", cites(held)))
            runs = self.products.get(service.number, {})
            beside = [e for image, e in runs.items() if image in kind and _is_container(e)]
            if 0 < len(beside) < len(runs):
                images = listed([self.house.name(e.end) for e in beside])
                text = f"{self.called(service)} runs {images} beside itself."
                statements.append(CitedStatement(text, cites(beside)))
        used = used | question.store_words
        return Found(statements, used, looked_for="its store") if statements else None

    def _depends(self, scoped: ResolvedMentions) -> Found | None:
        """Does A depend on B?"""
        named = [(m, *scoped.services(m)) for m in scoped.mentions]
        named = [n for n in named if n[1]]
        if len(named) < 2:
            return None
        (_, left, used), (_, right, more) = named[0], named[1]
        passive = re.search(r"@\w* (?:\w+ )?(?:needed|required|used) by", scoped.question.masked[0])
        if passive:
            left, right = right, left
        wanted = {s.number for s in right}
        closed = [s for s in left if s.declared]
        for service in closed[:MAX_SCOPES]:
            edges = self.house.out(service.number, "DEPENDS_ON", "CONNECTS_TO")
            hit = [e for e in edges if e.end in wanted and depends_in_name(e)]
            if hit and (waiting := self._waits(scoped, service, hit)):
                return Found([waiting], used | more, looked_for="the condition")
            if hit:
                other = self.house.services[hit[0].end]
                verb = "depends on" if any(e.type == "DEPENDS_ON" for e in hit) else "connects to"
                return Found(
                    [
                        CitedStatement(
                            f"Yes: {self.called(service)} {verb} {self.names([service, other])[1]}.",
                            cites(hit),
                        )
                    ],
                    used | more,
                    looked_for="the dependency",
                )
        for service in closed[:1]:
            indirect = [e for e in walk(self.house, service.number, forward=True) if e.end in wanted]
            if indirect:
                through = self.house.services[indirect[0].start]
                other = self.house.services[indirect[0].end]
                directly = re.search(r"\bdirectly\b", scoped.question.lower)
                said = "No, not directly" if directly else "Yes, indirectly"
                return Found(
                    [
                        CitedStatement(
                            f"{said}: {self.called(service)} depends on {other.name} through {through.name}.",
                            cites(indirect),
                        )
                    ],
                    used | more,
                    looked_for="the dependency",
                )
            edges = used_by(self.house, service)
            after = [e for e in self.house.out(service.number, "DEPENDS_ON") if e.end in wanted]
            ends = self._ends(edges)
            # With their projects where another of the name is what it depends on.
            target = right[0].name
            called = [self.called(s) if s.name == target else s.name for s in ends]
            target = self.called(right[0]) if target in {s.name for s in ends} else target
            verb = "depends on" if all(e.type == "DEPENDS_ON" for e in edges) else "uses"
            told, where = ("", []) if after else self.named_beside(service, right[0])
            if not (told or ends or after):
                told, where = self.named_elsewhere(service, right[0])
            # Of what a chart that is not here needs by itself nothing is known.
            if not (told or after) and self._typed.is_of_chart(service):
                told = "its chart, which is not here, may have one"
            said = f"{self.called(service)} declares no dependency, so none on {target}"
            if ends and not told:
                on = "on " if verb == "depends on" else ""
                said = f"{self.called(service)} {verb} {listed(called)}, not {on}{target}"
            elif ends:
                said = (
                    f"{self.called(service)} {verb} {listed(called)}, and declares no dependency on {target}"
                )
            if after:
                said = f"{self.called(service)} only starts after {target}"
            stands = cites(after or edges) or self.declaration([service])
            if told:
                stands = [replace(c, confidence=min(c.confidence, NAMING)) for c in stands]
                said += f"; {told}"
            return Found(
                [CitedStatement(f"{'' if told else 'No: '}{said}.", stands + where)],
                used | more,
                looked_for="the dependency",
            )
        return None

    def _waits(self, scoped: ResolvedMentions, service: Service, edges: list[Edge]) -> CitedStatement | None:
        """Whether a service waits for the condition that the question names; None if it names none."""
        lower = scoped.question.lower
        if not re.search(r"\b(?:wait\w*|start\w*|come\w*)\b", lower):
            return None
        asked = next((c for pattern, c in _CONDITIONS if re.search(pattern, lower)), "")
        declared = [e for e in edges if e.type == "DEPENDS_ON"]
        if not asked or not declared:
            return None
        stated = [str(e.properties.get("condition") or "service_started") for e in declared]
        other = self.house.services[declared[0].end].name
        if asked in stated:
            at = stated.index(asked)
            text = f"Yes: {self.called(service)} waits for {other} to be {_SAID[asked]} ({asked})."
            return CitedStatement(text, cites(declared[at : at + 1]))
        said = _SAID.get(stated[0], stated[0])
        text = f"No: {self.called(service)} waits only for {other} to be {said} ({stated[0]})."
        return CitedStatement(text, cites(declared))

    def dependents(self, scoped: ResolvedMentions) -> Found | None:
        if scoped.question.yes_no and len([m for m in scoped.mentions if m.of("service")]) > 1:
            found = self._depends(scoped)
            if found is not None:
                return found
        if scoped.question.excepted:
            return self._depending(scoped, ("DEPENDS_ON", "CONNECTS_TO"), "use")
        found = self._depending(scoped, ("DEPENDS_ON",), "depend on")
        subject = self._object(scoped)
        if found is None or subject is None or scoped.question.transitive:
            return found
        for service in subject[1][:MAX_SCOPES]:
            into = self.house.into(service.number, "DEPENDS_ON", "CONNECTS_TO")
            told = {e.start for e in into if e.type == "DEPENDS_ON"}
            edges = [e for e in into if e.start not in told and e.start in self.house.services]
            if told and edges:
                others = [self.house.services[e.start] for e in edges]
                what = f"connect to {self.called(service)}"
                found.statements += self.listing(scoped, others, edges, what, set()).statements
        return found

    def users(self, scoped: ResolvedMentions) -> Found | None:
        if scoped.question.yes_no and len(scoped.mentions) > 1:
            return self._depends(scoped) or self._typed.find("image_users", scoped)
        if re.search(r"\b(?:do|does) @\w* (?:\w+ )?(?:use|connect|talk)", scoped.question.masked[0]):
            return None  # what it uses itself is not who uses it
        return (
            self._of_product(scoped)
            or self._depending(scoped, ("DEPENDS_ON", "CONNECTS_TO"), "use")
            or self._typed.find("image_users", scoped)
            or self._typed.find("network_members", scoped)
        )

    def _of_product(self, scoped: ResolvedMentions) -> Found | None:
        """Who uses a product, such as postgres, that several services run, or that one runs which has another
        name."""
        if "image" in scoped.question.lower or len(scoped.mentions) > 1:
            return None
        words = scoped.question.linked.words
        meant = scoped.words(*scoped.mentions) or {
            i for i, word in enumerate(words) if len(word.text) >= _MIN_PRODUCT and word.text not in FILLER
        }
        edges: list[Edge] = []
        used: set[int] = set()
        named = {s.number for m in scoped.mentions for s in scoped.services(m)[0]}
        for i in sorted(meant):
            said = {
                n: [e for image, e in images.items() if _is_of_product(image, words[i].text)]
                for n, images in self.products.items()
            }
            running = {n for n, held in said.items() if held}
            own = {n for n in running | named if n in self.house.services and self.house.services[n].own}
            running &= own or running
            is_store = any(_is_of_product(words[i].text, p) for p in STORES)
            if named and not (is_store and (running - named or len(named) > MAX_SCOPES)):
                continue
            held = [e for n in sorted(running | named) for e in self._using(n)]
            # What runs one beside itself uses it.
            held += [
                e for n in sorted(running) if len(self.products[n]) > 1 for e in said[n] if _is_container(e)
            ]
            edges, used = edges + held, used | ({i} if held else set())
        if not edges:
            return None
        others = [self.house.services[e.start] for e in edges]
        called = " ".join(words[i].text for i in sorted(used))
        store = scoped.question.store
        used |= {store} if store is not None else set()
        return self._told(scoped, others, edges, "use", called, used)

    def _using(self, number: int) -> list[Edge]:
        """The edges in force by which services connect to one, or need it."""
        held = self.house.into(number, "DEPENDS_ON", "CONNECTS_TO")
        return in_force(
            self.house, [e for e in held if depends_in_name(e) and e.start in self.house.services]
        )

    def _told(
        self,
        scoped: ResolvedMentions,
        services: Sequence[Service],
        edges: Sequence[Edge],
        verb: str,
        called: str,
        used: set[int],
        total: int | None = None,
    ) -> Found:
        """The list of services that use one. What only a document names is said apart: it may be another name
        of one that configuration declares, or none that runs."""
        declared = [(s, e) for s, e in zip(services, edges, strict=True) if s.declared]
        if not declared or len(declared) == len(edges):
            return self.listing(scoped, services, edges, f"{verb} {called}", used, total)
        held, known = zip(*declared, strict=True)
        found = self.listing(scoped, held, known, f"{verb} {called}", used)
        told = {plain_name(s.name) for s in held}
        rest = [(s, e) for s, e in zip(services, edges, strict=True) if not s.declared]
        rest = [(s, e) for s, e in rest if plain_name(s.name) not in told]
        if rest:
            names = listed(sorted({s.name for s, _ in rest}))
            text = f"A document says so of {names} too, which no configuration declares."
            found.statements.append(CitedStatement(text, cites(e for _, e in rest)))
        return found

    def _depending(self, scoped: ResolvedMentions, types: tuple[str, ...], verb: str) -> Found | None:
        subject = self._object(scoped)
        if subject is None:
            return None
        _, services, used = subject
        question, statements = scoped.question, []
        for service in services[:MAX_SCOPES]:
            if question.transitive and "DEPENDS_ON" in types:
                edges = walk(self.house, service.number, forward=False)
            else:
                edges = self.house.into(service.number, *types)
                edges = edges if any(map(depends_in_name, edges)) else []
                if not edges:
                    edges = self.house.into(service.number, "DEPENDS_ON", "CONNECTS_TO")
            after = [e for e in edges if not depends_in_name(e)]
            edges = [e for e in edges if depends_in_name(e)]
            total = len(edges)
            # Who connects to it does not say that it depends on it.
            needed = verb != "depend on" or any(e.type == "DEPENDS_ON" for e in edges)
            told = verb if needed else "connect to"
            if not question.transitive and not after:
                total = self.house.count_into(service.number, *types)
            others = [self.house.services[e.start] for e in edges if e.start in self.house.services]
            if others:
                called = self.called(service)
                if len({(s.place, s.project) for s in (*others, service)}) == 1 and len(services) == 1:
                    called = service.name
                held = [e for e in edges if e.start in self.house.services]
                found = self._told(scoped, others, held, told, called, used, total)
                alone = all(s.number in question.excepted for s in others)
                first = found.statements[0]
                if question.yes_no:
                    first.text = f"{'No' if alone else 'Yes'}: {first.text}"
                named, where = self.named_elsewhere(service) if alone else ("", [])
                if named:
                    # What is declared nowhere may be said there.
                    only = listed(list(dict.fromkeys(self.names(others))))
                    first.text = f"No use of {called} but by {only} is declared; {named}."
                    first.cites += where
                statements += found.statements
            elif service.declared and (len(services) == 1):
                statements.append(
                    self._nobody(service, after, "No: nothing" if question.yes_no else "Nothing")
                )
            statements += self._starters(scoped, service, after)
        statements = [s for s in statements if s.cites]
        return Found(statements, used, looked_for="what depends on it") if statements else None

    def _nobody(self, service: Service, after: list[Edge], nothing: str = "Nothing") -> CitedStatement:
        """That nothing is declared to depend on a service. A document that names it, and of which nothing
        more is known, may mean that something does; and nothing is said of a service of which it is not known
        what it runs, such as one that a chart brings."""
        if asking := self._ask_for_logins(service):
            return asking[0]
        called, (named, where) = self.called(service), self.named_elsewhere(service)
        declared = self.declaration([service]) or cites(after[:1])
        if not named:
            return CitedStatement(f"{nothing} is declared to depend on {called}.", declared, denies=True)
        text = f"No dependency on {called} is declared; {named}."
        return CitedStatement(text, declared and declared + where, denies=True)

    def _starters(
        self, scoped: ResolvedMentions, service: Service, edges: list[Edge]
    ) -> list[CitedStatement]:
        """What starts after a service and is said to need it by nothing."""
        others = [self.house.services[e.start] for e in edges if e.start in self.house.services]
        if not others:
            return []
        what = f"start after {self.called(service)} (an order, not a need)"
        return self.listing(scoped, others, edges, what, set()).statements

    def impact(self, scoped: ResolvedMentions) -> Found | None:
        """What breaks without a service, in lists of their own: what needs it, what connects to it, what is
        reached through it, what asks it for logins, and what only starts after it."""
        subject = self._object(scoped)
        if subject is None:
            return None
        if scoped.question.excepted:
            return self.dependents(scoped)
        _, services, used = subject
        statements: list[CitedStatement] = []
        breaks = False
        for service in services[:MAX_SCOPES]:
            called, start = self.called(service), len(statements)
            into = self.house.into(service.number, "DEPENDS_ON", "CONNECTS_TO")
            needs = [e for e in into if e.type == "DEPENDS_ON" and not is_order(e)]
            if scoped.question.transitive and needs:
                needs = walk(self.house, service.number, forward=False)
            broken = {e.start for e in needs}
            connected = [e for e in into if e.type == "CONNECTS_TO" and e.start not in broken]
            broken |= {e.start for e in connected}
            after = [e for e in into if is_order(e) and e.start not in broken]
            for edges, verb in ((needs, "need"), (connected, "connect to")):
                others = [self.house.services[e.start] for e in edges if e.start in self.house.services]
                if others:
                    statements += self.listing(scoped, others, edges, f"{verb} {called}", used).statements
            reached = served_by(self.house, service)
            if reached:
                statements.append(self._reached_through(called, reached))
            statements += self._ask_for_logins(service)
            breaks |= len(statements) > start
            statements += self._starters(scoped, service, after)
            if len(statements) == start and service.declared and len(services) == 1:
                statements.append(self._nobody(service, after))
        statements = [s for s in statements if s.cites]
        if scoped.question.yes_no and statements:
            statements[0].text = f"{'Yes' if breaks else 'No'}: {statements[0].text}"
        return Found(statements, used, looked_for="what breaks without it") if statements else None

    def _reached_through(self, called: str, edges: Sequence[Edge]) -> CitedStatement:
        """What is reached through a proxy, each target once, and the ways there."""
        first = {e.end: e for e in reversed(edges)}.values()
        names = listed(sorted({target_name_of(self.house, e) for e in first}))
        verb = "is" if len(first) == 1 else "are"
        places = listed(ways(self.house, edges))
        return CitedStatement(f"{names} {verb} reached through {called}: {places}.", cites(first))

    def _ask_for_logins(self, service: Service) -> list[CitedStatement]:
        """What proxies lead to only once a service has checked who asks: in one sentence, if anything."""
        routes = checked_by(self._asked_of).get(service.number, ())
        if not routes:
            return []
        places = listed(ways(self.house, [route for route, _ in routes]))
        told = [span for route, asked in routes for span in cited(route, asked)]
        verb = "asks" if len(routes) == 1 else "ask"
        text = f"{plural(len(routes), 'route')} {verb} {self.called(service)} for the login: {places}."
        return [CitedStatement(text, list(dict.fromkeys(told))[:MAX_CITED])]

    def _object(self, scoped: ResolvedMentions) -> tuple[Mention, list[Service], set[int]] | None:
        """As :meth:`_subject`, of the mention right after the verb."""
        after = re.search(
            r"(?:on|upon|for|uses?|using|needs?|needed|requires?|required|of|to|by|if|when|without|once)"
            r" (?:the |our )?(@\w*)",
            scoped.question.masked[0],
        )
        if after:
            place = next((w for s, _, w in scoped.question.masked[1] if s == after.start(1)), ())
            for mention in scoped.mentions:
                if mention.first in place:
                    services, used = scoped.services(mention)
                    if services:
                        return self._store_of(scoped, mention, services, used)
        subject = self.subject(scoped)
        return subject and self._store_of(scoped, *subject)

    def _store_of(
        self, scoped: ResolvedMentions, mention: Mention, services: list[Service], used: set[int]
    ) -> tuple[Mention, list[Service], set[int]]:
        """What a mention means where it stands with the word for a database: the librenms database, the
        database of librenms."""
        store = scoped.question.store
        if store is None or not _means_its_store(scoped.question, mention):
            return mention, services, used
        return mention, scoped.databases(services), used | {store}


def _is_of_product(image: str, word: str) -> bool:
    more = image.removeprefix(word)
    return image.startswith(word) and len(more) <= _MORE_LETTERS and (not more or more.isalpha())


def _means_its_store(question: Question, mention: Mention) -> bool:
    """Whether a name stands with the word for a store and means that: the librenms database, the database of
    librenms."""
    words, store = question.linked.words, question.store
    if store == mention.last:
        return True
    return store == mention.first - 2 and words[mention.first - 1].text in ("of", "behind", "for")


def _is_container(edge: Edge) -> bool:
    """Whether an image is that of a container, of which a workload may have several, and nothing that another
    image is built from."""
    return "kubernetes_image" in edge.methods
