"""Events of pages that were settled before: by an earlier run of the crawl, or by another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import HandedUrl, Outcome, SettledUrl
from taboot_pipelines.model.records import Event, Failed, Gone, Known, NotModified, Skipped


def told(url: SettledUrl) -> Event | None:
    """The event of a page that was settled without bytes; None where it was never asked for."""
    code, message = url.code or "E_INTERNAL", url.message or ""
    if code in ("E_DEPTH", "E_SCORE", "E_PAGES"):
        return None
    if url.outcome is Outcome.SKIPPED:
        return Skipped(url.key, code, message)
    if code == "E_NOT_FOUND":
        return Gone(url.key, code, message, linked=url.depth > 0)
    return Failed(url.key, TabootError(code, message))


def handed(url: HandedUrl, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Event | None:
    """The event of what another process settled; None for a page that did not change and is not there any
    more, such as after a repair."""
    settled, page = url.settled, url.page
    key = settled.key
    if tombstoned(key):
        return Skipped(key, "E_TOMBSTONED", f"{key} was deleted on purpose.")
    if page is not None:
        return page
    if settled.outcome is Outcome.NOT_MODIFIED:
        return NotModified(key) if key in known else None
    return told(settled)
