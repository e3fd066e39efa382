"""Candidates from Qdrant: a search scores the rows that the server takes for the best, and proves that no
other row could be among them.

The server's scores differ from ours (single precision, a constant average length in BM25), but by no more
than is known. A row that it did not name cannot score above the bound that its last score gives; once enough
of those it named score more, the answer is the shards' own, in the same order (rule ``one-ranking``). Until
then more is asked for.

Only points of exactly the pinned manifest's snapshot are of use: their watermark is read after each search,
since it is taken away before the points begin to change. Where it names something else, or the server fails,
the shards answer.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import vectors
from taboot_pipelines.retrieval.bm25 import Keywords
from taboot_pipelines.retrieval.filters import Filter, as_micros
from taboot_pipelines.retrieval.fusion import DIGITS, SLACK, Ids, Scores
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.settings import RetrievalSettings
from taboot_pipelines.shards.analyzer import analyze
from taboot_pipelines.stores.vectors import sparse
from taboot_pipelines.stores.vectors.filters import Where
from taboot_pipelines.stores.vectors.points import sources_digest

if TYPE_CHECKING:
    from taboot_pipelines.embedding.protocol import Vectors
    from taboot_pipelines.stores.vectors.qdrant import Found, QdrantPoints, Watermark

_log = logging.getLogger(__name__)

#: Candidates that are asked for beyond what is wanted, and how many times as many at each further try.
_MARGIN = 64
_GROWTH = 4
#: Where the proof would need more candidates than this, the shards are faster.
_MAX_CANDIDATES = 20_000
#: How much of a score the server's single precision may lose.
_RELATIVE_ERROR = 1e-4
#: Seconds for which a server is not asked after it failed, and after it held something else.
_REST_FAILED = 30.0
_REST_STALE = 1.0


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The rows (ascending) among which the best of each arm are; None for an arm that was not asked for."""

    by_vector: Ids | None
    by_words: Ids | None


