"""What a run would do, before it does: which paths it would add, change and delete, and what it would ask.

A local source is read as a run would read it; of a remote one the connector says what it would ask for; of a
tier that asks a chat model, how many windows of text and tokens that would be. Nothing is stored, and the
entries of the catalog stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from taboot_pipelines.connectors.protocol import Planned, Planner
from taboot_pipelines.errors import TabootError, unknown_sources
from taboot_pipelines.knowledge.document_units import SourceDocuments
from taboot_pipelines.knowledge.window_units import WindowCutter, WindowRow
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Failed,
    Fetched,
    Gone,
    NotModified,
    Skipped,
    Stored,
    Unchanged,
)
from taboot_pipelines.sources.sources_file import SourcesFile
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.held_deletions import Listed, fresh_paths, judge
from taboot_pipelines.stages.letter_retries import WindowLetters
from taboot_pipelines.stages.quotas import questions_of, room
from taboot_pipelines.stages.source_state import (
    BatchState,
    KnownLocators,
    PresentLocators,
    open_source,
    tombstoned_paths,
)
from taboot_pipelines.stages.tier_c_triples import asking_of
from taboot_pipelines.stages.workspace import Entry, Workspace, stored_entry

#: Documents whose texts are held at once.
_SLICE = 256


@dataclass(frozen=True, slots=True)
class Count:
    """So many windows, and the tokens of the questions about them."""

    windows: int = 0
    tokens: int = 0

    def plus(self, one: WindowRow) -> Count:
        return Count(self.windows + 1, self.tokens + one.tokens)


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The windows of a source's documents: those that a run would ask about (each text once), those that were
    answered before, and those that rest after a failure or are too long. A budget or a quota may end the run
    earlier.
    """

    documents: int
    asked: Count
    cached: Count
    resting: Count


def plan(workspace: Workspace, entry: Entry) -> Iterator[Planned]:
    """Yield the parts of the plan; none where there is no chat model. Without its name, which a server may
    have to be asked for, nobody knows which windows were answered before: the note then says so."""
    if workspace.chat is None:
        return
    try:
        found = window_plan(workspace, entry)
    except TabootError as error:
        if error.code not in ("E_LLM", "E_LLM_TIMEOUT", "E_CIRCUIT_OPEN"):
            raise
        yield Planned("windows to ask about", note=f"{error.code}: {error.message}")
        return
    limits = [
        f"at most {limit:,} {of}"
        for limit, of in (
            (workspace.settings.extraction.budget_tokens, "tokens a run, answers included"),
            (questions_of(workspace, entry.namespace).left, "more this month"),
        )
        if limit is not None
    ]
    of_documents = f"of the {found.documents:,} documents that are parsed"
    yield Planned(
        "windows to ask about",
        requests=found.asked.windows,
        items=found.asked.windows,
        tokens=found.asked.tokens,
        note="; ".join([of_documents, *limits]),
    )
    yield Planned(
        "windows answered before", requests=0, items=found.cached.windows, tokens=found.cached.tokens
    )
    if found.resting.windows:
        yield Planned(
            "windows that failed",
            requests=0,
            items=found.resting.windows,
            tokens=found.resting.tokens,
            note="`taboot letters list` shows them",
        )


def window_plan(workspace: Workspace, entry: Entry) -> WindowPlan:
    """Count the windows of the documents as the stage ``documents`` last published them."""
    assert workspace.chat is not None
    settings, catalog = workspace.settings, workspace.catalog
    asking = asking_of(settings, workspace.chat.model, None)
    pointer = catalog.pointers.get(entry.namespace, entry.source_id, documents.STAGE)
    version = None if pointer is None else pointer.tables[documents.STAGE]
    listing = SourceDocuments(workspace.tables, entry.namespace, entry.source_id, version)
    cutter = WindowCutter(listing, asking, settings.extraction.window_tokens)
    letters = WindowLetters(catalog, entry.namespace, entry.source_id)
    asked, cached, resting = Count(), Count(), Count()
    seen: set[str] = set()
    doc_ids = sorted(listing.listed)
    for begin in range(0, len(doc_ids), _SLICE):
        texts = listing.texts(doc_ids[begin : begin + _SLICE])
        cut = [
            one
            for doc_id, (text, _) in sorted(texts.items())
            for one in cutter.cut(doc_id, text, listing.listed[doc_id].mime)
        ]
        known = catalog.answers.known(entry.namespace, [one.key for one in cut])
        for one in cut:
            if one.key in known:
                cached = cached.plus(one)
            elif one.window.over or letters.attempt(one.key) is None:
                resting = resting.plus(one)
            elif one.key not in seen:
                seen.add(one.key)
                asked = asked.plus(one)
    return WindowPlan(len(doc_ids), asked, cached, resting)


