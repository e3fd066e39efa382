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
    """Say what a run of SOURCE would request: requests, items and bytes where the origin tells them.

    Asks as little as that takes, and stores nothing.
    """
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages.planning import plan_of
    from taboot_pipelines.stages.workspace import Workspace

    workspace = Workspace(load_settings())
    try:
        workspace.sync_sources()
        parts = list(plan_of(workspace, source))
    finally:
        workspace.close()
    if as_json:
        emit_json({"source": source, "plan": [asdict(part) for part in parts]})
        return
    shown = table("part", "requests", "items", "bytes", "note")
    for part in parts:
        shown.add_row(part.what, _number(part.requests), _number(part.items), _number(part.bytes), part.note)
    console().print(shown)


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
