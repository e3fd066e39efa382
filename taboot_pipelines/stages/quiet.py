"""Finds among many sources those with nothing new, by a few questions to the catalog for all of them.

To run all stages of a source costs some forty transactions, whether or not anything has changed. Here nothing
is written and no lease is held: of a source that reads a directory everything is compared with the state of
the catalog as of one moment, as each stage itself would compare it. A source that has news, or of which that
cannot be told so cheaply, is not among the answers and is to be run.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from taboot_pipelines.connectors.entries import DirectorySource
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.model.records import Enumerated, Unchanged
from taboot_pipelines.stages import raw_blobs
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.source_state import (
    KnownLocators,
    PresentLocators,
    fingerprint,
    open_source,
    tombstoned_paths,
)
from taboot_pipelines.stages.stage import SourceWork, StageDue
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Entry, Workspace, stored_entry
from taboot_pipelines.stores.blobs import UNREADABLE
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.catalog.writing import now_micros

_log = logging.getLogger(__name__)

#: So many sources are looked at together.
TOGETHER = 256
#: A larger source is run: what is known of its items is not held in memory beside that of others.
_MAX_ITEMS = 256
#: Letters of these codes ask for a run, whatever their kind.
_MENDED = raw_blobs.DAMAGED | UNREADABLE


@dataclass(frozen=True)
class Quiet:
    """A source with nothing new: its entry, what its stages would report, and its last job."""

    entry: Entry
    reports: list[StageReport]
    job: Mapping[str, Any]


@dataclass
class _State:
    """What the catalog knows of some sources of a namespace, each by source id."""

    workspace: Workspace
    namespace: str
    entries: list[Entry]
    jobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pointers: dict[str, dict[str, Pointer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        catalog, names = self.workspace.catalog, [entry.source_id for entry in self.entries]
        self.jobs = catalog.jobs.last(self.namespace, names)
        self.listed = catalog.locators.listed(self.namespace, [n for n in names if self._is_small(n)])
        self.positions = catalog.locators.positions(self.namespace, names)
        self.tombstones = catalog.tombstones.all(self.namespace)
        self.busy = catalog.dead_letters.failing(self.namespace, _MENDED) | catalog.choices.sources(
            self.namespace
        )
        stages = [stage.name for stage in CHAIN.of_source]
        for (owner, stage), pointer in catalog.pointers.of_stages(self.namespace, stages, names).items():
            self.pointers.setdefault(owner, {})[stage] = pointer

    def _is_small(self, source_id: str) -> bool:
        job = self.jobs.get(source_id)
        return job is not None and (job["discovered"] or 0) <= _MAX_ITEMS

    def quiet(self, entry: Entry) -> Quiet | None:
        """Return what a run of the source would report, if it would find nothing new."""
        job, listed = self.jobs.get(entry.source_id), self.listed.get(entry.source_id, [])
        if (
            job is None
            or entry.source_id in self.busy
            or job["state"] != JobState.SUCCEEDED.value
            or not job["complete"]
            or any(job[count] for count in ("held", "skipped", "failed"))
            or job["discovered"] != len(listed)
            or job["configuration"] != fingerprint(self.workspace.settings, entry)
            or self.workspace.blobs.lacks(self.namespace, {row[3]: row[4] for row in listed})
            or not self._is_listed(entry)
        ):
            return None
        reports = list(self._reports(entry, len(listed)))
        return Quiet(entry, reports, job) if len(reports) == len(CHAIN.of_source) else None

    def _is_listed(self, entry: Entry) -> bool:
        """Whether the source lists exactly what is known of it, all of it as it was."""
        rows = [(path, etag, role) for path, etag, role, _, _ in self.listed.get(entry.source_id, [])]
        present = PresentLocators(self.workspace.catalog.locators, self.namespace, entry.source_id, rows)
        connector = open_source(self.workspace, entry, present, None)
        events = connector.events(
            KnownLocators(present, damaged=False), tombstoned_paths(self.workspace, entry, self.tombstones)
        )
        seen: dict[str, str] = {}
        for event in events:
            match event:
                case Unchanged():
                    seen |= event.roles
                case Enumerated():
                    return event.complete and seen == present.roles
                case _:
                    return False
        return False

    def _reports(self, entry: Entry, items: int) -> Iterator[StageReport]:
        """Yield the reports of the source's stages, up to one that has something to do."""
        published = self.pointers.get(entry.source_id, {})
        listing = ids.digest("log", self.positions.get(entry.source_id, 0))
        raw = published.get(CHAIN.first.name)
        if raw is None or raw.inputs != listing:
            return
        there = {n for pointer in published.values() for n, v in pointer.tables.items() if v is not None}
        if not there <= set(self.workspace.tables.names(self.namespace, entry.source_id)):
            return
        counts = {**dict.fromkeys(raw_blobs.LEDGER, 0), "discovered": items, "not_modified": items}
        yield StageReport(
            CHAIN.first.name,
            entry.source_id,
            self.namespace,
            counts={**counts, "present": items},
            data_version=listing,
        )
        for stage in CHAIN.derived:
            report = StageReport(stage.name, entry.source_id, self.namespace)
            if not {stage.name, *stage.needs} <= published.keys():
                return
            work = SourceWork(
                self.workspace,
                entry,
                stage.name,
                report,
                upstream={name: published[name] for name in stage.needs},
                old=published[stage.name],
                looking=True,
            )
            try:
                stage.run(work)
            except StageDue:
                return
            yield report


def quiet_sources(workspace: Workspace, source_ids: Collection[str]) -> dict[str, Quiet]:
    """Return those of some sources that have nothing new, by id: at most :data:`TOGETHER` at once."""
    entries: dict[str, list[Entry]] = {}
    wanted = set(source_ids)
    for row in workspace.catalog.sources.find():
        if row["source_id"] in wanted:
            entries.setdefault(row["source_id"], []).append(stored_entry(row))
    found: dict[str, Quiet] = {}
    settled: dict[str, list[Entry]] = {}
    for several in entries.values():
        entry = several[0]
        if (
            len(several) == 1
            and not (entry.retiring or entry.paused)
            and isinstance(entry.config, DirectorySource)
        ):
            settled.setdefault(entry.namespace, []).append(entry)
    for namespace, of_namespace in settled.items():
        # What goes wrong here is told by the run, which meets it too.
        with contextlib.suppress(TabootError):
            upgrade_tables(workspace, namespace)
            if workspace.blobs.waiting is not None and workspace.catalog.uploads.due(namespace, now_micros()):
                continue
            state = _State(workspace, namespace, of_namespace)
            for entry in of_namespace:
                if (quiet := _looked_at(state, entry)) is not None:
                    found[entry.source_id] = quiet
    return found


def _looked_at(state: _State, entry: Entry) -> Quiet | None:
    try:
        return state.quiet(entry)
    except TabootError:
        return None
    # A defect of a reader costs its source alone, and the run of that source tells of it.
    except Exception as error:  # noqa: BLE001
        _log.debug("a source could not be looked at", extra={"reason": type(error).__name__})
        return None
