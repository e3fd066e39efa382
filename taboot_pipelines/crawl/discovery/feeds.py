"""What a JSON Feed (jsonfeed.org, versions 1 and 1.1) lists; RSS and Atom are XML, and read as sitemaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from taboot_pipelines.errors import TabootError

MAX_TITLE = 500


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One page of a list. ``location`` as written; ``title`` what the list calls it, or empty; ``modified``
    as written; ``alternates``: the same page in other languages, as written."""

    location: str
    title: str = ""
    modified: str = ""
    alternates: tuple[str, ...] = ()


def is_json(data: bytes) -> bool:
    """Whether the text is a JSON object, as a JSON Feed is."""
    return data[:512].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def parse_json_feed(data: bytes, name: str) -> list[ListEntry]:
    """The items that have a URL, in order. Raises ``E_PARSE`` for what is no JSON Feed; ``name`` is what the
    message calls it."""
    try:
        feed = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        raise TabootError("E_PARSE", f"{name} is not valid JSON.", url=name) from None
    items = feed.get("items") if isinstance(feed, dict) else None
    if not isinstance(items, list) or "jsonfeed.org/version/" not in str(feed.get("version")):
        raise TabootError("E_PARSE", f"{name} is JSON, but no feed.", url=name)
    found = []
    for item in items:
        if not isinstance(item, dict):
            continue
        # Version 1 lets a link post name the page it is about; the post's own page comes first.
        location = _text(item, "url") or _text(item, "external_url")
        if location:
            modified = _text(item, "date_modified") or _text(item, "date_published")
            found.append(ListEntry(location, _text(item, "title")[:MAX_TITLE], modified))
    return found


def _text(item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    return value.strip() if isinstance(value, str) else ""
