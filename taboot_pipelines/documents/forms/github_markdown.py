"""Markdown that people wrote as a part of a larger document: its headings stand beneath the part's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyromark

from taboot_pipelines.documents.forms.writing import Edit

_SURROGATE = re.compile("[\ud800-\udfff]")
_LEVELS = {f"H{n}": n for n in range(1, 7)}
_UNDERLINE = re.compile(r"(?:\r\n|\r|\n)[ \t>]*(?:=+|-+)[ \t]*\s*\Z")
_FENCE = re.compile(r"(`{3,}|~{3,})")
#: What ends by itself where its lines do.
_CONTAINERS = frozenset({"BlockQuote", "Item"})
_OPTIONS = pyromark.Options.ENABLE_TABLES


def beneath(text: str, level: int) -> list[Edit]:
    """The edits that put the headings of ``text`` beneath one of ``level``, in order;
    at the end what closes a fence or a comment that was left open, lest it swallow what follows."""
    source = _SURROGATE.sub("\ufffd", text)
    edits: list[Edit] = []
    closing = ""
    containers = 0
    position = _positions(source)
    for event, span in pyromark.events_with_range(source, options=_OPTIONS):
        ((kind, what),) = event.items() if isinstance(event, dict) else [(event, None)]
        named: tuple[Any, Any] = next(iter(what.items())) if isinstance(what, dict) else (what, None)
        name, facts = named
        if kind == "End" and name in _CONTAINERS:
            containers -= 1
        if kind != "Start":
            continue
        start, end = position(span["start"]), position(span["end"])
        closing = ""
        if name in _CONTAINERS:
            containers += 1
        elif name == "Heading":
            edits += _demoted(source, start, end, _LEVELS.get(facts["level"], 1), level)
        elif name == "CodeBlock" and not containers:
            closing = _unfenced(source, start, end)
        elif name == "HtmlBlock" and not containers:
            closing = _left_open(source[start:end])
    if closing:
        edits.append(Edit(len(text), len(text), closing))
    return edits


def _demoted(source: str, start: int, end: int, own: int, level: int) -> list[Edit]:
    wanted = min(6, own + level)
    if source.startswith("#", start):
        return [Edit(start, start, "#" * (wanted - own))] if wanted > own else []
    underline = _UNDERLINE.search(source, start, end)
    if underline is None or re.search(r"[\r\n]", source[start : underline.start()]):
        return []  # a heading of several lines stays a paragraph's neighbour
    stop = underline.start() + len(source[underline.start() : end].rstrip())
    return [Edit(start, start, "#" * wanted + " "), Edit(underline.start(), stop, "")]


def _unfenced(source: str, start: int, end: int) -> str:
    """The end of a fence that has none."""
    fence = _FENCE.match(source, start)
    if fence is None:
        return ""
    lines = source[start:end].rstrip().splitlines()
    mark = fence[1]
    closed = len(lines) > 1 and re.fullmatch(rf"[ \t>]*{re.escape(mark[0])}{{{len(mark)},}}", lines[-1])
    return "" if closed else f"\n{mark}"


def _left_open(block: str) -> str:
    """What an HTML block lacks that ends at a word of its own (CommonMark 4.6, kinds 1 to 5)."""
    head = block.lstrip()[:12].lower()
    for opening, end in (("<!--", "-->"), ("<?", "?>"), ("<![cdata[", "]]>")):
        if head.startswith(opening):
            return "" if end in block else f"\n{end}"
    for tag in ("script", "pre", "style", "textarea"):
        if re.match(rf"<{tag}(?:[\s>]|\Z)", head):
            return "" if f"</{tag}>" in block.lower() else f"\n</{tag}>"
    return ""


def _positions(text: str) -> Callable[[int], int]:
    """From bytes of the text in UTF-8 to its code points."""
    if text.isascii():
        return int
    data: Any = np.frombuffer(text.encode(), np.uint8)
    points = np.concatenate(([0], np.cumsum((data & 0xC0) != 0x80)))
    return lambda at: int(points[at])
