"""What a site's lists name: real lists, an index server of the Common Crawl's protocol, and bad lists."""

from __future__ import annotations

import gzip
import http.server
import json
import random
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from taboot_pipelines.cli.group import main
from taboot_pipelines.connectors.web import WebConnector, WebSource
from taboot_pipelines.crawl.addresses import resolve
from taboot_pipelines.crawl.discovery import discover as module
from taboot_pipelines.crawl.discovery.common_crawl import MAX_ANSWER_PAGES, crawled_urls
from taboot_pipelines.crawl.discovery.discover import Discovery, discover
from taboot_pipelines.crawl.discovery.relevance import Relevance, keywords_of
from taboot_pipelines.crawl.discovery.sitemaps import MAX_BYTES, parse_json_feed, parse_sitemap
from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Failed, Fetched
from taboot_pipelines_tests.connectors.conftest import DATA
from taboot_pipelines_tests.connectors.servers import Site, base_of, resolving, send, serve

SITE = "https://example.org"


@dataclass
class Answered:
    url: str
    body: bytes


class Web:
    """Answers by URL; ``asked`` in order. What is not there is a 404, an error is raised."""

    def __init__(self, answers: dict[str, bytes | TabootError], base: str = SITE) -> None:
        self.answers = {(k if "://" in k else base + k): v for k, v in answers.items()}
        self.asked: list[str] = []

    def get(self, url: WebUrl, max_bytes: int) -> Answered:
        self.asked.append(url.text)
        found = self.answers.get(url.text, TabootError("E_NOT_FOUND", f"{url.text} does not exist."))
        if isinstance(found, TabootError):
            raise found
        if len(found) > max_bytes:
            raise TabootError("E_TOO_LARGE", f"{url.text} is too large.")
        return Answered(url.text, found)


def urlset(*locations: str) -> bytes:
    return b"<urlset>%s</urlset>" % "".join(f"<url><loc>{x}</loc></url>" for x in locations).encode()


def index(*locations: str) -> bytes:
    inner = "".join(f"<sitemap><loc>{x}</loc></sitemap>" for x in locations)
    return f"<sitemapindex>{inner}</sitemapindex>".encode()


def urls(found: Discovery) -> list[str]:
    return [page.url.removeprefix(SITE) for page in found.found]


def test_the_lists_that_robots_names_wherever_they_lie() -> None:
    web = Web(
        {
            "/robots.txt": b"Sitemap: /a.xml\nSitemap: https://cdn.example/b.xml.gz\nUser-agent: *",
            "/a.xml": index("/c.xml", "https://example.org/a.xml", "ftp://x/"),
            "/c.xml": urlset("/one", "two?utm_source=x", "https://example.org/one"),
            "https://cdn.example/b.xml.gz": gzip.compress(urlset("https://example.org/three")),
        }
    )
    found = discover(parse_url(f"{SITE}/"), web.get, sources=["sitemap"])
    assert urls(found) == ["/one", "/three", "/two?utm_source=x"]
    assert [p.listed_in for p in found.found] == [
        f"{SITE}/c.xml",
        "https://cdn.example/b.xml.gz",
        f"{SITE}/c.xml",
    ]
    assert found.lists == [
        f"{SITE}/robots.txt",
        f"{SITE}/a.xml",
        "https://cdn.example/b.xml.gz",
        f"{SITE}/c.xml",
    ]
    assert [(p.where, p.code) for p in found.problems] == [(f"{SITE}/a.xml", "E_URL_BAD")]
    assert not any(u.startswith(f"{SITE}/one") for u in web.asked), "no page is fetched"


def test_without_a_word_in_robots_the_usual_places_are_tried_until_one_is_there() -> None:
    web = Web(
        {
            "/sitemap_index.xml": index("/s.xml"),
            "/s.xml": urlset("/a"),
            "/sitemap.txt": b"https://example.org/b",
        }
    )
    found = discover(parse_url(f"{SITE}/docs/"), web.get, sources=["sitemap"])
    assert urls(found) == ["/a"] and found.problems == []
    nothing = discover(parse_url(f"{SITE}/"), Web({}).get)
    assert (nothing.found, nothing.listed, nothing.problems) == ([], 0, [])


