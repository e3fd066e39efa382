"""Jobs by which a person interprets documents once more, makes what came of it active, or takes that back.

None is tried again by itself: another try of a rollback would take back the promotion before.
"""

from typing import Any

import dagster as dg
from pydantic import Field

from taboot_pipelines.defs.materialize import failures
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages import reinterpretation
from taboot_pipelines.stages.reinterpretation import reinterpret


class ReinterpretConfig(dg.Config):
    """What to interpret once more, and how."""

    tier: str = Field(description="A, B or C.")
    source: str | None = Field(None, description="All of a source; or else `docs`.")
    docs: list[str] = Field(default_factory=list, description="Some documents, by doc_id.")
    config: dict[str, Any] = Field(
        default_factory=dict, description="Settings of the tier that are otherwise than configured."
    )
    promote: bool = Field(False, description="Make the new runs active at once.")
    namespace: str | None = Field(None, description="The tenant; default: TABOOT_NAMESPACE.")


class PromoteConfig(dg.Config):
    """Which runs are meant: some, or those of a source and tier."""

    runs: list[str] = Field(default_factory=list, description="Runs, by id.")
    source: str | None = Field(None, description="Of a source and a tier, instead of `runs`.")
    tier: str | None = Field(None, description="A, B or C.")
    namespace: str | None = Field(None, description="The tenant; default: TABOOT_NAMESPACE.")


class RollbackConfig(PromoteConfig):
    """Which promotion is meant: that of some runs, the last one of a source and tier, or one by its id."""

    promotion: str | None = Field(None, description="A promotion, by its id.")


@dg.op(out=dg.Out(dg.Nothing), description="Units are interpreted once more; what comes of it waits.")
def reinterpret_units(config: ReinterpretConfig, workspace: WorkspaceResource) -> dg.Output[None]:
    opened = workspace.open()
    namespace = config.namespace or opened.settings.namespace
    with failures(workspace.runtime, "reinterpret"):
        made = reinterpret(
            opened,
            namespace,
            tier=config.tier,
            source=config.source,
            docs=config.docs or None,
            config=config.config,
        )
        metadata: dict[str, Any] = {
            "runs": len(made.run_ids),
            "failed": len(made.failed),
            "run_ids": dg.MetadataValue.json(list(made.run_ids[:100])),
        }
        if config.promote and made.run_ids:
            promoted = reinterpretation.promote(opened, namespace, runs=made.run_ids)
            metadata |= _of_promotion(promoted.promotion, promoted.run_ids, promoted.pending)
    return dg.Output(None, metadata=metadata)


@dg.op(out=dg.Out(dg.Nothing), description="Runs are made active, without reading or asking a model.")
def promote_candidates(config: PromoteConfig, workspace: WorkspaceResource) -> dg.Output[None]:
    opened = workspace.open()
    with failures(workspace.runtime, "promote"):
        done = reinterpretation.promote(
            opened,
            config.namespace or opened.settings.namespace,
            runs=config.runs,
            source=config.source,
            tier=config.tier,
        )
    metadata = _of_promotion(done.promotion, done.run_ids, done.pending)
    return dg.Output(None, metadata={**metadata, "lapsed": len(done.lapsed)})


@dg.op(out=dg.Out(dg.Nothing), description="A promotion is taken back; what was active before is so again.")
def take_back(config: RollbackConfig, workspace: WorkspaceResource) -> dg.Output[None]:
    opened = workspace.open()
    with failures(workspace.runtime, "rollback"):
        done = reinterpretation.rollback(
            opened,
            config.namespace or opened.settings.namespace,
            promotion=config.promotion,
            runs=config.runs,
            source=config.source,
            tier=config.tier,
        )
    return dg.Output(
        None,
        metadata={
            "archived": len(done.run_ids),
            "active": len(done.active),
            "pending": ", ".join(done.pending),
        },
    )


def _of_promotion(promotion_id: str, runs: tuple[str, ...], pending: tuple[str, ...]) -> dict[str, Any]:
    return {"promotion": promotion_id, "promoted": len(runs), "pending": ", ".join(pending)}


@dg.job(
    name="reinterpret",
    description="Interprets documents, or all of a source, once more by a tier.",
    executor_def=dg.in_process_executor,
)
def reinterpret_job() -> None:
    reinterpret_units()


@dg.job(
    name="promote_runs",
    description="Makes interpretation runs active: some, or all that wait of a source and tier.",
    executor_def=dg.in_process_executor,
)
def promote_job() -> None:
    promote_candidates()


@dg.job(
    name="rollback_runs",
    description="Takes a promotion of interpretation runs back.",
    executor_def=dg.in_process_executor,
)
def rollback_job() -> None:
    take_back()


JOBS = [reinterpret_job, promote_job, rollback_job]
