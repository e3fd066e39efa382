"""What people decide: corrections, stated facts, merges and their undoing, seen from a knowledge base."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxExtractor
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import EDGES, check_edge
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deletion import purge_vanished
from taboot_pipelines.stages.storage_audit import run as audit
from taboot_pipelines.stores.catalog.assertions import NewAssertion
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import Kept, World, differences, graph, holding, logical

ALPHA = (
    "services:\n  jellyfin:\n    image: jellyfin/jellyfin:10\n    ports: ['8096:8096']\n"
    "    depends_on: [vault]\n  vault:\n    image: vault:1\n"
)
BETA = "services:\n  vault:\n    image: hashicorp/vault:2\n    ports: ['8200:8200']\n"
NOTE = "# Runbook\n\nRestart jellyfin. `vault` is sealed. The `nas-one` box is behind it.\n"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Kept:
    world = World(tmp_path_factory.mktemp("house"), tei.url)
    stacks = world.source("stacks", "compose", host="hearth.lan")
    for folder, text in (("alpha", ALPHA), ("beta", BETA)):
        (stacks / folder).mkdir()
        (stacks / folder / "compose.yaml").write_text(text)
    (world.source("notes") / "runbook.md").write_text(NOTE)
    world.ingest()
    return Kept(world)


@pytest.fixture
def house(kept: Kept) -> Iterator[World]:
    world = kept.put_back()
    yield world
    world.workspace.close()


def service(kb: KnowledgeBase, name: str, folder: str = "alpha") -> dict[str, Any]:
    """The one row of ``nodes()`` of a scoped service."""
    key = f'["hearth.lan/{folder}","{name}"]'
    (row,) = (r for r in kb.nodes().to_pylist() if (r["label"], r["key"]) == ("Service", key))
    return {**row, "properties": json.loads(row["properties"])}


def edges(kb: KnowledgeBase, type_: str) -> list[dict[str, Any]]:
    return [
        {**r, "properties": json.loads(r["properties"])} for r in kb.edges().to_pylist() if r["type"] == type_
    ]


def refused(code: str, call: Any, *arguments: Any, **options: Any) -> TabootError:
    with pytest.raises(TabootError) as caught:
        call(*arguments, **options)
    assert caught.value.code == code, caught.value
    assert caught.value.remedy
    return caught.value


def check_replay(world: World) -> None:
    """The stores equal a replay of the catalog's inputs, and the audit finds nothing."""
    scratch = world.replay()
    other = world.open(scratch)
    try:
        assert differences(logical(world.workspace), logical(other)) == {}
        assert differences(graph(world.kb()), graph(world.kb(home=scratch))) == {}
    finally:
        other.close()
    assert audit(world.workspace, "default").left == []


def test_a_correction_wins_until_it_is_undone(house: World) -> None:
    kb = house.kb()
    before = service(kb, "jellyfin")
    assert before["properties"]["port"] == 8096
    done = kb.correct("jellyfin", "port", 8920, "moved behind TLS", who="ann")
    assert (done.priority, done.final, done.kind) == (1000, True, "field")
    assert service(kb, "jellyfin")["properties"]["port"] == 8920
    # The same once more changes nothing; another one is the last word.
    assert kb.correct("jellyfin", "port", 8920, "again").observation_id == done.observation_id
    later = kb.correct("jellyfin", "port", 8921, "moved on", who="bob")
    assert service(kb, "jellyfin")["properties"]["port"] == 8921
    states = {i.observation_id: i.state for i in kb.assertions(all_states=True).items}
    assert states == {done.observation_id: "superseded", later.observation_id: "in_force"}
    check_replay(house)
    # No edit of the document changes it, and undoing in any order gives what the documents say.
    path = house.directory / "stacks/alpha/compose.yaml"
    path.write_text(ALPHA.replace("8096", "8097"))
    house.ingest()
    assert service(kb, "jellyfin")["properties"]["port"] == 8921
    path.write_text(ALPHA)
    house.ingest()
    assert service(kb, "jellyfin")["properties"]["port"] == 8921
    back = kb.undo(later.observation_id, reason="wrong box")
    assert service(kb, "jellyfin")["properties"]["port"] == 8920
    kb.undo(done.observation_id[:12])
    assert service(kb, "jellyfin")["properties"] == before["properties"]
    # An undoing can be undone.
    kb.undo(back.observation_id)
    assert service(kb, "jellyfin")["properties"]["port"] == 8921
    assert [i.who for i in kb.assertions().items] == ["bob"]
    check_replay(house)


