"""Tier C with a real model on the CPU, over HTTP: what it says is held to the text, whatever it knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.inference import llama
from taboot_pipelines_tests.world import World

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(llama.missing()), reason=f"a real model on a real server: {llama.missing()}"),
]

TEXT = """# House

The frontend-app service depends on postgres. Grafana reads its metrics from prometheus at
http://prometheus.lan:9090/ every minute.

The name nas.lan resolves to 10.0.0.7, and Jellyfin publishes port 8096 on nas.lan.
"""


def test_a_small_model_is_asked_once_and_invents_nothing(tmp_path: Path, tei: FakeTei) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", llama.__name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        model = {"url": url, "max_concurrency": 2, "max_output_tokens": 160, "timeout_seconds": 300}
        world = World(tmp_path, tei.url, llm=model)
        (world.source("notes") / "a.md").write_text(TEXT)
        report = next(r for r in world.ingest() if r.stage == "tier_c_triples")
        counts = report.counts
        assert (counts["windows"], counts["asked"], counts["waiting"]) == (1, 1, 0)
        assert counts["input_tokens"] > 100 and counts["output_tokens"] > 0
        # Cut off or complete, refused or believed: nothing stands there that the text does not hold.
        for edge in world.kb().edges().to_pylist():
            if edge["source"] == "tier_c":
                quote = world.kb().explain(edge["edge_id"]).quote
                assert quote and quote in TEXT
        letters = world.workspace.catalog.dead_letters.find("default", stage="tier_c_windows")
        assert len(letters) == counts["failed"] <= 1
        assert {x["code"] for x in letters} <= {"E_LLM_MALFORMED", "E_SCHEMA_INVALID", "E_LLM_TIMEOUT"}
        if not letters:
            again = next(r for r in world.ingest() if r.stage == "tier_c_triples")
            assert again.skipped == "unchanged"
        world.workspace.close()
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
