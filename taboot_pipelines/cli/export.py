"""``export``: the knowledge base as one file."""

from __future__ import annotations

from pathlib import Path

import click

from taboot_pipelines.cli.output import emit_json, json_option, namespace_option, open_kb, plain


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Put it in the place of a file that is there.")
@namespace_option
@json_option
def export(file: Path, replace: bool, namespace: str | None, as_json: bool) -> None:
    """Write all that is published to FILE, one DuckDB database that needs nothing of ours.

    It has the tables documents, chunks (with text and vectors), nodes, edges and about; secrets are masked in
    it as they are in what is served.
    """
    done = open_kb(namespace).export(file, replace=replace)
    if as_json:
        emit_json({"path": str(done.path), "bytes": done.bytes, "tables": done.tables})
    else:
        held = ", ".join(f"{count:,} {name}" for name, count in done.tables.items() if name != "about")
        plain(f"{done.path}: {held}; {done.bytes / 1e6:.1f} MB.")