def test_a_corrected_field_may_have_no_value_and_wait_for_its_entity(house: World) -> None:
    kb = house.kb()
    kb.correct(NodeRef("Service", ("hearth.lan/alpha", "jellyfin"), "jellyfin"), "port", None)
    assert "port" not in service(kb, "jellyfin")["properties"]
    kb.correct("jellyfin", "description", "the films", label="Service")
    # The entity goes with its documents; what was said of it waits.
    path = house.directory / "stacks/alpha/compose.yaml"
    path.unlink()
    house.ingest()
    refused("E_NOT_FOUND", kb.correct, '["hearth.lan/alpha","jellyfin"]', "port", 1)
    assert not [r for r in kb.nodes().to_pylist() if r["key"] == '["hearth.lan/alpha","jellyfin"]']
    check_replay(house)
    path.write_text(ALPHA)
    house.ingest()
    found = service(kb, "jellyfin")["properties"]
    assert found["description"] == "the films" and "port" not in found


def test_a_correction_follows_its_entity_through_resolution(world: World) -> None:
    proxy = world.source("proxy", "swag")
    (proxy / "q.conf").write_text(
        "server { server_name q.x.org; location / { proxy_pass http://quasarhub:8200; } }\n"
    )
    world.ingest()
    kb = world.kb()
    bare = '["","quasarhub"]'
    kb.correct(bare, "description", "the hub")
    declared = world.source("stacks", "compose", host="hearth.lan")
    (declared / "alpha").mkdir()
    (declared / "alpha/compose.yaml").write_text("services:\n  quasarhub:\n    image: redis:7\n")
    world.ingest()
    assert service(kb, "quasarhub")["properties"]["description"] == "the hub"
    assert bare not in kb.nodes().column("key").to_pylist()
    check_replay(world)


def test_an_edge_that_is_not_so_is_gone_for_every_document(house: World) -> None:
    kb, before = house.kb(), graph(house.kb())
    (edge,) = edges(kb, "DEPENDS_ON")
    done = kb.correct_edge(edge["edge_id"], reason="only in the test stack", who="ann")
    assert edges(kb, "DEPENDS_ON") == []
    refused("E_EDGE_UNKNOWN", kb.explain, edge["edge_id"])
    # Another document that states the same fact does not bring it back.
    (house.directory / "stacks/alpha/compose.override.yaml").write_text(
        "services:\n  jellyfin:\n    depends_on: [vault]\n"
    )
    house.ingest()
    assert edges(kb, "DEPENDS_ON") == []
    check_replay(house)
    (house.directory / "stacks/alpha/compose.override.yaml").unlink()
    house.ingest()
    kb.undo(done.observation_id)
    assert differences(before, graph(kb)) == {}