class Candidates:
    """The points of one namespace in Qdrant. Safe to use from several threads."""

    def __init__(self, points: QdrantPoints, namespace: str, settings: RetrievalSettings) -> None:
        self._points = points
        self._namespace = namespace
        self._settings = settings
        #: An index, and a row of it that has each text, by the text's SHA-256.
        self._rows_by_text: tuple[Index, dict[bytes, int]] | None = None
        self._not_before = 0.0
        self._warned = False
        self._lock = threading.Lock()

    def narrow(
        self,
        index: Index,
        keywords: Keywords,
        *,
        query: str,
        vector: Vectors | None,
        words: Scores | None,
        limit: int,
        rows: Ids | None,
        wanted: Filter,
    ) -> Narrowed | None:
        """Of ``rows`` (ascending; None: all) those among which the best ``limit`` of each arm are; None: let
        the shards answer.

        ``vector``: the query's, ``words``: the BM25 score of every row; None: that arm is not asked for.
        ``wanted``: the filter that made ``rows``.
        """
        if time.monotonic() < self._not_before:
            return None
        try:
            if self._known(index) is None and not self._current(index):
                return None
            known = self._learn(index)
            asked = _Asked(index, known, limit, rows, self._where(wanted))
            near = far = None
            if vector is not None:
                near = self._near(asked, vector)
                if near is None:
                    return None
            if words is not None:
                far = self._far(asked, keywords, query, words)
                if far is None:
                    return None
            if not self._current(index):
                return None
        except TabootError as error:
            self._rest(_REST_FAILED, f"{error.code}: {error.message}")
            return None
        self._warned = False
        return Narrowed(near, far)

    def _near(self, asked: _Asked, vector: Vectors) -> Ids | None:
        index = asked.index
        exactly = vector.astype(np.float64)
        length = float(np.linalg.norm(exactly))
        fetch = asked.limit + _MARGIN
        while fetch <= _MAX_CANDIDATES:
            found = self._points.nearest(self._namespace, asked.space, vector, fetch, asked.where)
            mine = asked.rows_of(found)
            if len(found) < fetch:
                # Every text has a vector, so everything that passes was found; else points are missing.
                if len(mine) == (len(index) if asked.rows is None else len(asked.rows)):
                    return mine
                self._rest(_REST_FAILED, "it does not hold all points")
                return None
            # Cosine on the server, inner product here: the stored vectors have length 1, the query need not.
            last = min(score for _, score in found)
            bound = last * length + abs(last) * length * _RELATIVE_ERROR + SLACK
            if _enough(vectors.exact(index, exactly, mine), asked.limit, bound):
                return mine
            fetch *= _GROWTH
        return None

    def _far(self, asked: _Asked, keywords: Keywords, query: str, words: Scores) -> Ids | None:
        terms = sorted(analyze(query)[0])
        if not terms:
            return np.zeros(0, dtype=np.int64)
        weights = sparse.vector({term: keywords.idf(term) for term in terms})
        stretch = self._stretch(asked.index)
        fetch = asked.limit + _MARGIN
        while fetch <= _MAX_CANDIDATES:
            found = self._points.matching(self._namespace, asked.space, weights, fetch, asked.where)
            mine = asked.rows_of(found)
            if len(found) < fetch:
                return mine
            bound = min(score for _, score in found) * stretch * (1 + _RELATIVE_ERROR) + SLACK
            if _enough(words[mine], asked.limit, bound):
                return mine
            fetch *= _GROWTH
        return None

    def _stretch(self, index: Index) -> float:
        """How many times the server's value of a term the true value is at most, whatever the term frequency
        and the length.

        The ratio (tf + c) / (tf + d), with c and d linear in the length, is monotonic in each of the two: its
        largest value lies at a corner.
        """
        k1, b = self._settings.bm25_k1, self._settings.bm25_b
        mean = index.total_length / len(index) if index.total_length else 1.0

        def ratio(length: float) -> float:
            stored = 1 + sparse.K1 * (1 - sparse.B + sparse.B * length / sparse.AVERAGE_LENGTH)
            return stored / (1 + k1 * (1 - b + b * length / mean))

        return (
            (k1 + 1)
            / (sparse.K1 + 1)
            * max(1.0, ratio(float(index.length.min())), ratio(float(index.length.max())))
        )

    def _known(self, index: Index) -> dict[bytes, int] | None:
        with self._lock:
            return (
                self._rows_by_text[1]
                if self._rows_by_text is not None and self._rows_by_text[0] is index
                else None
            )

    def _learn(self, index: Index) -> dict[bytes, int]:
        """A row that has each text, by the text's SHA-256."""
        known = self._known(index)
        if known is None:
            known = {sha256: row for row, sha256 in enumerate(index.hashes())}
            with self._lock:
                self._rows_by_text = (index, known)
        return known

    def _where(self, f: Filter) -> Where:
        return Where(
            self._namespace,
            sources=f.sources,
            types=f.types,
            tags=f.tags,
            languages=f.languages,
            moment_from=None if f.date_from is None else as_micros(f.date_from),
            moment_to=None if f.date_to is None else as_micros(f.date_to),
        )

    def _current(self, index: Index) -> bool:
        """Whether the points are now exactly those of the manifest."""
        manifest = index.manifest
        mark = self._points.watermark(self._namespace, manifest.space.space().id, retries=0)
        if (
            mark is not None
            and mark.snapshot == manifest.snapshot
            and mark.sources == sources_digest({s: (e.type, e.tags) for s, e in manifest.sources.items()})
        ):
            return True
        self._rest(_REST_STALE, _stale(mark))
        return False

    def _rest(self, seconds: float, why: str) -> None:
        self._not_before = time.monotonic() + seconds
        if not self._warned:
            self._warned = True
            _log.warning(
                "The shards answer searches of namespace %s instead of Qdrant: %s", self._namespace, why
            )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What both arms of one search have in common. ``known``: a row that has the text of each hash."""

    index: Index
    known: dict[bytes, int]
    limit: int
    rows: Ids | None
    where: Where

    @property
    def space(self) -> str:
        return self.index.manifest.space.space().id

    def rows_of(self, found: Found) -> Ids:
        """Those of ``rows`` whose text was found, ascending.

        A text that the manifest does not have belongs to a change under way.
        """
        first = [row for sha256, _ in found if (row := self.known.get(bytes.fromhex(sha256))) is not None]
        if self.rows is None:
            return np.unique(np.array(first, dtype=np.int64))
        group = self.index.group
        chosen = np.zeros(len(self.index.sizes), dtype=bool)
        chosen[group[first]] = True
        mine: Ids = self.rows[chosen[group[self.rows]]]
        return mine


def _stale(mark: Watermark | None) -> str:
    return (
        "its points are of another snapshot than the knowledge base"
        if mark is not None and mark.snapshot
        else "its points are not complete"
    )


def _enough(scores: Scores, limit: int, bound: float) -> bool:
    """Whether ``limit`` of the scores, as they are ranked, lie above what any other row could have."""
    if len(scores) < limit:
        return False
    return float(np.round(np.partition(scores, len(scores) - limit)[len(scores) - limit], DIGITS)) > bound
