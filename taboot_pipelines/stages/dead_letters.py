"""Dead letters as a person reads them, and the queue of failed items that a retry may mend.

The catalog's letters are the truth, and the queue ``dlq:pending`` is made from them. Its members are hashes,
so it names no file that an erasure would have to reach. Deleting the queue, or the whole Redis, changes
nothing: the next :func:`rebuild` makes an equal one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.letter_retries import BACKOFF_SECONDS, LetterState, key_of, next_try, state_of
from taboot_pipelines.stages.letter_retries import STAGE as WINDOWS
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.state.keys import DLQ_PENDING

#: Codes of what may have changed a moment later. All others wait until their input, or the code, changes.
TRANSIENT = frozenset(
    {
        *(code for target in CHAIN.targets.values() for code in target.failures),
        "E_5XX_ORIGIN",
        "E_TIMEOUT",
        "E_NETWORK",
        "E_429_RATE",
        "E_BROWSER",
        "E_STORAGE",
        "E_CATALOG",
        "E_REDIS",
        "E_UNREADABLE",
        "E_EMBEDDER",
        "E_RERANKER",
        "E_GPU_OOM",
        "E_LLM",
        "E_LLM_TIMEOUT",
        "E_LLM_MALFORMED",
        "E_SCHEMA_INVALID",
    }
)
_MAX_DUE = 1000

__all__ = ["BACKOFF_SECONDS", "TRANSIENT", "Due", "due", "rebuild", "replay", "retry_at"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Due:
    """A source with letters to try again.

    ``attempt`` and ``last_at`` (microseconds) are those of its newest failure.
    """

    namespace: str
    source_id: str
    letters: int
    attempt: int
    last_at: int


def rebuild(workspace: Workspace, namespace: str) -> dict[str, float]:
    """Make the queue equal to the catalog's letters; return {member: Unix time when it is due}.

    Raises ``E_REDIS``.
    """
    return _make_equal(workspace, namespace, _wanted(workspace, namespace))


def due(workspace: Workspace, namespace: str, now: float | None = None) -> list[Due]:
    """Return the sources whose letters are due by ``now`` (Unix time; default: this moment), by id.

    The queue is first made equal to the letters, so a letter that is gone leaves it. If the state's backend
    does not answer, the letters themselves say what is due.
    """
    now = time.time() if now is None else now
    wanted = _wanted(workspace, namespace)
    try:
        _make_equal(workspace, namespace, wanted)
        members = workspace.state.due(namespace, DLQ_PENDING(), now, _MAX_DUE)
    except TabootError as error:
        _LOG.warning(
            "The queue of dead letters is not available (%s); the catalog's letters are read instead.",
            error.code,
        )
        members = [m for m, (at, _) in wanted.items() if at <= now]
    by_source: dict[str, list[Mapping[str, Any]]] = {}
    for member in members:
        # Between the two calls another process may have queued a letter that is newer than those read here.
        if member in wanted:
            letter = wanted[member][1]
            by_source.setdefault(letter["source_id"], []).append(letter)
    return [
        Due(
            namespace,
            source_id,
            len(letters),
            max(x["attempts"] for x in letters),
            max(x["last_at"] for x in letters),
        )
        for source_id, letters in sorted(by_source.items())
    ]


def retry_at(letter: Mapping[str, Any]) -> float | None:
    """Return when a letter is tried again (Unix time).

    None if the failure is not transient, or its retries are used up.
    """
    return next_try(letter, TRANSIENT)


def replay(
    workspace: Workspace,
    namespace: str,
    source_ids: Collection[str] | None = None,
    items: Collection[str] | None = None,
) -> list[Mapping[str, Any]]:
    """Let letters be tried again as after their first failure; return them as they were.

    All of the namespace, or those of some sources or items. A letter whose failure no retry can mend is left
    as it is: its item waits for other input. What is returned is due at once: the next run of its source, or
    the sensor, tries it.
    """
    chosen = [
        letter
        for letter in workspace.catalog.dead_letters.find(namespace)
        if (source_ids is None or letter["source_id"] in source_ids)
        and (items is None or letter["item"] in items)
        and letter["kind"] == "failed"
        and letter["code"] in TRANSIENT
    ]
    workspace.catalog.dead_letters.start_over(namespace, chosen)
    return chosen


def _wanted(workspace: Workspace, namespace: str) -> dict[str, tuple[float, Mapping[str, Any]]]:
    """Return {member: (Unix time when it is due, its letter)}."""
    found = {}
    for letter in workspace.catalog.dead_letters.find(namespace):
        at = retry_at(letter)
        if at is not None:
            found[ids.digest(letter["source_id"], letter["stage"], letter["item"])] = (at, letter)
    return found


def _make_equal(
    workspace: Workspace, namespace: str, wanted: Mapping[str, tuple[float, Mapping[str, Any]]]
) -> dict[str, float]:
    state, queue = workspace.state, DLQ_PENDING()
    queued, target = state.queued(namespace, queue), {m: at for m, (at, _) in wanted.items()}
    state.dequeue(namespace, queue, [m for m in queued if m not in target])
    state.enqueue(namespace, queue, {m: at for m, at in target.items() if queued.get(m) != at})
    return target


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter. Times are microseconds since the epoch; ``retry_at``: None if it is not tried again."""

    namespace: str
    source: str
    stage: str
    item: str
    state: LetterState
    code: str
    message: str
    attempts: int
    first_at: int
    last_at: int
    retry_at: int | None


