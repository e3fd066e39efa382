"""What a source's runs leave behind, without a catalog: the items, what is known of them, and the state."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from taboot_pipelines.connectors.api import client
from taboot_pipelines.connectors.protocol import Connector
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Role,
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
class Catalog:
    """What is stored of one source. A killed run leaves what was stored before it and some of what came
    after, as the real one does, and of the connector's state what was saved up to that."""

    state: MirrorState = field(default_factory=MirrorState)
    documents: dict[str, Fetched] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    #: Of the last run.
    events: list[Event] = field(default_factory=list)
    new_blobs: int = 0

    def apply(
        self,
        connector: Connector,
        tombstoned: Callable[[str], bool] = lambda _: False,
        stop_after: int | None = None,
    ) -> Enumerated | None:
        """Apply a run; None if the process died after so many events."""
        self.state.waiting = {}
        self.events, self.new_blobs = [], 0
        blobs = {known.sha256 for known in self.known.values()}
        seen: set[str] = set()
        gone: set[str] = set()
        held: list[Fetched] = []

        def flush() -> None:
            for one in held:
                sha = hashlib.sha256(one.data).hexdigest()
                self.new_blobs += sha not in blobs
                blobs.add(sha)
                self.documents[one.path] = one
                self.known[one.path] = Known(sha, one.etag, one.last_modified, one.url)
            held.clear()
            if not gone:
                self.state.commit()

        def keep(roles: Mapping[str, Role]) -> None:
            assert roles.keys() <= self.known.keys()
            seen.update(roles)
            for path, role in roles.items():
                self.documents[path] = replace(self.documents[path], role=role)

        for number, event in enumerate(connector.events(dict(self.known), tombstoned)):
            if stop_after is not None and number >= stop_after:
                self.state.waiting = {}
                return None
            self.events.append(event)
            match event:
                case Fetched():
                    assert event.path not in {one.path for one in held}, "one item comes twice"
                    held.append(event)
                    seen.add(event.path)
                    if len(held) >= 4:
                        flush()
                case NotModified(path=path, role=role):
                    keep({path: role})
                case Unchanged(roles=roles):
                    keep(roles)
                case Checkpoint():
                    flush()
                case Skipped(path=path, outside=False) | Failed(path=path):
                    seen.add(path)
                case Gone(path=path):
                    gone.add(path)
                case Enumerated():
                    flush()
                    absent = self.documents.keys() - seen if event.complete else set()
                    for path in absent | (gone & self.documents.keys()):
                        del self.documents[path], self.known[path]
                    self.state.commit()
                    return event
                case _:
                    pass
        raise AssertionError("the run did not end")

    def counts(self) -> Counter[str]:
        """How many events of each kind the last run had."""
        return Counter(type(event).__name__ for event in self.events)

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of one kind of the last run."""
        return [event for event in self.events if isinstance(event, kind)]

    def problems(self) -> dict[str, str]:
        """The codes of what was skipped, failed or gone, by path."""
        return {
            e.path: e.error.code if isinstance(e, Failed) else e.code
            for e in self.events
            if isinstance(e, Skipped | Failed | Gone)
        }

    def contents(self) -> dict[str, bytes]:
        """The bytes by path."""
        return {path: one.data for path, one in self.documents.items()}

    @property
    def mimes(self) -> dict[str, str | None]:
        return {path: one.mime for path, one in self.documents.items()}


class Mirror(Catalog):
    """Runs of connectors that the test opens."""

    @property
    def items(self) -> dict[str, bytes]:
        return self.contents()

    def run(
        self, connector: Connector, *, crash_after: int | None = None, tombstones: Collection[str] = ()
    ) -> Enumerated:
        """Apply a run; with ``crash_after`` the process dies after so many events, by :class:`Crash`."""
        end = self.apply(connector, lambda path: path in tombstones, crash_after)
        if end is None:
            raise Crash
        return end

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
    monkeypatch.setattr("taboot_pipelines.http.client.random.uniform", lambda *_: 0.0)
