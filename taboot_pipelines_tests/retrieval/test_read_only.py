"""A knowledge base that is opened for reading only answers every question, and leaves no trace."""

from __future__ import annotations

import contextlib
import inspect
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from taboot_pipelines.embedding import minilm, open_embedder
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import RedisSettings, load_settings
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.servers import PostgresServer
from taboot_pipelines_tests.stores.roles import with_roles
from taboot_pipelines_tests.unwritable import tree
from taboot_pipelines_tests.world import World, rows_of

COMPOSE = "services: {web: {image: nginx, depends_on: [cache]}, cache: {image: 'redis:7'}}\n"
GUIDE = "# Lanterns\n\nThe lantern hangs in the hall. Grafana depends on Postgres.\n"
QUESTION = "What does web depend on?"


def doc_id(kb: KnowledgeBase) -> str:
    return str(kb.documents().column("doc_id")[0].as_py())


def edge_id(kb: KnowledgeBase) -> str:
    return str(kb.edges().column("edge_id")[0].as_py())


def run_id(kb: KnowledgeBase) -> str:
    return next(r.run_id for r in kb.runs().items if r.edges)


def told(code: str, ask: Callable[[], object]) -> str:
    with pytest.raises(TabootError) as error:
        ask()
    assert error.value.code == code, error.value
    return code


def exported(kb: KnowledgeBase) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        return kb.export(Path(folder, "all.duckdb"), single=True).tables


def handbook(kb: KnowledgeBase) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return kb.handbook(Path(folder, "handbook")).pages


#: Every method that changes nothing: what it is asked, and something that can be compared.
READING: Mapping[str, Callable[[KnowledgeBase], Any]] = {
    "settings": lambda kb: kb.settings.namespace,
    "manifest": lambda kb: kb.manifest.version,
    "as_of": lambda kb: kb.as_of("9999-01-01").manifest.version,
    "verify": lambda kb: kb.verify(),
    "search": lambda kb: [h.chunk_id for h in kb.search("lantern").hits],
    "compare": lambda kb: len(kb.compare("lantern").to_arrow()),
    "feedbacks": lambda kb: kb.feedbacks(),
    "why_not": lambda kb: kb.why_not(doc_id(kb), "lantern").doc_id,
    "cache_stats": lambda kb: {s.store for s in kb.cache_stats()},
    "clear_cache": lambda kb: set(kb.clear_cache()),
    "answer": lambda kb: kb.answer(QUESTION).text,
    "answer_stream": lambda kb: "".join(kb.answer_stream(QUESTION)),
    "conversation": lambda kb: kb.conversation().ask(QUESTION).text,
    "queries": lambda kb: len(kb.queries().queries),
    "query": lambda kb: kb.query("dependents", service="cache").text,
    "impact": lambda kb: [g.how for g in kb.impact("cache").groups],
    "evaluate": lambda kb: len(kb.evaluate([{"question": QUESTION, "answer": "cache"}]).to_arrow()),
    "replay": lambda kb: told("E_NOT_FOUND", lambda: kb.replay(kb.answer(QUESTION).answer_id)),
    "neighbors": lambda kb: len(kb.neighbors("web").edges),
    "show": lambda kb: len(kb.show("web").svg) > 0,
    "path": lambda kb: len(kb.path("web", "cache").steps),
    "links": lambda kb: kb.links(doc_id(kb)).doc_id,
    "explain": lambda kb: [q.text for q in kb.explain(edge_id(kb)).quotes],
    "original": lambda kb: kb.original(doc_id(kb)).text,
    "drift": lambda kb: len(kb.drift().items),
    "rules": lambda kb: [(f.rule, f.subject) for f in kb.rules().findings],
    "for_alert": lambda kb: [t.name for t in kb.for_alert({"alertname": "Down", "job": "web"}).things],
    "nodes": lambda kb: rows_of(kb.nodes()),
    "edges": lambda kb: rows_of(kb.edges()),
    "documents": lambda kb: rows_of(kb.documents()),
    "export": lambda kb: exported(kb),
    "handbook": lambda kb: handbook(kb),
    "collections": lambda kb: [c.name for c in kb.collections()],
    "document": lambda kb: len(kb.document(doc_id(kb)).versions),
    "changes": lambda kb: dict(kb.changes("2020-01-01").counts),
    "sources": lambda kb: [(s.id, s.state, s.last_job and s.last_job.state) for s in kb.sources().sources],
    "crawls": lambda kb: len(kb.crawls()),
    "crawl": lambda kb: told("E_NOT_FOUND", lambda: kb.crawl("none")),
    "assertions": lambda kb: len(kb.assertions().items),
    "supports": lambda kb: len(kb.supports("web").to_arrow()),
    "runs": lambda kb: len(kb.runs().items),
    "run": lambda kb: len(kb.run(run_id(kb)).facts),
    "diff": lambda kb: kb.diff(run_id(kb), run_id(kb)).same,
}
#: What of it only the catalog, the tables and the blobs know.
KEPT = ("document", "supports", "runs", "run", "diff")
#: Every method that changes something, with what it takes when it may.
WRITING: Mapping[str, Callable[[KnowledgeBase], Any]] = {
    "delete": lambda kb: kb.delete([doc_id(kb)]),
    "restore": lambda kb: kb.restore([doc_id(kb)]),
    "upload": lambda kb: kb.upload(b"A lantern.", name="lantern.txt"),
    "feedback": lambda kb: kb.feedback(QUESTION, "right"),
    "tag": lambda kb: kb.tag([doc_id(kb)], add=["lit"]),
    "reindex": lambda kb: kb.reindex([doc_id(kb)]),
    "retain": lambda kb: kb.retain([doc_id(kb)], 5),
    "retain_as_source": lambda kb: kb.retain_as_source([doc_id(kb)]),
    "correct": lambda kb: kb.correct("web", "description", "the page"),
    "correct_edge": lambda kb: kb.correct_edge(edge_id(kb)),
    "ingest_structured": lambda kb: kb.ingest_structured("Host", {"name": "hearth"}),
    "ingest_structured_batch": lambda kb: kb.ingest_structured_batch([]),
    "merge": lambda kb: kb.merge("web", "cache"),
    "undo": lambda kb: kb.undo("0123456789ab"),
    "reinterpret": lambda kb: kb.reinterpret(tier="b", source="guides"),
    "promote": lambda kb: kb.promote(source="guides", tier="b"),
    "rollback": lambda kb: kb.rollback(source="guides", tier="b"),
}


