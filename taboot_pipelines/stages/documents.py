"""documents: blobs parsed to normalized Markdown, with a map back to their bytes.

Holds rules ``offsets-carried`` and ``secrets-stop-at-the-blob``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from taboot_pipelines.connectors.web import WebSource
from taboot_pipelines.documents.parse import PARSER_VERSION, parse_document
from taboot_pipelines.documents.secrets.masking import MASK_VERSION
from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import batches, difference, fingerprints, replace_keys
from taboot_pipelines.model import ids
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.records import Extraction, ParsedDocument
from taboot_pipelines.model.tables import DOCUMENTS
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import document_forms, source_kind
from taboot_pipelines.stages.stage import SourceWork
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.blobs import UNREADABLE, BlobStore
from taboot_pipelines.stores.catalog.locators import Locator
from taboot_pipelines.stores.catalog.writing import now_micros
from taboot_pipelines.stores.tables import TableVersion

STAGE = "documents"
VERSION = "1"
#: The versions of everything that decides how bytes become a document.
PARSING = f"{VERSION}.{PARSER_VERSION}.{MASK_VERSION}"
#: What a source's wish for another form of its pages adds to that; nothing for the form they always had.
_FORMS: Mapping[Extraction, tuple[str, ...]] = {
    "markdown": (),
    "structured": ("structured", version("extruct")),
    "raw": ("raw",),
}
#: In what is published: how many documents said otherwise, were new and were gone, and when (microseconds
#: since the epoch), of the last runs that read the source as the run before did. Notifications tell of it.
CHANGES = "changes"
MAX_CHANGES = 20
#: Intended rejections: recorded with their reason, and not counted as failures.
_REJECTIONS = frozenset({"E_EMPTY", "E_LANGUAGE"})


@dataclass(frozen=True)
class _Examined:
    """The documents that a run compares with the table."""

    #: {doc_id: locator} of those that are present.
    present: Mapping[str, Locator]
    #: All of them, the vanished ones included; None if the whole table is compared.
    only: frozenset[str] | None
    #: Their paths, whose dead letters are written anew; None for every letter.
    paths: frozenset[str] | None


def run(work: SourceWork) -> None:
    """Parse the blobs that changed.

    A bad blob becomes a dead letter and never fails its batch (rule ``nothing-lost-silently``).
    """
    workspace, entry, report = work.workspace, work.entry, work.report
    namespace, source_id = work.namespace, work.source_id
    settings = _settings(entry, workspace.settings)
    raw = work.upstream["raw_blobs"]
    inputs = ids.digest(raw.inputs, *settings)
    letters = {d["item"]: d for d in work.letters()}
    # A blob that could not be read is tried again, whether or not anything changed.
    transient = {item for item, d in letters.items() if d["code"] in UNREADABLE}
    if work.unchanged(inputs, unless=bool(transient)):
        report.counts["failed"] = sum(d["kind"] == "failed" for d in letters.values())
        return
    report.data_version = inputs
    applied: dict[str, Any] = {"position": raw.applied.get("position"), "settings": ids.digest(*settings)}
    old = work.old
    if old is not None and old.applied.get("settings") == applied["settings"]:
        applied[CHANGES] = old.applied.get(CHANGES, [])
    examined = _since_last_run(work, applied, transient)
    changes = Counter(dict.fromkeys(("changed", "new", "gone"), 0))
    version = _apply(work, settings, inputs, letters, examined, changes)
    left = workspace.catalog.dead_letters.find(namespace, source_id, STAGE)
    if examined.only is not None and not _complete(work, version, len(left)):
        # Log entries may have been purged together with what they said.
        version = _apply(work, settings, inputs, letters, _everything(work), changes)
        left = workspace.catalog.dead_letters.find(namespace, source_id, STAGE)
    for letter in left:
        report.add("failed" if letter["kind"] == "failed" else "rejected")
        if letter["kind"] == "failed":
            report.problem(letter["code"], letter["item"], letter["message"])
    if CHANGES in applied and changes.total():
        applied[CHANGES] = [*applied[CHANGES], {"at": now_micros(), **changes}][-MAX_CHANGES:]
    work.publish(inputs, tables={STAGE: version}, applied=applied)
    report.counts["total"] = workspace.tables.count(namespace, source_id, STAGE, version)
    report.counts["reused"] = report.counts["total"] - report.counts["new"]


def _everything(work: SourceWork) -> _Examined:
    located = work.workspace.catalog.locators.of_source(work.namespace, work.source_id)
    return _Examined({x.doc_id: x for x in located.values() if x.role == "document"}, None, None)


def _since_last_run(work: SourceWork, applied: Mapping[str, Any], transient: Collection[str]) -> _Examined:
    """Return what changed since the table was published; everything if the table is not as it was then."""
    catalog, old = work.workspace.catalog, work.old
    if (
        old is None
        or old.applied.get("settings") != applied["settings"]
        or old.applied.get("position") is None
        or not work.workspace.tables.holds(work.namespace, work.source_id, STAGE, old.tables[STAGE])
    ):
        return _everything(work)
    changed = catalog.locators.changed_since(work.namespace, work.source_id, old.applied["position"])
    changed |= catalog.locators.at(work.namespace, work.source_id, transient)
    present = {x.doc_id: x for x in changed.values() if x.state == "present" and x.role == "document"}
    return _Examined(
        present, frozenset(x.doc_id for x in changed.values()), frozenset({*changed, *transient})
    )


def _complete(work: SourceWork, version: TableVersion | None, letters: int) -> bool:
    """Whether every document of the source is in the table or has a dead letter."""
    catalog, namespace, source_id = work.workspace.catalog, work.namespace, work.source_id
    rows = work.workspace.tables.count(namespace, source_id, STAGE, version)
    return rows + letters == catalog.locators.count(namespace, source_id, "document")


def _apply(
    work: SourceWork,
    settings: Sequence[Any],
    inputs: str,
    letters: Mapping[str, Mapping[str, Any]],
    examined: _Examined,
    changes: Counter[str],
) -> TableVersion | None:
    """Make the table hold the examined documents as they are now; return its version. Counted in ``changes``
    is how many say otherwise, are new and are gone."""
    workspace, report = work.workspace, work.report
    namespace, source_id = work.namespace, work.source_id
    catalog, tables = workspace.catalog, workspace.tables
    locators = examined.present
    version = tables.version(namespace, source_id, STAGE)
    at = None if examined.only is None else {ids.doc_bucket(d) for d in examined.only}
    columns = ["doc_id", "fingerprint", "text_sha256"]
    held = tables.read(namespace, source_id, STAGE, version, columns=columns, buckets=at)
    said = dict(zip(*(held.column(c).to_pylist() for c in ("doc_id", "text_sha256")), strict=True))
    current = {
        doc_id: fingerprint
        for doc_id, fingerprint in fingerprints(held, "doc_id").items()
        if examined.only is None or doc_id in examined.only
    }
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
        "reused": 0,
        "removed": len(diff.removed),
        "failed": 0,
        "rejected": 0,
    }
    changes["gone"] += len(diff.removed)
    new_letters: list[dict[str, Any]] = []
    done = 0
    for buckets, changed, removed in batches(diff, workspace.settings.limits.batch_documents):
        rows = []
        for doc_id in changed:
            x = locators[doc_id]
            try:
                rows.append(document_row(workspace.blobs, workspace.settings, work.entry, x, wanted[doc_id]))
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
        texts = [(said.get(row["doc_id"]), row["text_sha256"]) for row in rows]
        if same := sum(before == now for before, now in texts):
            report.add("same_text", same)  # other bytes, such as a page's new frame, that say the same
        changes["changed"] += sum(before is not None and before != now for before, now in texts)
        changes["new"] += sum(before is None for before, _ in texts)
        version = replace_keys(
            tables,
            namespace,
            source_id,
            STAGE,
            version,
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
    examined_letters = set(letters) if examined.paths is None else set(letters) & examined.paths
    catalog.dead_letters.record(namespace, source_id, STAGE, new_letters, examined_letters - still_bad)
    return version


def _settings(entry: Entry, settings: Settings) -> tuple[Any, ...]:
    """What decides how the bytes of a source become documents."""
    return (
        PARSING,
        entry.config.languages,
        entry.config.type,
        settings.limits.max_document_chars,
        *_FORMS[_extraction(entry)],
        # Of a type that has no version of its own, the shape is what earlier releases published.
        *filter(None, (source_kind(entry.config.type).parsing,)),
    )


def _fingerprint(x: Locator, settings: Iterable[Any]) -> str:
    return ids.digest(
        x.sha256, x.path, x.mime, x.charset, x.url, x.final_url, x.created_at, x.since, x.job_id, *settings
    )


def _extraction(entry: Entry) -> Extraction:
    return entry.config.extraction if isinstance(entry.config, WebSource) else "markdown"


def parsed_text(workspace: Workspace, entry: Entry, x: Locator) -> str:
    """Return the text of a document by these bytes of it, secrets masked. Raises what a bad blob is."""
    return _parsed(workspace.blobs, workspace.settings, entry, x).text


def _parsed(blobs: BlobStore, settings: Settings, entry: Entry, x: Locator) -> ParsedDocument:
    return parse_document(
        blobs.get(entry.namespace, x.sha256),
        path=x.path,
        mime=x.mime,
        charset=x.charset,
        languages=entry.config.languages,
        max_chars=settings.limits.max_document_chars,
        forms=document_forms(),
        extraction=_extraction(entry),
    )


def held_rows(workspace: Workspace, entry: Entry, located: Mapping[str, Locator]) -> list[dict[str, Any]]:
    """The rows of those documents at these places that the table holds as they would be made today."""
    place = entry.namespace, entry.source_id, STAGE
    settings = _settings(entry, workspace.settings)
    rows = workspace.tables.read(*place, workspace.tables.version(*place)).to_pylist()
    wanted = {x.doc_id: _fingerprint(x, settings) for x in located.values()}
    return [row for row in rows if row["fingerprint"] == wanted.get(row["doc_id"])]


def document_row(
    blobs: BlobStore, settings: Settings, entry: Entry, x: Locator, fingerprint: str
) -> dict[str, Any]:
    """Return the row of ``tables.DOCUMENTS`` of a locator. Raises what a bad blob is."""
    parsed = _parsed(blobs, settings, entry, x)
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
