"""``ingest``: takes every source, or some, through the chain, and tells Dagster what it did."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines import telemetry
from taboot_pipelines.cli import plan, progress
from taboot_pipelines.cli.completion import source_ids
from taboot_pipelines.cli.output import console, emit_json, json_option, show_error, table, text, warn
from taboot_pipelines.cli.retention import as_record, summary
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import waiting

if TYPE_CHECKING:
    from rich.table import Table

    from taboot_pipelines.ingesting import Outcome
    from taboot_pipelines.settings import Settings
    from taboot_pipelines.stages.report import StageReport
    from taboot_pipelines.stages.retention import RetentionPass
    from taboot_pipelines.stages.workspace import Workspace

#: What the summary shows of a stage's counts, in this order.
_SHOWN = (
    "discovered",
    "fetched",
    "new",
    "same_text",
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
#: So begins why a stage had nothing to do whose server is not configured.
_NOT_CONFIGURED = "skipped: "


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
        sys.exit(0 if plan.dry_run(settings, sources, as_json) else 1)
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
    outcomes, untold = _run(settings, workspace, chosen, confirm_deletes, quiet=as_json)
    # Last: what has other bytes by now does not expire.
    passes, late = _expire(workspace, chosen)
    ok = all(o.ok for o in outcomes) and untold is None and late is None
    if as_json:
        failure = untold or late
        left = {} if failure is None else failure.to_response()
        told = {done.namespace: as_record(done) for done in passes}
        emit_json({"ok": ok, "sources": [_to_json(o) for o in outcomes], "retention": told, **left})
    else:
        _summary(outcomes)
        for done in passes:
            if done.expired or done.expiring:
                click.echo(summary(done))
        for failure in (untold, late):
            if failure is not None:
                show_error(failure, as_json)
    sys.exit(0 if ok else 1)


def _expire(workspace: Workspace, chosen: Sequence[str]) -> tuple[list[RetentionPass], TabootError | None]:
    """Delete what has expired in the namespaces of the sources; what was done, and why not all of it."""
    from taboot_pipelines.stages import retention

    rows = workspace.catalog.sources.find()
    passes, failure = [], None
    for namespace in sorted({row["namespace"] for row in rows if row["source_id"] in chosen}):
        try:
            passes.append(retention.run(workspace, namespace))
        except TabootError as error:
            failure = failure or error
    return passes, failure


def _choose(workspace: Workspace, named: Sequence[str]) -> list[str]:
    """The sources to run: those named, else all in their order."""
    known = workspace.in_order([row["source_id"] for row in workspace.catalog.sources.find()])
    unknown = [s for s in named if s not in known]
    if unknown:
        from taboot_pipelines.errors import unknown_sources

        raise unknown_sources(unknown, known)
    for source in dict.fromkeys(named):
        if all(entry.paused for entry in workspace.entries(source)):
            warn(f"{source} is paused (`enabled: false`): nothing of it is read.")
    return list(dict.fromkeys(named)) or known


def _run(
    settings: Settings, workspace: Workspace, chosen: Sequence[str], confirm_deletes: bool, *, quiet: bool
) -> tuple[list[Outcome], TabootError | None]:
    """Run the sources; return what became of them, and why Dagster could not be told of it.

    What the ingest did stands all the same, and the next one tells it.
    """
    from taboot_pipelines.ingesting import Ingest, Memory, finish
    from taboot_pipelines.stages.progress import ingesting

    workspace.catalog.jobs.fail_dead()
    workspace.catalog.batches.fail_stale()
    memory = Memory(settings)
    outcomes: list[Outcome] = []
    untold: TabootError | None = None
    with (
        telemetry.span("ingest", sources=len(chosen)),
        progress.display(quiet) as display,
        waiting.observed(display.waits),
        contextlib.ExitStack() as stack,
        ingesting(workspace, chosen),
    ):
        reporter = None
        for step in Ingest(workspace, display, memory, confirm_deletes=confirm_deletes).run(chosen):
            outcomes += step.outcomes
            alive = {row["source_id"] for row in workspace.catalog.sources.find()}
            if untold is not None or memory.is_told(step, alive):
                continue
            if reporter is None:
                # Dagster takes seconds to load, and an ingest that has nothing to tell does without.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    from taboot_pipelines.defs.reporting import Reporter

                    reporter = Reporter(workspace, memory)
                stack.callback(reporter.close)
            try:
                reporter.report(step)
            except TabootError as error:
                untold = error
        memory.save()
    finish(workspace, outcomes)
    return outcomes, untold


def _to_json(outcome: Outcome) -> dict[str, Any]:
    state = (
        "failed"
        if outcome.errors or outcome.checks
        else "held"
        if outcome.held
        else "retired"
        if outcome.retired
        else "succeeded"
    )
    return {
        "source": outcome.source,
        "state": state,
        "failed_items": outcome.dead,
        "failed_checks": outcome.checks,
        "held": outcome.held,
        "stages": [asdict(report) for report in outcome.reports],
        **(outcome.errors[0].to_response() if outcome.errors else {}),
        "errors": [error.to_response()["error"] for error in outcome.errors],
    }


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
    why = {"skipped": f" ({', '.join(sorted(report.reasons))})" if report.reasons else ""}
    return ", ".join(f"{count:,} {name.replace('_', ' ')}{why.get(name, '')}" for name, count in told.items())


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
