"""The keyword arm: BM25 (Robertson, Zaragoza 2009, "The Probabilistic Relevance Framework") over the postings
of all shards.

A word of the query is looked for in two fields, as a stem and as it is written (``shards.analyzer``), and
counts by the quadratic mean of the two scores: the p-norm of Salton, Fox and Wu (1983) with p = 2, so a text
that has the very word stands above one that has another form of it, and neither field can silence the other.
A chunk's score is the mean of its own and of its document's, the latter with documents' lengths and
frequencies: what a chunk leaves out may stand beside it.

Stored are term frequencies and lengths only; number, average length and document frequencies count the live
chunks at query time, and a document has the words of its chunks, so the scores do not depend on how chunks
lie in shards. Everything is summed in float64, terms in order.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.fusion import SLACK, Ids, Ranking, Scores, rank, threshold
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.shards.analyzer import QueryTerm, analyze, analyze_query
from taboot_pipelines.shards.postings import TermLookup, TermMatches, TermRows

#: Bytes of decoded terms that are kept, at least and for each row: frequent terms are asked for again and
#: again, and one that most rows have takes eight bytes of each.
_CACHE_BYTES = 96 * 1024 * 1024
_CACHE_BYTES_A_ROW = 256
#: A term that so large a share of the texts holds is kept as one number for each: adding those is faster.
_DENSE = 1 / 2
#: A query of so few words names something rather than asking.
_FEW_WORDS = 3


def names_something(query: str) -> bool:
    """Whether a query looks something up by its name: a few words, or an identifier (``ERR-123``,
    ``10.0.0.5``) in it.

    An embedding knows little of such names; there the words must count as much as the meaning.
    """
    terms, words = analyze(query)
    return words <= _FEW_WORDS or any(not t.isalnum() and any(c.isdigit() for c in t) for t in terms)


class _List(NamedTuple):
    """Where a term stands: ids (of rows or of documents), ascending, and its frequency in each."""

    ids: Ids
    tf: Scores


class _Term(NamedTuple):
    """Where a term of a query stands, and in which places each of its forms that is not the only one."""

    places: _List
    forms: tuple[_List, ...]


class _Part(NamedTuple):
    """What a term adds to the scores of ``ids``; where those are None, of all."""

    ids: npt.NDArray[np.int32] | None
    scores: Scores

    def add_to(self, total: Scores) -> None:
        if self.ids is None:
            total += self.scores
        else:
            total[self.ids] += self.scores

    @property
    def nbytes(self) -> int:
        return self.scores.nbytes + (0 if self.ids is None else self.ids.nbytes)


class _Impact(NamedTuple):
    """What a term of a query adds, to rows and to documents."""

    rows: _Part
    documents: _Part


class _Level:
    """Chunks or documents as texts of BM25. ``length``: words of each; ``count``: how many there are."""

    def __init__(self, length: Scores, count: int, k1: float, b: float) -> None:
        self._count = count
        self._k1 = k1
        total = float(length.sum())
        mean = total / count if count and total else 1.0
        self._norm: Scores = k1 * (1 - b + b * length / mean)

    def idf(self, df: int) -> float:
        """ln(1 + (N − df + ½) / (df + ½)), which is never negative."""
        return math.log(1 + (self._count - df + 0.5) / (df + 0.5))

    def scores(self, found: _List) -> Scores:
        """What a term adds to the score of each text that has it."""
        norm = self._norm[found.ids]
        own: Scores = found.tf * (self.idf(len(found.ids)) * (self._k1 + 1)) / (found.tf + norm)
        return own

    def part(self, term: _Term, weight: float) -> _Part:
        """What a term adds: the quadratic mean of its score and of that of the best of its forms; its own
        alone where it has none, or no other.
        """
        scores = self.scores(term.places)
        if term.forms:
            written = np.zeros(len(scores))
            for form in term.forms:
                # Each text with the form has the stem.
                at = np.searchsorted(term.places.ids, form.ids)
                written[at] = np.maximum(written[at], self.scores(form))
            scores = np.sqrt((scores**2 + written**2) / 2)
        return self._kept(term.places.ids, scores * weight)

    def _kept(self, ids: Ids, scores: Scores) -> _Part:
        size = len(self._norm)
        if len(ids) < size * _DENSE:
            return _Part(ids.astype(np.int32), scores)
        every = np.zeros(size)
        every[ids] = scores
        return _Part(None, every)


class Keywords:
    """The keyword arm of one index. Safe to use from several threads."""

    def __init__(self, index: Index, k1: float, b: float) -> None:
        self._index = index
        documents: Scores = np.bincount(
            index.document, weights=index.length, minlength=len(index.documents)
        ).astype(np.float64)
        #: Rows of each document.
        self._chunks = np.bincount(index.document, minlength=len(index.documents))
        self._rows = _Level(index.length, len(index), k1, b)
        self._documents = _Level(documents, int(np.count_nonzero(self._chunks)), k1, b)
        self._known: OrderedDict[QueryTerm, _Impact] = OrderedDict()
        self._bytes = 0
        self._most_bytes = max(_CACHE_BYTES, _CACHE_BYTES_A_ROW * len(index))
        self._lock = threading.Lock()

    def idf(self, term: str) -> float:
        """ln(1 + (N − df + ½) / (df + ½)) of a term of :func:`analyze`, which is never negative."""
        return self._rows.idf(len(self._terms([QueryTerm(term)])[0].places.ids))

    def places(self, terms: Sequence[str]) -> list[Ids]:
        """The rows, ascending, that hold each of some terms of :func:`analyze`."""
        return [found.places.ids for found in self._terms([QueryTerm(term) for term in terms])]

    def scores(self, query: str) -> Scores:
        """The score of every row; 0 where it has no word of the query."""
        total = np.zeros(len(self._index))
        documents = np.zeros(len(self._index.documents))
        for impact in self._impacts(analyze_query(query)):
            impact.rows.add_to(total)
            impact.documents.add_to(documents)
        # Rows ascend by document, so this is what a lookup of each row's document would give, sooner.
        of_document = np.repeat(documents, self._chunks)
        of_document[total == 0] = 0
        total += of_document
        total *= 0.5
        return total

    def search(self, scores: Scores, limit: int, rows: Ids | None) -> Ranking:
        """The best ``limit`` of ``rows`` (ascending; None: all) that score above 0, ties by row."""
        own = scores if rows is None else scores[rows]
        least = threshold(own, limit) - SLACK if len(own) > limit else 0.0
        keep = np.flatnonzero(own >= least if least > 0 else own > 0)
        return rank(keep if rows is None else rows[keep], own[keep], limit)

    def _impacts(self, wanted: list[QueryTerm]) -> list[_Impact]:
        """What each of the terms adds, in their order."""
        with self._lock:
            made = {w: self._known[w] for w in wanted if w in self._known}
            for w in made:
                self._known.move_to_end(w)
        missing = [w for w in wanted if w not in made]
        for w, term in zip(missing, self._terms(missing), strict=True):
            in_documents = _Term(
                self._in_documents(term.places), tuple(self._in_documents(f) for f in term.forms)
            )
            made[w] = _Impact(self._rows.part(term, w.weight), self._documents.part(in_documents, w.weight))
        with self._lock:
            for w in missing:
                if w not in self._known:
                    self._known[w] = made[w]
                    self._bytes += _size(made[w])
            while self._bytes > self._most_bytes and self._known:
                _, oldest = self._known.popitem(last=False)
                self._bytes -= _size(oldest)
        return [made[w] for w in wanted]

    def _in_documents(self, found: _List) -> _List:
        """Where a term stands among the documents."""
        if not len(found.ids):
            return found
        documents = self._index.document[found.ids]
        # Rows ascend by document, so those of one document stand side by side.
        first = np.empty(len(documents), dtype=bool)
        first[0] = True
        np.not_equal(documents[1:], documents[:-1], out=first[1:])
        starts = first.nonzero()[0]
        return _List(documents[starts], np.add.reduceat(found.tf, starts))

    def _terms(self, wanted: list[QueryTerm]) -> list[_Term]:
        """Where each of the terms stands among the rows of all shards."""
        if not wanted:
            return []
        gathered: list[list[tuple[int, TermMatches]]] = [[] for _ in wanted]
        looked_up = TermLookup.of(wanted)
        for start, shard in zip(self._index.starts.tolist(), self._index.shards, strict=False):
            for number, found in shard.postings.find(looked_up):
                gathered[number].append((start, found))
        return [_term(len(w.forms), own) for w, own in zip(wanted, gathered, strict=True)]


def _term(forms: int, found: list[tuple[int, TermMatches]]) -> _Term:
    """A term with so many forms out of what the shards hold of it, each with its first row."""
    places = _joined([(start, f.places) for start, f in found])
    if all(f.forms is None for _, f in found):
        return _Term(places, ())
    own: list[list[tuple[int, TermRows]]] = [[] for _ in range(forms)]
    for start, f in found:
        for form, at in zip(own, (f.places,) * forms if f.forms is None else f.forms, strict=True):
            if at is not None:
                form.append((start, at))
    return _Term(places, tuple(map(_joined, own)))


def _joined(parts: list[tuple[int, TermRows]]) -> _List:
    if not parts:
        return _List(np.zeros(0, dtype=np.int64), np.zeros(0))
    # One addition for all shards: each call of numpy costs more than the few rows of most.
    ids = np.concatenate([p.rows for _, p in parts], dtype=np.int64)
    ids += np.repeat([start for start, _ in parts], [len(p.rows) for _, p in parts])
    return _List(ids, np.concatenate([p.tfs for _, p in parts], dtype=np.float64))


def _size(impact: _Impact) -> int:
    """Bytes that a kept term takes, its key and entry included."""
    return impact.rows.nbytes + impact.documents.nbytes + 500
