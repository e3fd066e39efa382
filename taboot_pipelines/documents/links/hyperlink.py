"""A link as it was written, and the URLs that stand in a text without any markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

#: ``href``: a URL or a path. ``wiki``: a page by its name. ``doc``: a path without its ending, from the
#: source's root if it begins with a slash. ``ref``: a place by its label, which an ``anchor`` declares.
LinkKind = Literal["href", "wiki", "doc", "ref", "anchor"]

#: Targets with more code points are data.
MAX_TARGET = 2048
MAX_LABEL = 200

_BARE = re.compile(r"(?<![\w/@.-])https?://[^\s<>\"`\[\]{}|\\^]+", re.IGNORECASE)
_UNSTORABLE = re.compile("[\ud800-\udfff\0]")
_ENTITY_END = re.compile(r"&[a-zA-Z0-9]{2,31};\Z")


@dataclass(frozen=True, slots=True)
class Hyperlink:
    """A link at code points ``[start, end)`` of the document; ``text`` is what a reader sees of it."""

    kind: LinkKind
    target: str
    start: int
    end: int
    text: str = ""


def hyperlink(kind: LinkKind, target: str, start: int, end: int, text: str = "") -> Hyperlink | None:
    """A link with its text on one line and cut short; None if the target is none."""
    target = _UNSTORABLE.sub("\ufffd", target.strip())
    if not target or len(target) > MAX_TARGET:
        return None
    return Hyperlink(kind, target, start, end, " ".join(_UNSTORABLE.sub("", text).split())[:MAX_LABEL])


def bare_urls(text: str, start: int = 0, end: int | None = None) -> Iterator[Hyperlink]:
    """The URLs of ``text[start:end]`` that begin with their scheme. Punctuation at the end belongs to the
    sentence (GitHub Flavored Markdown 0.29 §6.9), and so does a parenthesis that the URL does not open.
    """
    for match in _BARE.finditer(text, start, len(text) if end is None else end):
        url = match[0]
        while url:
            last = url[-1]
            if last in "?!.,:*_~'" or (last == ")" and url.count(")") > url.count("(")):
                url = url[:-1]
            elif last == ";":
                shorter = _ENTITY_END.sub("", url[-40:])
                url = url[:-1] if len(shorter) == len(url[-40:]) else url[:-40] + shorter
            else:
                break
        target = html.unescape(url) if "&" in url else url
        if target.partition("://")[2]:
            found = hyperlink("href", target, match.start(), match.start() + len(url), target)
            if found is not None:
                yield found
