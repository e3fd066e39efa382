"""Deciding from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines_tests.cli.test_cli import COMPOSE, Shell
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World


@pytest.fixture
def shell(tmp_path: Path, tei: FakeTei) -> Iterator[Shell]:
    world = World(tmp_path, tei.url)
    (world.source("stack", "compose", host="box.lan") / "compose.yaml").write_text(COMPOSE)
    world.ingest()
    yield Shell(world)
    world.workspace.close()


def test_a_person_corrects_states_merges_and_takes_it_back(shell: Shell, tmp_path: Path) -> None:
    done = shell.json(
        "correct", "web", "port", "8081", "--reason", "moved", "--who", "ann", "--label", "Service"
    )
    assert (done["kind"], done["priority"], done["final"]) == ("field", 1000, True)
    said = shell.json("supports", "web", "--label", "Service")
    assert said["entity"]["properties"]["port"] == 8081
    assert "port = 8081  (ann," in shell("supports", "web", "--label", "Service")
    (edge,) = (e for e in shell.json("neighbors", "web")["edges"] if e["type"] == "DEPENDS_ON")
    shown = shell("correct", edge["edge_id"], "condition", "service_healthy", "--text", "--reason", "looked")
    assert "condition of" in shown and 'is now "service_healthy"' in shown and "done" not in shown
    assert shown.split()[-1] in {i["observation_id"][:12] for i in shell.json("assertions")["items"]}
    assert "looked" in shell("explain", edge["edge_id"])
    shell("retract", edge["edge_id"])
    assert not [e for e in shell.json("neighbors", "web")["edges"] if e["type"] == "DEPENDS_ON"]
    shown = tmp_path / "shown.txt"
    shown.write_text("serial 4711")
    (stated,) = shell.json("add", "Host", "hostname=nas", "ip=10.0.0.9", "--raw", str(shown))
    assert stated["entity_id"] == "nas" and stated["source_id"]
    facts = tmp_path / "facts.jsonl"
    facts.write_text(json.dumps({"entity_type": "Host", "properties": {"hostname": "nas.lan"}}) + "\n\n")
    assert "1 facts." in shell("add", "--file", str(facts))
    shell("merge", "nas.lan", "nas", "--reason", "one box")
    listed = shell.json("assertions")["items"]
    assert [i["kind"] for i in listed] == ["field", "edge", "edge", "entity", "entity", "merge"]
    table = shell("assertions")
    assert "is not so" in table and "one box" in table
    for item in reversed(listed):
        shell("undo", item["observation_id"][:16])
    assert shell.json("assertions")["items"] == []
    assert {i["state"] for i in shell.json("assertions", "--all")["items"]} == {"undone", "in_force"}
    assert "erased" in shell("undo", listed[0]["observation_id"], "--erase")


def test_what_a_person_says_it_is_answers_what_it_is(shell: Shell) -> None:
    said = shell.json(
        "correct", "web", "description", "Serves the family album.", "--who", "ann", "--label", "Service"
    )
    answer = shell.json("ask", "What is web?")
    assert "Serves the family album." in answer["text"] and "ann" in answer["text"]
    assert answer["citations"][0]["url"].endswith("compose.yaml"), "where it is declared"
    shell("undo", said["observation_id"])
    assert "album" not in shell.json("ask", "What is web?")["text"]


def test_what_is_wrong_is_said_with_the_remedy(shell: Shell, tmp_path: Path) -> None:
    answer = shell.json("correct", "web", "port", "many", "--label", "Service", code=1)
    assert answer["error"]["code"] == "E_ENTITY_VALIDATION"
    shell("correct", "nobody", "port", "1", code=1)
    assert "E_NOT_FOUND" in shell.err
    shell("add", code=2)
    shell("add", "Host", "hostname", code=2)
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\nnonsense\n")
    shell("add", "--file", str(bad), code=1)
    assert "Line 2 is not JSON" in shell.err
    shell("undo", "ffff", code=1)
    assert "E_NOT_FOUND" in shell.err
