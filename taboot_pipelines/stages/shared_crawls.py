"""Helps with a crawl that another process leads, from any machine that shares the catalog and the blobs.

Whoever joins reads pages, puts their bytes into the blob store, and hands over the rest through the crawl's
URLs. It holds no lease and writes no log: the process that leads the crawl does, as for a page of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator

from taboot_pipelines import logs
from taboot_pipelines.connectors.web import WebSource
from taboot_pipelines.crawl.frontier import Frontier
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import CrawlPlan
from taboot_pipelines.model.records import Checkpoint, Failed, Fetched, Gone, NotModified, Skipped
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.source_state import KnownLocators, PresentLocators, open_source, tombstoned_paths
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress

#: What the report of a process that joined counts: pages by what became of them, and bytes that were new.
LEDGER = ("fetched", "not_modified", "skipped", "failed", "new_blobs")
_WORK = "crawl"
_LOOK_SECONDS = 0.5


def join_crawl(
    workspace: Workspace, source_id: str, progress: Progress = no_progress, *, wait_seconds: float = 0.0
) -> StageReport:
    """Work at the crawl of a source that goes on until nothing is left of it, and say what was done.

    Waits at most ``wait_seconds`` for the crawl to begin. Raises ``E_SOURCE_UNKNOWN``, ``E_NOT_FOUND`` where
    none goes on, ``E_CONFIG`` where the source cannot be shared or is configured otherwise than the crawl
    was, and ``E_STORAGE`` where the bytes of a page cannot be stored: what was on its way is then given back.
    """
    entry = await_crawl(workspace, source_id, wait_seconds)
    with logs.bind(namespace=entry.namespace, source=source_id):
        return _Helper(workspace, entry, progress).help()


def await_crawl(workspace: Workspace, source_id: str, wait_seconds: float) -> Entry:
    """The entry of a source whose crawl goes on and may be shared; raises as :func:`join_crawl`."""
    entry = workspace.entries(source_id)[-1]
    if not isinstance(entry.config, WebSource):
        raise TabootError("E_CONFIG", f"{source_id} is no web source, and crawls nothing.", source=source_id)
    if entry.config.capture is not None:
        raise TabootError(
            "E_CONFIG",
            f"The crawl of {source_id} cannot be shared: what is captured of pages is stored by its leader.",
            source=source_id,
        )
    deadline = time.monotonic() + wait_seconds
    while workspace.catalog.crawls.running(entry.namespace, entry.source_id) is None:
        if time.monotonic() >= deadline:
            raise TabootError(
                "E_NOT_FOUND",
                f"No crawl of {entry.source_id} goes on.",
                remedy=f"Start one by `taboot ingest {entry.source_id}`, and join it from another process.",
                source=entry.source_id,
            )
        time.sleep(_LOOK_SECONDS)
    return entry


class _Helper:
    def __init__(self, workspace: Workspace, entry: Entry, progress: Progress) -> None:
        self._workspace, self._entry, self._progress = workspace, entry, progress
        self._namespace = entry.namespace

    def help(self) -> StageReport:
        workspace, entry = self._workspace, self._entry
        present = PresentLocators(workspace.catalog.locators, self._namespace, entry.source_id)
        connector = open_source(workspace, entry, present, self._frontier)
        expired = workspace.catalog.locators.expired(self._namespace, entry.source_id)
        events = connector.events(KnownLocators(present, False, expired), tombstoned_paths(workspace, entry))
        with (
            reporting(_WORK, entry.source_id, self._namespace) as report,
            contextlib.ExitStack() as stopped,
        ):
            report.counts |= dict.fromkeys(LEDGER, 0)
            if isinstance(events, Generator):
                stopped.callback(events.close)
            for event in events:
                match event:
                    case Fetched():
                        sha256, new = workspace.blobs.put(self._namespace, event.data)
                        old = present.get(event.path)
                        same = old is not None and old.sha256 == sha256
                        report.add("not_modified" if same else "fetched")
                        report.add("new_blobs", int(new))
                        report.bytes += len(event.data) if new else 0
                    case NotModified():
                        report.add("not_modified")
                    case Skipped():
                        report.add("skipped")
                    case Failed() | Gone():
                        report.add("failed")
                    case _:
                        pass
                done = sum(report.counts[name] for name in LEDGER[:-1])
                if done % 64 == 0 or isinstance(event, Checkpoint):
                    self._progress(_WORK, done, 0)
        return report

    def _frontier(self, plan: CrawlPlan) -> Frontier:
        crawls = self._workspace.catalog.crawls
        crawl = crawls.running(self._namespace, self._entry.source_id)
        if crawl is None:
            raise TabootError("E_NOT_FOUND", f"The crawl of {self._entry.source_id} has ended meanwhile.")
        if crawl.plan.configuration != plan.configuration:
            raise TabootError(
                "E_CONFIG",
                f"The crawl of {self._entry.source_id} that goes on was begun under other settings.",
                remedy="Let it end; the next run of the source begins a crawl under the new ones.",
                source=self._entry.source_id,
            )
        return crawls.frontier(self._namespace, crawl, leads=False)
