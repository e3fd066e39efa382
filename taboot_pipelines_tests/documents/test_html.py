"""HTML to Markdown: what stays, what goes, and that every block leads to the source that holds it."""

from __future__ import annotations

import html
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.documents.html_content import page_content
from taboot_pipelines.documents.html_markdown import join, render
from taboot_pipelines.documents.html_tree import MAX_DEPTH, parse
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines_tests.documents import corpus


def document_of(
    page: bytes | str, path: str = "page.html", languages: tuple[str, ...] = ()
) -> ParsedDocument:
    data = page if isinstance(page, bytes) else page.encode()
    return parse_document(
        data, path=path, mime="text/html", charset=None, languages=languages, max_chars=20_000_000
    )


def markdown(body: str) -> str:
    return join(render(body, parse(body)))[0]


_WORDS = re.compile(r"[^\W_]+")


def shown(source: str) -> list[str]:
    """The words of an HTML range, by a reading of its own: tags cut out, entities decoded. Not our parser."""
    source = re.sub(r"(?is)<(script|style|svg|template)\b.*?</\1\s*>", "", source)
    source = re.sub(r"(?s)<!--.*?-->", "", source)
    alts = " ".join(
        m[1] or m[2] or m[3]
        for m in re.finditer(r"""(?is)\salt=(?:"([^"]+)"|'([^']+)'|([^\s"'>]+))""", source)
    )
    text = re.sub(r"""<[/!?a-zA-Z](?:[^>"']|"[^"]*"|'[^']*')*>""", "", source)
    return _WORDS.findall(html.unescape(text + " " + alts).replace("\u00ad", "").replace("\u200b", ""))


def said(text: str) -> list[str]:
    """The words of a piece of our Markdown, without link targets, fence languages and list numbers."""
    text = re.sub(r"\]\(https?://[^\s()]+\)", "", text)
    text = re.sub(r"(?m)^[ >-]*(?:[0-9]+\. )*(?:`{3,}|~{3,})[\w+#.-]*$", "", text)
    return _WORDS.findall(re.sub(r"(?m)^[ >:-]*(?:[0-9]+\. [ -]*)+", "", text))


def unsupported(data: bytes, document: ParsedDocument) -> tuple[int, int]:
    """(segments, those whose bytes do not hold their text)."""
    offsets = document.offsets
    missing = 0
    for start, end, a, b in zip(
        offsets.doc_start, offsets.doc_end, offsets.byte_start, offsets.byte_end, strict=True
    ):
        words = "".join(said(document.text[start:end].replace("*", "")))
        source = data[a:b].decode(document.charset, "replace")
        if words and words not in "".join(shown(source)):
            missing += 1
    return len(offsets), missing


def test_every_block_of_real_pages_stands_in_its_bytes() -> None:
    segments = missing = pages = 0
    for name, data in corpus.pages():
        try:
            document = document_of(data, name)
        except TabootError as error:
            assert error.code == "E_EMPTY", (name, str(error))
            continue
        offsets = document.offsets
        # Every code point lies in exactly one segment.
        assert offsets.doc_start[0] == 0 and offsets.doc_end[-1] == len(document.text)
        assert (offsets.doc_start[1:] == offsets.doc_end[:-1]).all()
        assert (offsets.byte_start < offsets.byte_end).all() and (offsets.byte_end <= len(data)).all()
        n, lost = unsupported(data, document)
        pages, segments, missing = pages + 1, segments + n, missing + lost
    assert pages > 50
    assert missing <= 0.005 * segments, (missing, segments)


def test_lines_of_code_lead_to_their_own_bytes() -> None:
    page = (
        '<html><body><div class="highlight"><pre><code class="language-yaml"><span>image</span>:'
        " a&amp;b\nport: 80\n</code></pre></div><p>x</p></body></html>"
    )
    data = page.encode()
    document = document_of(page)
    assert document.text.startswith("```yaml\nimage: a&b\nport: 80\n```")
    at = document.text.index("port: 80")
    lo, hi = document.offsets.to_bytes(at, at + 8)
    assert data[lo:hi] == b"port: 80"
    at = document.text.index("image")
    lo, hi = document.offsets.to_bytes(at, at + 3)
    assert data[lo:hi] == b"image</span>: a&amp;b"


