"""Opens the connector of a source, with all that the product has for it: limits, politeness, the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from taboot_pipelines.connectors import Access, Connector
from taboot_pipelines.connectors.access import MemoryState, OpenFrontier, SourceState
from taboot_pipelines.crawl.following import StoredPage
from taboot_pipelines.crawl.politeness import Politeness
from taboot_pipelines.crawl.robots import RobotsCache
from taboot_pipelines.documents.forms.mail_attachments import attached_texts
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose import project_files, references
from taboot_pipelines.model import ids
from taboot_pipelines.sources import open_connector
from taboot_pipelines.stages.domains import open_domains, open_proxies
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.catalog import Locator


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

    domains = open_domains(catalog, namespace, settings.http)
    access = Access.of(
        settings,
        entry.root,
        references=references,
        project_files=project_files,
        attachments=attached_texts,
        politeness=Politeness(hints, namespace, settings.http, domains),
        robots=RobotsCache(hints, namespace, settings.http.user_agent),
        frontier=frontier,
        stored_page=stored_page,
        proxies=partial(open_proxies, catalog, hints, namespace),
        state=state or MemoryState(),
    )
    return open_connector(entry.config, access)


def tombstoned_paths(workspace: Workspace, entry: Entry) -> Callable[[str], bool]:
    """Tells of a path of the source whether its document was deleted on purpose."""
    tombstones = workspace.catalog.tombstones.all(entry.namespace)

    def tombstoned(path: str) -> bool:
        if not tombstones:
            return False
        return ids.doc_id(entry.namespace, ids.locator(entry.source_id, path)) in tombstones

    return tombstoned