def test_a_corrected_property_of_an_edge_says_who_and_why(house: World) -> None:
    kb = house.kb()
    (edge,) = (e for e in edges(kb, "BINDS") if e["start_name"] == "jellyfin")
    kb.correct_edge(edge["edge_id"], "targetPort", 8920, "see ticket", who="ann")
    (after,) = (e for e in edges(kb, "BINDS") if e["start_name"] == "jellyfin")
    assert after["edge_id"] == edge["edge_id"]
    assert (after["source"], after["confidence"]) == ("correction", 1.0)
    assert after["properties"] == {**edge["properties"], "targetPort": 8920}
    explained = kb.explain(edge["edge_id"])
    assert "8096:8096" in explained.quote
    (note,) = explained.decisions
    assert (note.who, note.reason, note.says) == ("ann", "see ticket", "targetPort = 8920")
    assert "see ticket" in explained._repr_html_()
    check_replay(house)
    error = refused("E_ENTITY_VALIDATION", kb.correct_edge, edge["edge_id"], "port", 1)
    assert error.details["field"] == "port"
    refused("E_ENTITY_VALIDATION", kb.correct_edge, edge["edge_id"], "targetPort", 99_999)
    refused("E_ENTITY_VALIDATION", kb.correct_edge, edge["edge_id"], "nonsense", 1)
    refused("E_EDGE_UNKNOWN", kb.correct_edge, "0" * 64)


def test_a_stated_entity_has_a_record_and_is_a_declared_name(house: World) -> None:
    kb, before = house.kb(), graph(house.kb())
    done = kb.ingest_structured(
        "Host",
        {"hostname": "NAS-One.", "ip": "10.0.0.9"},
        reason="bought in May",
        who="ann",
        raw_content="serial 4711",
    )
    assert (done.priority, done.entity_id) == (100, "nas-one")
    (node,) = (r for r in kb.nodes().to_pylist() if r["label"] == "Host" and r["name"] == "nas-one")
    assert json.loads(node["properties"]) == {"ip": "10.0.0.9"}
    told = edges(kb, "MENTIONS")
    sources = dict(
        zip(
            kb.documents().column("doc_id").to_pylist(),
            kb.documents().column("path").to_pylist(),
            strict=True,
        )
    )
    mentions = [e for e in told if e["end_key"] == "nas-one"]
    # The record declares it; the runbook holds its name.
    assert sorted(sources[e["doc_id"]] for e in mentions) == sorted([done.observation_id, "runbook.md"])
    (own,) = (e for e in mentions if e["source"] == "structured")
    explained = kb.explain(own["edge_id"])
    assert '"hostname": "nas-one"' in explained.quote and "bought in May" in explained.quote
    assert [q.text for q in explained.quotes[1:]] == ["serial 4711"]
    # What was handed in is kept, and is found by its hash, which the record names.
    assert done.source_id is not None and done.source_id in explained.quote
    assert house.workspace.blobs.get("default", done.source_id) == b"serial 4711"
    check_replay(house)
    kb.undo(done.observation_id)
    assert differences(before, graph(kb)) == {}
    check_replay(house)


def test_a_batch_of_entities_and_relations(house: World) -> None:
    kb = house.kb()
    done = kb.ingest_structured_batch(
        [
            {"entity_type": "Service", "properties": {"name": "backup", "scope": "hearth.lan/x", "port": 99}},
            {"type": "DEPENDS_ON", "start": {"label": "Service", "name": "backup"}, "end": "jellyfin"},
            {
                "type": "RESOLVES_TO",
                "start": {"label": "Host", "hostname": "hearth.lan"},
                "end": {"label": "IP", "addr": "10.0.0.2"},
                "properties": {"recordType": "A"},
            },
        ],
        "inventory",
        who="ann",
    )
    assert [d.kind for d in done] == ["entity", "relation", "relation"]
    (edge,) = (e for e in edges(kb, "DEPENDS_ON") if e["source"] == "structured")
    # The bare name means the service that was stated beside it.
    assert edge["start_key"] == '["hearth.lan/x","backup"]'
    assert edge["end_key"] == '["hearth.lan/alpha","jellyfin"]'
    assert edge["extraction_method"] == "structured" and json.loads(edge["supports"])
    assert kb.explain(edge["edge_id"]).quote.startswith("{")
    assert kb.neighbors("backup").edges
    assert kb.path("backup", "jellyfin").steps
    assert kb.drift() is not None
    assert kb.answer("what does backup depend on?") is not None
    for row in kb.edges().to_pylist():
        check_edge(
            row["type"],
            row["start_label"],
            row["end_label"],
            json.loads(row["properties"]),
            row["confidence"],
        )
    # Handing in the same again records nothing.
    again = kb.ingest_structured_batch(
        [{"entity_type": "Service", "properties": {"name": "backup", "scope": "hearth.lan/x", "port": 99}}]
    )
    assert again[0].observation_id == done[0].observation_id
    assert len(kb.assertions().items) == 3
    check_replay(house)


