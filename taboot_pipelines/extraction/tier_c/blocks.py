"""The running text of Markdown: paragraphs and list items as plain text that knows where it stands.

pulldown-cmark reads the Markdown (CommonMark 0.31) and says for every piece where it stands. Code blocks,
tables, images, comments and metadata are no running text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyromark

from taboot_pipelines.packaged import word_list

_OPTIONS = (
    pyromark.Options.ENABLE_TABLES
    | pyromark.Options.ENABLE_FOOTNOTES
    | pyromark.Options.ENABLE_STRIKETHROUGH
    | pyromark.Options.ENABLE_YAML_STYLE_METADATA_BLOCKS
    | pyromark.Options.ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS
)
_SURROGATE = re.compile("[\ud800-\udfff]")
#: What looks like a tag and is none: a placeholder such as ``<your-ip>``.
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w .-]{0,40}>")
_ELEMENTS = word_list("taboot_pipelines.documents", "html_block_elements.txt") | frozenset(
    [
        "a",
        "abbr",
        "b",
        "bdi",
        "bdo",
        "br",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "input",
        "ins",
        "kbd",
        "label",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "time",
        "u",
        "var",
        "wbr",
    ]
)
_SILENT = frozenset(("CodeBlock", "MetadataBlock", "HtmlBlock", "Table", "Image", "FootnoteDefinition"))
_ENDING = frozenset(("Paragraph", "Item", "List", "BlockQuote"))
#: A block of so many code points is no paragraph that anybody wrote.
_MAX_BLOCK = 20_000


@dataclass(frozen=True, slots=True)
class Span:
    """Code points ``[start, end)`` of the document, and their text as it reads."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Heading(Span):
    """A heading; ``code`` is what it has as inline code."""

    code: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph or list item. ``offsets[i]`` is where ``text[i]`` stands in the document; ``code`` are
    ranges of ``text`` that are inline code. ``headings``: those above it, outermost first."""

    text: str
    offsets: tuple[int, ...]
    code: tuple[tuple[int, int], ...]
    headings: tuple[Heading, ...]
    #: The paragraph before the list that the block is an item of.
    introduction: str = ""

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Code points of the document from ``text[start:end]``, which must not be empty."""
        return self.offsets[start], self.offsets[end - 1] + 1


@dataclass
class _Open:
    """What is being read: pieces of text with where they begin, and the ranges of code."""

    pieces: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    code: list[tuple[int, int]] = field(default_factory=list)

    def add(self, text: str, start: int, source: str) -> None:
        self.pieces.append(text)
        if source.startswith(text, start):
            self.offsets.extend(range(start, start + len(text)))
        else:
            # An entity or an escape: each code point stands where the whole does.
            self.offsets.extend([start] * len(text))

    def add_code(self, text: str, start: int, end: int, source: str) -> None:
        inside = source.find(text, start, end)
        begin = len(self.offsets)
        self.add(text, inside if inside >= 0 else start, source)
        if text:
            self.code.append((begin, len(self.offsets)))

    def taken(self) -> tuple[str, tuple[int, ...], tuple[tuple[int, int], ...]]:
        found = "".join(self.pieces), tuple(self.offsets), tuple(self.code)
        self.pieces, self.offsets, self.code = [], [], []
        return found


def blocks(text: str) -> Iterator[Block]:
    """The paragraphs and list items of a Markdown text, in order."""
    source = _SURROGATE.sub("\ufffd", text)
    position = _positions(source)
    current = _Open()
    headings: list[tuple[int, Heading]] = []
    introductions: list[str] = []
    last_paragraph = ""
    silent = level = 0
    for event, span in pyromark.events_with_range(source, options=_OPTIONS):
        start, end = position(span["start"]), position(span["end"])
        kind: Any
        value: Any
        kind, value = next(iter(event.items())) if isinstance(event, dict) else (event, None)
        name = next(iter(value)) if isinstance(value, dict) else value
        if kind == "Start":
            if name in _SILENT:
                silent += 1
            elif name == "Heading":
                current.taken()
                level = int(str(value["Heading"]["level"])[1])
            elif name in _ENDING:
                yield from _block(current, headings, introductions)
                if name == "List":
                    introductions.append(last_paragraph)
        elif kind == "End":
            if name in _SILENT:
                silent = max(0, silent - 1)
                if name == "CodeBlock":
                    last_paragraph = ""
            elif name == "Heading":
                said, offsets, code = current.taken()
                headings = [h for h in headings if h[0] < level]
                if said.strip():
                    marked = tuple(said[start:end].strip() for start, end in code)
                    headings.append((level, Heading(offsets[0], offsets[-1] + 1, said.strip(), marked)))
                level, last_paragraph = 0, ""
            elif name in _ENDING:
                for block in _block(current, headings, introductions):
                    last_paragraph = block.text
                    yield block
                if name == "List" and introductions:
                    introductions.pop()
        elif silent:
            continue
        elif kind == "Text":
            current.add(str(value), start, source)
        elif kind == "Code":
            current.add_code(str(value), start, end, source)
        elif kind in ("SoftBreak", "HardBreak"):
            current.add(" ", start, source)
        elif kind == "InlineHtml" and _is_placeholder(str(value)):
            current.add(str(value), start, source)
    yield from _block(current, headings, introductions)


def _block(current: _Open, headings: list[tuple[int, Heading]], introductions: list[str]) -> Iterator[Block]:
    said, offsets, code = current.taken()
    if said.strip() and len(said) <= _MAX_BLOCK:
        introduction = introductions[-1] if introductions else ""
        yield Block(said, offsets, code, tuple(h for _, h in headings), introduction)


def _is_placeholder(tag: str) -> bool:
    name = tag.strip("<>/ ").split(" ")[0].lower()
    return _PLACEHOLDER.fullmatch(tag) is not None and name not in _ELEMENTS


def _positions(text: str) -> Callable[[int], int]:
    """From bytes of the text in UTF-8 to its code points."""
    if text.isascii():
        return int
    data = np.frombuffer(text.encode(), np.uint8)
    points: Any = np.concatenate(([0], np.cumsum((data & 0xC0) != 0x80)))
    return lambda at: int(points[at])
