"""links: where each document's hyperlinks lead, as they were observed.

What they mean, given all documents, is for readers to say: a document's rows depend on nothing else (rules
``bounded-rewrite`` and ``incremental-equals-scratch``). The titles of others that stand in a document are
found where the titles are known, by ``entity_snapshots``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from taboot_pipelines.documents.links import LINKS_VERSION, Hyperlink, page_links, read_from_blob, text_links
from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import batches, difference, replace_keys
from taboot_pipelines.knowledge.link_targets import TARGETS_VERSION, Observed, observed, origin_of
from taboot_pipelines.model import ids
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.tables import LINKS, rows_of
from taboot_pipelines.stages.stage import SourceWork

STAGE = "links"
VERSION = f"1.{LINKS_VERSION}.{TARGETS_VERSION}"
_COLUMNS = (
    "doc_id",
    "source_id",
    "path",
    "url",
    "metadata",
    "mime",
    "charset",
    "blob_sha256",
    "offsets",
    "text",
)


def run(work: SourceWork) -> None:
    """Read the links of the documents that changed.

    A page whose blob cannot be read has none until it can; every run tries again.
    """
    workspace, report = work.workspace, work.report
    namespace, source_id, tables = work.namespace, work.source_id, work.workspace.tables
    documents = work.upstream["documents"]
    inputs = ids.digest(documents.tables, VERSION)
    if work.unchanged(inputs):
        return
    upstream = documents.tables["documents"]
    applied = {"documents": upstream, "settings": VERSION}
    whole = work.old is not None and work.old.inputs == work.old.txn
    at = work.changed_buckets("documents", applied) if whole else None
    listing = tables.read(
        namespace, source_id, "documents", upstream, columns=["doc_id", "fingerprint"], buckets=at
    )
    wanted = {d: ids.digest(f, VERSION) for d, f in rows_of(listing, "doc_id", "fingerprint")}
    version = tables.version(namespace, source_id, STAGE)
    held = tables.read(namespace, source_id, STAGE, version, columns=["doc_id", "fingerprint"], buckets=at)
    # A document without links has no row, and is read again when its bucket changed.
    diff = difference(wanted, dict(rows_of(held)))
    report.counts |= {"documents": len(diff.changed), "new": 0, "removed_documents": len(diff.removed)}
    done, unread = 0, False
    for buckets, changed, removed in batches(diff, workspace.settings.limits.batch_documents):
        texts = tables.read(
            namespace,
            source_id,
            "documents",
            upstream,
            columns=_COLUMNS,
            buckets=buckets,
            members=("doc_id", changed),
        )
        rows: list[dict[str, Any]] = []
        for document in texts.to_pylist():
            try:
                found = _links(work, document)
            except TabootError as error:
                report.problem(error.code, document["path"], error.message)
                unread = True
                continue
            rows += _rows(document, found, wanted[document["doc_id"]])
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
            rows=pa.Table.from_pylist(rows, schema=LINKS),
            txn=inputs,
            order=("doc_id", "start", "kind", "target", "fragment"),
        )
        done += len(changed)
        work.progress(STAGE, done, len(diff.changed))
    own = ids.digest(inputs, "incomplete") if unread else inputs
    work.publish(own, tables={STAGE: version}, applied=applied, txn=inputs)


def _links(work: SourceWork, document: Mapping[str, Any]) -> list[Hyperlink]:
    if not read_from_blob(document["mime"]):
        return text_links(document["text"], document["mime"])
    data = work.workspace.blobs.get(work.namespace, document["blob_sha256"])
    return page_links(data, document["charset"], OffsetMap.loads(document["offsets"]))


def _rows(document: Mapping[str, Any], found: list[Hyperlink], fingerprint: str) -> list[dict[str, Any]]:
    """Return rows of ``tables.LINKS``: each target once, with its first place and how often it is there."""
    origin = origin_of(document)
    first: dict[Observed | tuple[str, Observed], dict[str, Any]] = {}
    for link in found:
        target = observed(link, origin)
        if target is None:
            continue
        declared = link.kind == "anchor"
        row = first.get((link.kind, target) if declared else target)
        if row is not None:
            row["count"] += 1
            continue
        first[(link.kind, target) if declared else target] = {
            "bucket": ids.doc_bucket(document["doc_id"]),
            "doc_id": document["doc_id"],
            "kind": "declared" if declared else target.kind,
            "target": target.target,
            "page": target.page,
            "fragment": target.fragment,
            "text": link.text,
            "start": link.start,
            "end": link.end,
            "count": 1,
            "fingerprint": fingerprint,
        }
    return list(first.values())
