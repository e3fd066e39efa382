"""A copy of what is published, in an empty folder, on a web server or in an object store, opened with nothing
else: it tells what the knowledge base tells."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.objects import Bucket
from taboot_pipelines_tests.world import DATA, World

HOUSES = DATA / "house-questions"

pytestmark = pytest.mark.skipif(not HOUSES.is_dir(), reason="needs the public houses of the test data")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("house")
    shutil.unpack_archive(HOUSES / "houses" / "seed.tar.xz", root)
    folder = str(root / "seed")
    with FakeTei(dimension=16) as embedder:
        made = World(root / "world", embedder.url, shards={"max_chunks": 64})
        made.source("stacks", "compose", path=folder, host="nas.lan", proxy="traefik")
        made.source("files", path=folder, interpret=True, exclude=["**/*compose*.y*ml", "**/.env"])
        made.ingest()
        yield made
        made.workspace.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "taboot"


def told(kb: KnowledgeBase, count: int = 25) -> list[Any]:
    """What a knowledge base answers to questions of other people, and all of its graph."""
    lines = (HOUSES / "questions.jsonl").read_text().splitlines()
    asked = [q["question"] for q in map(json.loads, lines)][:: len(lines) // count][:count]
    assert len(asked) == count
    answers = [kb.answer(question) for question in asked]
    assert sum(a.found for a in answers) > count // 10
    return [
        *(a.model_dump(exclude={"answer_id"}) for a in answers),
        *([(h.chunk_id, h.score, h.text) for h in kb.search(q, 5).hits] for q in asked),
        *(sorted(map(str, t.to_pylist())) for t in (kb.nodes(), kb.edges(), kb.documents())),
    ]


def copied(settings: Settings, where: str | Path) -> KnowledgeBase:
    return KnowledgeBase.open(where, settings=settings)


class _Handler(http.server.SimpleHTTPRequestHandler):
    asked: list[str]

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        self.asked.append(f"{code} {self.path.rsplit('/', 1)[1]}")


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A web server that shows ``copy``: its URL, and what it was asked for."""
    asked: list[str] = []
    handler = type("Handler", (_Handler,), {"asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/copy", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_copy_answers_as_the_original(
    house: World, tmp_path: Path, web: tuple[str, list[str]], cache: Path
) -> None:
    original, settings = house.kb(), house.workspace.settings
    done = original.export(tmp_path / "copy")
    assert done.bytes == done.written == sum(p.stat().st_size for p in tmp_path.rglob("*.duckdb"))
    wanted = told(original)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "copy").rglob("*")}
    for where in (tmp_path / "copy", web[0]):
        kb = copied(settings, where)
        assert kb.read_only and told(kb) == wanted
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "copy").rglob("*")} == before
    assert not (cache / "copies").exists()
    # What is read once lies in the cache: the next process asks for the manifest.
    url, asked = web
    assert len([a for a in asked if a == "200 shard-00000.duckdb"]) == len(original.manifest.shards)
    asked.clear()
    assert told(copied(settings, url)) == wanted
    assert set(asked) == {f"200 {original.namespace}.duckdb.manifest.json"}


@pytest.mark.server
def test_a_copy_in_an_object_store_answers_as_the_original(house: World, s3: Any) -> None:
    original, bucket = house.kb(), Bucket(s3)
    settings = house.workspace.settings.model_copy(update={"storage": bucket.storage})
    kb = KnowledgeBase.open(settings=settings)
    assert kb.export(bucket.url).written > 0
    assert told(copied(settings, bucket.url)) == told(original)


def test_a_copy_is_brought_up_to_date(house: World, tmp_path: Path) -> None:
    settings, folder = house.workspace.settings, tmp_path / "copy"
    first = house.kb().export(folder)
    with pytest.raises(TabootError, match="E_CONFLICT"):
        house.kb().export(folder)
    assert house.kb().export(folder, replace=True).written == 0
    open_copy = copied(settings, folder)
    version = open_copy.manifest.version
    (house.source("new") / "a.md").write_text("# Lantern\n\nThe lantern of the north tower.\n")
    house.ingest("new")
    again = house.kb().export(folder, replace=True)
    assert 0 < again.written < first.bytes and open_copy.manifest.version == version + 1
    assert [h.title for h in open_copy.search("lantern of the tower", 1).hits] == ["Lantern"]
    shard = next(p for p in folder.rglob("*.duckdb"))
    data = shard.read_bytes()
    shard.chmod(0o644)
    shard.write_bytes(data[:-1])
    assert house.kb().export(folder, replace=True).written == len(data) and shard.read_bytes() == data


def test_what_is_no_copy_is_said(house: World, tmp_path: Path, web: tuple[str, list[str]]) -> None:
    settings = house.workspace.settings
    for where in (tmp_path / "none", web[0]):
        with pytest.raises(TabootError, match="E_KB_UNINITIALIZED"):
            copied(settings, where)
    for where in ("http://127.0.0.1:1/x", "https://[/", "gopher://x/y", "http://user@h/x"):
        with pytest.raises(TabootError, match=r"E_STORAGE|E_CONFIG"):
            copied(settings, where)
    with pytest.raises(TabootError, match="only be read"):
        house.kb().export(web[0])
    (tmp_path / "file").write_text("of somebody else")
    for where in (settings.home, "", " ", tmp_path / "file"):
        with pytest.raises(TabootError, match=r"a home|no place|there already"):
            house.kb().export(where)
    assert not list(settings.home.glob("*.duckdb.*"))
    house.kb().export(tmp_path / "copy")
    kb = copied(settings, web[0])
    with pytest.raises(TabootError, match="E_READ_ONLY"):
        kb.delete(["x"])
    with pytest.raises(TabootError, match="is a copy of a knowledge base"):
        Workspace(settings.model_copy(update={"home": tmp_path / "copy"}))
    manifest = next((tmp_path / "copy").glob("*.manifest.json"))
    shutil.rmtree(tmp_path / "copy" / manifest.name.replace(".manifest.json", ".shards"))
    with pytest.raises(TabootError, match="E_SHARD_MISSING"):
        kb.nodes()
