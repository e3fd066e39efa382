"""How the sources of a knowledge base are, and what of them failed."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.results.base import Result, TableResult


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


class SourceStates(TableResult):
    """All sources by id, and the dead letters by source, stage and item. ``note``: why jobs and dead letters
    are not known, if they are not.
    """

    sources: tuple[SourceState, ...]
    dead_letters: tuple[DeadLetter, ...] = ()
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
