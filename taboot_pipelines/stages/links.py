"""links: where each document's hyperlinks lead, as they were observed.

What they mean, given all documents, is for readers to say: a document's rows depend on nothing else (rules
``bounded-rewrite`` and ``incremental-equals-scratch``). The titles of others that stand in a document are
found where the titles are known, by ``entity_snapshots``.

Links within one source that lead to nothing: neither to a document nor to anything else that is there.

What lies outside the source is not judged. Of a web site only a source with sitemaps says which pages there
are; images and other files of a site are in no list.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.connectors.entries import DirectorySource
from taboot_pipelines.connectors.globs import UrlGlobs
from taboot_pipelines.connectors.web import WebSource
from taboot_pipelines.crawl.urls import canonical_key, parse_url
from taboot_pipelines.documents.links import LINKS_VERSION, Hyperlink, page_links, read_from_blob, text_links
from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import batches, difference, replace_keys
from taboot_pipelines.knowledge.evidence import covers_file
from taboot_pipelines.knowledge.link_targets import (
    TARGETS_VERSION,
    Observed,
    document_names,
    observed,
    origin_of,
)
from taboot_pipelines.model import ids
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.tables import LINKS, rows_of
from taboot_pipelines.stages.stage import SourceWork
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.tables import TableVersion

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


#: The last part of a URL's path that names a file which is no page.
_FILE = re.compile(r"\.(?!html?\Z|xhtml\Z|md\Z|php\Z)[A-Za-z][A-Za-z0-9]{0,7}\Z")


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link of a document whose ``target`` (see ``knowledge.link_targets``) is nowhere in its source."""

    doc_id: str
    path: str
    target: str
    start: int


def broken_links(
    workspace: Workspace,
    namespace: str,
    entry: Entry,
    documents: TableVersion | None,
    links: TableVersion | None,
) -> list[BrokenLink]:
    """The broken links of a source at these versions of its tables, by path and place."""
    tables, source_id = workspace.tables, entry.source_id
    columns = ["doc_id", "source_id", "path", "url", "title", "metadata"]
    held = tables.read(namespace, source_id, "documents", documents, columns=columns).to_pylist()
    found = tables.read(
        namespace, source_id, "links", links, columns=["doc_id", "kind", "target", "page", "start"]
    )
    names = {(name.kind, name.key) for row in held for name in document_names(row)}
    paths = {row["doc_id"]: row["path"] for row in held}
    kind, judged = _judge(workspace, namespace, entry, paths.values())
    broken = []
    for doc_id, target, page, start in rows_of(
        found.filter(pc.equal(found.column("kind"), kind)), "doc_id", "target", "page", "start"
    ):
        known = (kind, target) in names or (page and ("page", page) in names)
        if not known and doc_id in paths and judged(target):
            broken.append(BrokenLink(doc_id, paths[doc_id], target, start))
    return sorted(broken, key=lambda link: (link.path, link.start, link.target))


def lines_of(
    workspace: Workspace,
    namespace: str,
    source_id: str,
    documents: TableVersion | None,
    broken: Iterable[BrokenLink],
) -> Iterator[tuple[BrokenLink, int | None]]:
    """Each link with the line (from 1) of its file; None where the document has not the file's lines."""
    listed = list(broken)
    rows = workspace.tables.read(
        namespace,
        source_id,
        "documents",
        documents,
        columns=["doc_id", "text", "offsets"],
        members=("doc_id", sorted({link.doc_id for link in listed})),
    )
    texts = {doc_id: (text, offsets) for doc_id, text, offsets in rows_of(rows)}
    for link in listed:
        text, offsets = texts[link.doc_id]
        whole = covers_file(OffsetMap.loads(offsets), len(text))
        yield link, text.count("\n", 0, link.start) + 1 if whole else None


def _judge(
    workspace: Workspace, namespace: str, entry: Entry, paths: Iterable[str]
) -> tuple[str, Callable[[str], bool]]:
    """The kind of links that the source can judge, and whether a target without a document is broken."""
    catalog, source_id = workspace.catalog, entry.source_id
    listed = {
        # Inputs that are no documents, what was skipped, and what failed: all of it is there.
        *catalog.locators.of_source(namespace, source_id),
        *(letter["item"] for letter in catalog.dead_letters.find(namespace, source_id)),
    }
    if isinstance(entry.config, WebSource):
        return "url", _web(entry.config, listed, list(paths))
    config = entry.config
    root = entry.root / config.path if isinstance(config, DirectorySource) else None
    return "path", _files(source_id, {unicodedata.normalize("NFC", path) for path in listed}, root)


def _files(source_id: str, listed: set[str], root: Path | None) -> Callable[[str], bool]:
    folders = {""}
    for path in listed:
        while (path := posixpath.dirname(path)) not in folders:
            folders.add(path)

    def broken(target: str) -> bool:
        path = target.removeprefix(f"{source_id}:")
        if path == ".." or path.startswith("../") or path in listed or path in folders:
            return False
        try:
            # What the globs leave out is there all the same; an empty folder is nothing.
            place = None if root is None else root / path
            return place is None or not (place.is_file() or (place.is_dir() and any(place.iterdir())))
        except (OSError, ValueError):
            return True

    return broken


def _web(config: WebSource, listed: set[str], pages: list[str]) -> Callable[[str], bool]:
    include, exclude = UrlGlobs(config.include), UrlGlobs(config.exclude)
    for url in config.urls:
        try:
            listed.add(canonical_key(parse_url(url)))
        except TabootError:
            continue
    common = posixpath.commonprefix(pages) if config.sitemaps else ""
    # The folder of the site: nothing above it, or beside it, is the source's.
    site = common[: common.rfind("/") + 1] if common.count("/") >= 3 else ""

    def broken(target: str) -> bool:
        return (
            bool(site)
            and target.startswith(site)
            and target not in listed
            and "?" not in target
            and not _FILE.search(posixpath.basename(target))
            and (not include or include.matches(target))
            and not exclude.matches(target)
        )

    return broken
