"""The secrets of a text that is no HTML, those in columns of its tables (Markdown, CSV) among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from ahocorasick_rs import AhoCorasick, MatchKind

from taboot_pipelines.documents.secrets import places
from taboot_pipelines.documents.secrets.json_values import find_in_json, fitted, in_json
from taboot_pipelines.documents.secrets.named import find_named
from taboot_pipelines.documents.secrets.scanner import Scanner, find_in_manifests
from taboot_pipelines.documents.secrets.tokens import MARKS, shaped, tokens
from taboot_pipelines.documents.secrets.values import (
    KEYWORDS,
    Span,
    is_kind,
    is_no_secret,
    is_unwordly,
    looks_secret,
    merged,
    strength,
)

#: The line below the head of a table.
_RULE = re.compile(r"^[ \t>]{0,12}\|?[ \t]{0,40}:?-{1,400}:?[ \t]{0,40}(?:\|[ \t:-]{0,400}){1,100}\r?$", re.M)
_MAX_LINE = 4000
_CELL = re.compile(r"(?:\\.|`[^`\n|]{0,400}`|[^|\\\n`]|`){0,2000}")
_CSV_CELL = {
    ",": re.compile(r"[ \t]*(?:\"((?:[^\"\n]|\"\"){0,2000})\"|([^,\n\"]{0,2000}))[ \t\r]*"),
    ";": re.compile(r"[ \t]*(?:\"((?:[^\"\n]|\"\"){0,2000})\"|([^;\n\"]{0,2000}))[ \t\r]*"),
    "\t": re.compile(r"[ ]*(?:\"((?:[^\"\n]|\"\"){0,2000})\"|([^\t\n\"]{0,2000}))[ \r]*"),
}
#: Heads under which any word is a secret; under others only what looks like one.
_PASSWORDS = re.compile(r"(?i)pass(?:word|wd|phrase|wort)?s?\Z|pw\Z|pwd\Z")


def find_in_tables(scan: Scanner) -> None:
    """Add the secrets of the columns in ``scan``."""
    if scan.mime == "text/csv":
        head = scan.text[: scan.line_end(0)]
        _find_in_csv(scan, max(",;\t", key=head.count))
    elif scan.mime == "text/tab-separated-values":
        _find_in_csv(scan, "\t")
    elif scan.prose:
        _find_in_markdown(scan)


def _find_in_markdown(scan: Scanner) -> None:
    text = scan.text
    if "|" not in text:
        return
    pos = 0
    for rule in _RULE.finditer(text):
        if rule.start() < pos:  # a row of the table before
            continue
        start = text.rfind("\n", max(0, rule.start() - _MAX_LINE), max(0, rule.start() - 1)) + 1
        secret = {
            i: name
            for i, (a, b) in enumerate(_cells(text, start, rule.start() - 1))
            if (name := _announced(text[a:b]))
        }
        pos = rule.end() + 1
        while secret and pos < len(text):
            end = text.find("\n", pos)
            end = end if end >= 0 else len(text)
            if text.find("|", pos, end) < 0:
                break
            for i, cell in enumerate(_cells(text, pos, min(end, pos + _MAX_LINE))):
                if i in secret:
                    _add_cell(scan, *cell, secret[i])
            pos = end + 1


def _cells(text: str, start: int, end: int) -> Iterator[Span]:
    """The cells of a line of a Markdown table, without blanks and marks of code and emphasis."""
    at = start
    while at < end and text[at] in " \t>":
        at += 1
    at += text[at : at + 1] == "|"
    while at < end:
        cell = _CELL.match(text, at, end)
        stop = cell.end() if cell else end
        a, b = at, stop
        while a < b and text[a] in " \t\r`*":
            a += 1
        while b > a and text[b - 1] in " \t\r`*":
            b -= 1
        yield a, b
        at = max(stop, at) + 1


def _find_in_csv(scan: Scanner, separator: str) -> None:
    text, pattern = scan.text, _CSV_CELL[separator]
    secret: dict[int, str] = {}
    at = column = 0
    is_head = True
    while at < len(text) and (cell := pattern.match(text, at)):
        value = cell.span(1 if cell[1] is not None else 2)
        if is_head:
            if name := _announced(text[value[0] : value[1]].strip()):
                secret[column] = name
        elif column in secret:
            _add_cell(scan, *value, secret[column])
        at = cell.end()
        column += 1
        if text[at : at + 1] == separator:
            at += 1
            continue
        # The next line; what follows a quoted cell on its line is no cell.
        at = (text.find("\n", at) + 1) or len(text)
        column = 0
        if is_head and not secret:
            return
        is_head = False


def _announced(head: str) -> str:
    """The head of a column if it is the name of a secret, else ''."""
    words = head.replace(" ", "_")
    return words if 0 < len(words) <= 40 and strength(words) == "strong" else ""


def _add_cell(scan: Scanner, start: int, end: int, head: str) -> None:
    value = scan.text[start:end]
    if not value or is_kind(value) or is_no_secret(value, literal=True):
        return
    if any(c.isspace() for c in value):  # a sentence
        return
    if _PASSWORDS.search(head) or looks_secret(value) or (len(value) >= 8 and is_unwordly(value)):
        scan.add(start, end)


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
