"""A picture as Mermaid, which GitHub and other readers of Markdown draw."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from taboot_pipelines.retrieval.pictures.drawn import At, DrawnEdge, DrawnNode
from taboot_pipelines.retrieval.pictures.layout import printable


def mermaid(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge], links: Mapping[str, str]) -> str:
    """The nodes by their ``scope``, and the ``edges`` between them; ``links``: the arrow of each type."""
    groups: dict[str, list[DrawnNode]] = defaultdict(list)
    for node in nodes:
        groups[node.scope or node.label].append(node)
    lines, numbers = ["flowchart LR"], dict[At, int]()
    for n, (title, own) in enumerate(groups.items()):
        lines.append(f'  subgraph b{n} ["{_label(title)}"]')
        for node in own:
            number = numbers[node.label, node.key] = len(numbers)
            lines.append(f'    n{number}["{_label(node.name)}"]')
        lines.append("  end")
    drawn = dict.fromkeys((e.start, e.end, e.type) for e in edges if {e.start, e.end} <= numbers.keys())
    lines += [f"  n{numbers[start]} {links[type_]} n{numbers[end]}" for start, end, type_ in drawn]
    return "\n".join(lines)


def _label(text: str) -> str:
    """A text between quotes of Mermaid: what is more than a letter, a digit or a plain mark is a code."""
    return re.sub(r"[^\w \-./:@()]|_", lambda m: f"#{ord(m[0])};", printable(text)) or " "
