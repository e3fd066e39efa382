"""``changes``: what documents and the graph say otherwise than at an earlier time."""

from __future__ import annotations

import click

from taboot_pipelines.cli.completion import source_ids
from taboot_pipelines.cli.output import emit_json, json_option, namespace_option, open_kb, plain


@click.command()
@click.argument("source", required=False, shell_complete=source_ids)
@click.option(
    "--since",
    default="7d",
    show_default=True,
    metavar="AGO|DATE|RUN",
    help="30m, 24h, 7d, 2w; a date or a time; or the id of a run (`taboot runs list`), before which it was.",
)
@click.option("--shell", is_flag=True, help="Also what has other bytes and says the same.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="Most documents, and facts.",
)
@namespace_option
@json_option
def changes(
    source: str | None, since: str, shell: bool, limit: int, namespace: str | None, as_json: bool
) -> None:
    """Show what is otherwise than before: documents that are new, gone or changed, with the passages that
    differ, and what the graph says: things, facts and routes, before and now.

    Of all sources, or of one SOURCE.
    """
    found = open_kb(namespace).changes(since, source=source, shell=shell, limit=limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    for item in found.items:
        plain(f"{item.kind:<8} {item.source}:{item.path}  {item.at:%Y-%m-%d %H:%M}", bold=True)
        if item.commit is not None:
            plain(f"    {item.commit.id[:10]} {item.commit.subject}", dim=True)
        if item.note:
            plain(f"    {item.note}", dim=True)
        for passage in item.passages:
            _show(passage.before, passage.after)
    for fact in found.facts:
        side = fact.after or fact.before
        place = (
            f"  {side.source}:{side.path}{f':{side.line}' if side.line else ''}" if side is not None else ""
        )
        plain(f"{fact.change:<8} {fact.what}{place}", bold=True)
        _show(fact.before.says if fact.before else "", fact.after.says if fact.after else "")
    told = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items() if count)
    plain(f"Since {found.since:%Y-%m-%d %H:%M} UTC: {told or 'no document changed'}.", dim=True)
    if found.facts_since is not None:
        told = ", ".join(f"{count:,} {change}" for change, count in found.fact_counts.items())
        when = f"{found.facts_since:%Y-%m-%d %H:%M} UTC"
        plain(f"Facts against the publication of {when}: {told or 'none changed'}.", dim=True)
    if found.note:
        plain(found.note, dim=True)
    if found.truncated:
        plain("Cut at the limit.", dim=True)


def _show(before: str, after: str) -> None:
    for mark, said in (("-", before), ("+", after)):
        for line in said.splitlines():
            plain(f"  {mark} {line}", fg="red" if mark == "-" else "green")
