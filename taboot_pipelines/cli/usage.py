"""``usage``, ``jobs`` and ``spaces``: what each namespace holds of what it may hold, what was read when, and
by which models its texts are embedded.
"""

from __future__ import annotations

from dataclasses import asdict

import click
import orjson

from taboot_pipelines.cli.admin import existing_workspace
from taboot_pipelines.cli.completion import source_ids
from taboot_pipelines.cli.output import console, emit_json, json_option, moment, namespace_option, table, text

_COUNTS = ("discovered", "fetched", "not_modified", "skipped", "failed", "removed", "held")


@click.command()
@json_option
def usage(as_json: bool) -> None:
    """Show what each namespace holds and has asked this month, beside its quotas.

    Quotas stand in the sources file (`quotas`), else in TABOOT_QUOTA__BYTES, TABOOT_QUOTA__DOCUMENTS and
    TABOOT_EXTRACTION__QUESTIONS_PER_MONTH.
    """
    from taboot_pipelines.stages import quotas

    with existing_workspace() as workspace:
        found = [quotas.usage(workspace, namespace) for namespace in workspace.namespaces()]
    if as_json:
        told = {
            u.namespace: {w: {"used": used, "limit": limit} for w, (used, limit) in u.amounts().items()}
            for u in found
        }
        emit_json({"namespaces": told})
        return
    shown = table("namespace", "what", "used", "limit", right=("used", "limit"))
    for u in found:
        for what, (used, limit) in u.amounts().items():
            name = "questions this month" if what == "questions" else what
            shown.add_row(text(u.namespace), name, f"{used:,}", "–" if limit is None else f"{limit:,}")
    console().print(shown)


@click.command()
@click.argument("source", required=False, shell_complete=source_ids)
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="The last.")
@namespace_option
@json_option
def jobs(source: str | None, limit: int, namespace: str | None, as_json: bool) -> None:
    """List when sources were read, and what came of it, the last in front: all, or of one SOURCE.

    What waits to be read stands in the queue of Dagster; here a job begins when it reads.
    """
    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        found = workspace.catalog.jobs.find(tenant, source, limit)
    if as_json:
        emit_json(
            {
                "jobs": [
                    {
                        "job_id": j["job_id"],
                        "source": j["source_id"],
                        "state": j["state"],
                        "started_at": moment(j["started_at"]),
                        "ended_at": moment(j["ended_at"]),
                        "complete": j["complete"],
                        **{name: j[name] for name in _COUNTS},
                        "error": orjson.loads(j["error"])["error"] if j["error"] else None,
                    }
                    for j in found
                ]
            }
        )
        return
    shown = table("job", "source", "state", "began", "seconds", "what", right=("seconds",), short=True)
    for j in found:
        ended = j["ended_at"] or j["updated_at"]
        what = ", ".join(f"{j[name]:,} {name.replace('_', ' ')}" for name in _COUNTS if j[name])
        if j["error"]:
            what = str(orjson.loads(j["error"])["error"]["code"])
        began = (moment(j["started_at"]) or "")[:16].replace("T", " ")
        seconds = f"{(ended - j['started_at']) / 1e6:.1f}"
        shown.add_row(*map(text, (j["job_id"][:8], j["source_id"], j["state"], began, seconds, what)))
    console().print(shown if found else text("Nothing was read yet."))


@click.command()
@click.option(
    "--drop", metavar="SPACE", help="Delete the vectors of a space that is neither searched nor set."
)
@namespace_option
@json_option
def spaces(drop: str | None, namespace: str | None, as_json: bool) -> None:
    """Show by which models the texts are embedded: which of them is searched, and what the others take.

    Another model is built beside the one that is searched, and one publication switches to it.
    """
    from taboot_pipelines.stages import spaces as stage

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        dropped = None if drop is None else stage.drop(workspace, tenant, drop)
        found = [] if dropped is not None else stage.states(workspace, tenant)
    if as_json:
        emit_json({"dropped": asdict(dropped)} if dropped else {"spaces": [asdict(s) for s in found]})
        return
    if dropped is not None:
        console().print(
            text(f"Dropped {dropped.vectors:,} vectors of {dropped.space}, {dropped.bytes / 1e6:,.1f} MB.")
        )
        return
    shown = table("space", "vectors", "MB", "texts without", "what", right=("vectors", "MB", "texts without"))
    for s in found:
        what = [
            w for w, is_so in (("searched", s.searched), ("filled by the next ingest", s.chosen)) if is_so
        ]
        numbers = (f"{s.vectors:,}", f"{s.bytes / 1e6:,.1f}", f"{s.lacking:,}")
        shown.add_row(text(s.space), *numbers, ", ".join(what) or "kept: `--drop` deletes it")
    console().print(shown)
