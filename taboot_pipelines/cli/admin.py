"""``status``, ``schema``, ``delete``, ``restore``, ``ui``: the state of things, and changing it by hand."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import click

from taboot_pipelines.cli.output import console, emit_json, json_option, moment, namespace_option, table, text
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings, load_settings

_MOST_LETTERS = 50


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show the configured parts, counts, sources, dead letters and the settings in force."""
    settings = load_settings()
    state = _state(settings)
    if as_json:
        emit_json(state)
        return
    out = console()
    for name, part in state["parts"].items():
        out.print(text(f"{name:<10} {part}"))
    for namespace, counts in state["namespaces"].items():
        out.print(text(f"\nnamespace {namespace}: " + ", ".join(f"{v:,} {k.replace('_', ' ')}" for k, v in counts.items())), style="bold")
    shown = table("source", "namespace", "type", "state", "last job", "started", "documents", "dead", right=("documents", "dead"))
    for s in state["sources"]:
        job = s["last_job"] or {}
        shown.add_row(*(text(c) for c in (
            s["id"], s["namespace"], s["type"], s["state"], job.get("state", "never"), job.get("started_at") or "", s["documents"], s["dead_letters"]["failed"],
        )))
    out.print(shown if state["sources"] else text(f"\nNo source yet: write {settings.sources_file} and run `taboot ingest`."))
    for letter in state["dead_letters"][:_MOST_LETTERS]:
        out.print(text(f"{letter['source']}: {letter['stage']}: {letter['code']}: {letter['message']} ({letter['attempts']}×, {letter['kind']})"), style="yellow")
    if len(state["dead_letters"]) > _MOST_LETTERS:
        out.print(text(f"… and {len(state['dead_letters']) - _MOST_LETTERS} more; --json lists them all."))
    out.print(text("\nsettings in force"), style="bold")
    for name, value in state["settings"].items():
        out.print(text(f"  {name} = {value}"))


def _state(settings: Settings) -> dict[str, Any]:
    state: dict[str, Any] = {
        "parts": _parts(settings), "namespaces": {}, "sources": [], "dead_letters": [], "settings": _settings(settings),
    }
    if settings.catalog_url is None and not (settings.home_dir / "catalog.db").exists():
        return state  # Asking for the state must not create it.
    from taboot_pipelines.shards import load_manifest
    from taboot_pipelines.stages.workspace import Workspace

    workspace = Workspace(settings)
    catalog = workspace.catalog
    rows = catalog.sources(states=("active", "retiring", "retired"))
    for namespace in sorted({r["namespace"] for r in rows}):
        manifest = load_manifest(settings.home_dir / "kb", namespace)
        shards = manifest.shards if manifest is not None else ()
        usage = catalog.usage(namespace)
        state["namespaces"][namespace] = {
            "documents": sum(s.documents for s in shards), "chunks": sum(s.chunks for s in shards), "entities": sum(s.entities for s in shards),
            "shards": len(shards), "blobs": usage["total_sources"], "blob_bytes": usage["total_bytes"],
        }
        state["dead_letters"] += [
            {"namespace": namespace, "source": d["source_id"], **{k: d[k] for k in ("stage", "item", "code", "message", "kind", "attempts")}, "last_at": moment(d["last_at"])}
            for d in catalog.dead_letters(namespace)
        ]
    for row in rows:
        namespace, source = row["namespace"], row["source_id"]
        job = next(iter(catalog.jobs(namespace, source, limit=1)), None)
        letters = [d for d in state["dead_letters"] if (d["namespace"], d["source"]) == (namespace, source)]
        state["sources"].append({
            "id": source, "namespace": namespace, "type": row["type"], "state": row["state"],
            "documents": sum(x.role == "document" for x in catalog.locators(namespace, source).values()),
            "last_job": None if job is None else {
                "state": job["state"], "started_at": moment(job["started_at"]), "ended_at": moment(job["ended_at"]), "complete": job["complete"],
                **{k: job[k] for k in ("discovered", "fetched", "not_modified", "skipped", "failed", "removed", "held")},
            },
            "dead_letters": {kind: sum(d["kind"] == kind for d in letters) for kind in ("failed", "skipped")},
        })
    workspace.close()
    return state


