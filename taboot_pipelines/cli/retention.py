"""``retention`` and ``retain``: how long documents are kept, and what expires when."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.admin import existing_workspace
from taboot_pipelines.cli.output import (
    console,
    emit_json,
    fitted,
    json_option,
    moment,
    namespace_option,
    table,
    text,
)

if TYPE_CHECKING:
    from taboot_pipelines.stages.retention import Kept, RetentionPass


@click.command()
@click.option("--apply", "carry_out", is_flag=True, help="Carry out what is due now; a daily job does too.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Most documents.")
@namespace_option
@json_option
def retention(carry_out: bool, limit: int, namespace: str | None, as_json: bool) -> None:
    """List the documents that are not kept for good, with the time at which each expires.

    A source's `retention_days` says so, or `taboot retain` of one document. In its last week a document is
    EXPIRING; then it is deleted until its bytes change. Exit code 1 if a store could not be reached.
    """
    from taboot_pipelines.stages import retention as stage

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        workspace.sync_sources()
        done = stage.run(workspace, tenant) if carry_out else None
        kept = [k for k in stage.kept(workspace, tenant) if k.expires_at is not None]
    if as_json:
        told = {} if done is None else {"applied": as_record(done)}
        emit_json({"total": len(kept), "documents": [_record(k) for k in kept[:limit]], **told})
    else:
        _show(kept, limit)
        if done is not None:
            console().print(text(summary(done)))
    sys.exit(0 if done is None or done.receipt is None or done.receipt.final else 1)


def as_record(done: RetentionPass) -> dict[str, Any]:
    """What a pass did, as JSON."""
    receipt = done.receipt
    return {
        "announced": done.announced,
        "withdrawn": done.withdrawn,
        "expired": [] if receipt is None else list(receipt.doc_ids),
        "stores": {} if receipt is None else receipt.stores,
        "expiring": done.expiring,
    }


def summary(done: RetentionPass) -> str:
    """What a pass did, as a sentence."""
    said = [f"{done.expired:,} documents expired"] if done.expired else []
    if done.expiring:
        said.append(f"{done.expiring:,} expire within 7 days (`taboot retention`)")
    return f"{', '.join(said) or 'No document expires soon'}."


def _record(k: Kept) -> dict[str, Any]:
    return {
        "doc_id": k.locator.doc_id,
        "source": k.source_id,
        "path": k.locator.path,
        "state": k.locator.lifecycle,
        "days": k.policy.days,
        "own": k.own,
        "since": moment(k.locator.since),
        "expires_at": moment(k.expires_at),
    }


def _show(kept: list[Kept], limit: int) -> None:
    out = console()
    if not kept:
        out.print("Every document is kept for good: no source has `retention_days`.")
        return
    shown = table("id", "source", "path", "state", "days", "expires", right=("days",), short=True)
    for k in kept[:limit]:
        days = f"{k.policy.days}{' (own)' if k.own else ''}"
        expires = (moment(k.expires_at) or "")[:16].replace("T", " ")
        row = (
            k.locator.doc_id[:8],
            k.source_id,
            fitted(k.locator.path, 60),
            k.locator.lifecycle,
            days,
            expires,
        )
        shown.add_row(*map(text, row))
    out.print(shown)
    more = "" if len(kept) <= limit else f", {limit:,} of them shown (--limit)"
    out.print(text(f"{len(kept):,} documents are not kept for good{more}"), style="dim")


@click.command()
@click.argument("documents", metavar="DOCUMENT...", nargs=-1, required=True)
@click.option("--days", type=click.IntRange(1, 36_500), help="So many days after their bytes came.")
@click.option("--forever", is_flag=True, help="For good, whatever their source says.")
@click.option("--as-source", is_flag=True, help="As their source says, as it was before.")
@namespace_option
@json_option
def retain(
    documents: tuple[str, ...],
    days: int | None,
    forever: bool,
    as_source: bool,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Say how long single documents are kept, whatever `retention_days` of their source says.

    A DOCUMENT is named as for `taboot delete`.
    """
    if (days is not None) + forever + as_source != 1:
        raise click.UsageError("Say one of --days N, --forever and --as-source.")
    from taboot_pipelines.stages import retention as stage
    from taboot_pipelines.stages.document_lookup import documents_called

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        doc_ids = documents_called(workspace, tenant, documents)
        if as_source:
            followed = stage.keep_as_source(workspace, tenant, doc_ids)
        else:
            followed = stage.keep(workspace, tenant, doc_ids, days)
        wanted = set(doc_ids)
        kept = [k for k in stage.kept(workspace, tenant) if k.locator.doc_id in wanted]
    if as_json:
        emit_json({"documents": [_record(k) for k in kept], "pending": followed.pending})
    else:
        for k in kept:
            until = "for good" if k.expires_at is None else f"until {(moment(k.expires_at) or '')[:10]}"
            console().print(text(f"{k.locator.path} is kept {until}."))
        if as_source and len(kept) < len(doc_ids):
            console().print(text(f"{len(doc_ids) - len(kept)} documents are kept for good, as their source."))
    sys.exit(0 if not followed.pending else 1)
