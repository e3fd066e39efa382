"""Sources with nothing new cost little, and whatever is new of one is seen."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from taboot_pipelines.cli.progress import Display
from taboot_pipelines.ingesting import Ingest, Memory
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stages.quiet import quiet_sources
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import Kept, World, differences, logical

SOURCES = tuple(f"s{number}" for number in range(6))


class Passes:
    """Ingests of a world in this process, which remember what they checked."""

    def __init__(self, world: World) -> None:
        self.world, self.memory = world, Memory(world.workspace.settings)

    def __call__(self) -> dict[str, bool]:
        """Take everything in; return of each source whether something of it was new."""
        self.world.workspace.sync_sources()
        names = [row["source_id"] for row in self.world.workspace.catalog.sources.find()]
        steps = list(Ingest(self.world.workspace, Display(), self.memory).run(names))
        outcomes = [outcome for step in steps for outcome in step.outcomes]
        assert all(outcome.ok for outcome in outcomes), outcomes
        own = {stage.name for stage in CHAIN.of_source}
        return {o.source: any(r.changed for r in o.reports if r.stage in own) for o in outcomes}

    def quiet(self) -> set[str]:
        return set(quiet_sources(self.world.workspace, SOURCES))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Kept:
    world = World(tmp_path_factory.mktemp("house"), tei.url)
    for name in SOURCES:
        text = f"# Note {name}\n\nThe service app-{name} depends on db-{name}.\n"
        (world.source(name) / "note.md").write_text(text)
    assert set(Passes(world)().values()) == {True}
    return Kept(world)


@pytest.fixture
def passes(world: World, kept: Kept) -> Passes:
    kept.put_back(world)
    time.sleep(2.1)  # until the files' times say that they were not written since
    return Passes(world)


@contextmanager
def statements(world: World) -> Iterator[list[str]]:
    """Give the statements that the catalog is asked while the block runs."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        found.append(statement)

    engine = world.workspace.catalog.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def test_sources_with_nothing_new_are_asked_for_together_and_leave_nothing(passes: Passes) -> None:
    world = passes.world
    assert set(passes().values()) == {False}
    catalog = world.workspace.catalog
    before = {s: catalog.jobs.find("default", s) for s in SOURCES}
    files = sorted(path for path in world.home.rglob("*") if path.is_file())
    with statements(world) as few:
        assert set(passes().values()) == {False}
    assert sorted(path for path in world.home.rglob("*") if path.is_file()) == files
    after = {s: catalog.jobs.find("default", s) for s in SOURCES}
    for name in SOURCES:
        # The history does not grow, and says when the source was read last, and what was found.
        assert [job["job_id"] for job in after[name]] == [job["job_id"] for job in before[name]]
        assert after[name][0]["started_at"] > before[name][0]["started_at"]
        counts = {n: after[name][0][n] for n in ("discovered", "fetched", "not_modified", "complete")}
        assert counts == {"discovered": 1, "fetched": 0, "not_modified": 1, "complete": True}
    # More sources are not more questions: one that is new costs many, the next pass hardly any.
    (world.source("more") / "note.md").write_text("# More\n\nThe service more depends on less.\n")
    time.sleep(2.1)  # until its times say that it was not written since
    assert passes() == {**dict.fromkeys(SOURCES, False), "more": True}
    passes()
    with statements(world) as asked:
        passes()
    assert len(asked) <= len(few) + 1, "an UPDATE of its job, and no more"


def _edit(path: Path) -> None:
    path.write_text(path.read_text().replace("depends on", "has port 8080 and depends on"))


def _other_settings(world: World) -> None:
    world.overrides = {**world.overrides, "chunking": {"max_tokens": 64, "overlap_tokens": 8}}
    world.workspace.close()
    world.workspace = world.open(world.home)


def _entry(world: World, **fields: Any) -> None:
    world.source("s1", **fields)
    world.workspace.sync_sources()


CHANGES: dict[str, tuple[Callable[[World], object], set[str]]] = {
    "edited": (lambda w: _edit(w.directory / "s1" / "note.md"), {"s1"}),
    "touched": (lambda w: (w.directory / "s1" / "note.md").touch(), {"s1"}),
    "added": (lambda w: (w.directory / "s1" / "new.md").write_text("# New\n\nA page.\n"), {"s1"}),
    "removed": (lambda w: (w.directory / "s1" / "note.md").unlink(), {"s1"}),
    "gone": (lambda w: shutil.rmtree(w.directory / "s1"), {"s1"}),
    "lost table": (lambda w: shutil.rmtree(w.home / "tables" / "default" / "s1" / "chunks"), {"s1"}),
    "lost blobs": (lambda w: shutil.rmtree(w.home / "blobs"), set(SOURCES)),
    "languages": (lambda w: _entry(w, languages=["de"]), {"s1"}),
    "exclude": (lambda w: _entry(w, exclude=["drafts"]), {"s1"}),
    "settings": (_other_settings, set(SOURCES)),
    "retiring": (lambda w: (w.remove_source("s1"), w.workspace.sync_sources()), {"s1"}),
    "a letter": (
        lambda w: w.workspace.catalog.dead_letters.record(
            "default",
            "s1",
            "documents",
            [{"item": "note.md", "code": "E_PARSE", "message": "", "fingerprint": "", "kind": "failed"}],
            (),
        ),
        {"s1"},
    ),
    "deleted": (
        lambda w: delete(
            w.workspace, "default", [w.workspace.catalog.locators.sample("default", "s1", 1)[0].doc_id]
        ),
        {"s1"},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_new_of_a_source_is_seen(passes: Passes, change: str) -> None:
    passes()
    assert passes.quiet() == set(SOURCES)
    make, seen = CHANGES[change]
    make(passes.world)
    assert passes.quiet() == set(SOURCES) - seen


def test_passes_that_pass_sources_by_end_as_one_over_everything(passes: Passes) -> None:
    world = passes.world
    for number, name in enumerate(SOURCES[:3]):
        _edit(world.directory / name / "note.md")
        (world.directory / SOURCES[-1] / f"more{number}.md").write_text(f"# More\n\nPage {number}.\n")
        assert passes() == {s: s in (name, SOURCES[-1]) for s in SOURCES}
    world.replay()
    scratch = world.open(world.root / "scratch")
    try:
        assert differences(logical(world.workspace), logical(scratch)) == {}
    finally:
        scratch.close()
