"""raw_blobs: what a connector fetched, as immutable bytes and a log of what changed.

Holds rules ``bytes-first``, ``incremental-equals-scratch``,
``complete-enumeration`` and ``nothing-lost-silently``.
"""

from __future__ import annotations

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.stages.batch import LEDGER, MAX_PATH_BYTES, STAGE, Batch
from taboot_pipelines.stages.progress import tracked
from taboot_pipelines.stages.stage import SourceWork
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.catalog import Pointer

__all__ = ["LEDGER", "MAX_PATH_BYTES", "STAGE", "publish_listing", "run"]


def run(work: SourceWork) -> None:
    """Fetch what is new, log what changed, and record what is absent.

    Raises the source's own failure (``E_PATH`` …).
    """
    entry = work.entry
    batch = Batch(work.workspace, entry, work.report, work.progress)
    with tracked(
        work.workspace, entry.namespace, entry.source_id, STAGE, work.progress, job_id=batch.job_id
    ) as batch.progress:
        try:
            if entry.retiring:
                batch.retire(work.confirm_deletes)
            else:
                batch.fetch(work.confirm_deletes)
        except TabootError as error:
            batch.fail(error)
            raise
        work.report.data_version = publish_listing(work.workspace, entry).inputs
        batch.sum_up()


def publish_listing(workspace: Workspace, entry: Entry) -> Pointer:
    """Publish the raw pointer, which names the last entry of the source's log, and return it.

    The present locators are what the log says up to there, so the next stages depend on its position alone.
    """
    position = workspace.catalog.locators.position(entry.namespace, entry.source_id)
    old = workspace.catalog.pointers.get(entry.namespace, entry.source_id, STAGE)
    listing = ids.digest("log", position)
    if old is not None and old.inputs == listing:
        return old
    pointer = Pointer(stage=STAGE, tables={}, inputs=listing, txn=listing, applied={"position": position})
    workspace.catalog.pointers.publish(entry.namespace, entry.source_id, pointer)
    return pointer
