"""A small site on loopback whose links are known, and worlds that crawl it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from taboot_pipelines_tests.connectors.servers import Site, send, serve
from taboot_pipelines_tests.world import World

#: Each page with where it links to; ``/gone`` and ``/missing`` are nowhere. Depths from ``/``: 0; 1 for /a,
#: /b and /Case; 2 for /a/deep, /gone and /c; 3 for /d; 4 for /e and /missing.
LINKS: Mapping[str, Sequence[str]] = {
    "/": ("/a", "/b", "/Case", "/"),
    "/a": ("/b", "/a/deep", "/gone"),
    "/b": ("/", "/c"),
    "/Case": ("/a",),
    "/a/deep": ("/gone", "/a"),
    "/c": ("/d",),
    "/d": ("/e", "/missing", "/"),
    "/e": (),
}
DEPTHS = {
    **{"/": 0, "/a": 1, "/b": 1, "/Case": 1, "/a/deep": 2, "/gone": 2, "/c": 2},
    **{"/d": 3, "/e": 4, "/missing": 4},
}


@dataclass
class SmallSite:
    """``slow``: how many seconds each page takes; ``statuses``: answers other than the page, by path;
    ``headers``: what comes with the page, and with the word that it is unchanged, by path (``_`` for ``-``).
    """

    site: Site
    slow: list[float]
    statuses: dict[str, int]
    links: dict[str, Sequence[str]] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return f"{self.site.base}/"

    def url(self, path: str) -> str:
        return self.site.base + path


@contextmanager
def small_site(links: Mapping[str, Sequence[str]] = LINKS) -> Iterator[SmallSite]:
    import time

    slow, statuses, pages = [0.0], {}, dict(links)
    headers: dict[str, dict[str, str]] = {}

    def handle(h: BaseHTTPRequestHandler) -> None:
        time.sleep(slow[0])
        if h.path in statuses or h.path not in pages:
            send(h, statuses.get(h.path, 404))
            return
        body = page(h.path, pages[h.path]).encode()
        tag = f'"{len(body)}-{hash(body)}"'
        if h.headers.get("if-none-match") == tag:
            send(h, 304, etag=tag, **headers.get(h.path, {}))
        else:
            send(h, 200, body, content_type="text/html; charset=utf-8", etag=tag, **headers.get(h.path, {}))

    with serve(handle) as site:
        yield SmallSite(site, slow, statuses, pages, headers)


def page(path: str, links: Sequence[str]) -> str:
    anchors = "".join(f'<p><a href="{link}">On to {link}</a></p>' for link in links)
    return (
        f"<html><head><title>Page {path}</title></head><body><main><h1>Page {path}</h1><p>The page {path}"
        f" of the small site tells people about itself in a sentence.</p>{anchors}</main></body></html>"
    )


def crawl_source(world: World, site: SmallSite, name: str = "site", **fields: Any) -> None:
    """Declare a source that crawls the whole site."""
    world.source(
        name,
        "web",
        **{"path": None, "urls": [site.root], "max_depth": 9, "allow_cidrs": ["127.0.0.0/8"], **fields},
    )