def test_documentation_pages_keep_their_markdown() -> None:
    """The words of the Markdown source, badges and the diagrams left out, are nearly all there, and little
    else.
    """
    checked = 0
    for path, data in corpus.files("linuxserver-docs-html-sample", "**/*.html"):
        gold_path = corpus.DATA / "linuxserver-docs-md" / "docs" / (path.removesuffix("/index.html") + ".md")
        if not gold_path.is_file():
            continue
        gold = re.sub(r"(?s)\A---.*?\n---\n|<!--.*?-->|```(?:mermaid|d2).*?```", "", gold_path.read_text())
        gold = re.sub(r"\[?!\[[^\]]*\]\([^)]*\)(?:\]\([^)]*\))?", "", gold)
        a, b = (
            Counter(_WORDS.findall(gold.lower())),
            Counter(_WORDS.findall(document_of(data, path).text.lower())),
        )
        common = sum((a & b).values())
        if "doublecommander" in path or "snapdrop" in path:
            continue  # the built page is of another version than its source
        checked += 1
        assert common >= 0.9 * sum(a.values()), (path, common / sum(a.values()))
        assert common >= 0.9 * sum(b.values()), (path, common / sum(b.values()))
    assert checked == 5


def test_documentation_furniture_goes() -> None:
    for path, data in corpus.files("site-ingress-nginx", "site/user-guide/*/index.html"):
        text = document_of(data, path).text
        assert "¶" not in text and "Skip to content" not in text and "Table of contents" not in text, path
        assert "Back to top" not in text and "Edit this page" not in text, path


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<h2>A <em>b</em></h2><p>c&nbsp;d<br>e</p>", "## A b\n\nc d\ne\n"),
        ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul><p>d</p>", "- a\n  - b\n- c\n\nd\n"),
        ("<ol start=3><li>a<li>b</ol>", "3. a\n4. b\n"),
        ("<table><tr><td>a</td></tr><center><tr><td>b</td></tr></table></center>", "a\n\nb\n"),
        ("<table><form><tr><td>a<td>b</form></table>", "a\n\nb\n"),
        ("<table>a<tr><form><td>b</form></table>", "a\n\nb\n"),
        ("<table><script>x</script><tr><th>a<tr><td>1</table>", "| a |\n| --- |\n| 1 |\n"),
        ("<table><tr><th>a<th>b<tr><td>1<td>x|y</table>", "| a | b |\n| --- | --- |\n| 1 | x\\|y |\n"),
        (
            '<p><a href="https://x.example/a">t</a> <a href="#f">u</a> <code>a`b</code></p>',
            "[t](https://x.example/a) u ``a`b``\n",
        ),
        ("<pre>a\n  b\n</pre>", "```\na\n  b\n```\n"),
        ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````\n"),
        ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n\n> b\n"),
        ("<p>a<p>b<div>c</div>d", "a\n\nb\n\nc\n\nd\n"),
        (
            (
                "<h1>T<a class=headerlink href=#t>¶</a></h1><p"
                " hidden>x</p><script>y</script><style>z</style><noscript>n</noscript>q"
            ),
            "# T\n\nq\n",
        ),
        ("<p># not a heading</p>", "\\# not a heading\n"),
        ("text only &lt;tag&gt; &unknown; &#0; &amp", "text only <tag> &unknown; \ufffd &\n"),
        ("<p>a<!-- b --> c<!-- never closed", "a c\n"),
        ("<p title='>'>a</p><p title=\"x>b</p>c", "a\n\nb\n\nc\n"),
        ("<dl><dt>k<dd>v</dl>", "k\n\n: v\n"),
    ],
)
def test_markdown(body: str, expected: str) -> None:
    assert markdown(body) == expected


