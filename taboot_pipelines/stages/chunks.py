"""chunks: documents cut along their structure, with exact offsets (DESIGN rules 5 and 6)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from taboot_pipelines.documents.chunking import Chunker
from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import batches, difference, fingerprints, replace_keys
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import CHUNKS, rows_of
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog import Pointer

STAGE = "chunks"


def run(workspace: Workspace, entry: Entry, progress: Progress = no_progress) -> StageReport:
    """Chunk the documents whose text or type changed, or all of them if the chunking setting did."""
    namespace, source_id = entry.namespace, entry.source_id
    catalog, tables = workspace.catalog, workspace.tables
    with reporting(STAGE, source_id, namespace) as report, workspace.leases.source(namespace, source_id):
        documents = catalog.pointers.get(namespace, source_id, "documents")
        if documents is None:
            raise TabootError(
                "E_NOT_FOUND",
                f"Source {source_id} has no documents table yet.",
                remedy="Materialize documents first.",
            )
        chunker = Chunker(workspace.settings.chunking)
        inputs = ids.digest(documents.tables, chunker.fingerprint)
        report.data_version = inputs
        old = catalog.pointers.get(namespace, source_id, STAGE)
        if old is not None and old.inputs == inputs and tables.exist(namespace, source_id, old.tables):
            report.tables, report.skipped = dict(old.tables), "unchanged"
            return report
        if old is not None and not tables.exist(namespace, source_id, old.tables):
            workspace.forget_what_follows(namespace, source_id, STAGE)
        upstream = documents.tables["documents"]
        listing = tables.read(
            namespace, source_id, "documents", upstream, columns=["doc_id", "text_sha256", "mime"]
        )
        wanted = {
            d: ids.digest(sha, mime, chunker.fingerprint)
            for d, sha, mime in rows_of(listing, "doc_id", "text_sha256", "mime")
        }
        version = tables.version(namespace, source_id, STAGE)
        current = fingerprints(
            tables.read(namespace, source_id, STAGE, version, columns=["doc_id", "fingerprint"]), "doc_id"
        )
        diff = difference(wanted, current)
        report.counts |= {
            "documents": len(diff.changed),
            "reused_documents": len(wanted) - len(diff.changed),
            "removed_documents": len(diff.removed),
            "new": 0,
        }
        done = 0
        for buckets, changed, removed in batches(diff, workspace.settings.limits.batch_documents):
            texts = tables.read(
                namespace,
                source_id,
                "documents",
                upstream,
                columns=["doc_id", "text", "mime"],
                buckets=buckets,
            )
            todo = set(changed)
            rows: list[dict[str, Any]] = []
            for doc_id, text, mime in rows_of(texts, "doc_id", "text", "mime"):
                if doc_id in todo:
                    rows += [
                        {
                            "bucket": ids.doc_bucket(doc_id),
                            "chunk_id": ids.chunk_id(doc_id, c.index),
                            "doc_id": doc_id,
                            "chunk_index": c.index,
                            "start": c.start,
                            "end": c.end,
                            "text": c.text,
                            "sha256": ids.sha256_hex(c.text),
                            "tokens": c.tokens,
                            "section": c.section,
                            "content_type": c.content_type,
                            "fingerprint": wanted[doc_id],
                        }
                        for c in chunker.chunk(text, mime)
                    ]
            report.add("new", len(rows))
            version = replace_keys(
                tables,
                namespace,
                source_id,
                STAGE,
                version,
                key="doc_id",
                buckets=buckets,
                drop=[*changed, *removed],
                rows=pa.Table.from_pylist(rows, schema=CHUNKS),
                txn=inputs,
                order=("doc_id", "chunk_index"),
            )
            done += len(changed)
            progress(STAGE, done, len(diff.changed))
        catalog.pointers.publish(
            namespace,
            source_id,
            Pointer(
                stage=STAGE,
                tables={STAGE: version},
                inputs=inputs,
                txn=inputs,
                applied={"documents": upstream},
            ),
        )
        report.tables = {STAGE: version}
    return report
