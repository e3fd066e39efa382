"""What a source's runs leave behind, without a catalog: the items, what is known of them, and the state."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from taboot_pipelines.connectors import Connector
from taboot_pipelines.connectors.api import client
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


class Crash(Exception):
    """The process dies."""


@dataclass
class MirrorState:
    """As ``stages.source_state.BatchState`` keeps it: what is saved waits until what was told is stored."""

    committed: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str | None] = field(default_factory=dict)

    def load(self, key: str) -> Any:
        value = self.waiting[key] if key in self.waiting else self.committed.get(key)
        return None if value is None else json.loads(value)

    def save(self, key: str, value: Any) -> None:
        self.waiting[key] = None if value is None else json.dumps(value)

    def commit(self) -> None:
        merged = {**self.committed, **self.waiting}
        self.committed = {k: v for k, v in merged.items() if v is not None}
        self.waiting = {}


@dataclass
class Mirror:
    """``items``: the bytes by path."""

    state: MirrorState = field(default_factory=MirrorState)
    items: dict[str, bytes] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    mimes: dict[str, str | None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def run(
        self, connector: Connector, *, crash_after: int | None = None, tombstones: Collection[str] = ()
    ) -> Enumerated:
        """Apply a run; with ``crash_after`` the process dies after so many events, and what was not yet made
        durable is lost."""
        self.state.waiting = {}
        self.events = []
        seen: set[str] = set()
        gone: set[str] = set()
        held: list[Fetched] = []

        def flush() -> None:
            for one in held:
                self.items[one.path] = one.data
                self.mimes[one.path] = one.mime
                sha = hashlib.sha256(one.data).hexdigest()
                self.known[one.path] = Known(sha, one.etag, one.last_modified, one.url)
            held.clear()
            if not gone:
                self.state.commit()

        for number, event in enumerate(connector.events(dict(self.known), lambda path: path in tombstones)):
            if crash_after is not None and number >= crash_after:
                raise Crash
            self.events.append(event)
            match event:
                case Fetched():
                    assert event.path not in {one.path for one in held}, "one item comes twice"
                    held.append(event)
                    seen.add(event.path)
                    if len(held) >= 4:
                        flush()
                case NotModified(path=path):
                    assert path in self.known
                    seen.add(path)
                case Unchanged(roles=roles):
                    assert roles.keys() <= self.known.keys()
                    seen |= roles.keys()
                case Checkpoint():
                    flush()
                case Skipped(path=path, outside=False) | Failed(path=path):
                    seen.add(path)
                case Gone(path=path):
                    gone.add(path)
                case Enumerated():
                    flush()
                    absent = self.items.keys() - seen if event.complete else set()
                    for path in absent | (gone & self.items.keys()):
                        del self.items[path], self.known[path]
                    self.state.commit()
                    return event
                case _:
                    pass
        raise AssertionError("the run did not end")

    def counts(self) -> Counter[str]:
        """How many events of each kind the last run had."""
        return Counter(type(event).__name__ for event in self.events)

    def reasons(self) -> list[str]:
        """The codes of what was skipped, failed or gone."""
        return [
            e.error.code if isinstance(e, Failed) else e.code
            for e in self.events
            if isinstance(e, Skipped | Failed | Gone)
        ]


@pytest.fixture
def quick_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of APIs that are made at once: no certificates are read for servers on loopback, and what is
    tried again is tried soon."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setattr(client, "_trusted", lambda: context)
    monkeypatch.setattr(client.random, "uniform", lambda *_: 0.0)
