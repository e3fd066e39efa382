"""Tables for notebooks, in plain HTML: long texts are folded, web addresses are links, and whatever documents
say is escaped.

No colours and no style sheet: the front end has its own, light or dark. What cleans notebooks for strangers
(GitHub, an untrusted notebook) leaves all of it but alignment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from taboot_pipelines.shards.manifest import SourceEntry

# --- Which addresses of documents may become links


def outside(url: str) -> str | None:
    """A URL that a page may link to: http or https, with a host and nothing that hides in it; else None."""
    if not url.isprintable() or any(c.isspace() for c in url) or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    return url if parts.scheme in ("http", "https") and host and not parts.username else None


# --- Where something stands, in short


def short_url(url: str, sources: Mapping[str, SourceEntry], source: str | None = None) -> str:
    """A local file, as stored or as shown, as ``source: path``, everything else as it is. ``source``: to
    which it belongs, where that is known; else the one whose folder lies deepest.
    """
    if not url.startswith("/"):
        stored, _, path = url.partition(":")
        return f"{stored}: {path}" if stored in sources and not path.startswith("//") else url
    known = {source: sources[source]} if source is not None and source in sources else sources
    fitting = [
        (len(entry.root), id_, entry.root)
        for id_, entry in known.items()
        if entry.root and url.startswith(f"{entry.root}/")
    ]
    if not fitting:
        return url
    _, id_, root = max(fitting)
    return f"{id_}: {Path(url).relative_to(root)}"


def with_line(place: str, line: int | None) -> str:
    return f"{place}:{line}" if line else place


# --- Tables

#: Characters, and lines where breaks matter, of a cell beyond which it is folded.
_LONG, _LONG_LINES = 280, 8
#: Rows that are shown; beyond them so many are folded, and the rest is counted.
_SHOWN_ROWS, _MAX_ROWS = 40, 1000
#: Places of a cell that are shown unfolded.
_SHOWN_PLACES = 2

_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class SourceLocation(NamedTuple):
    """Where something stands: a link where it is a web address; ``section``: where there are no lines."""

    url: str
    line: int | None = None
    section: str = ""


class Marked(NamedTuple):
    """A part of a text with the words that were looked for; ``whole``: the text it is of, folded beneath."""

    pieces: tuple[tuple[str, bool], ...]
    whole: str = ""


class Stack(NamedTuple):
    """What stands one below the other in a cell, the first in bold and the others small; what is empty is
    left out.
    """

    parts: tuple[str | SourceLocation, ...]


class SourceLocations(NamedTuple):
    """Several places that say the same, one below the other."""

    parts: tuple[SourceLocation, ...]


Cell = str | SourceLocation | SourceLocations | Marked | Stack


def display(*shown: object) -> None:
    """Show things one below the other as the result of a notebook's cell; a text is HTML, which a terminal
    has no use for.
    """
    from IPython.display import display

    for one in shown:
        if isinstance(one, str):
            display({"text/html": one}, raw=True)  # type: ignore[no-untyped-call]
        else:
            display(one)  # type: ignore[no-untyped-call]


def shorten(text: str, length: int = 240) -> str:
    """On one line, cut to ``length`` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def folded(text: str, length: int = 160) -> Marked:
    """The beginning of a text on one line, and all of it beneath."""
    return Marked(((shorten(text, length), False),), text)


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    preformatted: int | None = None,
    lead: str = "",
) -> str:
    """An HTML table. ``preformatted``: the number of the column whose line breaks matter; ``lead``: what
    stands out above it.

    What all files that are named lie under is said once, below it.
    """
    root = _common_folder(_files(rows))
    shown, folded = rows[:_SHOWN_ROWS], rows[_SHOWN_ROWS:_MAX_ROWS]
    parts = [f"<p>{_text(caption)}</p>"] if caption else []
    parts += [f"<p><b>{_text(lead)}</b></p>"] if lead else []
    parts.append(_table(columns, shown, preformatted, root))
    if folded:
        more = _table(columns, folded, preformatted, root)
        parts.append(f"<details><summary>{len(folded):,} more rows</summary>{more}</details>")
    if len(rows) > _MAX_ROWS:
        parts.append(f"<p>and {len(rows) - _MAX_ROWS:,} more, all of them in <code>to_pandas()</code></p>")
    if root:
        parts.append(f"<p><small>Files are named from <code>{_text(root)}</code></small></p>")
    return f"<div>{''.join(parts)}</div>"


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    preformatted: int | None,
    root: str,
) -> str:
    head = "".join(f"<th style='text-align:left'>{_text(c)}</th>" for c in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td style='text-align:left;vertical-align:top'>{_cell(v, i == preformatted, root)}</td>"
            for i, v in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Cell, preformatted: bool, root: str) -> str:
    if isinstance(value, SourceLocation):
        return _place(value, root)
    if isinstance(value, SourceLocations):
        lines = [_place(p, root) for p in value.parts]
        shown = "<br/>".join(lines[:_SHOWN_PLACES])
        rest = lines[_SHOWN_PLACES:]
        return shown + (
            f"<details><summary>{len(rest):,} more</summary>{'<br/>'.join(rest)}</details>" if rest else ""
        )
    if isinstance(value, Stack):
        first, *others = [p for p in value.parts if p] or [""]
        small = [f"<small>{_cell(p, False, root)}</small>" for p in others]
        return "<br/>".join([f"<b>{_cell(first, False, root)}</b>", *small])
    if isinstance(value, Marked):
        passage = "".join(f"<mark>{_text(t)}</mark>" if hit else _text(t) for t, hit in value.pieces)
        whole = value.whole.strip()
        if not whole or whole == "".join(t for t, _ in value.pieces):
            return passage
        return f"<details><summary>{passage}</summary>{_preformatted(whole)}</details>"
    text = str(value)
    if preformatted:
        lines = text.splitlines()
        if len(lines) <= _LONG_LINES and len(text) <= 2 * _LONG:
            return _preformatted(text)
        first = shorten(next((line for line in lines if line.strip()), ""), 100)
        summary = f"<code>{_text(first)}</code> … {len(lines):,} lines"
        return f"<details><summary>{summary}</summary>{_preformatted(text)}</details>"
    if len(text) <= _LONG:
        return _text(text)
    return f"<details><summary>{_text(shorten(text, _LONG - 80))}</summary>{_text(text)}</details>"


