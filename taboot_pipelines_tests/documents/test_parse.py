"""Blob to document: exact text and maps, typed errors, what a document says of itself."""

from __future__ import annotations

import codecs
from datetime import UTC, datetime

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.documents.mime import mime_of
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.documents.secrets.masking import find_secrets
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines_tests.documents import corpus


def parse(
    data: bytes,
    path: str = "a.md",
    mime: str | None = None,
    charset: str | None = None,
    languages: tuple[str, ...] = (),
    max_chars: int = 1_000_000,
) -> ParsedDocument:
    return parse_document(
        data, path=path, mime=mime, charset=charset, languages=languages, max_chars=max_chars
    )


def code_of(
    data: bytes,
    path: str = "a.md",
    mime: str | None = None,
    charset: str | None = None,
    languages: tuple[str, ...] = (),
    max_chars: int = 1_000_000,
) -> str:
    with pytest.raises(TabootError) as caught:
        parse(data, path, mime, charset, languages, max_chars)
    assert path in caught.value.message
    return caught.value.code


@pytest.mark.parametrize("name", ["linuxserver-docs-md", "awesome-compose", "swag-reverse-proxy-confs"])
def test_real_text_is_kept_to_the_byte(name: str) -> None:
    count = 0
    for path, data in corpus.files(name):
        try:
            document = parse(data, path, languages=("en",))
        except TabootError as error:
            assert error.code in ("E_EMPTY", "E_BINARY"), (path, error.code)
            continue
        source, codec, bom = decode(data, None)
        assert len(document.text) == len(source)
        assert document.offsets.exact
        assert document.offsets.to_bytes(0, len(source)) == (bom, len(data))
        at = 0
        for start, end in [*find_secrets(source, document.mime), (len(source), len(source))]:
            assert document.text[at:start] == source[at:start]
            lo, hi = document.offsets.to_bytes(at, start)
            assert data[lo:hi].decode(codec) == source[at:start]
            at = end
        assert document.title and document.lang in ("en", "und")
        count += 1
    assert count > 50


CHARSETS = [
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-32",
    "cp1252",
    "iso-8859-1",
    "iso-8859-15",
    "koi8-r",
    "shift_jis",
    "gbk",
    "euc-kr",
    "big5",
    "cp437",
]


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1, max_size=200), st.sampled_from(CHARSETS), st.booleans(), st.data())
def test_any_text_in_any_charset_maps_back(
    text: str, charset: str, declare: bool, draw: st.DataObject
) -> None:
    assume((text.strip() and "\x00" not in text and charset not in ("utf-16-le",)) or declare)
    try:
        data = text.encode(charset)
    except UnicodeError:
        assume(False)
    try:
        document = parse(data, "a.txt", charset=charset if declare else None)
    except TabootError as error:
        assert error.code in ("E_ENCODING", "E_EMPTY", "E_BINARY")
        return
    source, codec, bom = decode(data, charset if declare else None)
    assert source.encode(codec) == data[bom:]
    masked = {i for a, b in find_secrets(source, document.mime) for i in range(a, b)}
    start = draw.draw(st.integers(0, len(source)))
    end = draw.draw(st.integers(start, len(source)))
    lo, hi = document.offsets.to_bytes(start, end)
    assert data[lo:hi].decode(codec) == source[start:end]
    assert all(document.text[i] == source[i] for i in range(start, end) if i not in masked)


def test_newlines_and_bom_are_accounted_for() -> None:
    data = codecs.BOM_UTF8 + "# Tïtle\r\n\r\nsecond\rthird\n".encode()
    document = parse(data)
    assert document.text == "# Tïtle\r\n\r\nsecond\rthird\n"
    assert document.offsets.to_bytes(0, 1) == (3, 4)
    start = document.text.index("second")
    lo, hi = document.offsets.to_bytes(start, start + 6)
    assert data[lo:hi] == b"second"


@pytest.mark.parametrize(
    ("data", "charset", "text", "codec"),
    [
        ("Grüße".encode("cp1252"), "iso-8859-1", "Grüße", "cp1252"),
        ("“quoted” – text".encode("cp1252"), None, "“quoted” – text", "cp1252"),
        ("naïve".encode("utf-16"), None, "naïve", "utf-16-le"),
        ("Привет".encode("koi8-r"), "koi8-r", "Привет", "koi8-r"),
        (b"ok", "no-such-charset", "ok", "utf-8"),
        ("naïve".encode(), "ascii", "naïve", None),
    ],
)
def test_charsets(data: bytes, charset: str | None, text: str, codec: str | None) -> None:
    found, name, bom = decode(data, charset)
    assert found.encode(name) == data[bom:]
    if codec:
        assert (found, name) == (text, codec)


