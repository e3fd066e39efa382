"""Tables and pictures for notebooks: well-formed, and nothing that a document says is markup."""

from __future__ import annotations

from xml.etree import ElementTree

from taboot_pipelines.retrieval.rendering import DrawnEdge, DrawnNode, picture, shorten, table

EVIL = "<script>alert('x')</script>&\""
SVG = "{http://www.w3.org/2000/svg}"


def test_a_table_shows_every_cell_as_text():
    shown = ElementTree.fromstring(table(EVIL, ("a", EVIL), [("1", EVIL), ("x\ny", "2")], preformatted=0))
    assert [c.text for c in shown.iter("td")] == ["1", EVIL, "x\ny", "2"]
    assert [c.text for c in shown.iter("th")] == ["a", EVIL] and shown.findtext("caption") == EVIL
    assert ["pre-wrap" in c.get("style", "") for c in shown.iter("td")] == [True, False, True, False]


def test_a_picture_shows_nodes_and_the_edges_between_them():
    nodes = [DrawnNode("Service", "k1", EVIL, start=True), DrawnNode("Image", "k2", "redis", start=False)]
    edges = [
        DrawnEdge("BUILDS", ("Service", "k1"), ("Image", "k2")),
        DrawnEdge("BUILDS", ("Service", "k1"), ("Image", "of no node")),
    ]
    shown = ElementTree.fromstring(picture(nodes, edges))
    assert len(shown.findall(f"{SVG}line")) == 1
    assert [t.text for t in shown.iter(f"{SVG}title")] == ["BUILDS", f"Service {EVIL}", "Image redis"]
    start, other = shown.iter(f"{SVG}circle")
    assert int(start.get("r")) > int(other.get("r")) and start.get("cx") == start.get("cy")


def test_a_crowd_is_cut_and_its_start_stays():
    crowd = [DrawnNode("Host", f"{i:03}", f"h{i:03}", start=i == 99) for i in range(100)]
    titles = [t.text for t in ElementTree.fromstring(picture(crowd, [])).iter(f"{SVG}title")]
    assert len(titles) == 60 and titles[0] == "Host h099"
    assert ElementTree.fromstring(picture([], [])).tag == f"{SVG}svg"


def test_a_text_is_shortened_on_one_line():
    assert shorten("a\n b\t c") == "a b c"
    assert shorten("x" * 300) == "x" * 239 + "…" and shorten("abcdef", 4) == "abc…"
