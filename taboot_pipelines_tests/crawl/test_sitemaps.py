"""Sitemap formats on the published examples, and hostile XML."""

from __future__ import annotations

import gzip
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.crawl.discovery.sitemaps import parse_sitemap
from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.connectors.conftest import DATA

PAGES = ["https://example.org/page1", "https://example.org/page2"]


@pytest.mark.parametrize(
    ("name", "locations"),
    [
        ("simple-urlset.xml", PAGES),
        ("google-news.xml", PAGES),
        ("google-image.xml", ["https://example.org/news/one", "https://example.org/news/two"]),
        ("hreflang.xml", ["https://example.org/en/page", "https://example.org/fr/page"]),
        ("rss2.0.xml", PAGES),
        ("atom0.3.xml", PAGES),
        ("atom1.0.xml", PAGES),
        ("plaintext.txt", PAGES),
    ],
)
def test_every_published_format_lists_its_pages(name: str, locations: list[str]) -> None:
    data = (DATA / "sitemaps" / name).read_bytes()
    for form in (
        data,
        b"\xef\xbb\xbf" + data,
        b"\n" + data if name.endswith("txt") else data,
        gzip.compress(data),
    ):
        sitemap = parse_sitemap(form, "s")
        assert (sitemap.is_index, sitemap.locations) == (False, locations)


def test_an_index_lists_sitemaps() -> None:
    sitemap = parse_sitemap((DATA / "sitemaps/simple-index.xml").read_bytes(), "s")
    assert (sitemap.is_index, sitemap.locations) == (
        True,
        ["https://example.org/sitemap1.xml", "https://example.org/sitemap2.xml"],
    )


def test_utf16_cdata_prefixes_and_guids() -> None:
    text = (
        '<?xml version="1.0" encoding="UTF-16"?><s:urlset xmlns:s="u"><s:url><s:loc>'
        " <![CDATA[http://h/?a=1&b=2]]> </s:loc></s:url></s:urlset>"
    )
    assert parse_sitemap(text.encode("utf-16"), "s").locations == ["http://h/?a=1&b=2"]
    rss = (
        b"<rss><channel><image><url>http://h/no</url></image><item><guid>http://h/yes</guid></item>"
        b"<item><guid isPermaLink='false'>7</guid></item></channel></rss>"
    )
    assert parse_sitemap(rss, "s").locations == ["http://h/yes"]
    atom = (
        b"<feed><entry><link rel='edit' href='http://h/edit'/><link rel='alternate'"
        b" href='http://h/yes'/></entry></feed>"
    )
    assert parse_sitemap(atom, "s").locations == ["http://h/yes"]


RSS = '<rss version="2.0"><channel>{}</channel></rss>'


@pytest.mark.parametrize(
    ("data", "locations"),
    [
        # what stands before the declaration
        (b'\n \n<?xml version="1.0"?><urlset><url><loc>http://h/a</loc></url></urlset>', ["http://h/a"]),
        (
            b'\xef\xbb\xbf\n<?xml version="1.0"?><urlset><url><loc>http://h/a</loc></url></urlset>',
            ["http://h/a"],
        ),
        # an ampersand that is one, and HTML's names
        (b"<urlset><url><loc>http://h/?a=1&b=2&amp;c=3</loc></url></urlset>", ["http://h/?a=1&b=2&c=3"]),
        (b"<urlset><url><loc>http://h/?a=1&copy=2</loc></url></urlset>", ["http://h/?a=1&copy=2"]),
        (b"<urlset><url><loc>http://h/caf&eacute;</loc></url></urlset>", ["http://h/caf\u00e9"]),
        (
            b"<urlset><url><loc><![CDATA[http://h/?a&amp;b]]></loc><x>&</x></url></urlset>",
            ["http://h/?a&amp;b"],
        ),
        (RSS.format("<item><title>a&nbsp;b \x08 &#8;</title><link>/p</link></item>").encode(), ["/p"]),
        # prefixes that nobody declared
        (
            b"<urlset><url><image:image><image:loc>/i</image:loc></image:image><loc>/p</loc></url></urlset>",
            ["/p"],
        ),
        # bytes that are no UTF-8, declared or not
        (RSS.format("<item><title>\u00e9</title><link>/p</link></item>").encode("latin-1"), ["/p"]),
        (
            b'<?xml version="1.0" encoding="x-none"?><urlset><url><loc>/p</loc></url></urlset>',
            ["/p"],
        ),
        ("http://h/a\nhttp://h/b\n".encode("utf-16"), ["http://h/a", "http://h/b"]),
    ],
)
def test_what_is_nearly_a_list_is_read_as_it_is_meant(data: bytes, locations: list[str]) -> None:
    assert parse_sitemap(data, "s").locations == locations


