"""``crawls``: lists crawls, shows, watches, helps with and cancels one, and lets a cancelled one go on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.output import (
    console,
    emit_json,
    json_option,
    moment,
    namespace_option,
    plain,
    table,
    text,
)

if TYPE_CHECKING:
    from rich.console import Console

    from taboot_pipelines.model.crawl_graph import CrawlProgress
    from taboot_pipelines.model.crawls import Crawl
    from taboot_pipelines.stages.crawl_graph import CrawlGraph
    from taboot_pipelines.stages.workspace import Workspace

_SECONDS_BETWEEN_LOOKS = 1.0
_MAX_BROKEN = 20
_WHICH = "CRAWL is a crawl's id, the beginning of one, or a source, which means its last crawl."


@click.group(invoke_without_command=True)
@click.pass_context
def crawls(context: click.Context) -> None:
    """Look at crawls, cancel them, and let cancelled ones go on; without a command: list them."""
    if context.invoked_subcommand is None:
        context.invoke(list_crawls)


@crawls.command("list")
@click.argument("source", required=False)
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True)
@namespace_option
@json_option
def list_crawls(
    source: str | None = None, limit: int = 20, namespace: str | None = None, as_json: bool = False
) -> None:
    """List the last crawls of the namespace, or of one source, newest first."""
    with _opened(namespace) as (_, graph):
        found = [_described(graph, crawl) for crawl in graph.crawls(source, limit)]
    if as_json:
        emit_json({"crawls": found})
        return
    if not found:
        plain("No source has crawled yet.")
        return
    numbers = ("discovered", "fetched", "not_modified", "skipped", "failed", "open")
    shown = table(
        "crawl", "source", "state", "started", *(n.replace("_", " ") for n in numbers), right=numbers
    )
    for row in found:
        counts = (f"{row['counts'][n]:,}" for n in numbers)
        shown.add_row(row["crawl_id"][:8], text(row["source"]), _state(row), text(row["started_at"]), *counts)
    console().print(shown)


@crawls.command(epilog=_WHICH)
@click.argument("crawl")
@namespace_option
@json_option
def show(crawl: str, namespace: str | None, as_json: bool) -> None:
    """Show one crawl: how far it has come, its ledger by depth, and the links that lead to nothing."""
    from taboot_pipelines.stages.crawl_graph import by_depth

    with _opened(namespace) as (_, graph):
        found = graph.find(crawl)
        described = _described(graph, found)
        ledger = graph.ledger_rows(found)
        broken = graph.broken(found).select(["url", "http_status", "code", "parent"]).to_pylist()
        progress = graph.progress(found)
    if as_json:
        emit_json({**described, "ledger": [asdict(row) for row in ledger], "broken": broken})
        return
    out = console()
    out.print(text(f"crawl {found.crawl_id} of {found.source_id}: {_state(described)}"), style="bold")
    out.print(text(progress.sentence))
    shown = table(
        *("depth", "discovered", "fetched", "not modified", "skipped", "failed", "open"),
        right=("depth", "discovered", "fetched", "not modified", "skipped", "failed", "open"),
    )
    for depth in by_depth(ledger):
        shown.add_row(*(f"{count:,}" for count in depth.values()))
    out.print(shown)
    codes: dict[str, int] = {}
    for row in ledger:
        if row.code:
            codes[row.code] = codes.get(row.code, 0) + row.urls
    for code, count in sorted(codes.items()):
        out.print(text(f"{count:,} {code}"))
    if broken:
        out.print(text(f"\n{len(broken):,} broken links:"))
        links = table("url", "status", "code", "on")
        for row in broken[:_MAX_BROKEN]:
            links.add_row(*(text(row[n] or "") for n in ("url", "http_status", "code", "parent")))
        out.print(links)
        if len(broken) > _MAX_BROKEN:
            out.print(text(f"… and {len(broken) - _MAX_BROKEN:,} more; --json lists them all."))


@crawls.command(epilog=_WHICH)
@click.argument("crawl")
@namespace_option
@json_option
def watch(crawl: str, namespace: str | None, as_json: bool) -> None:
    """Watch a crawl until it ends: pages done, queue, rate, errors. With --json one line a second."""
    import json

    out = console()
    with _opened(namespace) as (_, graph):
        crawl_id = graph.find(crawl).crawl_id
        with _line(out, as_json) as say:
            while True:
                found = graph.find(crawl_id)
                progress = graph.progress(found)
                if as_json:
                    click.echo(json.dumps({**asdict(progress), "done": progress.done}))
                else:
                    say(progress)
                if found.ended_at is not None:
                    break
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        if not as_json:
            plain(f"{_state(_described(graph, found))}: {progress.sentence}")


@crawls.command(epilog=_WHICH)
@click.argument("crawl")
@namespace_option
@json_option
def cancel(crawl: str, namespace: str | None, as_json: bool) -> None:
    """Cancel a crawl. Who works at it stops within a second or two; what it has read stays."""
    with _opened(namespace) as (workspace, graph):
        found = graph.find(crawl)
        done = workspace.catalog.crawls.cancel(graph.namespace, found.crawl_id)
        described = _described(graph, graph.find(found.crawl_id))
    if as_json:
        emit_json({"cancelled": done, **described})
    elif done:
        plain(
            f"Cancelled crawl {found.crawl_id}. `taboot crawls resume {found.crawl_id[:8]}` goes on with it."
        )
    else:
        plain(f"Crawl {found.crawl_id} had ended already: {_state(described)}.")


@crawls.command(epilog=_WHICH)
@click.argument("crawl")
@click.option("--later", is_flag=True, help="Leave the work to the source's next run.")
@namespace_option
@json_option
@click.pass_context
def resume(context: click.Context, crawl: str, later: bool, namespace: str | None, as_json: bool) -> None:
    """Let a cancelled or interrupted crawl go on where it was, and ingest its source at once."""
    from taboot_pipelines.cli.ingest import ingest

    with _opened(namespace) as (workspace, graph):
        found = workspace.catalog.crawls.resume(graph.namespace, graph.find(crawl).crawl_id)
        described = _described(graph, found)
    if not later:
        context.invoke(ingest, sources=(found.source_id,), confirm_deletes=False, as_json=as_json)
    elif as_json:
        emit_json(described)
    else:
        plain(f"Crawl {found.crawl_id} goes on with the next run of {found.source_id}.")


@crawls.command()
@click.argument("source")
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Seconds to wait for the crawl to begin.",
)
@json_option
def join(source: str, wait: float, as_json: bool) -> None:
    """Read pages of a crawl that another process leads, here or on another machine, until none is left.

    The process that ingests the source leads its crawl and takes in what is read here.
    """
    from taboot_pipelines.stages.shared_crawls import join_crawl

    with _opened(None) as (workspace, _):
        report = join_crawl(workspace, source, wait_seconds=wait)
    if as_json:
        emit_json({"source": source, "seconds": round(report.seconds, 3), **report.counts})
        return
    read = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.counts.items())
    plain(f"Nothing is left of the crawl of {source}. Read here in {report.seconds:.1f} s: {read}.")


@contextlib.contextmanager
def _opened(namespace: str | None) -> Iterator[tuple[Workspace, CrawlGraph]]:
    from taboot_pipelines.cli.admin import existing_workspace
    from taboot_pipelines.stages.crawl_graph import CrawlGraph

    with existing_workspace() as workspace:
        yield workspace, CrawlGraph(workspace.catalog, namespace or workspace.settings.namespace)


@contextlib.contextmanager
def _line(out: Console, quiet: bool) -> Iterator[Any]:
    """Give what says how far a crawl has come: on one line of a terminal, else on a line of its own."""
    if quiet or not out.is_terminal:
        yield lambda progress: plain(progress.sentence)
        return
    with out.status("") as status:

        def say(progress: CrawlProgress) -> None:
            status.update(text(f"{progress.source_id}: {progress.sentence}"))

        yield say


def _described(graph: CrawlGraph, crawl: Crawl) -> dict[str, Any]:
    progress = graph.progress(crawl)
    return {
        "crawl_id": crawl.crawl_id,
        "source": crawl.source_id,
        "number": crawl.number,
        "state": crawl.state.value,
        "complete": crawl.complete,
        "reason": crawl.reason,
        "started_at": moment(crawl.started_at),
        "ended_at": moment(crawl.ended_at),
        "counts": dict(progress.counts),
        "pending": progress.pending,
        "in_progress": progress.in_progress,
        "per_second": round(progress.per_second, 2),
        "errors": dict(progress.errors),
    }


def _state(described: dict[str, Any]) -> str:
    """The state in words: whether it is complete, and why not."""
    if described["complete"] is False and described["reason"]:
        return f"{described['state']} ({described['reason']})"
    return str(described["state"])
