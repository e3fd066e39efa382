"""``audit``: compare all stores of the knowledge base, and with ``--repair`` make them agree."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from taboot_pipelines.cli.output import console, emit_json, json_option, namespace_option, table, text

_MAX_SHOWN = 50


@click.command()
@click.option("--repair", is_flag=True, help="Derive again what differs.")
@click.option("--deep", is_flag=True, help="Read every byte: hash every blob, text and shard file.")
@namespace_option
@json_option
def audit(repair: bool, deep: bool, namespace: str | None, as_json: bool) -> None:
    """Compare catalog, blobs, tables, shards, Qdrant and Neo4j by id; exit code 1 if they differ."""
    from taboot_pipelines.cli.admin import require_catalog
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages import storage_audit
    from taboot_pipelines.stages.workspace import Workspace

    settings = load_settings()
    require_catalog(settings)
    workspace = Workspace(settings)
    try:
        namespaces = (
            [namespace]
            if namespace
            else sorted({row["namespace"] for row in workspace.catalog.sources.find()})
        )
        reports = [storage_audit.run(workspace, n, repair=repair, deep=deep) for n in namespaces]
    finally:
        workspace.close()
    left = sum(len(r.left) for r in reports)
    if as_json:
        emit_json(
            {
                "discrepancies": sum(len(r.found) for r in reports),
                "left": left,
                "namespaces": [asdict(r) for r in reports],
            }
        )
    else:
        out = console()
        for report in reports:
            checked = ", ".join(f"{count:,} {name}" for name, count in report.checked.items())
            verdict = f"{len(report.found)} discrepancies" + (
                f", {len(report.left)} left after the repair" if report.repaired else ""
            )
            out.print(text(f"namespace {report.namespace}: {verdict} ({checked})"), style="bold")
            if report.found:
                shown = table("store", "kind", "id", "what", "")
                for d in report.found[:_MAX_SHOWN]:
                    state = "" if not report.repaired else "left" if d in report.left else "repaired"
                    shown.add_row(*(text(c) for c in (d.store, d.kind, d.item, d.message, state)))
                out.print(shown)
            if len(report.found) > _MAX_SHOWN:
                out.print(text(f"… and {len(report.found) - _MAX_SHOWN} more; --json lists them all."))
        if left and not repair:
            out.print(text("`taboot audit --repair` derives again what can be derived."))
    sys.exit(1 if left else 0)