def _preformatted(text: str) -> str:
    return f"<pre style='white-space:pre-wrap;margin:0'>{_text(text)}</pre>"


def _place(place: SourceLocation, root: str) -> str:
    shown = place.url.removeprefix(root) if root else place.url
    if place.line:
        shown = f"{shown}:{place.line}"
    elif place.section:
        shown = f"{shown} ({place.section})"
    address = outside(place.url)
    if address is None:
        return _text(shown)
    return f"<a href='{escape(address)}' target='_blank' rel='noopener noreferrer'>{_text(shown)}</a>"


def _files(rows: Iterable[Sequence[Cell]]) -> list[str]:
    cells = (
        part
        for row in rows
        for v in row
        for part in (v.parts if isinstance(v, Stack | SourceLocations) else (v,))
    )
    return [c.url for c in cells if isinstance(c, SourceLocation) and c.url.startswith("/")]


def _common_folder(paths: Sequence[str]) -> str:
    """The folder, with its last ``/``, under which all files are; empty where that is one file, or all."""
    distinct = sorted(set(paths))
    if len(distinct) < 2:
        return ""
    first, last = (p.split("/")[:-1] for p in (distinct[0], distinct[-1]))
    same = [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))]
    return "/".join(same) + "/" if len(same) > 1 else ""


def _text(text: str) -> str:
    """A text as HTML; what no page can hold, or turns the direction of what follows, is a replacement
    character.
    """
    return escape(_UNSHOWN.sub("�", text.replace("\r\n", "\n")))
