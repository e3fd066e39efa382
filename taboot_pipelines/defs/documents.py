"""Group documents: blobs as normalized Markdown, their chunks, and where their hyperlinks lead."""

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
from taboot_pipelines.stages import links as links_stage
from taboot_pipelines.stages.broken_links import broken_links, lines_of
from taboot_pipelines.stages.workspace import Workspace

GROUP = "documents"
#: Buckets read at once; bounds the memory of a check.
_TOGETHER = 8
#: Broken links in the table of a check.
_SHOWN = 20


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


links = stage_asset(
    "links",
    group=GROUP,
    pool=INGEST,
    kinds={"deltalake", "python"},
    code_version=links_stage.VERSION,
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


@dg.asset_check(
    asset=links,
    additional_deps=[documents],
    description="Links within a source lead to something that is there.",
)
def no_broken_links(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    looked, asset, tables = Looked(), "links", ("documents", "links")
    shown: list[dg.TableRecord] = []
    with checked(workspace, asset) as opened:
        names = workspace.runtime.settings.metadata_text
        for namespace, source_id in sources_of(context, opened):
            with looking(context, opened, namespace, source_id, "no_broken_links", tables, looked) as scope:
                # A document that is gone breaks links of others: all of the source, or nothing.
                if scope.buckets(*tables) == frozenset():
                    continue
                (entry,) = (e for e in opened.entries_in(namespace, [source_id]))
                versions = scope.versions
                found = broken_links(opened, namespace, entry, versions["documents"], versions["links"])
                looked.rows += opened.tables.count(namespace, source_id, "links", versions["links"])
                looked.broken += [f"{link.doc_id}:{link.start}" for link in found]
                first = found[: _SHOWN - len(shown)]
                for link, line in lines_of(opened, namespace, source_id, versions["documents"], first):
                    # An erasure does not reach Dagster's storage, so names stand there only if they may.
                    document, target = (link.path, link.target) if names else (link.doc_id, "")
                    shown.append(dg.TableRecord({"document": document, "line": line or 0, "target": target}))
    result = verdict(looked, severity=dg.AssetCheckSeverity.WARN)
    table = {"links": dg.MetadataValue.table(shown)} if shown else {}
    return result._replace(metadata={**result.metadata, **table})


ASSETS = [documents, chunks, links]
CHECKS = [offsets_true, no_broken_links]
