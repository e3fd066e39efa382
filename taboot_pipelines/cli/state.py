"""The state of a home as ``status`` tells it: parts, sources, counts, and what needs attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from taboot_pipelines.cli.config import no_credentials, settings_in_force
from taboot_pipelines.cli.output import moment
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health

if TYPE_CHECKING:
    from taboot_pipelines.settings import Problem, Settings, Unknown
    from taboot_pipelines.stages.workspace import Workspace


#: A time after all others.
_EVER = 2**62


def gather(
    settings: Settings, problems: Sequence[Problem], unknown: Sequence[Unknown], *, ask_parts: bool = True
) -> dict[str, Any]:
    """All that is known, as JSON: what does not answer is told and leaves the rest out of nothing.

    ``attention`` is a list of {subject, what, command}; ``ok`` is false if a part is unwell, a setting is
    wrong or the sources file is. Without ``ask_parts`` no part is asked how it is.
    """
    from taboot_pipelines import logs
    from taboot_pipelines.stages import health

    found = health.check(settings) if ask_parts else []
    state: dict[str, Any] = {
        "ok": all(h.ok for h in found) and not problems,
        "parts": _parts(settings),
        "health": [asdict(h) for h in found],
        "namespaces": {},
        "upload_errors": {},
        "sources": [],
        "held": [],
        "dead_letters": [],
        "settings": settings_in_force(settings),
        "wrong_settings": [{"setting": p.variable, "message": p.message} for p in problems],
        "unknown_settings": [{"variable": u.variable, "nearest": u.nearest} for u in unknown],
    }
    if health.catalog_exists(settings):  # Asking for the state must not create it.
        try:
            if _dead(found, "catalog"):
                raise TabootError("E_CATALOG", "The catalog does not answer.")
            _read_catalog(settings, state, shards=not _dead(found, "shards"))
        except TabootError as error:
            state["ok"] = False
            state["error"] = logs.redacted(error, settings).to_response()["error"]
    state["sources_file"] = _sources_file(settings, state)
    state["attention"] = list(_attention(settings, state, found))
    return state


def _sources_file(settings: Settings, state: dict[str, Any]) -> dict[str, Any]:
    """Whether the sources file is there and right, which of its sources no run has read yet, and which name
    no machine of their Compose projects while others do."""
    from taboot_pipelines.connectors.compose import ComposeSource
    from taboot_pipelines.sources.sources_file import load_sources

    file = settings.sources_file
    told: dict[str, Any] = {
        "path": str(file),
        "exists": file.exists(),
        "error": None,
        "new": [],
        "unhosted": [],
    }
    if told["exists"]:
        try:
            declared = load_sources(file).entries
        except TabootError as error:
            state["ok"] = False
            told["error"] = error.to_response()["error"]
        else:
            read = {s["id"] for s in state["sources"] if s["last_job"] is not None}
            told["new"] = [source for source in declared if source not in read]
            compose = [e for e in declared.values() if isinstance(e, ComposeSource)]
            hosted = {e.namespace for e in compose if e.host is not None}
            told["unhosted"] = [e.id for e in compose if e.host is None and e.namespace in hosted]
    return told


def _attention(
    settings: Settings, state: dict[str, Any], found: Sequence[Health]
) -> Iterator[dict[str, str]]:
    """What a person should look at, the worst first, each with the command that mends it or shows more."""

    def item(subject: str, what: str, command: str) -> dict[str, str]:
        return {"subject": subject, "what": what, "command": command}

    for wrong in state["wrong_settings"]:
        yield item(wrong["setting"], f"is wrong: {wrong['message']}", f"export {wrong['setting']}=…")
    for h in found:
        if not h.ok:
            yield item(h.part, h.message, "taboot status --parts")
    file = state["sources_file"]
    if file["error"] is not None:
        yield item("sources file", file["error"]["message"], "taboot sources check")
    if not file["exists"] and not state.get("sources"):  # what was uploaded needs none
        yield item("sources file", f"there is none at {file['path']}", "taboot init")
    if "error" in state:
        return
    for held in state["held"]:
        what = f"{held['deletions']:,} deletions wait for a confirmation: it {held['reason']}"
        yield item(held["source"], what, f"taboot held; {held['command']}")
    for namespace, said in state["upload_errors"].items():
        waiting = state["namespaces"][namespace]["uploads_waiting"]
        what = f"{waiting:,} blobs wait to be uploaded: {said}"
        yield item(namespace, what, "taboot status --parts; taboot ingest")
    for namespace, counts in state["namespaces"].items():
        if counts["expiring"]:
            day = counts["next_expiry"][:10]
            what = f"{counts['expiring']:,} documents expire within 7 days, the first on {day}"
            yield item(namespace, what, "taboot retention; taboot retain DOCUMENT --forever")
    for s in state["sources"]:
        job = s["last_job"]
        if job is not None and job["state"] == "failed":
            yield item(
                s["id"], f"its last run failed ({job['code'] or 'no code'})", f"taboot ingest {s['id']}"
            )
        elif job is not None and job["state"] == "canceled":
            yield item(s["id"], "its last run was interrupted", f"taboot ingest {s['id']}")
        elif job is not None and job["complete"] is False:
            yield item(s["id"], "its last run did not see all of it", f"taboot ingest {s['id']}")
        if s["dead_letters"]["failed"]:
            first = next(d for d in state["dead_letters"] if d["source"] == s["id"] and d["kind"] == "failed")
            more = f" and {s['dead_letters']['failed'] - 1:,} more" if s["dead_letters"]["failed"] > 1 else ""
            yield item(
                s["id"], f"{first['code']}: {first['message']}{more}", f"taboot status --failed {s['id']}"
            )
    if file["new"]:
        listed = " ".join(file["new"][:5]) + (" …" if len(file["new"]) > 5 else "")
        some = " ".join(file["new"]) if len(file["new"]) <= 5 and state["sources"] else ""
        yield item("not read yet", listed, f"taboot ingest {some}".strip())
    for source in file["unhosted"]:
        what = "names no host, as others do: its services count as examples, and no query has them"
        yield item(source, what, f"host: MACHINE in {settings.sources_file.name}")
    for unknown in state["unknown_settings"]:
        near = f"; did you mean {unknown['nearest']}?" if unknown["nearest"] else ""
        yield item(unknown["variable"], f"is no setting{near}", f"unset {unknown['variable']}")


def _dead(found: list[Health], part: str) -> bool:
    """Whether a part did not answer at all; one that only warned did."""
    return any(h.part == part and not h.ok and h.latency_ms is None for h in found)


def _read_catalog(settings: Settings, state: dict[str, Any], *, shards: bool) -> None:
    from taboot_pipelines.model.jobs import Lifecycle
    from taboot_pipelines.stages.documents import STAGE as DOCUMENTS
    from taboot_pipelines.stages.retention import kept
    from taboot_pipelines.stages.workspace import Workspace, is_paused

    workspace = Workspace(settings)
    try:
        catalog = workspace.catalog
        rows = catalog.sources.find(states=("active", "retiring", "retired"))
        for namespace in sorted({r["namespace"] for r in rows}):
            usage = catalog.blobs.usage(namespace)
            served = _served(settings, namespace) if shards else {}
            letters = catalog.dead_letters.find(namespace)
            uploads = catalog.uploads.due(namespace, _EVER)
            expiring = [
                k
                for k in kept(workspace, namespace)
                if k.expires_at and k.locator.lifecycle == Lifecycle.EXPIRING
            ]
            state["namespaces"][namespace] = {
                **served,
                "rejected": sum(d["stage"] == DOCUMENTS for d in letters),
                "blobs": usage["total_sources"],
                "blob_bytes": usage["total_bytes"],
                "uploads_waiting": len(uploads),
                "expiring": len(expiring),
                "next_expiry": moment(min((k.expires_at for k in expiring if k.expires_at), default=None)),
            }
            if uploads:
                state["upload_errors"][namespace] = uploads[-1]["error_message"]
            state["dead_letters"] += [
                {
                    "namespace": namespace,
                    "source": d["source_id"],
                    **{k: d[k] for k in ("stage", "item", "code", "message", "kind", "attempts")},
                    "last_at": moment(d["last_at"]),
                }
                for d in letters
            ]
        for row in rows:
            namespace, source = row["namespace"], row["source_id"]
            job = next(iter(catalog.jobs.find(namespace, source, limit=1)), None)
            letters = [
                d for d in state["dead_letters"] if (d["namespace"], d["source"]) == (namespace, source)
            ]
            rejected = sum(d["stage"] == DOCUMENTS for d in letters)
            state["sources"].append(
                {
                    "id": source,
                    "namespace": namespace,
                    "type": row["type"],
                    "state": "paused" if is_paused(row) else row["state"],
                    "documents": catalog.locators.count(namespace, source, "document") - rejected,
                    "rejected": rejected,
                    "last_job": (
                        None
                        if job is None
                        else {
                            "state": job["state"],
                            "started_at": moment(job["started_at"]),
                            "ended_at": moment(job["ended_at"]),
                            "complete": job["complete"],
                            "code": _code(job["error"]),
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
        state["held"] = _held(workspace)
    finally:
        workspace.close()


def _held(workspace: Workspace) -> list[dict[str, Any]]:
    from taboot_pipelines.stages.held_deletions import held

    return [
        {
            "namespace": h.namespace,
            "source": h.source_id,
            "reason": h.reason,
            "deletions": h.deletions,
            "command": h.command,
        }
        for h in held(workspace)
    ]


def _code(error: str | None) -> str | None:
    """The code of the error that a job ended with."""
    import orjson

    return None if error is None else orjson.loads(error).get("error", {}).get("code")


def _served(settings: Settings, namespace: str) -> dict[str, int]:
    """How much of everything readers see."""
    from taboot_pipelines.shards import open_shards
    from taboot_pipelines.shards.protocol import load_manifest

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
    from taboot_pipelines.stages.chain import CHAIN

    model = settings.embedding.model_path or "all-MiniLM-L6-v2, int8"
    bundled = f"bundled ({model}, by {runtime_of(settings.embedding)})"
    server = settings.embedding_server
    embedder = (
        f"{'TEI' if server is settings.tei else settings.embedding.openai.model} at"
        f" {no_credentials(server.url or '')}"
        if server is not None
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
            no_credentials(settings.blob_url) if settings.blob_url else str(settings.home_dir / "blobs")
        ),
        "tables": (
            no_credentials(settings.table_url) if settings.table_url else str(settings.home_dir / "tables")
        ),
        "shards": (
            no_credentials(settings.shard_url) if settings.shard_url else str(settings.home_dir / "kb")
        ),
        "embedder": embedder,
        "dagster": str(settings.dagster_home),
        "reranker": settings.reranker.url or settings.reranker.torch.model or "",
        "llm": settings.llm.url or settings.llm.vllm_model or "",
        **{target.part: target.url(settings) or "" for target in CHAIN.targets.values()},
        "broker": "the broker that TABOOT_CELERY__BROKER names" if settings.executor == "celery" else "",
    }
    return {name: no_credentials(where) for name, where in parts.items() if where}
