"""Links within one source that lead to nothing: neither to a document nor to anything else that is there.

What lies outside the source is not judged. Of a web site only a source with sitemaps says which pages there
are; images and other files of a site are in no list.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from taboot_pipelines.connectors.entries import DirectorySource
from taboot_pipelines.connectors.globs import UrlGlobs
from taboot_pipelines.connectors.web import WebSource
from taboot_pipelines.crawl.urls import canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import covers_file
from taboot_pipelines.knowledge.link_targets import document_names
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.tables import TableVersion

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
