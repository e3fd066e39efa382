"""Candidates for the vector arm from Qdrant, where there are so many rows that a server finds them sooner
than the shards do.

It is not asked for words: the score of every row by its words is known here before it could answer. Nor
where fewer than ``TABOOT_QDRANT__SEARCH_FROM_CHUNKS`` rows pass the filter.

A search scores the rows that the server takes for the best. By default the server looks through its graph
and its int8 codes, with a margin; what it misses is missed. With a filter the shards answer: what must hold
of one occurrence (a nested condition) the server reads from the payload of each point that it comes by, which
takes it a hundred times longer (measured on its engine).

Where exactness is asked for it compares every vector that passes, and the search proves that no other row
could be among the best: the server's scores differ from ours (single precision), but by no more than is
known, so a row that it did not name cannot score above the bound that its last score gives. Until enough of
those it named score more, more is asked for; then the answer is the shards' own, in the same order (rule
``one-ranking``).

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
from taboot_pipelines.retrieval.filters import Filter, as_micros
from taboot_pipelines.retrieval.fusion import DIGITS, SLACK, Ids, Scores
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.stores.vectors.filters import Where
from taboot_pipelines.stores.vectors.points import BUCKET, point_key, sources_digest

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


class Candidates:
    """The points of one namespace in Qdrant. ``from_rows``: the fewest rows for which it is asked. Safe to
    use from several threads.
    """

    def __init__(self, points: QdrantPoints, namespace: str, from_rows: int) -> None:
        self._points = points
        self._namespace = namespace
        self._from_rows = from_rows
        #: An index, and a row of it that has the text of each point, by the point's key.
        self._rows_by_point: tuple[Index, dict[bytes, int]] | None = None
        self._not_before = 0.0
        self._warned = False
        self._lock = threading.Lock()

    @property
    def failing(self) -> bool:
        """Whether the shards answered last in the server's place, since it failed or was behind."""
        return self._warned

    def narrow(
        self, index: Index, vector: Vectors, limit: int, rows: Ids | None, wanted: Filter, *, exact: bool
    ) -> Ids | None:
        """Of ``rows`` (ascending; None: all) those among which the best ``limit`` by ``vector`` are; None:
        let the shards answer.

        ``wanted``: the filter that made ``rows``. ``exact``: those are proven to be among them.
        """
        if (len(index) if rows is None else len(rows)) < self._from_rows or not (exact or wanted.empty):
            return None
        named = (wanted.tags or frozenset()) | (wanted.collections or frozenset())
        if wanted.paths is not None or index.manifest.tagged(named):
            return None  # payloads hold no path, and no tag of a single document
        if not index.manifest.collections.keys().isdisjoint(wanted.collections or ()):
            return None  # what a saved filter passes is worked out from the shards
        if time.monotonic() < self._not_before:
            return None
        try:
            if self._known(index) is None and not self._current(index):
                return None
            asked = _Asked(index, self._learn(index), limit, rows, self._where(wanted))
            near = self._proven(asked, vector) if exact else self._likely(asked, vector)
            if near is None or not self._current(index):
                return None
        except TabootError as error:
            self._rest(_REST_FAILED, f"{error.code}: {error.message}")
            return None
        self._warned = False
        return near

    def _likely(self, asked: _Asked, vector: Vectors) -> Ids | None:
        fetch = asked.limit + _MARGIN
        if fetch > _MAX_CANDIDATES:
            return None
        found = self._points.nearest(self._namespace, asked.space, vector, fetch, asked.where, exact=False)
        mine = asked.rows_of(found)
        # Fewer than there are: a graph that does not reach all that passes, or texts of many points.
        return mine if len(mine) >= min(asked.limit, asked.count) else None

    def _proven(self, asked: _Asked, vector: Vectors) -> Ids | None:
        index = asked.index
        exactly = vector.astype(np.float64)
        length = float(np.linalg.norm(exactly))
        fetch = asked.limit + _MARGIN
        while fetch <= _MAX_CANDIDATES:
            found = self._points.nearest(self._namespace, asked.space, vector, fetch, asked.where, exact=True)
            mine = asked.rows_of(found)
            if len(found) < fetch:
                # Every text has a vector, so everything that passes was found; else points are missing.
                if len(mine) == asked.count:
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

    def _known(self, index: Index) -> dict[bytes, int] | None:
        with self._lock:
            return (
                self._rows_by_point[1]
                if self._rows_by_point is not None and self._rows_by_point[0] is index
                else None
            )

    def _learn(self, index: Index) -> dict[bytes, int]:
        """A row that has the text of each point, by the point's key."""
        known = self._known(index)
        if known is None:
            sizes = index.sizes[index.group]
            known = {}
            for row, (sha256, places) in enumerate(zip(index.hashes(), sizes.tolist(), strict=True)):
                text = sha256.hex()
                for bucket in range(-(-places // BUCKET)):
                    known[point_key(self._namespace, text, bucket)] = row
            with self._lock:
                self._rows_by_point = (index, known)
        return known

    def _where(self, f: Filter) -> Where:
        return Where(
            self._namespace,
            sources=f.sources,
            types=f.types,
            tags=f.tags,
            languages=f.languages,
            domains=f.domains,
            collections=f.collections,
            content_types=f.content_types,
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
    """One search. ``known``: a row that has the text of each point."""

    index: Index
    known: dict[bytes, int]
    limit: int
    rows: Ids | None
    where: Where

    @property
    def space(self) -> str:
        return self.index.manifest.space.space().id

    @property
    def count(self) -> int:
        """How many rows there are to be found."""
        return len(self.index) if self.rows is None else len(self.rows)

    def rows_of(self, found: Found) -> Ids:
        """Those of ``rows`` whose text was found, ascending.

        A point that the manifest does not have belongs to a change under way.
        """
        first = [row for key, _ in found if (row := self.known.get(key)) is not None]
        group = self.index.group
        chosen = np.zeros(len(self.index.sizes), dtype=bool)
        chosen[group[first]] = True
        if self.rows is None:
            return np.unique(np.array(first, dtype=np.int64))
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
