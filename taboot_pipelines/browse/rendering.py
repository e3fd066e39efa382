"""Templates to HTML, and the short texts in them: URLs of our pages, dates, numbers, places of files.

Everything that a template is given is escaped; what is not a text has no way in.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode

import jinja2

from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import packaged_file, read_verified
from taboot_pipelines.retrieval.rendering import outside
from taboot_pipelines.retrieval.verbalization import plain

if TYPE_CHECKING:
    pass


HERE = Path(__file__).parent
STATIC = {
    "style.css": "text/css; charset=utf-8",
    "keys.js": "text/javascript; charset=utf-8",
    "map.js": "text/javascript; charset=utf-8",
    "cytoscape.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


#: Cytoscape.js 3.21 (MIT): the one chunk of the extra's bundle that it is alone in, and its SHA-256.
_CYTOSCAPE = (
    "labextension/static/58.6846eb7cf4206803b3ab.js",
    "a9c377163564a8a26f9608c368f1cd3206875966f24202df6603e6879b59a33d",
)


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The templates of this package. What one of them names and is not given is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(to=to, static=static_url)
    made.filters.update(day=day, moment=moment, count=count, outside=outside, plural=plural, plain=plain)
    made.filters.update(entitled=entitled)
    return made


def render(template: str, **values: Any) -> str:
    """The page of a template."""
    return environment().get_template(template).render(**values)


def to(path: str, /, fragment: str = "", **parameters: Any) -> str:
    """The URL of a page of ours. ``parameters``: texts, numbers or lists of texts; what is None or empty is
    left out.
    """
    given = {k: v for k, v in parameters.items() if v is not None and v != ""}
    query = urlencode(given, doseq=True, quote_via=quote, safe="")
    return quote(path) + (f"?{query}" if query else "") + (f"#{quote(fragment)}" if fragment else "")


@lru_cache(maxsize=len(STATIC))
def static_url(name: str) -> str:
    """The URL of a file of ``static``, another one when its content is."""
    return f"/static/{name}?v={hashlib.sha256(static_bytes(name)).hexdigest()[:12]}"


@lru_cache(maxsize=len(STATIC))
def static_bytes(name: str) -> bytes:
    """A file that pages load. Raises ``E_EXTRA`` for that of an extra that is not installed."""
    if name != "cytoscape.js":
        return (HERE / "static" / name).read_bytes()
    path, sha256 = _CYTOSCAPE
    try:
        return read_verified(packaged_file("ipycytoscape", path), sha256)[0]
    except TabootError as error:
        raise TabootError(
            "E_EXTRA", "The map needs the extra map.", remedy="pip install 'taboot-pipelines[map]'"
        ) from error


def entitled(title: str, path: str, shared: bool = False) -> str:
    """A document's title; where that is its file's name alone, as of most configuration, the path that tells
    it from others, and with the path where several documents have it. ``path``: also a URL."""
    own = path.partition("#")[0].partition("?")[0]
    own = unquote(own.partition("://")[2].partition("/")[2] if "://" in own else own)
    if title and own.rpartition("/")[2] != title:
        return f"{title} ({own})" if shared else title
    return own


def day(value: datetime | None) -> str:
    return "" if value is None else value.strftime("%Y-%m-%d")


def moment(value: datetime | None) -> str:
    return "" if value is None else value.strftime("%Y-%m-%d %H:%M UTC")


def count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """The number with the word for as many."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
