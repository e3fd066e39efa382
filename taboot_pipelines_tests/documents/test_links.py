"""The hyperlinks of a document are those that its format's own parsers find, each where it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import lxml.html
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from taboot_pipelines.documents.links import page_links, text_links
from taboot_pipelines.documents.mime import HTML, MARKDOWN, PLAIN
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines_tests.world import DATA

RST = "text/x-rst"


def links(text: str, mime: str = MARKDOWN) -> list[tuple[str, str, str]]:
    """Return (kind, target, the text where it stands) of each link."""
    return [(x.kind, x.target, text[x.start : x.end]) for x in text_links(text, mime)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a [b](c.md#d 'e') f", [("href", "c.md#d", "[b](c.md#d 'e')")]),
        ("Ünï [b][r]\n\n[r]: c.md\n[s]: unused.md\n", [("href", "c.md", "[b][r]")]),
        ("[b] and [b][]\n\n[B]: <c d.md>\n", [("href", "c d.md", "[b]"), ("href", "c d.md", "[b]")]),
        ("see <https://e.org/a>.", [("href", "https://e.org/a", "<https://e.org/a>")]),
        ("see https://e.org/a_(b)_c. And", [("href", "https://e.org/a_(b)_c", "https://e.org/a_(b)_c")]),
        ("(http://e.org/x?a=1&amp;b=2)", [("href", "http://e.org/x?a=1&b=2", "http://e.org/x?a=1&amp;b=2")]),
        ("[[Page#Part|shown]] [[Other page]]", [
            ("wiki", "Page#Part", "[[Page#Part|shown]]"),
            ("wiki", "Other page", "[[Other page]]"),
        ]),
        ("![i](i.png) [![i](i.png)](t.md)", [("href", "t.md", "[![i](i.png)](t.md)")]),
        ("`[a](b)` <!-- [a](b) <a href='c'> -->\n\n```\n[a](b) http://e.org\n```\n\n    [a](b)\n", []),
        ("---\nurl: http://e.org\n---\n\n[a](b)\n", [("href", "b", "[a](b)")]),
        ("> - x [a](b)\n>   | c |", [("href", "b", "[a](b)")]),
        ("<p><a id='x' href='q&amp;r.md'>t</a></p>\n", [("href", "q&r.md", "<a id='x' href='q&amp;r.md'")]),
        ("!!! note\n    See [a](b).\n\n    === \"T\"\n        [c](d).\n\n    [e](f)\n\n        [no](no)\n", [
            ("href", "b", "[a](b)"), ("href", "d", "[c](d)"), ("href", "f", "[e](f)"),
        ]),
        ("<mailto:a@e.org> <a@e.org> [x]() [^1]\n\n[^1]: [n](o)\n", [
            ("href", "mailto:a@e.org", "<mailto:a@e.org>"), ("href", "o", "[n](o)"),
        ]),
    ],
)  # fmt: skip
def test_markdown(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert links(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See `the text <a.rst>`_ and `x <http://e.org>`__.", [
            ("href", "a.rst", "`the text <a.rst>`_"), ("href", "http://e.org", "`x <http://e.org>`__"),
        ]),
        ("See `The Page`_ and name_ and name_.\n\n.. _the page: p.html\n.. _name: http://e.org/n\n", [
            ("href", "p.html", "`The Page`_"),
            ("href", "http://e.org/n", "name_"),
            ("href", "http://e.org/n", "name_"),
        ]),
        (":doc:`/guide/intro` :doc:`shown <other>` :ref:`label` :ref:`t <some-label>`", [
            ("doc", "/guide/intro", ":doc:`/guide/intro`"),
            ("doc", "other", ":doc:`shown <other>`"),
            ("ref", "label", ":ref:`label`"),
            ("ref", "some-label", ":ref:`t <some-label>`"),
        ]),
        (".. _some-label:\n\nTitle\n=====\n", [("anchor", "some-label", ".. _some-label:")]),
        (".. toctree::\n   :maxdepth: 2\n\n   intro\n   Shown <deep/page>\n\nafter\n", [
            ("doc", "intro", "intro"),
            ("doc", "deep/page", "Shown <deep/page>"),
        ]),
        ("``a_ `b <c>`_`` ::\n\n   `x <y>`_ http://e.org\n\n.. code:: sh\n\n   curl http://e.org/ d_\n\n"
         ".. a comment `x <y>`_\n   http://e.org\n\nhttp://e.org/z\n", [
            ("href", "http://e.org/z", "http://e.org/z"),
        ]),
        ("One__ and `two`__.\n\n__ first.html\n.. __: second.html\n", [
            ("href", "first.html", "One__"), ("href", "second.html", "`two`__"),
        ]),
    ],
)  # fmt: skip
def test_restructured_text(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert links(text, RST) == expected


def test_plain_text_has_urls_and_configuration_has_nothing() -> None:
    text = 'see http://e.org/a, [b](c) "https://e.org/d"'
    assert [t for _, t, _ in links(text, PLAIN)] == ["http://e.org/a", "https://e.org/d"]
    assert links("url: http://e.org/a", "application/yaml") == []


def test_asciidoc() -> None:
    text = "link:a.html[A] xref:b.adoc#c[B] <<d.adoc#e,E>> https://e.org[x]\n\n----\nlink:no[x]\n----\n"
    assert sorted(t for _, t, _ in links(text, "text/asciidoc")) == [
        "a.html",
        "b.adoc#c",
        "d.adoc#e",
        "https://e.org",
    ]


def hrefs(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "link_open":
            yield str(token.attrs["href"])
        yield from hrefs(token.children or [])


def test_markdown_as_another_parser_reads_it() -> None:
    """markdown-it knows neither bare URLs nor raw HTML nor wiki links here, so only what it knows counts."""
    reader = MarkdownIt("commonmark").enable("table")
    compared = 0
    for path in sorted((DATA / "linuxserver-docs-md").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        theirs = Counter(hrefs(reader.parse(text)))
        ours = Counter(
            x.target
            for x in text_links(text, MARKDOWN)
            if x.kind == "href" and text[x.start] in "[<" and text[x.start : x.start + 2].lower() != "<a"
        )
        assert {t.lower().replace("%20", " ") for t in theirs} - {""} <= {t.lower() for t in ours}, path
        compared += sum(theirs.values())
    assert compared > 3000


def test_pages_as_lxml_reads_them() -> None:
    compared = 0
    for path in sorted((DATA / "site-ingress-nginx" / "site").rglob("*.html")):
        data = path.read_bytes()
        root = lxml.html.document_fromstring(data)
        main = root.xpath("//*[contains(concat(' ', @class, ' '), ' md-content__inner ')]")
        if not main:
            continue
        theirs = Counter(
            a.get("href")
            for a in main[0].xpath(".//a[@href]")
            if not a.get("href").startswith("#")
            and "md-content__button" not in a.get("class", "")
            and a.text_content().strip()
        )
        parsed = parse_document(
            data, path=path.name, mime=HTML, charset=None, languages=[], max_chars=10_000_000
        )
        found = page_links(data, parsed.charset, parsed.offsets)
        assert {x.target for x in found} == set(theirs), path
        assert all(x.text.split()[0] in parsed.text[x.start : x.end] for x in found if x.text.isalpha()), path
        compared += len(found)
    assert compared > 900


def test_a_page_has_no_links_of_its_navigation_and_hidden_parts() -> None:
    data = (
        b"<html><head><base href='/docs/'><title>T</title></head><body><nav><a href='n.html'>n</a></nav>"
        b"<main>"
        b"<h1>T<a class='headerlink' href='x.html'>#</a></h1><p>Some words about <a href='a.html'>A</a> and"
        b" <a href='#b'>B</a> and <a hidden href='c.html'>C</a>; more words so that this is a page.</p>"
        b"<a href='http://e.org/?password=swordfish99'>D with words</a></main></body></html>"
    )
    parsed = parse_document(data, path="t.html", mime=HTML, charset=None, languages=[], max_chars=10_000)
    found = page_links(data, parsed.charset, parsed.offsets)
    assert [x.target for x in found][:1] == ["/docs/a.html"] and len(found) == 2
    assert "swordfish99" not in found[1].target
    assert "Some words about A" in parsed.text[found[0].start : found[0].end]


PIECES = [
    *("[a](b)", "`", "```\n", "<a href=x>", "> ", "é", "\n", "    ", "[", "](", "!!! x\n", "<!--", "|"),
    *(".. _a: b\n", "`c <d>`_", "::\n", "[[e]]", "http://f.g/", "&amp;"),
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=40),
    st.sampled_from([MARKDOWN, RST, PLAIN, "text/asciidoc"]),
)  # fmt: skip
def test_links_stand_within_the_text(parts: list[str], mime: str) -> None:
    text = "".join(parts)
    for link in text_links(text, mime):
        assert 0 <= link.start < link.end <= len(text) and link.target.strip()


def test_time_is_linear_in_hostile_texts() -> None:
    for part in ("[", "[a](", "<a href='", "`x <y", "![", "[[", "http://", "!!! x\n", ".. _a", "<!--", "`_ "):
        for mime in (MARKDOWN, RST, PLAIN, "text/asciidoc"):
            assert len(text_links(part * 20_000, mime)) <= 20_000
