"""``schema``, ``audit``, ``delete``, ``restore``, ``purge``, ``ui``: what a person does now and then."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli.output import console, emit_json, json_option, namespace_option, table, text
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.settings import Settings
    from taboot_pipelines.stages.workspace import Workspace

_MAX_SHOWN = 50


@click.command()
def schema() -> None:
    """Print the JSON Schema of the sources file, for editors."""
    from taboot_pipelines.sources.sources_file import json_schema

    emit_json(json_schema())


@click.command()
@click.argument("documents", metavar="DOCUMENT...", nargs=-1, required=True)
@click.option("--erase", is_flag=True, help="Remove every byte of it too: blobs, tables, vectors, shards.")
@namespace_option
@json_option
def delete(documents: tuple[str, ...], erase: bool, namespace: str | None, as_json: bool) -> None:
    """Delete documents for good; their sources pass them by until `taboot restore`.

    A DOCUMENT is a document's id or the beginning of it, the id of one of its chunks, its URL or its path.
    """
    from taboot_pipelines.stages import deletion
    from taboot_pipelines.stages.document_lookup import documents_called

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        doc_ids = documents_called(workspace, tenant, documents)
        receipt = deletion.delete(workspace, tenant, doc_ids, erase=erase)
    if as_json:
        emit_json(
            {
                "receipt_id": receipt.receipt_id,
                "namespace": receipt.namespace,
                "doc_ids": list(receipt.doc_ids),
                "erase": receipt.erase,
                "stores": receipt.stores,
                "final": receipt.final,
            }
        )
    else:
        stores = ", ".join(f"{store} {state}" for store, state in receipt.stores.items())
        console().print(
            text(
                f"{'Erased' if erase else 'Deleted'} {len(receipt.doc_ids)} documents ({stores}). Receipt"
                f" {receipt.receipt_id}."
            )
        )
    sys.exit(0 if receipt.final else 1)


@click.command()
@click.argument("documents", metavar="DOCUMENT...", nargs=-1, required=True)
@namespace_option
@json_option
def restore(documents: tuple[str, ...], namespace: str | None, as_json: bool) -> None:
    """Bring deleted documents back; erased ones come back when their source is ingested.

    A DOCUMENT is named as for `taboot delete`; of an erased one only the id is known.
    """
    from taboot_pipelines.stages import deletion
    from taboot_pipelines.stages.document_lookup import documents_called

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        doc_ids = documents_called(workspace, tenant, documents, deleted=True)
        restored = deletion.restore(workspace, tenant, doc_ids)
    if as_json:
        emit_json({"restored": list(restored.restored), "awaiting_fetch": list(restored.awaiting_fetch)})
        return
    out = console()
    out.print(text(f"Restored {len(restored.restored)} documents."))
    if restored.awaiting_fetch:
        out.print(
            text(f"{len(restored.awaiting_fetch)} were erased and come back with the next `taboot ingest`.")
        )


@click.command()
@click.option(
    "--vanished", is_flag=True, help="Bytes of files that are gone from their source, or were edited since."
)
@click.option("--yes", is_flag=True, help="Remove them; without it, only say what would go.")
@namespace_option
@json_option
def purge(vanished: bool, yes: bool, namespace: str | None, as_json: bool) -> None:
    """Remove stored bytes that no document has any more; by themselves they are kept for ever."""
    from taboot_pipelines.stages.deletion import purge_vanished

    if not vanished:
        raise click.UsageError("Say what is to be removed: --vanished.")
    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        purged = purge_vanished(workspace, tenant, carry_out=yes)
    if as_json:
        emit_json(asdict(purged))
        return
    verb = "Removed" if yes else "Would remove"
    console().print(text(f"{verb} {purged.blobs:,} blobs of {purged.bytes:,} bytes."))
    if purged.blobs and not yes:
        console().print(text("`taboot purge --vanished --yes` removes them for good."))


@contextmanager
def existing_workspace() -> Iterator[Workspace]:
    """The workspace of the settings in force; ``E_KB_UNINITIALIZED`` where there is no catalog."""
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages.workspace import Workspace

    settings = load_settings()
    require_catalog(settings)
    workspace = Workspace(settings)
    try:
        yield workspace
    finally:
        workspace.close()


def require_catalog(settings: Settings) -> None:
    """Raise ``E_KB_UNINITIALIZED`` where there is no catalog: what changes one must not create it."""
    from taboot_pipelines.stages.health import catalog_exists

    if not catalog_exists(settings):
        raise TabootError(
            "E_KB_UNINITIALIZED",
            f"There is no catalog under {settings.home_dir}.",
            path=str(settings.home_dir),
        )


def _check_free(host: str, port: int) -> None:
    """Raise ``E_CONFLICT`` where the UI could not listen: said before anything has started."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        why = "in use" if error.errno == errno.EADDRINUSE else f"not to be had ({error.strerror or error})"
        raise TabootError(
            "E_CONFLICT",
            f"Port {port} of {host} is {why}.",
            remedy="End what listens there, or choose another by --port.",
            port=port,
        ) from None


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
def ui(host: str, port: int) -> None:
    """Start the Dagster UI with its schedules and sensors, on the same storage as `taboot ingest`."""
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    _check_free(host, port)
    from taboot_pipelines.defs.instance import open_instance

    with open_instance(settings):
        pass  # Makes the storage, and its dagster.yaml, where there is none.
    arguments = [
        sys.executable,
        "-m",
        "dagster",
        "dev",
        "-m",
        "taboot_pipelines.definitions",
        "-h",
        host,
        "-p",
        str(port),
    ]
    os.execve(sys.executable, arguments, {**os.environ, "DAGSTER_HOME": str(settings.dagster_home)})


@click.command()
@click.option("--repair", is_flag=True, help="Derive again what differs.")
@click.option("--deep", is_flag=True, help="Read every byte: hash every blob, text and shard file.")
@namespace_option
@json_option
def audit(repair: bool, deep: bool, namespace: str | None, as_json: bool) -> None:
    """Compare catalog, blobs, tables, shards, Qdrant and Neo4j by id; exit code 1 if they differ."""
    from taboot_pipelines.stages import storage_audit

    with existing_workspace() as workspace:
        namespaces = [namespace] if namespace else workspace.namespaces()
        reports = [storage_audit.run(workspace, n, repair=repair, deep=deep) for n in namespaces]
    left = sum(len(r.left) for r in reports)
    if as_json:
        emit_json(
            {
                "discrepancies": sum(len(r.found) for r in reports),
                "left": left,
                "namespaces": [asdict(r) for r in reports],
            }
        )
    else:
        out = console()
        for report in reports:
            checked = ", ".join(f"{count:,} {name}" for name, count in report.checked.items())
            verdict = f"{len(report.found)} discrepancies" + (
                f", {len(report.left)} left after the repair" if report.repaired else ""
            )
            out.print(text(f"namespace {report.namespace}: {verdict} ({checked})"), style="bold")
            if report.found:
                shown = table("store", "kind", "id", "what", "")
                for d in report.found[:_MAX_SHOWN]:
                    state = "" if not report.repaired else "left" if d in report.left else "repaired"
                    shown.add_row(*(text(c) for c in (d.store, d.kind, d.item, d.message, state)))
                out.print(shown)
            if len(report.found) > _MAX_SHOWN:
                out.print(text(f"… and {len(report.found) - _MAX_SHOWN} more; --json lists them all."))
        if left and not repair:
            out.print(text("`taboot audit --repair` derives again what can be derived."))
    sys.exit(1 if left else 0)
