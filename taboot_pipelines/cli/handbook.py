"""``handbook``: the house as a folder of pages."""

from __future__ import annotations

from pathlib import Path

import click

from taboot_pipelines.cli.output import emit_json, json_option, namespace_option, open_kb, plain


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@namespace_option
@json_option
def handbook(folder: Path, namespace: str | None, as_json: bool) -> None:
    """Write the handbook of the house to DIR: a page for each service, host, network and runbook, in Markdown
    and in HTML, which needs no server.

    Every statement names the file and the line where it stands, and what no document says is said as a gap.
    DIR is new, empty, or a handbook, which is replaced as a whole.
    """
    done = open_kb(namespace).handbook(folder)
    if as_json:
        emit_json({"path": str(done.path), "pages": done.pages})
    else:
        plain(f"{done.path}: {done.pages:,} pages; open {done.path / 'index.html'}.")
