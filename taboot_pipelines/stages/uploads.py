"""Blobs whose object store did not answer: kept beside the catalog, uploaded when it does.

The chain goes on meanwhile, since reads fall back to the waiting bytes. This is only for an object store by
URL: if the default directory cannot be written, neither can a queue.
"""

from __future__ import annotations

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog import now_micros

#: Seconds to wait after each failure; after the last one the upload is `failed`.
RETRY_SECONDS = (30, 60, 120, 300, 600)


def keep(workspace: Workspace, namespace: str, data: bytes, error: TabootError) -> bool:
    """Queue bytes that could not be uploaded.

    Returns False if there is no queue, so that the failure stands.
    """
    waiting = workspace.blobs.waiting
    if waiting is None:
        return False
    sha256, _ = waiting.put(namespace, data)
    workspace.catalog.uploads.enqueue(
        namespace,
        sha256,
        waiting.path(namespace, sha256),
        len(data),
        max_retries=len(RETRY_SECONDS),
        next_retry_at=now_micros() + RETRY_SECONDS[0] * 1_000_000,
        error_message=error.message,
    )
    return True


def drain(workspace: Workspace, namespace: str) -> tuple[int, int]:
    """Upload what is due; return how many uploads are done and how many still wait."""
    waiting = workspace.blobs.waiting
    done = left = 0
    if waiting is None:
        return done, left
    for row in workspace.catalog.uploads.due(namespace, now_micros()):
        sha256 = row["content_hash"]
        try:
            data = waiting.get(namespace, sha256)
            workspace.blobs.put(namespace, data)
        except TabootError as error:
            left += 1
            tries = row["retry_count"] + 1
            wait = RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)]
            workspace.catalog.uploads.mark_failed(
                namespace,
                sha256,
                tries,
                now_micros() + wait * 1_000_000,
                error.message,
                final=tries >= row["max_retries"],
            )
        else:
            done += 1
            workspace.catalog.uploads.mark_done(namespace, sha256)
            waiting.delete(namespace, sha256)
    return done, left
