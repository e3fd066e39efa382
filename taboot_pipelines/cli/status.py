"""``status``: the configured parts and their health, what the knowledge base holds, sources, settings."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.output import console, emit_json, json_option, moment, table, text
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health

if TYPE_CHECKING:
    from taboot_pipelines.settings import Settings

_MAX_LETTERS = 50


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show the configured parts and their health, counts, sources, dead letters and the settings in force.

    Exit code 1 if a configured part is unwell; what the others know is shown all the same.
    """
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    state = _state(settings)
    if as_json:
        emit_json(state)
    else:
        _show(settings, state)
    sys.exit(0 if state["ok"] else 1)


def _show(settings: Settings, state: dict[str, Any]) -> None:
    out = console()
    for name in ("home", "sources"):
        out.print(text(f"{name:<9} {state['parts'][name]}"))
    shown = table("part", "backend", "state", "version", "ms", "where", right=("ms",))
    for h in state["health"]:
        latency = "" if h["latency_ms"] is None else f"{h['latency_ms']:.1f}"
        shown.add_row(
            text(h["part"]),
            text(h["backend"]),
            text("well" if h["ok"] else "unwell"),
            text(h["version"] or ""),
            latency,
            text(state["parts"].get(h["part"], "")),
            style=None if h["ok"] else "red",
        )
    out.print(shown)
    for h in state["health"]:
        if not h["ok"]:
            out.print(text(f"{h['part']}: {h['message']}"), style="red")
    for namespace, counts in state["namespaces"].items():
        out.print(
            text(
                f"\nnamespace {namespace}: "
                + ", ".join(f"{v:,} {k.replace('_', ' ')}" for k, v in counts.items())
            ),
            style="bold",
        )
    if state["sources"]:
        shown = table(
            "source",
            "namespace",
            "type",
            "state",
            "last job",
            "started",
            "documents",
            "dead",
            right=("documents", "dead"),
        )
        for s in state["sources"]:
            job = s["last_job"] or {}
            shown.add_row(
                *(
                    text(c)
                    for c in (
                        s["id"],
                        s["namespace"],
                        s["type"],
                        s["state"],
                        job.get("state", "never"),
                        job.get("started_at") or "",
                        s["documents"],
                        s["dead_letters"]["failed"],
                    )
                )
            )
        out.print(shown)
    elif "error" in state:
        out.print(
            text(
                "\nThe sources, their jobs and dead letters are not known while the catalog does not answer."
            ),
            style="red",
        )
    else:
        todo = "run" if settings.sources_file.exists() else f"write {settings.sources_file} and run"
        out.print(text(f"\nNo source yet: {todo} `taboot ingest`."))
    for letter in state["dead_letters"][:_MAX_LETTERS]:
        out.print(
            text(
                f"{letter['source']}: {letter['stage']}: {letter['code']}: {letter['message']}"
                f" ({letter['attempts']}×, {letter['kind']})"
            ),
            style="yellow",
        )
    if len(state["dead_letters"]) > _MAX_LETTERS:
        out.print(text(f"… and {len(state['dead_letters']) - _MAX_LETTERS} more; --json lists them all."))
    out.print(text("\nsettings in force"), style="bold")
    for name, value in state["settings"].items():
        out.print(text(f"  {name} = {value}"))


def _state(settings: Settings) -> dict[str, Any]:
    from taboot_pipelines import logs
    from taboot_pipelines.stages import health

    found = health.check(settings)
    state: dict[str, Any] = {
        "ok": all(h.ok for h in found),
        "parts": _parts(settings),
        "health": [asdict(h) for h in found],
        "namespaces": {},
        "sources": [],
        "dead_letters": [],
        "settings": _settings(settings),
    }
    if not health.catalog_exists(settings):
        return state  # Asking for the state must not create it.
    try:
        if _dead(found, "catalog"):
            raise TabootError("E_CATALOG", "The catalog does not answer.")
        _read_catalog(settings, state, shards=not _dead(found, "shards"))
    except TabootError as error:
        state["ok"] = False
        state["error"] = logs.redacted(error, settings).to_response()["error"]
    return state


def _dead(found: list[Health], part: str) -> bool:
    """Whether a part did not answer at all; one that only warned did."""
    return any(h.part == part and not h.ok and h.latency_ms is None for h in found)