def plan_of(workspace: Workspace, source_id: str) -> Iterator[Planned]:
    """The parts of the next run of a source; nothing is stored.

    Raises ``E_SOURCE_UNKNOWN``, and what the run would raise before its first item. A crawl cannot be planned
    (``E_QUERY``): what its lists name is shown by ``taboot discover``. Where a chat model is configured, what
    it would be asked about the documents that are there can be told all the same.
    """
    entries = [e for e in workspace.entries(source_id) if not e.retiring]
    if not entries:
        raise unknown_sources([source_id])
    yield from plan_entry(workspace, entries[0])


def plan_entry(workspace: Workspace, entry: Entry) -> Iterator[Planned]:
    """The same of an entry that the catalog need not have. Raises as :func:`plan_of`."""
    present = PresentLocators(workspace.catalog.locators, entry.namespace, entry.source_id)
    state = BatchState(workspace.catalog, entry, damaged=False)
    connector = open_source(workspace, entry, present, None, state)
    asked = list(plan(workspace, entry))
    if isinstance(connector, Planner):
        yield from connector.plan()
        yield from _room(workspace, entry.namespace)
    elif not asked:
        raise TabootError(
            "E_QUERY",
            f"A source of the type {entry.config.type} cannot tell what a run would ask for.",
            remedy="`taboot discover URL` shows what the lists of a site name.",
            source=entry.source_id,
        )
    yield from asked


def _room(workspace: Workspace, namespace: str) -> Iterator[Planned]:
    """What the namespace may take in beside what it holds, where that is limited."""
    left = room(workspace, namespace)
    if left:
        yield Planned(
            "room left by the quota",
            items=left.get("documents"),
            bytes=left.get("bytes"),
            note="beyond it items are passed over (E_QUOTA); `taboot usage` shows all quotas",
        )


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
            left = room(workspace, entry.namespace).get("documents") if found.added else None
            if left is not None and len(found.added) > left:
                found.note = (
                    f"The quota leaves room for {left:,} more documents: the rest is passed over (E_QUOTA)."
                )
    except TabootError as error:
        if error.code == "E_QUERY":
            found.note = f"{error.message} {error.remedy}"
        else:
            found.error = error
    return found


def _read(workspace: Workspace, entry: Entry, found: Foreseen) -> None:
    """Enumerate a local source as a run would, and compare with what is there."""
    present = PresentLocators(workspace.catalog.locators, entry.namespace, entry.source_id)
    listed = Listed(present, fresh_paths(workspace.catalog, entry.namespace, entry.source_id, present))
    state = BatchState(workspace.catalog, entry, damaged=False)
    connector = open_source(workspace, entry, present, None, state)
    expired = workspace.catalog.locators.expired(entry.namespace, entry.source_id)
    events = connector.events(KnownLocators(present, False, expired), tombstoned_paths(workspace, entry))
    enumerated = Enumerated(False, "the connector ended early")
    for event in events:
        listed.take(event)
        match event:
            case Fetched() | Stored():
                sha256 = event.sha256 if isinstance(event, Stored) else ids.sha256_hex(event.data)
                old = present.get(event.path)
                listed.holds(event.path, sha256)
                if event.path in expired and expired[event.path].sha256 == sha256:
                    found.passed[event.path] = "E_TOMBSTONED"
                elif old is None:
                    found.added.append(event.path)
                elif old.sha256 != sha256:
                    found.changed.append(event.path)
                else:
                    found.unchanged += 1
            case NotModified() | Unchanged():
                for path in event.roles if isinstance(event, Unchanged) else (event.path,):
                    if path in expired:
                        found.passed[path] = "E_TOMBSTONED"
                    else:
                        found.unchanged += 1
            case Skipped():
                found.passed[event.path] = event.code
            case Failed():
                found.passed[event.path] = event.error.code
            case Gone() | Checkpoint():
                pass
            case Enumerated():
                # Whoever asks for the next event says that this one was applied.
                enumerated = event
                break
    if not enumerated.complete:
        found.incomplete = enumerated.reason
    absent = listed.absent(workspace, entry, enumerated)
    found.held = judge(listed, absent).held
    found.deleted = [x.path for x in absent]
    found.added.sort()
    found.changed.sort()
