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
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.fusion import SLACK, Ids, Ranking, Scores, rank, threshold
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.shards.analyzer import QueryTerm, analyze, analyze_query
from taboot_pipelines.shards.postings import TermLookup, TermMatches, TermPlaces, Unsigned

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


Numbers = npt.NDArray[np.int32]


class _List(NamedTuple):
    """Where a term stands: ids (of rows or of documents), ascending, and its frequency in each."""

    ids: Numbers
    tf: Scores


class _Term(NamedTuple):
    """Where a term of a query stands, and in which places each of its forms that is not the only one."""

    places: _List
    forms: tuple[_List, ...]


class _Part(NamedTuple):
    """What a term adds to the scores of ``ids``; where those are None, of all."""

    ids: Numbers | None
    scores: Scores

    def add_to(self, total: Scores) -> None:
        if self.ids is None:
            total += self.scores
        else:
            # Twice as fast as an indexed sum, which is for indices that may come twice as well.
            np.add.at(total, self.ids, self.scores)

    @property
    def nbytes(self) -> int:
        return self.scores.nbytes + (0 if self.ids is None else self.ids.nbytes)


class _Impact(NamedTuple):
    """What a term of a query adds, to rows and to documents: half of its score, so that the sum is a mean."""

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
        own: Scores = self._norm[found.ids]
        own += found.tf
        return np.divide(found.tf * (self.idf(len(found.ids)) * (self._k1 + 1)), own, out=own)

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
        scores *= weight
        return self._kept(term.places.ids, scores)

    def _kept(self, ids: Numbers, scores: Scores) -> _Part:
        size = len(self._norm)
        if len(ids) < size * _DENSE:
            return _Part(ids.astype(np.int32, copy=False), scores)
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
        self._last: tuple[str, Scores] | None = None
        self._bytes = 0
        self._most_bytes = max(_CACHE_BYTES, _CACHE_BYTES_A_ROW * len(index))
        self._lock = threading.Lock()

    def idf(self, term: str) -> float:
        """ln(1 + (N − df + ½) / (df + ½)) of a term of :func:`analyze`, which is never negative."""
        return self._rows.idf(sum(len(found.places.rows) for _, found in self._found([QueryTerm(term)])[0]))

    def places(self, terms: Sequence[str]) -> list[Ids]:
        """The rows, ascending, that hold each of some terms of :func:`analyze`."""
        found = self._found([QueryTerm(term) for term in terms])
        return [_in_rows(self._index, 0, own).places.ids.astype(np.int64) for own in found]

    def scores(self, query: str) -> Scores:
        """The score of every row, read-only; 0 where it has no word of the query. Those of the last query are
        kept: who ranks by words also counts by them.
        """
        last = self._last
        if last is not None and last[0] == query:
            return last[1]
        total = np.zeros(len(self._index))
        documents = np.zeros(len(self._index.documents))
        for impact in self._impacts(analyze_query(query)):
            impact.rows.add_to(total)
            impact.documents.add_to(documents)
        # Rows ascend by document, so this is what a lookup of each row's document would give, sooner.
        of_document = np.repeat(documents, self._chunks)
        of_document *= total > 0
        total += of_document
        total.flags.writeable = False
        self._last = query, total
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
        for w, found in zip(missing, self._found(missing), strict=True):
            made[w] = _Impact(
                self._rows.part(_in_rows(self._index, len(w.forms), found), w.weight / 2),
                self._documents.part(_in_documents(self._index, len(w.forms), found), w.weight / 2),
            )
        with self._lock:
            for w in missing:
                if w not in self._known:
                    self._known[w] = made[w]
                    self._bytes += _size(made[w])
            while self._bytes > self._most_bytes and self._known:
                _, oldest = self._known.popitem(last=False)
                self._bytes -= _size(oldest)
        return [made[w] for w in wanted]

    def _found(self, wanted: list[QueryTerm]) -> list[_Found]:
        """Where each of the terms stands, by the number of the shard; shards without it are left out."""
        found: list[_Found] = [[] for _ in wanted]
        if wanted:
            looked_up = TermLookup.of(wanted)
            for shard, file in enumerate(self._index.shards):
                for number, matches in file.postings.find(looked_up):
                    found[number].append((shard, matches))
        return found


_Found = list[tuple[int, TermMatches]]
_Lists = Callable[[TermPlaces], tuple[Unsigned, Unsigned]]


def _in_rows(index: Index, forms: int, found: _Found) -> _Term:
    """Among the rows of all shards, a term with so many forms."""
    return _joined(index.starts, forms, found, lambda places: (places.rows, places.tfs))


def _in_documents(index: Index, forms: int, found: _Found) -> _Term:
    """Among the documents of all shards, a term with so many forms."""
    return _joined(index.document_starts, forms, found, lambda places: (places.documents, places.counts))


def _joined(starts: Ids, forms: int, found: _Found, lists: _Lists) -> _Term:
    """What ``lists`` names of each shard's, as one; ``starts``: the first id of each shard."""
    places = _list([(starts[shard], *lists(f.places)) for shard, f in found])
    if all(f.forms is None for _, f in found):
        return _Term(places, ())
    own: list[list[tuple[int, Unsigned, Unsigned]]] = [[] for _ in range(forms)]
    for shard, f in found:
        for form, at in zip(own, (f.places,) * forms if f.forms is None else f.forms, strict=True):
            if at is not None:
                form.append((starts[shard], *lists(at)))
    return _Term(places, tuple(map(_list, own)))


def _list(parts: list[tuple[int, Unsigned, Unsigned]]) -> _List:
    if not parts:
        return _List(np.zeros(0, dtype=np.int32), np.zeros(0))
    starts, ids, tfs = zip(*parts, strict=True)
    # One addition for all shards: each call of numpy costs more than the few rows of most.
    every = np.repeat(np.array(starts, dtype=np.int32), [len(own) for own in ids])
    every += np.concatenate(ids)
    return _List(every, np.concatenate(tfs).astype(np.float64))


def _size(impact: _Impact) -> int:
    """Bytes that a kept term takes, its key and entry included."""
    return impact.rows.nbytes + impact.documents.nbytes + 500
