"""Freshness: an asset check that warns of sources that were not read to their end in time.

Like ``readiness`` it belongs to ``raw_blobs`` and is no part of the chain's job: that a source is *not* read
is nothing that a run of it could find. A sensor asks every few minutes and reports any change without a run.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from taboot_pipelines.defs.assets import raw_blobs
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages.schedules import Coming, Overdue, coming, overdue

NAME = "sources_fresh"
_EVERY_SECONDS = 300
_SHOWN = 50


@dg.asset_check(
    asset=raw_blobs,
    name=NAME,
    description="Every source with a `schedule` was read to its end since it was due the time before last.",
)
def sources_fresh(workspace: WorkspaceResource) -> dg.AssetCheckResult:
    opened = workspace.open()
    now = _now()
    late = overdue(opened, now)
    return dg.AssetCheckResult(
        passed=not late, severity=dg.AssetCheckSeverity.WARN, metadata=_metadata(late, coming(opened, now))
    )


@dg.sensor(
    name="freshness",
    minimum_interval_seconds=_EVERY_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks which sources are overdue and reports to the check `sources_fresh` when that changed.",
)
def freshness_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    opened = workspace.open()
    now = _now()
    late, next_ones = overdue(opened, now), coming(opened, now)
    seen = ",".join(found.source_id for found in late) or "none"
    evaluation = dg.AssetCheckEvaluation(
        asset_key=raw_blobs.key,
        check_name=NAME,
        passed=not late,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=_metadata(late, next_ones),
    )
    then = f" Next: {next_ones[0].source_id} at {next_ones[0].at:%Y-%m-%d %H:%M} UTC." if next_ones else ""
    return dg.SensorResult(
        cursor=seen,
        asset_events=[] if context.cursor == seen else [evaluation],
        skip_reason=dg.SkipReason((f"Overdue: {seen}." if late else "No source is overdue.") + then),
    )


def _metadata(late: Sequence[Overdue], next_ones: Sequence[Coming]) -> dict[str, dg.MetadataValue]:
    metadata: dict[str, dg.MetadataValue] = {"scheduled": dg.MetadataValue.int(len(next_ones))}
    if next_ones:
        metadata["due next"] = dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {
                        "source": found.source_id,
                        "namespace": found.namespace,
                        "schedule": found.schedule,
                        "due": found.at.isoformat(),
                    }
                )
                for found in next_ones[:_SHOWN]
            ]
        )
    if late:
        rows = [
            dg.TableRecord(
                {
                    "source": found.source_id,
                    "namespace": found.namespace,
                    "schedule": found.schedule,
                    "due since": found.since.isoformat(),
                    "read to its end": "" if found.completed is None else found.completed.isoformat(),
                }
            )
            for found in late[:_SHOWN]
        ]
        metadata["overdue"] = dg.MetadataValue.table(rows)
        metadata["remedy"] = dg.MetadataValue.text(
            "Look at the source's last runs; a run that was not complete says in `problems` why."
        )
    return metadata


def _now() -> datetime:
    return datetime.now(UTC)


CHECKS = [sources_fresh]
SENSORS = [freshness_sensor]
