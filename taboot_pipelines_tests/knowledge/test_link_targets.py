"""What links lead to as observed, and by what documents are led to."""

from __future__ import annotations

import pytest

from taboot_pipelines.documents.links import Hyperlink, LinkKind
from taboot_pipelines.knowledge.link_targets import Name, Origin, document_names, observed, origin_of

FILE = Origin("s", "docs/guide/a.md", None)
PAGE = Origin("s", "https://e.org/docs/a/", "https://e.org/docs/a/")


def lead(target: str, origin: Origin = FILE, kind: LinkKind = "href") -> tuple[str, ...] | None:
    found = observed(Hyperlink(kind, target, 0, 1), origin)
    return None if found is None else (found.kind, found.target, found.page, found.fragment)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("b.md", ("path", "s:docs/guide/b.md", "", "")),
        ("./b.md#part", ("path", "s:docs/guide/b.md", "", "part")),
        ("../b/", ("path", "s:docs/b", "s:docs/b", "")),
        ("/b.html", ("path", "s:b.html", "s:b", "")),
        ("b/index.html?x=1", ("path", "s:docs/guide/b/index.html", "s:docs/guide/b", "")),
        ("release-1.20", ("path", "s:docs/guide/release-1.20", "s:docs/guide/release-1.20", "")),
        ("b%20c/d%C3%A9.md", ("path", "s:docs/guide/b c/dé.md", "", "")),
        ("de\u0301.md", ("path", "s:docs/guide/dé.md", "", "")),
        ("/", ("path", "s:", "s:", "")),
        ("..", ("path", "s:docs", "s:docs", "")),
        ("../../../x.md", ("path", "s:../x.md", "", "")),
        ("HTTPS://E.org:443/x/?utm_source=a#b", ("url", "https://e.org/x/", "e.org/x", "b")),
        ("//e.org/x", ("url", "https://e.org/x", "e.org/x", "")),
        ("http://e.org/x.pdf?y=1", ("url", "http://e.org/x.pdf?y=1", "", "")),
        ("#part", None),
        ("", None),
        ("mailto:a@e.org", None),
        ("javascript:void(0)", None),
        ("{{ site.url }}/x", None),
        ("https://user:secret@e.org/", None),
        ("http://[", None),
    ],
)
def test_links_of_a_file(target: str, expected: tuple[str, ...] | None) -> None:
    assert lead(target) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("../b/", "https://e.org/docs/b/"),
        ("b", "https://e.org/docs/a/b"),
        ("/b?c=d", "https://e.org/b?c=d"),
        ("//other.org", "https://other.org/"),
        ("?c=d", "https://e.org/docs/a/?c=d"),
    ],
)
def test_links_of_a_page_are_relative_to_the_url_that_answered(target: str, expected: str) -> None:
    found = lead(target, PAGE)
    assert found is not None and found[:2] == ("url", expected)


def test_names_of_wikis_and_of_restructured_text() -> None:
    rst = Origin("s", "docs/a.rst", None)
    assert lead("Some_Page#Part", kind="wiki") == ("wiki", "s:some page", "", "Part")
    assert lead("/guide/intro", rst, "doc") == ("path", "s:guide/intro.rst", "s:guide/intro", "")
    assert lead("intro", rst, "doc") == ("path", "s:docs/intro.rst", "s:docs/intro", "")
    assert (
        lead("Some  Label", rst, "ref")
        == lead("some label", rst, "anchor")
        == ("anchor", "s:some label", "", "")
    )


def document(path: str, title: str, url: str = "", metadata: str = "{}") -> dict[str, str]:
    return {"source_id": "s", "path": path, "url": url or f"s:{path}", "title": title, "metadata": metadata}


def test_what_a_file_is_called() -> None:
    assert document_names(document("docs/My_Page.md", "The Page (old)")) == [
        Name("path", "s:docs/My_Page.md"),
        Name("page", "s:docs/My_Page"),
        Name("wiki", "s:docs/my page"),
        Name("wiki", "s:my page", 1),
        Name("wiki", "s:the page (old)", 2),
        Name("title", "the page (old)"),
        Name("title", "the page"),
    ]
    pages = [
        document_names(document(p, "x"))[1] for p in ("a/b.md", "a/b/index.md", "a/b/README.md", "index.md")
    ]
    assert pages == [
        Name("page", "s:a/b"),
        Name("page", "s:a/b", 1),
        Name("page", "s:a/b", 2),
        Name("page", "s:", 1),
    ]
    names = document_names(document("compose.yaml", "compose.yaml"))
    assert [n.kind for n in names] == ["path", "wiki", "title"]


def test_what_a_page_is_called() -> None:
    row = document(
        "https://e.org/a",
        "A page",
        "https://e.org/a",
        '{"canonical_url":"https://E.org/c/","final_url":"https://e.org/b/index.html"}',
    )
    assert [n for n in document_names(row) if n.kind in ("url", "page")] == [
        Name("url", "https://e.org/a"),
        Name("page", "e.org/a"),
        Name("url", "https://e.org/b/index.html"),
        Name("page", "e.org/b", 1),
        Name("url", "https://e.org/c/", 3),
        Name("page", "e.org/c", 3),
    ]
    assert origin_of(row).url == "https://e.org/b/index.html"
    assert origin_of(document("a.md", "A")) == Origin("s", "a.md", None)
