"""What connectors keep of their sources from one run to the next: cursors, ETags, signatures of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import parts, upsert


class SourceStates:
    """Texts by key, of each source. They hold for one configuration of it: saved under another they are as
    if they were not there."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def load(self, namespace: str, source_id: str, configuration: str) -> dict[str, str]:
        """All that was saved under this configuration."""
        s = t.source_state
        with self.database.read(namespace) as c:
            rows = c.execute(
                sa.select(s.c.key, s.c.value).where(
                    s.c.namespace == namespace,
                    s.c.source_id == source_id,
                    s.c.configuration == configuration,
                )
            )
            return {r.key: r.value for r in rows}

    @retried
    def save(
        self, namespace: str, source_id: str, configuration: str, values: Mapping[str, str | None]
    ) -> None:
        """Keep these values, and forget those that are None, in one transaction."""
        s = t.source_state
        with self.database.begin(namespace) as c:
            for part in parts(sorted(k for k, v in values.items() if v is None)):
                c.execute(
                    sa.delete(s).where(
                        s.c.namespace == namespace, s.c.source_id == source_id, s.c.key.in_(part)
                    )
                )
            kept = [(k, v) for k, v in values.items() if v is not None]
            if kept:
                upsert(
                    c,
                    s,
                    [
                        {
                            "namespace": namespace,
                            "source_id": source_id,
                            "key": key,
                            "configuration": configuration,
                            "value": value,
                        }
                        for key, value in kept
                    ],
                )

    @retried
    def forget(self, namespace: str, source_ids: Iterable[str]) -> None:
        """Forget all of these sources, so that each is enumerated as for the first time."""
        with self.database.begin(namespace) as c:
            for source_id in sorted(set(source_ids)):
                self.forget_within(c, namespace, source_id)

    def forget_within(self, c: Connection, namespace: str, source_id: str) -> None:
        """The same of one source in the transaction of another subject."""
        s = t.source_state
        c.execute(sa.delete(s).where(s.c.namespace == namespace, s.c.source_id == source_id))
