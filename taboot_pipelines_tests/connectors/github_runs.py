"""Runs of the connector of ``github`` against a store in memory that is durable as the real one is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from taboot_pipelines.connectors import Access, open_connector
from taboot_pipelines.connectors.access import MemoryState
from taboot_pipelines.connectors.sources_file import parse_entry
from taboot_pipelines.crawl.following import StoredPage
from taboot_pipelines.extraction.tier_a.compose import project_files, references
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
    Unchanged,
)
from taboot_pipelines.settings import LimitSettings, Settings
from taboot_pipelines_tests.fakes.github import TOKEN


class WaitingState(MemoryState):
    """Keeps what is saved back until it is committed, as JSON."""

    def __init__(self, durable: dict[str, str]) -> None:
        super().__init__()
        self.durable = durable
        self.waiting: dict[str, str] = {}

    def load(self, key: str) -> Any:
        value = self.waiting.get(key, self.durable.get(key))
        return None if value is None else json.loads(value)

    def save(self, key: str, value: Any) -> None:
        self.waiting[key] = json.dumps(value)

    def commit(self) -> None:
        self.durable.update(self.waiting)
        self.waiting = {}


class Store:
    """What runs have stored. ``items``: by path, with role and media type; ``problems``: of the last run."""

    def __init__(self) -> None:
        self.items: dict[str, Fetched] = {}
        self.state: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.tombstones: set[str] = set()

    def run(self, base_url: str, *, kill_after: int | None = None, **fields: Any) -> Enumerated | None:
        """One run; None if it was killed after so many events."""
        limit = fields.pop("limit", 1_000_000)
        connector = open_connector(entry_of(base_url, **fields), self.access(limit))
        known = {path: Known(sha256_hex(x.data), x.etag, None, x.url) for path, x in self.items.items()}
        self.problems, self.counts = {}, Counter()
        pending: dict[str, Fetched] = {}
        seen: set[str] = set()
        gone: set[str] = set()
        assert isinstance(self._state, WaitingState)
        events: Iterator[Event] = connector.events(known, self.tombstones.__contains__)
        for n, event in enumerate(events):
            if kill_after is not None and n >= kill_after:
                return None
            self.counts[type(event).__name__] += 1
            match event:
                case Fetched():
                    seen.add(event.path)
                    pending[event.path] = event
                case NotModified():
                    seen.add(event.path)
                    self.items[event.path] = replace(self.items[event.path], role=event.role)
                case Unchanged():
                    seen |= event.roles.keys()
                    for path, role in event.roles.items():
                        self.items[path] = replace(self.items[path], role=role)
                case Skipped():
                    self.problems[event.path] = event.code
                    if not event.outside:
                        seen.add(event.path)
                case Failed():
                    self.problems[event.path] = event.error.code
                    seen.add(event.path)
                case Gone():
                    self.problems[event.path] = event.code
                    gone.add(event.path)
                case Checkpoint():
                    self.items |= pending
                    pending = {}
                    self._state.commit()
                case Enumerated():
                    self.items |= pending
                    absent = gone | (self.items.keys() - seen if event.complete else set())
                    for path in absent & self.items.keys():
                        del self.items[path]
                    self._state.commit()
                    return event
        raise AssertionError("no end")

    def access(self, limit: int = 1_000_000) -> Access:
        self._state = WaitingState(self.state)

        def stored(path: str) -> StoredPage | None:
            x = self.items.get(path)
            return None if x is None else StoredPage(x.data, x.mime, x.charset)

        access = Access.of(
            Settings(limits=LimitSettings(max_blob_bytes=limit)),
            Path(),
            references=references,
            project_files=project_files,
            stored_page=stored,
            state=self._state,
        )
        return replace(access, secrets=lambda _: SecretStr(TOKEN))

    def content(self) -> dict[str, tuple[Any, ...]]:
        """All that was stored, to be compared: volatile members do not make another item."""
        return {p: (x.etag, x.role, x.mime, x.url) for p, x in sorted(self.items.items())}


def entry_of(base_url: str, **fields: Any) -> Any:
    given = {"id": "hub", "type": "github", "base_url": base_url, **fields}
    if not {"repositories", "organisations", "users", "path"} & given.keys():
        given["repositories"] = ["acme/shop"]
    return parse_entry({k: v for k, v in given.items() if v is not None})
