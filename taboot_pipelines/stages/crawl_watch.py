"""Watches a crawl while it runs, from the catalog: in the process that crawls, or in any other."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawl_graph import CrawlProgress
from taboot_pipelines.model.crawls import CrawlState
from taboot_pipelines.stages.crawl_graph import CrawlGraph
from taboot_pipelines.stages.workspace import Workspace

_log = logging.getLogger(__name__)
#: How often it is looked, at most.
_SECONDS_BETWEEN_LOOKS = 1.0
#: Of its time a watcher spends at most one part in so many looking: a crawl of many pages is looked at less
#: often.
_SHARE = 50


def running_crawls(workspace: Workspace, source_id: str) -> Iterator[CrawlProgress]:
    """How far the crawls of a source have come that have not ended; in two namespaces while it moves."""
    for row in workspace.catalog.sources.find():
        if row["source_id"] == source_id:
            graph = CrawlGraph(workspace.catalog, row["namespace"])
            for crawl in graph.crawls(source_id, limit=1):
                if crawl.state is CrawlState.RUNNING:
                    yield graph.progress(crawl)


@contextlib.contextmanager
def watched(
    opened: Callable[[], Workspace], source_id: str, tell: Callable[[CrawlProgress], None]
) -> Iterator[None]:
    """Tell, from a thread of its own, how far the source's crawl has come while the block runs.

    A catalog that does not answer is no reason to fail what is being watched.
    """
    stop = threading.Event()

    def work() -> None:
        wait = _SECONDS_BETWEEN_LOOKS
        while not stop.wait(wait):
            began = time.monotonic()
            try:
                for progress in running_crawls(opened(), source_id):
                    tell(progress)
            except TabootError as error:
                _log.warning("the crawl could not be looked at", extra={"code": error.code})
            wait = max(_SECONDS_BETWEEN_LOOKS, _SHARE * (time.monotonic() - began))

    thread = threading.Thread(target=work, name="taboot-crawl-watcher", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