def test_a_relation_may_name_what_its_batch_states(house: World) -> None:
    kb = house.kb()
    new = {"entity_type": "Host", "properties": {"hostname": "Attic.lan", "name": "attic"}}
    kb.ingest_structured_batch(
        [
            {"type": "CONNECTS_TO", "start": "jellyfin", "end": "attic"},
            new,
            {
                "type": "RESOLVES_TO",
                "start": "attic.lan",
                "end": {"label": "IP", "addr": "10.0.0.9"},
                "properties": {"recordType": "A"},
            },
            # A service of the batch comes before one of that name that there is.
            {"entity_type": "Service", "properties": {"name": "vault", "scope": "hearth.lan/x"}},
            {"type": "DEPENDS_ON", "start": "vault", "end": "jellyfin"},
        ]
    )
    stated = {
        (e["type"], e["start_key"], e["end_key"])
        for e in kb.edges().to_pylist()
        if e["source"] == "structured" and e["type"] != "MENTIONS"
    }
    assert stated == {
        ("CONNECTS_TO", '["hearth.lan/alpha","jellyfin"]', "attic.lan"),
        ("RESOLVES_TO", "attic.lan", "10.0.0.9"),
        ("DEPENDS_ON", '["hearth.lan/x","vault"]', '["hearth.lan/alpha","jellyfin"]'),
    }
    two = [{"entity_type": "Service", "properties": {"name": "cron", "scope": s}} for s in ("a", "b")]
    items = [*two, {"type": "DEPENDS_ON", "start": "cron", "end": "jellyfin"}]
    error = refused("E_QUERY", kb.ingest_structured_batch, items)
    assert set(error.details["candidates"]) == {'Service ["a","cron"]', 'Service ["b","cron"]'}
    refused("E_NOT_FOUND", kb.ingest_structured_batch, [*two, {**items[2], "start": "crone"}])
    check_replay(house)


def test_two_entities_are_one_and_two_again(house: World) -> None:
    kb, before = house.kb(), graph(house.kb())
    alpha, beta = '["hearth.lan/alpha","vault"]', '["hearth.lan/beta","vault"]'
    # Two services have the name, so the runbook mentions neither.
    assert not [
        e for e in edges(kb, "MENTIONS") if e["end_key"] in {alpha, beta} and e["url"].startswith("notes")
    ]
    error = refused("E_QUERY", kb.correct, "vault", "port", 1)
    assert set(error.details["candidates"]) == {f"Service {alpha}", f"Service {beta}"}
    done = kb.merge(beta, alpha, "one vault serves both", who="ann")
    keys = kb.nodes().column("key").to_pylist()
    assert alpha in keys and beta not in keys
    merged = service(kb, "vault")
    assert merged["properties"]["port"] == 8200
    assert len([e for e in edges(kb, "BUILDS") if e["start_key"] == alpha]) == 2
    assert [e for e in edges(kb, "MENTIONS") if e["end_key"] == alpha and e["url"].startswith("notes")]
    # The old key leads to it, and so does the bare name.
    assert (
        {n.key for n in kb.neighbors(beta).start} == {n.key for n in kb.neighbors("vault").start} == {alpha}
    )
    kb.correct(beta, "description", "sealed")
    assert service(kb, "vault")["properties"]["description"] == "sealed"
    refused("E_TRANSITION", kb.merge, alpha, beta)
    check_replay(house)
    kb.undo(kb.assertions().items[-1].observation_id)
    kb.undo(done.observation_id, reason="they are two")
    assert differences(before, graph(kb)) == {}
    check_replay(house)


