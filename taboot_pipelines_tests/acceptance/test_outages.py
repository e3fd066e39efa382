"""Any one server stopped in the middle of a run and started again: nothing lost, nothing twice, the audit
finds nothing.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import storage_audit
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines_tests.acceptance.full_servers import settings_of
from taboot_pipelines_tests.acceptance.test_kill import untimed
from taboot_pipelines_tests.fakes.qdrant import FakeQdrant
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.held_port import held_port
from taboot_pipelines_tests.servers import own_neo4j, own_postgres, own_redis, own_s3, s3_at
from taboot_pipelines_tests.world import DATA, World, differences, graph

#: server -> (the stage in whose middle it is stopped, the codes with which a run may give up)
CASES: dict[str, tuple[str, set[str]]] = {
    "postgres": ("documents", {"E_CATALOG", "E_BUSY"}),
    "redis": ("chunks", {"E_REDIS"}),
    "qdrant": ("qdrant_points", {"E_QDRANT", "E_CIRCUIT_OPEN"}),
    "neo4j": ("neo4j_subgraph", {"E_NEO4J", "E_CIRCUIT_OPEN"}),
    "s3": ("chunks", {"E_STORAGE", "E_TABLE"}),
    "tei": ("embeddings", {"E_EMBEDDER", "E_CIRCUIT_OPEN"}),
}


#: How long a circuit stays open here.
REST_SECONDS = 1.0


class Stoppable(Protocol):
    url: str

    def stop(self) -> None: ...

    def start(self) -> object: ...


def sources(world: World) -> None:
    stacks = world.source("stacks", "compose", host="box.lan")
    for name in ("nginx-nodejs-redis", "traefik-golang"):
        for path in sorted(p for p in (DATA / "awesome-compose" / name).rglob("*") if p.is_file()):
            target = stacks / path.relative_to(DATA / "awesome-compose")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    notes = world.source("notes")
    # The shortest pages: it takes three batches of documents and many of points, not long ones.
    pages = (DATA / "linuxserver-docs-md" / "docs" / "images").glob("*.md")
    for path in sorted(pages, key=lambda p: (p.stat().st_size, p.name))[:18]:
        (notes / path.name).write_bytes(path.read_bytes())


class TeiProcess:
    """A fake embedding server in a process of its own, which can be killed and started again on its port."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._held = contextlib.ExitStack()
        self._port = self._held.enter_context(held_port())
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> TeiProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._held.close()

    def start(self) -> None:
        command = [sys.executable, "-m", "taboot_pipelines_tests.fakes.tei", "--port", str(self._port)]
        self._process = subprocess.Popen(
            command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert int(self._process.stdout.readline()) == self._port

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@contextlib.contextmanager
def one_of_our_own(kind: str, folder: Path) -> Iterator[Stoppable]:
    made: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
        "postgres": lambda: own_postgres(folder),
        "redis": lambda: own_redis(folder),
        "neo4j": lambda: own_neo4j(folder),
        "s3": lambda: own_s3(folder),
        "qdrant": FakeQdrant,
        "tei": TeiProcess,
    }
    with made[kind]() as server:
        yield server


def attempt(world: World, on_progress: Callable[[str, int, int], None]) -> set[str]:
    """One ingest of everything, each source like a run of its own; the codes that came."""
    codes = set()
    try:
        world.workspace.sync_sources()
    except TabootError as error:
        return {error.code}
    for source in ("stacks", "notes"):
        try:
            run_chain(world.workspace, source, on_progress)
        except TabootError as error:
            codes.add(error.code)
    return codes


def seen(world: World) -> dict[str, Any]:
    """What a reader sees, without times and without where the sources lie."""
    root = str(world.directory)
    return {k: [r.replace(root, "") for r in rows] for k, rows in untimed(graph(world.kb())).items()}


@pytest.fixture(scope="session")
def undisturbed(data: Path, tei: FakeTei, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a reader sees after an undisturbed ingest of the same sources into the default set-up."""
    calm = World(tmp_path_factory.mktemp("calm"), tei.url)
    sources(calm)
    calm.ingest()
    found = seen(calm)
    calm.workspace.close()
    return found


@pytest.mark.server
@pytest.mark.timeout(900)
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("kind", CASES)
def test_a_server_that_stops_in_the_middle(
    kind: str,
    long: bool,
    tmp_path: Path,
    tei: FakeTei,
    undisturbed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, allowed = CASES[kind]
    monkeypatch.setattr("taboot_pipelines.stores.state.circuit.SERVER_REST_SECONDS", REST_SECONDS)
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(one_of_our_own(kind, tmp_path))
        # What stops is a server of this test's own; the rest is the default set-up.
        settings = settings_of(
            catalog_url=own.url if kind == "postgres" else None,
            redis_url=own.url if kind == "redis" else None,
            qdrant_url=own.url if kind == "qdrant" else None,
            neo4j_url=own.url if kind == "neo4j" else None,
            s3=s3_at(own.url) if kind == "s3" else None,
        )
        settings["limits"] = {"batch_documents": 8}
        if kind == "qdrant":
            settings["qdrant"] |= {"batch_points": 32, "max_retries": 4}
        if kind == "neo4j":
            settings["neo4j"] |= {"batch_rows": 50, "timeout_seconds": 20}
        world = World(tmp_path / "full", own.url if kind == "tei" else tei.url, **settings)
        world.workspace.catalog.database.outage_seconds = 5.0
        sources(world)
        stopped = threading.Event()
        back: list[threading.Timer] = []

        def stop(name: str, done: int, total: int) -> None:
            if name == stage and not stopped.is_set():
                stopped.set()
                own.stop()
                if not long:
                    back.append(threading.Timer(1.5, own.start))
                    back[0].start()

        codes = attempt(world, stop)
        assert stopped.is_set(), f"no progress of {stage} was seen"
        assert codes <= allowed, codes
        if long:
            assert codes or kind == "redis", "the run did not notice"
            own.start()
        else:
            back[0].join()
        for _ in range(3):
            again = attempt(world, lambda *_: None)
            if not again:
                break
            assert again <= allowed, again
            if "E_CIRCUIT_OPEN" in again:
                time.sleep(REST_SECONDS)  # what the error asks for
        assert not again
        report = storage_audit.run(world.workspace, "default", deep=True)
        assert not report.found, report.found[:5]
        assert not differences(seen(world), undisturbed)
        world.workspace.close()
