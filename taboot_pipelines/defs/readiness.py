"""Readiness: an asset check that asks whether every configured part answers.

It belongs to ``raw_blobs``, where every chain begins. The check is not part of the chain's job: a run finds
out by itself what is down, and most runs take less time than the question. A sensor asks every few minutes
and reports any change without a run; a person may run the check from the UI.
"""

import dagster as dg

from taboot_pipelines.defs.assets import raw_blobs
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.model.health import Health
from taboot_pipelines.settings import Unknown, unknown_variables
from taboot_pipelines.stages import health

NAME = "readiness"
_EVERY_SECONDS = 300


@dg.asset_check(
    asset=raw_blobs,
    name=NAME,
    description=(
        "Every configured part answers, and every variable TABOOT_… is a setting; names each part with its"
        " version, its latency and what is wrong."
    ),
)
def readiness(workspace: WorkspaceResource) -> dg.AssetCheckResult:
    settings = workspace.runtime.settings
    found, unknown = health.check(settings), unknown_variables(settings.sources_file)
    return dg.AssetCheckResult(
        passed=_well(found) and not unknown, severity=_severity(found), metadata=_metadata(found, unknown)
    )


@dg.sensor(
    name="parts",
    minimum_interval_seconds=_EVERY_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Asks every configured part and reports to the check `readiness` when what is wrong has changed."
    ),
)
def parts_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    # The bundled model is not loaded, since it would stay in the memory of the code server.
    settings = workspace.runtime.settings
    found, unknown = health.check(settings, load=False), unknown_variables(settings.sources_file)
    wrong = ", ".join([*(h.part for h in found if not h.ok), *(u.variable for u in unknown)])
    # The parts and whether they are well; not their latencies, which always differ.
    seen = ";".join(
        [*(f"{h.part}={h.backend}:{h.version}:{h.ok}" for h in found), *(u.variable for u in unknown)]
    )
    events = (
        []
        if context.cursor == seen
        else [
            dg.AssetCheckEvaluation(
                asset_key=raw_blobs.key,
                check_name=NAME,
                passed=_well(found) and not unknown,
                severity=_severity(found),
                metadata=_metadata(found, unknown),
            )
        ]
    )
    return dg.SensorResult(
        cursor=seen,
        asset_events=events,
        skip_reason=dg.SkipReason(f"Not well: {wrong}." if wrong else "All parts are well."),
    )


def _well(found: list[Health]) -> bool:
    return all(h.ok for h in found)


def _severity(found: list[Health]) -> dg.AssetCheckSeverity:
    """Return ERROR if the chain cannot go on, WARN if something is left out until a part is back."""
    needed = any(not h.ok and h.part in health.NEEDED for h in found)
    return dg.AssetCheckSeverity.ERROR if needed else dg.AssetCheckSeverity.WARN


def _metadata(found: list[Health], unknown: list[Unknown]) -> dict[str, dg.MetadataValue]:
    rows = [
        dg.TableRecord(
            {
                "part": h.part,
                "backend": h.backend,
                "state": "well" if h.ok else "unwell",
                "version": h.version or "",
                "latency (ms)": "" if h.latency_ms is None else f"{h.latency_ms:.1f}",
                "what is wrong": h.message,
            }
        )
        for h in found
    ]
    return {
        "parts": dg.MetadataValue.table(rows),
        **{h.part: dg.MetadataValue.text(h.message) for h in found if not h.ok},
        **{u.variable: dg.MetadataValue.text(u.message) for u in unknown},
    }


CHECKS = [readiness]
SENSORS = [parts_sensor]
