"""Tables and pictures of graphs for notebooks: plain HTML and SVG; whatever documents say is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_COLOURS = {
    "Document": "#9aa5b1",
    "Service": "#3b82f6",
    "Container": "#0ea5e9",
    "Image": "#a855f7",
    "Network": "#10b981",
    "Host": "#f59e0b",
    "IP": "#f97316",
    "ReverseProxy": "#ef4444",
    "Endpoint": "#ec4899",
    "VPNTunnel": "#84cc16",
    "TailscaleNode": "#6366f1",
    "ROOT": "#ef4444",
    "URL": "#3b82f6",
}
_MAX_DRAWN = 60


class DrawnNode(NamedTuple):
    """A node of a picture; ``start``: the picture is of what surrounds it."""

    label: str
    key: str
    name: str
    start: bool


class DrawnEdge(NamedTuple):
    """An arrow of a picture; ``start`` and ``end``: label and key of the nodes."""

    type: str
    start: tuple[str, str]
    end: tuple[str, str]


def shorten(text: str, length: int = 240) -> str:
    """On one line, cut to ``length`` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], preformatted: int | None = None
) -> str:
    """An HTML table. ``preformatted``: the number of the column whose line breaks matter."""
    head = "".join(f"<th style='text-align:left'>{escape(c)}</th>" for c in columns)
    code = "white-space:pre-wrap;font-family:monospace"
    body = "".join(
        "<tr>"
        + "".join(
            f"<td style='text-align:left;{code if i == preformatted else ''}'>{escape(str(v))}</td>"
            for i, v in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption style='text-align:left'>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


#: Room for a node of a chain, in the SVG's units.
_CHAIN_STEP = 150


def chain(nodes: Sequence[DrawnNode], steps: Sequence[tuple[str, bool]]) -> str:
    """An SVG of nodes in a row. ``steps``: between each and the next, the relation and whether it leads
    there."""
    width = max(1, len(nodes)) * _CHAIN_STEP
    parts = []
    for at, (kind, forward) in enumerate(steps):
        x1, x2 = (at + 0.5) * _CHAIN_STEP + 14, (at + 1.5) * _CHAIN_STEP - 14
        tail, head = (x1, x2) if forward else (x2, x1)
        parts.append(
            f"<line x1='{tail:.0f}' y1='40' x2='{head:.0f}' y2='40' stroke='#94a3b8'"
            f" marker-end='url(#taboot-tip)'/><text x='{(x1 + x2) / 2:.0f}' y='32' font-size='9'"
            f" fill='#64748b' text-anchor='middle'>{escape(kind)}</text>"
        )
    for at, node in enumerate(nodes):
        x = (at + 0.5) * _CHAIN_STEP
        parts.append(
            f"<g><title>{escape(f'{node.label} {node.name}')}</title><circle cx='{x:.0f}' cy='40'"
            f" r='{12 if node.start else 9}' fill='{_COLOURS.get(node.label, '#64748b')}'/>"
            f"<text x='{x:.0f}' y='68' font-size='10' text-anchor='middle'>{escape(shorten(node.name, 28))}"
            f"</text><text x='{x:.0f}' y='81' font-size='8' fill='#64748b' text-anchor='middle'>"
            f"{escape(node.label)}</text></g>"
        )
    tip = (
        "<defs><marker id='taboot-tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='6'"
        " markerHeight='6' orient='auto'><path d='M0 0L8 4L0 8z' fill='#94a3b8'/></marker></defs>"
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} 92' width='{min(width, 1000)}'"
        f" font-family='sans-serif'>{tip}{''.join(parts)}</svg>"
    )


def picture(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge]) -> str:
    """An SVG of a graph: starts in the middle, the others around them by label."""
    drawn = sorted(nodes, key=lambda n: (not n.start, n.label, n.name, n.key))[:_MAX_DRAWN]
    inner = [n for n in drawn if n.start]
    outer = [n for n in drawn if not n.start]
    radius = 140 + 4 * len(outer)
    size = 2 * (radius + 90)
    centre = size / 2
    at: dict[tuple[str, str], tuple[float, float]] = {}
    for ring, r in ((inner, 0.0 if len(inner) < 2 else 45.0), (outer, float(radius))):
        for i, node in enumerate(ring):
            angle = 2 * math.pi * i / len(ring) - math.pi / 2
            at[(node.label, node.key)] = (centre + r * math.cos(angle), centre + r * math.sin(angle))
    lines = []
    for edge in edges:
        if edge.start in at and edge.end in at:
            (x1, y1), (x2, y2) = at[edge.start], at[edge.end]
            kind = escape(edge.type)
            lines.append(
                f"<line x1='{x1:.0f}' y1='{y1:.0f}' x2='{x2:.0f}' y2='{y2:.0f}' stroke='#94a3b8'"
                f" marker-end='url(#taboot-arrow)'><title>{kind}</title></line><text"
                f" x='{(x1 + x2) / 2:.0f}' y='{(y1 + y2) / 2:.0f}' font-size='8' fill='#64748b'"
                f" text-anchor='middle'>{kind}</text>"
            )
    marks = []
    for node in drawn:
        x, y = at[(node.label, node.key)]
        marks.append(
            f"<g><title>{escape(f'{node.label} {node.name}')}</title><circle cx='{x:.0f}' cy='{y:.0f}'"
            f" r='{12 if node.start else 8}' fill='{_COLOURS.get(node.label, '#64748b')}'/>"
            f"<text x='{x:.0f}' y='{y + 22:.0f}' font-size='10'"
            f" text-anchor='middle'>{escape(shorten(node.name, 28))}</text></g>"
        )
    arrow = (
        "<defs><marker id='taboot-arrow' viewBox='0 0 8 8' refX='16' refY='4' markerWidth='6'"
        " markerHeight='6' orient='auto'><path d='M0 0L8 4L0 8z' fill='#94a3b8'/></marker></defs>"
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {size:.0f} {size:.0f}'"
        f" width='{min(size, 720):.0f}'"
        f" font-family='sans-serif'>{arrow}{''.join(lines)}{''.join(marks)}</svg>"
    )