@dataclass(frozen=True, slots=True)
class FailedWindow:
    """Where a window that failed stands: code points of a document's text, its first line (from 1), and the
    text, in which secrets are masked."""

    doc_id: str
    path: str
    start: int
    end: int
    line: int
    tokens: int
    text: str


def letters(
    workspace: Workspace,
    namespace: str,
    source_ids: Collection[str] = (),
    items: Collection[str] = (),
) -> list[Letter]:
    """Return the letters of a namespace, or of some of its sources or items, by source, stage and item."""
    found = []
    for row in workspace.catalog.dead_letters.find(namespace):
        chosen = (not source_ids or row["source_id"] in source_ids) and (not items or row["item"] in items)
        if chosen:
            found.append(_letter(row))
    return found


def places(workspace: Workspace, letter: Letter) -> Iterator[FailedWindow]:
    """Yield where the window of a letter stands; nothing for letters of other items, which name it."""
    key = key_of(letter.item) if letter.stage == WINDOWS else None
    pointer = workspace.catalog.pointers.get(letter.namespace, letter.source, documents.STAGE)
    if key is None or pointer is None:
        return
    spans = {p["doc_id"]: p for p in workspace.catalog.answers.places(letter.namespace, letter.source, key)}
    rows = workspace.tables.read(
        letter.namespace,
        letter.source,
        documents.STAGE,
        pointer.tables[documents.STAGE],
        columns=["doc_id", "path", "text"],
        buckets={ids.doc_bucket(doc_id) for doc_id in spans},
    )
    for doc_id, path, text in rows_of(rows, "doc_id", "path", "text"):
        if doc_id in spans:
            start, end = spans[doc_id]["span_start"], spans[doc_id]["span_end"]
            line = text.count("\n", 0, start) + 1
            yield FailedWindow(doc_id, path, start, end, line, spans[doc_id]["tokens"], text[start:end])


def _letter(row: Mapping[str, Any]) -> Letter:
    at = retry_at(row)
    return Letter(
        namespace=row["namespace"],
        source=row["source_id"],
        stage=row["stage"],
        item=row["item"],
        state=state_of(row, TRANSIENT),
        code=row["code"],
        message=row["message"],
        attempts=row["attempts"],
        first_at=row["first_at"],
        last_at=row["last_at"],
        retry_at=None if at is None else int(at * 1_000_000),
    )
