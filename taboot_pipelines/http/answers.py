"""An answer of a server: its status, headers and body, and what errors may say of it.

The service's own words are never repeated in an error, nor are queries and headers: they may hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse

_LINK = re.compile(r'<([^<>]*)>((?:\s*;\s*[\w!#$&+.^`|~*-]+\s*(?:=\s*(?:"[^"]*"|[^\s;,"]*))?)*)')
_REL = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]*))', re.I)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. Header names are in lower case. ``url``: what answered, after redirects within the service.
    ``code``: that of an answer that cannot be used."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    service: str
    code: str = "E_API"

    @property
    def not_modified(self) -> bool:
        return self.status == 304

    @property
    def gone(self) -> bool:
        """Whether the thing is not there, or not for this account."""
        return self.status in (404, 410)

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")

    def text(self) -> str:
        """The body, which must be UTF-8. Raises ``E_API``."""
        try:
            return self.body.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise bad_answer(
                self.service, self.url, "with something that is not UTF-8", code=self.code
            ) from None

    def json(self) -> Any:
        """The body as JSON values. Raises ``E_API`` for anything else, such as a page of HTML."""
        return self.value().plain()

    def value(self) -> Value:
        """The body as JSON that knows where it stands. Raises as :meth:`json`."""
        text = self.text()
        try:
            return parse(text)
        except TabootError as error:
            what = "with a page of HTML" if text.lstrip()[:1] == "<" else "with JSON that cannot be read"
            raise bad_answer(self.service, self.url, what, code=self.code, **error.details) from None

    def link(self, relation: str) -> str | None:
        """The target of the ``Link`` header with this relation (RFC 8288), absolute."""
        for match in _LINK.finditer(self.headers.get("link", "")):
            rel = _REL.search(match[2])
            if rel is not None and relation in (rel[1] or rel[2] or "").lower().split():
                return str(urljoin(self.url, match[1]))
        return None


def shown(url: str) -> str:
    """A URL as messages may show it: without its query, which may hold a key."""
    parts = urlsplit(url)
    return (parts.path or "/")[:200]


def bad_answer(service: str, url: str, how: str, *, code: str = "E_API", **details: Any) -> TabootError:
    """The error for an answer that is none, in words: ``how`` the service answers."""
    return TabootError(code, f"{service} answers {how} at {shown(url)}.", service=service, **details)
