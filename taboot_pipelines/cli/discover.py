"""``discover``: what a site's lists name, before a source is made of it."""

from __future__ import annotations

import contextlib
import ipaddress
import sys
from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli.output import console, emit_json, json_option, namespace_option, table, text

if TYPE_CHECKING:
    from taboot_pipelines.crawl.addresses import Network
    from taboot_pipelines.crawl.discovery.common_crawl import Get
    from taboot_pipelines.crawl.discovery.discover import Discovery
    from taboot_pipelines.crawl.politeness import Politeness
    from taboot_pipelines.settings import Settings


def _networks(_context: click.Context, _option: click.Parameter, value: tuple[str, ...]) -> list[Network]:
    try:
        return [ipaddress.ip_network(v) for v in value]
    except ValueError:
        raise click.BadParameter("is not a network such as 192.168.1.0/24") from None


@click.command()
@click.argument("url")
@click.option(
    "--source",
    "sources",
    type=click.Choice(["sitemap", "feed", "llms_txt", "common_crawl"]),
    multiple=True,
    default=("sitemap", "feed"),
    show_default=True,
    help="Where to look; may be given more than once.",
)
@click.option("--pattern", "patterns", multiple=True, metavar="GLOB", help="Take what one of these matches.")
@click.option("--query", default="", help="What is looked for: words, or phrases in quotes.")
@click.option(
    "--threshold", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="The least score."
)
@click.option("--max-urls", type=click.IntRange(1, 500_000), default=500, show_default=True)
@click.option(
    "--allow-cidr", "allowed", multiple=True, callback=_networks, help="A private network that may be asked."
)
@namespace_option
@json_option
def discover(
    url: str,
    sources: tuple[str, ...],
    patterns: tuple[str, ...],
    query: str,
    threshold: float,
    max_urls: int,
    allowed: list[Network],
    namespace: str | None,
    as_json: bool,
) -> None:
    """List the pages that the site of URL names in its sitemaps and feeds; no page is fetched.

    The best comes first: a score of 1 says that every word of the query stands in the page's title, as the
    list has it, 0.8 in its URL.
    """
    from taboot_pipelines.connectors.globs import UrlGlobs
    from taboot_pipelines.crawl.curl import CurlClient
    from taboot_pipelines.crawl.discovery.discover import discover as discover_pages
    from taboot_pipelines.crawl.discovery.relevance import Relevance, keywords_of
    from taboot_pipelines.crawl.discovery.sitemaps import MAX_BYTES
    from taboot_pipelines.crawl.fetching import Fetching
    from taboot_pipelines.crawl.urls import parse_url
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    try:
        globs = UrlGlobs(patterns)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--pattern") from None
    place = parse_url(url)
    with contextlib.ExitStack() as stack:
        politeness = _politeness(settings, namespace or settings.namespace, stack)

        def lists(networks: list[Network]) -> Get:
            client = CurlClient(networks)
            fetching = Fetching(client, settings.http, max_bytes=MAX_BYTES, politeness=politeness)
            stack.enter_context(fetching)
            return lambda url, limit: fetching.get(url, max_bytes=limit, purpose="sitemap")

        # The index is the operator's word, wherever it stands.
        everywhere = [ipaddress.ip_network(n) for n in ("0.0.0.0/0", "::/0")]
        found = discover_pages(
            place,
            lists(allowed),
            sources=sources,  # type: ignore[arg-type]
            user_agent=settings.http.user_agent,
            wanted=globs.matches if globs else None,
            relevance=Relevance(keywords_of(query)),
            score_threshold=threshold,
            max_urls=max_urls,
            common_crawl=settings.http.common_crawl_url,
            common_crawl_get=lists(everywhere),
        )
    _show(found, as_json)
    sys.exit(0 if found.found or not found.problems else 1)


def _politeness(settings: Settings, namespace: str, stack: contextlib.ExitStack) -> Politeness:
    """The turns that crawls of this home take; without a home, this process's own."""
    from taboot_pipelines.crawl.politeness import Politeness
    from taboot_pipelines.stages.health import catalog_exists
    from taboot_pipelines.stores.state.protocol import Lenient

    if not catalog_exists(settings):
        return Politeness(Lenient(None), namespace, settings.http)
    from taboot_pipelines.stages.domains import open_domains
    from taboot_pipelines.stages.workspace import Workspace

    workspace = Workspace(settings)
    stack.callback(workspace.close)
    domains = open_domains(workspace.catalog, namespace, settings.http)
    return Politeness(workspace.hints, namespace, settings.http, domains)


def _show(found: Discovery, as_json: bool) -> None:
    if as_json:
        emit_json(
            {
                "found": [
                    {
                        "url": page.url,
                        "score": page.score,
                        "via": page.via,
                        "listed_in": page.listed_in,
                        "title": page.title,
                        "modified": page.modified,
                    }
                    for page in found.found
                ],
                "listed": found.listed,
                "left_out": found.left_out,
                "lists": found.lists,
                "problems": [
                    {"where": p.where, "code": p.code, "message": p.message} for p in found.problems
                ],
                "problems_more": found.problems_more,
            }
        )
        return
    out = console()
    if found.found:
        shown = table("score", "via", "url", "title", right=("score",))
        for page in found.found:
            shown.add_row(f"{page.score:.2f}", page.via, text(page.url), text(page.title))
        out.print(shown)
    out.print(
        text(
            f"{len(found.found):,} of {found.listed:,} pages in {len(found.lists)} lists"
            + (f"; {found.left_out:,} are left out." if found.left_out else ".")
        )
    )
    for problem in found.problems:
        console(stderr=True).print(text(f"{problem.code}: {problem.message}"))
    if found.problems_more:
        console(stderr=True).print(text(f"… and {found.problems_more:,} more."))
