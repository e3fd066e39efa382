"""What has been written into Neo4j, by bucket.

A run compares with this table, so that it asks the server for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from taboot_pipelines.model.tables import GRAPH_ROWS
from taboot_pipelines.stages.housekeeping import STALE_FILES
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion

#: (label or type, id) -> fingerprint; "" if it is unknown whether the row was written.
Rows = dict[tuple[str, str], str]
UNSURE = ""


class Ledger:
    """The table ``graph.nodes`` or ``graph.edges`` of a namespace.

    It follows the server and not the catalog's pointer: the entries of a killed run stay.
    """

    def __init__(self, workspace: Workspace, namespace: str, name: str, txn: str) -> None:
        self._tables, self._namespace, self._name, self._txn = workspace.tables, namespace, name, txn

    def version(self) -> TableVersion | None:
        return self._tables.version(self._namespace, NAMESPACE, self._name)

    def load(self, buckets: Collection[int] | None = None) -> dict[int, Rows]:
        table = self._tables.read(self._namespace, NAMESPACE, self._name, self.version(), buckets=buckets)
        found: dict[int, Rows] = {}
        for bucket, label, id_, fingerprint in zip(
            *(table.column(c).to_pylist() for c in GRAPH_ROWS.names), strict=True
        ):
            found.setdefault(bucket, {})[label, id_] = fingerprint
        return found

    def store(self, rows: Mapping[int, Rows]) -> None:
        """Replace these buckets."""
        if rows:
            self._replace(
                ((b, *key, f) for b in sorted(rows) for key, f in sorted(rows[b].items())), rows.keys()
            )

    def start_over(self, rows: Mapping[int, Rows]) -> None:
        """Replace the whole table."""
        self._replace(((b, *key, f) for b in sorted(rows) for key, f in sorted(rows[b].items())), None)

    def tidy(self) -> None:
        """Remove old files if there are many; nobody reads this table without the namespace's lease."""
        if self._tables.stale_files(self._namespace, NAMESPACE, self._name) >= STALE_FILES:
            self._tables.vacuum(self._namespace, NAMESPACE, self._name)

    def _replace(self, rows: Iterable[tuple[int, str, str, str]], buckets: Collection[int] | None) -> None:
        columns = list(zip(*rows, strict=True)) or [()] * len(GRAPH_ROWS)
        table = pa.table(
            {f.name: pa.array(c, f.type) for f, c in zip(GRAPH_ROWS, columns, strict=True)}, schema=GRAPH_ROWS
        )
        self._tables.replace(self._namespace, NAMESPACE, self._name, table, buckets=buckets, txn=self._txn)
