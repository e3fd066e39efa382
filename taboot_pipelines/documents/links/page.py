"""The links of an HTML page's main content.

The page's text leaves out the targets within its site, so they are read from the page itself. The map of
offsets says which elements stand in the text, and in which block of it.
"""

from __future__ import annotations

from urllib.parse import urljoin

import numpy as np

from taboot_pipelines.documents.encoding import byte_ends, decode
from taboot_pipelines.documents.html_markdown import is_hidden
from taboot_pipelines.documents.html_tree import Element, decoded
from taboot_pipelines.documents.html_tree import parse as parse_html
from taboot_pipelines.documents.links.hyperlink import MAX_TARGET, Hyperlink, hyperlink
from taboot_pipelines.documents.mime import PLAIN
from taboot_pipelines.documents.secrets import mask
from taboot_pipelines.model.offsets import OffsetMap


def page_links(data: bytes, charset: str, offsets: OffsetMap) -> list[Hyperlink]:
    """The links of the page in ``data`` that stand in its text, in their order. A link's place is the block
    of the text that holds it. ``charset``: in which the page was read; ``offsets``: of its text.

    Targets are relative to the page's URL; a ``<base>`` of the page is applied. Secrets are masked.
    """
    if not len(offsets):
        return []
    source, codec, bom = decode(data, charset, html=True)
    root = parse_html(source)
    base, anchors = "", []
    stack: list[Element] = [root]
    while stack:
        element = stack.pop()
        if element.tag == "base" and not base:
            base = element.get("href").strip()
        if element.tag == "a" and element.get("href"):
            anchors.append(element)
        stack.extend(
            child
            for child in reversed(element.children)
            if isinstance(child, Element) and (child.tag in ("head", "base") or not is_hidden(child))
        )
    if not anchors:
        return []
    ends = byte_ends(source, codec) + bom
    # Of blocks that hold one another the smallest counts.
    order = np.argsort(offsets.byte_end - offsets.byte_start, kind="stable")
    starts, stops = offsets.byte_start[order], offsets.byte_end[order]
    places: list[tuple[int, str, str]] = []
    for element in anchors:
        href = element.get("href").strip()
        label = "".join(decoded(source, t.start, t.end) for t in element.texts())
        if len(href) > MAX_TARGET or _is_permalink(href, label):
            continue
        begin, finish = int(ends[element.start]), int(ends[element.end])
        holding = (starts <= begin) & (finish <= stops)
        at = int(holding.argmax())
        if not holding[at]:
            # An element around several blocks stands where the first of them does.
            within = np.flatnonzero((begin <= starts) & (starts < finish))
            if not len(within):
                continue
            at = int(within[starts[within].argmin()])
        places.append((int(order[at]), " ".join(_joined(base, href).split()), " ".join(label.split())))
    if not places:
        return []
    places.sort(key=lambda place: place[0])
    # One a line, so that they are masked at once.
    targets = mask("\n".join(target for _, target, _ in places), PLAIN).split("\n")
    labels = mask("\n".join(label for _, _, label in places), PLAIN).split("\n")
    found = [
        hyperlink("href", target, int(offsets.doc_start[i]), int(offsets.doc_end[i]), label)
        for (i, _, _), target, label in zip(places, targets, labels, strict=True)
    ]
    return [link for link in found if link is not None]


def _is_permalink(href: str, label: str) -> bool:
    return href.startswith("#") or (label.strip() in ("¶", "#", "§", "🔗") and not href.startswith("http"))


def _joined(base: str, href: str) -> str:
    if not base:
        return href
    try:
        return urljoin(base, href)
    except ValueError:
        return href
