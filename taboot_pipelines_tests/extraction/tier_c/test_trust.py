"""A chat model is believed by measure: one that is right is served, one that lies never is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gold.prose_model import GOOD_AT, MODELS, Measured, Open, measure, stand_in
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.quality import ALL
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.model_trials import Trial, try_model
from taboot_pipelines.stages.tier_c_triples import trial_of
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests.fakes.openai import FakeOpenAi

#: Documents of the open set, those with most facts.
DOCUMENTS = 40


@pytest.fixture(scope="module")
def open_set(data: Path) -> Open:
    return Open.load(data, DOCUMENTS)


@pytest.fixture
def llm() -> Iterator[FakeOpenAi]:
    with FakeOpenAi(context=10**6) as server:
        yield server


def workspace(home: Path, llm: FakeOpenAi, **extraction: Any) -> Workspace:
    model = {"url": llm.url, "model": "fake/llm", "max_retries": 0}
    return Workspace(load_settings(home=home, llm=model, extraction={"min_precision": 0.85, **extraction}))


def measured(name: str, home: Path, data: Path, open_set: Open, llm: FakeOpenAi) -> Measured:
    llm.react = stand_in(open_set, MODELS[name])
    opened = workspace(home, llm)
    try:
        return measure(opened, data, open_set)
    finally:
        opened.close()


def test_an_oracle_is_served(tmp_path: Path, data: Path, open_set: Open, llm: FakeOpenAi) -> None:
    said = measured("oracle", tmp_path, data, open_set, llm)
    assert open_set.in_window >= 0.95 * open_set.units > 50
    assert said.right >= 0.9 * (said.right + said.missed) and said.candidates == 0
    assert said.trial.scores[ALL].precision == 1.0


def test_of_a_liar_nothing_is_served(tmp_path: Path, data: Path, open_set: Open, llm: FakeOpenAi) -> None:
    said = measured("liar", tmp_path, data, open_set, llm)
    assert said.trial.served == [] and (said.right, said.wrong) == (0, 0)
    assert said.candidates > 300 and said.trial.scores[ALL].found > 300


def test_a_mixed_model_is_served_in_what_it_is_good_at(
    tmp_path: Path, data: Path, open_set: Open, llm: FakeOpenAi
) -> None:
    said = measured("mixed", tmp_path, data, open_set, llm)
    assert set(said.trial.served) == GOOD_AT
    assert said.right > 60 and said.candidates > 200


def tried(opened: Workspace) -> Trial:
    return try_model(opened, "default", trial_of(opened, "default"), lambda _done, _all: None)


def test_a_trial_costs_once_and_keeps_what_other_models_have(
    tmp_path: Path, open_set: Open, llm: FakeOpenAi
) -> None:
    llm.react = stand_in(open_set, MODELS["oracle"])
    (tmp_path / "calibration.json").write_text('{"other": {"version": "x", "relations": {}}}')
    opened = workspace(tmp_path, llm)
    first = tried(opened)
    asked = llm.requests
    again = tried(opened)
    assert llm.requests == asked == first.account.asked == again.account.cached > 50
    assert again.scores == first.scores and set(first.served) == set(first.scores) - {ALL}
    assert json.loads((tmp_path / "calibration.json").read_text()).keys() == {"other", "fake/llm"}
    opened.close()


def test_passages_of_the_user_are_measured_along(tmp_path: Path, open_set: Open, llm: FakeOpenAi) -> None:
    gold = tmp_path / "gold.jsonl"
    sentence = "Quassel keeps its backlog in the farm's Postgres."
    text = f"# Chat\n\n{sentence} It was in SQLite once.\n"
    labels = [["DEPENDS_ON", "Quassel", "Postgres", {}]]
    gold.write_text(json.dumps({"text": text, "sentence": sentence, "triples": labels}))
    oracle = stand_in(open_set, MODELS["oracle"])
    llm.react = lambda body: '{"facts": []}' if "Quassel" in str(body) else oracle(body)
    opened = workspace(tmp_path, llm, gold=gold)
    said = tried(opened)
    assert said.own_passages == 1
    without = tried_without_gold(opened)
    assert said.scores["DEPENDS_ON"].labelled == without.scores["DEPENDS_ON"].labelled + 1
    opened.close()


def tried_without_gold(opened: Workspace) -> Trial:
    opened.settings.extraction.gold = None
    return tried(opened)


def test_a_server_that_fails_leaves_no_calibration(tmp_path: Path, llm: FakeOpenAi) -> None:
    opened = workspace(tmp_path, llm)
    llm.fail(500, times=1000)
    with pytest.raises(TabootError, match=r"E_LLM|E_CIRCUIT"):
        tried(opened)
    assert not (tmp_path / "calibration.json").exists()
    opened.close()
    without = Workspace(load_settings(home=tmp_path / "other"))
    with pytest.raises(TabootError, match=r"E_QUERY.*No chat model"):
        trial_of(without, "default")
    without.close()