def test_a_list_may_be_named_itself_and_a_page_is_none() -> None:
    web = Web(
        {
            "/feeds/x.json": json.dumps(
                {"version": "https://jsonfeed.org/version/1.1", "items": [{"url": "/p", "title": "P"}]}
            ).encode(),
            "/page.html": b"<html><body>no list</body></html>",
        }
    )
    found = discover(parse_url(f"{SITE}/feeds/x.json"), web.get, sources=[])
    assert [(p.url, p.title) for p in found.found] == [(f"{SITE}/p", "P")]
    assert discover(parse_url(f"{SITE}/page.html"), web.get, sources=[]) == Discovery()


def test_feeds_of_every_kind_with_what_they_say() -> None:
    rss = b"""<rss version="2.0"><channel><title>Site</title><item><title>One &amp; <b>two</b></title>
    <link>/one</link><pubDate>Sun, 22 Nov 2026 10:00:00 GMT</pubDate></item></channel></rss>"""
    rdf = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
    <item><title>Old</title><link>/old</link>
    <dc:date>2001-01-01</dc:date></item></rdf:RDF>"""
    atom = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>Site</title><entry><title type="xhtml">
    <div>An <i>entry</i></div></title><link rel="self" href="/self"/><link href="/entry"/>
    <updated>2026-11-22T10:00:00Z</updated></entry></feed>"""
    for body, expected in (
        (rss, ("/one", "One & two", "Sun, 22 Nov 2026 10:00:00 GMT")),
        (rdf, ("/old", "Old", "2001-01-01")),
        (atom, ("/entry", "An entry", "2026-11-22T10:00:00Z")),
    ):
        web = Web({"/feed": body})
        (page,) = discover(parse_url(f"{SITE}/"), web.get, sources=["feed"]).found
        assert (page.url.removeprefix(SITE), page.title, page.modified, page.via) == (*expected, "feed")


def test_what_a_site_wrote_for_language_models() -> None:
    text = b"""# Example
> Docs of Example.
## Docs
- [Setting *up*](/docs/setup.md): first steps
- [API](https://example.org/docs/api.md)
- `[no](/code.md)` ![no](/picture.md)
"""
    found = discover(parse_url(f"{SITE}/"), Web({"/llms.txt": text}).get, sources=["llms_txt"])
    assert [(page.url, page.title, page.via) for page in found.found] == [
        (f"{SITE}/docs/api.md", "API", "llms_txt"),
        (f"{SITE}/docs/setup.md", "Setting up", "llms_txt"),
    ]
    for body in (b"<html><body><a href=/x>x</a></body></html>", b"# Nothing", b"{}"):
        assert discover(parse_url(f"{SITE}/"), Web({"/llms.txt": body}).get, sources=["llms_txt"]).found == []


def test_news_and_other_languages_of_the_published_examples() -> None:
    news = parse_sitemap((DATA / "sitemaps/google-news.xml").read_bytes(), "s").entries
    assert [e.location for e in news] == ["https://example.org/page1", "https://example.org/page2"]
    assert all(e.title for e in news)
    body = (DATA / "sitemaps/hreflang.xml").read_bytes()
    entries = parse_sitemap(body, "s").entries
    assert [e.alternates for e in entries] == [
        ("https://example.org/fr/page",),
        ("https://example.org/en/page",),
    ]
    one = body.replace(b"<loc>https://example.org/fr/page</loc>", b"<loc>https://example.org/de/page</loc>")
    found = discover(parse_url(f"{SITE}/sitemap.xml"), Web({"/sitemap.xml": one}).get, sources=[])
    assert {p.url.removeprefix(SITE): p.via for p in found.found} == {
        "/en/page": "sitemap",
        "/de/page": "sitemap",
        "/fr/page": "hreflang",
    }


def test_every_published_example_is_read() -> None:
    for path in sorted((DATA / "sitemaps").iterdir()):
        if path.name in ("NOTE.md", "robots.txt"):
            continue
        assert parse_sitemap(path.read_bytes(), path.name).entries, path.name


