"""Group knowledge: the observations of the deterministic tier, and the namespace's current truth."""

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.defs.assets import stage_asset
from taboot_pipelines.defs.checking import checked, namespaces_of, verdict
from taboot_pipelines.defs.pools import KNOWLEDGE
from taboot_pipelines.defs.published import read_published
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.knowledge.reducer import REDUCER_VERSION, resolve_key
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stages import entity_snapshots as snapshot_stage
from taboot_pipelines.stages import tier_a_triples as tier_a_stage

GROUP = "knowledge"


tier_a_triples = stage_asset(
    "tier_a_triples",
    group=GROUP,
    pool=KNOWLEDGE,
    kinds={"deltalake", "python"},
    code_version=tier_a_stage.VERSION,
)


entity_snapshots = stage_asset(
    "entity_snapshots",
    group=GROUP,
    pool=KNOWLEDGE,
    kinds={"deltalake", "python"},
    code_version=f"{snapshot_stage.VERSION}.{REDUCER_VERSION}",
)


@dg.asset_check(
    asset=entity_snapshots,
    blocking=True,
    description="Every entity is an end of some relation, after names are resolved.",
)
def no_orphan_node(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    rows, broken = 0, []
    with checked(workspace, "entity_snapshots") as opened:
        for namespace in namespaces_of(context, opened):
            names = read_published(
                opened, namespace, "", "entity_snapshots", "names", columns=["observed_key", "resolved_key"]
            )
            resolved = {k: v for k, v in rows_of(names) if v is not None}
            relations = read_published(
                opened,
                namespace,
                "",
                "entity_snapshots",
                "relations",
                columns=["start_label", "start_key", "end_label", "end_key"],
            )
            ends = {
                (label, resolve_key(label, key, resolved))
                for side in ("start", "end")
                for label, key in zip(
                    *(c.to_pylist() for c in _distinct(relations, [f"{side}_label", f"{side}_key"]).columns),
                    strict=True,
                )
            }
            entities = read_published(
                opened, namespace, "", "entity_snapshots", "entities", columns=["label", "key"]
            )
            rows += entities.num_rows
            broken += [f"{label} {key}" for label, key in rows_of(entities) if (label, key) not in ends]
    return verdict(rows, broken)


@dg.asset_check(
    asset=entity_snapshots,
    blocking=True,
    description="Every relation has a run and supporting spans, in a document that is live.",
)
def no_edge_without_support(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    rows, broken = 0, []
    with checked(workspace, "entity_snapshots") as opened:
        for namespace in namespaces_of(context, opened):
            live = (
                read_published(opened, namespace, "", "entity_snapshots", "doc_state", columns=["doc_id"])
                .column("doc_id")
                .combine_chunks()
            )
            found = read_published(
                opened,
                namespace,
                "",
                "entity_snapshots",
                "relations",
                columns=["doc_id", "type", "start_key", "end_key", "run_id", "blob_sha256", "supports"],
            )
            held = pc.is_in(found.column("doc_id"), value_set=live.cast(pa.string()))
            for name, empty in (("supports", "[]"), ("run_id", ""), ("blob_sha256", "")):
                held = pc.and_(held, pc.not_equal(found.column(name), empty))
            rows += found.num_rows
            bare = found.filter(pc.invert(held)).select(["doc_id", "type", "start_key", "end_key"])
            broken += [" ".join(row) for row in rows_of(bare)]
    return verdict(rows, broken)


def _distinct(table: pa.Table, columns: list[str]) -> pa.Table:
    return table.select(columns).group_by(columns).aggregate([])


ASSETS = [tier_a_triples, entity_snapshots]
CHECKS = [no_orphan_node, no_edge_without_support]