def _read_catalog(settings: Settings, state: dict[str, Any], *, shards: bool) -> None:
    from taboot_pipelines.stages.workspace import Workspace

    workspace = Workspace(settings)
    try:
        catalog = workspace.catalog
        rows = catalog.sources.find(states=("active", "retiring", "retired"))
        for namespace in sorted({r["namespace"] for r in rows}):
            usage = catalog.blobs.usage(namespace)
            served = _served(settings, namespace) if shards else {}
            state["namespaces"][namespace] = {
                **served,
                "blobs": usage["total_sources"],
                "blob_bytes": usage["total_bytes"],
            }
            state["dead_letters"] += [
                {
                    "namespace": namespace,
                    "source": d["source_id"],
                    **{k: d[k] for k in ("stage", "item", "code", "message", "kind", "attempts")},
                    "last_at": moment(d["last_at"]),
                }
                for d in catalog.dead_letters.find(namespace)
            ]
        for row in rows:
            namespace, source = row["namespace"], row["source_id"]
            job = next(iter(catalog.jobs.find(namespace, source, limit=1)), None)
            letters = [
                d for d in state["dead_letters"] if (d["namespace"], d["source"]) == (namespace, source)
            ]
            state["sources"].append(
                {
                    "id": source,
                    "namespace": namespace,
                    "type": row["type"],
                    "state": row["state"],
                    "documents": sum(
                        x.role == "document" for x in catalog.locators.of_source(namespace, source).values()
                    ),
                    "last_job": (
                        None
                        if job is None
                        else {
                            "state": job["state"],
                            "started_at": moment(job["started_at"]),
                            "ended_at": moment(job["ended_at"]),
                            "complete": job["complete"],
                            **{
                                k: job[k]
                                for k in (
                                    "discovered",
                                    "fetched",
                                    "not_modified",
                                    "skipped",
                                    "failed",
                                    "removed",
                                    "held",
                                )
                            },
                        }
                    ),
                    "dead_letters": {
                        kind: sum(d["kind"] == kind for d in letters) for kind in ("failed", "skipped")
                    },
                }
            )
    finally:
        workspace.close()


def _served(settings: Settings, namespace: str) -> dict[str, int]:
    """How much of everything readers see."""
    from taboot_pipelines.shards import load_manifest, open_shards

    manifest = load_manifest(open_shards(settings), namespace)
    shards = manifest.shards if manifest is not None else ()
    return {
        "documents": sum(s.documents for s in shards),
        "chunks": sum(s.chunks for s in shards),
        "entities": sum(s.entities for s in shards),
        "shards": len(shards),
    }


def _parts(settings: Settings) -> dict[str, str]:
    """Where each part is: its default, or where its setting leads."""
    from taboot_pipelines.embedding.minilm import runtime_of

    model = settings.embedding.model_path or "all-MiniLM-L6-v2, int8"
    bundled = f"bundled ({model}, by {runtime_of(settings.embedding)})"
    embedder = (
        f"TEI at {_no_credentials(settings.tei.url)}"
        if settings.tei.url
        else settings.embedding.torch.model or bundled
    )
    catalog = (
        "the database that TABOOT_CATALOG_URL names"
        if settings.catalog_url
        else str(settings.home_dir / "catalog.db")
    )
    parts = {
        "home": str(settings.home_dir),
        "sources": str(settings.sources_file),
        "catalog": catalog,
        "state": "the server that TABOOT_REDIS__URL names" if settings.redis.url else catalog,
        "blobs": (
            _no_credentials(settings.blob_url) if settings.blob_url else str(settings.home_dir / "blobs")
        ),
        "tables": (
            _no_credentials(settings.table_url) if settings.table_url else str(settings.home_dir / "tables")
        ),
        "shards": (
            _no_credentials(settings.shard_url) if settings.shard_url else str(settings.home_dir / "kb")
        ),
        "embedder": embedder,
        "dagster": str(settings.dagster_home),
        "reranker": settings.reranker.url or settings.reranker.torch.model or "",
        "llm": settings.llm.url or settings.llm.vllm_model or "",
        "vectors": settings.qdrant.url or "",
        "graph": settings.neo4j.url or "",
        "broker": "the broker that TABOOT_CELERY__BROKER names" if settings.executor == "celery" else "",
    }
    return {name: _no_credentials(where) for name, where in parts.items() if where}


def _no_credentials(url: str) -> str:
    return re.sub(r"(?<=//)[^/@]*@", "***@", url).split("?", 1)[0] if "://" in url else url


def _settings(settings: Settings) -> dict[str, Any]:
    """The settings in force by the names of their environment variables; secrets are asterisks."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, dict):
                walk(f"{prefix}{name.upper()}__", value)
            else:
                flat[prefix + name.upper()] = _no_credentials(value) if isinstance(value, str) else value

    walk("TABOOT_", settings.model_dump(mode="json"))
    return flat
