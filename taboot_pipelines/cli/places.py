"""How places are shown: in a terminal a file by its source and its path there, as a link to the file."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import click

from taboot_pipelines.cli.output import fitted, plain, printable

if TYPE_CHECKING:
    from taboot_pipelines.retrieval import KnowledgeBase

#: So much of an edge's id is shown in a terminal; `taboot explain` takes it.
SHOWN_ID = 12

#: Terminals that know hyperlinks (OSC 8) say who they are by one of these variables.
_KNOWN_BY = (
    "VTE_VERSION",
    "WT_SESSION",
    "KITTY_WINDOW_ID",
    "KONSOLE_VERSION",
    "ALACRITTY_WINDOW_ID",
    "DOMTERM",
)
_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "rio")
_TERMS = ("xterm-kitty", "foot", "alacritty", "xterm-ghostty", "contour")


class LinkedText(NamedTuple):
    """``text`` as it is shown, ``link`` where it leads to, or empty."""

    text: str
    link: str


class Places:
    """Shows the places of one knowledge base. ``roots``: the directory of each source, where it is known;
    ``sources``: gives the source of each document by its URL, asked where several have one directory.

    Off a terminal a place stays what it is, since a program reads it there.
    """

    def __init__(self, roots: Mapping[str, str | None], sources: Callable[[], Mapping[str, str]]) -> None:
        self._short = sys.stdout.isatty()
        self._sources = cache(sources)
        self._shared = {root for root, count in Counter(roots.values()).items() if root and count > 1}
        # The deepest directory first: one source may lie within another's.
        known = [(root.rstrip("/") + "/", source) for source, root in roots.items() if root]
        self._roots = sorted(known, key=lambda r: (-len(r[0]), r[1]))
        self._links = self._short and knows_links(os.environ)

    def place(
        self, url: str, line: int | None = None, section: str = "", *, source: str | None = None
    ) -> LinkedText:
        """A place of a document; ``source``: the document's, where that is known."""
        after = f":{line}" if line else f" ({section})" if section else ""
        shown = self.name(url, source)
        return LinkedText(f"{shown}{after}", _link(url))

    def name(self, url: str, source: str | None = None) -> str:
        """The document alone: ``runbooks:redis.md``."""
        if self._short:
            for root, first in self._roots:
                if url.startswith(root):
                    if source is None and root.rstrip("/") in self._shared:
                        source = self._sources().get(url)
                    return f"{source or first}:{url[len(root) :]}"
        return url

    def linked(self, place: LinkedText, text: str | None = None) -> str:
        """The place, or the ``text`` that stands for it, with what makes a link of it in this terminal."""
        text = place.text if text is None else text
        if not self._links or not place.link:
            return text
        return f"\x1b]8;;{place.link}\x1b\\{text}\x1b]8;;\x1b\\"


def knows_links(environment: Mapping[str, str]) -> bool:
    """Whether the terminal shows hyperlinks; FORCE_HYPERLINK (1 or 0) says so against what is guessed."""
    forced = environment.get("FORCE_HYPERLINK")
    if forced:
        return forced != "0"
    if environment.get("TERM", "") in ("", "dumb", "linux"):
        return False
    return (
        any(environment.get(name) for name in _KNOWN_BY)
        or environment.get("TERM_PROGRAM") in _PROGRAMS
        or environment.get("TERM", "") in _TERMS
    )


def _link(url: str) -> str:
    if url.startswith(("http://", "https://")):
        return quote(url, safe=":/?#[]@!$&'()*+,;=%~")
    if url.startswith("/"):
        # A place within a file that holds several documents is no part of the file's name.
        path = url if Path(url).exists() else url.partition("#")[0]
        return f"file://{os.uname().nodename}{quote(path)}"
    return ""


def kb_places(kb: KnowledgeBase) -> Places:
    roots = {
        source: entry.root.rstrip("/") if entry.root else None
        for source, entry in kb.manifest.sources.items()
    }

    def sources() -> dict[str, str]:
        documents = kb.documents()
        urls, ids = (documents.column(c).to_pylist() for c in ("url", "source"))
        return dict(zip(urls, ids, strict=True))

    return Places(roots, sources)


def columns() -> int | None:
    """The width of the terminal; None off one, where lines are as long as they are."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_wrapped(text: str, indent: str, width: int | None, *, hang: str = "", **style: Any) -> None:
    """Print a text, in a terminal broken between words; ``hang`` stands before every line but the first."""
    lines = [f"{indent}{text}"]
    if width is not None:
        lines = textwrap.wrap(
            text,
            width,
            initial_indent=indent,
            subsequent_indent=hang or indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    for line in lines:
        plain(line if width is None else fitted(line, width), **style)


def print_place(
    places: Places, place: LinkedText, after: str, width: int | None, *, indent: str = "   "
) -> None:
    """Print a place, and what is said ``after`` it, on a line of its own, or two where one has no room."""
    shown = place.text
    if width is not None and len(indent) + len(shown) + len(after) > width:
        room = width - len(indent)
        click.echo(f"{indent}{_dim(places.linked(place, fitted(shown, room)))}")
        if after.strip():
            print_wrapped(after.strip(), indent, width, dim=True)
        return
    click.echo(f"{indent}{_dim(places.linked(place, printable(shown)) + after)}")


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _dim(text: str) -> str:
    return click.style(text, dim=True)
