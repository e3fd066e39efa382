"""``runs``, ``reinterpret`` and ``reindex``: how documents were read, by which run, otherwise, and anew."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.admin import existing_workspace
from taboot_pipelines.cli.output import console, emit_json, json_option, namespace_option, table, text

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.interpretations import Interpretations
    from taboot_pipelines.retrieval.results.runs import Fact

_SHORT = 12


@click.group()
def runs() -> None:
    """Interpretation runs: list them, compare them, promote one, take that back."""


def _tier_option(function: Any) -> Any:
    return click.option("--tier", metavar="TIER", default=None, help="A, B or C.")(function)


def _source_option(function: Any) -> Any:
    return click.option("--source", metavar="SOURCE", default=None, help="Of this source.")(function)


@runs.command("list")
@_source_option
@_tier_option
@click.option(
    "--status",
    type=click.Choice(["pending", "running", "completed", "failed"]),
    default=None,
    help="Only runs of this status.",
)
@click.option("--document", metavar="DOC", default=None, help="Of this document: a doc_id or a path.")
@click.option("--candidates", is_flag=True, help="Only what waits to be promoted.")
@click.option("--active", is_flag=True, help="Only what is active.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Most runs.")
@namespace_option
@json_option
def list_runs(
    source: str | None,
    tier: str | None,
    status: str | None,
    document: str | None,
    candidates: bool,
    active: bool,
    limit: int,
    namespace: str | None,
    as_json: bool,
) -> None:
    """List runs, newest first."""
    found = _opened(namespace).runs(
        source=source,
        tier=tier,
        status=status,
        document=document,
        active=active or None,
        candidate=candidates or None,
        limit=limit,
    )
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    shown = table("run", "state", "source", "tier", "n", "unit", "facts", "confidence", "completed")
    for run in found.items:
        shown.add_row(
            *(
                text(value)
                for value in (
                    (run.run_id or run.batch_id or "")[:_SHORT],
                    run.state,
                    run.source,
                    run.tier,
                    run.number or "",
                    run.path,
                    run.nodes + run.edges,
                    "" if run.confidence is None else f"{run.confidence:.2f}",
                    "" if run.completed_at is None else f"{run.completed_at:%Y-%m-%d %H:%M:%S}",
                )
            )
        )
    console().print(shown if found.items else text("No run is like that."))
    if found.truncated:
        console().print(text("Cut at the limit."), style="dim")


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Most facts.")
@namespace_option
@json_option
def show(run_id: str, limit: int, namespace: str | None, as_json: bool) -> None:
    """Show a run (its id or the beginning of it), its configuration, and what it says with quotes."""
    found = _opened(namespace).run(run_id, limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    out, run = console(), found.run
    out.print(text(f"{run.state} run {run.run_id} of {run.source}, {run.tier}: {run.path}"), style="bold")
    settings = ", ".join(f"{name} {value}" for name, value in {**run.config, **run.overrides}.items())
    out.print(text(f"   {settings}"), style="dim", soft_wrap=True)
    for fact in found.facts:
        _print_fact(fact, "")
    if found.truncated:
        out.print(text("Cut at the limit."), style="dim")


@runs.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@_source_option
@_tier_option
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Most facts.")
@namespace_option
@json_option
def diff(
    a: str, b: str, source: str | None, tier: str | None, limit: int, namespace: str | None, as_json: bool
) -> None:
    """Compare what runs say: A and B are runs, or `active` and `candidate` of a source and tier."""
    found = _opened(namespace).diff(a, b, source, tier, limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    out = console()
    for item in found.items:
        sign = {"added": "+ ", "removed": "- ", "changed": "~ "}[item.change]
        _print_fact(item.fact, sign, f"  ({', '.join(item.fields)})" if item.fields else "")
    out.print(
        text(f"{found.added} added, {found.removed} removed, {found.changed} changed, {found.same} the same.")
    )
    if found.gold is not None:
        one, other = found.gold.a, found.gold.b
        out.print(
            text(
                f"On {found.gold.passages} labelled passages: precision {one.precision:.3f} ->"
                f" {other.precision:.3f}, recall {one.recall:.3f} -> {other.recall:.3f}, F1 {one.f1:.3f} ->"
                f" {other.f1:.3f}."
            )
        )
    if found.truncated:
        out.print(text("Cut at the limit."), style="dim")


@runs.command()
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@_source_option
@_tier_option
@namespace_option
@json_option
def promote(
    run_ids: tuple[str, ...], source: str | None, tier: str | None, namespace: str | None, as_json: bool
) -> None:
    """Make runs active, or all that wait of a source and tier; no document is read and no model asked."""
    done = _opened(namespace).promote(run_ids, source, tier)
    if as_json:
        emit_json(asdict(done))
    else:
        lapsed = f", {len(done.lapsed)} were made from other bytes and are left" if done.lapsed else ""
        called = f" Promotion {done.promotion}." if done.promotion else ""
        console().print(text(f"{len(done.run_ids)} runs are active now{lapsed}.{called}"))
        _print_pending(done.pending)
    sys.exit(1 if done.pending else 0)


@runs.command()
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@_source_option
@_tier_option
@click.option("--promotion", metavar="ID", default=None, help="The promotion to take back.")
@namespace_option
@json_option
def rollback(
    run_ids: tuple[str, ...],
    source: str | None,
    tier: str | None,
    promotion: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Take back a promotion, that of some runs, or the last one of a source and tier."""
    done = _opened(namespace).rollback(run_ids, source, tier, promotion)
    if as_json:
        emit_json(asdict(done))
    else:
        console().print(text(f"{len(done.run_ids)} runs are archived, {len(done.active)} active instead."))
        _print_pending(done.pending)
    sys.exit(1 if done.pending else 0)


