"""Secrets of HTML pages, which markup hides from a search in the source: highlighted code has tags between a
key and its value, and a table has them between its cells.

A page is read twice more: as the text that it shows, and as the document that it becomes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from taboot_pipelines.documents.html_content import main_content
from taboot_pipelines.documents.html_markdown import join
from taboot_pipelines.documents.html_tree import BLOCK, RAW, Element, Text, parse, pieces
from taboot_pipelines.documents.mime import MARKDOWN, PLAIN
from taboot_pipelines.documents.secrets.finding import find_in_text
from taboot_pipelines.documents.secrets.spans import Span, merged

_INLINE_CODE = ("code", "kbd", "samp", "tt")
#: Shorter values are not looked for elsewhere on the page.
_MIN_VALUE = 3
#: Of a piece of the shown text that stands nowhere in the source.
_NOWHERE = (-1, -1)


def find_in_page(source: str) -> Iterator[Span]:
    """Spans of secrets in the source of a page that a search in the source may miss, in no order."""
    root = parse(source)
    yield from _through_markup(source, root)
    yield from _as_document(source, root)


@dataclass(slots=True)
class _Shown:
    """The text that a page shows, in pieces: each with its position there and its range of the source."""

    parts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    sources: list[Span] = field(default_factory=list)
    length: int = 0

    def put(self, text: str, source: Span) -> None:
        self.parts.append(text)
        self.starts.append(self.length)
        self.sources.append(source)
        self.length += len(text)

    def in_source(self, spans: list[Span]) -> Iterator[Span]:
        """Ascending, disjoint spans of the shown text as spans of the source, piece by piece."""
        i = 0
        for start, end in spans:
            while i + 1 < len(self.starts) and self.starts[i + 1] <= start:
                i += 1
            j = i
            while j < len(self.starts) and self.starts[j] < end:
                a, b = self.sources[j]
                if a >= 0:
                    if len(self.parts[j]) == b - a:
                        yield a + max(0, start - self.starts[j]), min(b, a + end - self.starts[j])
                    else:
                        yield a, b
                j += 1


def _shown(source: str, root: Element) -> _Shown:
    shown = _Shown()
    stack: list[Element | Text | str] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Text):
            for text, start, end in pieces(source, node.start, node.end):
                shown.put(text, (start, end))
        elif isinstance(node, str):
            shown.put(node, _NOWHERE)
        elif node.tag not in RAW:
            around = _around(node.tag)
            stack.extend([around, *reversed(node.children), around])
    return shown


def _around(tag: str) -> str:
    """What a page shows before and after an element: a new line, the quotes of code, or nothing."""
    if tag in BLOCK or tag == "br":
        return "\n"
    return "`" if tag in _INLINE_CODE else ""


def _through_markup(source: str, root: Element) -> Iterator[Span]:
    """Secrets in the text that the page shows."""
    shown = _shown(source, root)
    text = "".join(shown.parts)
    # As prose, then its code as a configuration: the page does not say which it is.
    found = find_in_text(text, PLAIN) + _code_secrets(source, root, shown, text)
    yield from shown.in_source(merged(found))


def _code_secrets(source: str, root: Element, shown: _Shown, text: str) -> list[Span]:
    """Secrets in the ``pre`` elements, read as YAML, which is the strictest reading of key and value."""
    if "<pre" not in source and "<PRE" not in source:
        return []
    found: list[Span] = []
    # Pieces that stand in the source, in its order, which is the order of the page.
    indexes = [i for i, (a, _) in enumerate(shown.sources) if a >= 0]
    places = [shown.sources[i][0] for i in indexes]
    last = -1
    for element in root.walk():
        if element.tag != "pre" or element.start < last:
            continue
        last = element.end
        first = bisect_left(places, element.content_start)
        after = bisect_left(places, element.content_end)
        if first == after:
            continue
        begin = shown.starts[indexes[first]]
        stop = shown.starts[indexes[after]] if after < len(indexes) else len(text)
        found.extend((begin + a, begin + b) for a, b in find_in_text(text[begin:stop], "application/yaml"))
    return found


def _as_document(source: str, root: Element) -> Iterator[Span]:
    """What is masked in the document that the page becomes (in the cells of a table, say), wherever the page
    has it."""
    document, _ = join(main_content(source, root))
    values = {
        line.strip().replace("\\|", "|")
        for start, end in find_in_text(document, MARKDOWN)
        for line in document[start:end].splitlines()
    }
    forms = {
        form
        for value in values
        if len(value) >= _MIN_VALUE
        for form in (value, escape(value), escape(value, quote=False))
    }
    if forms:
        wanted = "|".join(re.escape(f) for f in sorted(forms, key=lambda f: (-len(f), f)))
        for m in re.finditer(rf"(?<!\w)(?:{wanted})(?!\w)", source):
            yield m.span()
