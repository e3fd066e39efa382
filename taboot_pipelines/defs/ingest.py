"""Group ingest: the bytes that a connector fetched."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from taboot_pipelines.defs.checking import checked, sources_of
from taboot_pipelines.defs.materialize import OWNERS, materialize
from taboot_pipelines.defs.partitions import BACKFILL, sources_partitions
from taboot_pipelines.defs.pools import INGEST
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages.chain import CHAIN

GROUP = "ingest"


class FetchConfig(dg.Config):
    """What a person may decide for one run."""

    confirm_deletes: bool = Field(False, description="Carry out deletions that were held as E_MASS_DELETE.")


@dg.asset(
    group_name=GROUP,
    partitions_def=sources_partitions,
    pool=INGEST,
    kinds={"python", "sqlite"},
    owners=OWNERS,
    code_version="1",
    description=CHAIN.first.holds,
    backfill_policy=BACKFILL,
)
def raw_blobs(
    context: dg.AssetExecutionContext, config: FetchConfig, workspace: WorkspaceResource
) -> Iterator[Any]:
    yield from materialize(context, workspace, confirm_deletes=config.confirm_deletes)


@dg.asset_check(
    asset=raw_blobs,
    description="discovered = fetched + not modified + skipped + failed, for the last fetch.",
)
def ledger_adds_up(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    with checked(workspace, "raw_blobs") as opened:
        wrong = []
        for namespace, source_id in sources_of(context, opened):
            job = next(
                (
                    j
                    for j in opened.catalog.jobs.find(namespace, source_id, limit=5)
                    if j["state"] == "succeeded"
                ),
                None,
            )
            if job is not None and job["discovered"] != sum(
                job[k] for k in ("fetched", "not_modified", "skipped", "failed")
            ):
                wrong.append(
                    {
                        "source": source_id,
                        **{
                            k: job[k]
                            for k in ("job_id", "discovered", "fetched", "not_modified", "skipped", "failed")
                        },
                    }
                )
    return dg.AssetCheckResult(passed=not wrong, metadata={"wrong": dg.MetadataValue.json(wrong)})


@dg.asset_check(
    asset=raw_blobs,
    description="No deletions wait for a person (E_MASS_DELETE). Adds and edits went on.",
)
def no_deletes_held(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    with checked(workspace, "raw_blobs") as opened:
        held = {}
        for namespace, source_id in sources_of(context, opened):
            job = next(iter(opened.catalog.jobs.find(namespace, source_id, limit=1)), None)
            if job is not None and job["held"]:
                held[source_id] = job["held"]
    remedy = (
        {
            "remedy": (
                f"Look at what would go, then run `taboot ingest {' '.join(sorted(held))} --confirm-deletes`"
                " if it is right."
            )
        }
        if held
        else {}
    )
    return dg.AssetCheckResult(
        passed=not held,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"code": "E_MASS_DELETE", "held": dg.MetadataValue.json(held), **remedy} if held else {},
    )


ASSETS = [raw_blobs]
CHECKS = [ledger_adds_up, no_deletes_held]
