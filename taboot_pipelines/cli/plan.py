"""``plan``: what a run of a source would ask its origin for, before it does."""

from __future__ import annotations

from dataclasses import asdict

import click

from taboot_pipelines.cli.completion import source_ids
from taboot_pipelines.cli.output import console, emit_json, json_option, table


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
