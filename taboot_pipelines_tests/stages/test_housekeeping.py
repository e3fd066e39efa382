"""What runs leave behind is bounded, in bytes as in number, and removed beside whoever still reads."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.shards.cache import LEAST_GRACE_SECONDS, RemovedShard, doomed
from taboot_pipelines.stages import embeddings, housekeeping
from taboot_pipelines.stores.state.keys import JOB
from taboot_pipelines.stores.tables import NAMESPACE
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import Kept, World, logical

GUIDE = "# Guide\n\nThe web server keeps its sessions in cache and listens on port 8080.\n"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Kept:
    world = World(tmp_path_factory.mktemp("house"), tei.url)
    (world.source("guides") / "guide.md").write_text(GUIDE)
    world.ingest()
    return Kept(world)


@pytest.fixture
def guides(world: World, kept: Kept) -> Path:
    return kept.put_back(world).directory / "guides"


def shard_folders(world: World) -> set[str]:
    return {p.parent.name for p in (world.home / "kb").rglob("shard.json")}


def test_unchanged_runs_leave_a_bounded_number_of_jobs(world: World, guides: Path) -> None:
    for _ in range(45):
        world.ingest()
    jobs = world.workspace.catalog.jobs.find("default", "guides", limit=1000)
    # The newest twenty, fewer than ten more, and the one that brought the document.
    assert 20 < len(jobs) <= 31 and jobs[-1]["fetched"] == 1
    kept = {job["job_id"] for job in jobs}
    (located,) = world.workspace.catalog.locators.of_source("default", "guides").values()
    assert located.job_id in kept
    state = world.workspace.state
    assert state.get("default", JOB(jobs[0]["job_id"])) is not None
    before = logical(world.workspace)
    (guides / "more.md").write_text(f"{GUIDE}\nMore.\n")
    world.ingest()
    assert len(logical(world.workspace)["doc_state"]) == len(before["doc_state"]) + 1


def test_a_job_that_succeeded_outlives_any_number_of_failures(world: World, guides: Path) -> None:
    catalog = world.workspace.catalog
    brought = catalog.jobs.last_succeeded("default", "guides")
    running = catalog.jobs.start("default", "guides")
    for _ in range(40):
        catalog.jobs.end(catalog.jobs.start("default", "guides"), JobState.FAILED, namespace="default")
    assert len(catalog.jobs.forget_old("default", "guides", 20)) == 20
    left = {job["job_id"] for job in catalog.jobs.find("default", "guides", limit=1000)}
    assert brought is not None and {brought["job_id"], running} < left and len(left) == 22
    assert catalog.jobs.forget_old("default", "guides", 20) == []


def test_shards_that_were_left_go_with_the_next_run_though_nothing_changed(
    world: World, guides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (guides / "guide.md").write_text(f"{GUIDE}\nEdited.\n")
    world.ingest()
    assert len(shard_folders(world)) == 2, "the old one stays for readers of the last manifest"
    monkeypatch.setattr(housekeeping, "SHARD_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(world.workspace.settings.retention, "publication_days", 0)
    world.ingest()
    assert len(shard_folders(world)) == 1 and world.kb().search("sessions").hits


def test_a_reader_goes_on_while_shards_are_swept(
    world: World, guides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = world.kb()
    assert reader.search("sessions").hits
    monkeypatch.setattr(housekeeping, "SHARD_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(world.workspace.settings.retention, "publication_days", 0)
    for number in range(3):
        (guides / "guide.md").write_text(f"{GUIDE}\nEdit number {number}.\n")
        world.ingest()
        (hit,) = reader.search(f"edit number {number}", limit=1).hits
        assert f"number {number}" in hit.text.lower()
    assert len(shard_folders(world)) == 1


@given(
    left=st.dictionaries(
        st.text("abcdef", min_size=1, max_size=4),
        st.builds(RemovedShard, since=st.floats(0, 1000), bytes=st.integers(0, 100)),
        max_size=12,
    ),
    age=st.floats(0, 1000),
    limit=st.none() | st.integers(0, 400),
)
def test_what_is_left_is_swept_by_age_and_bytes(
    left: dict[str, RemovedShard], age: float, limit: int | None
) -> None:
    gone = doomed(left, 1000.0, age, limit)
    rest = {name: shard for name, shard in left.items() if name not in gone}
    assert gone == sorted(set(gone)) and all(1000.0 - x.since < age for x in rest.values())
    if limit is None:
        assert all(1000.0 - left[name].since >= age for name in gone)
    else:
        young = [x for x in rest.values() if 1000.0 - x.since < LEAST_GRACE_SECONDS]
        assert sum(x.bytes for x in rest.values()) <= limit or len(young) == len(rest)
        # Nothing goes early that is younger than something that stays.
        early = [left[name].since for name in gone if 1000.0 - left[name].since < age]
        assert not early or not rest or max(early) <= min(x.since for x in rest.values())
    assert not [n for n in gone if 1000.0 - left[n].since < min(age, LEAST_GRACE_SECONDS)]


def test_tables_are_vacuumed_by_bytes(world: World, guides: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "_STALE_BYTES", 0)
    for number in range(6):
        (guides / "guide.md").write_text(f"{GUIDE}\nEdit number {number}.\n")
        world.ingest()
        for owner, name in (("guides", "documents"), ("guides", "chunks"), (NAMESPACE, "relations")):
            stale = world.workspace.tables.stale("default", owner, name)
            assert stale.bytes <= max(stale.used_bytes, 1) * 2, (owner, name)
    assert world.kb().documents().num_rows == 1


def vectors(world: World) -> set[str]:
    tables, name = world.workspace.tables, embeddings.table_name(world.workspace.embedder.space.id)
    version = tables.version("default", NAMESPACE, name)
    rows: pa.Table = tables.read("default", NAMESPACE, name, version, columns=["sha256"])
    return set(rows.column("sha256").to_pylist())


def test_vectors_of_dead_texts_go_when_they_are_many(
    world: World, guides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "_MIN_DEAD_VECTORS", 3)
    seen = []
    for number in range(12):
        (guides / "guide.md").write_text(f"{GUIDE}\nEdit number {number}.\n")
        world.ingest()
        seen.append(len(vectors(world)))
    assert max(seen) <= 5 and len(set(seen)) > 1, seen
    assert world.kb().search("sessions").hits
    # What comes back is embedded again.
    (guides / "guide.md").write_text(GUIDE)
    world.ingest()
    found = logical(world.workspace)
    assert len(found["vectors"]) == 1


def test_no_vector_goes_while_another_source_is_at_work(
    world: World, guides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    monkeypatch.setattr(housekeeping, "_MIN_DEAD_VECTORS", 1)
    (world.source("notes") / "note.md").write_text(f"{GUIDE}\nA note.\n")
    world.ingest()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with world.workspace.leases.source("default", "notes"):
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    for number in range(4):
        (guides / "guide.md").write_text(f"{GUIDE}\nEdit number {number}.\n")
        world.ingest("guides")
    assert len(vectors(world)) == 6
    done.set()
    thread.join()
    (guides / "guide.md").write_text(f"{GUIDE}\nThe last edit.\n")
    world.ingest("guides")
    assert len(vectors(world)) == 2


def test_letters_of_a_source_that_retires_go_with_it(world: World) -> None:
    (world.source("keeps") / "guide.md").write_text(GUIDE)
    (world.source("stack", "compose") / "compose.yaml").write_text("services: {web: [unclosed\n")
    world.ingest()
    letters = world.workspace.catalog.dead_letters
    assert letters.find("default", "stack")
    world.remove_source("stack")
    world.ingest("stack", confirm_deletes=True)
    assert letters.find("default", "stack") == []
    world.source("stack", "compose")
    world.ingest()
    assert letters.find("default", "stack")


def test_sweeping_takes_no_time_of_a_run_that_waits(world: World, guides: Path) -> None:
    start = time.monotonic()
    with world.workspace.leases.namespace("default"):
        assert housekeeping.tidy(world.workspace, "default", "guides") >= 0
    assert time.monotonic() - start < 30
