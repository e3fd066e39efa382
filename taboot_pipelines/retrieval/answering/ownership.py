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

from taboot_pipelines.model.tables import rows_of
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
    of_the_house = [name for name, s in view.manifest.sources.items() if stance_of(s.type).of_the_house]
    houses = documents.filter(
        pc.is_in(documents.column("source_id"), value_set=pa.array(of_the_house, pa.string()))
    )
    stated = pc.is_in(edges.column("doc_id"), value_set=houses.column("doc_id").combine_chunks())
    named = []
    for side in ("start", "end"):
        label = edges.column(f"{side}_label")
        thing = pc.binary_join_element_wise(label, edges.column(f"{side}_key"), "\n")
        named.append((thing, pc.is_in(label, value_set=pa.array(_ADDRESSES))))
    declared = pa.concat_arrays([thing.filter(pc.and_(kept, stated)).unique() for thing, kept in named])
    speakers: set[str] = set()
    for thing, kept in named:
        speaks = pc.and_(pc.and_(kept, pc.invert(stated)), pc.is_in(thing, value_set=declared))
        speakers.update(edges.column("doc_id").filter(speaks).unique().to_pylist())
    sources = dict(rows_of(documents, "doc_id", "source_id"))
    every, speak = Counter(sources.values()), Counter(sources[d] for d in speakers if d in sources)
    return {source: speak[source] / n for source, n in every.items()}
