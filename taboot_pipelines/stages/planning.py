"""What a run of a source would ask its origin for, and a chat model."""

from __future__ import annotations

from collections.abc import Iterator

from taboot_pipelines.connectors.plans import Planned, Planner
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import tier_c_plan
from taboot_pipelines.stages.opening import open_source
from taboot_pipelines.stages.present_locators import PresentLocators
from taboot_pipelines.stages.source_state import BatchState
from taboot_pipelines.stages.workspace import Entry, Workspace


def plan_of(workspace: Workspace, source_id: str) -> Iterator[Planned]:
    """The parts of the next run of a source; nothing is stored.

    Raises ``E_SOURCE_UNKNOWN``, and what the run would raise before its first item. A crawl cannot be planned
    (``E_QUERY``): what its lists name is shown by ``taboot discover``. Where a chat model is configured, what
    it would be asked about the documents that are there can be told all the same.
    """
    entries = [e for e in workspace.entries(source_id) if not e.retiring]
    if not entries:
        raise TabootError("E_SOURCE_UNKNOWN", f"There is no source {source_id!r}.", sources=[source_id])
    yield from plan_entry(workspace, entries[0])


def plan_entry(workspace: Workspace, entry: Entry) -> Iterator[Planned]:
    """The same of an entry that the catalog need not have. Raises as :func:`plan_of`."""
    present = PresentLocators(workspace.catalog.locators, entry.namespace, entry.source_id)
    state = BatchState(workspace.catalog, entry, damaged=False)
    connector = open_source(workspace, entry, present, None, state)
    asked = list(tier_c_plan.plan(workspace, entry))
    if isinstance(connector, Planner):
        yield from connector.plan()
    elif not asked:
        raise TabootError(
            "E_QUERY",
            f"A source of the type {entry.config.type} cannot tell what a run would ask for.",
            remedy="`taboot discover URL` shows what the lists of a site name.",
            source=entry.source_id,
        )
    yield from asked