def test_merges_make_chains_and_no_circles(world: World) -> None:
    (world.source("notes") / "a.md").write_text("Nothing of note.\n")
    world.ingest()
    kb = world.kb()
    for name in ("a", "b", "c"):
        kb.ingest_structured("Host", {"hostname": name, "description": name})
    first = kb.merge("a", "b", "x")
    second = kb.merge("b", "c", "y")
    assert [r["key"] for r in kb.nodes().to_pylist() if r["label"] == "Host"] == ["c"]
    kb.undo(first.observation_id)
    hosts = {r["key"]: r for r in kb.nodes().to_pylist() if r["label"] == "Host"}
    assert sorted(hosts) == ["a", "c"] and hosts["c"]["name"] == "c"
    # Undone in another order than made, two merges may close a circle: it joins what is joined.
    kb.undo(second.observation_id)
    third = kb.merge("b", "a", "z")
    undoing = [i for i in kb.assertions(all_states=True).items if i.kind == "undo"]
    kb.undo(undoing[0].observation_id)
    assert third.observation_id in {i.observation_id for i in kb.assertions().items}
    assert sorted(r["key"] for r in kb.nodes().to_pylist() if r["label"] == "Host") == ["b", "c"]
    check_replay(world)


def test_a_change_reduces_only_what_it_touches(house: World) -> None:
    (stage,) = (s for s in CHAIN.of_namespace if s.name == "entity_snapshots")
    payload = {
        "label": "Service",
        "key": '["hearth.lan/alpha","jellyfin"]',
        "name": "jellyfin",
        "field": "port",
        "value": 1,
    }
    with house.workspace.leases.namespace("default"):
        house.workspace.catalog.assertions.add(
            "default", [NewAssertion("field", ids.canonical_json(payload), "ann", "")]
        )
    # A run of any source applies what was recorded and not applied yet.
    report = stage.run(house.workspace, "default", "")
    assert report.counts["entities_written"] == report.counts["decisions_changed"] == 1
    assert report.counts["changed"] == report.counts["rescanned"] == report.counts["edges_written"] == 0
    assert stage.run(house.workspace, "default", "").skipped == "unchanged"


def test_everything_behind_an_entity_can_be_listed(house: World) -> None:
    kb = house.kb()
    kb.correct("jellyfin", "port", 8920, "behind TLS", who="ann")
    kb.ingest_structured("Service", {"name": "jellyfin", "description": "films"}, who="bob")
    found = kb.supports("jellyfin", label="Service")
    assert found.entity.properties["port"] == 8920 and found.entity.properties["description"] == "films"
    (note,) = found.decisions
    assert (note.who, note.reason, note.says) == ("ann", "behind TLS", "port = 8920")
    first, second = found.observations[:2]
    assert first.source == "structured" and first.properties == {"description": "films"}
    assert second.source == "tier_a" and second.properties["port"] == 8096
    assert second.url.endswith("alpha/compose.yaml") and second.line == 2
    # The bare name was stated, and the runbook only refers to it.
    assert first.observed_key == '["","jellyfin"]'
    assert any(o.url.endswith("runbook.md") and o.properties == {} for o in found.observations)
    assert found.to_arrow().num_rows == len(found.observations)
    assert kb.supports("jellyfin", label="Service", limit=1).truncated
    refused("E_NOT_FOUND", kb.supports, "nobody-here")
    for label in ("Gadget", ["Service"], {}, 5):
        refused("E_QUERY", kb.supports, "jellyfin", label=label)
        refused("E_QUERY", kb.correct, "jellyfin", "port", 1, "no", label=label)


