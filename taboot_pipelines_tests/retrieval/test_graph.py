"""The graph out of the shards: tables with exactly the promised columns, neighbourhoods as brute force walks
them.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import Settings, ShardSettings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.publish import publish
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc, HashEmbedder, World, edge, entity, service

NODES = ["label", "key", "name", "scope", "properties", "doc_ids", "first_seen", "last_seen"]
EDGES = [
    "edge_id",
    "type",
    "start_label",
    "start_key",
    "start_name",
    "end_label",
    "end_key",
    "end_name",
    "properties",
    "doc_id",
    "url",
    "confidence",
    "source",
    "extraction_method",
    "since",
    "run_id",
    "blob_sha256",
    "byte_start",
    "byte_end",
    "line",
    "start_basis",
    "end_basis",
    "supports",
]
EARLY, LATE = datetime(2023, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
NAME = {
    "name": "db",
    "observed_key": service("", "db"),
    "resolved_key": service("h/p", "db"),
    "reason": "the only one",
    "candidates": [service("h/p", "db")],
}


def mention(doc_path: str, key: str, name: str, source: str = "docs") -> dict:
    doc = ids.doc_id(NAMESPACE, ids.locator(source, doc_path))
    return edge(
        ("", "x"),
        ("", name),
        type="MENTIONS",
        start_label="Document",
        start_key=doc,
        start_name=doc_path,
        end_key=key,
        discriminator="[1]",
    )


def world() -> World:
    return World(
        [
            Doc(
                "a.yaml",
                "app needs db",
                since=EARLY,
                edges=[edge(("h/p", "app"), ("h/p", "db"), quote="app needs db")],
            ),
            Doc(
                "b.conf",
                "proxy to db",
                since=LATE,
                edges=[
                    edge(("h/p", "web"), ("", "db"), quote="proxy to db", confidence=0.8),
                    mention("b.conf", service("", "db"), "db"),
                ],
            ),
            Doc("c.md", "nothing here", since=LATE),
        ],
        [
            entity("h/p", "app", version="1"),
            entity("h/p", "db"),
            entity("h/p", "web"),
            entity("h/p", "lonely"),
        ],
        [NAME],
        sources={"docs": {"type": "files", "tags": [], "root": "/data"}},
    )


def open_(home, w: World, cuts: int = 1) -> KnowledgeBase:
    publish(open_shards(Settings(home=home)), w.input(), ShardSettings(max_chunks=cuts, max_entities=2))
    return KnowledgeBase.open(settings=Settings(home=home), embedder=HashEmbedder())


def test_nodes_hold_their_documents_and_times(tmp_path):
    w = world()
    nodes = open_(tmp_path, w).nodes()
    assert nodes.column_names == NODES
    by = {(r["label"], r["name"]): r for r in nodes.to_pylist()}
    a, b, c = (next(d.doc_id for d in w.docs.values() if d.path == p) for p in ("a.yaml", "b.conf", "c.md"))
    db = by["Service", "db"]
    assert (db["doc_ids"], db["first_seen"], db["last_seen"], db["scope"]) == (
        sorted([a, b]),
        EARLY,
        LATE,
        "h/p",
    )
    assert by["Service", "app"]["doc_ids"] == [a] and by["Service", "app"]["properties"] == '{"version": "1"}'
    assert by["Service", "lonely"]["doc_ids"] == [] and by["Service", "lonely"]["first_seen"] is None
    assert (
        by["Document", "c.md"]["doc_ids"] == [c]
        and by["Document", "c.md"]["key"] == c
        and '"sourceType":"files"' in by["Document", "c.md"]["properties"]
    )
    assert len(nodes) == 7


def test_edges_are_resolved_and_joined_with_their_documents(tmp_path):
    edges = open_(tmp_path, world()).edges()
    assert edges.column_names == EDGES
    rows = {(r["type"], r["start_name"]): r for r in edges.to_pylist()}
    web = rows["DEPENDS_ON", "web"]
    assert (web["end_key"], web["end_name"], web["url"], web["since"], web["confidence"]) == (
        service("h/p", "db"),
        "db",
        "docs:b.conf",
        LATE,
        0.8,
    )
    assert web["edge_id"] == ids.edge_id(
        NAMESPACE,
        "DEPENDS_ON",
        "Service",
        service("h/p", "web"),
        "Service",
        service("h/p", "db"),
        "[]",
        web["doc_id"],
    )
    assert rows["MENTIONS", "b.conf"]["end_key"] == service("h/p", "db")
    assert len(edges) == 3


def test_a_second_candidate_undoes_the_join_without_touching_documents(tmp_path):
    w = world()
    open_(tmp_path, w)
    w.loaded.clear()
    w.names = [{**NAME, "resolved_key": None, "candidates": [service("h/p", "db"), service("h/q", "db")]}]
    w.entities += [entity("h/q", "db"), entity("", "db")]
    kb = open_(tmp_path, w)
    assert w.loaded == []
    assert sorted((r["type"], r["end_key"]) for r in kb.edges().to_pylist()) == [
        ("DEPENDS_ON", service("", "db")),
        ("DEPENDS_ON", service("h/p", "db")),
    ]


def test_the_graph_does_not_depend_on_the_shards(tmp_path):
    w = world()
    one, many = open_(tmp_path / "one", w, 1000), open_(tmp_path / "many", w, 1)
    assert (
        one.nodes().equals(many.nodes())
        and one.edges().equals(many.edges())
        and one.documents().equals(many.documents())
    )
    assert one.search("db needs").model_dump() == many.search("db needs").model_dump()


def test_documents_are_listed_with_what_is_known_of_them(tmp_path):
    table = open_(tmp_path, world()).documents()
    row = next(r for r in table.to_pylist() if r["path"] == "c.md")
    assert (row["url"], row["source"], row["type"], row["chunks"], row["since"], row["language"]) == (
        "/data/c.md",
        "docs",
        "files",
        1,
        LATE,
        "en",
    )
    assert len(table) == 3


@pytest.mark.parametrize(
    "what",
    [
        "db",
        service("h/p", "db"),
        service("", "db"),
        "DB",
        NodeRef("Service", ("h/p", "db"), "db"),
        NodeRef("Service", ("", "db"), "db"),
    ],
)
def test_a_node_is_found_by_name_key_or_reference(tmp_path, what):
    found = open_(tmp_path, world()).neighbors(what)
    assert [n.key for n in found.start] == [service("h/p", "db")]
    assert {n.name for n in found.nodes} == {"db", "app", "web", "b.conf"}
    assert [e.type for e in found.edges] == ["DEPENDS_ON", "DEPENDS_ON", "MENTIONS"] and [
        e.confidence for e in found.edges
    ] == [1.0, 0.8, 1.0]
    assert found.edges[0].url == "/data/a.yaml"


def test_a_name_of_several_nodes_starts_from_all(tmp_path):
    w = world()
    w.entities.append(entity("h/q", "app"))
    assert [n.scope for n in open_(tmp_path, w).neighbors("app").start] == ["h/p", "h/q"]


def test_a_key_hides_no_node_of_another_label_with_that_name(tmp_path):
    w = world()
    w.entities.append({**entity("h/p", "x"), "label": "Host", "key": "db", "name": "db", "scope": None})
    kb = open_(tmp_path, w)
    assert [n.label for n in kb.neighbors("db").start] == ["Host", "Service"]
    assert "DEPENDS_ON" in [e.type for e in kb.neighbors("db").edges]
    assert [n.label for n in kb.neighbors("db", label="Service").start] == ["Service"]
    assert kb.neighbors("db", label="Host").edges == ()
    for label, code in (("Network", "E_NOT_FOUND"), ("Nonsense", "E_QUERY")):
        with pytest.raises(TabootError) as error:
            kb.neighbors("db", label=label)
        assert error.value.code == code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"node": "nobody"}, "E_NOT_FOUND"),
        ({"node": ""}, "E_QUERY"),
        ({"node": None}, "E_QUERY"),
        ({"node": "db", "hops": 3}, "E_QUERY"),
        ({"node": "db", "types": ["LIKES"]}, "E_QUERY"),
        ({"node": "db", "limit": 0}, "E_QUERY"),
        ({"node": NodeRef("Host", ("db",), "db")}, "E_NOT_FOUND"),
    ],
)
def test_wrong_neighbourhoods_are_refused(tmp_path, arguments, code):
    kb = open_(tmp_path, world())
    with pytest.raises(TabootError) as caught:
        kb.neighbors(**arguments)
    assert caught.value.code == code


def test_two_hops_are_what_a_walk_finds(tmp_path):
    chosen = random.Random(5)
    names = [f"s{i}" for i in range(25)]
    pairs = sorted({tuple(chosen.sample(names, 2)) for _ in range(35)})
    w = World(
        [
            Doc(
                f"{a}-{b}.md",
                f"{a} {b}",
                edges=[edge(("h", a), ("h", b), type="DEPENDS_ON" if i % 3 else "CONNECTS_TO")],
            )
            for i, (a, b) in enumerate(pairs)
        ],
        [entity("h", n) for n in names],
    )
    kb = open_(tmp_path, w, 1000)
    for start in names[:10]:
        for hops in (1, 2):
            for types in (None, {"DEPENDS_ON"}):
                usable = [(a, b) for i, (a, b) in enumerate(pairs) if types is None or i % 3]
                reached, walked = {start}, set()
                for _ in range(hops):
                    step = {p for p in usable if set(p) & reached}
                    walked |= step
                    reached |= {n for p in step for n in p}
                found = kb.neighbors(start, hops, types, 1000)
                assert (
                    {(e.start_name, e.end_name) for e in found.edges} == walked
                    and {n.name for n in found.nodes} == reached
                    and not found.truncated
                )
    cut = kb.neighbors(names[0], 2, limit=2)
    assert (
        len(cut.edges) == 2
        and cut.truncated
        and [e.hop for e in cut.edges] == sorted(e.hop for e in cut.edges)
    )


def test_a_subgraph_draws_itself_and_escapes_names(tmp_path):
    w = world()
    w.entities.append({**entity("h/p", "x"), "key": "k<b>", "name": "<img src=x>", "label": "Network"})
    found = open_(tmp_path, w).neighbors("<img src=x>")
    html = found._repr_html_()
    assert html.startswith("<svg") and "<img" not in html and "&lt;img" in html
    assert (
        open_(tmp_path, w).neighbors("db").to_arrow().num_rows == 3
        and len(open_(tmp_path, w).neighbors("db").to_pandas()) == 3
    )
