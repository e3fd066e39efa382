"""Secret values replaced by as many asterisks, so that every offset holds (``secrets-stop-at-the-blob``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from ahocorasick_rs import AhoCorasick, MatchKind

from taboot_pipelines.documents.mime import HTML, PLAIN
from taboot_pipelines.documents.secrets import places
from taboot_pipelines.documents.secrets.json_values import find_in_json, fitted, in_json, numbers
from taboot_pipelines.documents.secrets.named import find_named
from taboot_pipelines.documents.secrets.pages import find_in_page
from taboot_pipelines.documents.secrets.scanner import Scanner, find_in_manifests
from taboot_pipelines.documents.secrets.tables import find_in_tables
from taboot_pipelines.documents.secrets.tokens import MARKS, shaped, tokens
from taboot_pipelines.documents.secrets.values import (
    KEYWORDS,
    Span,
    is_no_secret,
    looks_secret,
    merged,
    strength,
)


def find_in_text(text: str, mime: str, code: Sequence[Span] | None = None) -> list[Span]:
    """Spans of secret values, ascending and disjoint; ``mime`` says which notations count. In JSON no span
    has a sign of its structure. ``code``: the parts of running text that are code, ascending, where known;
    otherwise the fenced parts of Markdown."""
    scan = Scanner(text, mime, code)
    positions = _positions(scan.lower)
    scan.spans = tokens(text)
    scan.spans.extend(shaped(text, positions))
    scan.spans.extend(places.in_places(text, positions))
    find_named(scan, positions)
    find_in_manifests(scan)
    find_in_json(scan)
    if any(word in positions for word in KEYWORDS):
        find_in_tables(scan)
    found = merged(scan.spans)
    return fitted(text, found) if found and in_json(mime) else found


def _positions(lower: str) -> dict[str, list[int]]:
    """Where the marks of all three ways stand in a text in lower case, found in one pass."""
    automaton, marks = _automaton()
    found: dict[str, list[int]] = {}
    for index, start, _ in automaton.find_matches_as_indexes(lower, overlapping=True):
        found.setdefault(marks[index], []).append(start)
    return found


@cache
def _automaton() -> tuple[AhoCorasick, list[str]]:
    marks = sorted({*KEYWORDS, *MARKS, *places.MARKS})
    return AhoCorasick(marks, matchkind=MatchKind.Standard), marks


#: Part of the parser's fingerprint: raise it when the same text would be masked otherwise.
MASK_VERSION = "7"

_NO_LINE_BREAK = re.compile(r"[^\r\n]")


def find_secrets(text: str, mime: str) -> list[Span]:
    """Spans of secret values in code points, ascending and disjoint; in HTML also those that stand across its
    tags or in attributes."""
    return merged(find_in_page(text)) if mime == HTML else find_in_text(text, mime)


def mask(text: str, mime: str) -> str:
    """``text`` with asterisks for every secret value: the same number of code points, the same lines.

    What was JSON stays JSON: a number becomes a string of its length.
    """
    spans = find_secrets(text, mime)
    if not spans:
        return text
    bare = numbers(text, spans) if in_json(mime) else ()
    parts = []
    at = 0
    for start, end in spans:
        parts.append(text[at:start])
        hidden = text[start:end]
        parts.append(f'"{_asterisks(hidden[2:])}"' if (start, end) in bare else _asterisks(hidden))
        at = end
    parts.append(text[at:])
    return "".join(parts)


def mask_value(name: str, value: str) -> str:
    """The value of a setting or field, masked if its ``name`` or its shape says that it is a secret."""
    kind = strength(name) if name else None
    if (
        kind is not None
        and not is_no_secret(value, literal=True)
        and (kind == "strong" or looks_secret(value))
    ):
        return _asterisks(value)
    return mask(value, PLAIN)


def _asterisks(hidden: str) -> str:
    if "\n" in hidden or "\r" in hidden:
        return _NO_LINE_BREAK.sub("*", hidden)
    return "*" * len(hidden)
