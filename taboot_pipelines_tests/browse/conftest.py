"""The demo's house in a home of its own, and ``taboot browse`` over it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from starlette.testclient import TestClient

from taboot_pipelines.browse.app import make_app
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests import servers
from taboot_pipelines_tests.browse.house import EXAMPLE, House, Served
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.needs import BROWSER
from taboot_pipelines_tests.world import take_in

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
#: ``taboot``, which says on SIGUSR1 what each of its threads is doing.
STARTED = """
import faulthandler, signal
faulthandler.register(signal.SIGUSR1, all_threads=True)
from taboot_pipelines.cli import main
main()
"""


def _take_in(root: Path) -> None:
    """The demo's sources, copied, with one file that cannot be read; ingested once for all workers."""
    shutil.copytree(EXAMPLE, root / "sources")
    (root / "sources" / "stacks" / "broken").mkdir()
    (root / "sources" / "stacks" / "broken" / "compose.yaml").write_text("services:\n  web: [nginx\n")
    workspace = _opened(root)
    take_in(workspace)
    workspace.close()


def _opened(root: Path) -> Workspace:
    workspace = Workspace(load_settings(home=root / "home", sources=root / "sources" / "sources.yaml"))
    workspace.sync_sources()
    return workspace


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The house in a place of its own."""
    root = tmp_path_factory.mktemp("house") / "house"
    shutil.copytree(servers.RUN.once("house", _take_in), root)
    workspace = _opened(root)
    yield House(root, workspace.settings, workspace)
    workspace.close()


@pytest.fixture(scope="session")
def kb(house: House) -> KnowledgeBase:
    return KnowledgeBase.open(settings=house.settings)


@pytest.fixture(scope="session")
def client(kb: KnowledgeBase) -> TestClient:
    """Asks the pages in this process, with the cookie."""
    made = TestClient(make_app(kb, "token", "once", 80), base_url="http://localhost", follow_redirects=False)
    assert made.get("/?token=token").status_code == 303
    return made


@pytest.fixture(scope="session")
def served(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """``taboot browse`` as a person starts it."""
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
        "TABOOT_HOME": str(house.settings.home_dir),
    }
    log = tmp_path_factory.mktemp("browse") / "errors.txt"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*python(), "-c", STARTED, "browse", "--no-open"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:"), log.read_text()
    served = Served(address)
    yield served
    try:
        httpx.get(served.address, follow_redirects=True, timeout=60)
    except httpx.HTTPError:
        process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        raise AssertionError(f"The server stands still:\n{log.read_text()[-20_000:]}") from None
    finally:
        process.terminate()
    process.wait(30)
    assert "Traceback" not in log.read_text(), log.read_text()[-2000:]


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    made = chromium.new_context(viewport={"width": 1280, "height": 900})
    made.set_default_timeout(60_000)
    yield made
    made.close()
