"""What is known of a source's locators when a batch begins: of all of them what tells that one is unchanged,
and of few the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from taboot_pipelines.model.records import Known, KnownItems, Role
from taboot_pipelines.stores.catalog import Locator
from taboot_pipelines.stores.catalog.locators import Locators

#: So many locators are read one by one, then all. It is less than a batch writes at once, so that all are
#: read before any is written.
_READ_SINGLY = 16


class PresentLocators(Mapping[str, Locator]):
    """The present locators of a source as they are when a batch begins, by path.

    What is known of all of them is read at once: their paths, ETags and roles. The rest is read when it is
    asked for, since of a source that is as it was nothing more is needed.
    """

    def __init__(self, locators: Locators, namespace: str, source_id: str) -> None:
        self._locators, self._namespace, self._source_id = locators, namespace, source_id
        self._read: dict[str, Locator] = {}
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
    """The same in the words of a connector; of ``damaged`` sources without what would spare an answer."""

    def __init__(self, present: PresentLocators, damaged: bool) -> None:
        self._present, self._damaged = present, damaged
        self.etags = {} if damaged else present.etags
        self.roles = present.roles

    def __getitem__(self, path: str) -> Known:
        x = self._present[path]
        spared = (None, None) if self._damaged else (x.etag, x.last_modified)
        return Known(x.sha256, *spared, x.final_url or x.url, whole=not self._damaged)

    def __iter__(self) -> Iterator[str]:
        return iter(self._present)

    def __len__(self) -> int:
        return len(self._present)
