"""Structured data of a page as its document, and a page's source as its document."""

from __future__ import annotations

import gzip
import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Extraction, ParsedDocument
from taboot_pipelines_tests.documents import corpus

PAGE = """<!doctype html><html prefix="my: https://my.example/ns#"><head><title>Bread</title>
<meta property="og:title" content="Bread &amp; butter"><meta property="og:image" content="/a.png">
<meta property="og:image:width" content="300"><meta property="my:colour" content="brown">
<meta property="unknown:x" content="no"><meta name="description" content="About bread">
<script type="application/ld+json; charset=utf-8">
{"@context": "https://schema.org", "@graph": [
 {"@type": "Recipe", "@id": "#r", "name": "Bröd", "author": [{"@type": "Person", "name": "Åsa"}, "Bo"],
  "nutrition": {"@type": "NutritionInformation", "calories": 240}, "vegan": true, "video": null},
 {"@type": ["WebPage", "https://schema.org/FAQPage"], "url": "https://example.org/"}]}
</script></head><body><p>Words that are no data.</p>
<div itemscope itemtype="https://schema.org/Product" id="p"><span itemprop="name">Tin &lt;2&gt;</span>
<div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><meta itemprop="price" content="3"></div>
<div itemscope itemtype="https://schema.org/Organization"><b itemprop="name">Maker</b></div></div>
<script type="application/ld+json">{"broken": </script>
</body></html>"""
TEXT = """\
## Open Graph
- og:title: Bread & butter
- og:image: /a.png
- og:image:width: 300
- my:colour: brown

## Recipe
- id: #r
- name: Bröd
- author: Person
- author.name: Åsa
- author: Bo
- nutrition: NutritionInformation
- nutrition.calories: 240
- vegan: true

## WebPage, FAQPage
- url: https://example.org/

## Product
- name: Tin <2>
- offers: Offer
- offers.price: 3

## Organization
- name: Maker
"""


def document_of(
    page: bytes | str, extraction: Extraction = "structured", charset: str | None = None, **more: int
) -> ParsedDocument:
    return parse_document(
        page if isinstance(page, bytes) else page.encode(charset or "utf-8"),
        path="page.html",
        mime="text/html",
        charset=charset,
        languages=(),
        max_chars=more.get("max_chars", 20_000_000),
        extraction=extraction,
    )


@pytest.mark.parametrize("charset", ["utf-8", "latin-1", "utf-16"])
def test_a_page_says_its_structured_data_and_each_line_leads_to_its_element(charset: str) -> None:
    document = document_of(PAGE, charset=charset)
    assert document.text == TEXT
    assert (document.mime, document.title) == ("text/markdown", "Bread & butter")
    data = PAGE.encode(charset)
    for value, element in {
        "author.name: Åsa": "<script",
        "offers.price: 3": '<div itemscope itemtype="https://schema.org/Product"',
        "name: Maker": '<div itemscope itemtype="https://schema.org/Organization"',
        "my:colour: brown": "<meta property",
    }.items():
        at = document.text.index(value)
        start, end = document.offsets.to_bytes(at, at + len(value))
        quoted = (b"\xff\xfe" * (charset == "utf-16" and start > 1) + data[start:end]).decode(charset)
        assert quoted.startswith(element)
        assert value.rsplit(" ", 1)[-1] in quoted
        assert "Words that are no data" not in quoted


def test_an_item_that_refers_to_other_elements_leads_to_all_of_them() -> None:
    page = (
        "<p id=a><b itemprop=name>Ann</b></p><p>between</p>"
        "<div itemscope itemtype='https://schema.org/Person' itemref='a b'></div><p>after</p>"
        "<p id=b><i itemprop=email>ann@example.org</i></p><p>not of it</p>"
    )
    document = document_of(page)
    assert document.text == "## Person\n- name: Ann\n- email: ann@example.org\n"
    start, end = document.offsets.to_bytes(0, len(document.text))
    assert page[start:end] == page[: page.index("<p>not")]