def test_the_best_come_first_and_the_rest_is_left_out() -> None:
    web = Web(
        {"/sitemap.xml": urlset(*(f"/p{i:03}" for i in range(50)), "/grafana/ports", "/ports/of/the/grafana")}
    )
    found = discover(
        parse_url(f"{SITE}/"),
        web.get,
        sources=["sitemap"],
        relevance=Relevance(["grafana", "ports"]),
        max_urls=3,
    )
    assert [(p.url.removeprefix(SITE), p.score) for p in found.found] == [
        ("/grafana/ports", 0.8),
        ("/ports/of/the/grafana", 0.8),
        ("/p000", 0.0),
    ]
    assert (found.listed, found.left_out) == (52, 49)
    found = discover(
        parse_url(f"{SITE}/"),
        web.get,
        sources=["sitemap"],
        relevance=Relevance(["grafana ports"]),
        score_threshold=0.5,
        wanted=lambda key: "grafana" in key,
    )
    assert urls(found) == ["/grafana/ports"] and found.left_out == 51


@pytest.mark.parametrize(
    ("keywords", "url", "text", "score"),
    [
        ([], "/x", "", 1.0),
        (["port"], "/x", "The Port", 1.0),
        (["port"], "/port", "", 0.8),
        (["port"], "/ports", "", 0.0),
        (["port"], "/a?b=port", "", 0.8),
        (["open port"], "/x", "an open port", 1.0),
        (["open port"], "/x", "port is open", 0.5),
        (["open port"], "/open/port", "", 0.8),
        (["open port"], "/port/open", "", 0.4),
        (["port", "grafana"], "/grafana", "port", 0.9),
        (["größe"], "/gr%C3%B6%C3%9Fe", "", 0.8),
        (["port"], "", "", 0.0),
        (["---"], "/x", "", 1.0),
    ],
)
def test_the_score_is_what_its_page_says(keywords: list[str], url: str, text: str, score: float) -> None:
    assert Relevance(keywords).score(f"https://port.example{url}", text) == score


def test_a_query_is_its_words_and_phrases() -> None:
    assert keywords_of('grafana "open port" 3000 ""') == ["grafana", "open port", "3000"]
    assert keywords_of("") == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=60), st.text(max_size=60))
def test_every_score_lies_between_0_and_1(keywords: list[str], url: str, text: str) -> None:
    assert 0 <= Relevance(keywords).score(url, text) <= 1


# --- bad lists ----------------------------------------------------------------------------------------------


def test_lists_that_name_themselves_or_never_end_come_to_an_end() -> None:
    web = Web(
        {
            "/sitemap.xml": index("/sitemap.xml", "/loop.xml"),
            "/loop.xml": index("/sitemap.xml", "/loop.xml?utm_source=x"),
        }
    )
    assert discover(parse_url(f"{SITE}/"), web.get, sources=["sitemap"]).found == []
    assert len(web.asked) < 10

    class Endless(Web):
        def get(self, url: WebUrl, max_bytes: int) -> Answered:
            self.asked.append(url.text)
            return Answered(url.text, index(*(f"/{random.random()}.xml" for _ in range(50))))

    endless = Endless({})
    found = discover(parse_url(f"{SITE}/sitemap.xml"), endless.get, sources=[])
    assert found.problems[-1].code == "E_TOO_LARGE" and len(endless.asked) <= module.MAX_LISTS


