"""``domains`` and ``proxies``: what holds for the domains that are crawled, blocking one while a crawl runs,
and whether the proxies work.
"""

from __future__ import annotations

import ipaddress
import sys
from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli.admin import existing_workspace
from taboot_pipelines.cli.output import (
    console,
    emit_json,
    json_option,
    moment,
    namespace_option,
    table,
    text,
)
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.crawl.addresses import Network
    from taboot_pipelines.crawl.proxies import Proxy
    from taboot_pipelines.crawl.urls import WebUrl
    from taboot_pipelines.settings import HttpSettings


@click.group(invoke_without_command=True)
@namespace_option
@json_option
@click.pass_context
def domains(context: click.Context, namespace: str | None, as_json: bool) -> None:
    """Show the domains of web sources: limits, what crawls came to; block and unblock one at run time."""
    if context.invoked_subcommand is not None:
        context.obj = namespace
        return
    from taboot_pipelines.connectors.web import WebSource
    from taboot_pipelines.stages.domains import overview

    with existing_workspace() as workspace:
        settings = workspace.settings
        name = namespace or settings.namespace
        urls = [
            url
            for entry in workspace.entries_of(name)
            if isinstance(entry.config, WebSource)
            for url in (*entry.config.urls, *entry.config.sitemaps)
        ]
        rows = overview(workspace.catalog, workspace.hints, name, settings.http, urls)
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
                    "pages": dict(sorted(row.crawled.pages.items())),
                    "bytes": row.crawled.bytes,
                    "answers": row.crawled.answers,
                    "answer_seconds": round(row.crawled.seconds, 3),
                    "rest_seconds": row.rest_seconds,
                }
                for row in rows
            ]
        )
        return
    numbers = ("a second", "burst", "pages", "failed", "bytes", "an answer")
    shown = table("domain", "state", *numbers[:2], "delay", *numbers[2:], "said by", "reason", right=numbers)
    for row in rows:
        limits, crawled = row.limits, row.crawled
        rests = "" if row.rest_seconds is None else f"rests {row.rest_seconds:.0f} s"
        shown.add_row(
            text(row.domain),
            "blocked" if limits.blocked else rests or "open",
            f"{limits.rate:g}" if limits.rate else "no limit",
            str(limits.burst),
            f"{limits.delay:g} s" if limits.delay else "",
            f"{sum(crawled.pages.values()) - crawled.pages['tried_again']:,}",
            f"{crawled.pages['failed']:,}",
            f"{crawled.bytes:,}",
            f"{crawled.seconds / crawled.answers:.2f} s" if crawled.answers else "",
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

    with existing_workspace() as workspace:
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

    with existing_workspace() as workspace:
        where = namespace or outer or workspace.settings.namespace
        name = set_blocked(workspace.catalog, where, domain, False)
    console().print(text(f"{name} is open."))


@domains.command()
@click.argument("domain")
@namespace_option
@click.pass_obj
def reset(outer: str | None, domain: str, namespace: str | None) -> None:
    """Ask DOMAIN again at once, though it failed often or asked to be left alone for a while."""
    from taboot_pipelines.stages import domains as stage

    with existing_workspace() as workspace:
        name = stage.reset(workspace.state, namespace or outer or workspace.settings.namespace, domain)
    console().print(text(f"{name} is asked again."))


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--test", is_flag=True, help="Fetch --url by each proxy and say whether it works.")
@click.option("--url", default="https://example.org/", show_default=True, help="What --test fetches.")
@click.option(
    "--allow-cidr",
    "allowed",
    multiple=True,
    metavar="CIDR",
    help="A private network in which the host of --url may be; proxies may be in any.",
)
@namespace_option
@json_option
def proxies(
    names: tuple[str, ...],
    test: bool,
    url: str,
    allowed: tuple[str, ...],
    namespace: str | None,
    as_json: bool,
) -> None:
    """Show the lists of proxies of the sources file (all, or those named), and test whether they work."""
    from taboot_pipelines.connectors.access import environment_secret
    from taboot_pipelines.crawl.urls import parse_url
    from taboot_pipelines.stages.domains import open_proxies, proxy_lists

    try:
        networks = [ipaddress.ip_network(n) for n in allowed]
    except ValueError:
        raise click.BadParameter(
            "is not a network such as 192.168.1.0/24", param_hint="--allow-cidr"
        ) from None
    place = parse_url(url)
    rows: list[dict[str, object]] = []
    with existing_workspace() as workspace:
        where = namespace or workspace.settings.namespace
        lists = proxy_lists(workspace.catalog, where)
        for name in names or sorted(lists):
            opened = open_proxies(workspace.catalog, workspace.hints, where, name, environment_secret)
            common: dict[str, object] = {"list": name, "rotation": lists[name].rotation}
            common |= {"active": lists[name].active}
            if not test:
                rows += [{**common, "proxy": server.url} for server in lists[name].servers]
                continue

            def ask(proxy: Proxy) -> None:
                fetch_by(workspace.settings.http, networks, proxy, place)

            rows += [
                {
                    **common,
                    "proxy": found.proxy,
                    "works": found.works,
                    "seconds": round(found.seconds, 3),
                    "code": found.code,
                    "reason": found.reason,
                }
                for found in opened.test(ask)
            ]
    if as_json:
        emit_json(rows)
    else:
        shown = table("list", "proxy", "rotation", "state", "seconds", right=("seconds",))
        for row in rows:
            state = "in use" if row["active"] else "not in use"
            if "works" in row:
                state = "works" if row["works"] else f"{row['code']}: {row['reason']}"
            shown.add_row(
                *(text(v) for v in (row["list"], row["proxy"], row["rotation"], state)),
                str(row.get("seconds", "")),
            )
        console().print(shown if rows else text("The sources file lists no proxies."))
    sys.exit(0 if all(row.get("works", True) for row in rows) else 1)


def fetch_by(settings: HttpSettings, allowed: list[Network], proxy: Proxy, url: WebUrl) -> None:
    """Ask for ``url`` by one proxy. Raises ``TabootError`` if no answer comes through, of whatever status."""
    from taboot_pipelines.crawl.client import Request, Timeouts
    from taboot_pipelines.crawl.curl import CurlClient

    timeouts = Timeouts(
        settings.connect_timeout_seconds, settings.read_timeout_seconds, settings.total_timeout_seconds
    )
    request = Request(
        url, (("User-Agent", settings.user_agent),), 1024 * 1024, timeouts, proxy=proxy, cut=True
    )
    client = CurlClient(allowed)
    try:
        client.start(0, request)
        while not (done := client.finished(1.0)):
            pass
    finally:
        client.close()
    if isinstance(done[0][1], TabootError):
        raise done[0][1]
