"""``impact``: what is affected by a thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli.output import emit_json, json_option, namespace_option, open_kb, plain
from taboot_pipelines.cli.places import (
    SHOWN_ID,
    Places,
    columns,
    kb_places,
    print_place,
    print_wrapped,
)

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.results.impact import Impact


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["service", "network", "host", "proxy", "image", "volume", "hostname", "project"]),
    help="What NAME is, where several are called so; default: a service, else what comes next.",
)
@click.option("--project", metavar="NAME", help="Only the service of this project.")
@click.option("--direct", is_flag=True, help="Only what is affected directly, not through others.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="Most of each kind."
)
@namespace_option
@json_option
def impact(
    name: str,
    kind: str | None,
    project: str | None,
    direct: bool,
    limit: int,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Show what is affected if NAME is stopped or changed, and what of that cannot be known.

    NAME is a service, else a network, a host or its address, a proxy, an image, a volume or a path that is
    mounted, a host name or domain of routes, or a project (a namespace). Told is what needs it, connects to
    it, is reached through it, asks it for the login, only starts after it or shares something with it.
    """
    kb = open_kb(namespace)
    found = kb.impact(name, kind=kind, project=project, transitive=not direct)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    _show(found, kb_places(kb), limit)


def _show(found: Impact, places: Places, limit: int) -> None:
    width = columns()
    projects = f" ({', '.join(found.projects)})" if found.projects else ""
    plain(f"{found.kind} {found.thing}{projects}", bold=True)
    for group in found.groups:
        plain(f"{group.how}: {len(group.items):,}", bold=True)
        for item in group.items[:limit]:
            print_wrapped(item.text, "  ", width, hang="    ")
            for cited in item.citations[:1]:
                shown = cited.edge_id[:SHOWN_ID] if width else cited.edge_id or cited.chunk_id
                print_place(places, places.place(cited.url, cited.line), f"  {shown}", width, indent="    ")
        if len(group.items) > limit:
            plain(f"  and {len(group.items) - limit:,} more, by --limit", dim=True)
    if not found.groups:
        plain(found.nothing)
    plain("What cannot be known:", bold=True)
    for unknown in found.unknown:
        print_wrapped(unknown, "  ", width, hang="  ")
    for cited in found.named_in:
        print_place(places, places.place(cited.url, cited.line), "", width, indent="    ")
    print_wrapped(found.scope, "", width, dim=True)
