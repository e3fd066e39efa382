"""``notifications``: who is told of events, what was delivered, and what is tried again."""

from __future__ import annotations

import sys

import click

from taboot_pipelines.cli.admin import existing_workspace
from taboot_pipelines.cli.output import (
    console,
    cut,
    emit_json,
    json_option,
    moment,
    namespace_option,
    plain,
    table,
    text,
)
from taboot_pipelines.errors import TabootError


@click.group()
def notifications() -> None:
    """Tell the endpoints of the sources file what happened, and see what was delivered."""


@notifications.command()
@json_option
def send(as_json: bool) -> None:
    """Tell what is new, and try again what was not taken, as the sensor does; exit code 1 if any was not."""
    from taboot_pipelines.stages.notifications import run

    with existing_workspace() as workspace:
        endpoints = workspace.sync_sources().notifications
        done = run(workspace, endpoints)
    if as_json:
        emit_json({k: getattr(done, k) for k in ("new", "delivered", "again", "failed")})
    elif not endpoints:
        plain("Nobody is to be told: the sources file has no `notifications`.")
    else:
        plain(
            f"{done.new:,} new, {done.delivered:,} delivered, {done.again:,} to be tried again,"
            f" {done.failed:,} failed for good."
        )
    sys.exit(1 if done.again or done.failed else 0)


@notifications.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(["pending", "delivered", "failed"]),
    multiple=True,
    help="Only those in this state.",
)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Most deliveries.")
@namespace_option
@json_option
def list_deliveries(states: tuple[str, ...], limit: int, namespace: str | None, as_json: bool) -> None:
    """List the deliveries of the last 30 days, the newest first."""
    import orjson

    from taboot_pipelines.model.notifications import DeliveryState

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        wanted = [DeliveryState(state) for state in states] or list(DeliveryState)
        rows = workspace.catalog.notifications.find(tenant, wanted, limit)
    told = [
        {
            "id": row["id"],
            "endpoint": row["endpoint"],
            "event": row["kind"],
            "state": row["state"],
            "attempts": row["attempts"],
            "code": row["code"],
            "created_at": moment(row["created_at"]),
            "next_at": moment(row["next_at"]) if row["state"] == DeliveryState.PENDING else None,
            "summary": orjson.loads(row["payload"])["summary"],
        }
        for row in rows
    ]
    if as_json:
        emit_json({"deliveries": told})
        return
    shown = table("id", "endpoint", "event", "state", "tried", "answer", "what", right=("tried",), short=True)
    for d in told:
        cells = (d["id"][:8], d["endpoint"], d["event"], d["state"], d["attempts"], d["code"] or "")
        shown.add_row(*map(text, cells), text(cut(d["summary"], 80)))
    console().print(shown if told else "Nothing was to be told.")


@notifications.command()
@click.argument("deliveries", metavar="DELIVERY...", nargs=-1, required=True)
@namespace_option
def replay(deliveries: tuple[str, ...], namespace: str | None) -> None:
    """Let deliveries (ids or their beginnings) be tried again, those that were taken too."""
    from taboot_pipelines.stages import notifications as stage

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        known = [row["id"] for row in workspace.catalog.notifications.find(tenant, limit=100_000)]
        wanted = [_one(given, known) for given in deliveries]
        stage.replay(workspace, tenant, wanted)
    plain(f"{len(wanted):,} deliveries are tried by the next `taboot notifications send`, or the sensor.")


def _one(given: str, known: list[str]) -> str:
    found = [delivery for delivery in known if delivery.startswith(given)]
    if len(found) != 1:
        raise TabootError(
            "E_NOT_FOUND" if not found else "E_QUERY",
            f"{len(found) or 'No'} deliveries begin with {given!r}.",
            remedy="`taboot notifications list` names them.",
        )
    return found[0]


@notifications.command()
@click.argument("endpoint")
def test(endpoint: str) -> None:
    """Post a test to ENDPOINT, by its name in the sources file, and print the answer; nothing is kept."""
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.sources.sources_file import load_sources
    from taboot_pipelines.stages.notifications import example, post

    known = load_sources(load_settings().sources_file).notifications
    if endpoint not in known:
        listed = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise TabootError("E_NOT_FOUND", f"The sources file has no endpoint {endpoint!r}; {listed}.")
    code = post(known[endpoint], example())
    plain(f"{endpoint} answered {code}." if code.isdigit() else f"{endpoint} did not take it: {code}.")
    sys.exit(0 if code.startswith("2") else 1)
