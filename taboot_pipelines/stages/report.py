"""What a stage says about its work: shown by the command line and as Dagster metadata.

A report never holds document text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class StageReport:
    """What one run of a stage did and where its result is.

    It has counts by name (new, reused, removed, failed …), and problems as error codes with ids.
    """

    stage: str
    source_id: str
    namespace: str
    counts: dict[str, int] = field(default_factory=dict)
    #: {"code", "item", "message"}; at most the first hundred, while ``counts["failed"]`` counts all.
    problems: list[dict[str, str]] = field(default_factory=list)
    #: Why items were skipped: {code: how many}.
    reasons: dict[str, int] = field(default_factory=dict)
    #: Error codes that a person must act on (E_MASS_DELETE), though the stage itself succeeded.
    held: list[dict[str, Any]] = field(default_factory=list)
    #: Limits that a person set and that ended the work early (E_QUOTA): no failure, the next run goes on.
    limited: list[dict[str, str]] = field(default_factory=list)
    tables: dict[str, str | None] = field(default_factory=dict)
    #: A few rows of ids and counts, as examples.
    sample: list[dict[str, Any]] = field(default_factory=list)
    #: A crawl's ledger: counts by ``depth``, of the crawl that ``crawl`` names.
    ledger: list[dict[str, Any]] = field(default_factory=list)
    #: Why there was nothing to do: ``unchanged``, or the setting that is missing.
    skipped: str | None = None
    data_version: str = ""
    seconds: float = 0.0
    bytes: int = 0

    @property
    def changed(self) -> bool:
        """Whether the stage had something to do, or something to tell, beyond having looked."""
        looked = {"discovered", "not_modified", "skipped", "failed", "present"}
        idle = not any(count for name, count in self.counts.items() if name not in looked)
        return self.skipped is None and not ("discovered" in self.counts and idle)

    def add(self, name: str, count: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + count

    def problem(self, code: str, item: str, message: str) -> None:
        if len(self.problems) < 100:
            self.problems.append({"code": code, "item": item, "message": message})


@contextmanager
def reporting(stage: str, source_id: str, namespace: str) -> Iterator[StageReport]:
    """Give a report whose ``seconds`` are those of the block."""
    report = StageReport(stage, source_id, namespace)
    start = time.perf_counter()
    try:
        yield report
    finally:
        report.seconds = time.perf_counter() - start
