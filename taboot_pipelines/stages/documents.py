"""documents: blobs parsed to normalized Markdown, with a map back to their bytes.

Holds rules ``offsets-carried`` and ``secrets-stop-at-the-blob``.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from taboot_pipelines.documents.parse import PARSER_VERSION, parse_document
from taboot_pipelines.documents.secrets import MASK_VERSION
from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import batches, difference, fingerprints, replace_keys
from taboot_pipelines.model import ids
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.tables import DOCUMENTS
from taboot_pipelines.stages.stage import SourceWork
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.blobs import UNREADABLE
from taboot_pipelines.stores.catalog import Locator

STAGE = "documents"
VERSION = "1"
#: The versions of everything that decides how bytes become a document; trafilatura chooses the main
#: content of HTML.
PARSING = f"{VERSION}.{PARSER_VERSION}.{MASK_VERSION}.{version('trafilatura')}"
#: Intended rejections: recorded with their reason, and not counted as failures.
_REJECTIONS = frozenset({"E_EMPTY", "E_LANGUAGE"})


def run(work: SourceWork) -> None:
    """Parse the blobs that changed.

    A bad blob becomes a dead letter and never fails its batch (rule ``nothing-lost-silently``).
    """
    workspace, entry, report = work.workspace, work.entry, work.report
    namespace, source_id = work.namespace, work.source_id
    catalog, tables = workspace.catalog, workspace.tables
    settings = (
        PARSING,
        entry.config.languages,
        entry.config.type,
        workspace.settings.limits.max_document_chars,
    )
    inputs = ids.digest(work.upstream["raw_blobs"].inputs, *settings)
    letters = {d["item"]: d for d in catalog.dead_letters.find(namespace, source_id, STAGE)}
    # A blob that could not be read is tried again, whether or not anything changed.
    transient = any(d["code"] in UNREADABLE for d in letters.values())
    if not transient and work.unchanged(inputs):
        report.counts["failed"] = sum(d["kind"] == "failed" for d in letters.values())
        return
    report.data_version = inputs

    locators = {
        x.doc_id: x for x in catalog.locators.of_source(namespace, source_id).values() if x.role == "document"
    }
    table_version = tables.version(namespace, source_id, STAGE)
    current = fingerprints(
        tables.read(namespace, source_id, STAGE, table_version, columns=["doc_id", "fingerprint"]), "doc_id"
    )
    wanted = {d: _fingerprint(x, settings) for d, x in locators.items()}
    known_bad = {
        d
        for d, x in locators.items()
        if (letter := letters.get(x.path))
        and letter["fingerprint"] == wanted[d]
        and letter["code"] not in UNREADABLE
    }
    diff = difference({d: f for d, f in wanted.items() if d not in known_bad}, current)
    report.counts |= {
        "new": 0,
        "reused": len(wanted) - len(known_bad) - len(diff.changed),
        "removed": len(diff.removed),
        "failed": 0,
        "rejected": 0,
    }
    new_letters: list[dict[str, Any]] = []
    done = 0
    for buckets, changed, removed in batches(diff, workspace.settings.limits.batch_documents):
        rows = []
        for doc_id in changed:
            x = locators[doc_id]
            try:
                rows.append(_row(workspace, entry, x, wanted[doc_id]))
            except TabootError as error:
                new_letters.append(
                    {
                        "item": x.path,
                        "code": error.code,
                        "message": error.message,
                        "fingerprint": wanted[doc_id],
                        "kind": "skipped" if error.code in _REJECTIONS else "failed",
                    }
                )
        report.add("new", len(rows))
        table_version = replace_keys(
            tables,
            namespace,
            source_id,
            STAGE,
            table_version,
            key="doc_id",
            buckets=buckets,
            drop=[*changed, *removed],
            rows=pa.Table.from_pylist(rows, schema=DOCUMENTS),
            txn=inputs,
            order=("doc_id",),
        )
        done += len(changed)
        work.progress(STAGE, done, len(diff.changed))
    still_bad = {locators[d].path for d in known_bad} | {x["item"] for x in new_letters}
    catalog.dead_letters.record(namespace, source_id, STAGE, new_letters, set(letters) - still_bad)
    for letter in catalog.dead_letters.find(namespace, source_id, STAGE):
        report.add("failed" if letter["kind"] == "failed" else "rejected")
        if letter["kind"] == "failed":
            report.problem(letter["code"], letter["item"], letter["message"])
    work.publish(inputs, tables={STAGE: table_version}, applied={})
    report.counts["total"] = len(wanted) - report.counts["failed"] - report.counts["rejected"]


def _fingerprint(x: Locator, settings: Iterable[Any]) -> str:
    return ids.digest(
        x.sha256, x.path, x.mime, x.charset, x.url, x.final_url, x.created_at, x.since, x.job_id, *settings
    )


def _row(workspace: Workspace, entry: Entry, x: Locator, fingerprint: str) -> dict[str, Any]:
    data = workspace.blobs.get(entry.namespace, x.sha256)
    parsed = parse_document(
        data,
        path=x.path,
        mime=x.mime,
        charset=x.charset,
        languages=entry.config.languages,
        max_chars=workspace.settings.limits.max_document_chars,
    )
    metadata = dict(parsed.metadata)
    if x.final_url and x.final_url != x.url:
        metadata["final_url"] = x.final_url
    return {
        "bucket": ids.doc_bucket(x.doc_id),
        "doc_id": x.doc_id,
        "source_id": entry.source_id,
        "source_type": entry.config.type,
        "path": x.path,
        # The path of a local file becomes an absolute path only where the root is known.
        "url": x.url or f"{entry.source_id}:{x.path}",
        "title": parsed.title,
        "mime": parsed.mime,
        "charset": parsed.charset,
        "lang": parsed.lang,
        "text": parsed.text,
        "text_sha256": ids.sha256_hex(parsed.text),
        "blob_sha256": x.sha256,
        "offsets": parsed.offsets.dumps(),
        "metadata": canonical_json(metadata),
        "date": parsed.date,
        "created_at": x.created_at,
        "since": x.since,
        "job_id": x.job_id,
        "fingerprint": fingerprint,
    }
