"""Web sources with ``render`` and ``capture``, by the real Chromium, on a real server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from pydantic import ValidationError

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.web import WebSource
from taboot_pipelines.crawl.robots import RobotsCache
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
    Unchanged,
)
from taboot_pipelines.settings import HttpSettings, Settings, load_settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.protocol import Lenient
from taboot_pipelines_tests.connectors.servers import Site, send, serve

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]

PAGE = b"""<!doctype html><title>Made by a script</title><main id="m"></main>
<a href="/next">next</a><script>document.getElementById("m").textContent = "Port " + 4 * 2020;</script>"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    def answer(h: BaseHTTPRequestHandler) -> None:
        if h.path == "/robots.txt":
            send(h, 200, b"User-agent: *\nDisallow: /private\n", content_type="text/plain")
        elif h.path == "/gone":
            send(h, 404)
        else:
            send(h, 200, PAGE, content_type="text/html; charset=utf-8")

    with serve(answer) as served:
        yield served


@pytest.fixture
def robots(tmp_path: Path) -> Iterator[RobotsCache]:
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    settings = load_settings()
    yield RobotsCache(Lenient(open_state(settings, catalog)), "n", settings.http.user_agent)
    catalog.close()


def events(entry: WebSource, known: Mapping[str, Known], robots: RobotsCache) -> list[Event]:
    settings = Settings(http=HttpSettings(rate_limit_rps=0))
    access = Access.of(settings, Path(), robots=robots)
    found = open_connector(entry, access).events(known, lambda _: False)
    return [e for e in found if not isinstance(e, Checkpoint)]


def entry(site: Site, *paths: str) -> WebSource:
    return WebSource.model_validate(
        {
            "id": "w",
            "type": "web",
            "urls": [site.base + path for path in paths],
            "allow_cidrs": ["127.0.0.0/8"],
            "render": True,
            "capture": {"screenshot": True, "scripts": ["document.title"], "wait_seconds": 0},
        }
    )


def test_pages_are_rendered_and_captured_once(site: Site, robots: RobotsCache) -> None:
    first = events(entry(site, "/page"), {}, robots)
    end = first.pop()
    assert isinstance(end, Enumerated) and end.complete
    page, *captures = first
    assert isinstance(page, Fetched) and b"Port 8080" in page.data and page.role == "document"
    assert [
        (c.path.partition("#")[2].partition("-")[0], c.role) for c in captures if isinstance(c, Fetched)
    ] == [
        ("screenshot", "input"),
        ("script", "input"),
    ]
    picture, title = (c for c in captures if isinstance(c, Fetched))
    assert picture.data.startswith(b"\x89PNG") and json.loads(title.data) == "Made by a script"

    known = {
        e.path: Known(ids.sha256_hex(e.data), None, None, e.final_url)
        for e in first
        if isinstance(e, Fetched)
    }
    again = events(entry(site, "/page"), known, robots)
    assert isinstance(again[0], Fetched) and again[0].data == page.data
    assert [e.path for e in again[1:-1] if isinstance(e, NotModified)] == [picture.path, title.path]


def test_captures_stand_and_fall_with_their_page(site: Site, robots: RobotsCache) -> None:
    paths = ("/gone", "/private/x")
    keys = [site.base + path for path in paths]
    names = entry(site, *paths).capture
    assert names is not None
    known = {
        p: Known("0" * 64, None, None, None)
        for k in keys
        for p in (k, *(f"{k}#{name}" for name in names.names()))
    }
    found = events(entry(site, *paths), known, robots)
    gone = [e.path for e in found if isinstance(e, Gone)]
    assert sorted(gone) == sorted(p for p in known if p.startswith(keys[0]))
    # A page that robots.txt has come to disallow stays as it is, with what was captured of it.
    (skipped,) = (e for e in found if isinstance(e, Skipped))
    assert (skipped.path, skipped.code) == (keys[1], "E_ROBOTS")
    assert {p for e in found if isinstance(e, Unchanged) for p in e.roles} == {
        p for p in known if p.startswith(f"{keys[1]}#")
    }


def test_a_capture_needs_a_rendered_page(site: Site) -> None:
    with pytest.raises(ValidationError, match="render: true"):
        WebSource.model_validate(
            {"id": "w", "type": "web", "urls": [site.base], "capture": {"screenshot": True}}
        )
