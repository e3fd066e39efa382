"""Which links are followed, and how they are scored."""

from __future__ import annotations

import pytest

from taboot_pipelines.connectors.globs import UrlGlobs
from taboot_pipelines.crawl.targets import Folder, Targets
from taboot_pipelines.crawl.urls import parse_url


def targets(*listed: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> Targets:
    named = [p for p in include if "://" in p]
    return Targets(
        [Folder.of(parse_url(u)) for u in listed],
        included=UrlGlobs(include).matches if include else None,
        elsewhere=UrlGlobs(named).matches if named else None,
        excluded=UrlGlobs(exclude).matches if exclude else None,
    )


@pytest.mark.parametrize(
    ("listed", "include", "exclude", "url", "followed"),
    [
        ("https://h.example/docs/", (), (), "https://h.example/docs/a/b", True),
        ("https://h.example/docs/", (), (), "https://h.example/blog/", False),
        ("https://h.example/docs/", (), (), "https://h.example/docsx/", False),
        ("https://h.example/docs", (), (), "https://h.example/blog/", True),
        ("https://h.example/docs/start.html?x=/y/", (), (), "https://h.example/docs/next.html", True),
        ("https://h.example/docs/", (), (), "http://h.example/docs/a", True),
        ("https://h.example/docs/", (), (), "https://www.h.example/docs/a", True),
        ("https://www.h.example/docs/", (), (), "https://h.example/docs/a", True),
        ("https://h.example/docs/", (), (), "https://api.h.example/docs/a", False),
        ("https://h.example:8443/", (), (), "https://h.example/", False),
        ("https://h.example/docs/", ("/blog/**",), (), "https://h.example/blog/1", True),
        ("https://h.example/docs/", ("/blog/**",), (), "https://h.example/docs/1", False),
        ("https://h.example/docs/", ("/blog/**",), (), "https://evil.example/blog/1", False),
        ("https://h.example/", ("https://*.example/blog/**",), (), "https://other.example/blog/1", True),
        ("https://h.example/", (), ("/private/",), "https://h.example/private/1", False),
        ("https://h.example/", ("https://o.example/**",), ("1",), "https://o.example/1", False),
        ("https://h.example/", (), (), "https://h.example/logo.PNG", False),
        ("https://h.example/", (), (), "https://h.example/logo.png?page=2", False),
        ("https://h.example/", (), (), "https://h.example/v1.2", True),
        ("https://h.example/", (), (), "https://h.example/read.me/", True),
        ("https://h.example/", (), (), "https://user:secret@h.example/", False),
        ("https://h.example/", (), (), "https://h.example/" + "x" * 2040, False),
    ],
)
def test_which_links_are_followed(
    listed: str, include: tuple[str, ...], exclude: tuple[str, ...], url: str, followed: bool
) -> None:
    target = targets(listed, include=include, exclude=exclude).link(url)
    assert (target is not None) == followed


def test_links_of_one_key_are_one_page_and_are_asked_for_as_found() -> None:
    found = targets("https://h.example/")
    one, two = found.link("https://h.example/a?utm_source=x&b=1"), found.link("https://h.example/a?b=1")
    assert one is not None and two is not None
    assert one.url_id == two.url_id and one.key == two.key == "https://h.example/a?b=1"
    assert one.url == "https://h.example/a?utm_source=x&b=1"


@pytest.mark.parametrize(
    ("text", "url", "score"),
    [
        ("Pump pressure", "https://h/x", 0.5),
        ("PUMP", "https://h/valve-seat", 0.9),
        ("pumps", "https://h/", 0.0),
        ("a seat for the valve, and a pump", "https://h/", 0.75),
        ("", "https://h/valve/seat?pump", 0.8),
        ("", "https://pump.example/", 0.0),
        ("valve seat of the pump", "https://h/", 1.0),
        ("", "https://h/p%75mp", 0.4),
    ],
)
def test_scores(text: str, url: str, score: float) -> None:
    scoring = Targets([], keywords=["pump", "valve seat"])
    assert scoring.score(url, text) == pytest.approx(score)
    assert Targets([]).score(url, text) == 1.0
