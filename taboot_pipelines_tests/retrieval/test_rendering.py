"""Tables for notebooks: well-formed, nothing that a document says is markup, and nothing floods the page."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import example, given
from hypothesis import strategies as st

from taboot_pipelines.retrieval.rendering import (
    Marked,
    SourceLocation,
    SourceLocations,
    Stack,
    folded,
    shorten,
    table,
)

EVIL = "<script>alert('x')</script>&\""


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html)


def words(cell: ElementTree.Element) -> str:
    return "".join(cell.itertext())


def test_a_table_shows_every_cell_as_text():
    shown = parsed(table(EVIL, ("a", EVIL), [("1", EVIL), ("x\ny", "2")], preformatted=0))
    assert [words(c) for c in shown.iter("td")] == ["1", EVIL, "x\ny", "2"]
    assert [c.text for c in shown.iter("th")] == ["a", EVIL]
    assert shown.findtext("p") == EVIL
    assert [c.find("pre") is not None for c in shown.iter("td")] == [True, False, True, False]


@given(st.text(), st.text(), st.booleans())
@example("\n" * 9 + "0", "", True)
@example("long " * 60, "", False)
def test_any_text_makes_a_table_that_can_be_read(text: str, other: str, preformatted: bool):
    cells = [
        text,
        SourceLocation(text, 3, other),
        Stack((text, SourceLocation(other))),
        folded(text),
        SourceLocations((SourceLocation(text),)),
    ]
    shown = parsed(table(other, (text,), [cells], 0 if preformatted else None))
    assert len(list(shown.iter("td"))) == len(cells)
    cell = next(shown.iter("td"))
    summary = cell.find("details/summary")
    # A long text stands whole behind its summary.
    said = words(cell)[len(words(summary)) if summary is not None else 0 :]
    assert [c for c in said if c.isalnum()] == [c for c in text if c.isalnum()]


def test_a_long_text_is_folded_whole():
    long = "word " * 200 + "end"
    (cell,) = parsed(table("", ("a",), [(long,)])).iter("td")
    summary = cell.find("details/summary")
    assert summary is not None and len(words(summary)) < 300 and words(summary).endswith("…")
    assert words(cell).endswith(long)
    code = "\n".join(f"line {n}" for n in range(30))
    (cell,) = parsed(table("", ("a",), [(code,)], preformatted=0)).iter("td")
    assert "30 lines" in words(cell.find("details/summary")) and cell.findtext("details/pre") == code
    short = parsed(table("", ("a",), [("short",)]))
    assert not list(short.iter("details"))


def test_what_was_looked_for_is_marked():
    pieces = (("restore the ", False), ("<b>data</b>", True), ("…", False))
    (cell,) = parsed(table("", ("a",), [(Marked(pieces, "restore the <b>data</b> base"),)])).iter("td")
    assert [m.text for m in cell.iter("mark")] == ["<b>data</b>"]
    assert cell.findtext("details/pre") == "restore the <b>data</b> base"
    (whole,) = parsed(table("", ("a",), [(Marked(pieces),)])).iter("td")
    assert whole.find("details") is None and words(whole) == "restore the <b>data</b>…"


def test_only_web_addresses_are_links():
    rows = [
        (SourceLocation(url, 7),)
        for url in ("https://example.org/a?b='1'", "javascript:alert(1)", "/srv/x.md", "data:text/html,x")
    ]
    shown = parsed(table("", ("where",), rows))
    links = list(shown.iter("a"))
    assert [a.get("href") for a in links] == ["https://example.org/a?b='1'"]
    assert links[0].get("rel") == "noopener noreferrer" and links[0].text == "https://example.org/a?b='1':7"
    texts = [words(c) for c in shown.iter("td")]
    assert texts[1:] == ["javascript:alert(1):7", "/srv/x.md:7", "data:text/html,x:7"]


def test_the_folder_of_all_files_is_said_once():
    rows = [
        (SourceLocation("/srv/house/a/x.md", 1),),
        (Stack(("x", SourceLocation("/srv/house/b.md", section="Intro"))),),
    ]
    shown = parsed(table("", ("where",), rows))
    assert [words(c) for c in shown.iter("td")] == ["a/x.md:1", "xb.md (Intro)"]
    assert "/srv/house/" in words(shown.find("p"))
    one = parsed(table("", ("where",), [(SourceLocation("/srv/house/a/x.md"),)] * 2))
    assert one.find("p") is None and "/srv/house/a/x.md" in words(one)
    apart = parsed(table("", ("where",), [(SourceLocation("/a/x.md"),), (SourceLocation("/b/x.md"),)]))
    assert apart.find("p") is None and "/a/x.md" in words(apart)


def test_a_crowd_of_rows_is_folded_and_counted():
    shown = parsed(table("many", ("n",), [(str(n),) for n in range(2500)]))
    assert len(list(shown.find("table").iter("td"))) == 40
    assert shown.findtext("details/summary") == "960 more rows"
    assert len(list(shown.iter("td"))) == 1000 and "1,500 more" in words(shown.findall("p")[-1])


def test_places_beyond_the_first_are_folded():
    places = SourceLocations(tuple(SourceLocation("/srv/a.md", n) for n in range(1, 6)))
    (cell,) = parsed(table("", ("where",), [(places,)])).iter("td")
    assert cell.findtext("details/summary") == "3 more" and words(cell).count("/srv/a.md:") == 5


def test_a_text_is_shortened_on_one_line():
    assert shorten("a\n b\t c") == "a b c"
    assert shorten("x" * 300) == "x" * 239 + "…" and shorten("abcdef", 4) == "abc…"
