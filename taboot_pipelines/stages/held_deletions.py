"""Deletions that wait for a person: which they are, and what is said of them.

Holds rule ``complete-enumeration``. What would take more than half of a source and more than ten documents,
or all that it has, is held until it is confirmed. A source that has left the sources file, or that has
changed its namespace, would take all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import orjson

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.model.records import (
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    NotModified,
    Role,
    Skipped,
    Stored,
    Unchanged,
)
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.source_state import PresentLocators
from taboot_pipelines.stages.workspace import Entry, Workspace, remembered_file
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.locators import Locator

#: Deletions that exceed both limits wait for a confirmation.
MASS_DELETE_SHARE = 0.5
MASS_DELETE_COUNT = 10

#: Where the ids of what is held are kept: a source's state, under no configuration of it.
_KEY, _CONFIGURATION = "held", ""
#: So many ids are kept for people to look at; the job has the number of all.
_MAX_KEPT = 10_000


@dataclass(frozen=True)
class Judged:
    """Which documents would go of how many, and whether that is held until a person confirms it."""

    deletions: tuple[Locator, ...]
    documents: int
    held: bool


@dataclass
class Listed:
    """What an enumeration of a source has told so far, by which it is judged what is gone.

    ``fresh`` is what :func:`fresh_paths` found.
    """

    known: PresentLocators
    fresh: set[str]
    seen: set[str] = field(default_factory=set)
    #: {path: code} of what its origin calls gone.
    gone: dict[str, str] = field(default_factory=dict)
    #: How often bytes were stored under a new path: a rename is not a
    #: deletion (rule ``complete-enumeration``).
    appeared: Counter[str] = field(default_factory=Counter)

    def take(self, event: Event) -> None:
        """Note what the event says of what is there."""
        match event:
            case NotModified():
                self._keep({event.path: event.role})
            case Unchanged():
                self._keep(event.roles)
            case Gone():
                self.gone[event.path] = event.code
            case Fetched() | Stored() | Failed():
                # The state of an item that failed is unknown, so what is known of it stays.
                self.seen.add(event.path)
            case Skipped() if not event.outside:
                self.seen.add(event.path)

    def holds(self, path: str, sha256: str) -> None:
        """Note which bytes a path has now."""
        if path not in self.known or path in self.fresh:
            self.appeared[sha256] += 1

    def absent(self, workspace: Workspace, entry: Entry, enumerated: Enumerated) -> list[Locator]:
        """Return what a complete enumeration did not see, and what the origin called gone."""
        paths = self.known.etags.keys() & self.gone.keys()
        if enumerated.complete:
            paths |= self.known.etags.keys() - self.seen
        if not paths:
            return []
        located = workspace.catalog.locators.at(entry.namespace, entry.source_id, paths)
        return [located[path] for path in sorted(paths) if path in located]

    def _keep(self, roles: Mapping[str, Role]) -> None:
        self.seen.update(roles)
        self.appeared.update(self.known[path].sha256 for path in self.fresh & roles.keys())


def judge(listed: Listed, absent: Sequence[Locator]) -> Judged:
    """Judge what a complete enumeration did not see.

    Each reappearance of bytes under a new path saves one path, since a rename is no deletion.
    """
    fresh, roles = listed.fresh, listed.known.roles
    documents = sum(role == "document" and path not in fresh for path, role in roles.items())
    left = listed.appeared.copy()
    deletions = []
    for x in absent:
        if x.role != "document" or x.path in fresh:
            continue
        if left[x.sha256] > 0:
            left[x.sha256] -= 1
        else:
            deletions.append(x)
    everything = len(deletions) > 0 and len(deletions) == documents
    many = len(deletions) > MASS_DELETE_COUNT and len(deletions) > MASS_DELETE_SHARE * documents
    return Judged(tuple(deletions), documents, many or everything)


def fresh_paths(catalog: Catalog, namespace: str, source_id: str, known: PresentLocators) -> set[str]:
    """Return the paths that first appeared in batches that were killed, failed or held deletions.

    Deletions are judged by what the last whole batch left: a file that moved while deletions were held has
    still moved when the next batch looks.
    """
    # As a rule the last job was whole, and the history behind it need not be read.
    for limit in (2, 1000):
        jobs = catalog.jobs.find(namespace, source_id, limit=limit)
        unfinished = {
            j["job_id"]
            for j in takewhile(lambda j: j["state"] != JobState.SUCCEEDED.value or j["held"], jobs)
        }
        if len(unfinished) < len(jobs) or len(jobs) < limit:
            break
    if not unfinished:
        return set()
    whole = jobs[len(unfinished)]["ended_at"] if len(unfinished) < len(jobs) else 0
    return {x.path for x in known.read_all() if x.job_id in unfinished and x.created_at > whole}


def hold(workspace: Workspace, entry: Entry, judged: Judged, report: StageReport) -> None:
    """Keep what would have gone: the report says so, and which documents they are is kept for people."""
    error = _error(workspace, entry, judged)
    count = len(judged.deletions)
    report.held.append(
        {"code": error.code, "message": error.message, "remedy": error.remedy, "deletions": count}
    )
    report.counts["held"] = count
    # Ids, not paths: of what is erased later nothing is to be found here.
    kept = orjson.dumps([x.doc_id for x in judged.deletions[:_MAX_KEPT]]).decode()
    workspace.catalog.source_states.save(entry.namespace, entry.source_id, _CONFIGURATION, {_KEY: kept})


def release(workspace: Workspace, entry: Entry) -> None:
    """Forget what was held: it was confirmed, or it is there again."""
    states = workspace.catalog.source_states
    if states.load(entry.namespace, entry.source_id, _CONFIGURATION):
        states.save(entry.namespace, entry.source_id, _CONFIGURATION, {_KEY: None})


def _error(workspace: Workspace, entry: Entry, judged: Judged) -> TabootError:
    source_id, count = entry.source_id, len(judged.deletions)
    confirm = f"`taboot ingest {source_id} --confirm-deletes`"
    if not entry.retiring:
        return TabootError(
            "E_MASS_DELETE",
            f"{count} of {documents(judged.documents)} of source {source_id} would be deleted; they are"
            " kept.",
            remedy=f"`taboot held` lists them; run {confirm} if it is right.",
            source=source_id,
        )
    why, back = left_because(workspace, entry)
    return TabootError(
        "E_MASS_DELETE",
        f"Source {source_id} {why}. All that it has ({documents(count)}) would be deleted; it is kept.",
        remedy=f"{back}, or run {confirm} to delete them.",
        source=source_id,
    )


def documents(count: int) -> str:
    return f"{count:,} document{'' if count == 1 else 's'}"


def left_because(workspace: Workspace, entry: Entry) -> tuple[str, str]:
    """Return why a source is retiring, as the rest of a sentence about it, and what would bring it back."""
    settings, namespace = workspace.settings, entry.namespace
    active = {
        row["namespace"]
        for row in workspace.catalog.sources.find(states=("active",))
        if row["source_id"] == entry.source_id
    }
    if active:
        other = min(active)
        return f"has moved from namespace {namespace} to {other}", f"Give it the namespace {namespace} again"
    former = remembered_file(workspace.catalog, namespace)
    if former is not None and former != settings.sources_file:
        return (
            f"is not in {settings.sources_file}; this home belongs to {former}",
            f"Set TABOOT_SOURCES to {former}, or TABOOT_HOME to another home",
        )
    return f"has left the sources file {settings.sources_file}", "Put it back into the file"


@dataclass(frozen=True)
class Held:
    """What waits for ``taboot ingest SOURCE --confirm-deletes`` in one source.

    ``deletions`` counts all documents that would go; ``documents`` are those whose ids are kept, at most ten
    thousand, and still there. ``reason`` is the rest of a sentence about the source.
    """

    namespace: str
    source_id: str
    reason: str
    deletions: int
    documents: tuple[Locator, ...]

    @property
    def command(self) -> str:
        return f"taboot ingest {self.source_id} --confirm-deletes"


def held(workspace: Workspace) -> Iterator[Held]:
    """Yield what waits for a confirmation at present, by namespace and source.

    A source that has left the file is among it before any run has looked at it.
    """
    catalog = workspace.catalog
    for row in catalog.sources.find():
        namespace, source_id = row["namespace"], row["source_id"]
        if row["state"] == "retiring":
            entry = next(e for e in workspace.entries_of(namespace) if e.source_id == source_id)
            present = _documents(catalog, namespace, source_id)
            if present:
                why, _ = left_because(workspace, entry)
                yield Held(namespace, source_id, why, len(present), present)
            continue
        job = catalog.jobs.last_succeeded(namespace, source_id)
        # A job without a configuration held the retirement of a source that has been put back since.
        if job is None or not job["held"] or job["configuration"] is None:
            continue
        kept = _kept(catalog, namespace, source_id)
        gone = tuple(x for x in _documents(catalog, namespace, source_id) if x.doc_id in kept)
        yield Held(namespace, source_id, "no longer has", job["held"], gone)


def _kept(catalog: Catalog, namespace: str, source_id: str) -> set[str]:
    value: Any = catalog.source_states.load(namespace, source_id, _CONFIGURATION).get(_KEY)
    return set(orjson.loads(value)) if value is not None else set()


def _documents(catalog: Catalog, namespace: str, source_id: str) -> tuple[Locator, ...]:
    present = catalog.locators.of_source(namespace, source_id)
    return tuple(x for _, x in sorted(present.items()) if x.role == "document")
