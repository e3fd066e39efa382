"""What a page says in machine-readable form: JSON-LD, microdata (WHATWG HTML §5) and Open Graph, as Markdown.

Each item becomes a section headed by its type, each value a list entry named by its path in the item. extruct
reads the notations; since it tells no positions, it is given one element of the positioned tree at a time, so
that each section leads to the bytes of its element (rule ``offsets-carried``). A microdata item with
``itemref`` is read from the whole page and leads to the range from its first element to its last.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.documents.html_markdown import Segment
from taboot_pipelines.documents.html_tree import Element, Root
from taboot_pipelines.errors import TabootError

#: Of one page. What extruct does grows with the product of properties, with the square of how deeply items
#: are nested, and with each reference times the page.
_MAX_ITEMS = 10_000
_MAX_PROPERTIES = 20_000
_MAX_NESTED = 16
_MAX_REFERENCES = 500
#: Items that only extruct sees, in elements nested deeper than the positioned tree goes.
_MAX_UNSEEN = 50
#: A JSON-LD script is read by code that tries hard.
_MAX_SCRIPT_CHARS = 2_000_000
_MAX_PATH_CHARS = 200
_SPACES = re.compile(r"\s+")
_UNREADABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f]")
_JSON_LD = "application/ld+json"


@dataclass(frozen=True, slots=True)
class _Item:
    """An item and the range of the source that states it."""

    value: object
    start: int
    end: int


def structured(source: str, root: Root, max_chars: int) -> tuple[str, list[Segment]]:
    """The structured data of a page as Markdown, and where each line comes from; nothing if it has none.

    Items stand in the order of their elements. Raises ``E_TOO_LARGE`` for more than ``max_chars`` of text, or
    more items than a page can have; ``E_PARSE`` where there is JSON-LD but none of it can be read.
    """
    source = _UNREADABLE.sub("\ufffd", source)
    items: list[_Item] = []
    broken: list[int] = []
    for item in _items(source, root, broken):
        items.append(item)
        if len(items) > _MAX_ITEMS:
            raise TabootError("E_TOO_LARGE", f"The page has more than {_MAX_ITEMS} items of structured data.")
    if not items and broken:
        raise TabootError(
            "E_PARSE", f"The JSON-LD at character {broken[0]} of the page cannot be read.", at=broken[0]
        )
    parts: list[str] = []
    segments: list[Segment] = []
    length = 0
    for item in sorted(items, key=lambda i: (i.start, -i.end)):
        for line in _section(item.value):
            if parts and line.startswith("## "):
                line = f"\n{line}"
            parts.append(f"{line}\n")
            segments.append((length, length + len(line) + 1, item.start, item.end))
            length += len(line) + 1
            if length > max_chars:
                raise TabootError(
                    "E_TOO_LARGE", f"The page's structured data has more than {max_chars} characters."
                )
    return "".join(parts), segments


def _items(source: str, root: Root, broken: list[int]) -> Iterator[_Item]:
    """All items; ``broken`` is told where JSON-LD stands that cannot be read."""
    elements = list(root.walk())
    yield from _json_ld(source, elements, broken)
    yield from _microdata(source, root, elements)
    if (page := _open_graph(source, elements)) is not None:
        yield page


def _json_ld(source: str, elements: list[Element], broken: list[int]) -> Iterator[_Item]:
    from extruct.jsonld import JsonLdExtractor

    extractor = JsonLdExtractor()
    for element in elements:
        if element.tag != "script":
            continue
        if element.get("type").partition(";")[0].strip().lower() != _JSON_LD:
            continue
        content = source[element.content_start : element.content_end]
        if not content.strip():
            continue
        try:
            if len(content) > _MAX_SCRIPT_CHARS:
                raise ValueError
            found = extractor.extract(f'<script type="{_JSON_LD}">{content}</script>')
        except (ValueError, RecursionError, IndexError):
            broken.append(element.content_start)
            continue
        for item in found:
            graph = item.get("@graph") if isinstance(item, dict) else None
            for value in graph if isinstance(graph, list) else [item]:
                yield _Item(value, element.start, element.end)


def _microdata(source: str, root: Root, elements: list[Element]) -> Iterator[_Item]:
    from extruct.w3cmicrodata import MicrodataExtractor

    scopes = [e for e in elements if "itemscope" in e.attributes]
    if not scopes:
        return
    references = sum(len(e.get("itemref").split()) for e in elements if "itemref" in e.attributes)
    names = source.lower()
    if (
        names.count("itemscope") > len(scopes) + _MAX_UNSEEN
        or names.count("itemprop") > _MAX_PROPERTIES
        or references > _MAX_REFERENCES
        or _nesting(scopes) > _MAX_NESTED
    ):
        raise TabootError(
            "E_TOO_LARGE", "The page's microdata has too many properties, or items nested too deeply."
        )
    tops = [e for e in scopes if "itemprop" not in e.attributes]
    extractor = MicrodataExtractor(strict=False)
    if not references:
        for element in tops:
            # What stands in it may hold items of its own, which are told on their own.
            for value in extractor.extract(source[element.start : element.end])[:1]:
                yield _Item(value, element.start, element.end)
        return
    named = {e.get("id"): e for e in reversed(elements) if "id" in e.attributes}
    values = extractor.extract(source)
    for i, value in enumerate(values):
        start, end = root.start, root.end
        if len(values) == len(tops):
            start, end = _reach(tops[i], named)
        yield _Item(value, start, end)


def _nesting(scopes: list[Element]) -> int:
    """How many items, given in document order, hold one another at most."""
    most = 0
    open_ends: list[int] = []
    for element in scopes:
        while open_ends and open_ends[-1] <= element.start:
            open_ends.pop()
        open_ends.append(element.end)
        most = max(most, len(open_ends))
    return most


def _reach(top: Element, named: dict[str, Element]) -> tuple[int, int]:
    """From the first element of an item to its last, those that it refers to by id included."""
    start, end = top.start, top.end
    waiting, seen = [top], {top}
    while waiting:
        for element in waiting.pop().walk():
            for name in element.get("itemref").split():
                other = named.get(name)
                if other is not None and other not in seen:
                    seen.add(other)
                    waiting.append(other)
                    start, end = min(start, other.start), max(end, other.end)
    return start, end


def _open_graph(source: str, elements: list[Element]) -> _Item | None:
    """The page as Open Graph has it: one object, whose properties its ``meta`` elements state."""
    from extruct.opengraph import OpenGraphExtractor

    metas = [
        e for e in elements if e.tag == "meta" and "property" in e.attributes and "content" in e.attributes
    ]
    if not metas or len(metas) > _MAX_ITEMS:
        return None
    prefix = html.escape(" ".join(e.get("prefix") for e in elements if e.tag in ("html", "head")))
    extractor = OpenGraphExtractor()
    properties: list[tuple[str, str]] = []
    used: list[Element] = []
    for meta in metas:
        text = f'<html prefix="{prefix}"><head>{source[meta.start : meta.end]}</head></html>'
        for found in extractor.extract(text):
            properties += found["properties"]
            used.append(meta)
    if not used:
        return None
    return _Item(_Graph(properties), used[0].start, used[-1].end)


class _Graph(list[tuple[str, str]]):
    """Properties of Open Graph in their order: a structured one follows what it belongs to."""


def _section(item: object) -> Iterator[str]:
    """The lines of one item."""
    if isinstance(item, _Graph):
        yield "## Open Graph"
        for name, value in item:
            if text := _clean(value):
                yield f"- {name}: {text}"
        return
    lines = list(_lines(item))
    if lines:
        yield f"## {_kind(item) or 'Item'}"
        yield from lines


def _lines(item: object) -> Iterator[str]:
    """Every value in an item, in its order, with the path that leads to it."""
    stack: list[tuple[str, object]] = [("", item)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, list):
            stack.extend((path, v) for v in reversed(value))
        elif isinstance(value, dict):
            # Of microdata, `properties` holds what in JSON-LD stands beside the type.
            members: list[tuple[str, Any]] = []
            for name, v in value.items():
                if name == "properties" and isinstance(v, dict) and "type" in value:
                    members += v.items()
                elif name not in ("@context", "@type", "type") or (
                    name == "type" and "properties" not in value
                ):
                    members.append((str(name).removeprefix("@"), v))
            if path and (kind := _kind(value)):
                yield f"- {path}: {kind}"
            stack.extend(
                (_clean(f"{path}.{name}" if path else name)[:_MAX_PATH_CHARS], v)
                for name, v in reversed(members)
            )
        elif value is not None and (text := _clean(value)):
            yield f"- {path}: {text}" if path else f"- {text}"


def _kind(item: object) -> str:
    """The last part of an item's type, as people call it."""
    if not isinstance(item, dict):
        return ""
    stated = item.get("@type") or (item.get("type") if "properties" in item else None)
    kinds = stated if isinstance(stated, list) else [stated]
    return ", ".join(
        _clean(re.split(r"[/#]", k.rstrip("/#"))[-1])[:_MAX_PATH_CHARS]
        for k in kinds
        if isinstance(k, str) and k
    )


def _clean(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return _SPACES.sub(" ", _UNREADABLE.sub("\ufffd", text)).strip()
