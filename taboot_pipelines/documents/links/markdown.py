"""The links of Markdown: inline, by reference, in angle brackets, bare, of wikis, and in raw HTML.

pulldown-cmark reads it (CommonMark 0.31, with tables, footnotes, metadata blocks and wiki links); it says for
every element where it stands.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyromark

from taboot_pipelines.documents.links.hyperlink import Hyperlink, bare_urls, hyperlink

_OPTIONS = (
    pyromark.Options.ENABLE_TABLES
    | pyromark.Options.ENABLE_FOOTNOTES
    | pyromark.Options.ENABLE_STRIKETHROUGH
    | pyromark.Options.ENABLE_WIKILINKS
    | pyromark.Options.ENABLE_YAML_STYLE_METADATA_BLOCKS
    | pyromark.Options.ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ANCHOR = re.compile(
    r"""<a\s(?:[^>"']|"[^"]*"|'[^']*')*?\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE
)
#: An indented block of MkDocs and its kin: a note, or a tab.
_INDENTING = re.compile(r"( *)(?:!!!|\?\?\?\+?|===)[ \t+!]*\S")
_MAY_INDENT = re.compile(r"^ *(?:!!!|\?\?\?|===)[ \t+!]*\S", re.MULTILINE)
_INDENT = 4


def markdown_links(text: str) -> list[Hyperlink]:
    """The links of a Markdown text, in no particular order."""
    source = _SURROGATE.sub("\ufffd", text)
    events = pyromark.events_with_range(_quoted(source), options=_OPTIONS)
    return list(_links(source, events, _positions(source)))


def _positions(text: str) -> Callable[[int], int]:
    """From bytes of the text in UTF-8 to its code points."""
    if text.isascii():
        return int
    data = np.frombuffer(text.encode(), np.uint8)
    points = np.concatenate(([0], np.cumsum((data & 0xC0) != 0x80)))
    # The first byte of the n-th code point has n - 1 of them before it.
    return lambda at: int(points[at])


def _links(source: str, events: Any, position: Callable[[int], int]) -> Iterator[Hyperlink]:
    opened: list[tuple[Any, int, int, list[str]]] = []
    #: Of the code, metadata and images around.
    silent = 0
    run: tuple[str, int, int] | None = None
    for event, span in events:
        start, end = position(span["start"]), position(span["end"])
        kind, value = next(iter(event.items())) if isinstance(event, dict) else (event, None)
        if run is not None and (kind != run[0] or start != run[2]):
            yield from _of_run(source, *run)
            run = None
        if kind in ("Text", "Code"):
            if opened:
                opened[-1][3].append(str(value))
            elif kind == "Text" and not silent:
                run = ("Text", run[1] if run else start, end)
        elif kind in ("Html", "InlineHtml") and not silent:
            run = (kind, run[1] if run else start, end)
        elif kind in ("SoftBreak", "HardBreak") and opened:
            opened[-1][3].append(" ")
        elif kind == "Start":
            name, facts = next(iter(value.items())) if isinstance(value, dict) else (value, None)
            if name == "Link" and not silent:
                opened.append((facts, start, end, []))
            elif name in ("CodeBlock", "MetadataBlock", "Image"):
                silent += 1
        elif kind == "End":
            name = next(iter(value)) if isinstance(value, dict) else value
            if name == "Link" and opened and not silent:
                facts, start, end, label = opened.pop()
                found = _link(facts, start, end, "".join(label))
                if found is not None:
                    yield found
            elif name in ("CodeBlock", "MetadataBlock", "Image"):
                silent = max(0, silent - 1)
    if run is not None:
        yield from _of_run(source, *run)


def _link(facts: Any, start: int, end: int, label: str) -> Hyperlink | None:
    kind = facts["link_type"]
    if kind == "Email":
        return None
    wiki = isinstance(kind, dict) and "WikiLink" in kind
    return hyperlink("wiki" if wiki else "href", facts["dest_url"], start, end, label)


def _of_run(source: str, kind: str, start: int, end: int) -> Iterator[Hyperlink]:
    """The links of a run of text or of raw HTML."""
    if kind == "Text":
        yield from bare_urls(source, start, end)
        return
    raw = _COMMENT.sub(lambda m: " " * len(m[0]), source[start:end])
    for match in _ANCHOR.finditer(raw):
        target = html.unescape(match[1] or match[2] or match[3] or "")
        found = hyperlink("href", target, start + match.start(), start + match.end())
        if found is not None:
            yield found


def _quoted(text: str) -> str:
    """The text with the indented blocks of MkDocs as quotations, which Markdown would take for code. No code
    point moves.
    """
    if not _MAY_INDENT.search(text):
        return text
    lines = text.split("\n")
    levels: list[int] = []
    for i, line in enumerate(lines):
        blanks = len(line) - len(line.lstrip(" "))
        if blanks < len(line):
            while levels and blanks < levels[-1]:
                levels.pop()
        marker = _INDENTING.match(line)
        for level in levels:
            if len(line) >= level:
                lines[i] = lines[i][: level - _INDENT] + ">" + lines[i][level - _INDENT + 1 :]
        if marker is not None and (not levels or len(marker[1]) >= levels[-1]):
            levels.append(len(marker[1]) + _INDENT)
    return "\n".join(lines)
