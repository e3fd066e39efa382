"""The asset says how well sentences are read, and its check fails where that falls."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from taboot_pipelines.defs import build_defs
from taboot_pipelines.extraction import quality
from taboot_pipelines.settings import load_settings


def test_the_asset_measures_and_the_check_sees_a_fall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text(
        '{"text": "Plex listens on port 32400.", "sentence": "Plex listens on port 32400.",'
        ' "triples": [["EXPOSES_ENDPOINT", "Plex", "32400", {"port": 32400}]]}\n'
    )
    sources = tmp_path / "sources.yaml"
    sources.write_text("version: 1\nsources: []\n")
    settings = load_settings(home=tmp_path / "home", sources=sources, extraction={"gold": str(gold)})
    defs = build_defs(settings)
    job = defs.resolve_job_def("measure_extraction")
    with dg.DagsterInstance.ephemeral() as instance:
        first = job.execute_in_process(instance=instance)
        assert first.success and all(c.passed for c in first.get_asset_check_evaluations())
        (made,) = first.asset_materializations_for_node("extraction_quality")
        assert made.metadata["gold_f1"].value == 1.0
        rows = made.metadata["gold_relations"].records
        assert {row.data["relation"] for row in rows} == {"EXPOSES_ENDPOINT", quality.ALL}

        monkeypatch.setattr(quality, "found_by_rules", lambda passages: [[] for _ in passages])
        second = job.execute_in_process(instance=instance)
        (check,) = second.get_asset_check_evaluations()
        assert not check.passed
        assert set(check.metadata["fell"].value) == {"gold_f1"}


def test_without_labels_of_a_user_nothing_is_measured_and_that_is_said(tmp_path: Path) -> None:
    sources = tmp_path / "sources.yaml"
    sources.write_text("version: 1\nsources: []\n")
    job = build_defs(load_settings(home=tmp_path / "home", sources=sources)).resolve_job_def(
        "measure_extraction"
    )
    with dg.DagsterInstance.ephemeral() as instance:
        made = job.execute_in_process(instance=instance)
        (asset,) = made.asset_materializations_for_node("extraction_quality")
        assert asset.metadata["skipped"].value == "skipped: TABOOT_EXTRACTION__GOLD"
        assert all(check.passed for check in made.get_asset_check_evaluations())
