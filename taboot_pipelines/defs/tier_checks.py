"""Checks of the tiers of extraction: what they observed stands in the documents that they quote."""

from collections.abc import Iterator, Sequence

import dagster as dg
import pyarrow.compute as pc

from taboot_pipelines.defs.checking import Looked, checked, looking, parts_of, sources_of, verdict
from taboot_pipelines.defs.published import read_published
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.workspace import Workspace

NAME = "quotes_stand"
TIERS = tuple(stage.name for stage in CHAIN.stages if stage.observes)
_COLUMNS = [
    "doc_id",
    "unit_id",
    "type",
    "start_name",
    "start_basis",
    "end_name",
    "end_basis",
    "span_start",
    "span_end",
    "blob_sha256",
]


@dg.multi_asset_check(
    # One step for all tiers: each step of a run costs its events.
    name="tier_checks",
    specs=[
        dg.AssetCheckSpec(
            NAME,
            asset=tier,
            description=(
                "Every observation quotes its document as it is now, and the quote holds the names taken from"
                " it."
            ),
        )
        for tier in TIERS
    ],
    can_subset=True,
)
def tier_checks(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    wanted = {key.asset_key.path[-1] for key in context.selected_asset_check_keys}
    for tier in TIERS:
        if tier not in wanted:
            continue
        looked, tables = Looked(), (*(t.name for t in CHAIN.stage(tier).tables), "documents")
        with checked(workspace, tier) as opened:
            for namespace, source_id in sources_of(context, opened):
                assets, check = (tier, "documents"), f"{NAME}.{tier}"
                with looking(context, opened, namespace, source_id, check, assets, looked) as scope:
                    for at in parts_of(scope, *tables):
                        _look(opened, namespace, source_id, tier, at, looked)
        yield verdict(looked)._replace(asset_key=dg.AssetKey(tier), check_name=NAME)


def _look(
    workspace: Workspace, namespace: str, source_id: str, tier: str, at: Sequence[int], looked: Looked
) -> None:
    """Look at the observations in some buckets; those of a project quote documents of other buckets, too."""
    found = read_published(workspace, namespace, source_id, tier, columns=_COLUMNS, buckets=at)
    if not found.num_rows:
        return
    looked.rows += found.num_rows
    quoted = set(pc.unique(found.column("doc_id")).to_pylist())
    texts = read_published(
        workspace,
        namespace,
        source_id,
        "documents",
        columns=["doc_id", "text", "blob_sha256"],
        buckets=sorted({ids.doc_bucket(doc_id) for doc_id in quoted}),
    )
    known = {doc_id: (text, blob) for doc_id, text, blob in rows_of(texts) if doc_id in quoted}
    for doc_id, unit, type_, start, start_basis, end, end_basis, first, last, blob in rows_of(found):
        text, blob_now = known.get(doc_id, ("", ""))
        quote = text[first:last]
        ends = ((start, start_basis), (end, end_basis))
        written = all(name in quote for name, basis in ends if basis == Basis.BYTES)
        if blob != blob_now or not quote or not written:
            looked.broken.append(f"{unit} {type_} {first}:{last}")


CHECKS = [tier_checks]