def test_an_erased_decision_leaves_no_byte(house: World) -> None:
    kb = house.kb()
    stated = kb.ingest_structured(
        "Host",
        {"hostname": "swordfish-one"},
        raw_content="swordfish-two",
        reason="swordfish-three",
        who="swordfish-four",
    )
    corrected = kb.correct("jellyfin", "description", "swordfish-five", "swordfish-six")
    merged = kb.merge("swordfish-one", "hearth.lan", "swordfish-seven", label="Host")
    assert holding(house.root, "swordfish")
    for done in (merged, corrected, stated):
        gone = kb.undo(done.observation_id, erase=True)
        assert gone.final and gone.stores["blobs"] == "done", gone
    kb._session._pinned = None
    house.workspace.close()
    assert holding(house.root, "swordfish") == []
    house.workspace = house.open(house.home)
    assert {i.state for i in house.kb().assertions(all_states=True).items} == {"erased"}
    # Erasing it once more completes what was killed; undoing it is no longer possible.
    house.kb().undo(stated.observation_id, erase=True)
    refused("E_TRANSITION", house.kb().undo, stated.observation_id)
    check_replay(house)


def test_what_two_assertions_share_stays_until_the_last_is_erased(house: World) -> None:
    kb = house.kb()
    one = kb.ingest_structured("Host", {"hostname": "one"}, raw_content="the same")
    two = kb.ingest_structured("Host", {"hostname": "two"}, raw_content="the same")
    assert one.source_id == two.source_id is not None
    kb.undo(one.observation_id, erase=True)
    assert house.workspace.blobs.get("default", two.source_id) == b"the same"
    # What was undone is kept by a purge: the undoing can be undone.
    back = kb.undo(two.observation_id)
    purge_vanished(house.workspace, "default", carry_out=True)
    kb.undo(back.observation_id)
    assert house.workspace.blobs.get("default", two.source_id) == b"the same"
    assert audit(house.workspace, "default").left == []


def test_namespaces_decide_for_themselves(house: World) -> None:
    (house.source("theirs", "files", namespace="other") / "a.md").write_text("Restart jellyfin.\n")
    house.ingest()
    mine, other = house.kb(), house.kb("other")
    before = graph(other)
    done = mine.correct("jellyfin", "port", 1)
    (edge,) = edges(mine, "DEPENDS_ON")
    mine.ingest_structured("Host", {"hostname": "nas-one"})
    assert graph(other) == before and other.assertions().items == ()
    refused("E_NOT_FOUND", other.correct, '["hearth.lan/alpha","jellyfin"]', "port", 2)
    refused("E_NOT_FOUND", other.merge, "nas-one", "hearth.lan")
    refused("E_EDGE_UNKNOWN", other.correct_edge, edge["edge_id"])
    refused("E_NOT_FOUND", other.undo, done.observation_id)
    refused("E_NOT_FOUND", other.undo, done.observation_id, True)
    assert len(mine.assertions().items) == 2


HOSTILE: list[tuple[Any, ...]] = [
    ("Service", {"name": "🦈"}),
    ("Service", {"name": "a" * 256}),
    ("Service", {"name": ["a"]}),
    ("Service", {}),
    ("Service", {"name": "a", "port": "80"}),
    ("Service", {"name": "a", "port": True}),
    ("Service", {"name": "a", "port": 10**400}),
    ("Service", {"name": "a", "colour": "red"}),
    ("Service", {"name": "a", "🦈": 1}),
    ("Service", {"name": "a", 1: 1}),
    ("Service", {"name": "a", "description": "x\x00y"}),
    ("Service", {"name": "a", "description": "\ud800"}),
    ("Service", {"name": "a", "description": "x" * 100_000}),
    ("Service", {"name": "a", "description": b"bytes"}),
    ("Service", {"name": "a", "description": float("nan")}),
    ("Service", {"name": "a", "profiles": [[[[[[[[[[[]]]]]]]]]]]}),
    ("Service", [("name", "a")]),
    ("Service", None),
    ("Document", {"docId": "x"}),
    ("Nonsense", {"name": "a"}),
    (None, {"name": "a"}),
    (["Service"], {"name": "a"}),
    ("Host", {"hostname": "a b"}),
    ("Endpoint", {"scheme": "http", "fqdn": "a"}),
]


