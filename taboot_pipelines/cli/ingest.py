"""``ingest``: takes every source, or some, through the chain, by Dagster runs in this process.

Each source goes through the stages that are its own in a run of its own, so that one that fails stops no
other. The stages of the namespace then run once for all sources that came through: a run of them brings in
what is pending of all, and a run for each source would write the same shards again for each.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli import held, progress
from taboot_pipelines.cli.completion import source_ids
from taboot_pipelines.cli.output import console, emit_json, json_option, table, text
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import waiting

if TYPE_CHECKING:
    import dagster as dg
    from rich.table import Table

    from taboot_pipelines.defs.resources import Runtime
    from taboot_pipelines.settings import Settings
    from taboot_pipelines.stages.report import StageReport
    from taboot_pipelines.stages.workspace import Workspace

#: What the summary shows of a stage's counts, in this order.
_SHOWN = (
    "discovered",
    "fetched",
    "new",
    "interpreted",
    "changed",
    "nodes_written",
    "edges_written",
    "nodes_deleted",
    "edges_deleted",
    "shards_new",
    "reused",
    "not_modified",
    "skipped",
    "rejected",
    "removed",
    "held",
    "failed",
)
_MAX_PROBLEMS = 20
_JOB = "ingest_source"
#: So begins why a stage had nothing to do whose server is not configured.
_NOT_CONFIGURED = "skipped: "


@dataclass
class Outcome:
    """What became of one source: the reports of the stages that ran, and all that went wrong."""

    source: str
    reports: list[StageReport] = field(default_factory=list)
    #: Several where more than one server did not answer: each stops its own stage only.
    errors: list[TabootError] = field(default_factory=list)
    #: Names of checks that failed as errors; warnings are shown by what they warn of.
    checks: list[str] = field(default_factory=list)
    #: Items that failed, in this run or before, and still do. What is rejected on purpose (another language,
    #: an empty text) is not among them.
    dead: list[dict[str, str]] = field(default_factory=list)
    run_id: str = ""
    #: Whether the run of its own stages succeeded, so that the namespace can take in what it has.
    came_through: bool = False
    retired: bool = False

    @property
    def held(self) -> list[dict[str, Any]]:
        return [h for r in self.reports for h in r.held]

    @property
    def ok(self) -> bool:
        return not self.errors and not self.checks and not self.held and not self.dead

    def to_json(self) -> dict[str, Any]:
        state = (
            "failed"
            if self.errors or self.checks
            else "held"
            if self.held
            else "retired"
            if self.retired
            else "succeeded"
        )
        return {
            "source": self.source,
            "state": state,
            "run_id": self.run_id,
            "failed_items": self.dead,
            "failed_checks": self.checks,
            "held": self.held,
            "stages": [asdict(r) for r in self.reports],
            **(self.errors[0].to_response() if self.errors else {}),
            "errors": [e.to_response()["error"] for e in self.errors],
        }


@click.command()
@click.argument("sources", metavar="[SOURCE]...", nargs=-1, shell_complete=source_ids)
@click.option(
    "--confirm-deletes",
    is_flag=True,
    help="Carry out deletions that were held as E_MASS_DELETE. Name the sources.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only say what would be added, changed and deleted, by path. Of what is not on this machine, say"
    " what would be asked for, as `taboot plan` does.",
)
@json_option
def ingest(sources: tuple[str, ...], confirm_deletes: bool, dry_run: bool, as_json: bool) -> None:
    """Bring the knowledge base up to date with the sources file: all sources, or those named.

    Exit code 1 if a source, an item or a check failed, or if deletions wait for --confirm-deletes.
    """
    if confirm_deletes and not sources:
        raise click.UsageError("--confirm-deletes wants the sources it is meant for.")
    if confirm_deletes and dry_run:
        raise click.UsageError("--dry-run carries nothing out: leave --confirm-deletes away.")
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    if dry_run:
        sys.exit(0 if held.dry_run(settings, sources, as_json) else 1)
    # The sources file is read before Dagster is loaded and before a home is made: a mistake in it is reported
    # at once, and a command in the wrong folder leaves nothing behind.
    from taboot_pipelines.sources.sources_file import load_sources
    from taboot_pipelines.stages.workspace import Workspace

    load_sources(settings.sources_file)
    workspace = Workspace(settings)
    workspace.sync_sources()
    if workspace.former_sources is not None:
        click.echo(
            f"This home has belonged to {workspace.former_sources} so far; now {settings.sources_file} is"
            " read. What only the former declares is kept until it is confirmed (`taboot held`).",
            err=True,
        )
    chosen = _choose(workspace, sources)
    outcomes = _run(settings, workspace, chosen, confirm_deletes, quiet=as_json)
    ok = all(o.ok for o in outcomes)
    if as_json:
        emit_json({"ok": ok, "sources": [o.to_json() for o in outcomes]})
    else:
        _summary(outcomes)
    sys.exit(0 if ok else 1)


def _choose(workspace: Workspace, named: Sequence[str]) -> list[str]:
    """The sources to run: those named, else all. Retiring ones come first: a run deletes what they held."""
    rows = workspace.catalog.sources.find()
    known = list(dict.fromkeys(r["source_id"] for r in sorted(rows, key=lambda r: r["state"] != "retiring")))
    unknown = [s for s in named if s not in known]
    if unknown:
        from taboot_pipelines.stages.dry_run import unknown_sources

        raise unknown_sources(unknown, known)
    return list(dict.fromkeys(named)) or known


def _run(
    settings: Settings, workspace: Workspace, chosen: Sequence[str], confirm_deletes: bool, *, quiet: bool
) -> list[Outcome]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dagster import DagsterError
        from sqlalchemy.exc import SQLAlchemyError

        from taboot_pipelines.defs import build_defs
        from taboot_pipelines.defs.instance import open_instance
        from taboot_pipelines.defs.partitions import apply_change, partition_change
        from taboot_pipelines.defs.resources import Runtime, WorkspaceResource
        from taboot_pipelines.defs.retention import forget_old
        from taboot_pipelines.defs.run_origin import runs_of
        from taboot_pipelines.defs.sweeper import sweep_dead_runs

    # Dagster logs every event to the terminal; what matters is shown below.
    for name in ("dagster", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    outcomes = []
    with (
        progress.display(quiet) as display,
        waiting.observed(display.waits),
        open_instance(settings) as instance,
        runs_of(instance, _JOB),
    ):
        sweep_dead_runs(instance, workspace.catalog)
        apply_change(instance, partition_change(instance, workspace))
        runtime = Runtime(settings, workspace=workspace)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            defs = build_defs(settings, workspace=WorkspaceResource(runtime=runtime))
            job = defs.resolve_job_def(_JOB)
        runs = _Runs(runtime, job, instance, display)
        for source in chosen:
            outcomes.append(runs.of_source(source, confirm_deletes))
        runs.of_namespaces(outcomes)
        alive = {row["source_id"] for row in workspace.catalog.sources.find()}
        for outcome in outcomes:
            outcome.retired = outcome.source not in alive
            outcome.dead = _failed_items(workspace, outcome.source)
        apply_change(instance, partition_change(instance, workspace))
        with contextlib.suppress(SQLAlchemyError, OSError, DagsterError):
            # What cannot be tidied now is tidied by the next run.
            forget_old(instance, settings.retention)
    return outcomes


def _failed_items(workspace: Workspace, source: str) -> list[dict[str, str]]:
    return [
        {k: d[k] for k in ("stage", "code", "item", "message")}
        for row in workspace.catalog.sources.find()
        if row["source_id"] == source
        for d in workspace.catalog.dead_letters.find(row["namespace"], source)
        if d["kind"] == "failed"
    ]


@dataclass
class _Result:
    """What one Dagster run told while it ran, and how it ended."""

    reports: list[StageReport]
    errors: list[TabootError]
    checks: list[str]
    run_id: str
    succeeded: bool


@dataclass
class _Runs:
    """The Dagster runs of one ingest, one after the other."""

    runtime: Runtime
    job: dg.JobDefinition
    instance: dg.DagsterInstance
    display: progress.Display

    def of_source(self, source: str, confirm_deletes: bool) -> Outcome:
        """Take a source through its own stages."""
        from taboot_pipelines.defs.ingest import FetchConfig
        from taboot_pipelines.defs.partitions import TAG
        from taboot_pipelines.stages.chain import CHAIN

        self.display.begin(source)
        done = self._run(
            [stage.name for stage in CHAIN.of_source],
            {TAG: source},
            f"source {source}",
            ops={CHAIN.first.name: FetchConfig(confirm_deletes=confirm_deletes)},
        )
        outcome = Outcome(
            source,
            done.reports,
            done.errors,
            done.checks,
            run_id=done.run_id,
            came_through=done.succeeded,
        )
        self.display.end(source, outcome.ok)
        return outcome

    def of_namespaces(self, outcomes: Sequence[Outcome]) -> None:
        """Bring in, namespace by namespace, what the sources that came through have left pending.

        What is said of a namespace is said of each of them. The first gets the reports; for the others there
        was nothing left to do.
        """
        from taboot_pipelines.defs.partitions import range_tags, ranges
        from taboot_pipelines.stages.chain import CHAIN

        rows = self.runtime.workspace().catalog.sources.find()
        left = {o.source: o for o in outcomes if o.came_through}
        for namespace in sorted({row["namespace"] for row in rows}):
            inside = [row["source_id"] for row in rows if row["namespace"] == namespace]
            for sources in ranges(self.instance, [s for s in inside if s in left]):
                shown = f"namespace {namespace}"
                self.display.begin(shown)
                done = self._run([s.name for s in CHAIN.of_namespace], range_tags(sources), shown)
                for number, source in enumerate(sources):
                    # A source that moves between two namespaces is in both; its run was for both.
                    outcome = left.pop(source)
                    outcome.reports += [
                        report if number == 0 else _nothing_left(report, source) for report in done.reports
                    ]
                    outcome.errors += done.errors
                    outcome.checks += done.checks
                self.display.end(shown, not done.errors and not done.checks)

    def _run(
        self,
        stages: Sequence[str],
        tags: Mapping[str, str],
        what: str,
        ops: Mapping[str, Any] | None = None,
    ) -> _Result:
        """Run some stages, with their checks, for the partitions that the tags name."""
        from dagster import (
            AssetCheckSeverity,
            AssetKey,
            DagsterError,
            DagsterExecutionInterruptedError,
            RunConfig,
        )
        from sqlalchemy.exc import SQLAlchemyError

        from taboot_pipelines.defs.sweeper import process_tags

        reports: dict[tuple[str, str], StageReport] = {}
        errors: dict[str, TabootError] = {}

        def reported(report: StageReport) -> None:
            # Of a stage that was tried again the last try counts.
            reports[report.stage, report.namespace] = report
            errors.pop(report.stage, None)
            self.display.report(report)

        runtime = self.runtime
        runtime.progress, runtime.on_report, runtime.on_error = (
            self.display.progress,
            reported,
            errors.__setitem__,
        )
        runtime.on_crawl = self.display.crawl
        try:
            result = self.job.execute_in_process(
                run_config=RunConfig(
                    ops=dict(ops or {}), loggers={"console": {"config": {"log_level": "CRITICAL"}}}
                ),
                instance=self.instance,
                asset_selection=[AssetKey(stage) for stage in stages],
                raise_on_error=False,
                tags={**process_tags(), **tags},
            )
        except DagsterExecutionInterruptedError:
            raise KeyboardInterrupt from None
        except (DagsterError, SQLAlchemyError, OSError) as error:
            failure = TabootError("E_STORAGE", f"Dagster could not run {what} ({type(error).__name__}).")
            return _Result(list(reports.values()), [failure], [], "", False)
        if _interrupted(result):
            raise KeyboardInterrupt
        checks = [
            e.check_name
            for e in result.get_asset_check_evaluations()
            if not e.passed and e.severity == AssetCheckSeverity.ERROR
        ]
        # In the chain's order, whichever Dagster ran first.
        told = [errors[stage] for stage in stages if stage in errors]
        if not result.success and not told and not checks:
            told.append(TabootError("E_INTERNAL", f"The run of {what} failed.", run_id=result.run_id))
        return _Result(list(reports.values()), told, checks, result.run_id, result.success)


def _nothing_left(report: StageReport, source: str) -> StageReport:
    """Return the report of a stage of the namespace for a source that another source's run had brought in."""
    return replace(
        report,
        source_id=source,
        counts={},
        problems=[],
        held=[],
        sample=[],
        skipped=report.skipped or "unchanged",
        seconds=0.0,
        bytes=0,
    )


