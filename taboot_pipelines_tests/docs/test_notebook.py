"""The example notebook: its code runs on a fresh home, its kept outputs show what it promises and nothing of
a machine.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.retrieval.pictures.vega import MIME
from taboot_pipelines_tests.docs.conftest import ROOT

NOTEBOOK = ROOT / "examples" / "homelab.ipynb"


@pytest.fixture(scope="module")
def generator() -> Any:
    spec = importlib.util.spec_from_file_location("docs_notebook", ROOT / "docs" / "notebook.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(notebook: Any) -> str:
    """All outputs of a notebook as one text."""
    texts = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            assert output["output_type"] != "error"
            texts += [output.get("text", ""), *output.get("data", {}).values()]
    return "\n".join(t if isinstance(t, str) else "".join(t) for t in texts)


def says_what_it_promises(text: str, where: str) -> None:
    line = next(
        n
        for n, x in enumerate(
            (ROOT / "examples/homelab/runbooks/monitoring-and-alerting.md").read_text().splitlines(), 1
        )
        if "Grafana listens on port" in x
    )
    assert f">runbooks/monitoring-and-alerting.md:{line}<" in text, "the cited answer"
    assert f"Files are named from <code>{where}</code>" in text
    assert "<svg" in text and ">BINDS 3010→3000/tcp<" in text, "the picture of the neighbourhood"
    assert re.search(r">ROUTES_TO \d\d<", text) and "Named in documents" in text, "the picture of all of it"
    assert "<mark>restore</mark>" in text.lower(), "the words that were looked for"
    assert (
        "&quot;3010:3000&quot;" in text
        and "(Service grafana)-[BINDS 3010→3000/tcp]-&gt;(Host hearth.lan)" in text
    ), "the explained edge"
    way = [">swag<", ">paperless<", ">hearth.lan<", ">hearth-lan.tail5e1f.ts.net<"]
    assert all(name in text for name in way) and "4 steps" in text, "the picture of the path"
    sides = ["media/README.md says 8920 for jellyfin", ">README.md:6<", ">compose.yaml:124<"]
    assert all(side in text for side in [*sides, f"<code>{where}stacks/media/</code>"]), "the drift"
    assert "E_LANGUAGE" in text and "hearth.lan/household" in text
    assert "change-me" not in text, "a secret"


@pytest.mark.slow
def test_it_runs_on_a_fresh_home(generator: Any, homelab: Path) -> None:
    notebook = generator.build()
    generator.execute(notebook)
    says_what_it_promises(shown(notebook), f"{ROOT}/examples/homelab/")


def test_kept_outputs_are_of_this_code(generator: Any) -> None:
    kept = json.loads(NOTEBOOK.read_text("utf-8"))
    assert [(c["id"], c["cell_type"], c["source"]) for c in kept["cells"]] == [
        (c["id"], c["cell_type"], c["source"]) for c in generator.build()["cells"]
    ]
    assert all(
        c["execution_count"] and (c["outputs"] or c["id"] == "cell-01")
        for c in kept["cells"]
        if c["cell_type"] == "code"
    )
    says_what_it_promises(shown(kept), "examples/homelab/")


def test_pictures_are_kept_for_those_who_cannot_run_them() -> None:
    """Each for JupyterLab, for GitHub and for a terminal; the file stays one that can be looked through."""
    kept = json.loads(NOTEBOOK.read_text("utf-8"))
    pictures = [
        output["data"]
        for cell in kept["cells"]
        for output in cell.get("outputs", [])
        if MIME in output.get("data", {})
    ]
    assert len(pictures) == 3
    assert all(set(p) == {MIME, "image/svg+xml", "text/plain"} for p in pictures)
    assert NOTEBOOK.stat().st_size < 250_000


def test_kept_outputs_name_no_machine(generator: Any) -> None:
    text = NOTEBOOK.read_text("utf-8")
    assert str(ROOT) not in text and str(Path.home()) + "/" not in text and "/site-packages/" not in text
    # Every place that is shown lies in the example; absolute paths are only those that its documents speak
    # of.
    assert generator.without_machine({"a": [f"{ROOT}/examples/x"]}) == {"a": ["examples/x"]}
