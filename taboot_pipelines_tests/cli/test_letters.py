"""``taboot letters`` and what ``taboot plan`` says of windows, over a fake model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.fakes.reading_model import reads, window_of
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World


@pytest.fixture
def llm() -> Iterator[FakeOpenAi]:
    with FakeOpenAi(context=10**6) as server:
        server.react = reads
        yield server


@pytest.fixture
def shell(tmp_path: Path, tei: FakeTei, llm: FakeOpenAi) -> Iterator[Shell]:
    world = World(tmp_path, tei.url, llm={"url": llm.url, "max_retries": 0})
    notes = world.source("notes")
    (notes / "a.md").write_text("# Site\n\nHere mastodon depends on postgres.\npassword: swordfish-x-9\n")
    (notes / "b.md").write_text("Here gitea talks to loki.\n")
    (notes / "copy.md").write_text("Here gitea talks to loki.\n")
    made = Shell(world)
    made.environment |= {
        "TABOOT_LLM__URL": llm.url,
        "TABOOT_LLM__MAX_RETRIES": "0",
        # The fake has no calibration.
        "TABOOT_EXTRACTION__MIN_PRECISION": "0",
    }
    yield made
    world.workspace.close()


def windows(told: dict[str, list[dict[str, object]]]) -> dict[object, tuple[object, object]]:
    return {p["what"]: (p["items"], p["tokens"]) for p in told["plan"] if "tokens" in p}


def test_a_plan_tells_exactly_what_a_run_asks(shell: Shell, llm: FakeOpenAi) -> None:
    shell.world.workspace.sync_sources()
    for stage in ("raw_blobs", "documents", "chunks"):
        shell.world.run(stage, "notes")
    told = windows(shell.json("plan", "notes"))
    assert told["windows to ask about"][0] == 2 and told["windows answered before"] == (0, 0)
    assert "windows to ask about" in shell("plan", "notes") and llm.requests == 0
    shell.world.ingest()
    assert llm.requests == 2
    after = windows(shell.json("plan", "notes"))
    assert after["windows to ask about"] == (0, 0) and after["windows answered before"][0] == 3


def test_letters_are_listed_shown_and_tried_again(shell: Shell, llm: FakeOpenAi) -> None:
    broken = {"mastodon", "gitea"}
    llm.react = lambda body: "nonsense" if any(word in window_of(body) for word in broken) else reads(body)
    assert shell.json("letters", "list") == []
    shell.world.ingest()
    first, second = shell.json("letters", "list")
    assert {x["state"] for x in (first, second)} == {"RETRY_1"} and first["code"] == "E_LLM_MALFORMED"
    assert first["item"] in shell("letters", "list", "--source", "notes")
    assert shell.json("letters", "list", "--source", "other") == []
    places = {
        p["path"]: p for x in (first, second) for p in shell.json("letters", "show", x["item"])[0]["places"]
    }
    assert set(places) == {"a.md", "b.md", "copy.md"} and places["a.md"]["line"] == 3
    assert "mastodon depends on postgres" in places["a.md"]["text"] and "swordfish" not in str(places)
    shown = shell("letters", "show", first["item"])
    assert "E_LLM_MALFORMED" in shown and "RETRY_1" in shown and "line" in shown
    assert "E_NOT_FOUND" in (shell("letters", "show", "window:none", code=1) or shell.err)
    shell("letters", "replay", code=2)
    assert "1 letters are due" in shell("letters", "replay", first["item"], "--later")
    assert llm.requests == 2
    left = shell.json("letters", "replay", first["item"], code=1)
    assert left["replayed"] == 1 and [x["attempts"] for x in left["left"]] == [2]
    broken.clear()
    assert shell.json("letters", "replay", "--all") == {"replayed": 2, "left": []}
    assert shell.json("letters", "list") == [] and "no dead letter" in shell("letters", "list")
    found = {(r["start_name"], r["end_name"]) for r in shell.world.kb().edges().to_pylist()}
    assert {("mastodon", "postgres"), ("gitea", "loki")} <= found


def test_a_model_is_tried_and_its_facts_are_served_where_it_was_right(
    shell: Shell, llm: FakeOpenAi, tmp_path: Path
) -> None:
    shell.environment["TABOOT_EXTRACTION__MIN_PRECISION"] = "0.85"
    shell.world.workspace.sync_sources()
    told = shell.json("models", "try")
    assert (told["asked"], told["cached"]) == (llm.requests, 0) and told["relations"]["RUNS"]["recall"] == 0
    # The fake is right wherever it reads its one wording, of which the package has too little to tell.
    needs = told["relations"]["DEPENDS_ON"]
    assert needs["precision"] == 1.0 and needs["right"] < 4 and needs["facts"] == "candidates"
    gold = tmp_path / "gold.jsonl"
    with gold.open("w") as file:
        for number in range(6):
            said = f"Here farm{number} depends on store{number}."
            labels = [["DEPENDS_ON", f"farm{number}", f"store{number}", {}]]
            file.write(json.dumps({"text": said, "sentence": said, "triples": labels}) + "\n")
    shell.environment["TABOOT_EXTRACTION__GOLD"] = str(gold)
    shown = shell("models", "try")
    assert "544 passages of the package and 6 of yours: 1 windows asked about" in shown
    again = shell.json("models", "try")
    assert again["asked"] == 0 and again["cached"] == told["asked"] + 1 == llm.requests
    assert again["relations"]["DEPENDS_ON"]["facts"] == "served" and Path(again["file"]).exists()
    del shell.environment["TABOOT_LLM__URL"]
    assert "E_QUERY" in shell("models", "try", code=1) + shell.err
