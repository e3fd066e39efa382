"""``backup``: saves the catalog and the blobs elsewhere, and fills an empty home from there."""

from __future__ import annotations

import contextlib
import sys

import click

from taboot_pipelines.cli.admin import existing_workspace
from taboot_pipelines.cli.output import console, emit_json, json_option, plain, table, text, warn


@click.group()
def backup() -> None:
    """Save what cannot be made again, and restore it into an empty home.

    A PLACE is a directory, or a prefix of an object store by its URL (s3://bucket/prefix).
    """


@backup.command()
@click.argument("where", metavar="PLACE")
@click.option("--keep", type=click.IntRange(1), help="Leave the newest so many backups there.")
@click.option("--deep", is_flag=True, help="Read what is there back, and write what is damaged anew.")
@json_option
def create(where: str, keep: int | None, deep: bool, as_json: bool) -> None:
    """Save the catalog and the blobs at PLACE; ingests may go on meanwhile.

    PLACE is empty at first, and is this home's alone. What is there already is not copied again. Exit code 1
    if blobs were lost before, or older backups could not be removed.
    """
    from taboot_pipelines.stages import backup as stage

    with existing_workspace() as workspace:
        made = stage.create(workspace, where, keep=keep, deep=deep)
    m = made.manifest
    if as_json:
        emit_json(
            {
                "id": m.id,
                "blobs": m.blob_count,
                "bytes": m.blob_bytes,
                "new_blobs": made.new_blobs,
                "new_bytes": made.new_bytes,
                "lost": [sha256 for _, sha256 in m.lost],
                "pruned": list(made.pruned),
                "note": made.note,
            }
        )
    else:
        plain(
            f"Backup {m.id}: {m.blob_count:,} blobs of {m.blob_bytes:,} bytes, {made.new_blobs:,} of them new"
            f" here ({made.new_bytes:,} bytes)."
        )
        if made.pruned:
            plain(f"Removed {len(made.pruned):,} older backups.")
        if made.note:
            warn(made.note)
        if m.lost:
            plain(f"{len(m.lost):,} blobs are lost: `taboot audit --deep` names them.")
    sys.exit(1 if m.lost or made.note else 0)


@backup.command("list")
@click.argument("where", metavar="PLACE")
@json_option
def list_backups(where: str, as_json: bool) -> None:
    """List the backups at PLACE, the oldest first; exit code 1 if one cannot be read."""
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages import backup as stage

    found, bad = stage.backups(where, load_settings().storage)
    if as_json:
        emit_json(
            {
                "damages": [{"backup": d.backup, "file": d.file, "what": d.what} for d in bad],
                "backups": [
                    {
                        "id": m.id,
                        "created_at": m.created_at.isoformat(timespec="seconds"),
                        "release": m.release,
                        "blobs": m.blob_count,
                        "bytes": m.blob_bytes,
                        "lost": [sha256 for _, sha256 in m.lost],
                    }
                    for m in found
                ],
            }
        )
        sys.exit(1 if bad else 0)
    shown = table("backup", "made", "release", "blobs", "bytes", right=("blobs", "bytes"))
    for m in found:
        when = m.created_at.isoformat(timespec="minutes").replace("+00:00", "Z")
        shown.add_row(*map(text, (m.id, when, m.release)), f"{m.blob_count:,}", f"{m.blob_bytes:,}")
    console().print(shown if found else text(f"There is no backup at {where}."))
    for d in bad:
        warn(d.what)
    sys.exit(1 if bad else 0)


@backup.command()
@click.argument("where", metavar="PLACE")
@json_option
def verify(where: str, as_json: bool) -> None:
    """Read every byte of the backups at PLACE; exit code 1 if one is missing or altered."""
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages import backup as stage

    found = stage.verify(where, load_settings().storage)
    if as_json:
        damages = [{"backup": d.backup, "file": d.file, "what": d.what} for d in found.damages]
        emit_json({"backups": found.backups, "blobs": found.blobs, "bytes": found.bytes, "damages": damages})
    else:
        for d in found.damages:
            plain(f"{d.backup}: {d.file} {d.what}")
        well = "all of them well" if not found.damages else f"{len(found.damages):,} of them wrong"
        plain(f"{found.backups:,} backups, {found.blobs:,} blobs, {found.bytes:,} bytes read: {well}.")
    sys.exit(1 if found.damages else 0)


@backup.command()
@click.argument("where", metavar="PLACE")
@click.option("--backup", "backup_id", metavar="ID", help="Which one; default: the newest.")
@json_option
def restore(where: str, backup_id: str | None, as_json: bool) -> None:
    """Fill an empty TABOOT_HOME, or empty servers, from a backup, and derive from it all that follows.

    The sources file is written too where there is none. What was interrupted goes on when it is run again.
    Exit code 1 if a server did not answer, or blobs were lost before the backup was made.
    """
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages import backup as stage
    from taboot_pipelines.stages.workspace import Workspace

    settings = load_settings()
    file = settings.sources_file
    new = not file.exists()
    with contextlib.closing(Workspace(settings)) as workspace:
        done = stage.restore(workspace, where, backup_id)
    new &= file.exists()
    if as_json:
        emit_json(
            {
                "id": done.manifest.id,
                "documents": done.documents,
                "pending": done.followed.pending,
                "sources_file": str(file) if new else None,
                "lost": [sha256 for _, sha256 in done.manifest.lost],
            }
        )
    else:
        plain(f"Restored {done.documents:,} documents from backup {done.manifest.id}.")
        if new:
            plain(f"The sources file is {file}; its paths are those of the machine that was saved.")
        if done.manifest.lost:
            plain(f"{len(done.manifest.lost):,} blobs were lost before the backup was made.")
        if done.followed.pending:
            plain(f"`taboot ingest` brings it to: {', '.join(sorted(done.followed.pending))}.")
    if done.followed.failure is not None:
        raise done.followed.failure
    sys.exit(1 if done.followed.pending or done.manifest.lost else 0)
