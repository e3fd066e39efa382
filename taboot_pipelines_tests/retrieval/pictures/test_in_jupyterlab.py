"""The pictures and tables in a real JupyterLab in Chromium: drawn by its Vega, read, asked and moved;
offline, and with texts of documents that would run if they could."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat.v4
import pytest
from nbformat.sign import NotebookNotary
from playwright.sync_api import BrowserContext, Page

from taboot_pipelines.retrieval.knowledge_base import KnowledgeBase
from taboot_pipelines.retrieval.pictures.picture import Picture
from taboot_pipelines_tests.browse.payloads import PAYLOADS
from taboot_pipelines_tests.retrieval.pictures.made import path, results, subgraph
from taboot_pipelines_tests.retrieval.pictures.test_layout import star

pytestmark = [pytest.mark.ui, pytest.mark.slow]

#: Pairs of words of the pictures of a page that lie over one another.
OVERPRINTED = """
() => [...document.querySelectorAll('.vega-embed svg')].flatMap((svg) => {
  const texts = [...svg.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1
    && b.top < a.bottom - 1;
  return texts.flatMap(([t, a], i) => texts.slice(i + 1).filter(([, b]) => meet(a, b)).map(([u]) => [t, u]));
})
"""


class Lab(NamedTuple):
    """A JupyterLab on loopback and the folder that it serves."""

    url: str
    folder: Path
    environment: dict[str, str]

    def write(self, name: str, shown: list[object], trusted: bool = True) -> str:
        """A notebook that holds results as its outputs, as if cells had just shown them; its address."""
        cells = [nbformat.v4.new_code_cell("x", outputs=outputs(one)) for one in shown]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
        file = self.folder / f"{name}.ipynb"
        nbformat.write(made, file)
        if trusted:
            # As `jupyter trust` does.
            notary = NotebookNotary(data_dir=self.environment["JUPYTER_DATA_DIR"])
            notary.sign(nbformat.read(file, as_version=4))
            notary.store.close()
        return f"{self.url}/lab/tree/{file.name}?token=token&reset"

    def wear(self, theme: str) -> None:
        """The theme of pages that are loaded from now on."""
        settings = Path(self.environment["JUPYTERLAB_SETTINGS_DIR"], "@jupyterlab", "apputils-extension")
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": theme}))


def outputs(shown: object) -> list[object]:
    """What a cell keeps of a picture, or of a result that is a table alone."""
    made = []
    pictures = [shown] if isinstance(shown, Picture) else []
    if hasattr(shown, "_ipython_display_"):
        pictures = [shown.show()]
    for picture in pictures:
        data, metadata = picture._repr_mimebundle_()
        data = json.loads(json.dumps(data, ensure_ascii=True).encode("utf-8", "replace"))
        made.append(nbformat.v4.new_output("display_data", data, metadata=metadata))
    if not isinstance(shown, Picture):
        html = shown._table() if hasattr(shown, "_table") else shown._repr_html_()
        made.append(nbformat.v4.new_output("display_data", {"text/html": html}))
    return made


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("lab")
    folder = root / "notebooks"
    folder.mkdir()
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_", "JUPYTER_"))},
        **{f"JUPYTER_{n}_DIR": str(root / n.lower()) for n in ("CONFIG", "DATA", "RUNTIME")},
        "JUPYTERLAB_SETTINGS_DIR": str(root / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(root / "workspaces"),
        "IPYTHONDIR": str(root / "ipython"),
    }
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    log = root / "log.txt"
    arguments = [
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
    ]
    arguments += ["--IdentityProvider.token=token", f"--ServerApp.root_dir={folder}", "--LabApp.news_url="]
    arguments += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *arguments],
            env=environment,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{url}/api?token=token", timeout=5).close()
            break
        except OSError:
            assert process.poll() is None, log.read_text()[-3000:]
            time.sleep(0.2)
    else:
        pytest.fail(log.read_text()[-3000:])
    yield Lab(url, folder, environment)
    process.terminate()
    process.wait(60)


class Seen(NamedTuple):
    """A page with what it asked of other hosts, and what ran that should not."""

    page: Page
    asked: list[str]
    ran: list[str]


def opened(context: BrowserContext, lab: Lab, address: str, pictures: int) -> Seen:
    page = context.new_page()
    page.set_viewport_size({"width": 1400, "height": 6000})
    asked: list[str] = []
    ran: list[str] = []
    page.expose_function("ran", lambda: ran.append("ran"))
    page.on("request", lambda r: asked.append(r.url) if _outside(r.url, lab) else None)
    page.on("dialog", lambda d: (ran.append(d.message), d.dismiss()))
    page.goto(address)
    page.wait_for_function(
        f"() => document.querySelectorAll('.vega-embed svg').length >= {pictures}", timeout=120_000
    )
    return Seen(page, asked, ran)


def _outside(url: str, lab: Lab) -> bool:
    return not url.startswith((f"{lab.url}/", "data:", "blob:"))


def test_real_neighbourhoods_can_be_read_and_asked(
    context: BrowserContext, lab: Lab, ingested: Path, shoot: Callable[..., None]
) -> None:
    kb = KnowledgeBase.open(ingested)
    around = kb.neighbors("grafana")
    shown: list[object] = [
        kb.show(),
        around,
        kb.show("hearth.lan", limit=100),
        kb.show("swag", hops=2, limit=60),
        kb.path("paper.hearth.example", "hearth-lan.tail5e1f.ts.net"),
        Picture.around("crowd", *star(60, 300), limit=200),
        kb.search("restore a database from backup", limit=3),
    ]
    address = lab.write("house", shown)
    seen = opened(context, lab, address, 6)
    page = seen.page
    assert page.evaluate(OVERPRINTED) == []
    shoot(page, "jupyterlab-light")
    # The words that were looked for: the table stands below the pictures, and is drawn after them.
    page.locator("mark").nth(3).wait_for()

    # Under the pointer a relation says its properties and where it is written.
    picture = page.locator(".vega-embed").nth(1)
    tag = picture.get_by_text("BINDS 3010→3000/tcp", exact=True)
    box = tag.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    tooltip = page.locator("#vg-tooltip-element")
    tooltip.filter(has_text="targetPort").wait_for()
    told = tooltip.inner_text()
    assert "3010" in told and "compose.yaml:" in told and "confidence" in told

    # A label of the legend, clicked, leaves what has to do with it; a double click brings the rest back.
    def faint() -> int:
        return int(picture.locator("svg text[opacity='0.12']").count())

    assert faint() == 0
    chip = picture.get_by_text("ReverseProxy 1", exact=True).bounding_box()
    assert chip is not None
    page.mouse.click(chip["x"] + 4, chip["y"] + 4)
    page.wait_for_function("() => document.querySelectorAll(\"svg text[opacity='0.12']\").length > 10")
    ground = picture.bounding_box()
    assert ground is not None
    x, y = ground["x"] + 30, ground["y"] + ground["height"] - 40
    page.mouse.dblclick(x, y)
    page.wait_for_function("() => document.querySelectorAll(\"svg text[opacity='0.12']\").length === 0")

    # It moves with the pointer that holds it, and grows with the wheel.
    grafana = picture.get_by_text("prometheus", exact=True)
    before = grafana.bounding_box()
    assert before is not None
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 10, y - 10)
    page.mouse.move(x + 40, y - 30)
    page.mouse.up()
    page.wait_for_timeout(300)
    moved = grafana.bounding_box()
    assert moved is not None
    assert moved["x"] - before["x"] == pytest.approx(40, abs=3)
    assert moved["y"] - before["y"] == pytest.approx(-30, abs=3)
    # The wheel alone is the page's.
    page.evaluate("() => addEventListener('wheel', (e) => { window.left = !e.defaultPrevented; })")
    page.mouse.wheel(0, -400)
    page.wait_for_function("() => window.left === true")
    assert grafana.bounding_box() == moved
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    page.wait_for_timeout(300)
    grown = grafana.bounding_box()
    assert grown is not None and grown["width"] > moved["width"] * 1.2

    page.close()

    lab.wear("JupyterLab Dark")
    again = opened(context, lab, address, 6)
    again.page.wait_for_selector("body[data-jp-theme-light='false']", state="attached")
    assert again.page.evaluate(OVERPRINTED) == []
    shoot(again.page, "jupyterlab-dark")
    assert [*seen.asked, *again.asked, *seen.ran, *again.ran] == []


@pytest.mark.parametrize("trusted", [True, False])
def test_nothing_of_a_document_runs(context: BrowserContext, lab: Lab, trusted: bool) -> None:
    """Each text as all that a picture and a table say, in one's own notebook and in that of a stranger."""
    texts = PAYLOADS[:: 1 if trusted else 5]
    shown: list[object] = [one for text in texts for one in (subgraph(text), path(text))]
    shown += [one for text in texts[::8] for one in results(text)[2:]]
    address = lab.write(f"hostile-{trusted}", shown, trusted)
    seen = opened(context, lab, address, 6)
    page = seen.page
    for picture in page.locator(".vega-embed").all()[:6]:
        for text in picture.locator("svg text").all()[:4]:
            box = text.bounding_box()
            if box is not None:
                page.mouse.move(box["x"] + 2, box["y"] + 2)
                page.wait_for_timeout(60)
    assert seen.asked == [] and seen.ran == []
