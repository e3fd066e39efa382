"""chunks: documents cut along their structure, with exact offsets.

Holds rules ``offsets-carried`` and ``one-chunking``.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from taboot_pipelines.documents.chunking import Chunker
from taboot_pipelines.incremental import batches, difference, fingerprints, replace_keys
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import Chunk
from taboot_pipelines.model.tables import CHUNKS, rows_of
from taboot_pipelines.stages.stage import SourceWork

STAGE = "chunks"
#: Raised with every column that is added or filled otherwise: all rows, and what serves them, are made anew.
VERSION = "1"


def chunk_row(doc_id: str, chunk: Chunk, fingerprint: str) -> dict[str, Any]:
    """Return a row of ``tables.CHUNKS``; ``fingerprint`` is of all that the document's chunks follow from."""
    return {
        "bucket": ids.doc_bucket(doc_id),
        "chunk_id": ids.chunk_id(doc_id, chunk.index),
        "doc_id": doc_id,
        "chunk_index": chunk.index,
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "sha256": ids.sha256_hex(chunk.text),
        "tokens": chunk.tokens,
        "section": chunk.section,
        "content_type": chunk.content_type,
        "fingerprint": fingerprint,
    }


def run(work: SourceWork) -> None:
    """Chunk the documents whose text or type changed, or all of them if the chunking setting did."""
    workspace, report = work.workspace, work.report
    namespace, source_id = work.namespace, work.source_id
    tables = workspace.tables
    documents = work.upstream["documents"]
    chunker = Chunker(workspace.settings.chunking)
    # The first version is what earlier releases published.
    fingerprint = chunker.fingerprint if VERSION == "1" else ids.digest(chunker.fingerprint, VERSION)
    inputs = ids.digest(documents.tables, fingerprint)
    if work.unchanged(inputs):
        return
    upstream = documents.tables["documents"]
    applied = {"documents": upstream, "chunking": fingerprint}
    # None stands for all buckets.
    at = work.changed_buckets("documents", applied)
    listing = tables.read(
        namespace, source_id, "documents", upstream, columns=["doc_id", "text_sha256", "mime"], buckets=at
    )
    wanted = {
        d: ids.digest(sha, mime, fingerprint)
        for d, sha, mime in rows_of(listing, "doc_id", "text_sha256", "mime")
    }
    version = tables.version(namespace, source_id, STAGE)
    current = fingerprints(
        tables.read(namespace, source_id, STAGE, version, columns=["doc_id", "fingerprint"], buckets=at),
        "doc_id",
    )
    diff = difference(wanted, current)
    report.counts |= {
        "documents": len(diff.changed),
        "reused_documents": 0,
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
                rows += [chunk_row(doc_id, c, wanted[doc_id]) for c in chunker.chunk(text, mime)]
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
        work.progress(STAGE, done, len(diff.changed))
    work.publish(inputs, tables={STAGE: version}, applied=applied)
    report.counts["reused_documents"] = (
        tables.count(namespace, source_id, "documents", upstream) - report.counts["documents"]
    )
