"""A tailnet through the whole chain, by its API (a fake of it) and from the recorded files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.acceptance.checks import (
    check_equal_to_replay,
    check_ledger,
    edges,
    letters,
    paths,
)
from taboot_pipelines_tests.extraction.tier_a.tailscale.reading import device
from taboot_pipelines_tests.fakes.tailscale import TOKEN, FakeTailnet
from taboot_pipelines_tests.world import World, holding

MACHINE, NODE = "mkey:" + "5f" * 32, "nodekey:" + "6a" * 32


@pytest.fixture
def tailnet(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTailnet]:
    monkeypatch.setenv("TS_TOKEN", TOKEN)
    with FakeTailnet() as fake:
        for made in (
            device("laptop", 1, machineKey=MACHINE, nodeKey=NODE),
            device("nas", 2, tags=["tag:nas"]),
            device("router", 3, advertisedRoutes=["10.1.0.0/16"], enabledRoutes=["10.1.0.0/16"]),
        ):
            fake.devices[made["nodeId"]] = made
        fake.policy = """{
          // everybody to the storage
          "acls": [{"action": "accept", "src": ["anna@example.com"], "dst": ["tag:nas:445,2049"]}],
        }"""
        yield fake


def declare(world: World, tailnet: FakeTailnet) -> None:
    world.source("home", "tailscale", path=None, base_url=tailnet.url, token="${TS_TOKEN}")


def facts(world: World) -> set[tuple[str, str, str]]:
    return {(e["type"], e["start_name"], e["end_name"]) for e in edges(world.kb()) if e["type"] != "MENTIONS"}


def test_a_tailnet_becomes_a_graph_whose_every_edge_is_explained(world: World, tailnet: FakeTailnet) -> None:
    declare(world, tailnet)
    world.ingest()
    assert letters(world) == {}
    check_ledger(world)
    assert facts(world) >= {
        ("RESOLVES_TO", "laptop", "100.64.0.1"),
        ("RESOLVES_TO", "laptop.tail1.ts.net", "fd7a:115c:a1e0::1"),
        ("USES_VPN", "nas", "nas.tail1.ts.net"),
        ("CONNECTS_TO", "router", "10.1.0.0/16"),
        ("CONNECTS_TO", "laptop", "nas"),
        ("CONNECTS_TO", "router", "nas"),
    }
    kb = world.kb()
    for row in edges(kb):
        kb.explain(row["edge_id"])
    (reach,) = [e for e in edges(kb) if (e["start_name"], e["end_name"]) == ("laptop", "nas")]
    assert json.loads(reach["properties"])["ports"] == "445,2049"
    assert "tag:nas:445,2049" in str(kb.explain(reach["edge_id"]))
    check_equal_to_replay(world)


def test_an_unchanged_tailnet_stores_nothing_and_keys_are_in_blobs_alone(
    world: World, tailnet: FakeTailnet
) -> None:
    declare(world, tailnet)
    world.ingest()
    before = sorted(p for p in (world.home / "blobs").rglob("*") if p.is_file())
    seen = dict(tailnet.hits)
    for one in tailnet.devices.values():
        one["lastSeen"] = "2031-01-01T00:00:00Z"
    (report,) = [r for r in world.ingest() if r.stage == "raw_blobs"]
    assert sorted(p for p in (world.home / "blobs").rglob("*") if p.is_file()) == before
    assert report.counts["not_modified"] == 8 and not report.counts.get("fetched")
    assert {path: count - seen[path] for path, count in tailnet.hits.items()} == dict.fromkeys(seen, 1)
    for key in (MACHINE[5:], NODE[8:]):
        assert {path.split("/")[0] for path in holding(world.home, key)} == {"blobs"}
    assert holding(world.home, TOKEN) == []


def test_changes_and_outages_end_in_the_stores_of_a_replay(world: World, tailnet: FakeTailnet) -> None:
    declare(world, tailnet)
    world.ingest()
    tailnet.fail("/devices", 403)
    with pytest.raises(TabootError, match="E_FORBIDDEN"):
        world.ingest()
    assert ("RESOLVES_TO", "laptop", "100.64.0.1") in facts(world)
    tailnet.heal()
    del tailnet.devices["n1"]
    tailnet.devices["n2"]["hostname"] = "storage"
    world.ingest()
    told = facts(world)
    assert ("CONNECTS_TO", "router", "storage") in told
    assert not {f for f in told if f[1] in ("laptop", "nas")}
    check_equal_to_replay(world)


def test_every_recorded_file_is_a_document(world: World, data: Any) -> None:
    world.source("net", "tailscale", path=str(data / "tailscale"))
    world.ingest()
    real = {p.relative_to(data / "tailscale").as_posix() for p in (data / "tailscale").rglob("*json")}
    assert paths(world.kb()) == {f"net/{name}" for name in real}
    assert set(letters(world).values()) <= {"E_UNRESOLVED"}
    kb = world.kb()
    found = [e for e in edges(kb) if e["type"] != "MENTIONS"]
    assert {e["type"] for e in found} == {"RESOLVES_TO", "USES_VPN", "CONNECTS_TO"}
    for row in [*found[::4], found[-1]]:
        kb.explain(row["edge_id"])
