"""Which addresses of documents may become links."""

from __future__ import annotations

from urllib.parse import urlsplit


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
