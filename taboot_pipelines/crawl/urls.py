"""URLs as the WHATWG standard parses them, and their canonical keys.

One parser (ada) gives the host that is checked and the bytes that are sent, so that no two readings of one
URL can differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_plus

from ada_url import URL

from taboot_pipelines.errors import TabootError

#: Version of :func:`canonical_key`. Locators are made of keys, so a change of the algorithm is a new version.
KEY_VERSION = "1"
MAX_LENGTH = 8192
_PORTS = {"http": 80, "https": 443}
_TRACKING = re.compile(r"(?i)utm_.*|gclid|fbclid", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WebUrl:
    """A parsed ``http`` or ``https`` URL without credentials. ``text`` is its normal form without fragment;
    ``host`` as in the Host header without port (an IPv6 address in brackets); ``target`` is path and
    query."""

    text: str
    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"


def parse_url(text: str, base: str | None = None) -> WebUrl:
    """Raises ``E_URL_BAD``; its message never holds the URL, which may carry credentials."""
    if len(text) > MAX_LENGTH:
        raise TabootError("E_URL_BAD", f"The URL is longer than {MAX_LENGTH} characters.")
    try:
        url = URL(text, base) if base is not None else URL(text)
        scheme, host = url.protocol.removesuffix(":"), url.hostname
        if scheme not in _PORTS or not host:
            raise TabootError("E_URL_BAD", "The URL's scheme is not http or https.")
        if url.username or url.password:
            raise TabootError(
                "E_URL_BAD", "The URL holds a user name or password; it would be stored with every document."
            )
        port = int(url.port) if url.port else _PORTS[scheme]
        target = url.pathname + url.search
        authority = host if port == _PORTS[scheme] else f"{host}:{port}"
    except ValueError:  # also text that is not Unicode
        raise TabootError("E_URL_BAD", "The URL cannot be parsed (WHATWG URL standard).") from None
    return WebUrl(f"{scheme}://{authority}{target}", scheme, host, port, target)


def canonical_key(url: WebUrl) -> str:
    """What deduplicates pages (rule ``fetch-url-is-not-the-key``), version :data:`KEY_VERSION`: the WHATWG
    normal form (scheme and host in lower case and ASCII, default port, ``.`` and ``..`` gone) without
    fragment, without the query's tracking parameters (``utm_*``, ``gclid``, ``fbclid``), and without an empty
    query. A trailing slash and the other parameters stay as they are.
    """
    base, mark, query = url.text.partition("?")
    kept = (
        [p for p in query.split("&") if not _TRACKING.fullmatch(unquote_plus(p.partition("=")[0]))]
        if mark
        else []
    )
    return f"{base}?{'&'.join(kept)}" if any(kept) else base
