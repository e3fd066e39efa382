"""Templates to HTML, and the short texts in them: URLs of our pages, dates, numbers, places of files.

Everything that a template is given is escaped; what is not a text has no way in.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import jinja2

from taboot_pipelines.retrieval.rendering import outside
from taboot_pipelines.retrieval.verbalization import plain

if TYPE_CHECKING:
    pass


HERE = Path(__file__).parent
STATIC = {
    "style.css": "text/css; charset=utf-8",
    "keys.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


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
    return f"/static/{name}?v={hashlib.sha256((HERE / 'static' / name).read_bytes()).hexdigest()[:12]}"


def day(value: datetime | None) -> str:
    return "" if value is None else value.strftime("%Y-%m-%d")


def moment(value: datetime | None) -> str:
    return "" if value is None else value.strftime("%Y-%m-%d %H:%M UTC")


def count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """The number with the word for as many."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