@pytest.mark.parametrize(
    ("page", "code"),
    [
        ("<p>Nothing to be read by programs.</p>", "E_EMPTY"),
        ('<script type="application/ld+json">{"a": </script>', "E_PARSE"),
        (f'<script type="application/ld+json">{"[" * 100_000}</script>', "E_PARSE"),
        (
            f'<script type="application/ld+json">{json.dumps({"k" * 50: ["v" * 50] * 5000})}</script>',
            "E_TOO_LARGE",
        ),
        ("<i itemscope><b itemprop=a>x</b></i>" * 10_001, "E_TOO_LARGE"),
        ("<div itemscope>" * 17 + "<b itemprop=a>x</b>", "E_TOO_LARGE"),
    ],
    ids=["none", "broken", "deep", "long", "many", "nested"],
)
def test_what_cannot_be_a_document_is_refused_by_a_code(page: str, code: str) -> None:
    with pytest.raises(TabootError) as refused:
        document_of(page, max_chars=100_000)
    assert refused.value.code == code


def test_hostile_pages_end_in_time() -> None:
    deep = "<div itemscope itemtype=https://schema.org/Thing><i itemprop=name>x</i>"
    for page in (
        deep * 100 + "x" * 400_000,
        deep * 20_000,
        "<div itemscope>" + "<p itemprop=a itemscope><b itemprop=b>x</b></p>" * 9_000,
        "<p itemscope itemref='" + "a " * 400 + "'>" + "<i id=a itemprop=x itemscope itemref=a></i>" * 90,
        '<script type="application/ld+json">' + '{"a": "' * 100_000 + "</script>",
        '<script type="application/ld+json">' + "/*" * 500_000 + "</script>",
        "<meta property='og:title' content='x'>" * 9_000,
        "<p itemscope itemref='"
        + "a " * 50_000
        + "'>"
        + "<i id=a itemprop=x itemscope itemref=a></i>" * 2000,
    ):
        began = time.process_time()
        try:
            document_of(page)
        except TabootError:
            pass
        assert time.process_time() - began < 20


@given(
    st.text(alphabet=st.sampled_from('<>/="{}[]:,\\ abé&;\x00\udc80itemscope'), max_size=300),
    st.integers(0, 3),
)
@settings(max_examples=200, deadline=None)
def test_any_markup_gives_a_document_or_a_code(text: str, way: int) -> None:
    wrapped = (
        text,
        f'<script type="application/ld+json">{text}</script>',
        f"<div itemscope itemtype=x><p itemprop=a {text}>{text}</p></div>",
        f'<meta property="og:title" content="{text}">',
    )[way].encode("utf-8", "surrogateescape")
    for extraction in ("structured", "raw"):
        try:
            document = document_of(wrapped, extraction)
        except TabootError as error:
            assert error.code != "E_PARSE" or "JSON-LD" in error.message
            continue
        starts, ends = zip(
            *(document.offsets.to_bytes(i, i + 1) for i in range(len(document.text))), strict=True
        )
        assert min(starts) >= 0
        assert max(ends) <= len(wrapped)


def test_real_pages_say_every_title_that_open_graph_states() -> None:
    stated = said = 0
    pages = [
        *corpus.files("extraction-articles", "html/*.gz"),
        *corpus.archived("extraction-trafilatura", "html.tar.xz"),
    ]
    for name, data in pages:
        page = gzip.decompress(data) if name.endswith(".gz") else data
        title = re.search(rb'<meta property="og:title" content="([\w .,!?-]+)"', page)
        stated += title is not None
        try:
            text = document_of(page).text
        except TabootError as error:
            assert error.code == "E_EMPTY" and title is None
            continue
        assert text.startswith("## ")
        said += (
            title is not None
            and f"- og:title: {' '.join(title[1].decode('utf-8', 'replace').split())}\n" in text
        )
    assert stated > 10
    assert said == stated


@pytest.mark.parametrize("charset", ["utf-8", "latin-1", "utf-16"])
def test_a_raw_page_is_its_source_to_the_byte(charset: str) -> None:
    document = document_of(PAGE, "raw", charset)
    assert (document.text, document.mime) == (PAGE, "text/plain")
    data = PAGE.encode(charset)
    at = PAGE.index("Bröd")
    start, end = document.offsets.to_bytes(at, at + 4)
    assert data[start:end] == "Bröd".encode(charset)[-(end - start) :]
    assert document.offsets.exact


def test_secrets_are_masked_in_every_form_of_a_page() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    data = json.dumps({"@type": "Thing", "token": secret})
    page = f'<p>token: {secret}</p><script type="application/ld+json">{data}</script>'
    for extraction in ("markdown", "structured", "raw"):
        assert secret not in document_of(page, extraction).text
