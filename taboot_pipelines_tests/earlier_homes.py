"""Makes a home of today into one that an earlier release would have written, in place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.tables import NAMESPACE


def table(home: Path, owner: str, name: str, namespace: str = "default") -> Path:
    return home / "tables" / namespace / owner / name


def without_column(folder: Path, column: str) -> None:
    """Take a column out of a table as if it had never been declared: same id, versions and files.

    The column stays in the data files, as it does where Delta drops one; nothing reads it any more.
    """
    assert not list((folder / "_delta_log").glob("*.checkpoint*")), "a checkpoint repeats the schema"
    changed = 0
    for log in sorted((folder / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "metaData" in action:
                schema = json.loads(action["metaData"]["schemaString"])
                left = [field for field in schema["fields"] if field["name"] != column]
                changed += len(schema["fields"]) - len(left)
                action["metaData"]["schemaString"] = json.dumps({**schema, "fields": left})
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert changed, f"{folder.name} has no column {column}"


def without_stage(catalog: Catalog, home: Path, stage: str, *tables: str, namespace: str = "default") -> None:
    """Take out a stage of sources that did not exist yet: its tables, its pointers, and what others note of
    its tables."""
    for row in catalog.sources.find(namespace):
        catalog.pointers.drop(namespace, row["source_id"], [stage])
        for name in tables:
            shutil.rmtree(table(home, row["source_id"], name, namespace), ignore_errors=True)


def without_record(catalog: Catalog, namespace: str = "default") -> None:
    """Take out what says which columns the tables have: no release before 0.2.0 wrote it."""
    catalog.pointers.drop(namespace, NAMESPACE, ["table_schemas"])
