"""The images and versions of services, what each is, and all that there is."""

from __future__ import annotations

import re

from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.retrieval.answering.disambiguation import ResolvedMentions
from taboot_pipelines.retrieval.answering.fact_base import FactKind
from taboot_pipelines.retrieval.answering.question import is_filler
from taboot_pipelines.retrieval.queries.citations import (
    MAX_SCOPES,
    CitedStatement,
    Found,
    StatementSpan,
    cites,
    listed,
    plural,
)
from taboot_pipelines.retrieval.queries.relations import (
    declared_description,
    networks_of,
    product_of,
)
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, distinct

_NOUN = re.compile(
    r"\b(?:services?|containers?|apps?|projects?|stacks?|networks?|hosts?|images?|prox(?:y|ies)"
    r"|machines?|servers?|nodes?)\b"
)


#: What is asked for, where a question begins with it.
_HEAD = re.compile(r"(?:what|which) ([\w-]+)")


class Inventory(FactKind):
    """Images and versions of services, what each is, and all that there is."""

    def images(self, scoped: ResolvedMentions) -> Found | None:
        return self._built(scoped, version=False)

    def versions(self, scoped: ResolvedMentions) -> Found | None:
        return self._built(scoped, version=True)

    def _built(self, scoped: ResolvedMentions, *, version: bool) -> Found | None:
        subject = self.subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        question, statements, weight = scoped.question, [], 1.0
        for service in map(self._running, services[:MAX_SCOPES]):
            edges = self.house.out(service.number, "BUILDS")
            main = [e for e in edges if e.method in ("compose_image", "compose_build")] or self._containers(
                service, edges
            )
            if not main:
                continue
            facts = self.house.properties(main[0].end)
            reference = facts.get("reference") or self.house.name(main[0].end)
            tag = facts.get("tag") or _tag(reference)
            built = main[0].method == "compose_build"
            if built and version:
                main = [e for e in edges if e.method == "dockerfile_from"] or main
                facts = self.house.properties(main[-1].end)
                reference = facts.get("reference") or self.house.name(main[-1].end)
                text = f"{self.called(service)} is built from {reference}"
                statements.append(CitedStatement(text + ".", cites(main[-1:])))
                weight = 0.9
                continue
            if version:
                main = [e for e in main if e.end == main[0].end]
                digest = str(facts.get("digest") or "")
                shown = digest if digest and tag in ("", "latest") else tag or "latest"
                tagged = tag and tag in reference
                text = (
                    f"{self.called(service)} runs version {shown} (image {reference})"
                    if tagged
                    else f"{self.called(service)} runs {reference}, which names no version"
                )
            elif built:
                bases = [e for e in edges if e.method == "dockerfile_from"]
                text = f"{self.called(service)} is built here as {reference}"
                if bases:
                    text += f" from {listed([self._image(e.end) for e in bases])}"
                main = [*main, *bases]
            elif len(others := distinct([self._image(e.end) for e in main])) > 1:
                text = f"{self.called(service)} uses the images {listed(others)}"
            else:
                text = f"{self.called(service)} uses the image {reference}"
            statements.append(CitedStatement(text + ".", cites(main)))
        if question.yes_no:
            return self._compared(scoped, statements, used)
        return (
            Found(statements, used, weight, "the image" if not version else "the version")
            if statements
            else None
        )

    def _running(self, service: Service) -> Service:
        """The declared service that runs another version of what a text says an undeclared one runs: what is
        declared is in force. Where there is none, or several, the service itself."""
        if service.declared:
            return service
        said = self._repositories(service)
        others = [s for s in self.house.services.values() if s.declared and said & self._repositories(s)]
        return others[0] if len(others) == 1 else service

    def _repositories(self, service: Service) -> set[tuple[str, str]]:
        names = {self.house.name(e.end) for e in self.house.out(service.number, "BUILDS")}
        return {(r.registry, r.repository) for r in map(try_reference, names) if r is not None}

    def _containers(self, service: Service, edges: list[Edge]) -> list[Edge]:
        """The images of a service of several containers as they are written; first that which is called as
        the service."""
        return sorted(edges, key=lambda e: (product_of(self.house, e.end) != service.name, e.doc_id, e.span))

    def _compared(
        self, scoped: ResolvedMentions, statements: list[CitedStatement], used: set[int]
    ) -> Found | None:
        """Yes or no to a version or an image that the question itself names."""
        if len(statements) != 1:
            return None
        text = scoped.question.linked.text
        versions = re.findall(r"(?<![\w.])v?\d+(?:\.\d+)*[\w.-]*\w|(?<![\w.])\d+(?![\w.])", text)
        versions += [w for w in ("latest", "alpine") if w in text.lower()]
        if not versions:
            return None
        said = statements[0].text
        yes = all(
            re.search(rf"(?<![\w.]){re.escape(v.lstrip('v'))}(?![\w])", re.sub(r"\bv(?=\d)", "", said))
            for v in versions
        )
        words = {
            i
            for i, w in enumerate(scoped.question.linked.words)
            if any(w.text in v.lower() for v in versions)
        }
        statements[0].text = f"{'Yes' if yes else 'No'}: {said}"
        return Found(statements, used | words, looked_for="the version")

    def _image(self, node: int) -> str:
        return str(self.house.properties(node).get("reference") or self.house.name(node))

    def inventory(self, scoped: ResolvedMentions) -> Found | None:
        """All that there is of a kind, in a question that names nothing."""
        asking = {i for asked in scoped.question.asked if asked.kind == "inventory" for i in asked.words}
        if scoped.mentions or scoped.question.unexplained(asking):
            return None  # a further word asks for some of them
        if any(not _NOUN.search(m.text.lower()) for m in scoped.question.linked.mentions):
            return None  # so does a name, though this reading takes it for none
        head = _HEAD.match(scoped.question.lower)
        if head is not None and not _NOUN.search(head[1]) and not is_filler(head[1]):
            return None  # something else is asked for than what can be listed
        noun_asked = _NOUN.search(scoped.question.lower)
        lower = noun_asked[0] if noun_asked else ""
        services = [s for s in self.house.services.values() if s.declared]
        services = [s for s in services if s.own] or services
        if not services:
            return None
        if "project" in lower or "stack" in lower:
            names = sorted({s.project for s in services})
            return _there_are("project", names, self.declarations(services))
        if "network" in lower:
            return self._ends("network", [e for s in services for e in networks_of(self.house, s)])
        if re.match(r"host|machine|server|node", lower):
            containers = [c for s in services for c in [self.house.container_of.get(s.number)] if c]
            runs = [e for c in containers for e in self.house.out(c, "RUNS")]
            # Texts place some things on some machines; the sources say of which machines they are.
            return self._ends("host", [e for e in runs if not e.is_of_text])
        if re.search(r"image|prox", lower):
            return None
        names = sorted({s.name for s in services})
        return _there_are("service", names, self.declarations(services), len(services))

    def _ends(self, noun: str, edges: list[Edge]) -> Found | None:
        """The things that edges end at, each with the first of them."""
        first = {e.end: e for e in reversed(edges)}
        names = sorted({self.house.name(n) for n in first})
        return _there_are(noun, names, cites(first.values())) if names else None

    def description(self, scoped: ResolvedMentions) -> Found | None:
        """What a person said that a service is, which goes over every document; else what its declaration
        says."""

        def described(service: Service) -> CitedStatement | None:
            said = self.house.described.get(self.house.key(service.number))
            if said is None:
                return self._described_by_declaration(service)
            told, who, at = said
            text = f"{self.called(service)}: {told} ({who} said so on {at:%Y-%m-%d}.)"
            return CitedStatement(text, self.declaration([service]))

        return self.each(scoped, described, "a description")

    def _described_by_declaration(self, service: Service) -> CitedStatement | None:
        """The description that a label, a comment or a unit gives, where it stands."""
        found = declared_description(self.house, service)
        return found and CitedStatement(f"{self.called(service)}: {found[0]}", [found[1]])


def _tag(reference: str) -> str:
    """The tag of an image that only a text names."""
    parsed = try_reference(reference)
    return (parsed.tag or "") if parsed is not None else ""


def _there_are(noun: str, names: list[str], places: list[StatementSpan], total: int | None = None) -> Found:
    count = len(names) if total is None else total
    verb = "is" if count == 1 else "are"
    return Found([CitedStatement(f"There {verb} {plural(count, noun)}: {listed(names, total)}.", places)])
