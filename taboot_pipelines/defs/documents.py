"""Group documents: blobs as normalized Markdown, their chunks, and where their hyperlinks lead."""

from collections.abc import Iterator, Sequence

import dagster as dg

from taboot_pipelines.defs.assets import stage_asset
from taboot_pipelines.defs.checking import Looked, checked, looking, parts_of, sources_of, verdict
from taboot_pipelines.defs.pools import INGEST
from taboot_pipelines.defs.published import read_published
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.documents.parse import PARSER_VERSION
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stages import documents as stage
from taboot_pipelines.stages import links as links_stage
from taboot_pipelines.stages.links import broken_links, lines_of
from taboot_pipelines.stages.workspace import Workspace

GROUP = "documents"
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


@dg.multi_asset_check(
    # One step for both: each step of a run costs its events, and both read the documents' texts.
    name="text_checks",
    specs=[
        dg.AssetCheckSpec(
            "lead_to_blobs",
            asset=documents,
            description="Each document's text is as it was parsed, from a blob that the catalog knows.",
        ),
        dg.AssetCheckSpec(
            "offsets_true",
            asset=chunks,
            blocking=True,
            additional_deps=[documents],
            description="document[start:end] is the chunk's text, in code points, for every chunk.",
        ),
    ],
    can_subset=True,
)
def text_checks(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    looks = {"documents": _look_at_documents, "chunks": _look_at_chunks}
    wanted = sorted(context.selected_asset_check_keys, key=lambda key: key.name)
    for check in wanted:
        looked, asset = Looked(), check.asset_key.path[-1]
        tables = ("documents",) if asset == "documents" else ("documents", "chunks")
        with checked(workspace, asset) as opened:
            for namespace, source_id in sources_of(context, opened):
                with looking(context, opened, namespace, source_id, check.name, tables, looked) as scope:
                    for at in parts_of(scope, *tables):
                        looks[asset](opened, namespace, source_id, at, looked)
        yield verdict(looked)._replace(asset_key=check.asset_key, check_name=check.name)


def _look_at_documents(
    workspace: Workspace, namespace: str, source_id: str, at: Sequence[int], looked: Looked
) -> None:
    columns = ["doc_id", "text", "text_sha256", "blob_sha256"]
    found = read_published(workspace, namespace, source_id, "documents", columns=columns, buckets=at)
    looked.rows += found.num_rows
    known = workspace.catalog.blobs.hashes(namespace, set(found.column("blob_sha256").to_pylist()))
    for doc_id, text, text_sha256, blob_sha256 in rows_of(found):
        if sha256_hex(text) != text_sha256 or blob_sha256 not in known:
            looked.broken.append(doc_id)


def _look_at_chunks(
    workspace: Workspace, namespace: str, source_id: str, at: Sequence[int], looked: Looked
) -> None:
    texts = read_published(
        workspace, namespace, source_id, "documents", columns=["doc_id", "text"], buckets=at
    )
    by_id = dict(rows_of(texts))
    columns = ["chunk_id", "doc_id", "start", "end", "text"]
    found = read_published(workspace, namespace, source_id, "chunks", columns=columns, buckets=at)
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
CHECKS = [text_checks, no_broken_links]
