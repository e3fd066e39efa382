"""What results show of themselves: in a cell, in a terminal, and what ``show`` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval.knowledge_base import KnowledgeBase
from taboot_pipelines.retrieval.pictures.picture import Picture
from taboot_pipelines.retrieval.pictures.vega import MIME
from taboot_pipelines.retrieval.results.graph import Subgraph
from taboot_pipelines_tests.retrieval.pictures.made import edge, node, path
from taboot_pipelines_tests.retrieval.pictures.test_layout import lies_apart
from taboot_pipelines_tests.retrieval.test_graph import open_, world


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return open_(tmp_path, world())


def displayed(result: object) -> list[dict[str, Any]]:
    """The bundles that a cell shows whose last line is the result."""
    shell = InteractiveShell.instance()
    with capture_output() as captured:
        shell.display_formatter.format(result)
    return [output.data for output in captured.outputs]


def test_a_neighbourhood_is_a_picture_and_a_table(kb: KnowledgeBase) -> None:
    around = kb.neighbors("db")
    picture, table = displayed(around)
    assert set(picture) == {MIME, "image/svg+xml", "text/plain"}, "HTML would come before the picture"
    assert (
        picture["image/svg+xml"].startswith("<svg")
        and "Service app -[DEPENDS_ON]-> Service db" in (picture["text/plain"])
    )
    assert set(table) == {"text/html"} and "Service app" in table["text/html"]
    html = around._repr_html_()
    assert html == around.show().svg + table["text/html"]


def test_a_way_is_a_picture_and_a_table(kb: KnowledgeBase) -> None:
    picture, table = displayed(kb.path("app", "db"))
    assert MIME in picture and "1 step" in table["text/html"] and picture["text/plain"].startswith("1 step\n")
    assert displayed(path("x"))[0]["text/plain"].count("->") == 1


def test_all_that_is_known_in_one_picture(kb: KnowledgeBase) -> None:
    picture = kb.show()
    nodes, edges = kb.nodes(), kb.edges()
    assert picture.title == f"{nodes.num_rows} nodes, {edges.num_rows} edges"
    names = {(box.name, box.kind) for box in picture.layout.boxes}
    assert ("Service", str(nodes.column("label").to_pylist().count("Service"))) in names
    assert "Named in documents: 1 times in 1" in picture.layout.note and "MENTIONS" not in picture.svg
    drawn = sum(int(tag.text.rpartition(" ")[2].replace(",", "")) for tag in picture.layout.tags)
    assert drawn == edges.num_rows - edges.column("type").to_pylist().count("MENTIONS")


def test_a_node_with_its_surroundings(kb: KnowledgeBase) -> None:
    shown = kb.show("db", types="DEPENDS_ON", limit=1)
    assert len(shown.layout.wires) == 1 and "1 of 2 relations are drawn" in shown.layout.note
    assert {box.name for box in shown.layout.boxes} > {"db"}


@pytest.mark.slow
@pytest.mark.parametrize("hops", [1, 2])
def test_no_words_lie_over_others_around_any_node_of_a_house(ingested: Path, hops: int) -> None:
    kb = KnowledgeBase.open(ingested)
    edges = kb.edges()
    lies_apart(kb.show().layout)
    crowds = 0
    for row in kb.nodes().select(["label", "key"]).to_pylist()[:: 4 * hops]:
        at = NodeRef(row["label"], (row["key"],), row["key"])
        around = kb.neighbors(at, hops, limit=edges.num_rows)
        for limit in (30, 200):
            picture = around.show(limit)
            lies_apart(picture.layout)
            assert len(picture.layout.wires) <= limit
            crowds += bool(picture.layout.note)
    assert crowds, "some have more than can be drawn, which is said"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"hops": 2}, "E_QUERY"),
        ({"types": "BINDS"}, "E_QUERY"),
        ({"node": "db", "limit": 0}, "E_QUERY"),
        ({"node": "db", "limit": 201}, "E_QUERY"),
        ({"node": "db", "hops": 3}, "E_QUERY"),
        ({"node": "nobody"}, "E_NOT_FOUND"),
    ],
)
def test_what_cannot_be_shown_is_said(kb: KnowledgeBase, arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(TabootError) as caught:
        kb.show(**arguments)
    assert caught.value.code == code


def test_an_empty_result_can_be_shown() -> None:
    nothing = Subgraph(start=(), nodes=(), edges=())
    assert nothing.show().svg.startswith("<svg") and len(displayed(nothing)) == 2
    alone = Subgraph(start=(node("a", "a"),), nodes=(node("a", "a"),), edges=())
    assert [box.name for box in alone.show().layout.boxes] == ["a"]


def test_statements_of_one_relation_are_one_row_and_one_arrow() -> None:
    nodes = (node("web", "a"), node("nas", "b"))
    said = edge("web", "a", "b").model_copy(update={"end_name": "nas", "properties": {"port": 80}})
    edges = tuple(said.model_copy(update={"edge_id": str(n), "line": n, "url": "/x"}) for n in range(1, 4))
    around = Subgraph(start=nodes[:1], nodes=nodes, edges=edges, truncated=True)
    (wire,) = around.show().layout.wires
    assert [value for name, value in wire.told if name == "where"] == ["/x:1", "/x:2", "/x:3"]
    assert "cut them at its limit" in around.show().layout.note
    assert around._table().count("<tr>") == 2


def test_files_of_one_name_are_told_apart_by_their_folder() -> None:
    documents = tuple(
        node("compose.yaml", k, label="Document").model_copy(update={"scope": None}) for k in "ab"
    )
    web = node("web", "w")
    edges = tuple(
        edge("compose.yaml", d.key, "w").model_copy(
            update={"type": "MENTIONS", "start_label": "Document", "url": f"/srv/{folder}/compose.yaml"}
        )
        for d, folder in zip(documents, ("media", "core"), strict=True)
    )
    picture = Subgraph(start=(web,), nodes=(web, *documents), edges=edges).show()
    assert {b.kind for b in picture.layout.boxes if b.name == "compose.yaml"} == {
        "Document · media",
        "Document · core",
    }
    assert isinstance(picture, Picture)
