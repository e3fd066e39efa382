"""Where pages lead: what is a link and what is not, and bounded whatever a page holds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.crawl.links import (
    MAX_BYTES,
    MAX_LINKS,
    MAX_TEXT,
    MAX_URL_LENGTH,
    denies,
    header_canonical,
    other_url,
    page_canonical,
    page_links,
)
from taboot_pipelines.crawl.urls import canonical_key, parse_url

URL = "https://h.example/docs/guide/page.html?x=1"


def links(page: str | bytes, charset: str | None = None, url: str = URL) -> list[str]:
    data = page.encode() if isinstance(page, str) else page
    return list(page_links(data, charset, url).links)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<a href=other>o</a>", ["https://h.example/docs/guide/other"]),
        ("<a href='../up/'>u</a>", ["https://h.example/docs/up/"]),
        ("<a href=/root>r</a>", ["https://h.example/root"]),
        ("<a href=//cdn.example/x>c</a>", ["https://cdn.example/x"]),
        ("<a href='?q=1'>q</a>", ["https://h.example/docs/guide/page.html?q=1"]),
        ("<a href=''>self</a>", ["https://h.example/docs/guide/page.html?x=1"]),
        ("<a href='#part'>p</a>", []),
        ("<a href='b#part'>p</a><a href='b#other'>p</a>", ["https://h.example/docs/guide/b"]),
        ("<A HREF=' /spaces\n'>s</A>", ["https://h.example/spaces"]),
        ("<a href='/a&amp;b?x=1&amp;y=2'>e</a>", ["https://h.example/a&b?x=1&y=2"]),
        ("<map><area href=/area></map>", ["https://h.example/area"]),
        ("<a href=mailto:x@y>m</a><a href='javascript:go()'>j</a><a href=ftp://h/>f</a>", []),
        ("<a href='data:text/html,x'>d</a><a href='http://[::'>b</a><a>none</a>", []),
        ("<a rel='external NoFollow' href=/n>n</a><a rel=noopener href=/y>y</a>", ["https://h.example/y"]),
        ("<!-- <a href=/c>c</a> --><script>'<a href=/s>'</script><template><a href=/t></a></template>", []),
        ("<textarea><a href=/t></textarea><title><a href=/t></title><style>a{}<a href=/t></style>", []),
        ("<base href=/v2/><a href=x>x</a>", ["https://h.example/v2/x"]),
        ("<a href=x>x</a><base href=/v2/><base href=/v3/>", ["https://h.example/v2/x"]),
        ("<base href='http://[bad'><a href=x>x</a>", ["https://h.example/docs/guide/x"]),
        ("<base href='https://other.example/'><a href=x>x</a>", ["https://other.example/x"]),
        ("<meta name=robots content='noindex, NOFOLLOW'><a href=x>x</a>", []),
        ("<meta name=robots content=none><a href=x>x</a>", []),
        ("<meta name=googlebot content=nofollow><a href=x>x</a>", ["https://h.example/docs/guide/x"]),
        ("<meta http-equiv=refresh content='0; url=/new/'>", ["https://h.example/new/"]),
        ("<meta http-equiv=Refresh content=\"3;URL='/new/'\">", ["https://h.example/new/"]),
        ("<meta http-equiv=refresh content=30>", []),
        ("<svg><a href=/svg>s</a></svg><noscript><a href=/plain>p</a></noscript>", None),
    ],
)
def test_what_a_page_links_to(page: str, expected: list[str] | None) -> None:
    found = links(page)
    assert found == (["https://h.example/svg", "https://h.example/plain"] if expected is None else expected)


def test_the_page_says_its_own_url_and_the_texts_of_its_links() -> None:
    page = b"""<link rel="alternate" href=/a><link rel="Canonical" href="/docs/"><link rel=canonical href=/no>
    <a href=x>The <b>first</b>
       link</a> <a href=y><img alt=pump></a> <a href=x>more</a> <a href=x>first</a>"""
    found = page_links(page, None, URL, texts=True)
    assert found.canonical == "https://h.example/docs/"
    assert found.links == {
        "https://h.example/docs/guide/x": "The first link more",
        "https://h.example/docs/guide/y": "",
    }
    assert max(
        map(len, page_links(b"<a href=x>" + b"word " * 9999, None, URL, texts=True).links.values())
    ) <= (MAX_TEXT)


@pytest.mark.parametrize(
    ("data", "charset"),
    [
        ("<a href='/ü'>x</a>".encode(), None),
        ("<a href='/ü'>x</a>".encode(), "UTF-8"),
        ("<a href='/ü'>x</a>".encode("latin-1"), "iso-8859-1"),
        ("<meta charset=windows-1252><a href='/ü'>x</a>".encode("cp1252"), None),
        (
            "<meta http-equiv=content-type content='text/html; charset=iso-8859-15'><a href='/ü'>".encode(
                "latin-1"
            ),
            None,
        ),
        (b"\xff\xfe" + "<a href='/ü'>x</a>".encode("utf-16-le"), None),
        (b"\xfe\xff" + "<a href='/ü'>x</a>".encode("utf-16-be"), "utf-8"),
        (b"\xef\xbb\xbf" + "<a href='/ü'>x</a>".encode(), "latin-1"),
        ("<a href='/ü'>x</a>".encode(), "no-such-charset"),
    ],
)
def test_the_charset_is_heard(data: bytes, charset: str | None) -> None:
    assert links(data, charset) == ["https://h.example/%C3%BC"]


@given(st.binary(max_size=400), st.sampled_from([None, "utf-8", "utf-16", "shift_jis", "hex", "idna", "\0"]))
def test_any_bytes_give_links_that_can_be_asked_for(data: bytes, charset: str | None) -> None:
    for link in links(b"<a href='" + data + b"'>x</a><base href=" + data[:20] + b">", charset):
        assert link.startswith(("http://", "https://")) and "#" not in link and len(link) <= MAX_URL_LENGTH


@pytest.mark.parametrize("kind", ["links", "deep", "closed", "breaks"])
def test_a_page_of_fifty_megabytes_is_bounded(kind: str) -> None:
    """Two million links in one line; ten million elements in each other, closed or not."""
    page = {
        "links": b"".join(b"<a href=/p%d>x</a>" % i for i in range(2_000_000)),
        "deep": b"<base href=/v/><a href=first>f</a>"
        + b"<div>" * 1_000_000
        + b"<a href=last>l</a><div>" * 1_000_000,
        "closed": b"<a href=/v/first>" + b"<b>" * 4_000_000 + b"</b>" * 4_000_000 + b"<a href=/v/last>",
        "breaks": b"<a href=/v/first>f</a>"
        + b"<br>" * 100_000
        + b"<!-- <a href=/no> --><a rel=me href='/v/last'>",
    }[kind]
    began = time.process_time()
    found = page_links(page, None, URL)
    assert time.process_time() - began < 15
    assert found.more == (len(page) > MAX_BYTES)
    if kind == "links":
        assert len(found.links) == MAX_LINKS
    else:
        last = [] if kind == "closed" else ["https://h.example/v/last"]
        assert list(found.links) == ["https://h.example/v/first", *last]


def test_longer_urls_are_left_out() -> None:
    assert links(f"<a href=/{'x' * 2100}>l</a><a href=/{'x' * 2000}>l</a><a href=/{'ü' * 700}>") == [
        f"https://h.example/{'x' * 2000}"
    ]


@pytest.mark.parametrize(
    ("directives", "denied"),
    [
        ("nofollow", True),
        ("noindex, nofollow", True),
        ("none", True),
        ("noindex", False),
        ("", False),
        ("googlebot: nofollow", False),
        ("taboot-pipelines: nofollow", True),
        ("googlebot: noindex, nofollow", False),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST", False),
    ],
)
def test_directives_to_robots(directives: str, denied: bool) -> None:
    assert denies(directives) is denied


def test_real_pages_lead_where_their_sitemap_says(data: Path) -> None:
    """Every page of the sitemap but those that nothing links to."""
    root = data / "site-ingress-nginx" / "site"
    base = "https://kubernetes.github.io/ingress-nginx/"
    found = {
        link
        for file in root.rglob("*.html")
        for link in links(
            file.read_bytes(), None, base + file.relative_to(root).as_posix().removesuffix("index.html")
        )
    }
    assert len({x for x in found if x.startswith(base)}) > 60


@pytest.mark.parametrize(
    ("page", "canonical"),
    [
        ("<link rel=canonical href=../x?y=1#part>", "https://h.example/docs/x?y=1"),
        ("<link rel='nofollow CANONICAL' href=' //other.example/x '>", "https://other.example/x"),
        ("<link rel=canonical href=x><base href=/v2/>", "https://h.example/v2/x"),
        ("<base href=https://other.example/><link rel=canonical href=x>", "https://other.example/x"),
        ("<link rel=canonical href=''><link rel=canonical href=y>", "https://h.example/docs/guide/y"),
        ("<meta name=robots content=nofollow><link rel=canonical href=/x>", "https://h.example/x"),
        ("<link rel=canonical href=mailto:x>", None),
        ("<link rel=canonical>", None),
        ("<link rel=alternate href=/x><a rel=canonical href=/y>y</a>", None),
        ("<!-- <link rel=canonical href=/x> -->", None),
        (f"<link rel=canonical href=/{'x' * 3000}>", None),
    ],
)
def test_what_a_page_says_is_its_own_url(page: str, canonical: str | None) -> None:
    assert page_links(page.encode(), None, URL).canonical == canonical
    for charset in ("utf-8", "utf-16-le"):
        assert page_canonical(page.encode(charset), charset, URL) == canonical


@pytest.mark.parametrize(
    ("header", "canonical"),
    [
        ('<https://other.example/x>; rel="canonical"', "https://other.example/x"),
        ("</x>;rel=canonical", "https://h.example/x"),
        ("<x> ; title=a ; REL = Canonical", "https://h.example/docs/guide/x"),
        ('</a,b>; rel="next", </c,d>; rel="up canonical"', "https://h.example/c,d"),
        ('</a>; title="; rel=canonical, <"; rel=next, </b>; rel=canonical', "https://h.example/b"),
        ("</a>; rel=next; rel=canonical", None),
        ('</a>; rel=canonical; anchor="/other"', None),
        ("</a>; rev=canonical", None),
        ("</a>; rel=notcanonical", None),
        ("<mailto:x>; rel=canonical, </b>; rel=canonical", "https://h.example/b"),
        ("</x#part>; rel=canonical", "https://h.example/x"),
        (f"</{'x' * 3000}>; rel=canonical", None),
        ("</a; rel=canonical", None),
        ("", None),
    ],
)
def test_what_the_header_says_is_the_pages_own_url(header: str, canonical: str | None) -> None:
    assert header_canonical(header, URL) == canonical


@given(st.text(alphabet='<>;=",\\\t relcanoi/#:x', max_size=300))
def test_no_header_breaks_anything(header: str) -> None:
    found = header_canonical(header, URL)
    assert found is None or found.startswith(("http://", "https://"))


@pytest.mark.parametrize("part", ["<", "<a>;", '<a>;x="', "<a>; ", '<a>;x="\\', "<a>;=", "<a>;x=;"])
def test_a_header_of_any_length_is_read_at_once(part: str) -> None:
    began = time.process_time()
    header_canonical(part * 100_000, URL)
    header_canonical("<a>" + part[3:] * 100_000, URL)
    assert time.process_time() - began < 2


def test_only_another_url_is_recorded() -> None:
    key = canonical_key(parse_url("https://h.example/a?y=1&x=2"))
    for same in ("https://h.example/a?x=2&y=1", "https://H.example:443/a?y=1&utm_source=z&x=2#part", None):
        assert other_url(same, key) is None
    assert other_url("http://h.example/a?x=2&y=1", key) == "http://h.example/a?x=2&y=1"
    assert other_url("https://user:hunter2@h.example/b", key) is None
