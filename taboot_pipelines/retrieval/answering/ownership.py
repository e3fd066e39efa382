"""What is the house's own: the sources that speak of it rather than of a product.

A source is the house's own if it is of a type that declares or records its things, or if it has one of the
tags of ``TABOOT_RETRIEVAL__OWN_TAGS``; never if it has one of ``TABOOT_RETRIEVAL__VENDOR_TAGS``. Any other
source without such a tag (documents, and what people discuss) is its own if its documents name the addresses
that those sources declare (hosts, IP addresses, host names of routes): who writes about a product does not
know them.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.retrieval.session import View
from taboot_pipelines.settings import RetrievalSettings
from taboot_pipelines.sources import stance_of

_ADDRESSES = ("Host", "IP", "Endpoint", "TailscaleNode")
#: A source is about the house if so much of its documents name an address of it.
_MIN_SHARE = 0.2


class Ownership:
    """Of each view what is its own, found out once. Safe to use from several threads."""

    def __init__(self, settings: RetrievalSettings) -> None:
        self._settings = settings

    def owns(self, view: View, source: str) -> bool:
        """Whether a source speaks of the house."""
        return source in view.once(self._own)

    def is_text(self, view: View, source: str) -> bool:
        """Whether a source holds documents only."""
        entry = view.manifest.sources.get(source)
        return entry is None or not stance_of(entry.type).of_the_house

    def _own(self, view: View) -> frozenset[str]:
        vendor, tagged = frozenset(self._settings.vendor_tags), frozenset(self._settings.own_tags)
        own = set()
        speaking: dict[str, float] | None = None
        for name, source in view.manifest.sources.items():
            if not vendor.isdisjoint(source.tags):
                continue
            if stance_of(source.type).of_the_house or not tagged.isdisjoint(source.tags):
                own.add(name)
                continue
            if speaking is None:
                speaking = _speaking(view)
            if speaking.get(name, 0.0) >= _MIN_SHARE:
                own.add(name)
        return frozenset(own)


def _speaking(view: View) -> dict[str, float]:
    """Of each source of documents the share that name an address which a source of the house declares."""
    edges, documents = view.graph.edges, view.graph.documents
    sources = dict(
        zip(documents.column("doc_id").to_pylist(), documents.column("source_id").to_pylist(), strict=True)
    )
    of_the_house = {name for name, s in view.manifest.sources.items() if stance_of(s.type).of_the_house}
    declared: set[tuple[str, str]] = set()
    named: dict[tuple[str, str], set[str]] = {}
    for side in ("start", "end"):
        chosen = edges.filter(pc.is_in(edges.column(f"{side}_label"), value_set=pa.array(_ADDRESSES)))
        for label, key, doc in zip(
            chosen.column(f"{side}_label").to_pylist(),
            chosen.column(f"{side}_key").to_pylist(),
            chosen.column("doc_id").to_pylist(),
            strict=True,
        ):
            source = sources.get(doc, "")
            if source in of_the_house:
                declared.add((label, key))
            elif source in view.manifest.sources:
                named.setdefault((label, key), set()).add(doc)
    speakers = {doc for thing, docs in named.items() if thing in declared for doc in docs}
    every, speak = Counter(sources.values()), Counter(sources[d] for d in speakers)
    return {source: speak[source] / n for source, n in every.items()}