def test_fifty_thousand_pages_take_seconds_and_little_memory() -> None:
    body = urlset(*(f"https://example.org/docs/page-{i}?b=2&amp;a=1" for i in range(50_000)))
    tracemalloc.start()
    begun = time.process_time()
    found = discover(parse_url(f"{SITE}/"), Web({"/sitemap.xml": body}).get, sources=["sitemap"])
    elapsed, (_, peak) = time.process_time() - begun, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.listed, len(found.found)) == (50_000, 500)
    assert elapsed < 60 and peak < 100 * 1024 * 1024


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (gzip.compress(urlset("/a"), mtime=0)[:-9], "E_PARSE"),
        (gzip.compress(b"\0" * (MAX_BYTES + 1), mtime=0), "E_TOO_LARGE"),
        (b"\x1f\x8b" + b"\xff" * 50, "E_PARSE"),
        (b"<urlset><url><loc>/a</loc></url>", "E_PARSE"),
        (b'{"version": "https://jsonfeed.org/version/1"', "E_PARSE"),
        (b'{"a": 1}', "E_PARSE"),
        (b"", "E_PARSE"),
        (bytes(range(256)) * 100, "E_PARSE"),
        (b"[" * 100_000, "E_PARSE"),
        (b'{"items":' + b"[" * 100_000, "E_PARSE"),
        (b"<html><body><p>404</p></body></html>", "E_PARSE"),
    ],
)
def test_a_bad_list_is_told_and_the_rest_goes_on(body: bytes, code: str) -> None:
    web = Web({"/robots.txt": b"Sitemap: /bad\nSitemap: /good\n", "/bad": body, "/good": urlset("/a")})
    found = discover(parse_url(f"{SITE}/"), web.get, sources=["sitemap"])
    assert urls(found) == ["/a"]
    assert [(p.where, p.code) for p in found.problems] == [(f"{SITE}/bad", code)]


def test_a_host_that_fails_is_told_and_endless_bad_entries_are_counted() -> None:
    down = TabootError("E_5XX_ORIGIN", "https://example.org/robots.txt could not be served (status 503).")
    found = discover(parse_url(f"{SITE}/"), Web({"/robots.txt": down}).get, sources=["sitemap"])
    assert [p.code for p in found.problems] == ["E_5XX_ORIGIN"]
    bad = Web({"/sitemap.xml": urlset(*(f"ftp://h/{i}" for i in range(1000)))})
    found = discover(parse_url(f"{SITE}/"), bad.get, sources=["sitemap"])
    assert len(found.problems) == module.MAX_PROBLEMS and found.problems_more == 900


@pytest.mark.parametrize("body", [b"\0" * 1_000_000, b"Sitemap: /s.xml\n" * 60_000, bytes(range(256)) * 4000])
def test_a_robots_of_a_megabyte_ends(body: bytes) -> None:
    begun = time.process_time()
    discover(
        parse_url(f"{SITE}/"), Web({"/robots.txt": body, "/s.xml": urlset("/a")}).get, sources=["sitemap"]
    )
    assert time.process_time() - begun < 10


def test_json_feeds_say_what_they_say_and_nothing_else() -> None:
    items = [
        {"url": "/a", "title": "A", "date_published": "2026-01-01"},
        {"external_url": "/b"},
        {"id": "x"},
        7,
        {"url": 3},
    ]
    feed = json.dumps({"version": "https://jsonfeed.org/version/1", "items": items}).encode()
    entries = parse_json_feed(b"\xef\xbb\xbf" + feed, "f")
    assert [(e.location, e.title, e.modified) for e in entries] == [("/a", "A", "2026-01-01"), ("/b", "", "")]
    for bad in (
        {"version": "2", "items": []},
        {"version": "https://jsonfeed.org/version/1", "items": {}},
        {"items": []},
    ):
        with pytest.raises(TabootError, match="E_PARSE"):
            parse_json_feed(json.dumps(bad).encode(), "f")


# --- an index of crawled pages ------------------------------------------------------------------------------


@contextmanager
def common_crawl(captures: dict[str, list[list[str]]], *, elsewhere: str = "") -> Iterator[Site]:
    """A server that speaks pywb's protocol: pages of captures by crawl, the latest first."""

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        if parts.path == "/index/collinfo.json":
            listed = [
                {"id": name, "name": name, "cdx-api": f"{elsewhere or base_of(request)}/index/{name}-index"}
                for name in captures
            ]
            send(request, 200, json.dumps(listed).encode(), content_type="application/json")
            return
        name = parts.path.removeprefix("/index/").removesuffix("-index")
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        pages = captures.get(name, [])
        assert query["matchType"] == "domain" and query["url"] in ("example.org", "127.0.0.1")
        if not any(pages):
            send(request, 404, b'{"message": "No Captures found for: example.org"}')
        elif "showNumPages" in query:
            send(
                request, 200, json.dumps({"pages": len(pages), "pageSize": 1, "blocks": len(pages)}).encode()
            )
        elif int(query["page"]) >= len(pages):
            send(request, 400, b'{"message": "Page out of range"}')
        else:
            assert query["output"] == "json" and query["filter"] == "=status:200"
            lines = [json.dumps({"url": u}) for u in pages[int(query["page"])]]
            send(request, 200 if lines else 404, "\n".join(lines).encode())

    with serve(handle) as site:
        yield site


