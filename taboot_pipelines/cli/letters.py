"""``letters``: the dead letters: what failed, why, and trying it again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.admin import existing_workspace
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
from taboot_pipelines.errors import CODES, TabootError

if TYPE_CHECKING:
    from taboot_pipelines.stages.dead_letters import FailedWindow, Letter

_source_option = click.option(
    "--source", "sources", multiple=True, metavar="SOURCE", help="Only letters of this source."
)


@click.group()
def letters() -> None:
    """List, inspect and replay what failed: items, and windows that the chat model did not answer."""


@letters.command(name="list")
@_source_option
@namespace_option
@json_option
def list_(sources: tuple[str, ...], namespace: str | None, as_json: bool) -> None:
    """List the dead letters with their state, and when each is tried again."""
    from taboot_pipelines.stages.dead_letters import letters as find

    with existing_workspace() as workspace:
        found = find(workspace, namespace or workspace.settings.namespace, sources)
    if as_json:
        emit_json([_as_json(letter) for letter in found])
        return
    shown = table("source", "stage", "item", "state", "code", "tried", "next try", right=("tried",))
    for letter in found:
        shown.add_row(
            text(letter.source),
            letter.stage,
            text(letter.item),
            letter.state.value,
            letter.code,
            str(letter.attempts),
            moment(letter.retry_at) or "",
        )
    console().print(shown if found else text("There is no dead letter."))


@letters.command()
@click.argument("item")
@_source_option
@namespace_option
@json_option
def show(item: str, sources: tuple[str, ...], namespace: str | None, as_json: bool) -> None:
    """Show one letter: the reason, what to do, and of a window where it stands and its text."""
    from taboot_pipelines.stages.dead_letters import letters as find
    from taboot_pipelines.stages.dead_letters import places

    with existing_workspace() as workspace:
        where = namespace or workspace.settings.namespace
        found = [(x, list(places(workspace, x))) for x in find(workspace, where, sources, [item])]
    if not found:
        raise TabootError("E_NOT_FOUND", f"There is no dead letter of {item!r}.", namespace=where)
    if as_json:
        emit_json([{**_as_json(x), "places": [dataclasses.asdict(p) for p in at]} for x, at in found])
        return
    for letter, at in found:
        _show(letter, at)


@letters.command()
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@_source_option
@click.option("--all", "everything", is_flag=True, help="All letters of the namespace.")
@click.option("--later", is_flag=True, help="Only let them be due; the next run of their source tries them.")
@namespace_option
@json_option
def replay(
    items: tuple[str, ...],
    sources: tuple[str, ...],
    everything: bool,
    later: bool,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Try letters again that a retry may mend, as if they had failed once: those named, or of a source.

    Runs their sources. Exit code 1 if one of them fails again.
    """
    if not (items or sources or everything):
        raise click.UsageError("Name items, a --source, or --all.")
    from taboot_pipelines.stages import dead_letters
    from taboot_pipelines.stages.dead_letters import letters as find
    from taboot_pipelines.stages.running import run_chain

    with existing_workspace() as workspace:
        where = namespace or workspace.settings.namespace
        chosen = dead_letters.replay(workspace, where, sources or None, items or None)
        tried = {(x["source_id"], x["stage"], x["item"]) for x in chosen}
        if not later:
            for source in sorted({source for source, _, _ in tried}):
                run_chain(workspace, source)
        left = [x for x in find(workspace, where) if (x.source, x.stage, x.item) in tried]
    if as_json:
        emit_json({"replayed": len(tried), "left": [_as_json(letter) for letter in left]})
    elif later:
        plain(f"{len(tried)} letters are due; `taboot ingest` or the sensor tries them.")
    else:
        plain(f"{len(tried)} letters tried again, {len(tried) - len(left)} of them well.")
        for letter in left:
            plain(f"  {letter.source}: {letter.item}: {letter.code}: {letter.message}")
    if left and not later:
        raise SystemExit(1)


def _show(letter: Letter, at: list[FailedWindow]) -> None:
    plain(f"{letter.source}: {letter.stage}: {letter.item}", bold=True)
    plain(f"  {letter.code}: {letter.message}")
    plain(f"  {CODES[letter.code][1]}")
    plain(f"  {letter.state.value}, tried {letter.attempts}×; next try: {moment(letter.retry_at) or 'none'}")
    plain(f"  first {moment(letter.first_at)}, last {moment(letter.last_at)}")
    for place in at:
        plain(f"\n  {place.path}, line {place.line} ({place.tokens} tokens with the question):", bold=True)
        for line in place.text.splitlines():
            plain(f"    {line}")


def _as_json(letter: Letter) -> dict[str, Any]:
    times = {name: moment(getattr(letter, name)) for name in ("first_at", "last_at", "retry_at")}
    return {**dataclasses.asdict(letter), **times}
