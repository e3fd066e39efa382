"""Tells Dagster what an ingest did that ran without it, by events that belong to no run.

The UI then shows of every partition and check what a run of its own would have left there. An event is told
only where it says something new, so that an ingest which finds nothing to do leaves nothing.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from taboot_pipelines.defs.checks import evaluation
from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines.defs.materialize import materialization
from taboot_pipelines.defs.partitions import NAME, apply_change, partition_change
from taboot_pipelines.defs.sweeper import sweep_dead_runs
from taboot_pipelines.ingesting import Memory, Published
from taboot_pipelines.stages.workspace import Workspace


class Reporter:
    """Tells Dagster of the steps of one ingest; its storage is opened at the first that has something new.

    Raises ``E_STORAGE`` if that storage cannot be used. What was not told is told by the next ingest.
    """

    def __init__(self, workspace: Workspace, memory: Memory) -> None:
        self._workspace, self._memory = workspace, memory
        self._stack = ExitStack()
        self._instance: dg.DagsterInstance | None = None
        for name in ("dagster", "alembic"):
            # They log every event to the terminal.
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def report(self, step: Published) -> None:
        """Tell what is new in a step, and make the partitions equal to the sources."""
        if self._instance is None:
            settings = self._workspace.settings
            self._instance = self._stack.enter_context(open_instance(settings))
            self._stack.enter_context(_kept_open(settings.dagster_home))
            sweep_dead_runs(self._instance)
        apply_change(self._instance, partition_change(self._instance, self._workspace))
        untold = self._memory.untold(step)
        for (source, stage), reports in untold.items():
            self._instance.report_runless_asset_event(
                materialization(self._workspace, stage, source, reports)
            )
        for check, result in self._memory.untold_checks(step, {stage for _, stage in untold}):
            self._instance.report_runless_asset_event(evaluation(check, result))
            self._memory.checks[check.key] = result.passed
        self._memory.told(untold, self._instance.get_dynamic_partitions(NAME))
        self._memory.save()

    def close(self) -> None:
        self._stack.close()


@contextmanager
def _kept_open(home: Path) -> Iterator[None]:
    """Let the thousands of events of an ingest not wait for the disk one by one, where Dagster uses SQLite.

    Dagster opens a connection for each statement, and whoever closes the last one of a database has its log
    written back. In WAL mode the databases stay whole in any case, and every commit survives the death of the
    process; only a loss of power may take the last events.
    """

    def connected(connection: Any, _record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            files = [Path(path) for _, _, path in connection.execute("PRAGMA database_list") if path]
            if any(path.is_relative_to(home) for path in files):
                connection.execute("PRAGMA synchronous=NORMAL")

    sa.event.listen(Engine, "connect", connected)
    try:
        with ExitStack() as stack:
            for path in home.rglob("*.db"):
                held = stack.enter_context(closing(sqlite3.connect(path)))
                held.execute("PRAGMA schema_version")
            yield
    finally:
        sa.event.remove(Engine, "connect", connected)
