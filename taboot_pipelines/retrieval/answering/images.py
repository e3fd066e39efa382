"""Images, versions and who uses an image."""

from __future__ import annotations

import re

from taboot_pipelines.retrieval.answering.house import Edge
from taboot_pipelines.retrieval.answering.scoping import Scoped
from taboot_pipelines.retrieval.answering.statements import (
    MAX_SCOPES,
    Found,
    Statement,
    cites,
    listed,
)
from taboot_pipelines.retrieval.answering.topic import Topic


class Images(Topic):
    """Images, versions and who uses an image."""

    def images(self, scoped: Scoped) -> Found | None:
        return self._built(scoped, version=False)

    def versions(self, scoped: Scoped) -> Found | None:
        return self._built(scoped, version=True)

    def _built(self, scoped: Scoped, *, version: bool) -> Found | None:
        subject = self.subject(scoped)
        if subject is None:
            return None
        _, services, used = subject
        question, statements, weight = scoped.question, [], 1.0
        for service in services[:MAX_SCOPES]:
            edges = self.house.out(service.number, "BUILDS")
            main = [e for e in edges if e.method in ("compose_image", "compose_build")] or edges
            if not main:
                continue
            facts = self.house.properties(main[0].end)
            reference = facts.get("reference") or self.house.name(main[0].end)
            tag = facts.get("tag") or ""
            built = main[0].method == "compose_build"
            if built and version:
                main = [e for e in edges if e.method == "dockerfile_from"] or main
                facts = self.house.properties(main[-1].end)
                reference = facts.get("reference") or self.house.name(main[-1].end)
                text = f"{self.called(service)} is built from {reference}"
                statements.append(Statement(text + ".", cites(main[-1:])))
                weight = 0.9
                continue
            if version:
                shown = (
                    tag if tag and not facts.get("digest") else str(facts.get("digest") or tag or "latest")
                )
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
            else:
                text = f"{self.called(service)} uses the image {reference}"
            statements.append(Statement(text + ".", cites(main)))
        if question.yes_no:
            return self._compared(scoped, statements, used)
        return (
            Found(statements, used, weight, "the image" if not version else "the version")
            if statements
            else None
        )

    def _compared(self, scoped: Scoped, statements: list[Statement], used: set[int]) -> Found | None:
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

    def image_users(self, scoped: Scoped) -> Found | None:
        says_image = "image" in scoped.question.lower
        for mention in scoped.mentions:
            if mention.of("service") and not says_image:
                continue
            nodes = [t.node for t in mention.of("image")]
            edges = [e for node in nodes for e in self.house.into(node, "BUILDS")]
            found = self._image_listing(scoped, edges, scoped.words(mention))
            if found is not None:
                return found
        if not says_image:
            return None
        free = {
            w.text: i
            for i, w in enumerate(scoped.question.linked.words)
            if i in scoped.question.unexplained(()) and w.text != "images" and w.text != "image"
        }
        edges = [e for e in self.house.of_type("BUILDS") if e.method == "compose_image"]
        for word, number in free.items():
            held = [e for e in edges if word in re.split(r"[/:.]", self.house.name(e.end))]
            if held:
                return self._image_listing(scoped, held, {number}, f"{word} images")
        return None

    def _image_listing(
        self, scoped: Scoped, edges: list[Edge], words: set[int], called: str = ""
    ) -> Found | None:
        pairs = [(self.house.services[e.start], e) for e in edges if e.start in self.house.services]
        others, used = self.scope_pairs(scoped, pairs)
        if not others:
            return None
        called = called or f"the image {listed([self._image(e.end) for _, e in others])}"
        return self.listing(
            scoped, [s for s, _ in others], [e for _, e in others], f"use {called}", used | words
        )