@click.command()
@click.argument("doc_ids", metavar="[DOC_ID]...", nargs=-1)
@_source_option
@click.option("--tier", metavar="TIER", required=True, help="A, B or C.")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting of the tier to use otherwise than configured, such as model=NAME. Several may be given.",
)
@click.option("--promote", "at_once", is_flag=True, help="Make the new runs active at once.")
@namespace_option
@json_option
def reinterpret(
    doc_ids: tuple[str, ...],
    source: str | None,
    tier: str,
    settings: tuple[str, ...],
    at_once: bool,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Interpret documents, or all of a source, once more; what is served stays until it is promoted."""
    opened = _opened(namespace)
    made = opened.reinterpret(docs=doc_ids or None, source=source, tier=tier, config=_config(settings))
    promoted = opened.promote(made.run_ids, None, None) if at_once and made.run_ids else None
    if as_json:
        emit_json({**asdict(made), "promoted": None if promoted is None else asdict(promoted)})
    else:
        out = console()
        out.print(text(f"{len(made.run_ids)} new runs, {len(made.failed)} units could not be read."))
        for unit, why in made.failed.items():
            out.print(text(f"   {unit}: {why}"))
        if promoted is not None:
            out.print(text(f"{len(promoted.run_ids)} of them are active now."))
        elif made.run_ids and source is not None:
            out.print(
                text(f"Compare them: taboot runs diff active candidate --source {source} --tier {tier}")
            )
            out.print(text(f"Use them: taboot runs promote --source {source} --tier {tier}"))
    sys.exit(1 if made.failed else 0)


def _config(settings: tuple[str, ...]) -> dict[str, Any]:
    """The settings as given, numbers and truth values as such."""
    import json

    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{setting!r} is not NAME=VALUE.", param_hint="--set")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        found[name] = read if isinstance(read, str | int | float | bool) else value
    return found


def _print_fact(fact: Fact, sign: str, note: str = "") -> None:
    out = console()
    out.print(text(f"{sign}{fact.statement}{note}"), style="bold" if sign else None, soft_wrap=True)
    out.print(text(f"   {fact.path}:{fact.line}  {fact.confidence:.2f}"), style="dim", soft_wrap=True)
    for line in "" if fact.quote is None else fact.quote.text.splitlines():
        out.print(text(f"   │ {line}"), soft_wrap=True)


def _print_pending(pending: tuple[str, ...]) -> None:
    if pending:
        console().print(text(f"{', '.join(pending)} did not answer and is written by the next ingest."))


@click.command()
@click.argument("documents", metavar="DOCUMENT...", nargs=-1)
@click.option("--source", metavar="SOURCE", default=None, help="All documents of this source.")
@namespace_option
@json_option
def reindex(documents: tuple[str, ...], source: str | None, namespace: str | None, as_json: bool) -> None:
    """Parse, cut, embed and interpret documents anew from their stored bytes, without fetching.

    A DOCUMENT is named as for `taboot document`. For what a defect or a lost file has spoiled: where nothing
    was wrong nothing changes. `taboot audit --repair` looks for it everywhere instead. Exit code 1 if a
    document failed.
    """
    if not documents and source is None:
        raise click.UsageError("Name documents, or a source by --source.")
    from taboot_pipelines.stages import reindexing

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        done = reindexing.reindex(workspace, tenant, documents, source=source)
    if as_json:
        emit_json({"documents": [asdict(x) for x in done]})
    else:
        for x in [x for x in done if x.code is None and (x.state != "unchanged" or documents)]:
            told = f"{x.chunks:,} chunks, {x.facts:,} facts"
            console().print(text(f"{x.doc_id[:8]}  {x.state:<9}  {x.source_id}:{x.path}  {told}"))
        for x in [x for x in done if x.code is not None]:
            console().print(text(f"{x.source_id}:{x.path}: {x.code}: {x.message}"), style="yellow")
        counts = Counter(x.state for x in done)
        told = ", ".join(f"{n:,} {state}" for state, n in sorted(counts.items()))
        console().print(text(told or "There is no document."), style="dim")
    sys.exit(1 if any(x.code for x in done) else 0)


def _opened(namespace: str | None) -> Interpretations:
    from taboot_pipelines.retrieval.interpretations import Interpretations
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    return Interpretations(settings, namespace or settings.namespace)
