"""``changes``: what documents say otherwise than at an earlier time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

from taboot_pipelines.cli.completion import source_ids
from taboot_pipelines.cli.output import emit_json, json_option, namespace_option, open_kb, plain

_AGO = re.compile(r"([0-9]{1,5})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}


@click.command()
@click.argument("source", required=False, shell_complete=source_ids)
@click.option(
    "--since", default="7d", show_default=True, metavar="AGO|DATE", help="24h, 7d, 2w, or a date or a time."
)
@click.option("--shell", is_flag=True, help="Also what has other bytes and says the same.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Most documents."
)
@namespace_option
@json_option
def changes(
    source: str | None, since: str, shell: bool, limit: int, namespace: str | None, as_json: bool
) -> None:
    """Show what documents say otherwise than before: new, gone, and changed with the passages that differ.

    Of all sources, or of one SOURCE.
    """
    ago = _AGO.fullmatch(since.strip())
    moment: datetime | str = since
    if ago is not None:
        moment = datetime.now(UTC) - timedelta(hours=int(ago[1]) * _HOURS[ago[2]])
    found = open_kb(namespace).changes(moment, source=source, shell=shell, limit=limit)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    for item in found.items:
        plain(f"{item.kind:<8} {item.source}:{item.path}  {item.at:%Y-%m-%d %H:%M}", bold=True)
        if item.note:
            plain(f"    {item.note}", dim=True)
        for passage in item.passages:
            for mark, said in (("-", passage.before), ("+", passage.after)):
                for line in said.splitlines():
                    plain(f"  {mark} {line}", style="red" if mark == "-" else "green")
    told = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items() if count)
    plain(f"Since {found.since:%Y-%m-%d %H:%M} UTC: {told or 'nothing changed'}.", dim=True)
    if found.truncated:
        plain("Cut at the limit.", dim=True)