def test_meta_charset_and_damaged_utf8_in_html() -> None:
    page = (
        '<html><head><meta charset="windows-1251"><title>т</title></head><body><p>Документ о'
        " сервере</p></body></html>"
    )
    assert "Документ о сервере" in parse(page.encode("cp1251"), "a.html").text
    damaged = "<html><body><p>Größe und Maß, schöne Grüße übrig".encode() + b"\xff</p></body></html>"
    document = parse(damaged, "a.html")
    assert "Größe" in document.text and "\ufffd" in document.text
    lo, hi = document.offsets.to_bytes(0, len(document.text))
    assert damaged[lo:hi].startswith(b"<p>") and damaged[lo:hi].endswith(b"</p>")


def test_typed_errors() -> None:
    assert code_of(b"") == "E_EMPTY"
    assert code_of(b" \n\t ") == "E_EMPTY"
    assert code_of("﻿  ".encode()) == "E_EMPTY"
    assert code_of(b"\x7fELF\x02\x01\x01\x00" + bytes(50), "tool") == "E_BINARY"
    assert code_of(b"abc\x00def", "a.txt") == "E_BINARY"
    assert code_of(b"%PDF-1.7 x", "a.txt") == "E_BINARY"
    assert code_of(b"x" * 9000 + b"\x00", "a.txt") == "E_BINARY"
    assert code_of(b"<svg/>", "a.svg", "image/svg") == "E_MIME"
    assert code_of("größere Straße übermäßig schön ".encode() * 9 + b"\xff", "a.txt") == "E_ENCODING"
    assert code_of(b"x" * 101, "a.txt", max_chars=100) == "E_TOO_LARGE"
    assert code_of(b"<html><body><script>x</script></body></html>", "a.html") == "E_EMPTY"
    german = "Dieses Handbuch beschreibt, wie man den Server einrichtet und danach sicher betreibt. " * 3
    assert code_of(german.encode(), "a.md", languages=("en",)) == "E_LANGUAGE"
    assert parse(german.encode(), languages=("de", "en")).lang == "de"
    assert parse(german.encode()).lang == "de"


def test_errors_do_not_quote_the_file() -> None:
    with pytest.raises(TabootError) as caught:
        parse(b"password: hunter2\n" + "größere Straße schöner übermäßig ".encode() * 9 + b"\xff", "a.txt")
    assert "hunter2" not in str(caught.value.to_response())


# Shift JIS with a letter and its mark in one code, which neither has alone.
@example(b"\x83\x97\xa6", "a.md", None, None)
@example(b"\x83\x97\xa6", "a.html", "text/html", "shift_jis_2004")
@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=300),
    st.sampled_from(["a.md", "a.html", "a.yml", "x", "a.rst"]),
    st.sampled_from([None, "text/html", "text/plain"]),
    st.sampled_from([None, "utf-8", "utf-16", "gbk", "utf-7", "rot13", "idna", ""]),
)
def test_any_bytes_give_a_document_or_a_typed_error(
    data: bytes, path: str, mime: str | None, charset: str | None
) -> None:
    try:
        document = parse(data, path, mime, charset)
    except TabootError as error:
        assert error.code != "E_PARSE"
        return
    assert document.text.strip()
    document.text.encode("utf-8")
    document.title.encode("utf-8")


def test_markdown_says_what_it_says() -> None:
    text = (
        "---\ntitle: My page\nauthor: Ann\ndate: 2024-03-05\ntags: [a, b]\ndescription: About it\n---\n<!--"
        " note -->\n# Heading\n\nText.\n"
    )
    document = parse(text.encode())
    assert document.text == text
    assert document.title == "My page"
    assert document.date == datetime(2024, 3, 5, tzinfo=UTC)
    assert document.metadata == {"author": "Ann", "description": "About it", "keywords": ["a", "b"]}
    assert parse(b"```\n# no\n```\n# The *real* [one](x)\n").title == "The real one"
    assert parse(b"Setext\n======\n\ntext\n").title == "Setext"
    assert parse(b"no heading\n", "docs/file.md").title == "file.md"
    assert parse(b"a: 1\n", "x/compose.yaml").title == "compose.yaml"
    assert parse(b"---\na: &a [*a, *a]\n---\ntext\n").title == "a.md"
    assert parse(b"---\n" + b"[" * 5000 + b"\n---\ntext\n").title == "a.md"