def _parts(settings: Settings) -> dict[str, str]:
    """Each part: its default, or where its setting leads."""
    return {
        "home": str(settings.home_dir),
        "sources": str(settings.sources_file),
        "blobs": _no_credentials(settings.blob_url) if settings.blob_url else str(settings.home_dir / "blobs"),
        "catalog": "the database that TABOOT_CATALOG_URL names" if settings.catalog_url else str(settings.home_dir / "catalog.db"),
        "embedder": f"TEI at {_no_credentials(settings.tei.url)}" if settings.tei.url else f"bundled ({settings.embedding.model_path or 'all-MiniLM-L6-v2, ONNX int8'})",
        "serving": str(settings.home_dir / "kb"),
        "dagster": str(settings.dagster_home),
    }


def _no_credentials(url: str) -> str:
    return re.sub(r"(?<=//)[^/@]*@", "***@", url).split("?", 1)[0]


def _settings(settings: Settings) -> dict[str, Any]:
    """Flat, by the names of the environment variables; secrets as asterisks."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, dict):
                walk(f"{prefix}{name.upper()}__", value)
            else:
                flat[prefix + name.upper()] = _no_credentials(value) if isinstance(value, str) and "://" in value else value

    walk("TABOOT_", settings.model_dump(mode="json"))
    return flat


@click.command()
def schema() -> None:
    """Print the JSON Schema of the sources file, for editors."""
    from taboot_pipelines.connectors.sources_file import json_schema

    emit_json(json_schema())


@click.command()
@click.argument("doc_ids", metavar="DOC_ID...", nargs=-1, required=True)
@click.option("--erase", is_flag=True, help="Remove every byte of it too: blobs, tables, vectors, shards.")
@namespace_option
@json_option
def delete(doc_ids: tuple[str, ...], erase: bool, namespace: str | None, as_json: bool) -> None:
    """Delete documents for good; their sources pass them by until `taboot restore`."""
    from taboot_pipelines.stages import deletion
    from taboot_pipelines.stages.workspace import Workspace

    settings = load_settings()
    _initialized(settings)
    receipt = deletion.delete(Workspace(settings), namespace or settings.namespace, doc_ids, erase=erase)
    if as_json:
        emit_json({
            "receipt_id": receipt.receipt_id, "namespace": receipt.namespace, "doc_ids": list(receipt.doc_ids), "erase": receipt.erase,
            "stores": receipt.stores, "final": receipt.final,
        })
    else:
        stores = ", ".join(f"{store} {state}" for store, state in receipt.stores.items())
        console().print(text(f"{'Erased' if erase else 'Deleted'} {len(receipt.doc_ids)} documents ({stores}). Receipt {receipt.receipt_id}."))
    sys.exit(0 if receipt.final else 1)


@click.command()
@click.argument("doc_ids", metavar="DOC_ID...", nargs=-1, required=True)
@namespace_option
@json_option
def restore(doc_ids: tuple[str, ...], namespace: str | None, as_json: bool) -> None:
    """Bring deleted documents back; erased ones come back when their source is ingested."""
    from taboot_pipelines.stages import deletion
    from taboot_pipelines.stages.workspace import Workspace

    settings = load_settings()
    _initialized(settings)
    restored = deletion.restore(Workspace(settings), namespace or settings.namespace, doc_ids)
    if as_json:
        emit_json({"restored": list(restored.restored), "awaiting_fetch": list(restored.awaiting_fetch)})
        return
    out = console()
    out.print(text(f"Restored {len(restored.restored)} documents."))
    if restored.awaiting_fetch:
        out.print(text(f"{len(restored.awaiting_fetch)} were erased and come back with the next `taboot ingest`."))


def _initialized(settings: Settings) -> None:
    if settings.catalog_url is None and not (settings.home_dir / "catalog.db").exists():
        raise TabootError("E_KB_UNINITIALIZED", f"There is no catalog under {settings.home_dir}.", path=str(settings.home_dir))


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
def ui(host: str, port: int) -> None:
    """Start the Dagster UI with its schedules and sensors, on the same storage as `taboot ingest`."""
    from taboot_pipelines.defs.instance import open_instance

    settings = load_settings()
    with open_instance(settings):
        pass  # Makes the storage, and its dagster.yaml, where there is none.
    arguments = [sys.executable, "-m", "dagster", "dev", "-m", "taboot_pipelines.definitions", "-h", host, "-p", str(port)]
    os.execve(sys.executable, arguments, {**os.environ, "DAGSTER_HOME": str(settings.dagster_home)})
