"""What tier_c_triples would ask about the documents of a source, counted before any call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taboot_pipelines.connectors.plans import Planned
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.document_units import SourceDocuments
from taboot_pipelines.knowledge.window_units import WindowCutter, WindowRow
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.tier_c_triples import asking_of
from taboot_pipelines.stages.window_letters import WindowLetters
from taboot_pipelines.stages.workspace import Entry, Workspace

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
            (workspace.catalog.quotas.of(entry.namespace, _questions(workspace)).left, "more this month"),
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
    asking = asking_of(settings, workspace.chat.model)
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


def _questions(workspace: Workspace) -> int | None:
    return workspace.settings.extraction.questions_per_month
