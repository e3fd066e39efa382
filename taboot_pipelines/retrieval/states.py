"""How the sources are: what is published of each, its last job and its dead letters.

The catalog is read at each call, so that an ingest that goes on is to be seen; nothing is written to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from pydantic import Field

from taboot_pipelines import logs
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import expiring
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.results.base import Result, TableResult
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.session import Session, View
    from taboot_pipelines.stages.workspace import Workspace


# --- How the sources of a knowledge base are, and what of them failed


class Job(Result):
    """The last time that a source was fetched. The counts are of items: ``discovered`` is the sum of
    ``fetched``, ``not_modified``, ``skipped`` and ``failed``; ``held``: deletions that wait for a
    confirmation; ``code`` and ``message``: why it failed. None: not known yet.
    """

    state: str
    started_at: datetime
    ended_at: datetime | None = None
    complete: bool | None = None
    discovered: int | None = None
    fetched: int | None = None
    not_modified: int | None = None
    skipped: int | None = None
    failed: int | None = None
    removed: int | None = None
    held: int | None = None
    code: str = ""
    message: str = ""


class DeadLetter(Result):
    """An item (a path, or the id of a unit) that failed, or was passed by on purpose (``kind``)."""

    source: str
    stage: str
    item: str
    code: str
    message: str
    kind: str
    attempts: int
    first_at: datetime
    last_at: datetime


class SourceState(Result):
    """A source: ``documents``: how many of its are published; ``state``: ``active``, ``retiring`` or
    ``retired``, or empty where only a copy of the shards is at hand, which knows no jobs either.
    """

    id: str
    type: str
    tags: tuple[str, ...]
    root: str | None
    documents: int
    state: str = ""
    last_job: Job | None = None
    failed: int = 0
    skipped: int = 0


class Amount(Result):
    """How much there is of something that may be limited: ``bytes``, ``documents``, this month's
    ``questions``. ``limit`` None: as much as there is room."""

    what: str
    used: int
    limit: int | None


class SourceStates(TableResult):
    """All sources by id, and the dead letters by source, stage and item; what of the namespace's quotas is
    used, how many documents are in their last week of retention, and the notifications of the last 30 days by
    the state of their delivery. ``note``: why all but the sources is not known, if it is not.
    """

    sources: tuple[SourceState, ...]
    dead_letters: tuple[DeadLetter, ...] = ()
    quotas: tuple[Amount, ...] = ()
    expiring: int = 0
    deliveries: dict[str, int] = Field(default_factory=dict)
    note: str = ""

    def to_arrow(self) -> pa.Table:
        """One row a source."""
        schema = pa.schema(
            [
                *((n, pa.string()) for n in ("id", "type", "root", "state", "last_job")),
                ("last_job_at", pa.timestamp("us", "UTC")),
                *((n, pa.int64()) for n in ("documents", "failed", "skipped")),
            ]
        )
        rows = [
            {
                **s.model_dump(exclude={"last_job", "tags"}),
                "last_job": s.last_job.state if s.last_job else None,
                "last_job_at": s.last_job.started_at if s.last_job else None,
            }
            for s in self.sources
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        rows = [
            (
                s.id,
                s.type,
                s.state,
                f"{s.documents:,}",
                s.last_job.state if s.last_job else "never",
                f"{s.failed:,}",
            )
            for s in self.sources
        ]
        return rendering.table(
            f"{len(self.sources)} sources", ("source", "type", "state", "documents", "last job", "dead"), rows
        )


_COUNTS = ("discovered", "fetched", "not_modified", "skipped", "failed", "removed", "held")


def source_states(settings: Settings, namespace: str, session: Session) -> SourceStates:
    """See ``KnowledgeBase.sources``."""
    from taboot_pipelines.stages.health import catalog_exists

    published = session.ask(_published)
    if not catalog_exists(settings):
        return SourceStates(
            sources=tuple(published.values()),
            note=f"There is no catalog under {settings.home_dir}: jobs and dead letters stay with the home.",
        )
    from taboot_pipelines.stages.workspace import Workspace

    try:
        workspace = Workspace(settings)
        try:
            return _with_catalog(workspace, namespace, published)
        finally:
            workspace.close()
    except TabootError as error:
        # What is published can be read without the catalog, whatever is the matter with it.
        return SourceStates(sources=tuple(published.values()), note=str(logs.redacted(error, settings)))


def _published(view: View) -> dict[str, SourceState]:
    documents = Counter(view.graph.documents.column("source_id").to_pylist())
    return {
        id_: SourceState(id=id_, type=s.type, tags=s.tags, root=s.root, documents=documents[id_])
        for id_, s in sorted(view.manifest.sources.items())
    }


def _with_catalog(workspace: Workspace, namespace: str, published: Mapping[str, SourceState]) -> SourceStates:
    from taboot_pipelines.stages.quotas import usage

    catalog = workspace.catalog
    letters = [_letter(row) for row in catalog.dead_letters.find(namespace)]
    dead = Counter((letter.source, letter.kind) for letter in letters)
    rows = {r["source_id"]: r for r in catalog.sources.find(namespace, ("active", "retiring", "retired"))}
    found = []
    for id_ in sorted({*rows, *published}):
        row = rows.get(id_)
        # A source that has retired, and of which nothing is left, is history.
        if row is not None and row["state"] == "retired" and id_ not in published:
            continue
        known = published.get(id_) or SourceState(
            id=id_, type=row["type"] if row else "", tags=(), root=None, documents=0
        )
        job = next(iter(catalog.jobs.find(namespace, id_, limit=1)), None)
        found.append(
            known.model_copy(
                update={
                    "state": row["state"] if row else "",
                    "last_job": None if job is None else _job(job),
                    "failed": dead[id_, "failed"],
                    "skipped": dead[id_, "skipped"],
                }
            )
        )
    lives = catalog.locators.lifecycles(namespace)
    held = usage(workspace, namespace, lives).amounts()
    return SourceStates(
        sources=tuple(found),
        dead_letters=tuple(letters),
        quotas=tuple(Amount(what=what, used=used, limit=limit) for what, (used, limit) in held.items()),
        expiring=expiring(lives),
        deliveries=catalog.notifications.counts(namespace),
    )


def _letter(row: Mapping[str, Any]) -> DeadLetter:
    return DeadLetter(
        source=row["source_id"],
        **{n: row[n] for n in ("stage", "item", "code", "message", "kind", "attempts")},
        first_at=_moment(row["first_at"]),
        last_at=_moment(row["last_at"]),
    )


def _job(row: Mapping[str, Any]) -> Job:
    error = _error(row["error"])
    return Job(
        state=row["state"],
        started_at=_moment(row["started_at"]),
        ended_at=None if row["ended_at"] is None else _moment(row["ended_at"]),
        complete=row["complete"],
        **{n: row[n] for n in _COUNTS},
        code=str(error.get("code", "")),
        message=str(error.get("message", "")),
    )


def _error(stored: str | None) -> dict[str, Any]:
    """The error response that a job ended with; empty if it has none."""
    try:
        told = orjson.loads(stored) if stored else {}
    except orjson.JSONDecodeError:
        return {}
    error = told.get("error", told) if isinstance(told, dict) else {}
    return error if isinstance(error, dict) else {}


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1e6, UTC)
