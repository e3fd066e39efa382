"""``documents``, ``collections`` and ``document``: lists the documents that are served, the saved filters of
them, and shows one."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import click

from taboot_pipelines.cli.completion import source_ids
from taboot_pipelines.cli.output import (
    console,
    cut,
    emit_json,
    fitted,
    json_option,
    namespace_option,
    open_kb,
    plain,
    table,
    text,
)
from taboot_pipelines.cli.query import check_sources

#: The spaces between the columns of a table of five.
_GAPS = 13


@click.command()
@click.argument("pattern", required=False)
@click.option(
    "--source",
    "sources",
    metavar="ID",
    multiple=True,
    help="Only of this source.",
    shell_complete=source_ids,
)
@click.option("--type", "types", metavar="TYPE", multiple=True, help="Only of sources of this type.")
@click.option(
    "--tag", "tags", metavar="TAG", multiple=True, help="Only with this tag, or of a source with it."
)
@click.option("--language", "languages", metavar="CODE", multiple=True, help="Only in this language.")
@click.option("--collection", "named", metavar="NAME", multiple=True, help="Only of this collection.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Most documents.")
@namespace_option
@json_option
def documents(
    pattern: str | None,
    sources: tuple[str, ...],
    types: tuple[str, ...],
    tags: tuple[str, ...],
    languages: tuple[str, ...],
    named: tuple[str, ...],
    limit: int,
    namespace: str | None,
    as_json: bool,
) -> None:
    """List the documents, by source and path: all, or those whose path or title has PATTERN.

    With `*` or `?` PATTERN is a glob of the whole path; case does not matter.
    """
    kb = open_kb(namespace)
    rows = sorted(kb.documents(collection=named or None).to_pylist(), key=lambda r: (r["source"], r["path"]))
    check_sources(sources, {*kb.manifest.sources, *(r["source"] for r in rows)})
    found = [
        row
        for row in rows
        if (not sources or row["source"] in sources)
        and (not types or row["type"] in types)
        and (not tags or set(tags) & set(row["tags"]))
        and (not languages or row["language"] in languages)
        and (pattern is None or _matches(row, pattern.casefold()))
    ]
    if as_json:
        emit_json({"total": len(found), "documents": found[:limit]})
        return
    out = console()
    listed = found[:limit]
    shown = table("id", "source", "path", "title", "chunks", right=("chunks",), short=True)
    # What the other columns leave is for paths first, since they are what a person looks for.
    sources_width = max((len(r["source"]) for r in listed), default=6)
    room = max(30, out.width - 8 - sources_width - 6 - _GAPS)
    path_width = min(max((len(r["path"]) for r in listed), default=4), room * 3 // 5)
    for row in listed:
        title = "" if row["title"] == row["path"].rpartition("/")[2] else (row["title"] or "")
        cells = (
            row["doc_id"][:8],
            row["source"],
            fitted(row["path"], path_width),
            cut(title, room - path_width),
        )
        shown.add_row(*map(text, cells), str(row["chunks"]))
    if found:
        out.print(shown)
    more = "" if len(found) <= limit else f", {limit:,} of them shown (--limit)"
    out.print(text(f"{len(found):,} of {len(rows):,} documents{more}"), style="dim")


@click.command()
@namespace_option
@json_option
def collections(namespace: str | None, as_json: bool) -> None:
    """List the saved filters of the sources file that `--collection` takes, with their documents."""
    found = open_kb(namespace).collections()
    if as_json:
        emit_json({"collections": [c.model_dump(mode="json") for c in found]})
        return
    shown = table("collection", "documents", "filters", "for", right=("documents",), short=True)
    for c in found:
        said = [f"{name} {v if isinstance(v, str) else ', '.join(v)}" for name, v in c.filters.items()]
        shown.add_row(text(c.name), f"{c.documents:,}", text("; ".join(said)), text(c.description))
    console().print(shown if found else text("The sources file declares no `collections`."))


@click.command()
@click.argument("document", metavar="DOCUMENT")
@click.option("--chunks", is_flag=True, help="Show the pieces that are searched instead of the text.")
@namespace_option
@json_option
def document(document: str, chunks: bool, namespace: str | None, as_json: bool) -> None:
    """Show a document: what is known of it, its text, and the versions that it had.

    DOCUMENT is its id or the beginning of it, its URL or its path.
    """
    found = open_kb(namespace).document(document)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    plain(found.title or found.path, bold=True)
    facts = {
        "id": found.doc_id,
        "source": f"{found.source} ({found.source_type})",
        "url": found.url,
        "tags": ", ".join(found.tags),
        "mime": found.mime,
        "language": found.language,
        "date": found.date and f"{found.date:%Y-%m-%d}",
        "bytes since": f"{found.since:%Y-%m-%d %H:%M}",
        "expires": found.expires_at and f"{found.expires_at:%Y-%m-%d}",
    }
    for name, value in facts.items():
        if value:
            plain(f"  {name:<12}{value}", dim=True)
    for version in found.versions:
        sha256 = (version.blob_sha256 or "")[:12]
        plain(f"  {version.event:<12}{version.at:%Y-%m-%d %H:%M}  {sha256}", dim=True)
    plain("")
    if not chunks:
        plain(found.text)
        return
    for chunk in found.chunks:
        where = f"line {chunk.line}" if chunk.line else f"{chunk.start}–{chunk.end}"
        plain(f"{chunk.chunk_id}  {where}  {chunk.section}", bold=True)
        plain(found.text[chunk.start : chunk.end])


def _matches(row: Mapping[str, Any], pattern: str) -> bool:
    path, title = row["path"].casefold(), (row["title"] or "").casefold()
    if any(c in pattern for c in "*?["):
        return fnmatchcase(path, pattern)
    return pattern in path or pattern in title
