"""Group knowledge: the observations of the tiers of extraction, and the namespace's current truth."""

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.defs.assets import stage_asset
from taboot_pipelines.defs.checking import Looked, checked, looking, namespaces_of, verdict
from taboot_pipelines.defs.pools import KNOWLEDGE, LLM
from taboot_pipelines.defs.published import read_published
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.extraction import tier_b, tier_c
from taboot_pipelines.knowledge.names import merges_of
from taboot_pipelines.knowledge.reducer import REDUCER_VERSION, resolve_key
from taboot_pipelines.model.tables import DECISIONS, rows_of
from taboot_pipelines.stages import entity_snapshots as snapshot_stage
from taboot_pipelines.stages import tier_a_triples as tier_a_stage
from taboot_pipelines.stages import tier_b_triples as tier_b_stage
from taboot_pipelines.stages import tier_c_triples as tier_c_stage
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE

GROUP = "knowledge"


tier_a_triples = stage_asset(
    "tier_a_triples",
    group=GROUP,
    pool=KNOWLEDGE,
    kinds={"deltalake", "python"},
    code_version=tier_a_stage.VERSION,
)


tier_b_triples = stage_asset(
    "tier_b_triples",
    group=GROUP,
    pool=KNOWLEDGE,
    kinds={"deltalake", "python"},
    code_version=f"{tier_b_stage.VERSION}.{tier_b.VERSION}.{tier_b.grammar_version()}",
)


tier_c_triples = stage_asset(
    "tier_c_triples",
    group=GROUP,
    pool=LLM,
    kinds={"deltalake", "python"},
    code_version=".".join(
        (tier_c_stage.VERSION, tier_c.WINDOWS_VERSION, tier_c.PROMPT_VERSION, tier_c.READING_VERSION)
    ),
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
    looked, asset = Looked(), "entity_snapshots"
    with checked(workspace, asset) as opened:
        for namespace in namespaces_of(context, opened):
            with looking(context, opened, namespace, NAMESPACE, "no_orphan_node", [asset], looked) as scope:
                entities = read_published(
                    opened,
                    namespace,
                    "",
                    asset,
                    "entities",
                    columns=["label", "key"],
                    buckets=scope.buckets("entities"),
                )
                looked.rows += entities.num_rows
                ends = _ends(opened, namespace, set(entities.column("key").to_pylist()))
                orphans = [node for node in rows_of(entities) if tuple(node) not in ends]
                looked.broken += [f"{label} {key}" for label, key in orphans]
    return verdict(looked)


def _ends(workspace: Workspace, namespace: str, keys: set[str]) -> set[tuple[str, str]]:
    """Return the (label, key) of the ends of relations that have, resolved, one of the keys."""
    names = read_published(
        workspace, namespace, "", "entity_snapshots", "names", columns=["observed_key", "resolved_key"]
    )
    resolved = {observed: key for observed, key in rows_of(names) if key is not None}
    decisions = read_published(
        workspace, namespace, "", "entity_snapshots", "decisions", columns=list(DECISIONS.names)
    )
    merges = merges_of(decisions)
    observed = keys | {key for (_, key), into in merges.items() if into.key in keys}
    observed |= {bare for bare, key in resolved.items() if key in observed}
    found: set[tuple[str, str]] = set()
    for side in ("start", "end"):
        columns = [f"{side}_label", f"{side}_key"]
        relations = read_published(
            workspace,
            namespace,
            "",
            "entity_snapshots",
            "relations",
            columns=columns,
            members=(f"{side}_key", sorted(observed)),
        )
        found |= {
            (label, resolve_key(label, key, resolved, merges))
            for label, key in rows_of(_distinct(relations, columns))
        }
    return found


@dg.asset_check(
    asset=entity_snapshots,
    blocking=True,
    description="Every relation has a run and supporting spans, in a document that is live.",
)
def no_edge_without_support(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    looked, asset, check = Looked(), "entity_snapshots", "no_edge_without_support"
    with checked(workspace, asset) as opened:
        for namespace in namespaces_of(context, opened):
            with looking(context, opened, namespace, NAMESPACE, check, [asset], looked) as scope:
                # A document's relations lie in its own bucket.
                at = scope.buckets("relations", "doc_state")
                live = read_published(
                    opened, namespace, "", asset, "doc_state", columns=["doc_id"], buckets=at
                )
                columns = ["doc_id", "type", "start_key", "end_key", "run_id", "blob_sha256", "supports"]
                found = read_published(opened, namespace, "", asset, "relations", columns=columns, buckets=at)
                held = pc.is_in(
                    found.column("doc_id"),
                    value_set=live.column("doc_id").combine_chunks().cast(pa.string()),
                )
                for name, empty in (("supports", "[]"), ("run_id", ""), ("blob_sha256", "")):
                    held = pc.and_(held, pc.not_equal(found.column(name), empty))
                looked.rows += found.num_rows
                bare = found.filter(pc.invert(held)).select(["doc_id", "type", "start_key", "end_key"])
                looked.broken += [" ".join(row) for row in rows_of(bare)]
    return verdict(looked)


def _distinct(table: pa.Table, columns: list[str]) -> pa.Table:
    return table.select(columns).group_by(columns).aggregate([])


ASSETS = [tier_a_triples, tier_b_triples, tier_c_triples, entity_snapshots]
CHECKS = [no_orphan_node, no_edge_without_support]