def test_hostile_facts_are_refused_and_nothing_is_recorded(house: World) -> None:
    kb = house.kb()
    for label, properties in HOSTILE:
        error = refused("E_ENTITY_VALIDATION", kb.ingest_structured, label, properties)
        assert len(error.message) < 600
    good = {"entity_type": "Host", "properties": {"hostname": "good"}}
    for items in (
        [good, {"entity_type": "Host", "properties": {"hostname": "!"}}],
        [good, {"entity_type": "Host", "properties": {"hostname": "x"}, "colour": 1}],
        [good, {"entity_type": "Host", "type": "RUNS"}],
        [good, "Host"],
        [good, None],
        [good] * 10_001,
        good,
        [{**good, "aliases": "abc"}],
        [{**good, "aliases": [""]}],
        [{**good, "raw_content": 7}],
        [{**good, "raw_content": "x" * 1_000_001}],
        [{**good, "raw_content": "x", "raw_file_path": "y"}],
        [{**good, "raw_file_path": "/nowhere/at/all"}],
        [{**good, "raw_file_path": "\x00"}],
        [{"type": "MENTIONS", "start": "jellyfin", "end": "jellyfin"}],
        [
            {
                "type": "RUNS",
                "start": {"label": "Host", "hostname": "a"},
                "end": {"label": "Host", "hostname": "a"},
            }
        ],
        [
            {
                "type": "BINDS",
                "start": {"label": "Service", "name": "a"},
                "end": {"label": "Host", "hostname": "a"},
            }
        ],
        [
            {
                "type": "DEPENDS_ON",
                "start": {"label": "Service", "name": "a", "port": 1},
                "end": {"label": "Service", "name": "b"},
            }
        ],
        [{"type": "DEPENDS_ON", "start": {"label": "Service", "name": "a"}}],
        [
            {
                "type": ["DEPENDS_ON"],
                "start": {"label": "Service", "name": "a"},
                "end": {"label": "Service", "name": "b"},
            }
        ],
    ):
        refused("E_ENTITY_VALIDATION", kb.ingest_structured_batch, items)
    refused(
        "E_NOT_FOUND",
        kb.ingest_structured_batch,
        [{"type": "DEPENDS_ON", "start": "nobody", "end": "jellyfin"}],
    )
    for field, value in (
        ("port", "x"),
        ("scope", "x"),
        ("name", "x"),
        ("colour", 1),
        (7, 1),
        (None, 1),
        ("port", {1: 2}),
    ):
        refused("E_ENTITY_VALIDATION", kb.correct, "jellyfin", field, value)
    refused("E_ENTITY_VALIDATION", kb.correct, "jellyfin", "port", 1, "x" * 5000)
    refused("E_ENTITY_VALIDATION", kb.correct, "jellyfin", "port", 1, "a\x07b")
    refused("E_ENTITY_VALIDATION", kb.correct, "jellyfin", "port", 1, who=7)
    refused("E_ENTITY_VALIDATION", kb.correct, "Runbook", "title", "x")
    refused("E_ENTITY_VALIDATION", kb.merge, "jellyfin", "hearth.lan")
    refused("E_TRANSITION", kb.merge, "jellyfin", "jellyfin")
    for what in ("", " ", 7, None, "🦈"):
        assert refused(("E_QUERY" if what != "🦈" else "E_NOT_FOUND"), kb.correct, what, "port", 1)
    for what in ("", "zz", "🦈"):
        refused("E_NOT_FOUND", kb.undo, what)
    refused("E_QUERY", kb.undo, 7)
    assert kb.assertions(all_states=True).items == ()


