"""Runs of a connector over what the catalog would keep of it, without the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.model.records import Enumerated
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines_tests.connectors.mirror import Catalog


class Kept(Catalog):
    """Runs of entries of the sources file."""

    def run(
        self,
        entry: Mapping[str, Any],
        access: Access,
        *,
        tombstoned: Callable[[str], bool] = lambda _: False,
        kill_after: int | None = None,
    ) -> Enumerated | None:
        """One run; None if it was killed after so many events."""
        access = replace(access, state=self.state)
        return self.apply(open_connector(parse_entry({"id": "s", **entry}), access), tombstoned, kill_after)


def access_to(root: Path, secrets: Mapping[str, str] | None = None, **fields: Any) -> Access:
    """What a connector of mail may use: files in ``root``, texts attached to mails, and these secrets."""
    from pydantic import SecretStr

    from taboot_pipelines.documents.forms.mail import attached_texts
    from taboot_pipelines.errors import TabootError

    def secret(name: str) -> SecretStr:
        if name not in (secrets or {}):
            raise TabootError("E_CONFIG", f"The environment variable {name} is not set.", settings=[name])
        return SecretStr((secrets or {})[name])

    access = Access.of(Settings(home=root / ".home"), root, attachments=attached_texts)
    return replace(access, secrets=secret, **fields)
