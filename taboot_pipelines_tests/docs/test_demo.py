"""How `make demo` ends: what hangs on a thing, what a change would do, and the map."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from taboot_pipelines_tests.docs.conftest import ROOT, SOURCES

DEMO = ROOT / "examples" / "demo.py"


def test_it_ends_with_an_impact_a_check_and_the_map(
    ingested: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None and spec.loader is not None
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    home = tmp_path / "home"
    shutil.copytree(ingested, home)
    assert demo.whole(str(home), str(SOURCES)) == 0
    impact, check, handbook = capfd.readouterr().out.split("\n$ taboot ")[1:]
    assert impact.startswith("impact forge/db") and "gitea (forge)" in impact
    assert "port 3010→3000/tcp" in check and "port_taken: media/jellyfin and monitoring/grafana" in check
    assert handbook.startswith("handbook ")
    assert "<svg " in (home / "handbook" / "index.html").read_text("utf-8")