def test_a_fresh_home_can_begin_with_what_people_state(world: World) -> None:
    kb = KnowledgeBase(world.settings(world.home), "default")
    done = kb.ingest_structured("Host", {"hostname": "nas-one", "ip": "10.0.0.9"})
    assert done.final
    assert [r["key"] for r in world.kb().nodes().to_pylist() if r["label"] == "Host"] == ["nas-one"]


def test_thousands_of_decisions_are_one_step(house: World) -> None:
    kb = house.kb()
    facts = [
        {"entity_type": "Host", "properties": {"hostname": f"h{i}", "ip": "10.0.0.1"}} for i in range(1_000)
    ]
    done = kb.ingest_structured_batch(facts, "inventory")
    assert len({d.observation_id for d in done}) == 1_000
    corrections = [
        NewAssertion(
            "field",
            ids.canonical_json(
                {
                    "label": "Host",
                    "key": f"h{i % 1_000}",
                    "name": f"h{i % 1_000}",
                    "field": "description",
                    "value": str(i),
                }
            ),
            "ann",
            "",
        )
        for i in range(3_000)
    ]
    with house.workspace.leases.namespace("default"):
        house.workspace.catalog.assertions.add("default", corrections)
    (stage,) = (s for s in CHAIN.of_namespace if s.name == "entity_snapshots")
    assert stage.run(house.workspace, "default", "").counts["entities_written"] == 1_000
    kb.correct("h7", "description", "the last word")
    hosts = {r["key"]: json.loads(r["properties"]) for r in kb.nodes().to_pylist() if r["label"] == "Host"}
    assert hosts["h7"]["description"] == "the last word" and hosts["h8"]["description"] == "2008"
    assert len(kb.assertions(limit=50).items) == 50 and kb.assertions(limit=50).truncated


def test_ports_of_one_service_are_routes_of_their_own_and_decisions_of_before_hold(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    confs = world.source("confs", "swag", proxy="gate")
    (confs / "two.conf").write_text(
        "upstream app { server web:8001; server web:8002; }\n"
        "server { server_name two.example.org; location / { proxy_pass http://app; } }\n"
        "server { server_name one.example.org; location / { proxy_pass http://web:9000; } }\n"
    )

    def routes() -> list[tuple[str, int]]:
        return sorted(
            (e["properties"]["host"], e["properties"]["port"]) for e in edges(world.kb(), "ROUTES_TO")
        )

    with monkeypatch.context() as earlier:
        # As release 0.1 has it: a port does not tell a route from another.
        earlier.setitem(EDGES, "ROUTES_TO", replace(EDGES["ROUTES_TO"], further=()))
        earlier.setattr(NginxExtractor, "version", "3")
        world.ingest()
        assert [host for host, _ in routes()] == ["one.example.org", "two.example.org"]
        (one,) = (e for e in edges(world.kb(), "ROUTES_TO") if e["properties"]["port"] == 9000)
        decided = world.kb().correct_edge(one["edge_id"], reason="it moved", who="ann")
        assert [host for host, _ in routes()] == ["two.example.org"]
    world.ingest()
    two = [("two.example.org", 8001), ("two.example.org", 8002)]
    assert routes() == two
    check_replay(world)
    world.kb().undo(decided.observation_id)
    assert routes() == [("one.example.org", 9000), *two]
    first = next(e for e in edges(world.kb(), "ROUTES_TO") if e["properties"]["port"] == 8001)
    refused("E_ENTITY_VALIDATION", world.kb().correct_edge, first["edge_id"], "port", 8003, "it moved")
    world.kb().correct_edge(first["edge_id"], reason="it is gone", who="ann")
    assert routes() == [("one.example.org", 9000), two[1]]
