"""When sources are due by their ``schedule`` (cron, UTC), and which of them are overdue.

The freshness policy of a source is its schedule: by the time it is due, it has been read to its end since it
was due the time before. Dagster's own freshness policies are about whole assets, of which a source is one
partition, so they cannot say this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from taboot_pipelines.stages.workspace import Workspace, is_paused


@dataclass(frozen=True, slots=True)
class Overdue:
    """A source that should have been read to its end since ``since``; ``completed`` is when that was last."""

    namespace: str
    source_id: str
    schedule: str
    since: datetime
    completed: datetime | None


def schedules(workspace: Workspace) -> dict[str, str]:
    """Return {source id: cron expression} of the sources that have one."""
    return {source_id: schedule for _, source_id, schedule, _ in _scheduled(workspace)}


def last_fires(schedule: str, now: datetime) -> tuple[datetime, datetime]:
    """The last time at which a schedule was due, and the time before that."""
    from croniter import croniter

    fires = croniter(schedule, now)
    last: datetime = fires.get_prev(datetime)
    before: datetime = fires.get_prev(datetime)
    return last, before


@dataclass(frozen=True, slots=True)
class Coming:
    """When a source is due next."""

    namespace: str
    source_id: str
    schedule: str
    at: datetime


def coming(workspace: Workspace, now: datetime) -> list[Coming]:
    """Return when each source with a schedule is due next, the first to come first."""
    from croniter import croniter

    found = [
        Coming(namespace, source_id, schedule, croniter(schedule, now).get_next(datetime))
        for namespace, source_id, schedule, _ in _scheduled(workspace)
    ]
    return sorted(found, key=lambda c: (c.at, c.source_id))


def overdue(workspace: Workspace, now: datetime) -> list[Overdue]:
    """The sources that break their freshness policy, by id.

    One that was declared or changed since it was due the time before is not judged yet.
    """
    found = []
    for namespace, source_id, schedule, updated_at in sorted(_scheduled(workspace)):
        _, since = last_fires(schedule, now)
        if updated_at > since:
            continue
        job = workspace.catalog.jobs.last_completed(namespace, source_id)
        completed = None if job is None else _time(job["started_at"])
        if completed is None or completed < since:
            found.append(Overdue(namespace, source_id, schedule, since, completed))
    return found


def _scheduled(workspace: Workspace) -> Iterator[tuple[str, str, str, datetime]]:
    for row in workspace.catalog.sources.find(states=("active",)):
        schedule = orjson.loads(row["config"]).get("schedule")
        if schedule and not is_paused(row):
            yield row["namespace"], row["source_id"], schedule, _time(row["updated_at"])


def _time(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1e6, UTC)
