"""A picture that a notebook shows in the best way that it can."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.pictures.drawn import DrawnEdge, DrawnNode, Selection, choose
from taboot_pipelines.retrieval.pictures.layout import Layout, lay_out, printable
from taboot_pipelines.retrieval.pictures.svg import svg
from taboot_pipelines.retrieval.pictures.vega import EMBED_OPTIONS, MIME, vega

#: Relations that are drawn unless told otherwise, and at most.
DRAWN, MAX_DRAWN = 30, 200


class Picture:
    """A picture of a graph. JupyterLab and Notebook 7 draw it with their Vega, to move, zoom and ask; what
    knows no Vega (GitHub, nbconvert) shows ``svg``, a terminal the relations as lines.
    """

    def __init__(self, title: str, layout: Layout, chosen: Selection) -> None:
        self.title = printable(title)
        self.layout = layout
        self._chosen = chosen

    @classmethod
    def around(
        cls,
        title: str,
        nodes: Sequence[DrawnNode],
        edges: Sequence[DrawnEdge],
        limit: int = DRAWN,
        note: str = "",
        legend: bool = True,
    ) -> Picture:
        """The starts and what surrounds them, at most ``limit`` relations. ``note`` is shown below it, the
        ``legend`` above.

        Raises ``E_QUERY`` for a ``limit`` that is none.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_DRAWN:
            raise TabootError("E_QUERY", f"limit must be a whole number from 1 to {MAX_DRAWN}.")
        chosen = choose(nodes, edges, limit)
        notes = [note] if note else []
        if chosen.left_out:
            total = len(chosen.edges) + chosen.left_out
            notes.insert(
                0, f"{len(chosen.edges):,} of {total:,} relations are drawn, the nearest of each type"
            )
        return cls(title, lay_out(chosen, legend=legend, note="; ".join(notes)), chosen)

    @classmethod
    def way(cls, title: str, nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge]) -> Picture:
        """Nodes one below the other in their order, each relation between two that follow one another."""
        chosen = Selection(tuple(nodes), tuple(edges))
        return cls(title, lay_out(chosen, upright=True), chosen)

    @cached_property
    def svg(self) -> str:
        """The picture as one SVG file that needs nothing else."""
        return svg(self.layout, self.title)

    @cached_property
    def vega(self) -> dict[str, Any]:
        """The picture as a Vega specification."""
        return vega(self.layout, self.title)

    def __repr__(self) -> str:
        names = {(n.label, n.key): printable(f"{n.label} {n.name}") for n in self._chosen.nodes}
        lines = [
            f"  {names[e.start]} -[{printable(f'{e.type} {e.says}'.strip())}]-> {names[e.end]}"
            for e in self._chosen.edges
        ]
        return "\n".join([self.title, *lines, *([self.layout.note] if self.layout.note else [])])

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        # No HTML: it would come before the others everywhere, and is cleaned of pictures where it is not
        # trusted.
        bundle = {MIME: self.vega, "image/svg+xml": self.svg, "text/plain": repr(self)}
        return bundle, {MIME: {"embed_options": EMBED_OPTIONS}}
