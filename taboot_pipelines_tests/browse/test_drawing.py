"""What a picture has room for, and where its links lead."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.browse.graph import MAX_ROWS, WIDTH, Relation, draw
from taboot_pipelines.browse.rendering import to
from taboot_pipelines.retrieval.rendering import outside, short_url
from taboot_pipelines.shards.manifest import SourceEntry

RELATIONS = st.lists(
    st.builds(
        Relation,
        type=st.sampled_from(["BINDS", "DEPENDS_ON", "RUNS_IN"]),
        outgoing=st.booleans(),
        label=st.sampled_from(["Service", "Host"]),
        key=st.text(max_size=5),
        name=st.text(max_size=80),
        scope=st.none() | st.text(max_size=60),
        says=st.text(max_size=80),
        edge_ids=st.just(("a",)),
    ),
    max_size=60,
)


@given(RELATIONS, st.text(max_size=100))
def test_boxes_lie_apart_and_within_the_picture(relations: list[Relation], name: str) -> None:
    picture = draw("Service", name, None, relations)
    boxes = [(r.x, r.y) for r in picture.rows]
    for (x1, y1), (x2, y2) in combinations(boxes, 2):
        assert x1 != x2 or abs(y1 - y2) > picture.box_height
    for x, y in boxes:
        assert x >= 0 and x + picture.box_width <= WIDTH
        assert picture.box_height / 2 < y < picture.height - picture.box_height / 2
    assert picture.left_out == len(relations) - len(picture.rows)
    for outgoing in (False, True):
        wanted = [r for r in relations if r.outgoing is outgoing]
        drawn = [r.relation for r in picture.rows if r.relation.outgoing is outgoing]
        assert len(drawn) == min(len(wanted), MAX_ROWS)
        if len({r.type for r in wanted}) <= MAX_ROWS:
            assert {r.type for r in drawn} == {r.type for r in wanted}


def test_a_name_that_is_cut_keeps_its_end() -> None:
    relation = Relation(
        "BUILDS", True, "Image", "k", "docker.io/library/redis:7.4.4-alpine", None, "", ("a",)
    )
    (row,) = draw("Service", "redis", None, [relation]).rows
    assert row.name.startswith("docker.") and row.name.endswith("7.4.4-alpine") and "…" in row.name


@pytest.mark.parametrize(
    ("url", "leads"),
    [
        ("https://example.org/a?b=1", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        (" https://example.org", False),
        ("java\tscript:alert(1)", False),
        ("data:text/html,<script>1</script>", False),
        ("//example.org/a", False),
        ("https://user@example.org/", False),
        ("https:\\\\example.org", False),
        ("https://", False),
        ("http://[bad", False),
        ("ftp://example.org", False),
        ("vbscript:x", False),
    ],
)
def test_only_web_addresses_are_linked(url: str, leads: bool) -> None:
    assert outside(url) == (url if leads else None)


def test_addresses_of_pages() -> None:
    key = '["a/b","ü & <x>#?"]'
    url = to("/node", label="Service", key=key)
    assert url == "/node?label=Service&key=%5B%22a%2Fb%22%2C%22%C3%BC%20%26%20%3Cx%3E%23%3F%22%5D"
    assert to("/search", q="a b", tag=["x", "y"], type=[], cursor=None) == "/search?q=a%20b&tag=x&tag=y"
    assert to("/document/a b", "mark", at="1-2") == "/document/a%20b?at=1-2#mark"


def test_short_places() -> None:
    sources = {
        "stacks": SourceEntry(type="compose", root="/srv/stacks"),
        "readmes": SourceEntry(type="files", root="/srv/stacks/media"),
        "site": SourceEntry(type="web"),
    }
    assert short_url("/srv/stacks/media/README.md", sources) == "readmes: README.md"
    assert short_url("/srv/stacks/media/README.md", sources, "stacks") == "stacks: media/README.md"
    assert short_url("stacks:media/compose.yaml", sources) == "stacks: media/compose.yaml"
    assert short_url("/elsewhere/x", sources) == "/elsewhere/x"
    assert short_url("https://example.org/x", sources) == "https://example.org/x"