HOSTILE = {
    "deep": "<div>" * 10_000 + "text of the page" + "</div>" * 10_000,
    "deep lists": "<ul><li>" * 5_000 + "text of the page",
    "deep tables": "<table><tr><td>" * 3_000 + "text of the page",
    "deep inline": "<b><i>" * 5_000 + "text of the page",
    "deep quotes": "<blockquote>" * 5_000 + "text of the page",
    "open tags": "text of the page" + "<a " * 20_000,
    "open quotes": "text of the page" + '<a b="' * 20_000,
    "open comments": "text of the page" + "<!--" * 20_000,
    "open scripts": "text of the page" + "</script " * 20_000 + "<script>" * 5_000,
    "open titles": "text of the page<title>" * 3_000,
    "stray ends": "text of the page" + "</p></div></li>" * 10_000,
    "entities": "text of the page" + "&amp" * 30_000 + "&" * 30_000,
    "nul": "text\x00of the\x00page" + "\x00" * 100,
    "no body": "text of the page",
    "wide table": "<table>" + "<tr>" + "<td>x" * 3_000 + "<tr><td>text of the page</table>",
    "attributes": "<p " + "a=b " * 20_000 + ">text of the page</p>",
    "links": "<a href=http://x.example/>text of the page</a>" * 5_000,
    "paragraphs": "<p>text of the page" * 20_000,
    "json": '<script type="application/ld+json">' + "[" * 50_000 + "</script>text of the page",
    "raw": "text of the page<textarea><p>",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_read(name: str) -> None:
    text = document_of("<html>" + HOSTILE[name]).text
    assert "of the" in text and "page" in text


def test_hidden_and_empty_pages_are_typed() -> None:
    for body in (
        "",
        "<p hidden>x</p>",
        "<script>x",
        "<!-- x",
        "<template><p>x</p></template>",
        "<p>&#8203;</p>",
    ):
        with pytest.raises(TabootError) as caught:
            document_of(f"<html><body>{body}")
        assert caught.value.code == "E_EMPTY"


_piece = st.sampled_from(
    [
        "<p>",
        "</p>",
        "<div>",
        "</div>",
        "<ul>",
        "<li>",
        "</ul>",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<pre>",
        "</pre>",
        "<code>",
        "</code>",
        "<h2>",
        "</h2>",
        "<a href='http://x.y/'>",
        "</a>",
        "<br>",
        "\n",
        " ",
        "&lt;",
        "&amp",
        "&#x1F600;",
        "<!-- c -->",
        "<blockquote>",
        "</blockquote>",
        "<b",
        '"',
        "'",
        "<script>",
        "</script>",
        "|",
        "`",
        "<dd>",
        "ß",
        "𝄞x",
        "<img alt=pic>",
        "<ol>",
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(_piece, st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)),
        max_size=40,
    ).map("".join)
)
def test_map_and_tree_hold_for_any_markup(body: str) -> None:
    root = parse(body)
    for element in root.walk():
        assert 0 <= element.start <= element.content_start <= element.content_end <= element.end <= len(body)
    text, segments = join(render(body, root))
    at = 0
    for start, end, a, b in segments:
        assert start == at and end > start and 0 <= a <= b <= len(body)
        at = end
    assert at == len(text)
    # Of the words that are shown, none is lost and none is made up.
    words = Counter(
        "".join(_WORDS.findall("".join(html.unescape(body[t.start : t.end]) for t in root.texts())))
    )
    kept = Counter("".join(_WORDS.findall(re.sub(r"\]\(http://x\.y/\)", "", text))))
    assert not kept - words - Counter("pic0123456789")


def test_depth_is_bounded() -> None:
    def depth(element: object, level: int = 0) -> int:
        return max([level, *(depth(c, level + 1) for c in getattr(element, "children", []))])

    assert depth(parse("<div>" * 1000 + "x")) <= MAX_DEPTH + 2


def test_articles_are_cut_as_measured() -> None:
    """Segments that must survive, and those that must go, on real pages with a reading by hand."""
    import json

    gold = json.loads((corpus.folder("extraction-trafilatura") / "evaldata.json").read_text())
    pages = {
        name.rsplit("/", 1)[-1]: data
        for name, data in corpus.archived("extraction-trafilatura", "html.tar.xz")
    }
    kept = wanted = gone = unwanted = 0
    for entry in gold.values():
        source = decode(pages[entry["file"]], None, html=True)[0]
        text = "\n".join(b.plain for b in page_content(source, parse(source)).blocks)
        kept, wanted = kept + sum(s in text for s in entry["with"]), wanted + len(entry["with"])
        gone, unwanted = gone + sum(s not in text for s in entry["without"]), unwanted + len(entry["without"])
    assert kept >= 0.95 * wanted and kept + gone >= 0.88 * (wanted + unwanted)


def test_terms_and_their_definitions_are_text_of_the_page_and_so_are_the_headings_above_them() -> None:
    """A page without any markup of a generator."""
    page = """<!doctype html><html><head><title>Guide</title></head><body><h1>Guide</h1><h2>Sizing</h2>
    <p>Give the shared buffers a quarter of the memory. More than 40 % rarely helps anybody here.</p>
    <dl><dt>max_connections</dt><dd>Leave it at 100.</dd><dt>work_mem</dt><dd>16 MB is what we take.</dd></dl>
    <h2>Vacuum</h2><p>Autovacuum runs once a fifth of a table has changed, and of some tables sooner.</p>
    </body></html>"""
    shown = "\n".join(block.text for block in page_content(page, parse(page)).blocks)
    assert shown.startswith("# Guide\n## Sizing\nGive")
    assert "work_mem\n: 16 MB is what we take." in shown