def test_an_index_is_read_page_by_page_and_asked_no_further_than_needed() -> None:
    asked = "https://cc.example/CC-1-index?url=example.org&matchType=domain&pageSize=1"
    answers: dict[str, bytes | TabootError] = {
        "https://cc.example/collinfo.json": json.dumps(
            [{"id": "CC-2"}, {"id": "CC-1", "cdx-api": "https://evil.example/x"}, 3]
        ).encode(),
        f"{asked}&showNumPages=true": b'{"pages": 2}',
    }
    page = f"{asked}&output=json&fl=url&filter=%3Dstatus%3A200&collapse=urlkey&page={{}}"
    answers[page.format(0)] = (
        b'{"url": "https://example.org/a"}\nnonsense\n{"url": "https://docs.example.org/b"}\n{"x": 1}\n'
    )
    answers[page.format(1)] = b'{"url": "https://example.org/c"}\n'
    web = Web(answers)
    assert list(crawled_urls("https://cc.example", "example.org", web.get, 10)) == [
        "https://example.org/a",
        "https://docs.example.org/b",
        "https://example.org/c",
    ]
    assert not any("evil" in u for u in web.asked), "the list leads to no other server"
    web.asked.clear()
    assert len(list(crawled_urls("https://cc.example/", "example.org", web.get, 2))) == 2
    assert not any("page=1" in u for u in web.asked)


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b"[]"])
def test_a_server_that_is_no_index_is_told(body: bytes) -> None:
    web = Web({"https://cc.example/collinfo.json": body})
    found = discover(
        parse_url(f"{SITE}/"), web.get, sources=["common_crawl"], common_crawl="https://cc.example"
    )
    assert [p.code for p in found.problems] == ([] if body == b"[]" else ["E_PARSE"])


def test_an_index_of_endless_pages_ends() -> None:
    class Endless(Web):
        def get(self, url: WebUrl, max_bytes: int) -> Answered:
            if url.text in self.answers:
                return super().get(url, max_bytes)
            self.asked.append(url.text)
            if "showNumPages" in url.text:
                return Answered(url.text, b'{"pages": 1000000000}')
            return Answered(url.text, b'{"url": "https://example.org/a"}\n')

    web = Endless({"https://cc.example/collinfo.json": b'[{"id": "A"}]'})
    found = discover(
        parse_url(f"{SITE}/"), web.get, sources=["common_crawl"], common_crawl="https://cc.example"
    )
    assert found.listed == 1 and len(web.asked) <= MAX_ANSWER_PAGES + 2


# --- a source that looks its sites up -----------------------------------------------------------------------


def events(base: str, **fields: Any) -> tuple[dict[str, str], Enumerated]:
    """What became of each page, by its path, and the end."""
    fields = {"urls": [f"{base}/docs/"], "allow_cidrs": ["127.0.0.0/8"], **fields}
    entry = WebSource.model_validate({"id": "w", "type": "web", **fields})
    connector = WebConnector(
        entry, resolving(resolve, rate_limit_rps=0, common_crawl_url="http://127.0.0.1:9", retry_seconds=())
    )
    found: dict[str, str] = {}
    end = Enumerated(False, "")
    for event in connector.events({}, lambda _: False):
        if isinstance(event, Enumerated):
            end = event
        elif isinstance(event, Fetched | Failed):
            found[event.path.removeprefix(base)] = type(event).__name__
    return found, end


