"""What is stored after a stage has run, for each materialization: rows, bytes, and where they lie.

It is there after a run without any change, too, so that the history that Dagster draws has no gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.published import published_table
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.workspace import Workspace


def stored(workspace: Workspace, stage: str, reports: Sequence[StageReport]) -> dict[str, Any]:
    """Return the metadata of what the tables of a stage hold: of the sources, or namespaces, that reported.

    Dagster's own keys speak of the first table, which is the one that loading the asset gives. Where a table
    cannot be opened nothing is returned: the stage itself has succeeded.
    """
    tables = CHAIN.stage(stage).tables
    if not tables:
        return {}
    rows, size = Counter[str](), 0
    places: list[str] = []
    names: list[str] = []
    try:
        for table in tables:
            for report in reports:
                found = published_table(workspace, report.namespace, report.source_id, stage, table.name)
                place = (report.namespace, found.owner, found.name)
                held = workspace.tables.size(*place, found.version)
                rows[table.name] += held.rows
                size += held.bytes
                if table is tables[0]:
                    places.append(_uri(workspace.tables.uri(*place)))
                    names.append(".".join(place))
    except TabootError:
        return {}
    first, *others = (table.name for table in tables)
    whole = tables[0].owner == "namespace"
    return {
        "dagster/row_count" if whole else "dagster/partition_row_count": rows[first],
        **{f"rows of {name}": rows[name] for name in others},
        "bytes stored": size,
        "dagster/uri": ", ".join(places),
        "dagster/table_name": ", ".join(names),
    }


def _uri(at: str) -> str:
    return at if "://" in at else Path(at).absolute().as_uri()
