"""Ways through the graph are the shortest that brute force finds, and public names begin at their proxy."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval import GraphPath, KnowledgeBase
from taboot_pipelines.settings import Settings, ShardSettings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.publish import publish
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc, HashEmbedder, World, edge, entity


def opened(home: Path, w: World) -> KnowledgeBase:
    publish(open_shards(Settings(home=home)), w.input(), ShardSettings(max_chunks=9, max_entities=9))
    return KnowledgeBase.open(settings=Settings(home=home), embedder=HashEmbedder())


def shown(path: GraphPath) -> list[str]:
    if not path.steps:
        return []
    return [path.steps[0].start_name, *(s.end_name for s in path.steps)]


def test_the_shortest_way_is_found_whichever_way_edges_point(tmp_path: Path) -> None:
    chance = random.Random(7)
    names = [f"s{n}" for n in range(40)]
    pairs = {tuple(sorted(chance.sample(range(40), 2))) for _ in range(45)}
    edges = [edge(("", names[a]), ("", names[b]), quote="x") for a, b in sorted(pairs)]
    kb = opened(tmp_path, World([Doc("a.yaml", "x", edges=edges)], [entity("", n) for n in names]))
    beside: dict[int, set[int]] = {n: set() for n in range(40)}
    for a, b in pairs:
        beside[a].add(b)
        beside[b].add(a)
    for _ in range(60):
        a, b = chance.sample(range(40), 2)
        distance, ring, seen = 0, {a}, {a}
        while ring and b not in ring:
            ring = {m for n in ring for m in beside[n]} - seen
            seen |= ring
            distance += 1
        way = shown(kb.path(names[a], names[b], max_hops=20))
        assert len(way) == (distance + 1 if ring else 0)
        assert not way or (way[0], way[-1]) == (names[a], names[b])
        assert all(int(y[1:]) in beside[int(x[1:])] for x, y in itertools.pairwise(way))
        if ring and distance > 1:
            assert shown(kb.path(names[a], names[b], max_hops=distance - 1)) == []
    assert kb.path("s1", "s1").steps == ()


def routed(host: str | None, target: str, **more: object) -> dict[str, object]:
    row = edge(("", "swag"), ("h/p", target), quote=f"proxy_pass {target}", type="ROUTES_TO", **more)
    properties = {"host": host, "tls": True}
    return {
        **row,
        "start_label": "ReverseProxy",
        "start_key": "swag",
        "properties": ids.canonical_json(properties),
        "discriminator": ids.composite(host),
    }


def house() -> World:
    container = ids.container_id(NAMESPACE, "h/p", "paper", 1)
    runs = {
        **edge(("", "x"), ("", "y"), quote="paper", type="RUNS"),
        "start_label": "Container",
        "start_key": container,
        "start_name": "paper-1",
        "end_label": "Host",
        "end_key": "nas.lan",
        "end_name": "nas.lan",
    }
    vpn = {
        **edge(("", "x"), ("", "y"), quote="paper", type="USES_VPN"),
        "start_label": "Host",
        "start_key": "nas.lan",
        "start_name": "nas.lan",
        "end_label": "TailscaleNode",
        "end_key": "n1",
        "end_name": "nas.tail.ts.net",
    }
    rows = [
        entity("h/p", "paper"),
        entity("h/p", "git"),
        *(
            {**entity("", name), "label": label, "key": key, "scope": None, "position": ids.position(key)}
            for label, key, name in (
                ("ReverseProxy", "swag", "swag"),
                ("Container", container, "paper-1"),
                ("Host", "nas.lan", "nas.lan"),
                ("TailscaleNode", "n1", "nas.tail.ts.net"),
            )
        ),
    ]
    routes = [routed("paper.*", "paper"), routed("*.example.org", "git"), routed("~^x\\d+[.]", "git")]
    return World([Doc("a.conf", "paper", edges=[*routes, runs, vpn])], rows)


def test_a_public_name_leads_through_proxy_service_container_and_host_to_the_tailnet(tmp_path: Path) -> None:
    kb = opened(tmp_path, house())
    found = kb.path("paper.example.net", "nas.tail.ts.net")
    assert shown(found) == ["swag", "paper", "paper-1", "nas.lan", "nas.tail.ts.net"]
    assert [(s.type, s.forward) for s in found.steps] == [
        ("ROUTES_TO", True),
        ("DECLARES", True),
        ("RUNS", True),
        ("USES_VPN", True),
    ]
    assert all(bool(s.edge_id) == (s.type != "DECLARES") for s in found.steps)
    picture = found._repr_html_()
    assert picture.count("font-weight='bold'") == 5 and "paper-1" in picture and "4 steps" in picture
    assert found.to_arrow().num_rows == 4
    back = kb.path(NodeRef("TailscaleNode", ("n1",), "nas"), "paper.example.net")
    assert shown(back) == ["nas.tail.ts.net", "nas.lan", "paper-1", "paper"]
    assert not any(s.forward for s in back.steps)
    # An exact name and a wildcard in front come before one behind, expressions last, as in nginx.
    assert shown(kb.path("paper.example.org", "git")) == ["swag", "git"]
    assert shown(kb.path("x12.y", "git")) == ["swag", "git"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nobody", "git"), "E_NOT_FOUND"),
        (("nobody.example.net", "git"), "E_NOT_FOUND"),
        (("git", ""), "E_QUERY"),
        (("git", "paper", 0), "E_QUERY"),
        (("git", "paper", 21), "E_QUERY"),
        (("git", "paper", True), "E_QUERY"),
    ],
)
def test_what_cannot_be_asked(tmp_path: Path, arguments: tuple[object, ...], code: str) -> None:
    with pytest.raises(TabootError, match=code):
        opened(tmp_path, house()).path(*arguments)


def test_no_way_is_an_empty_path(tmp_path: Path) -> None:
    found = opened(tmp_path, World([Doc("a", "x")], [entity("", "a"), entity("", "b")])).path("a", "b")
    assert found.steps == () and "0 steps" in found._repr_html_() and found.to_arrow().num_rows == 0
