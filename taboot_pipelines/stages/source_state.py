"""What a run of a source begins with: its connector, the known paths, its state, its configuration.

Of the paths of a large source only the ETags are in memory; the rest of a row is read where it is asked for.
What a connector remembers between two runs, such as a cursor, is written once all that it covers is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import orjson

from taboot_pipelines.connectors.access import Access, MemoryState, OpenFrontier, SourceState
from taboot_pipelines.connectors.entries import DirectorySource, RecordedSource
from taboot_pipelines.connectors.files import source_directory
from taboot_pipelines.connectors.protocol import Connector
from taboot_pipelines.crawl.following import StoredPage
from taboot_pipelines.crawl.politeness import Politeness
from taboot_pipelines.crawl.robots import RobotsCache
from taboot_pipelines.documents.forms.mail import attached_texts
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose.references import project_files, references
from taboot_pipelines.knowledge.assertions import read_assertions
from taboot_pipelines.knowledge.structured import with_raw_texts
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import Known, KnownItems, Role, UploadedItem
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines.stages.domains import open_domains, open_proxies
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.locators import Locator, Locators
from taboot_pipelines.stores.catalog.writing import Row

#: So many locators are read one by one, then all. It is less than a batch writes at once, so that all are
#: read before any is written.
_READ_SINGLY = 16


class PresentLocators(Mapping[str, Locator]):
    """The present locators of a source as they are when a batch begins, by path.

    What is known of all of them is read at once: their paths, ETags and roles. The rest is read when it is
    asked for, since of a source that is as it was nothing more is needed.
    """

    def __init__(
        self,
        locators: Locators,
        namespace: str,
        source_id: str,
        rows: Sequence[tuple[str, str | None, str]] | None = None,
    ) -> None:
        self._locators, self._namespace, self._source_id = locators, namespace, source_id
        self._read: dict[str, Locator] = {}
        if rows is None:
            rows = locators.etags(namespace, source_id)
        self.etags: dict[str, str | None] = {path: etag for path, etag, _ in rows}
        self.roles: dict[str, Role] = {path: cast(Role, role) for path, _, role in rows}

    def __getitem__(self, path: str) -> Locator:
        if path not in self.etags:
            raise KeyError(path)
        if path not in self._read:
            if len(self._read) < _READ_SINGLY:
                self._read |= self._locators.at(self._namespace, self._source_id, [path])
            else:
                self.read_all()
        return self._read[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self.etags)

    def __len__(self) -> int:
        return len(self.etags)

    def __contains__(self, path: object) -> bool:
        return path in self.etags

    def read_all(self) -> list[Locator]:
        """Read everything and return the locators, in the order of their paths."""
        self._read = self._locators.of_source(self._namespace, self._source_id) | self._read
        return [self._read[path] for path in sorted(self.etags) if path in self._read]


class KnownLocators(KnownItems):
    """The same in the words of a connector; of ``damaged`` sources without what would spare an answer.

    What ``expired`` is among it, so that its origin is asked for it only where it has changed since.
    """

    def __init__(
        self, present: PresentLocators, damaged: bool, expired: Mapping[str, Locator] | None = None
    ) -> None:
        self._present, self._damaged, self._expired = present, damaged, expired or {}
        self.roles = present.roles
        etags = present.etags
        if expired:
            self.roles = {path: cast(Role, x.role) for path, x in expired.items()} | present.roles
            etags = {path: x.etag for path, x in expired.items()} | present.etags
        self.etags = {} if damaged else etags

    def __getitem__(self, path: str) -> Known:
        x = self._expired[path] if path in self._expired else self._present[path]
        spared = (None, None) if self._damaged else (x.etag, x.last_modified)
        return Known(x.sha256, *spared, x.final_url or x.url, whole=not self._damaged)

    def __iter__(self) -> Iterator[str]:
        return iter(self.roles)

    def __len__(self) -> int:
        return len(self.roles)


class BatchState:
    """The state of one source during one batch (see ``connectors.access.SourceState``).

    What is saved waits in memory: :meth:`commit` writes it once all that was told before is in the log. A
    ``damaged`` source begins without any, so that every byte is asked for.
    """

    def __init__(self, catalog: Catalog, entry: Entry, *, damaged: bool) -> None:
        self._catalog = catalog
        self._namespace, self._source_id = entry.namespace, entry.source_id
        self._configuration = ids.digest(entry.config.reading_json())
        self._damaged = damaged
        self._known: dict[str, str] | None = None
        self._waiting: dict[str, str | None] = {}

    def load(self, key: str) -> Any:
        """As ``SourceState.load``."""
        if self._known is None:
            self._known = (
                {}
                if self._damaged
                else self._catalog.source_states.load(self._namespace, self._source_id, self._configuration)
            )
        value = self._waiting[key] if key in self._waiting else self._known.get(key)
        return None if value is None else orjson.loads(value)

    def save(self, key: str, value: Any) -> None:
        """As ``SourceState.save``."""
        self._waiting[key] = None if value is None else orjson.dumps(value).decode()

    def commit(self) -> None:
        """Write what waits."""
        if self._waiting:
            self._catalog.source_states.save(
                self._namespace, self._source_id, self._configuration, self._waiting
            )
            if self._known is not None:
                merged = {**self._known, **self._waiting}
                self._known = {k: v for k, v in merged.items() if v is not None}
            self._waiting = {}

    def forget(self) -> None:
        """Forget everything: the next batch enumerates the source as for the first time."""
        self._waiting = {}
        self._known = {}
        self._catalog.source_states.forget(self._namespace, [self._source_id])


def fingerprint(settings: Settings, entry: Entry) -> str | None:
    """Return the hash of everything that decides what a run of the source takes in; None if it is retiring.

    That is each field of the entry but those that say when it is read, the directory that its path leads to,
    and the limits on what is read. A job keeps the hash that it began with, so a source whose last job was
    another one's, or the one that retired it, is known to wait for a run.
    """
    if entry.retiring:
        return None
    config, limits = entry.config, settings.limits
    told = config.model_dump(mode="json", exclude={"id", "namespace", "schedule", "enabled", "run_priority"})
    if config.graph:
        del told["graph"]  # as of a source that has always been in the graph
    if isinstance(config, DirectorySource | RecordedSource) and config.path is not None:
        told["path"] = str(source_directory(config.path, entry.root).absolute())
    return ids.digest(told, limits.max_blob_bytes, limits.max_document_chars)


def open_source(
    workspace: Workspace,
    entry: Entry,
    present: Mapping[str, Locator],
    frontier: OpenFrontier | None,
    state: SourceState | None = None,
) -> Connector:
    """The connector of an entry; ``present``: the source's locators by path, whose bytes it may read;
    ``frontier``: of its crawls; ``state``: what it keeps from run to run, by default nothing."""
    catalog, hints, settings = workspace.catalog, workspace.hints, workspace.settings
    namespace = entry.namespace

    def stored_page(key: str) -> StoredPage | None:
        x = present.get(key)
        try:
            data = workspace.blobs.get(namespace, x.sha256) if x is not None else None
        except TabootError:
            return None  # what is damaged is fetched again
        return None if x is None or data is None else StoredPage(data, x.mime, x.charset)

    # What reads a directory asks no domain for anything.
    politeness = None
    if not isinstance(entry.config, DirectorySource):
        domains = open_domains(catalog, namespace, settings.http)
        politeness = Politeness(hints, namespace, settings.http, domains)
    access = Access.of(
        settings,
        entry.root,
        references=references,
        project_files=project_files,
        attachments=attached_texts,
        politeness=politeness,
        robots=RobotsCache(hints, namespace, settings.http.user_agent),
        frontier=frontier,
        stored_page=stored_page,
        proxies=partial(open_proxies, catalog, hints, namespace),
        state=state or MemoryState(),
        uploaded=partial(uploaded, catalog, namespace),
    )
    return open_connector(entry.config, access)


def uploaded(catalog: Catalog, namespace: str) -> list[UploadedItem]:
    """Return what the namespace's source of uploads holds, texts that were handed in with facts included."""
    assertions = read_assertions(catalog.assertions.all(namespace))
    return with_raw_texts(catalog.uploaded.all(namespace), assertions)


def tombstoned_paths(
    workspace: Workspace, entry: Entry, tombstones: Mapping[str, Row] | None = None
) -> Callable[[str], bool]:
    """Tells of a path of the source whether its document was deleted on purpose; ``tombstones``: all of the
    namespace by document id, where they are known. What expired is no such path: other bytes bring it back.
    """
    if tombstones is None:
        tombstones = workspace.catalog.tombstones.all(entry.namespace)
    deleted = {doc_id for doc_id, row in tombstones.items() if row["reason"] != "expired"}

    def tombstoned(path: str) -> bool:
        if not deleted:
            return False
        return ids.doc_id(entry.namespace, ids.locator(entry.source_id, path)) in deleted

    return tombstoned