def test_a_repaired_title_keeps_its_characters() -> None:
    data = RSS.format("<item><title>na\u00efve \u2013 A&B &lt;c&gt;</title><link>/p</link></item>").encode(
        "cp1252"
    )
    assert parse_sitemap(data, "s").entries[0].title == "na\u00efve \u2013 A&B <c>"


@pytest.mark.parametrize(
    ("item", "location"),
    [
        # another language's page, named first, is not the page
        ('<url><x:link xmlns:x="u" rel="alternate" hreflang="de" href="/de"/><loc>/en</loc></url>', "/en"),
        ("<url><loc>/a<!-- note -->/b</loc></url>", "/a/b"),
        ("<item><guid>http://h/id</guid><link>/p</link></item>", "/p"),
        ("<item><guid isPermaLink='TRUE'>http://h/id</guid></item>", "http://h/id"),
        ("<item><guid>tag:h,2026:1</guid></item>", None),
        ("<item><guid>12345</guid></item>", None),
        ("<entry><link rel='ALTERNATE' href='/p'/></entry>", "/p"),
        ("<entry><link rel='http://www.iana.org/assignments/relation/alternate' href='/p'/></entry>", "/p"),
        ("<entry><link rel='self' href='/s'/><link rel='license' href='/l'/></entry>", None),
        ("<entry xml:base='http://o/dir/'><link href='p'/></entry>", "http://o/dir/p"),
        ("<entry xml:base='http://o/dir/'><link xml:base='sub/' href='p'/></entry>", "http://o/dir/sub/p"),
    ],
)
def test_where_an_entry_says_its_page_is(item: str, location: str | None) -> None:
    root = {"<url>": "urlset", "<item": "rss", "<entr": "feed"}[item[:5]]
    data = f"<{root}>{item}{item.replace('/p', '/q')}<!-- --></{root}>".encode()
    try:
        found = parse_sitemap(data, "s").locations
    except TabootError as error:
        assert error.code == "E_PARSE" and location is None
        return
    assert found[:1] == [location] and len(found) == 2


def test_repair_takes_no_time_on_hostile_text() -> None:
    begun = time.process_time()
    for piece in ("<![CDATA[", "&", "&a", "<a:b", "<?xml ", "&#99999999;", " x:y", "\n"):
        with pytest.raises(TabootError, match="E_PARSE"):
            parse_sitemap(b"<urlset>" + piece.encode() * (2_000_000 // len(piece)), "s")
    assert time.process_time() - begun < 10


@pytest.mark.needs("data")
def test_entities_are_neither_expanded_nor_loaded() -> None:
    laughs = "".join(f'<!ENTITY a{i} "{"".join(f"&a{i - 1};" for _ in range(10))}">' for i in range(1, 12))
    bomb = f'<!DOCTYPE u [<!ENTITY a0 "http://h/">{laughs}]><urlset><url><loc>&a11;</loc></url></urlset>'
    with pytest.raises(TabootError, match="E_PARSE"):
        parse_sitemap(bomb.encode(), "s")
    secret = DATA / "sitemaps" / "plaintext.txt"
    external = (
        "<!DOCTYPE u [<!ENTITY x SYSTEM"
        f' "{secret.as_uri()}">]><urlset><url><loc>http://h/&x;</loc></url></urlset>'
    )
    try:
        assert not [u for u in parse_sitemap(external.encode(), "s").locations if "example.org" in u]
    except TabootError as error:
        assert error.code == "E_PARSE"


def test_deep_nesting_and_a_hundred_thousand_entries() -> None:
    with pytest.raises(TabootError, match="E_PARSE"):
        parse_sitemap(b"<urlset>" + b"<url>" * 100_000, "s")
    many = (
        b"<urlset>"
        + b"".join(b"<url><loc>http://h/%d</loc></url>" % i for i in range(100_000))
        + b"</urlset>"
    )
    assert len(parse_sitemap(many, "s").locations) == 100_000


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200)
    | st.binary(max_size=60).map(b"<urlset>".__add__)
    | st.binary(max_size=60).map(b"\x1f\x8b\x08".__add__)
)
def test_any_bytes_are_a_sitemap_or_a_typed_error(data: bytes) -> None:
    try:
        assert parse_sitemap(data, "s").locations
    except TabootError as error:
        assert error.code == "E_PARSE"


@pytest.mark.parametrize("name", ["site-ingress-nginx/site/sitemap.xml"])
def test_a_sitemap_cut_anywhere_is_an_error_not_a_shorter_list(name: str) -> None:
    data = (DATA / name).read_bytes().rstrip()
    assert len(parse_sitemap(data, "s").locations) == 63
    for cut in range(60, len(data), 97):
        with pytest.raises(TabootError, match="E_PARSE"):
            parse_sitemap(data[:cut], "s")
