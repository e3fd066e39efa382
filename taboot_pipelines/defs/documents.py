"""Group documents: blobs as normalized Markdown, and their chunks."""

from collections.abc import Sequence

import dagster as dg

from taboot_pipelines.defs.assets import stage_asset
from taboot_pipelines.defs.checking import Looked, checked, looking, sources_of, verdict
from taboot_pipelines.defs.pools import INGEST
from taboot_pipelines.defs.published import read_published
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.documents.parse import PARSER_VERSION
from taboot_pipelines.model.ids import BUCKETS
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stages import documents as stage
from taboot_pipelines.stages.workspace import Workspace

GROUP = "documents"
#: Buckets read at once; bounds the memory of a check.
_TOGETHER = 8


documents = stage_asset(
    "documents",
    group=GROUP,
    pool=INGEST,
    kinds={"deltalake", "markdown"},
    code_version=f"{stage.VERSION}.{PARSER_VERSION}",
)


chunks = stage_asset(
    "chunks",
    group=GROUP,
    pool=INGEST,
    kinds={"deltalake", "python"},
)


@dg.asset_check(
    asset=chunks,
    blocking=True,
    additional_deps=[documents],
    description="document[start:end] is the chunk's text, in code points, for every chunk.",
)
def offsets_true(context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource) -> dg.AssetCheckResult:
    looked = Looked()
    tables = ("documents", "chunks")
    with checked(workspace, "chunks") as opened:
        for namespace, source_id in sources_of(context, opened):
            with looking(context, opened, namespace, source_id, "offsets_true", tables, looked) as scope:
                changed = scope.buckets(*tables)
                buckets = list(range(BUCKETS)) if changed is None else sorted(changed)
                for first in range(0, len(buckets), _TOGETHER):
                    _look(opened, namespace, source_id, buckets[first : first + _TOGETHER], looked)
    return verdict(looked)


def _look(workspace: Workspace, namespace: str, source_id: str, at: Sequence[int], looked: Looked) -> None:
    texts = read_published(
        workspace, namespace, source_id, "documents", columns=["doc_id", "text"], buckets=at
    )
    by_id = dict(rows_of(texts))
    found = read_published(
        workspace,
        namespace,
        source_id,
        "chunks",
        columns=["chunk_id", "doc_id", "start", "end", "text"],
        buckets=at,
    )
    looked.rows += found.num_rows
    for chunk_id, doc_id, start, end, text in rows_of(found):
        if by_id.get(doc_id, "")[start:end] != text or not text:
            looked.broken.append(chunk_id)


ASSETS = [documents, chunks]
CHECKS = [offsets_true]
