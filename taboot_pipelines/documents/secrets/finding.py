"""The secrets of a text that is no HTML."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ahocorasick_rs import AhoCorasick, MatchKind

from taboot_pipelines.documents.secrets import places
from taboot_pipelines.documents.secrets.json_values import find_in_json, fitted, in_json
from taboot_pipelines.documents.secrets.named import find_named
from taboot_pipelines.documents.secrets.scanner import Scanner, find_in_manifests
from taboot_pipelines.documents.secrets.tables import find_in_tables
from taboot_pipelines.documents.secrets.tokens import MARKS, shaped, tokens
from taboot_pipelines.documents.secrets.values import KEYWORDS, Span, merged


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
    # What is asterisks already is masked.
    found = merged(span for span in scan.spans if text[span[0] : span[1]].strip("*"))
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
