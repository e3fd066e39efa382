"""Group documents: blobs as normalized Markdown, and their chunks."""

import dagster as dg

from taboot_pipelines.defs.assets import stage_asset
from taboot_pipelines.defs.checking import checked, sources_of, verdict
from taboot_pipelines.defs.pools import INGEST
from taboot_pipelines.defs.published import read_published
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.documents.parse import PARSER_VERSION
from taboot_pipelines.model.ids import BUCKETS
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stages import documents as stage

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
    rows, broken = 0, []
    with checked(workspace, "chunks") as opened:
        for namespace, source_id in sources_of(context, opened):
            for first in range(0, BUCKETS, _TOGETHER):
                at = range(first, first + _TOGETHER)
                texts = read_published(
                    opened, namespace, source_id, "documents", columns=["doc_id", "text"], buckets=at
                )
                by_id = dict(rows_of(texts))
                found = read_published(
                    opened,
                    namespace,
                    source_id,
                    "chunks",
                    columns=["chunk_id", "doc_id", "start", "end", "text"],
                    buckets=at,
                )
                rows += found.num_rows
                for chunk_id, doc_id, start, end, text in rows_of(found):
                    if by_id.get(doc_id, "")[start:end] != text or not text:
                        broken.append(chunk_id)
    return verdict(rows, broken)


ASSETS = [documents, chunks]
CHECKS = [offsets_true]
