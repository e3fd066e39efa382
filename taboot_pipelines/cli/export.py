"""``export``: the knowledge base elsewhere, as a copy or as one file."""

from __future__ import annotations

import click

from taboot_pipelines.cli.output import emit_json, json_option, namespace_option, open_kb, plain


@click.command()
@click.argument("where", metavar="WHERE")
@click.option("--single", is_flag=True, help="Write one DuckDB file instead, which needs nothing of ours.")
@click.option("--replace", is_flag=True, help="Put it in the place of one that is there.")
@namespace_option
@json_option
def export(where: str, single: bool, replace: bool, namespace: str | None, as_json: bool) -> None:
    """Copy all that is published to WHERE, a folder or an object store (s3://bucket/prefix).

    KnowledgeBase.open, TABOOT_HOME (a folder) and TABOOT_SHARD_URL with TABOOT_READ_ONLY open the copy with
    nothing but the package; a folder can be put on a web server. The file that --single writes has the tables
    documents, chunks (with text and vectors), nodes, edges and about. Secrets are masked in both as they are
    in what is served.
    """
    done = open_kb(namespace).export(where, single=single, replace=replace)
    if as_json:
        emit_json({"path": done.path, "bytes": done.bytes, "written": done.written, "tables": done.tables})
        return
    held = ", ".join(f"{count:,} {name}" for name, count in done.tables.items() if name != "about")
    new = "" if done.written == done.bytes else f", of which {done.written / 1e6:.1f} MB were written"
    plain(f"{done.path}: {held}; {done.bytes / 1e6:.1f} MB{new}.")
