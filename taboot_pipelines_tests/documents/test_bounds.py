"""No text that a stranger can send takes more than time and memory in proportion to its length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.html_markdown import MAX_SEGMENTS
from taboot_pipelines.documents.html_tree import MAX_NODES
from taboot_pipelines_tests.documents.crafted import HTML, TEXT, Reader, Shape, Spent, numbered

pytestmark = pytest.mark.slow

#: Code points of a page, and of the one that must not take much more than four times as long.
SHORT, LONG = 3_750, 15_000
#: Processor seconds that say nothing: noise, first uses, what is bounded by a constant.
SLACK_SECONDS = 0.25
#: What a page may take beside its length: a kilobyte and a half a code point.
SLACK_MEGABYTES, MEGABYTES_PER_CHARACTER = 16, 1.5e-3
SITEMAPS: list[Shape] = [
    ("", "http://a.b/c\n", ""),
    ("<urlset>", "<url>", ""),
    ("<urlset>", "<a>", ""),
    ("<urlset>", "<url><loc>http://a</loc></url>", "</urlset>"),
    ("<urlset>", "<x/>", "</urlset>"),
    ("<urlset><url>", "<x/>", "<loc>http://a</loc></url></urlset>"),
    ("<rss>" + "<channel>" * 200, "<item><link>http://a</link></item>x", "</channel>" * 200 + "</rss>"),
    ("<urlset>", "<!---->", "</urlset>"),
    ("<!DOCTYPE urlset [<!ENTITY a 'xxxxxxxxxx'>", "<!ENTITY b '&a;'>", "]><urlset>&b;</urlset>"),
    ("<urlset><url><loc>", "x", "</loc></url></urlset>"),
]
BYTES: list[Shape] = [
    ("", "h\xe9llo w\xf6rld ", ""),
    ("", "\x81", ""),
    ("", "\xc3\xa9", "\xff"),
    ("", "a", "\xff"),
    ("", "".join(map(chr, range(128, 256))), ""),
    ("", "\x82\xb1\x82\xf1\x82\xc9\x82\xbf", ""),
    ("", "<meta ", "\xff"),
]


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with Reader() as reader:
        yield reader


def repeated(shape: Shape, length: int) -> str:
    before, unit, after = shape
    return before + unit * max(1, (length - len(before) - len(after)) // len(unit)) + after


def complaint(reader: Reader, parser: str, short: str, long: str) -> str:
    """What is wrong with the time and memory that the two texts take; nothing if all is well."""
    large = reader.read(parser, long)
    if " " in large.outcome:
        return large.outcome
    if large.megabytes > SLACK_MEGABYTES + len(long) * MEGABYTES_PER_CHARACTER:
        return f"took {large.megabytes:.0f} MB for {len(long)} characters"
    if large.seconds <= SLACK_SECONDS:
        return ""
    small: Spent = reader.read(parser, short)
    # Four times the length: linear is 4, quadratic 16.
    if large.seconds > 8 * small.seconds:
        return (
            f"took {small.seconds:.2f} s for {len(short)} characters, {large.seconds:.2f} s for {len(long)}"
        )
    return ""


@pytest.mark.parametrize(
    ("parser", "shapes"),
    [
        *(("html", HTML[i::3]) for i in range(3)),
        *(("text", TEXT[i::4]) for i in range(4)),
        ("html", TEXT[::3]),
        ("sitemap", SITEMAPS),
        ("bytes", BYTES),
    ],
)
def test_crafted_pages_take_time_and_memory_in_proportion(
    reader: Reader, parser: str, shapes: list[Shape]
) -> None:
    bad = {
        shape: wrong
        for shape in shapes
        if (wrong := complaint(reader, parser, repeated(shape, SHORT), repeated(shape, LONG)))
    }
    assert not bad


def test_pages_whose_parts_differ_take_time_and_memory_in_proportion(reader: Reader) -> None:
    # The processor time of many attributes in one tag grows late.
    for (parser, short), (_, long) in zip(numbered(24 * SHORT), numbered(24 * LONG), strict=True):
        assert not complaint(reader, parser, short, long), long[:100]


_MARKS = """
<p> </p> <div> </div> <b> </b> <a> </a> <a·href=http://x.y/> <span> <pre> </pre> <code> </code> <table>
</table> <tr> <td> <th> <tbody> <ul> </ul> <ol> <li> <dl> <dt> <dd> <blockquote> </blockquote> <h1>
</h1> <br> <hr> <img·alt=x> <main> <article> <button> <svg> </svg> <template> <title> <textarea> <script>
</script> <!-- --> <! <? < > " ' &amp; & &#65; &lt x words ` |
"""
_MARKUP = st.sampled_from([mark.replace("·", " ") for mark in _MARKS.split()])
_WORDS = """
` `` ``` ~~~ > - * 1. # | |- --- === [ ]( ) ![ ( < <b> <!-- --> <pre> http:// :// :80 a word a.b 10.0.0.1 /8
:: a:b . @ sha256: image: docker·run -e \\ ' " _ ** é 中 😀 version { } $ ghcr.io/ FROM = ~
"""
_TEXT = st.sampled_from(
    ["\n", "\n\n", "\t", "\r\n", "\u0301", "\u200d"] + [word.replace("·", " ") for word in _WORDS.split()]
)


def shapes_of(marks: st.SearchStrategy[str]) -> st.SearchStrategy[Shape]:
    few = st.lists(marks | st.just(" "), max_size=3).map("".join)
    unit = st.lists(marks | st.just(" "), min_size=1, max_size=5).map("".join).filter(bool)
    return st.tuples(few, unit, few)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.tuples(st.just("html"), shapes_of(_MARKUP)),
        st.tuples(st.just("text"), shapes_of(_TEXT)),
        st.tuples(st.just("html"), shapes_of(_TEXT | _MARKUP)),
    )
)
def test_any_repeated_text_takes_time_and_memory_in_proportion(
    reader: Reader, case: tuple[str, Shape]
) -> None:
    parser, shape = case
    assert not complaint(reader, parser, repeated(shape, SHORT), repeated(shape, LONG))


def test_pages_beyond_the_bounds_are_refused_and_not_cut(reader: Reader) -> None:
    at_most = "<p>x" + "<p>" * (MAX_NODES - 10)
    assert reader.read("html", at_most).outcome == "ok"
    refused = reader.read("html", at_most * 8)
    assert refused.outcome == "E_TOO_LARGE"
    # Refused when the bound is met, not after the work.
    assert refused.megabytes < 600
    lines = reader.read("html", "<pre>" + "x\n" * (MAX_SEGMENTS + 10))
    assert lines.outcome == "E_TOO_LARGE" and lines.megabytes < 300
