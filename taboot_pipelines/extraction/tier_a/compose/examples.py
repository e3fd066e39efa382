"""Compose files that stand in the fences of a document: how services could be run, and not how any are.

A document does not say which of both it means, so such a fence declares nothing: of what it holds only the
images are told, as mentions of the document. Its services, their dependencies and their ports would be names
without a project, which are taken for those that a house has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.prose.scan import Mention
from taboot_pipelines.extraction.tier_a.regions import fences
from taboot_pipelines.model.records import FileView, SourceFacts, UnitSpec

#: No default name: then a file is a Compose file by what it holds.
_FILE = "fence.yaml"
_SERVICES = re.compile(r"(?m)^[ \t]*[\"']?services[\"']?[ \t]*:")
#: Longer fences are no examples.
_MAX_FENCE = 100_000


def find_examples(text: str) -> Iterator[Mention]:
    """The images of the Compose files in a Markdown text, each where its reference stands."""
    if _SERVICES.search(text) is None:
        return
    for start, end in fences(text):
        body = text[start:end]
        if end - start > _MAX_FENCE or _SERVICES.search(body) is None:
            continue
        view = FileView(frozenset({_FILE}), {_FILE: body}.get)
        said = ComposeExtractor().interpret(
            UnitSpec(_FILE, (_FILE,)), view, SourceFacts("example", "example")
        )
        for edge in said.edges:
            if edge.method == "compose_image":
                quote = body[edge.evidence.start : edge.evidence.end]
                quotes = len(quote) > 2 and quote[0] == quote[-1] and quote[0] in "\"'"
                first, last = start + edge.evidence.start + quotes, start + edge.evidence.end - quotes
                yield Mention("compose_example", edge.end, first, last, edge.end_basis)
