"""The check of what is served for drift: statements that cannot both be so."""

import dagster as dg

from taboot_pipelines.defs.checking import checked, namespaces_of
from taboot_pipelines.defs.kb import kb_shards
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.results.drift import DriftItem

#: Drifts that a check shows.
_SHOWN = 20


@dg.asset_check(
    asset=kb_shards,
    blocking=False,
    description=(
        "Text and configuration, and configurations among themselves, agree on ports, images, addresses and"
        " upstreams; `taboot drift` shows what does not. Mails, chats and reports of a day are not counted."
    ),
)
def no_drift(context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource) -> dg.AssetCheckResult:
    from taboot_pipelines.retrieval import KnowledgeBase

    found: list[DriftItem] = []
    names = workspace.runtime.settings.metadata_text
    with checked(workspace, "kb_shards") as opened:
        for namespace in namespaces_of(context, opened):
            try:
                kb = KnowledgeBase.open(namespace=namespace, settings=opened.settings)
            except TabootError as error:
                if error.code != "E_KB_UNINITIALIZED":
                    raise
                continue
            found += [item for item in kb.drift().items if not item.record]
    metadata: dict[str, dg.MetadataValue] = {"drifts": dg.MetadataValue.int(len(found))}
    if found:
        metadata["edges"] = dg.MetadataValue.table(
            records=[dg.TableRecord(_row(item, names)) for item in found[:_SHOWN]],
        )
    return dg.AssetCheckResult(passed=not found, severity=dg.AssetCheckSeverity.WARN, metadata=metadata)


def _row(item: DriftItem, names: bool) -> dict[str, str]:
    """A drift by the ids of its edges: an erasure does not reach Dagster's storage, so names stand there only
    if they may."""
    edges = [side.edge_ids[0] for side in item.sides]
    row = {"kind": item.kind, "edge": edges[0], "against": edges[1] if len(edges) > 1 else ""}
    return {**row, "statement": item.statement} if names else row


CHECKS = [no_drift]
