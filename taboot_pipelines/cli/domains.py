"""``domains``: what holds for the domains that are crawled, and blocking one while a crawl runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli.admin import require_catalog
from taboot_pipelines.cli.output import (
    console,
    emit_json,
    json_option,
    moment,
    namespace_option,
    table,
    text,
)

if TYPE_CHECKING:
    from taboot_pipelines.stages.workspace import Workspace


@contextmanager
def _workspace() -> Iterator[Workspace]:
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages.workspace import Workspace

    settings = load_settings()
    require_catalog(settings)
    workspace = Workspace(settings)
    try:
        yield workspace
    finally:
        workspace.close()


@click.group(invoke_without_command=True)
@namespace_option
@json_option
@click.pass_context
def domains(context: click.Context, namespace: str | None, as_json: bool) -> None:
    """Show the domains of web sources with their limits; block and unblock one at run time."""
    if context.invoked_subcommand is not None:
        context.obj = namespace
        return
    from taboot_pipelines.connectors.web import WebSource
    from taboot_pipelines.stages.domains import overview

    with _workspace() as workspace:
        settings = workspace.settings
        name = namespace or settings.namespace
        urls = [
            url
            for entry in workspace.entries_of(name)
            if isinstance(entry.config, WebSource)
            for url in (*entry.config.urls, *entry.config.sitemaps)
        ]
        rows = overview(workspace.catalog, name, settings.http, urls)
    if as_json:
        emit_json(
            [
                {
                    "domain": row.domain,
                    "blocked": row.limits.blocked,
                    "rate_limit_rps": row.limits.rate,
                    "rate_limit_burst": row.limits.burst,
                    "delay_seconds": row.limits.delay,
                    "circuit_failures": row.limits.circuit_failures,
                    "circuit_rest_seconds": row.limits.circuit_rest_seconds,
                    "headers": sorted(row.limits.headers),
                    "said_by": row.said_by,
                    "reason": row.reason,
                    "at": moment(row.at),
                }
                for row in rows
            ]
        )
        return
    shown = table(
        "domain", "state", "a second", "burst", "delay", "said by", "reason", right=("a second", "burst")
    )
    for row in rows:
        limits = row.limits
        shown.add_row(
            text(row.domain),
            "blocked" if limits.blocked else "open",
            f"{limits.rate:g}" if limits.rate else "no limit",
            str(limits.burst),
            f"{limits.delay:g} s" if limits.delay else "",
            row.said_by,
            text(row.reason),
        )
    console().print(shown if rows else text("No domain is named by the sources file or by a person."))


@domains.command()
@click.argument("domain")
@click.option("--reason", default="", help="Why; it is shown with the domain.")
@namespace_option
@click.pass_obj
def block(outer: str | None, domain: str, reason: str, namespace: str | None) -> None:
    """Ask DOMAIN and all beneath it no more; a crawl that runs heeds it within seconds."""
    from taboot_pipelines.stages.domains import set_blocked

    with _workspace() as workspace:
        where = namespace or outer or workspace.settings.namespace
        name = set_blocked(workspace.catalog, where, domain, True, reason[:500])
    console().print(text(f"{name} is blocked."))


@domains.command()
@click.argument("domain")
@namespace_option
@click.pass_obj
def unblock(outer: str | None, domain: str, namespace: str | None) -> None:
    """Ask DOMAIN again, even if the sources file blocks it."""
    from taboot_pipelines.stages.domains import set_blocked

    with _workspace() as workspace:
        where = namespace or outer or workspace.settings.namespace
        name = set_blocked(workspace.catalog, where, domain, False)
    console().print(text(f"{name} is open."))
