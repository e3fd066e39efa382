"""How far the reading of hits has come: what a run begins with, and what it leaves to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from taboot_pipelines.connectors.elasticsearch_counts import Span, holds
from taboot_pipelines.connectors.elasticsearch_hits import Items, Tally


@dataclass
class Reading:
    """What a run has come to. ``settled``: windows before it are not read again. ``resume``: where the run
    before stopped, ``begun``: when the first of the runs that stopped began (milliseconds since 1970)."""

    settled: int | None
    resume: int | None
    begun: int
    counts: dict[int, Tally]
    fetched: int = 0
    unsaved: int = 0
    reason: str = ""
    whole: bool = True
    #: Paths of what was there, and the spans that were read to their ends.
    seen: set[str] = field(default_factory=set)
    over: list[Span] = field(default_factory=list)

    def read(self, span: Span, counts: Mapping[int, Tally]) -> None:
        """The hits of a span were read."""
        self.over.append(span)
        self.counts = {w: n for w, n in self.counts.items() if not holds(span, w)} | dict(counts)

    def stop(self, span: Span, items: Items, at: int | None) -> None:
        """The hits of a span were read up to the window ``at``, where the next run is to go on; None: it is
        to begin where this one did."""
        if at is not None:
            self.read((span[0], at), {w: n for w, n in items.counts.items() if w < at})
            self.resume = at
