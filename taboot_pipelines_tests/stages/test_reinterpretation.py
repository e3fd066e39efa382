"""Interpreting again, promoting and rolling back: what is served changes only by a promotion, and no document
is read twice.

Holds rules ``versioned-runs``, ``incremental-equals-scratch`` and ``kill-anywhere``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.runs import beating
from taboot_pipelines.stages import reinterpretation
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stages.housekeeping import vacuum
from taboot_pipelines.stages.reinterpretation import Reinterpreted, promote, reinterpret, rollback, tier_named
from taboot_pipelines.stages.tier_b_triples import RelationExtractor
from taboot_pipelines.stores.catalog.batches import Batches
from taboot_pipelines.stores.catalog.choices import Choices
from taboot_pipelines.stores.catalog.deletions import AuditLog
from taboot_pipelines.stores.catalog.pointers import Pointers
from taboot_pipelines.stores.catalog.runs import Runs
from taboot_pipelines.stores.tables import Tables
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.stages.test_incremental_equals_scratch import Clock
from taboot_pipelines_tests.stages.test_kill_windows import assert_like_scratch, doc_id, killed_at, restart
from taboot_pipelines_tests.world import Kept, World, graph, holding, rows_of

SURE = "Grafana depends on Postgres.\n"
#: Of what is said of dependencies more was right than of connections.
LESS_SURE = "# Jellyfin\n\nJellyfin connects to Redis.\n"
#: Keeps the first and drops the second.
CONFIG = {"min_confidence": 0.84}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Kept:
    world = World(tmp_path_factory.mktemp("house"), tei.url)
    path = world.source("notes")
    (path / "sure.md").write_text(SURE)
    (path / "less.md").write_text(LESS_SURE)
    world.ingest()
    return Kept(world)


@pytest.fixture
def notes(world: World, kept: Kept) -> Path:
    return kept.put_back(world).directory / "notes"


def facts(world: World) -> set[tuple[str, str]]:
    """What the served graph says by Tier B: (start, end)."""
    rows = [r for r in world.kb().edges().to_pylist() if r["source"] == "tier_b"]
    return {(r["start_name"], r["end_name"]) for r in rows}


def again(world: World, **options: Any) -> Reinterpreted:
    options = {"tier": "B", "source": "notes", "config": CONFIG, **options}
    return reinterpret(world.workspace, "default", **options)


def runs(world: World, **options: Any) -> list[Any]:
    return world.workspace.catalog.runs.find("default", tier="tier_b", **options)


@contextmanager
def nothing_is_read() -> Iterator[None]:
    """No sentence is read while the block runs."""
    original = RelationExtractor.interpret

    def refuse(*_: object) -> Any:
        raise AssertionError("a document was read")

    RelationExtractor.interpret = refuse
    try:
        yield
    finally:
        RelationExtractor.interpret = original


BOTH = {("grafana", "postgres"), ("jellyfin", "redis")}


def test_what_is_served_changes_by_the_promotion_only(world: World, notes: Path) -> None:
    assert facts(world) == BOTH
    before, first = graph(world.kb()), {r["run_id"] for r in runs(world, active=True)}
    made = again(world)
    assert len(made.run_ids) == 2 and made.failed == {}
    assert set(made.previous_run_ids) == set(made.run_ids) and set(made.previous_run_ids.values()) == first
    assert graph(world.kb()) == before and {r["run_id"] for r in runs(world, active=True)} == first
    assert {r["run_id"] for r in runs(world, candidate=True)} == set(made.run_ids)
    # An ingest of unchanged sources does not promote it either.
    world.ingest()
    assert graph(world.kb()) == before
    with nothing_is_read():
        done = promote(world.workspace, "default", source="notes", tier="B")
    assert set(done.run_ids) == set(made.run_ids) and done.lapsed == ()
    assert facts(world) == {("grafana", "postgres")}
    assert {r["run_id"] for r in runs(world, active=True)} == set(made.run_ids)
    assert_like_scratch(world)
    with nothing_is_read():
        back = rollback(world.workspace, "default", source="notes", tier="B")
    assert set(back.run_ids) == set(made.run_ids) and set(back.active) == first
    assert graph(world.kb()) == before
    assert_like_scratch(world)
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        rollback(world.workspace, "default", source="notes", tier="B")


def test_a_promotion_holds_for_its_input_only(world: World, notes: Path) -> None:
    again(world)
    promote(world.workspace, "default", source="notes", tier="tier_b")
    (notes / "less.md").write_text(LESS_SURE + "\nMore of it.\n")
    world.ingest()
    assert facts(world) == BOTH, "another input is read as configured"
    assert_like_scratch(world)
    (notes / "less.md").write_text(LESS_SURE)
    with nothing_is_read():
        world.ingest()
    assert facts(world) == {("grafana", "postgres")}
    assert_like_scratch(world)


def test_promotions_are_taken_back_one_by_one(world: World, notes: Path) -> None:
    document = doc_id(world, "notes", "less.md")
    first = again(world, source=None, docs=[document])
    assert len(first.run_ids) == 1
    one = promote(world.workspace, "default", runs=first.run_ids)
    second = again(world, source=None, docs=[document], config=None)
    two = promote(world.workspace, "default", runs=second.run_ids)
    assert facts(world) == BOTH and first.run_ids != second.run_ids
    (row,) = runs(world, active=True, unit_id=f"document:{document}")
    assert (row["number"], row["run_id"]) == (2, second.run_ids[0])
    with nothing_is_read():
        back = rollback(world.workspace, "default", promotion=two.promotion)
        assert back.active == first.run_ids and facts(world) == {("grafana", "postgres")}
        rollback(world.workspace, "default", runs=first.run_ids)
        assert facts(world) == BOTH
        # The default run may be promoted over another one like any other.
        promote(world.workspace, "default", runs=first.run_ids)
        default = [r["run_id"] for r in runs(world, unit_id=f"document:{document}") if not r["number"]]
        promote(world.workspace, "default", runs=default)
        assert facts(world) == BOTH
    assert_like_scratch(world)
    assert one.promotion != two.promotion


def test_every_run_keeps_its_configuration_and_its_measures(world: World, notes: Path) -> None:
    made = again(world)
    for row in runs(world):
        config = json.loads(row["interpretation_config"])
        assert config["extractor"] == "prose_relations" and config["extractor_type"] == "nlp"
        assert config["model"] and config["model_version"] and config["schema_version"]
        assert ("min_confidence" in config) == (row["run_id"] in made.run_ids)
        assert row["started_at"] <= row["completed_at"] and row["status"] == "completed"
    kept = {row["run_id"]: row["confidence"] for row in runs(world)}
    low, high = sorted({c for c in kept.values() if c is not None})
    assert None in kept.values() and low < CONFIG["min_confidence"] <= high
    with pytest.raises(TabootError, match=r"E_QUERY.*temper"):
        again(world, config={"temper": 1})
    with pytest.raises(TabootError, match=r"E_QUERY.*has none"):
        again(world, tier="A")
    with pytest.raises(TabootError, match="E_QUERY"):
        again(world, config={"min_confidence": "much"})
    with pytest.raises(TabootError, match="E_QUERY"):
        again(world, tier="Z")


def test_runs_of_other_bytes_are_not_promoted(world: World, notes: Path) -> None:
    made = again(world)
    (notes / "less.md").write_text("Nothing is said here.\n")
    world.ingest()
    before = graph(world.kb())
    with pytest.raises(TabootError, match="E_CONFLICT"):
        promote(world.workspace, "default", runs=made.run_ids)
    assert graph(world.kb()) == before and world.workspace.catalog.choices.find("default") == []
    done = promote(world.workspace, "default", source="notes", tier="B")
    assert len(done.run_ids) == len(done.lapsed) == 1
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        promote(world.workspace, "default", runs=["gone"])


def archived(world: World, tier: str = "tier_b") -> list[str]:
    table = f"observations.archive.{tier}"
    tables = world.workspace.tables
    return rows_of(tables.read("default", "notes", table, tables.version("default", "notes", table)))


def test_archived_observations_outlive_vacuum_and_compaction(world: World, notes: Path) -> None:
    for text in ("Grafana depends on Redis.\n", "Grafana depends on Loki.\n", SURE):
        (notes / "sure.md").write_text(text)
        world.ingest()
    again(world)
    before = archived(world)
    assert {"redis", "loki", "postgres"} <= {word for row in before for word in row.lower().split('"')}
    tables = world.workspace.tables
    with world.workspace.alone("default"):
        for name in tables.names("default", "notes"):
            tables.compact("default", "notes", name)
            vacuum(world.workspace, "default", "notes", name)
    assert archived(world) == before
    with nothing_is_read():
        (notes / "sure.md").write_text("Grafana depends on Loki.\n")
        world.ingest()
    assert facts(world) == {("grafana", "loki"), ("jellyfin", "redis")}
    assert_like_scratch(world)


pytestmark = pytest.mark.slow

WORD = "zyxwvutquux"


def test_erased_documents_leave_no_observation_in_the_archive(world: World, notes: Path) -> None:
    (notes / "sure.md").write_text(f"Grafana depends on {WORD.title()}.\n")
    (notes / "other.md").write_text("Loki depends on Minio.\n")
    world.ingest()
    again(world)
    promote(world.workspace, "default", source="notes", tier="B")
    (notes / "sure.md").write_text(f"Grafana depends on {WORD.title()} and on Redis.\n")
    (notes / "other.md").write_text("Loki depends on Redis.\n")
    world.ingest()
    again(world, config=None)
    document = doc_id(world, "notes", "sure.md")
    receipt = delete(world.workspace, "default", [document], erase=True)
    assert receipt.final and holding(world.home, WORD) == []
    assert not [row for row in runs(world) if document in row["unit_id"]]
    assert not [c for c in world.workspace.catalog.choices.find("default") if document in c["unit_id"]]
    # What was not erased is kept.
    assert [row for row in archived(world) if "minio" in row]
    world.ingest()
    assert_like_scratch(world)


PROJECT = "services:\n  app:\n    image: nginx:1\n"
OVERRIDE = f"services:\n  app:\n    image: {WORD}/nginx:1\n"


def test_an_erased_file_leaves_the_archived_runs_of_the_project_that_read_it(world: World) -> None:
    stacks = world.source("notes", "compose")
    (stacks / "compose.yaml").write_text(PROJECT)
    (stacks / "compose.override.yaml").write_text(OVERRIDE)
    world.ingest()
    reinterpret(world.workspace, "default", tier="A", source="notes")
    promote(world.workspace, "default", tier="A", source="notes")
    (stacks / "compose.override.yaml").write_text("services:\n  app:\n    restart: always\n")
    world.ingest()
    assert [row for row in archived(world, "tier_a") if WORD in row]
    override = doc_id(world, "notes", "compose.override.yaml")
    receipt = delete(world.workspace, "default", [override], erase=True)
    assert receipt.final and holding(world.home, WORD) == []
    world.ingest()
    assert_like_scratch(world)
    assert world.kb().nodes().num_rows > 0


STEPS = [
    (Batches, "announce"),
    (Batches, "start"),
    (Tables, "replace"),
    (Runs, "propose"),
    (Batches, "withdraw"),
]
#: What follows from a decision, and which call of it.
FOLLOWING = [
    (Batches, "begin", 1),
    (Tables, "append", 1),
    (Tables, "replace", 1),
    (Tables, "replace", 2),
    (Runs, "record", 1),
    (Runs, "record", 2),
    (Pointers, "publish", 1),
    (Pointers, "publish", 2),
]
IDS = [f"{name}-{call}" for _, name, call in FOLLOWING]


def test_what_waits_for_its_source_is_told_to_be_alive(
    world: World, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases, batches = world.workspace.leases, world.workspace.catalog.batches
    free, beats = leases.source, set[int]()

    @contextmanager
    def later(namespace: str, source: str) -> Iterator[None]:
        for _ in range(1000):
            beats.update(row["heartbeat_at"] for row in batches.find(namespace, source))
            if len(beats) > 1:
                break
            time.sleep(0.01)
        with free(namespace, source):
            yield

    monkeypatch.setattr(reinterpretation, "beating", partial(beating, seconds=0.01))
    monkeypatch.setattr(leases, "source", later)
    again(world)
    assert len(beats) > 1


@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
def test_a_killed_reinterpretation_changes_nothing_and_is_made_again(
    world: World, notes: Path, owner: Any, name: str
) -> None:
    before = graph(world.kb())
    with killed_at(owner, name):
        again(world)
    restart(world)
    assert graph(world.kb()) == before
    # What it left as under way is recorded by this living process, so it is ended by whoever gets the lease.
    world.workspace.catalog.batches.fail_stale()
    for row in world.workspace.catalog.batches.find("default"):
        world.workspace.catalog.batches.fail("default", row["batch_id"], "killed")
    made = again(world)
    assert len(made.run_ids) == 2 and graph(world.kb()) == before
    promote(world.workspace, "default", source="notes", tier="B")
    assert facts(world) == {("grafana", "postgres")}
    assert_like_scratch(world)


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [(Choices, "add", 1), (AuditLog, "record", 1), *FOLLOWING],
    ids=["add", "audit", *IDS],
)
def test_a_killed_promotion_is_carried_out_by_the_next_run_or_was_none(
    world: World, notes: Path, owner: Any, name: str, call: int
) -> None:
    again(world)
    with killed_at(owner, name, call):
        promote(world.workspace, "default", source="notes", tier="B")
    restart(world)
    decided = bool(world.workspace.catalog.choices.find("default"))
    assert decided == (name != "add")
    world.ingest()
    assert facts(world) == ({("grafana", "postgres")} if decided else BOTH)
    assert_like_scratch(world)


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    # What follows is the same as after a promotion: near its commits, and at its end.
    [(Choices, "withdraw", 1), (AuditLog, "record", 1), FOLLOWING[2], *FOLLOWING[-2:]],
    ids=["withdraw", "audit", IDS[2], *IDS[-2:]],
)
def test_a_killed_rollback_is_carried_out_by_the_next_run_or_was_none(
    world: World, notes: Path, owner: Any, name: str, call: int
) -> None:
    again(world)
    promote(world.workspace, "default", source="notes", tier="B")
    with killed_at(owner, name, call):
        rollback(world.workspace, "default", source="notes", tier="B")
    restart(world)
    decided = not world.workspace.catalog.choices.find("default")
    assert decided == (name != "withdraw")
    with nothing_is_read():
        world.ingest()
    assert facts(world) == (BOTH if decided else {("grafana", "postgres")})
    assert_like_scratch(world)


BLOCKED = """
import sys, time
from pathlib import Path
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.reinterpretation import reinterpret
from taboot_pipelines.stages.tier_b_triples import RelationExtractor
from taboot_pipelines.stages.workspace import Workspace

