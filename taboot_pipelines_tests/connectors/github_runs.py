"""Runs of the connector of ``github`` against a store in memory that is durable as the real one is."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pydantic import SecretStr

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import client
from taboot_pipelines.crawl.following import StoredPage
from taboot_pipelines.extraction.tier_a.compose.references import project_files, references
from taboot_pipelines.model.records import Enumerated, Fetched
from taboot_pipelines.settings import LimitSettings, Settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines_tests.connectors.mirror import Catalog
from taboot_pipelines_tests.fakes.github import TOKEN

#: No certificates are read for servers on loopback.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Store(Catalog):
    """Runs of one entry."""

    def __init__(self) -> None:
        super().__init__()
        self.tombstones: set[str] = set()

    @property
    def items(self) -> dict[str, Fetched]:
        return self.documents

    def run(self, base_url: str, *, kill_after: int | None = None, **fields: Any) -> Enumerated | None:
        """One run; None if it was killed after so many events."""
        access = self.access(fields.pop("limit", 1_000_000))
        connector = open_connector(entry_of(base_url, **fields), access)
        with patch.object(client, "_trusted", lambda: _NO_TLS):
            return self.apply(connector, self.tombstones.__contains__, kill_after)

    def access(self, limit: int = 1_000_000) -> Access:
        def stored(path: str) -> StoredPage | None:
            x = self.items.get(path)
            return None if x is None else StoredPage(x.data, x.mime, x.charset)

        access = Access.of(
            Settings(limits=LimitSettings(max_blob_bytes=limit)),
            Path(),
            references=references,
            project_files=project_files,
            stored_page=stored,
            state=self.state,
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