def test_dates_only_where_stated() -> None:
    def html(head: str, body: str = "<p>The text of this page is long enough.</p>") -> datetime | None:
        return parse(
            f"<html><head><title>T</title>{head}</head><body>{body}</body></html>".encode(), "a.html"
        ).date

    assert html("") is None
    assert html("", "<p>Posted on 2020-01-01 by Ann, in the afternoon.</p>") is None
    assert html('<meta property="article:published_time" content="2020-01-02T03:04:05+02:00">') == datetime(
        2020, 1, 2, 1, 4, 5, tzinfo=UTC
    )
    assert html(
        '<script type="application/ld+json">'
        '{"@graph":[{"@type":"NewsArticle","datePublished":"2021-05-06"}]}</script>'
    ) == datetime(2021, 5, 6, tzinfo=UTC)
    assert html(
        "", '<p>Text of the page here.</p><time itemprop="datePublished" datetime="2019-07-08">x</time>'
    ) == datetime(2019, 7, 8, tzinfo=UTC)
    assert html('<meta name="date" content="next week">') is None


def test_html_says_what_it_says() -> None:
    page = (
        '<html lang="en"><head><title>Page | Site</title><meta property="og:title" content="Page &amp;'
        ' more"><meta name="author" content="Ann"><meta name="description" content="D"><meta name="keywords"'
        ' content="a, b"><link rel="canonical" href="https://x.example/p"><meta property="og:image"'
        ' content="https://x.example/i.png"></head><body><h1>Page</h1><p>The text of this page is long'
        " enough.</p></body></html>"
    )
    document = parse(page.encode(), "p")
    assert document.mime == "text/html"
    assert document.title == "Page & more"
    assert document.metadata == {
        "author": "Ann",
        "description": "D",
        "keywords": ["a", "b"],
        "canonical_url": "https://x.example/p",
        "og_image": "https://x.example/i.png",
        "page_type": "article",
        "extraction_confidence": document.metadata["extraction_confidence"],
    }
    assert 0 < document.metadata["extraction_confidence"] < 1


def test_secrets_stop_here() -> None:
    page = (
        "<html><head><title>Use https://u:hunter2@h/</title></head><body><h1>Set"
        " up</h1><pre><code>DB_PASSWORD=hunter2</code></pre><p>Then restart it.</p></body></html>"
    )
    for data, path in (
        (page.encode(), "a.html"),
        (b"# https://u:hunter2@h/\n\nDB_PASSWORD=hunter2\n", "a.md"),
    ):
        document = parse(data, path)
        assert "hunter2" not in document.text and "hunter2" not in document.title
        assert "DB_PASSWORD=*******" in document.text


@pytest.mark.parametrize(
    ("path", "declared", "data", "mime"),
    [
        ("a/app.subdomain.conf.sample", None, b"server {}", "text/x-nginx-conf"),
        ("Dockerfile.dev", None, b"FROM x", "text/x-dockerfile"),
        ("quadlets/web.container", None, b"[Container]\nImage=x\n", "text/x-ini"),
        ("networkd/10-lan.network", None, b"[Match]\nName=eth0\n", "text/x-ini"),
        ("docker-compose.yml", "application/octet-stream", b"a: 1", "application/yaml"),
        ("https://x.example/guide/", "text/html", b"hello", "text/html"),
        ("https://x.example/README.md", "text/plain", b"# x", "text/markdown"),
        ("page", None, b"\n<!DOCTYPE html><html>", "text/html"),
        ("x.md", None, b"a\x00b", "application/octet-stream"),
        ("x.md", "text/markdown; charset=utf-8", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("notes", None, b"hello", "text/plain"),
        ("x.xhtml", "application/xhtml+xml", b"<html/>", "text/html"),
    ],
)
def test_mime_of(path: str, declared: str | None, data: bytes, mime: str) -> None:
    assert mime_of(path, data, declared) == mime