def block(self, documents):
    Path(sys.argv[3]).write_text("")
    time.sleep(600)

RelationExtractor.interpret = block
settings = load_settings(home=sys.argv[1], sources=sys.argv[2])
reinterpret(Workspace(settings), "default", tier="B", source="notes")
"""


def test_one_is_refused_while_another_runs_and_a_dead_one_is_swept(
    world: World, notes: Path, tmp_path: Path
) -> None:
    sign = tmp_path / "begun"
    arguments = [str(world.home), str(world.directory / "sources.yaml"), str(sign)]
    process = subprocess.Popen([sys.executable, "-c", BLOCKED, *arguments])
    try:
        while not sign.exists():
            assert process.poll() is None
            time.sleep(0.05)
        with pytest.raises(TabootError, match="E_INTERPRETATION_IN_PROGRESS"):
            again(world)
        batches = world.workspace.catalog.batches
        (row,) = batches.find("default")
        assert (row["status"], row["pid"], len(row["units"])) == ("running", process.pid, 2)
        assert row["timeout_at"] - row["heartbeat_at"] == 600_000_000
        assert batches.fail_stale() == []
    finally:
        process.kill()
        process.wait()
    assert batches.fail_stale() == [row["batch_id"]]
    (row,) = batches.find("default")
    assert row["status"] == "failed" and "ended" in row["error_message"]
    assert len(again(world).run_ids) == 2


def test_what_is_silent_for_ten_minutes_has_failed(world: World, notes: Path) -> None:
    batches = world.workspace.catalog.batches
    batch_id, _ = batches.announce("default", "notes", "tier_b", ["u"])
    assert batch_id is not None and batches.announce("default", "notes", "tier_b", ["v"])[0] is not None
    assert batches.announce("default", "notes", "tier_b", ["u"])[0] is None
    with Clock() as clock:
        clock.hours = 1
        assert batch_id in batches.fail_stale()
        batches.beat("default", batch_id)
    (row,) = (r for r in batches.find("default") if r["batch_id"] == batch_id)
    assert (row["status"], row["error_message"]) == ("failed", "Timeout - no heartbeat")


def test_bytes_that_are_not_stored_and_a_quota_that_is_used_up_keep_it_from_beginning(
    world: World, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, document = world.workspace.catalog, doc_id(world, "notes", "less.md")
    sha256 = catalog.locators.of_source("default", "notes")["less.md"].sha256
    with catalog.database.begin("default") as c:
        catalog.blobs.set_status(c, "default", sha256, "pending")
    for where in ({"source": "notes"}, {"source": None, "docs": [document]}):
        with pytest.raises(TabootError, match="E_STORAGE_PENDING"):
            again(world, **where)
    assert again(world, source=None, docs=[doc_id(world, "notes", "sure.md")]).run_ids
    with catalog.database.begin("default") as c:
        catalog.blobs.set_status(c, "default", sha256, "uploaded")
        c.execute(sa.text("UPDATE storage_usage SET interpretation_limit_month = 1"))
    assert again(world).run_ids, "only what counts is counted"
    stage = tier_named("B")
    counted = replace(stage, tier=replace(stage.tier, counted=True))
    monkeypatch.setattr(reinterpretation, "tier_named", lambda _name: counted)
    assert again(world).run_ids, "one question is left of this month"
    catalog.quotas.count("default", 1)
    with pytest.raises(TabootError, match="E_QUOTA"):
        again(world)


def test_what_could_not_be_read_is_a_failed_run(world: World, notes: Path) -> None:
    page = "<html><body><main><h1>Loki</h1><p>Loki depends on Minio.</p></main></body></html>"
    (notes / "page.html").write_text(page)
    world.ingest()
    document = doc_id(world, "notes", "page.html")
    sha256 = world.workspace.catalog.locators.of_source("default", "notes")["page.html"].sha256
    file = next((world.home / "blobs").rglob(sha256))
    file.rename(world.root / "away")
    made = again(world, source=None, docs=[document])
    assert made.run_ids == () and list(made.failed) == [f"document:{document}"]
    (row,) = runs(world, status="failed")
    assert row["error_message"] and not row["candidate"]
    assert row["extraction_completeness"] == "unknown"
    with pytest.raises(TabootError, match="E_CONFLICT"):
        promote(world.workspace, "default", runs=[row["run_id"]])
