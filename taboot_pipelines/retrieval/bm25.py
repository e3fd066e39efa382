"""BM25 (Robertson, Zaragoza 2009, "The Probabilistic Relevance Framework") over the postings of all shards.

Stored are term frequencies and lengths only; number, average length and document frequencies count the live
chunks at query time, so the scores do not depend on how chunks lie in shards. Everything is summed in
float64, terms in order.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.fusion import SLACK, Ids, Ranking, Scores, rank
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.shards.analyzer import analyze

#: Bytes of decoded terms that are kept: frequent terms are asked for again and again.
_CACHE_BYTES = 64 * 1024 * 1024
#: A query of so few words names something rather than asking.
_FEW_WORDS = 3


def names_something(query: str) -> bool:
    """Whether a query looks something up by its name: a few words, or an identifier (``ERR-123``,
    ``10.0.0.5``) in it.

    An embedding knows little of such names; there the words must count as much as the meaning.
    """
    terms, words = analyze(query)
    return words <= _FEW_WORDS or any(not t.isalnum() and any(c.isdigit() for c in t) for t in terms)


class _Term(NamedTuple):
    """The rows that hold a term (ascending), and what it adds to the score of each, but for the IDF."""

    rows: npt.NDArray[np.int32]
    impact: Scores


class Keywords:
    """The keyword arm of one index. Safe to use from several threads."""

    def __init__(self, index: Index, k1: float, b: float) -> None:
        self._index = index
        self._k1 = k1
        mean = index.total_length / len(index) if len(index) and index.total_length else 1.0
        self._norm: Scores = k1 * (1 - b + b * index.length / mean)
        self._terms: OrderedDict[str, _Term] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def idf(self, term: str) -> float:
        """ln(1 + (N − df + ½) / (df + ½)), which is never negative."""
        df = len(self._term(term).rows)
        return math.log(1 + (len(self._index) - df + 0.5) / (df + 0.5))

    def scores(self, query: str) -> Scores:
        """The score of every row."""
        total = np.zeros(len(self._index))
        for term in sorted(analyze(query)[0]):
            rows, impact = self._term(term)
            if len(rows):
                total[rows] += self.idf(term) * impact
        return total

    def search(self, scores: Scores, limit: int, rows: Ids | None) -> Ranking:
        """The best ``limit`` of ``rows`` (ascending; None: all) that score above 0, ties by row."""
        found = np.flatnonzero(scores > 0) if rows is None else rows[scores[rows] > 0]
        own = scores[found]
        if len(own) > limit:
            keep = own >= np.partition(own, len(own) - limit)[len(own) - limit] - SLACK
            found, own = found[keep], own[keep]
        return rank(found, own, limit)

    def _term(self, term: str) -> _Term:
        with self._lock:
            known = self._terms.get(term)
            if known is not None:
                self._terms.move_to_end(term)
                return known
        parts = [(i, p) for i, s in enumerate(self._index.shards) if (p := s.postings(term)) is not None]
        rows = (
            np.concatenate([p[0].astype(np.int32) + np.int32(self._index.starts[i]) for i, p in parts])
            if parts
            else np.zeros(0, dtype=np.int32)
        )
        tf = np.concatenate([p[1] for _, p in parts]).astype(np.float64) if parts else np.zeros(0)
        made = _Term(rows, tf * (self._k1 + 1) / (tf + self._norm[rows]))
        with self._lock:
            if term not in self._terms:
                self._terms[term] = made
                self._bytes += _size(made)
            while self._bytes > _CACHE_BYTES and self._terms:
                _, oldest = self._terms.popitem(last=False)
                self._bytes -= _size(oldest)
        return made


def _size(term: _Term) -> int:
    """Bytes that a kept term takes, its key and entry included."""
    return term.rows.nbytes + term.impact.nbytes + 200
