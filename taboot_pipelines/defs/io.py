"""Tables as Dagster values: ``defs.load_asset_value("documents", partition_key=…)`` gives an Arrow table.

The stages publish their tables themselves, atomically with the catalog's pointer. So handling an output only
checks it, and loading an input reads the published version.
"""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa

from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.errors import unknown_sources
from taboot_pipelines.model.tables import TABLES
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.published import namespaces, read_published
from taboot_pipelines.stages.report import StageReport

KEY = "tables"


class TableIOManager(dg.ConfigurableIOManager):
    """Arrow tables with the declared schemas of ``model.tables``.

    Input metadata: ``table`` (another table of the asset than its first, such as ``relations`` of
    ``entity_snapshots``), ``columns``. Several partitions give a mapping from partition key to table, as
    Dagster's own managers do.
    """

    workspace: WorkspaceResource

    def handle_output(self, context: dg.OutputContext, obj: list[StageReport]) -> None:
        """Check that readers get what the stage reported: one bucket of each table must conform."""
        asset = context.asset_key.path[-1]
        for report in obj:
            if report.skipped is None:
                for table in CHAIN.stage(asset).tables:
                    bucketed = TABLES[table.schema][1] is not None
                    read_published(
                        self.workspace.open(),
                        report.namespace,
                        report.source_id,
                        asset,
                        table.name,
                        buckets=[0] if bucketed else None,
                    )

    def load_input(self, context: dg.InputContext) -> pa.Table | dict[str, pa.Table]:
        """Return the published table; of several partitions, a mapping from partition key to table.

        Raises ``E_SOURCE_UNKNOWN`` for a partition without a source, ``E_TABLE`` for a table that the
        asset does not have.
        """
        asset = context.asset_key.path[-1]
        metadata = context.definition_metadata or {}
        # Dagster gives an asset without partitions all of this one's, and has none before the first ingest
        # that it saw; the sources are known all the same.
        keys = context.asset_partition_keys or [
            row["source_id"] for row in self.workspace.open().catalog.sources.find()
        ]
        tables = {key: self._read(asset, key, metadata) for key in keys}
        return next(iter(tables.values())) if len(tables) == 1 else tables

    def _read(self, asset: str, source_id: str, metadata: Any) -> pa.Table:
        workspace = self.workspace.open()
        found = namespaces(workspace, source_id)
        if not found:
            raise unknown_sources([source_id])
        return read_published(
            workspace, found[-1], source_id, asset, metadata.get("table"), columns=metadata.get("columns")
        )
