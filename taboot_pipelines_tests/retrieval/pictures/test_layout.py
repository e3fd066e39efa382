"""Where everything of a picture stands: no rectangle lies over another, and everything that was chosen is
there."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import NODES
from taboot_pipelines.retrieval.pictures.drawn import DrawnEdge, DrawnNode, choose
from taboot_pipelines.retrieval.pictures.layout import (
    BOX_HEIGHT,
    CHIP_HEIGHT,
    KIND_SIZE,
    NAME_SIZE,
    TAG_HEIGHT,
    TAG_SIZE,
    Layout,
    colour,
    lay_out,
    spread,
    width_of,
)
from taboot_pipelines.retrieval.pictures.picture import Picture
from taboot_pipelines.retrieval.pictures.svg import INK, LINE, PAPER

LABELS = ["Service", "Host", "Image", "Odd one"]
TYPES = ["BINDS", "DEPENDS_ON", "MENTIONS", "A_RELATION_WITH_A_LONG_NAME_THAT_FITS_NOWHERE"]


class Rectangle(NamedTuple):
    what: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Rectangle) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def rectangles(layout: Layout) -> list[Rectangle]:
    """Of every text of a picture."""
    sized = [
        *((b.name, b.x, b.y, b.width, BOX_HEIGHT) for b in layout.boxes),
        *((t.text, t.x, t.y, t.width, TAG_HEIGHT) for t in layout.tags),
        *((c.text, c.x, c.y, c.width, CHIP_HEIGHT) for c in layout.legend),
    ]
    if layout.note:
        wide = width_of(layout.note, TAG_SIZE)
        sized.append((layout.note, 12 + wide / 2, layout.height - 12 - TAG_HEIGHT / 2, wide, TAG_HEIGHT))
    return [Rectangle(n, x - w / 2, y - h / 2, x + w / 2, y + h / 2) for n, x, y, w, h in sized]


def lies_apart(layout: Layout) -> None:
    found = rectangles(layout)
    for a, b in combinations(found, 2):
        assert not a.meets(b), (a, b)
    for r in found:
        assert r.left >= 0 and r.top >= 0 and r.bottom <= layout.height, r
        assert r.right <= layout.width, r
    for box in layout.boxes:
        assert (
            width_of(box.name, NAME_SIZE * 1.06) <= box.width and width_of(box.kind, KIND_SIZE) <= box.width
        )
    for tag in layout.tags:
        assert width_of(tag.text, TAG_SIZE) <= tag.width


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[DrawnNode], list[DrawnEdge]]:
    """Any graph: with loops, several relations between two nodes, parts that nothing joins."""
    count = draw(st.integers(0, 25))
    nodes = [
        DrawnNode(
            draw(st.sampled_from(LABELS)),
            str(n),
            draw(st.text(max_size=60)),
            draw(st.integers(0, 5)) == 0,
            draw(st.none() | st.text(max_size=30)),
        )
        for n in range(count)
    ]
    ends = st.integers(0, max(count - 1, 0)).map(lambda n: (nodes[n].label, nodes[n].key))
    edge = st.builds(DrawnEdge, type=st.sampled_from(TYPES), start=ends, end=ends, says=st.text(max_size=60))
    return nodes, draw(st.lists(edge, max_size=60)) if nodes else []


@given(graphs(), st.integers(1, 40), st.text(max_size=80))
def test_no_words_lie_over_others(
    graph: tuple[list[DrawnNode], list[DrawnEdge]], limit: int, note: str
) -> None:
    nodes, edges = graph
    chosen = choose(nodes, edges, limit)
    layout = lay_out(chosen, note=note)
    lies_apart(layout)
    assert {b.at for b in layout.boxes} == {(n.label, n.key) for n in chosen.nodes}
    assert [(w.start, w.end) for w in layout.wires] == [(e.start, e.end) for e in chosen.edges]
    assert len(chosen.edges) <= limit
    relations = {(e.type, e.start, e.end) for e in edges}
    assert len(chosen.edges) + chosen.left_out == len(relations)
    assert {n for n in nodes if n.start} <= set(chosen.nodes)


@given(st.lists(st.text(max_size=60), max_size=10), st.text(max_size=60))
def test_nor_in_a_way(names: list[str], says: str) -> None:
    nodes = [DrawnNode("Service", str(n), name, start=n == 0) for n, name in enumerate(names)]
    edges = [
        DrawnEdge("LEADS", ("Service", str(n)), ("Service", str(n + 1)), says) for n in range(len(nodes) - 1)
    ]
    layout = Picture.way("a way", nodes, edges).layout
    lies_apart(layout)
    heights = [b.y for b in layout.boxes]
    assert heights == sorted(heights) and len(layout.wires) == max(0, len(names) - 1)


@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(1, 100)), max_size=30))
def test_what_is_spread_stays_in_order_and_near(wanted: list[tuple[float, float]]) -> None:
    targets = sorted(t for t, _ in wanted)
    sizes = [s for _, s in wanted]
    found = spread(targets, sizes)
    for (a, size_a), (b, size_b) in pairwise(zip(found, sizes, strict=True)):
        assert b - a >= (size_a + size_b) / 2 - 1e-6
    # What is far enough apart is not moved.
    if all(b - a > 100 for a, b in pairwise(targets)):
        assert found == pytest.approx(targets)


def star(arms: int, edges: int) -> tuple[list[DrawnNode], list[DrawnEdge]]:
    """A node with ``arms`` neighbours and ``edges`` relations of several types with them."""
    nodes = [DrawnNode("Host", "hub", "hub.example", start=True)]
    nodes += [DrawnNode("Service", str(n), f"service-number-{n:03}", start=False) for n in range(arms)]
    made = []
    for n in range(edges):
        ends = (("Service", str(n % arms)), ("Host", "hub"))
        start, end = ends if n % 3 else ends[::-1]
        made.append(DrawnEdge(f"TYPE_{n // arms}", start, end, f"{8000 + n}/tcp"))
    return nodes, made


@pytest.mark.parametrize("limit", [30, 60, 200])
def test_a_crowd_is_bounded_and_said(limit: int) -> None:
    picture = Picture.around("crowd", *star(60, 300), limit=limit)
    lies_apart(picture.layout)
    assert len(picture.layout.wires) == limit
    said = f"{limit} of 300 relations are drawn"
    assert said in picture.layout.note and said in picture.svg and said in repr(picture)
    types = {wire.tag.text.split()[0] for wire in picture.layout.wires if wire.tag}
    assert types == {f"TYPE_{n}" for n in range(5)}, "each type has some"


def test_all_is_drawn_where_there_is_room() -> None:
    picture = Picture.around("small", *star(5, 20))
    assert len(picture.layout.wires) == 20 and picture.layout.note == ""


@pytest.mark.parametrize("limit", [0, -1, 201, 2.0, True, "9", None])
def test_a_limit_that_is_none_is_refused(limit: object) -> None:
    with pytest.raises(TabootError, match="1 to 200") as caught:
        Picture.around("x", *star(2, 2), limit=limit)
    assert caught.value.code == "E_QUERY"


def test_the_nearest_come_first_and_mentions_last() -> None:
    nodes = [DrawnNode("Service", k, k, start=k == "a") for k in "abcd"]
    at = {k: ("Service", k) for k in "abcd"}
    mention = DrawnEdge("MENTIONS", at["d"], at["a"])
    near, far = DrawnEdge("BINDS", at["a"], at["b"]), DrawnEdge("BINDS", at["b"], at["c"])
    assert choose(nodes, [mention, far, near], 1).edges == (near,)
    assert set(choose(nodes, [mention, far, near], 2).edges) == {near, far}
    chosen = choose(nodes, [mention, far, near], 1)
    assert [n.key for n in chosen.nodes] == ["a", "b"] and chosen.left_out == 2


def test_statements_of_one_relation_are_one_arrow() -> None:
    nodes = [DrawnNode("Service", k, k, start=k == "a") for k in "ab"]
    ends = (("Service", "a"), ("Service", "b"))
    edges = [DrawnEdge("BINDS", *ends, says, (("port", says),)) for says in ("80", "443", "80", "")]
    (only,) = choose(nodes, edges, 9).edges
    assert only.says == "80 +1" and only.told == (("port", "80"), ("port", "443"), ("port", ""))
    many = [DrawnEdge("BINDS", *ends, "", (("n", str(n)),)) for n in range(20)]
    assert choose(nodes, many, 9).edges[0].told[-1] == ("and", "14 more statements")


def test_words_can_be_read_on_any_page() -> None:
    """By WCAG: 4.5:1 between words and their ground, 3:1 between a line and a page, light or dark."""
    for label in [*NODES, "ROOT", "URL", "another"]:
        assert contrast("#ffffff", colour(label)) >= 4.5, label
    assert contrast(INK, PAPER) >= 7
    assert all(contrast(LINE, page) >= 3 for page in ("#ffffff", "#111111"))


def contrast(one: str, other: str) -> float:
    def luminance(hexadecimal: str) -> float:
        parts = [int(hexadecimal[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_what_points_at_it_stands_to_the_left() -> None:
    nodes = [DrawnNode("Service", k, k, start=k == "b") for k in "abc"]
    edges = [DrawnEdge("LEADS", ("Service", x), ("Service", y)) for x, y in ("ab", "bc")]
    a, b, c = (box.x for box in Picture.around("x", nodes, edges).layout.boxes)
    assert a < b < c