def test_a_source_takes_what_its_sites_list_where_a_link_could_lead() -> None:
    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        base = base_of(request)
        lists = {
            "/robots.txt": b"Sitemap: /s.xml\n",
            "/s.xml": urlset(
                "/docs/a", "/docs/b?utm_source=x", "/blog/c", "https://elsewhere.example/docs/d"
            ),
            "/feed": f"<rss><item><link>{base}/docs/e</link></item></rss>".encode(),
            "/old/s.xml": b"<urlset>",
        }
        body = lists.get(request.path)
        kind = "text/html" if body is None else "application/xml"
        if request.path in module.FEEDS[1:]:
            send(request, 404)
        else:
            send(request, 200, body or b"<p>A page.</p>", content_type=kind)

    with serve(handle) as site:
        assert events(site.base) == ({"/docs/": "Fetched"}, Enumerated(True, ""))
        pages, end = events(site.base, discover=["sitemap", "feed"])
        assert set(pages) == {"/docs/", "/docs/a", "/docs/b", "/docs/e"} and end.complete
        pages, end = events(site.base, discover=["sitemap"], exclude=["/docs/a"])
        assert set(pages) == {"/docs/", "/docs/b"} and end.complete
        # An index that does not answer is a list that could not be read: nothing counts as deleted.
        pages, end = events(site.base, discover=["sitemap", "common_crawl"])
        assert "/docs/a" in pages and not end.complete


def test_a_source_without_urls_has_no_site_to_look_up() -> None:
    for fields in (
        {"sitemaps": [f"{SITE}/s.xml"], "discover": ["feed"]},
        {"urls": [SITE], "discover": ["feed"] * 2},
    ):
        with pytest.raises(ValidationError):
            WebSource.model_validate({"id": "w", "type": "web", **fields})


# --- the command --------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as end:
        main(["discover", *arguments])
    out, err = capsys.readouterr()
    assert (end.value.code or 0) == code, f"{out}\n{err}"
    return out + err


@pytest.mark.needs("data")
def test_the_command_prints_what_it_found_and_fetches_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TABOOT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TABOOT_HTTP__RATE_LIMIT_RPS", "0")
    root = DATA / "site-ingress-nginx/site"

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        path = root / request.path.lstrip("/")
        if request.path == "/robots.txt":
            send(request, 200, f"Sitemap: {base_of(request)}/sitemap.xml.gz\n".encode())
        elif path.is_file():
            send(request, 200, path.read_bytes())
        else:
            send(request, 404)

    with (
        serve(handle) as site,
        common_crawl({"CC-2": [[]], "CC-1": [["https://kubernetes.github.io/old/"]]}) as crawl,
    ):
        monkeypatch.setenv("TABOOT_HTTP__COMMON_CRAWL_URL", f"{crawl.base}/index")
        blocked = run(capsys, site.base, code=1)
        assert "E_URL_BLOCKED" in blocked and not site.hits
        arguments = [f"{site.base}/", "--allow-cidr", "127.0.0.0/8", "--query", "rate limiting tls"]
        found = json.loads(
            run(capsys, *arguments, "--source", "sitemap", "--source", "common_crawl", "--json")
        )
        assert (found["listed"], found["problems"]) == (64, [])
        assert "https://kubernetes.github.io/old/" in [p["url"] for p in found["found"]]
        scores = [p["score"] for p in found["found"]]
        assert scores == sorted(scores, reverse=True) and scores[0] > 0
        shown = run(
            capsys, *arguments, "--pattern", "**/user-guide/**", "--max-urls", "5", "--threshold", "0.2"
        )
        assert "user-guide/tls" in shown and "are left out" in shown
        assert set(site.hits) <= {"/robots.txt", "/sitemap.xml.gz", *module.FEEDS}
    assert not (tmp_path / "home").exists(), "what only looks leaves nothing behind"
    assert "E_URL_BAD" in run(capsys, "not a url", code=1)
    assert "not a network" in run(capsys, SITE, "--allow-cidr", "10.0.0.1/8", code=2)
    assert "pattern 1" in run(capsys, SITE, "--pattern", "!x", code=2)
