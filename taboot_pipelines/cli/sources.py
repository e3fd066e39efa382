"""``init`` and ``sources``: beginning a sources file, checking it, and listing what it names."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.output import console, emit_json, json_option, table, text
from taboot_pipelines.cli.places import counted
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.connectors.entries import SourceEntry
    from taboot_pipelines.sources.survey import Found

_HEAD = """\
# What the knowledge base is made of: one entry for each source. Paths are relative to this file.
# `taboot sources check` checks it; `taboot ingest --dry-run` says what would be read, `taboot ingest` reads.
# All fields of all types: docs/sources.md, or `taboot schema` for an editor.
sources:
"""
#: So many kinds of files that no source takes are named.
_SHOWN = 12
_TAIL = "\n  # What is not beneath this folder, to be filled in:\n"


@click.command()
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Write over a sources file that is there.")
@json_option
def init(folder: Path | None, force: bool, as_json: bool) -> None:
    """Begin a sources file after looking around beneath FOLDER (default: the folder that it is to lie in).

    Compose projects and confs of nginx become sources of their own, all other text is one. The file is
    TABOOT_SOURCES, by default sources.yaml here.
    """
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.sources.sources_file import load_sources
    from taboot_pipelines.sources.survey import survey

    settings = load_settings()
    file = settings.sources_file
    if file.exists() and not force:
        raise TabootError(
            "E_CONFLICT",
            f"There is a sources file already: {file}.",
            remedy="Look at it by `taboot sources check`; --force writes over it.",
            path=str(file),
        )
    around = (folder or file.parent).absolute()
    looked = survey(around, own=(file.absolute(), settings.home.absolute()))
    if not looked.found:
        raise TabootError(
            "E_SOURCES",
            f"Beneath {around} there is no Compose file, no conf of nginx and no other text.",
            remedy="Name another folder, or write the file by hand: docs/sources.md shows entries.",
            path=str(around),
        )
    written = _HEAD + "\n".join(_entries(looked.found, around, file.parent)) + _TAIL + _sketches()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(written, encoding="utf-8")
    entries = load_sources(file).entries
    taken = {id: _files(entry, file.parent) for id, entry in entries.items()}
    read = {
        os.path.normpath(Path(found.path, path))
        for found, paths in zip(looked.found, taken.values(), strict=True)
        for path in paths
    }
    left_out = [path for path in map(str, looked.seen) if unicodedata.normalize("NFC", path) not in read]
    hidden = [f"{path}/" for path in looked.hidden]
    if as_json:
        told = {"whole": looked.whole, "left_out": left_out, "hidden": hidden}
        emit_json({"path": str(file), "sources": list(entries), **told})
        return
    out = console()
    out.print(text(f"Wrote {file}:"))
    for entry, found in zip(entries.values(), looked.found, strict=True):
        count = counted(len(taken[entry.id]), "file")
        out.print(text(f"  {entry.id} ({entry.type}): {count} beneath {found.path}"))
    for what, names in (("Left out", _by_ending(left_out)), ("Not looked into", hidden)):
        if names:
            more = f" and {len(names) - _SHOWN} more (--json has all)" if len(names) > _SHOWN else ""
            out.print(text(f"  {what}: {', '.join(names[:_SHOWN])}{more}"))
    if not looked.whole:
        out.print("  The tree is large and was not looked through to its end.")
    out.print("Next: look at it, then `taboot ingest --dry-run` and `taboot ingest`.")


def _by_ending(paths: Collection[str]) -> list[str]:
    """Files by their ending with how many there are, the most first; one that is alone by its path."""
    alike = defaultdict(list)
    for path in paths:
        alike[PurePosixPath(path).suffix.lower() or PurePosixPath(path).name].append(path)
    groups = sorted(alike.items(), key=lambda group: (-len(group[1]), group[0]))
    return [f"{len(alike)} {ending}" if len(alike) > 1 else alike[0] for ending, alike in groups]


def _files(entry: SourceEntry, root: Path) -> set[str]:
    """The files that a first run of a source would take in, relative to its folder."""
    from taboot_pipelines.connectors.access import Access
    from taboot_pipelines.extraction.tier_a.compose.references import project_files, references
    from taboot_pipelines.model.records import Fetched, Stored
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.sources import open_connector

    access = Access.of(load_settings(), root, references=references, project_files=project_files)
    events = open_connector(entry, access).events({}, lambda _: False)
    return {event.path for event in events if isinstance(event, (Fetched, Stored))}


def drafted(found: Collection[Found], around: Path, root: Path, namespace: str) -> str:
    """A sources file of what was found beneath ``around``, that is to lie in ``root``."""
    named = "".join(f"{entry}    namespace: {namespace}\n" for entry in _entries(found, around, root))
    return f"{_HEAD}{named}"


def _entries(found: Collection[Found], around: Path, root: Path) -> Iterator[str]:
    taken: set[str] = set()
    for f in found:
        source_id = _id(f, around, taken)
        path = os.path.relpath(around / f.path, root).replace(os.sep, "/")
        lines = [
            f"# {f.beginning.comment}",
            f"- id: {source_id}",
            f"  type: {f.type}",
            f"  path: {_quoted(path)}",
        ]
        if f.exclude:
            lines.append(f"  exclude: [{', '.join(json.dumps(g, ensure_ascii=False) for g in f.exclude)}]")
        if f.proxy is not None:
            lines.append(f"  proxy: {f.proxy}")
        lines += [f"  {line}" for line in f.beginning.lines]
        yield "\n".join(f"  {line}" for line in lines) + "\n"


def _sketches() -> str:
    """Entries that are to be filled in, as comments."""
    from taboot_pipelines.sources import source_kinds

    lines = [
        f"  # {'- ' if number == 0 else '  '}{line}\n"
        for kind in source_kinds().values()
        for number, line in enumerate(kind.sketch)
    ]
    return "".join(lines)


def _id(found: Found, around: Path, taken: set[str]) -> str:
    """An id after the folder; the type is added where another source has it."""
    name = around.name if found.path == "." else Path(found.path).name
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:40] or found.type
    label = found.beginning.label
    wanted = [slug, f"{slug}-{label}", *(f"{slug}-{label}-{n}" for n in range(2, 1000))]
    source_id = next(w for w in wanted if w not in taken)
    taken.add(source_id)
    return source_id


def _quoted(path: str) -> str:
    """The path as YAML: as it is where that is safe, else in double quotes, as JSON is."""
    return path if re.fullmatch(r"[A-Za-z0-9_./-]+", path) else json.dumps(path, ensure_ascii=False)


@click.group()
def sources() -> None:
    """Check the sources file, and list the sources."""


@sources.command()
@json_option
def check(as_json: bool) -> None:
    """Check the sources file: every mistake with its line and column; paths that are not there; URLs that
    are none.

    Nothing is changed. Exit code 1 if something is wrong.
    """
    from taboot_pipelines.connectors.files import source_directory
    from taboot_pipelines.connectors.web import WebSource, readable_urls
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.sources.sources_file import load_sources

    file = load_settings().sources_file
    declared = load_sources(file)
    missing = {}
    for entry in declared.entries.values():
        path = getattr(entry, "path", None)
        if path is not None and not source_directory(path, declared.root).is_dir():
            missing[entry.id] = path
    unreadable = [
        f"{entry.id}: {url}"
        for entry in declared.entries.values()
        if isinstance(entry, WebSource)
        for url in (*entry.urls, *entry.sitemaps)
        if not readable_urls([url])
    ]
    if unreadable:
        raise TabootError(
            "E_SOURCES", f"The sources file {file} is right, but these are no URLs: {'; '.join(unreadable)}."
        )
    if missing:
        listed = "; ".join(f"{source}: {path}" for source, path in missing.items())
        raise TabootError(
            "E_PATH", f"The sources file {file} is right, but these folders are not there: {listed}."
        )
    if as_json:
        emit_json({"ok": True, "path": str(file), "sources": list(declared.entries)})
    else:
        console().print(text(f"{file} is right: {len(declared.entries)} sources."))


@sources.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List the sources: those of the file, and those that have left it and still hold documents."""
    from taboot_pipelines.cli.state import gather
    from taboot_pipelines.cli.status import ago, word
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.sources.sources_file import load_sources

    settings = load_settings()
    known = {
        (s["namespace"], s["id"]): s
        for s in gather(settings, [], [], ask_parts=False)["sources"]
        if s["state"] != "retired"
    }
    rows: list[dict[str, Any]] = []
    if settings.sources_file.exists() or not known:
        for entry in load_sources(settings.sources_file).entries.values():
            found = known.pop((entry.namespace, entry.id), None)
            where = getattr(entry, "path", None) or ""
            rows.append(
                {
                    "id": entry.id,
                    "namespace": entry.namespace,
                    "type": entry.type,
                    "path": where,
                    "schedule": entry.schedule,
                    "tags": entry.tags,
                    "documents": found["documents"] if found else 0,
                    "last_run": (found["last_job"] or {}).get("started_at") if found else None,
                    "state": word(found) if found else "not read yet",
                }
            )
    rows += [
        {
            "id": source,
            "namespace": namespace,
            "type": s["type"],
            "path": "",
            "schedule": None,
            "tags": [],
            "documents": s["documents"],
            "last_run": (s["last_job"] or {}).get("started_at"),
            "state": "has left the file",
        }
        for (namespace, source), s in known.items()
    ]
    if as_json:
        emit_json({"sources": rows})
        return
    shown = table(
        "source", "type", "documents", "last run", "schedule", "state", right=("documents",), short=True
    )
    for row in rows:
        cells = (
            row["id"],
            row["type"],
            f"{row['documents']:,}",
            ago(row["last_run"]),
            row["schedule"] or "",
            row["state"],
        )
        shown.add_row(*map(text, cells))
    console().print(shown)