def _interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether somebody pressed Ctrl-C: Dagster takes that for a failure of the step that was running."""
    failures = [e.step_failure_data.error for e in result.all_events if e.is_step_failure]
    return any(
        error is not None and error.cls_name == "DagsterExecutionInterruptedError" for error in failures
    )


# --- what people see ----------------------------------------------------------------------------------------


def _by_owner(outcomes: Sequence[Outcome]) -> dict[str, list[StageReport]]:
    """The reports of stages that were there to run, by source, and those of each namespace behind them: its
    stages ran once for all its sources, and the first of them has what they told.
    """
    from taboot_pipelines.stages.chain import CHAIN

    of_all = {stage.name for stage in CHAIN.of_namespace}
    found: dict[str, list[StageReport]] = {outcome.source: [] for outcome in outcomes}
    for outcome in outcomes:
        for report in outcome.reports:
            if (report.skipped or "").startswith(_NOT_CONFIGURED):
                continue
            if report.stage not in of_all:
                found[outcome.source].append(report)
                continue
            told = found.setdefault(f"all of {report.namespace}", [])
            if report.stage not in (r.stage for r in told):
                told.append(report)
    return found


def _add_rows(shown: Table, name: str, reports: Sequence[StageReport]) -> None:
    """Add a row a stage; one for all of them where nothing has changed."""
    seconds = sum(report.seconds for report in reports)
    if reports and not any(report.changed for report in reports):
        # What was discovered is what was not modified.
        counts = next((found for r in reports if (found := _counts(r, but="discovered"))), "")
        what = f"unchanged ({counts})" if counts else "unchanged"
        shown.add_row(text(name), f"{len(reports)} stages", text(what), f"{seconds:.2f}")
        return
    for number, report in enumerate(reports):
        counts = _counts(report)
        what = counts or report.skipped or "nothing to do"
        if report.skipped == "unchanged" and counts:
            what = f"unchanged ({counts})"
        shown.add_row(text("" if number else name), report.stage, text(what), f"{report.seconds:.2f}")


def _counts(report: StageReport, *, but: str = "") -> str:
    told = {n: count for n in _SHOWN if n != but and (count := report.counts.get(n))}
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in told.items())


def _summary(outcomes: Sequence[Outcome]) -> None:
    out = console()
    shown = table("source", "stage", "what", "seconds", right=("seconds",))
    for name, reports in _by_owner(outcomes).items():
        _add_rows(shown, name, reports)
    if shown.row_count:
        out.print(shown)
    idle = {
        report.stage: report.skipped.removeprefix(_NOT_CONFIGURED)
        for outcome in outcomes
        for report in outcome.reports
        if report.skipped is not None and report.skipped.startswith(_NOT_CONFIGURED)
    }
    unset = [f"{stage} ({why})" for stage, why in sorted(idle.items()) if why.startswith("TABOOT_")]
    if unset:
        # Said once: it holds for every source.
        out.print(text(f"not configured: {', '.join(unset)}"), style="dim")
    for outcome in outcomes:
        for error in outcome.errors:
            out.print(text(f"{outcome.source}: {error.code}: {error.message}"), style="red")
            out.print(text(f"  {error.remedy}"))
        for check in outcome.checks:
            out.print(
                text(f"{outcome.source}: the check {check} failed; the UI shows which rows."), style="red"
            )
        for limit in (x for report in outcome.reports for x in report.limited):
            out.print(text(f"{outcome.source}: {limit['code']}: {limit['message']}"), style="yellow")
            out.print(text(f"  {limit['remedy']}"))
        for kept in outcome.held:
            out.print(text(f"{outcome.source}: {kept['code']}: {kept['message']}"), style="yellow")
            out.print(text(f"  {kept['remedy']}"))
        known = {(d["stage"], d["item"]) for d in outcome.dead}
        notes = [
            {"stage": r.stage, **p}
            for r in outcome.reports
            for p in r.problems
            if (r.stage, p["item"]) not in known
        ]
        problems = [*outcome.dead, *notes]
        for problem in problems[:_MAX_PROBLEMS]:
            out.print(
                text(f"{outcome.source}: {problem['stage']}: {problem['code']}: {problem['message']}"),
                style="yellow",
            )
        if len(problems) > _MAX_PROBLEMS:
            out.print(
                text(
                    f"{outcome.source}: … and {len(problems) - _MAX_PROBLEMS} more; `taboot status --failed`"
                    " lists them all."
                ),
                style="yellow",
            )
        if outcome.retired:
            out.print(
                text(f"{outcome.source}: retired; it has left the sources file and all it held was deleted.")
            )
