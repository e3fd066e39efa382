"""``plan``: what a run of a source would ask its origin for, before it does; ``held``: deletions that wait
for a person; and what ``ingest --dry-run`` shows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.completion import source_ids
from taboot_pipelines.cli.output import console, emit_json, json_option, table, text

if TYPE_CHECKING:
    from taboot_pipelines.settings import Settings
    from taboot_pipelines.stages.dry_run import Foreseen
    from taboot_pipelines.stages.held_deletions import Held
    from taboot_pipelines.stages.workspace import Workspace


#: Paths that are shown of each source and kind; ``--json`` has all.
_SHOWN = 20


@click.command()
@json_option
def held(as_json: bool) -> None:
    """Show the deletions that wait for `taboot ingest SOURCE --confirm-deletes`.

    They are held because a slip could have caused them: most of a source or all of it would go.
    """
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages.health import catalog_exists
    from taboot_pipelines.stages.held_deletions import documents
    from taboot_pipelines.stages.held_deletions import held as held_deletions
    from taboot_pipelines.stages.workspace import Workspace

    settings = load_settings()
    found: list[Held] = []
    if catalog_exists(settings):
        workspace = Workspace(settings)
        try:
            found = list(held_deletions(workspace))
        finally:
            workspace.close()
    if as_json:
        emit_json({"held": [_held_json(h) for h in found]})
        return
    out = console()
    for h in found:
        where = "" if h.namespace == settings.namespace else f" of namespace {h.namespace}"
        out.print(text(f"{h.source_id}{where} {h.reason}: {documents(h.deletions)}"), style="bold")
        for x in h.documents[:_SHOWN]:
            out.print(text(f"  - {x.path}"), soft_wrap=True)
        if h.deletions > min(len(h.documents), _SHOWN):
            out.print(text(f"  … and {h.deletions - min(len(h.documents), _SHOWN):,} more"))
        out.print(text(f"  `{h.command}` deletes {'it' if h.deletions == 1 else 'them'}."))
    if not found:
        out.print("Nothing waits for a confirmation.")


def _held_json(h: Held) -> dict[str, Any]:
    return {
        "namespace": h.namespace,
        "source": h.source_id,
        "reason": h.reason,
        "deletions": h.deletions,
        "paths": [x.path for x in h.documents],
        "confirm": h.command,
    }


def dry_run(settings: Settings, sources: Sequence[str], as_json: bool) -> bool:
    """Show what a run of these sources (none: of all) would do; whether it could be found out for all."""
    from taboot_pipelines.sources.sources_file import load_sources
    from taboot_pipelines.stages.dry_run import foresee

    declared = load_sources(settings.sources_file)
    ok = True
    shown = []
    with _opened(settings) as workspace:
        for found in foresee(workspace, declared, sources):
            ok = ok and found.error is None
            if as_json:
                shown.append(_foreseen_json(found))
            else:
                _show(found)
    if as_json:
        emit_json({"ok": ok, "sources": shown})
    else:
        console().print("Nothing was changed.", style="dim")
    return ok


@contextmanager
def _opened(settings: Settings) -> Iterator[Workspace]:
    """The workspace; before the first ingest one that goes again, since looking must not make a home."""
    from taboot_pipelines.stages.health import catalog_exists
    from taboot_pipelines.stages.workspace import Workspace

    with tempfile.TemporaryDirectory(prefix="taboot-") as away:
        there = catalog_exists(settings)
        workspace = Workspace(settings if there else settings.model_copy(update={"home": Path(away)}))
        try:
            yield workspace
        finally:
            workspace.close()


def _show(found: Foreseen) -> None:
    out = console()
    entry = "" if found.entry == "unchanged" else f", {found.entry}"
    counts = (
        ""
        if found.plan is not None or found.error is not None
        else f": {len(found.added):,} added, {len(found.changed):,} changed, {len(found.deleted):,} deleted,"
        f" {found.unchanged:,} unchanged" + (f", {len(found.passed):,} passed over" if found.passed else "")
    )
    out.print(text(f"{found.source} ({found.type}{entry}){counts}"), style="bold")
    for mark, paths, style in (
        ("+", found.added, "green"),
        ("~", found.changed, "yellow"),
        ("-", found.deleted, "red"),
    ):
        for path in paths[:_SHOWN]:
            out.print(text(f"  {mark} {path}"), style=style, soft_wrap=True)
        if len(paths) > _SHOWN:
            out.print(text(f"  {mark} … and {len(paths) - _SHOWN:,} more"), style=style)
    if found.held:
        out.print(text(f"  held until `taboot ingest {found.source} --confirm-deletes`"), style="yellow")
    if found.incomplete:
        out.print(text(f"  not read to the end ({found.incomplete}): nothing counts as deleted"))
    if found.note:
        out.print(text(f"  {found.note}"))
    for part in found.plan or ():
        numbers = [
            f"{value:,} {name}"
            for name, value in (("requests", part.requests), ("items", part.items), ("bytes", part.bytes))
            if value is not None
        ]
        out.print(text(f"  would ask for {part.what}: {', '.join([*numbers, *filter(None, [part.note])])}"))
    if found.error is not None:
        out.print(text(f"  {found.error.code}: {found.error.message}"), style="red")
        out.print(text(f"  {found.error.remedy}"))


def _foreseen_json(found: Foreseen) -> dict[str, Any]:
    error = None if found.error is None else found.error.to_response()["error"]
    plan = None if found.plan is None else [asdict(part) for part in found.plan]
    kept = {k: v for k, v in vars(found).items() if k not in ("error", "plan")}
    return {**kept, "plan": plan, **({} if error is None else {"error": error})}


@click.command()
@click.argument("source", shell_complete=source_ids)
@json_option
def plan(source: str, as_json: bool) -> None:
    """Say what a run of SOURCE would request: requests, items and bytes where the origin tells them, and the
    windows and tokens that a chat model would be asked about.

    Asks as little as that takes, and stores nothing.
    """
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages.dry_run import plan_of
    from taboot_pipelines.stages.workspace import Workspace

    workspace = Workspace(load_settings())
    try:
        workspace.sync_sources()
        parts = list(plan_of(workspace, source))
    finally:
        workspace.close()
    if as_json:
        told = [{k: v for k, v in asdict(part).items() if k != "tokens" or v is not None} for part in parts]
        emit_json({"source": source, "plan": told})
        return
    shown = table("part", "requests", "items", "bytes", "tokens", "note")
    for part in parts:
        tokens = "" if part.tokens is None else _number(part.tokens)
        numbers = [_number(n) for n in (part.requests, part.items, part.bytes)]
        shown.add_row(part.what, *numbers, tokens, part.note)
    console().print(shown)


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
