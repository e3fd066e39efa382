"""A UniFi controller through the whole chain: facts that lead to bytes, changes, and secrets that stop."""

from __future__ import annotations

import copy
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines_tests.acceptance import ingest_process
from taboot_pipelines_tests.connectors.test_unifi import counters, house
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.fakes.unifi import KEY, PASSWORD, USER, FakeController
from taboot_pipelines_tests.world import World, contents, differences, logical

#: As people choose them, so that their names alone give them away.
PLANTED = ("bovaregimux", "tolifanedux", "48612-09513", "pumedarokix", "ganozivelax", "0917264533")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeController]:
    monkeypatch.setenv("UNIFI_KEY", KEY)
    monkeypatch.setenv("UNIFI_PASSWORD", PASSWORD)
    with FakeController() as controller:
        controller.sites = {"default": house()}
        controller.sites["default"]["wlans"][0] |= {"x_iapp_key": PLANTED[0], "x_passphrase": PLANTED[1]}
        controller.sites["default"]["networks"].append(
            {
                "_id": "v1",
                "name": "Roads",
                "purpose": "remote-user-vpn",
                "vpn_type": "wireguard-server",
                "ip_subnet": "10.60.0.1/24",
                "x_wireguard_private_key": PLANTED[3],
            }
        )
        controller.sites["default"]["devices"][0] |= {"syslog_key": PLANTED[4], "x_vwirekey": PLANTED[5]}
        controller.system = {"hostname": "unifi", "ip_addrs": ["10.0.0.9"], "version": "9.0.114", "uptime": 5}
        yield controller


@pytest.fixture
def world(tmp_path: Path, tei: FakeTei, fake: FakeController) -> Iterator[World]:
    made = World(tmp_path, tei.url)
    made.source("house", "unifi", path=None, base_url=fake.url, api_key="${UNIFI_KEY}")
    files = made.source("files", "unifi")
    voucher = {"_id": "1", "admin_name": "a", "code": PLANTED[2]}
    (files / "vouchers.json").write_text(json.dumps({"meta": {"rc": "ok"}, "data": [voucher]}, indent=1))
    made.ingest()
    yield made
    made.workspace.close()


def new_blobs(world: World) -> int:
    (report,) = (r for r in world.ingest("house") if r.stage == "raw_blobs")
    return int(report.counts.get("new_blobs", 0))


def test_facts_lead_to_the_bytes_that_say_them(world: World) -> None:
    kb = world.kb()
    nodes = {(row["label"], row["name"]) for row in kb.nodes().to_pylist()}
    assert {
        ("Host", "usg"),
        ("Host", "unifi"),
        ("Host", "nas.lan"),
        ("IP", "192.168.0.1"),
        ("Network", "LAN"),
        ("Network", "Roads"),
        ("Service", "web"),
        ("VPNTunnel", "Roads"),
    } <= nodes
    edges = [row for row in kb.edges().to_pylist() if row["type"] != "MENTIONS"]
    assert {"RESOLVES_TO", "CONNECTS_TO", "BINDS", "USES_VPN"} == {row["type"] for row in edges}
    for row in edges:
        why = kb.explain(row["edge_id"])
        assert row["extraction_method"] == f"unifi_{row['type'].lower()}"
        assert len(why.quotes) == len(json.loads(row["supports"]))
        for support in json.loads(row["supports"]):
            blob = world.workspace.blobs.get("default", support["blob"])
            quoted = blob[support["start"] : support["end"]].decode()
            assert quoted.startswith('"') and quoted.endswith('"'), "the value alone"
            assert row["end_basis"] != "bytes" or row["end_name"] in quoted


def test_traffic_makes_no_blob_and_no_work(world: World, fake: FakeController) -> None:
    before = logical(world.workspace)
    assert new_blobs(world) == 0
    fake.sites["default"]["devices"] = counters(fake.sites["default"]["devices"], 9)
    fake.sites["default"]["clients"] = counters(fake.sites["default"]["clients"], 9)
    assert new_blobs(world) == 0
    assert logical(world.workspace) == before


def test_changes_and_failures_end_as_from_scratch(world: World, fake: FakeController) -> None:
    site = fake.sites["default"]
    fresh = copy.deepcopy(site)
    site["devices"][1]["name"] = "USG at the back"
    site["clients"].pop()
    new_blobs(world)
    fake.odd = lambda path: (403, b"") if path.endswith("networkconf") else None
    site["networks"].pop()
    site["dns"].append({"_id": "r9", "key": "new.lan", "record_type": "A", "value": "10.0.0.77"})
    new_blobs(world)
    names = {row["name"] for row in world.kb().nodes().to_pylist()}
    assert "new.lan" in names and "Roads" in names, "what could not be listed is not deleted"
    fake.odd = None
    new_blobs(world)
    assert "Roads" not in {row["name"] for row in world.kb().nodes().to_pylist()}
    site.update(fresh)
    new_blobs(world)
    home = world.replay()
    scratch = world.open(home)
    try:
        assert differences(logical(world.workspace), logical(scratch)) == {}
    finally:
        scratch.close()


@pytest.mark.slow
@pytest.mark.parametrize("request_number", [2, 12])
def test_a_killed_run_loses_nothing(
    tmp_path: Path, tei: FakeTei, fake: FakeController, request_number: int
) -> None:
    world = World(tmp_path, tei.url)
    world.source("house", "unifi", path=None, base_url=fake.url, api_key="${UNIFI_KEY}")
    arguments = (str(world.home), str(world.directory / "sources.yaml"), tei.url, "60", "house")
    running = subprocess.Popen(
        [sys.executable, "-m", ingest_process.__name__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    seen = itertools.count(1)

    def odd(_: str) -> None:
        if next(seen) == request_number:
            running.kill()

    fake.odd = odd
    running.communicate(b"\n", timeout=120)
    assert running.returncode == -signal.SIGKILL
    fake.odd = None
    world.ingest()
    assert new_blobs(world) == 0
    undisturbed = World(tmp_path / "other", tei.url)
    undisturbed.source("house", "unifi", path=None, base_url=fake.url, api_key="${UNIFI_KEY}")
    undisturbed.ingest()
    for made in (world, undisturbed):
        made.workspace.close()

    def rows(made: World) -> set[tuple[str, ...]]:
        table = (
            made.kb().edges().select(["type", "start_key", "end_key", "properties", "doc_id", "blob_sha256"])
        )
        return {tuple(map(str, row.values())) for row in table.to_pylist()}

    assert rows(world) == rows(undisturbed) != set()


def test_no_secret_is_anywhere_but_in_the_blobs(world: World) -> None:
    world.source(
        "account",
        "unifi",
        path=None,
        base_url=world.entries[0]["base_url"],
        username=USER,
        password_env="UNIFI_PASSWORD",
    )
    world.ingest()
    secrets = [*PLANTED, KEY, PASSWORD, "planted-session"]
    blobs = {
        word
        for path, text in contents(world.home)
        if path.startswith("blobs")
        for word in secrets
        if word in text
    }
    assert set(PLANTED) <= blobs, "what was planted was read"
    held = [
        (path, word)
        for path, text in contents(world.home)
        if not path.startswith("blobs")
        for word in secrets
        if word.casefold() in text
    ]
    assert held == []


def test_each_object_and_each_file_is_a_document(world: World) -> None:
    urls = [row["url"] for row in world.kb().documents().to_pylist()]
    assert "house:sites/default/devices/78-8a-20-33-44-55.json" in urls
    assert [url for url in urls if url.endswith("vouchers.json")]
