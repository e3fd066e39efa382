"""What is kept of answers so that their candidates can be shown again: ids, hashes and scores, no text.

Under the home, in ``answers.db`` (SQLite), the last :data:`MAX_KEPT` answers of each namespace. What belongs
to an older manifest goes with the next answer, and with it the ids of documents that were deleted since; an
erasure waits for no answer (:meth:`Replays.forget`).
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.disk import private_file

MAX_KEPT = 1000
_MAX_WAIT_SECONDS = 1.0
_TABLE = """CREATE TABLE IF NOT EXISTS answers (
  namespace TEXT NOT NULL, answer_id TEXT NOT NULL, version INTEGER NOT NULL, at REAL NOT NULL,
  body BLOB NOT NULL, PRIMARY KEY (namespace, answer_id)) WITHOUT ROWID"""
#: The manifest of the last erasure: an answer that was under way meanwhile may be of one before it.
_ERASED = "CREATE TABLE IF NOT EXISTS erased (namespace TEXT PRIMARY KEY, version INTEGER NOT NULL)"
_log = logging.getLogger(__name__)


class Candidate(BaseModel):
    """A passage that an answer was chosen from. ``sha256``: of its text; ``scores``: of every arm."""

    model_config = ConfigDict(frozen=True)

    chunk_id: str
    sha256: str
    score: float
    scores: dict[str, float]


class Recorded(BaseModel):
    """``version``: of the manifest that was asked; ``parameters``: the arguments of the answer."""

    model_config = ConfigDict(frozen=True)

    answer_id: str
    question: str
    version: int
    parameters: dict[str, Any]
    candidates: tuple[Candidate, ...]


def answer_id(namespace: str, version: int, question: str, parameters: Mapping[str, Any]) -> str:
    """Of the same question with the same arguments to the same manifest always the same: 16 hex digits."""
    asked = canonical_json([namespace, version, question, dict(parameters)])
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Replays:
    """The records of one namespace. Safe to use from several threads and processes. An answer never fails for
    its record: where the home cannot be written, or ``read_only`` says that it is not to be, there is none.
    """

    def __init__(self, home: Path, namespace: str, *, read_only: bool = False) -> None:
        self._path = home / "answers.db"
        self._read_only = read_only
        self._namespace = namespace
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def record(self, made: Recorded) -> None:
        if self._read_only:
            return
        body = orjson.dumps(made.model_dump(exclude={"version", "answer_id"}))
        try:
            with self._lock, self._connection() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO answers SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS"
                    " (SELECT 1 FROM erased WHERE namespace = ?1 AND version > ?3)",
                    (self._namespace, made.answer_id, made.version, time.time(), body),
                )
                connection.execute(
                    "DELETE FROM answers WHERE namespace = ?1 AND (version < ?2 OR answer_id IN (SELECT"
                    " answer_id FROM answers WHERE namespace = ?1"
                    " ORDER BY at DESC, answer_id LIMIT -1 OFFSET ?3))",
                    (self._namespace, made.version, MAX_KEPT),
                )
        except (sqlite3.Error, OSError) as error:
            _log.warning("an answer cannot be recorded: %s", type(error).__name__)

    def find(self, answer_id: str) -> Recorded | None:
        try:
            with self._lock, self._connection() as connection:
                row = connection.execute(
                    "SELECT version, body FROM answers WHERE namespace = ? AND answer_id = ?",
                    (self._namespace, answer_id),
                ).fetchone()
        except (sqlite3.Error, OSError):
            return None
        if row is None:
            return None
        return Recorded(answer_id=answer_id, version=row[0], **orjson.loads(row[1]))

    def forget(self, version: int) -> bool:
        """Drop every record of the namespace, and keep out late ones of a manifest before ``version``.

        Questions quote documents as people do, so not even those of other documents' passages stay. Returns
        whether it could be done.
        """
        if not self._path.exists():
            return True
        try:
            with self._lock, self._connection() as connection:
                connection.execute("DELETE FROM answers WHERE namespace = ?", (self._namespace,))
                connection.execute("INSERT OR REPLACE INTO erased VALUES (?, ?)", (self._namespace, version))
        except (sqlite3.Error, OSError) as error:
            _log.warning("recorded answers cannot be dropped: %s", type(error).__name__)
            return False
        return True

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None and self._read_only:
            self._opened = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=ro",
                uri=True,
                timeout=_MAX_WAIT_SECONDS,
                check_same_thread=False,
            )
        if self._opened is None:
            opened = sqlite3.connect(self._path, timeout=_MAX_WAIT_SECONDS, check_same_thread=False)
            private_file(self._path)
            # A lost record is no loss; an answer is not to wait for the disk.
            opened.execute("PRAGMA synchronous=OFF")
            opened.execute("PRAGMA secure_delete=ON")
            opened.execute(_TABLE)
            opened.execute(_ERASED)
            self._opened = opened
        return self._opened


def candidates(hits: Sequence[Any]) -> tuple[Candidate, ...]:
    """The candidates that search hits are."""
    return tuple(
        Candidate(chunk_id=h.chunk_id, sha256=text_hash(h.text), score=h.score, scores=h.scores) for h in hits
    )
