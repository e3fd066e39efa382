"""Turns the run of a stage into a Dagster materialization, errors and retries included.

Every asset goes through the same few lines.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import dagster as dg

from taboot_pipelines import logs
from taboot_pipelines.defs.metadata import error_metadata, metadata_of, shown_item, text_rows
from taboot_pipelines.defs.published import read_published
from taboot_pipelines.defs.resources import Runtime, WorkspaceResource
from taboot_pipelines.errors import TabootError, raised_at
from taboot_pipelines.model.ids import digest
from taboot_pipelines.stages import running
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.report import StageReport

_log = logging.getLogger(__name__)

#: Codes worth a retry in a moment; any other failure lasts until somebody acts. A server whose client
#: has its own retries (Qdrant, Neo4j, a chat model) is not among them: its retry queue and the next run
#: take care of it.
TRANSIENT = frozenset({"E_BUSY", "E_TIMEOUT", "E_NETWORK", "E_EMBEDDER", "E_STORAGE", "E_CATALOG", "E_REDIS"})
MAX_RETRIES = 2

OWNERS = ["team:taboot"]
#: Assets with a text column, and the columns that are shown where TABOOT_METADATA_TEXT allows it.
_TEXT_COLUMNS = {"documents": ["doc_id", "title", "text"], "chunks": ["chunk_id", "section", "text"]}


def materialize(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, **options: Any
) -> dg.MaterializeResult[Any]:
    """Run the asset's stage for the run's partitions.

    An expected failure becomes a ``Failure`` that carries its code.
    """
    stage = context.asset_key.path[-1]
    reports: list[StageReport] = []
    names = workspace.runtime.settings.metadata_text
    for source_id in context.partition_keys:
        with logs.bind(run=context.run.run_id, partition=source_id):
            done = run_reported(workspace.runtime, stage, source_id, attempt=context.retry_number, **options)
        reports += done
        for report in done:
            for problem in report.problems:
                context.log.warning(f"{problem['code']}: {shown_item(report, problem['item'], names)}")
            for held in report.held:
                context.log.warning(f"{held['code']}: {held['message']} {held.get('remedy', '')}")
    metadata = metadata_of(reports, names=names)
    if names and stage in _TEXT_COLUMNS:
        metadata["text"] = text_rows(_text(workspace, reports[0], _TEXT_COLUMNS[stage]))
    versions = [r.data_version for r in reports]
    version = (
        dg.DataVersion(versions[0] if len(versions) == 1 else digest(*versions)) if all(versions) else None
    )
    if CHAIN.stage(stage).tables:
        return dg.MaterializeResult(metadata=metadata, data_version=version, value=reports)
    # Without a table there is no value for an I/O manager to keep.
    return dg.MaterializeResult(metadata=metadata, data_version=version)


def run_reported(
    runtime: Runtime, stage: str, source_id: str, *, attempt: int = MAX_RETRIES, **options: Any
) -> list[StageReport]:
    """Run one stage of one source and tell the runtime's observers.

    Raises ``Failure``, or ``RetryRequested`` while ``attempt``, counted from 0, is not the last.
    """
    with failures(runtime, stage, attempt):
        reports = running.run_stage(runtime.workspace(), stage, source_id, runtime.progress, **options)
    for report in reports:
        _log_problems(report)
        if runtime.on_report is not None:
            runtime.on_report(report)
    return reports


def _log_problems(report: StageReport) -> None:
    with logs.bind(source=report.source_id, namespace=report.namespace, stage=report.stage):
        for problem in report.problems:
            # Named by id: a log outlives the erasure of a document, and the path of one may be telling, too.
            _log.warning(
                problem["code"], extra={"document": shown_item(report, problem["item"], names=False)}
            )
        for held in report.held:
            _log.warning(held["code"], extra={"deletions": held.get("deletions")})


@contextmanager
def failures(runtime: Runtime, stage: str, attempt: int = MAX_RETRIES) -> Iterator[None]:
    """Turn errors into Dagster's ``Failure``, with the error response as metadata.

    Retries are requested here and not by a ``RetryPolicy``, which would also retry after
    an interrupt (Ctrl-C).
    """
    try:
        yield
    except TabootError as caught:
        # Dagster stores what it is given, so secrets are taken out, and the server's own words behind the
        # error are left out.
        error = logs.redacted(caught, runtime.settings)
        if error.code in TRANSIENT and attempt < MAX_RETRIES:
            _log.warning(
                "stage is tried again",
                extra={"stage": stage, "code": error.code, "attempt": attempt + 1, "reason": error.message},
            )
            raise dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=2**attempt) from error
        fail(runtime, stage, error)
    # The message of a defect may quote a document, and Dagster would store it.
    except Exception as error:  # noqa: BLE001
        fail(
            runtime,
            stage,
            TabootError(
                "E_INTERNAL",
                f"The stage {stage} failed with {type(error).__name__}.",
                stage=stage,
                where=raised_at(error),
            ),
        )


def fail(runtime: Runtime, stage: str, error: TabootError) -> NoReturn:
    _log.error("stage failed", extra={"stage": stage, "code": error.code, "reason": error.message})
    if runtime.on_error is not None:
        runtime.on_error(stage, error)
    raise dg.Failure(description=str(error), metadata=error_metadata(error), allow_retries=False) from None


def _text(workspace: WorkspaceResource, report: StageReport, columns: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        read_published(workspace.open(), report.namespace, report.source_id, report.stage, columns=columns)
        .slice(0, 5)
        .to_pylist()
    )
    return rows
