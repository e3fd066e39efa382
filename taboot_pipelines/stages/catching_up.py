"""Brings a namespace up to date with its catalog after a change that no fetch made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from taboot_pipelines.embedding.remembered import UNANSWERED
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deriving import derive
from taboot_pipelines.stages.workspace import Workspace


@dataclass(frozen=True)
class Ran:
    """What the chain could not do: ``pending`` stores, and why a source could not be completed."""

    pending: dict[str, str]
    failure: TabootError | None


def run_chain_again(workspace: Workspace, namespace: str, sources: Collection[str]) -> Ran:
    """Run the stages that follow from a change of the catalog alone, without fetching anything: those of
    these sources, and those of the namespace.

    A server that does not answer, an embedder included, does not keep anything else from being done. It is
    returned as ``pending``, and the next run of the namespace brings it up to date.
    """
    pending: dict[str, str] = {}
    failure: TabootError | None = None
    try:
        derive(workspace, namespace, sources)
    except TabootError as error:
        if error.code not in UNANSWERED:
            raise
        failure = error
    for stage in CHAIN.of_namespace:
        try:
            stage.run(workspace, namespace, "")
        except TabootError as error:
            server_failed = stage.target is not None and error.code in stage.target.failures
            if stage.serving is None or not (server_failed or error.code in UNANSWERED):
                raise
            pending[stage.serving.store] = "pending"
    return Ran(pending, failure)