def filled(root: Path, tei: FakeTei, **settings: Any) -> World:
    world = World(root, tei.url, **settings)
    (world.source("stack", "compose", host="hearth.lan") / "compose.yaml").write_text(COMPOSE)
    (world.source("guides") / "guide.md").write_text(GUIDE)
    world.ingest()
    return world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Iterator[World]:
    made = filled(tmp_path_factory.mktemp("house"), tei)
    yield made
    made.workspace.close()


def copied(world: World, home: Path, how: str) -> Path:
    """A copy of the home as nobody has it open, or as a writer that was killed left it: with a log."""
    world.workspace.close()
    workspace = Workspace(world.workspace.settings) if how == "killed" else None
    if workspace is not None:
        workspace.catalog.audit_log.record("default", "test", "of a writer that is killed")
    shutil.copytree(world.home, home)
    if workspace is not None:
        workspace.close()
    assert (home / "catalog.db-wal").exists() is (how == "killed")
    return home


def test_every_method_reads_or_changes() -> None:
    public = {name for name, _ in inspect.getmembers(KnowledgeBase) if not name.startswith("_")}
    assert public - {"open", "read_only"} == {*READING, *WRITING}


@pytest.mark.parametrize("how", ["quiet", "killed"])
def test_reading_leaves_no_trace(
    world: World, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    home = copied(world, tmp_path / "home", how)
    (home / "spaces.json").unlink()
    before = tree(home)
    kb = KnowledgeBase.open(home, settings=world.settings(home), read_only=True)
    assert kb.read_only
    found = {name: ask(kb) for name, ask in READING.items()}
    for change in WRITING.values():
        assert told("E_READ_ONLY", lambda change=change: change(kb))  # type: ignore[misc]
    assert tree(home) == before and not caplog.records
    assert found["cache_stats"] == {"process"} and found["answer"] and found["search"]
    assert found["sources"] == [("guides", "active", "succeeded"), ("stack", "active", "succeeded")]
    assert min(found[n] for n in KEPT) > 0 and found["changes"]
    writing = KnowledgeBase.open(home, settings=world.settings(home))
    assert {name: ask(writing) for name, ask in READING.items() if name != "replay"} == {
        name: value for name, value in found.items() if name != "replay"
    }
    # The records of another's answers are read.
    kept = writing.answer(QUESTION).answer_id
    assert kb.replay(kept).answer_id == kept and not writing.read_only


def test_the_setting_does_what_the_argument_does(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(world, tmp_path / "home", "quiet")
    before = tree(home)
    monkeypatch.setenv("TABOOT_READ_ONLY", "true")
    kb = KnowledgeBase.open(home, settings=world.settings(home))
    assert kb.read_only and kb.answer(QUESTION).found
    # A stage finds no lease, no transaction and no table that it could write.
    workspace = Workspace(world.settings(home))
    told("E_READ_ONLY", workspace.sync_sources)
    told("E_READ_ONLY", lambda: workspace.leases.namespace("default").__enter__())
    told("E_READ_ONLY", lambda: workspace.catalog.audit_log.record("default", "a", "b"))
    told("E_READ_ONLY", lambda: workspace.tables.carry_over("default", "guides", "documents"))
    workspace.close()
    assert tree(home) == before


def test_a_catalog_that_waits_to_be_migrated_is_left_as_it_is(world: World, tmp_path: Path) -> None:
    home = copied(world, tmp_path / "home", "quiet")
    workspace = world.open(home)
    workspace.catalog.database.migrator.migrate("0012")
    workspace.close()
    before = tree(home)
    kb = KnowledgeBase.open(home, settings=world.settings(home), read_only=True)
    assert kb.search("lantern").hits and "E_CATALOG" in kb.sources().note
    with pytest.raises(TabootError, match=r"E_CATALOG.*revision 0012"):
        kb.runs()
    assert tree(home) == before


def test_a_home_without_blobs_or_catalog_is_not_filled(world: World, tmp_path: Path) -> None:
    """Only the shards were copied."""
    home = tmp_path / "home"
    shutil.copytree(world.home / "kb", home / "kb")
    before = tree(home)
    kb = KnowledgeBase.open(home, settings=world.settings(home), read_only=True)
    assert kb.answer(QUESTION).found and kb.sources().note
    told("E_BLOB_MISSING", lambda: kb.explain(edge_id(kb)))
    told("E_CATALOG", kb.assertions)
    assert tree(home) == before


def test_the_compiled_model_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What OpenVINO made of the bundled model, which a home keeps."""
    monkeypatch.setattr(minilm, "_cache", {})
    for read_only in (True, False):
        minilm._cache.clear()
        settings = load_settings(home=tmp_path, read_only=read_only, embedding={"runtime": "openvino"})
        open_embedder(settings).embed_query("lantern")
        assert (tmp_path / "cache").exists() is not read_only


def test_redis_keeps_nothing_of_it(world: World, tmp_path: Path, redis_url: str) -> None:
    home = copied(world, tmp_path / "home", "quiet")
    settings = world.settings(home).model_copy(update={"redis": RedisSettings(url=SecretStr(redis_url))})
    with contextlib.closing(redis.Redis.from_url(redis_url)) as raw:
        raw.flushdb()
        kb = KnowledgeBase.open(settings=settings, read_only=True)
        assert not kb.search("lantern").cached and kb.search("lantern").cached
        assert raw.keys() == []
        KnowledgeBase.open(settings=settings).search("lantern")
        assert raw.keys() != []
        raw.flushdb()


def test_a_role_that_may_only_read_answers_every_question(
    postgres: PostgresServer, tmp_path: Path, tei: FakeTei
) -> None:
    roles = with_roles(postgres, "read_only_kb")
    made = filled(tmp_path, tei, catalog_url=roles.app, catalog_admin_url=roles.owner)
    made.workspace.close()
    before = tree(made.home)
    made.overrides = {"catalog_url": roles.reader}
    settings = made.settings(made.home)
    kb = KnowledgeBase.open(settings=settings, read_only=True)
    found = {name: ask(kb) for name, ask in READING.items()}
    assert min(found[n] for n in KEPT) > 0
    assert found["sources"][0] == ("guides", "active", "succeeded")
    for change in WRITING.values():
        told("E_READ_ONLY", lambda change=change: change(kb))  # type: ignore[misc]
    assert tree(made.home) == before
    # Opened for writing, the role is told from one that may write before anything is done.
    with pytest.raises(TabootError, match=r"E_CATALOG.*taboot_reader"):
        KnowledgeBase.open(settings=settings).tag([doc_id(kb)], add=["lit"])
