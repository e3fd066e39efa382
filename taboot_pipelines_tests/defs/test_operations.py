"""Sensors: partitions follow the sources file, sources run when they are due."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import orjson
import pytest

from taboot_pipelines.defs import build_defs, operations
from taboot_pipelines.defs.partitions import TAG, Busy, only_sources
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages import running
from taboot_pipelines.stages.held_deletions import held
from taboot_pipelines.stages.progress import being_ingested, ingesting
from taboot_pipelines.stages.source_state import fingerprint
from taboot_pipelines.stores.state.keys import QUEUE_INGESTS
from taboot_pipelines_tests.dagster_storage import copy_in_memory
from taboot_pipelines_tests.defs.conftest import GUIDE, Project, two_sources
from taboot_pipelines_tests.defs.launching import environment
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.world import Kept, World

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@cache
def anywhere() -> Any:
    """A place of Dagster's storage. Only where a context has one does Dagster look up partitions that a tick
    asks for; the instance itself may be in memory."""
    with dg.DagsterInstance.local_temp() as found:
        return found.get_ref()


def evaluated(project: Project, sensor: str, cursor: str | None = None) -> Any:
    """Return what Dagster makes of a tick of a sensor of the definitions. Raises what the sensor raises."""
    with dg.build_sensor_context(
        instance=project.instance,
        instance_ref=anywhere(),
        cursor=cursor,
        definitions=project.defs,
        resources={"workspace": project.resource},
    ) as context:
        return project.defs.resolve_sensor_def(sensor).evaluate_tick(context)


def tick(project: Project, sensor: Any, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    """Let Dagster evaluate a sensor of the definitions, and carry out its answer, as the daemon does."""
    data = evaluated(project, sensor.name, cursor)
    answer: dg.SensorResult | dg.SkipReason
    if data.skip_message is not None and data.cursor is None and not data.dynamic_partitions_requests:
        answer = dg.SkipReason(data.skip_message)
    else:
        answer = dg.SensorResult(
            run_requests=data.run_requests or [],
            skip_reason=None if data.skip_message is None else dg.SkipReason(data.skip_message),
            cursor=data.cursor,
            dynamic_partitions_requests=data.dynamic_partitions_requests or [],
            asset_events=data.asset_events or [],
        )
    for request in getattr(answer, "dynamic_partitions_requests", None) or ():
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            project.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        else:
            for key in request.partition_keys:
                project.instance.delete_dynamic_partition(request.partitions_def_name, key)
    return answer


def skipped(answer: dg.SensorResult | dg.SkipReason) -> str:
    """Return why a tick asked for nothing."""
    assert requested(answer) == {}
    reason = answer if isinstance(answer, dg.SkipReason) else answer.skip_reason
    assert isinstance(reason, dg.SkipReason) and reason.skip_message is not None
    return reason.skip_message


def requested(answer: dg.SensorResult | dg.SkipReason) -> dict[str, str]:
    return {r.partition_key: r.run_key for r in getattr(answer, "run_requests", None) or ()}


def test_partitions_follow_the_sources_file(project: Project) -> None:
    first = tick(project, operations.sources_sensor)
    assert project.partitions() == {"stack", "guides"}
    assert set(requested(first)) == {"stack", "guides"}
    # The same keys again until a run has begun, so the daemon launches each once.
    assert requested(tick(project, operations.sources_sensor)) == requested(first)
    assert project.run("stack").success and project.run("guides").success
    assert isinstance(tick(project, operations.sources_sensor), dg.SkipReason)

    project.world.remove_source("guides")
    leaving = tick(project, operations.sources_sensor)
    (key,) = requested(leaving).values()
    assert key.startswith("retire:default:guides:") and project.partitions() == {"stack", "guides"}
    # The run holds what it would delete and asks for nobody's attention again but the check's.
    done = project.run_only("guides")
    assert done.success
    (check,) = [e for e in done.get_asset_check_evaluations() if e.check_name == "no_deletes_held"]
    assert not check.passed and "--confirm-deletes" in str(check.metadata["remedy"].value)
    assert isinstance(tick(project, operations.sources_sensor), dg.SkipReason)
    assert project.partitions() == {"stack", "guides"}
    assert set(project.world.kb().documents().column("source").to_pylist()) == {"stack", "guides"}

    assert project.run_only("guides", confirm_deletes=True).success
    tick(project, operations.sources_sensor)
    assert project.partitions() == {"stack"}
    assert set(project.world.kb().documents().column("source").to_pylist()) == {"stack"}


def test_many_new_sources_are_taken_by_one_run(project: Project) -> None:
    names = {f"s{i}" for i in range(6)}
    for name in sorted(names):
        (project.world.source(name) / "guide.md").write_text(GUIDE.replace("8080", f"80{name[1]}0"))
    everyone = {*names, "stack", "guides"}
    first = tick(project, operations.sources_sensor)
    (request,) = first.run_requests
    assert request.job_name == "ingest_all" and project.partitions() == everyone
    assert request.run_key == tick(project, operations.sources_sensor).run_requests[0].run_key
    job = project.defs.resolve_job_def("ingest_all")

    # While the run goes on nothing of what it has is asked for, by any sensor.
    under_way = project.instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, run_config=request.run_config
    )
    busy = Busy(project.instance, project.world.workspace)
    assert all(name in busy for name in everyone) and "x" not in busy
    assert isinstance(tick(project, operations.sources_sensor), dg.SkipReason)
    project.instance.delete_run(under_way.run_id)

    # One that fails in it stops no other, and is asked for by itself afterwards.
    (project.world.directory / "s3" / "guide.md").unlink()
    (project.world.directory / "s3").rmdir()
    done = job.execute_in_process(
        instance=project.instance, run_config=request.run_config, raise_on_error=False
    )
    assert not done.success
    assert set(project.world.kb().documents().column("source").to_pylist()) == everyone - {"s3"}
    assert set(requested(tick(project, operations.sources_sensor))) == {"s3"}


def test_what_the_command_line_takes_in_is_asked_for_after_it(
    settled: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = settled.world.workspace
    settled.world.source("guides", schedule="0 * * * *", languages=["de"])
    workspace.sync_sources()
    now = datetime(2026, 3, 1, 12, 4, tzinfo=UTC)
    monkeypatch.setattr(operations, "_now", lambda: now)
    first = tick(settled, operations.due_sources)
    assert isinstance(first, dg.SensorResult) and requested(first) == {}
    now = datetime(2026, 3, 1, 13, 4, tzinfo=UTC)
    with ingesting(workspace, ["guides", "stack"]):
        assert {"guides", "stack"} == being_ingested(workspace)
        waits = tick(settled, operations.sources_sensor)
        assert "`taboot ingest` is taking in guides;" in skipped(waits)
        waits = tick(settled, operations.due_sources, first.cursor)
        assert "`taboot ingest` is taking in guides, stack;" in skipped(waits)
        assert isinstance(waits, dg.SensorResult) and waits.cursor == first.cursor
    assert set(requested(tick(settled, operations.sources_sensor))) == {"guides"}
    assert set(requested(tick(settled, operations.due_sources, first.cursor))) == {"guides", "stack"}


def test_an_ingest_that_was_killed_holds_nobody_up(settled: Project) -> None:
    workspace = settled.world.workspace
    program = (
        "import os; from taboot_pipelines.settings import load_settings;"
        "from taboot_pipelines.stages.progress import ingesting;"
        "from taboot_pipelines.stages.workspace import Workspace;"
        "block = ingesting(Workspace(load_settings()), ['guides']); block.__enter__(); os._exit(9)"
    )
    killed = subprocess.run([*python(), "-c", program], env=environment(settled.world), check=False)
    assert killed.returncode == 9 and len(workspace.state.queued("default", QUEUE_INGESTS())) == 1
    assert "guides" not in Busy(settled.instance, workspace)
    assert workspace.state.queued("default", QUEUE_INGESTS()) == {}


def test_a_run_of_chosen_sources_takes_them_alone(project: Project) -> None:
    job = project.defs.resolve_job_def("ingest_all")
    done = job.execute_in_process(instance=project.instance, run_config=only_sources(["guides"]))
    assert done.success
    assert set(project.world.kb().documents().column("source").to_pylist()) == {"guides"}
    wrong = job.execute_in_process(
        instance=project.instance, run_config=only_sources(["guide"]), raise_on_error=False
    )
    (failure,) = [e for e in wrong.all_events if e.is_step_failure]
    assert "Did you mean 'guides'?" in str(failure.step_failure_data.user_failure_data)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "sources: []\n",
        "sources:\n- id: stack\n  type: comp",
        "sources: [{id: a, type: files, path: a}, {id: a, type: files, path: b}]",
    ],
)
def test_a_broken_sources_file_changes_nothing_and_is_seen(project: Project, content: str) -> None:
    tick(project, operations.sources_sensor)
    (project.world.directory / "sources.yaml").write_text(content)
    with pytest.raises(TabootError, match="E_SOURCES"):
        tick(project, operations.sources_sensor)
    assert project.partitions() == {"stack", "guides"}
    assert {r["state"] for r in project.world.workspace.catalog.sources.find()} == {"active"}


def test_a_source_is_run_when_it_is_due_and_once_for_what_was_missed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.sync()
    now = datetime(2026, 3, 1, 12, 4, tzinfo=UTC)
    monkeypatch.setattr(operations, "_now", lambda: now)

    def due(cursor: str | None) -> tuple[dict[str, str], str]:
        answer = tick(project, operations.due_sources, cursor)
        assert isinstance(answer, dg.SensorResult) and answer.cursor is not None
        return requested(answer), answer.cursor

    runs, cursor = due(None)
    assert runs == {} and orjson.loads(cursor) == {"stack": "2026-03-01T12:00:00+00:00"}
    now = datetime(2026, 3, 1, 12, 9, tzinfo=UTC)
    assert due(cursor)[0] == {}
    now = datetime(2026, 3, 1, 13, 47, tzinfo=UTC)
    runs, after = due(cursor)
    assert runs == {"stack": "due:stack:2026-03-01T13:40:00+00:00"}
    assert due(after)[0] == {}

    # While a run of the source is under way it stays due.
    project.instance.create_run_for_job(
        project.defs.resolve_job_def("ingest_source"), status=dg.DagsterRunStatus.STARTED, tags={TAG: "stack"}
    )
    now = datetime(2026, 3, 1, 13, 52, tzinfo=UTC)
    runs, kept = due(after)
    assert runs == {} and orjson.loads(kept) == orjson.loads(after)


def test_a_failed_run_is_logged_with_its_code(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    # The first tick notes where the events begin.
    began = evaluated(project, "run_failures").cursor
    project.world.source("broken").rmdir()
    assert not project.run("broken").success
    capfd.readouterr()
    evaluated(project, "run_failures", began)
    assert "broken: raw_blobs: E_PATH" in capfd.readouterr().err


def names_of(kind: str) -> list[str]:
    """Return the names of the sensors, or the schedules, that the project declares for any home."""
    defs = build_defs(Settings(home=Path("nowhere")))
    found: list[Any] = list(getattr(defs, kind))
    return sorted(each.name for each in found)


def test_every_sensor_ticks_before_the_first_run_and_after_it(project: Project) -> None:
    project.sync()
    cursors = {name: evaluated(project, name).cursor for name in names_of("sensors")}
    assert project.run("guides").success
    for name, cursor in cursors.items():
        evaluated(project, name, cursor)


@pytest.mark.parametrize("name", names_of("schedules"))
def test_every_schedule_ticks_and_its_job_runs(project: Project, name: str) -> None:
    schedule = project.defs.resolve_schedule_def(name)
    with dg.build_schedule_context(
        instance=project.instance, resources={"workspace": project.resource}, scheduled_execution_time=NOON
    ) as context:
        (request,) = schedule.evaluate_tick(context).run_requests or ()
    job = project.defs.resolve_job_def(request.job_name or schedule.job_name)
    assert job.execute_in_process(instance=project.instance, run_config=request.run_config).success


def test_without_a_sources_file_nothing_is_wrong_yet(project: Project) -> None:
    (project.world.directory / "sources.yaml").unlink()
    answer = tick(project, operations.sources_sensor)
    assert isinstance(answer, dg.SkipReason) and "taboot init" in str(answer.skip_message)


def test_a_run_of_all_sources_holds_what_left_the_file(project: Project) -> None:
    def ingest_all() -> dg.ExecuteInProcessResult:
        return project.defs.resolve_job_def("ingest_all").execute_in_process(instance=project.instance)

    assert ingest_all().success and served(project) == {"compose.yaml", "guide.md"}
    project.world.source("guides", namespace="elsewhere")
    project.world.remove_source("stack")
    assert ingest_all().success
    assert served(project) == {"compose.yaml", "guide.md"} and project.partitions() == {"guides", "stack"}
    (waiting, moved) = held(project.world.workspace)
    assert (waiting.source_id, moved.source_id) == ("guides", "stack")


def served(project: Project) -> set[str]:
    return {url.rsplit("/", 1)[-1] for url in project.world.kb().documents().column("url").to_pylist()}


def run_all(
    project: Project, answer: dg.SensorResult | dg.SkipReason, *, confirm_deletes: bool = False
) -> None:
    for source in requested(answer):
        assert project.run_only(source, confirm_deletes=confirm_deletes).success


@pytest.fixture(scope="module")
def read_once(
    tmp_path_factory: pytest.TempPathFactory, tei: FakeTei
) -> Iterator[tuple[Kept, dg.DagsterInstance]]:
    """Both sources read once: the world, and the instance that knows of the runs."""
    with dg.DagsterInstance.ephemeral() as instance:
        world = World(tmp_path_factory.mktemp("settled"), tei.url)
        two_sources(world)
        project = Project(world, instance)
        run_all(project, tick(project, operations.sources_sensor))
        assert requested(tick(project, operations.sources_sensor)) == {}
        yield Kept(world), instance


@pytest.fixture
def settled(read_once: tuple[Kept, dg.DagsterInstance]) -> Iterator[Project]:
    """Both sources read once, so that the sensor has nothing to ask for, in a world of its own."""
    kept, known = read_once
    with dg.DagsterInstance.ephemeral() as instance:
        copy_in_memory(known, instance)
        world = kept.put_back()
        yield Project(world, instance)
        world.workspace.close()


def test_a_source_that_is_put_back_is_run_again(settled: Project) -> None:
    world = settled.world
    guides = dict(next(e for e in world.entries if e["id"] == "guides"))
    world.remove_source("guides")
    retiring = tick(settled, operations.sources_sensor)
    # Put back before a run has retired it: nothing is missing.
    world.entries.append(guides)
    world.declare()
    assert requested(retiring) and requested(tick(settled, operations.sources_sensor)) == {}

    world.remove_source("guides")
    run_all(settled, tick(settled, operations.sources_sensor), confirm_deletes=True)
    tick(settled, operations.sources_sensor)
    assert settled.partitions() == {"stack"} and served(settled) == {"compose.yaml"}
    world.entries.append(guides)
    world.declare()
    first = tick(settled, operations.sources_sensor)
    assert set(requested(first)) == {"guides"} and settled.partitions() == {"stack", "guides"}
    run_all(settled, first)
    assert served(settled) == {"compose.yaml", "guide.md"}
    assert requested(tick(settled, operations.sources_sensor)) == {}

    # Each time it is put back asks for a run of its own, which the daemon has not launched before.
    world.remove_source("guides")
    run_all(settled, tick(settled, operations.sources_sensor), confirm_deletes=True)
    tick(settled, operations.sources_sensor)
    world.entries.append(guides)
    world.declare()
    second = requested(tick(settled, operations.sources_sensor))
    assert set(second) == {"guides"} and second != requested(first)


@pytest.mark.parametrize("stopped_at", ["embeddings", "kb_shards"])
def test_a_source_that_is_put_back_half_retired_is_run_again(
    settled: Project, monkeypatch: pytest.MonkeyPatch, stopped_at: str
) -> None:
    guides = dict(next(e for e in settled.world.entries if e["id"] == "guides"))
    settled.world.remove_source("guides")
    settled.sync()

    def failing(whole: Any) -> Any:
        def run(workspace: Any, stage: Any, *arguments: Any, **options: Any) -> Any:
            if getattr(stage, "name", stage) == stopped_at:
                raise TabootError("E_TABLE", "A table is not what it should be.")
            return whole(workspace, stage, *arguments, **options)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(running, "run_stage", failing(running.run_stage))
        patch.setattr(running, "run_together", failing(running.run_together))
        assert not settled.run_only("guides", confirm_deletes=True).success
    settled.world.entries.append(guides)
    settled.world.declare()
    answer = tick(settled, operations.sources_sensor)
    assert set(requested(answer)) == {"guides"}
    run_all(settled, answer)
    assert served(settled) == {"compose.yaml", "guide.md"}


def test_a_source_that_reads_something_else_is_run_again(settled: Project) -> None:
    world = settled.world
    other = world.directory / "elsewhere"
    other.mkdir()
    (other / "new.md").write_text(f"{GUIDE}\nAnother folder.\n")
    (other / "draft.md").write_text(f"{GUIDE}\nAnother draft.\n")
    for fields in (
        {"path": "elsewhere"},
        {"path": "elsewhere", "exclude": ["draft.md"]},
        {"path": "elsewhere", "include": ["d*.md"]},
        {"path": "elsewhere", "languages": ["en", "de"]},
        {"path": "elsewhere", "tags": ["new"]},
    ):
        world.source("guides", **fields)
        answer = tick(settled, operations.sources_sensor)
        assert set(requested(answer)) == {"guides"}, fields
        # A mass deletion is held, but the run has seen what there is.
        run_all(settled, answer)
        assert requested(tick(settled, operations.sources_sensor)) == {}, fields
    world.source("stack", "compose", host="other.lan", schedule="*/10 * * * *")
    assert set(requested(tick(settled, operations.sources_sensor))) == {"stack"}


def test_a_source_is_run_again_when_the_limits_of_what_is_read_change(settled: Project) -> None:
    limits = {"limits": {"max_blob_bytes": 20}}
    changed = World(settled.world.root, settled.world.tei, **limits)
    changed.entries = settled.world.entries
    now = Project(changed, settled.instance)
    answer = tick(now, operations.sources_sensor)
    assert set(requested(answer)) == {"guides", "stack"}
    run_all(now, answer)
    assert requested(tick(now, operations.sources_sensor)) == {}
    changed.workspace.close()


def test_a_web_source_with_another_limit_of_pages_is_run_again(project: Project) -> None:
    catalog = project.world.workspace.catalog

    def declare(**fields: Any) -> None:
        project.world.entries = [{"id": "pages", "type": "web", "urls": ["http://127.0.0.1:9/a"], **fields}]
        project.world.declare()

    def read() -> None:
        # What a run leaves in the catalog, without asking anybody.
        project.world.workspace.sync_sources()
        (entry,) = project.world.workspace.entries("pages")
        wanted = fingerprint(project.world.workspace.settings, entry)
        catalog.jobs.end(catalog.jobs.start("default", "pages", wanted), JobState.SUCCEEDED)

    declare()
    read()
    assert requested(tick(project, operations.sources_sensor)) == {}
    declare(max_pages=5)
    assert set(requested(tick(project, operations.sources_sensor))) == {"pages"}
    read()
    declare(max_pages=5, schedule="5 * * * *")
    assert requested(tick(project, operations.sources_sensor)) == {}


def test_another_schedule_alone_runs_nothing(settled: Project) -> None:
    settled.world.source("stack", "compose", host="box.lan", schedule="5 4 * * *")
    settled.world.source("guides", schedule="0 0 * * *")
    assert requested(tick(settled, operations.sources_sensor)) == {}


def test_a_changed_source_is_asked_for_until_a_run_has_read_it(
    settled: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 3, 1, 12, 4, tzinfo=UTC)
    monkeypatch.setattr(operations, "_now", lambda: now)
    settled.world.source("guides", path="not-mounted")
    first = requested(tick(settled, operations.sources_sensor))
    assert set(first) == {"guides"} and not settled.run_only("guides").success
    # The daemon launches no second run for the same key; the next hour brings another.
    assert requested(tick(settled, operations.sources_sensor)) == first
    now = datetime(2026, 3, 1, 13, 4, tzinfo=UTC)
    second = requested(tick(settled, operations.sources_sensor))
    assert set(second) == {"guides"} and second != first

    # A run that is under way may have begun before the change.
    run = settled.instance.create_run_for_job(
        settled.defs.resolve_job_def("ingest_source"),
        status=dg.DagsterRunStatus.STARTED,
        tags={TAG: "guides"},
    )
    assert requested(tick(settled, operations.sources_sensor)) == {}
    settled.instance.report_run_canceled(run)
    assert set(requested(tick(settled, operations.sources_sensor))) == {"guides"}
