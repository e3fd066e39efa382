"""What source type ``web`` tells of captures of its pages, beside the pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from taboot_pipelines.crawl.captures import Capture, Capturer, missing, path_of
from taboot_pipelines.crawl.captures import events as capture_events
from taboot_pipelines.crawl.client import Client
from taboot_pipelines.crawl.urls import WebUrl, canonical_key
from taboot_pipelines.model.records import (
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
    Unchanged,
)


class PageCaptures:
    """What is captured of pages, told beside the pages."""

    def __init__(self, capture: Capture, known: Mapping[str, Known]) -> None:
        self._capture, self._known = capture, known
        self._capturer: Capturer | None = None

    def of(self, client: Client) -> Capturer:
        """``client`` with every page captured that was not before, or has other bytes by now."""
        self._capturer = Capturer(client, self._capture, self._unless)
        return self._capturer

    def _unless(self, url: WebUrl) -> str | None:
        key = canonical_key(url)
        if key not in self._known or missing(self._capture, key, self._known):
            return None
        return self._known[key].sha256

    def beside(self, events: Iterator[Event]) -> Iterator[Event]:
        """``events``, and after each that tells of a page what is told of its captures. Those of a page that
        was not read stand as they are, those of one that does not exist any more go with it.
        """
        for event in events:
            yield event
            match event:
                case Fetched(path=key):
                    known = self._known.get(key)
                    same = known is not None and known.sha256 == hashlib.sha256(event.data).hexdigest()
                    final = event.final_url or key
                    yield from capture_events(
                        self._capture,
                        key,
                        self._known,
                        self._capturer.taken(final) if self._capturer is not None else (),
                        url=event.url or key,
                        final_url=final,
                        page_is_known=same,
                    )
                case Unchanged(roles=roles):
                    kept = [path for key in roles for path in self._of(key)]
                    if kept:
                        yield Unchanged(dict.fromkeys(kept, "input"))
                case Gone(path=key):
                    for path in self._of(key):
                        yield Gone(path, event.code, event.message)
                case NotModified(path=key) | Failed(path=key) | Skipped(path=key, outside=False):
                    kept = self._of(key)
                    if kept:
                        yield Unchanged(dict.fromkeys(kept, "input"))
                case _:
                    pass

    def _of(self, key: str) -> list[str]:
        """The captures of a page that are asked for and stored."""
        paths = (path_of(key, name) for name in self._capture.names())
        return [path for path in paths if path in self._known]
