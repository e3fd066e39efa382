"""Dead letters as a person reads them: what failed, in which state it is, and where it stands."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.dead_letters import TRANSIENT, retry_at
from taboot_pipelines.stages.letter_states import LetterState, state_of
from taboot_pipelines.stages.window_letters import STAGE as WINDOWS
from taboot_pipelines.stages.window_letters import key_of
from taboot_pipelines.stages.workspace import Workspace


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
class Place:
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


def places(workspace: Workspace, letter: Letter) -> Iterator[Place]:
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
            yield Place(doc_id, path, start, end, line, spans[doc_id]["tokens"], text[start:end])


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
