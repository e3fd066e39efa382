"""What a run would take in, before it does: which paths it would add, change and delete.

A local source is read as a run would read it; of a remote one, which a run would have to ask, the connector
says what it would ask for. Nothing is stored, and the entries of the catalog stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from taboot_pipelines.connectors.plans import Planned
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Failed,
    Fetched,
    Gone,
    NotModified,
    Role,
    Skipped,
    Stored,
    Unchanged,
)
from taboot_pipelines.sources.sources_file import SourcesFile
from taboot_pipelines.stages.held import fresh_paths, judge
from taboot_pipelines.stages.naming import did_you_mean
from taboot_pipelines.stages.opening import open_source, tombstoned_paths
from taboot_pipelines.stages.planning import plan_entry
from taboot_pipelines.stages.present_locators import KnownLocators, PresentLocators
from taboot_pipelines.stages.source_state import BatchState
from taboot_pipelines.stages.workspace import Entry, Workspace, stored_entry


@dataclass
class Foreseen:
    """What a run of a source would do; paths are sorted.

    ``entry``: ``new``, ``changed``, ``unchanged``, or ``gone`` for one that has left the sources file.
    ``held``: the deletions would wait for a confirmation. ``incomplete`` says why nothing would be deleted.
    ``passed`` is {path: code} of what is seen and not taken. ``plan`` is None for a local source; ``note``
    says why it is empty where it cannot be told. ``error`` is what the run would fail with before its first
    item.
    """

    namespace: str
    source: str
    type: str
    entry: str
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    held: bool = False
    unchanged: int = 0
    passed: dict[str, str] = field(default_factory=dict)
    incomplete: str = ""
    plan: list[Planned] | None = None
    note: str = ""
    error: TabootError | None = None


def foresee(workspace: Workspace, sources: SourcesFile, wanted: Collection[str] = ()) -> Iterator[Foreseen]:
    """Yield what a run would do, source by source: those ``wanted``, or all.

    Raises ``E_SOURCE_UNKNOWN`` for one that neither the file nor the catalog has.
    """
    rows = {(r["namespace"], r["source_id"]): r for r in workspace.catalog.sources.find()}
    entries = {
        (e.namespace, e.id): Entry(e.namespace, e.id, "active", e, sources.root)
        for e in sources.entries.values()
    }
    gone = [key for key in rows if key not in entries]
    known = {source_id for _, source_id in (*entries, *rows)}
    unknown = [s for s in wanted if s not in known]
    if unknown:
        raise unknown_sources(unknown, known)
    for key in [*gone, *entries]:
        if wanted and key[1] not in wanted:
            continue
        if key in entries:
            yield _of_entry(workspace, entries[key], rows.get(key))
        else:
            yield _of_leaving(workspace, stored_entry(rows[key]))


def unknown_sources(unknown: Sequence[str], known: Collection[str]) -> TabootError:
    """What is said of names that no source has, with those ``known`` that are nearest to the first."""
    return TabootError(
        "E_SOURCE_UNKNOWN",
        f"There is no source {', '.join(map(repr, unknown))}.{did_you_mean(unknown[0], known)}",
        sources=list(unknown),
    )


def _of_leaving(workspace: Workspace, entry: Entry) -> Foreseen:
    """All that it has would go, once that is confirmed."""
    known = PresentLocators(workspace.catalog.locators, entry.namespace, entry.source_id)
    held = any(role == "document" for role in known.roles.values())
    return Foreseen(
        entry.namespace, entry.source_id, entry.config.type, "gone", deleted=sorted(known), held=held
    )


def _of_entry(workspace: Workspace, entry: Entry, row: Mapping[str, str] | None) -> Foreseen:
    said = "new" if row is None else "changed" if row["config"] != entry.config.config_json() else "unchanged"
    found = Foreseen(entry.namespace, entry.source_id, entry.config.type, said)
    try:
        if getattr(entry.config, "path", None) is None:
            found.plan = []
            found.plan += plan_entry(workspace, entry)
        else:
            _read(workspace, entry, found)
    except TabootError as error:
        if error.code == "E_QUERY":
            found.note = f"{error.message} {error.remedy}"
        else:
            found.error = error
    return found


def _read(workspace: Workspace, entry: Entry, found: Foreseen) -> None:
    """Enumerate a local source as a run would, and compare with what is there."""
    present = PresentLocators(workspace.catalog.locators, entry.namespace, entry.source_id)
    fresh = fresh_paths(workspace.catalog, entry.namespace, entry.source_id, present)
    state = BatchState(workspace.catalog, entry, damaged=False)
    connector = open_source(workspace, entry, present, None, state)
    events = connector.events(KnownLocators(present, False), tombstoned_paths(workspace, entry))
    seen: set[str] = set()
    gone: set[str] = set()
    appeared: Counter[str] = Counter()

    def same(roles: Mapping[str, Role]) -> None:
        found.unchanged += len(roles)
        seen.update(roles)
        appeared.update(present[path].sha256 for path in fresh & roles.keys())

    enumerated = Enumerated(False, "the connector ended early")
    for event in events:
        match event:
            case Fetched() | Stored():
                seen.add(event.path)
                sha256 = event.sha256 if isinstance(event, Stored) else ids.sha256_hex(event.data)
                old = present.get(event.path)
                if old is None or event.path in fresh:
                    appeared[sha256] += 1
                if old is None:
                    found.added.append(event.path)
                elif old.sha256 != sha256:
                    found.changed.append(event.path)
                else:
                    found.unchanged += 1
            case NotModified():
                same({event.path: event.role})
            case Unchanged():
                same(event.roles)
            case Skipped():
                found.passed[event.path] = event.code
                if not event.outside:
                    seen.add(event.path)
            case Failed():
                found.passed[event.path] = event.error.code
                seen.add(event.path)
            case Gone():
                gone.add(event.path)
            case Checkpoint():
                pass
            case Enumerated():
                # Whoever asks for the next event says that this one was applied.
                enumerated = event
                break
    paths = present.etags.keys() & gone
    if enumerated.complete:
        paths |= present.etags.keys() - seen
    else:
        found.incomplete = enumerated.reason
    located = workspace.catalog.locators.at(entry.namespace, entry.source_id, paths) if paths else {}
    absent = [located[path] for path in sorted(located)]
    found.held = judge(present, absent, fresh, appeared).held
    found.deleted = [x.path for x in absent]
    found.added.sort()
    found.changed.sort()
