"""Runs of a connector over what the catalog would keep of it, without the catalog."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from taboot_pipelines.connectors import Access, open_connector
from taboot_pipelines.connectors.sources_file import parse_entry
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
from taboot_pipelines.settings import Settings


class Kept:
    """What is stored of a source. A run that is killed leaves what was stored before it, and some of what
    came after its last checkpoint, but of the connector's state only what was saved up to that."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.known: dict[str, Known] = {}
        self.mimes: dict[str, str | None] = {}
        self.state: dict[str, str] = {}
        self.waiting: dict[str, str | None] = {}
        #: Of the last run.
        self.events: list[Event] = []
        self.new_blobs = 0

    def load(self, key: str) -> Any:
        value = self.waiting.get(key, self.state.get(key))
        return None if value is None else json.loads(value)

    def save(self, key: str, value: Any) -> None:
        self.waiting[key] = None if value is None else json.dumps(value)

    def commit(self) -> None:
        merged = {**self.state, **self.waiting}
        self.state = {k: v for k, v in merged.items() if v is not None}
        self.waiting = {}

    def run(
        self,
        entry: Mapping[str, Any],
        access: Access,
        *,
        tombstoned: Callable[[str], bool] = lambda _: False,
        kill_after: int | None = None,
    ) -> Enumerated | None:
        """One run; None if it was killed after so many events."""
        self.events, self.new_blobs, self.waiting = [], 0, {}
        source = open_connector(parse_entry({"id": "s", **entry}), replace(access, state=self))
        known = dict(self.known)
        seen: set[str] = set()
        for event in self._until(source.events(known, tombstoned), kill_after):
            self.events.append(event)
            match event:
                case Fetched():
                    self._store(event)
                    seen.add(event.path)
                case NotModified() | Skipped() | Failed():
                    seen.add(event.path)
                case Unchanged():
                    assert set(event.roles) <= set(known)
                    seen.update(event.roles)
                case Gone():
                    seen.discard(event.path)
                    self.known.pop(event.path, None)
                case Checkpoint():
                    self.commit()
                case Enumerated():
                    self.commit()
                    if event.complete:
                        for path in set(self.known) - seen:
                            del self.known[path]
                    return event
        self.waiting = {}
        return None

    def _until(self, events: Iterator[Event], count: int | None) -> Iterator[Event]:
        for number, event in enumerate(events):
            if number == count:
                return
            yield event

    def _store(self, event: Fetched) -> None:
        sha256 = hashlib.sha256(event.data).hexdigest()
        self.new_blobs += sha256 not in self.blobs
        self.blobs[sha256] = event.data
        self.known[event.path] = Known(sha256, event.etag, event.last_modified, event.url)
        self.mimes[event.path] = event.mime

    def contents(self) -> dict[str, bytes]:
        return {path: self.blobs[x.sha256] for path, x in self.known.items()}

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def access_to(root: Path, secrets: Mapping[str, str] | None = None, **fields: Any) -> Access:
    """What a connector of mail may use: files in ``root``, texts attached to mails, and these secrets."""
    from pydantic import SecretStr

    from taboot_pipelines.documents.forms.mail_attachments import attached_texts
    from taboot_pipelines.errors import TabootError

    def secret(name: str) -> SecretStr:
        if name not in (secrets or {}):
            raise TabootError("E_CONFIG", f"The environment variable {name} is not set.", settings=[name])
        return SecretStr((secrets or {})[name])

    access = Access.of(Settings(home=root / ".home"), root, attachments=attached_texts)
    return replace(access, secrets=secret, **fields)
