"""Exact vector search by a scan of int8 codes: provably the same rows as a scan of the full vectors.

Each code gives its score within a known bound (``quantize``). Rows whose best case lies below the k-th
best worst case cannot be among the k best; the few that remain are scored in float64 from the float32
vectors. A filter only removes rows before that, so it never loses a result; where it leaves few rows they are
scored at once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.fusion import SLACK, Ids, Ranking, Scores, rank, threshold
from taboot_pipelines.retrieval.index import Index

#: Fewer rows are scored exactly straight away: that costs less than a scan.
_FEW = 1000
#: Of so many rows the codes are more than what a processor keeps, and a second thread is worth starting.
_MANY = 30_000


#: Bytes that memory gives to the processor at a time.
_LINE = 64
#: What single precision may take from an approximate score, for vectors of length 1: some units of its last
#: digit.
_SINGLE = 2e-6

Approximate = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Scan:
    """What the codes of ``index`` say of each row: its ``score``. ``length``: of the query; ``rest``: of what
    its own codes leave of it.
    """

    index: Index
    score: Approximate
    length: float
    rest: float

    def best(self, limit: int, rows: Ids | None) -> Ids:
        """Those of ``rows`` (ascending; None: all, in either case more than ``limit``) that can be among the
        best ``limit`` of them.
        """
        index = self.index
        score = self.score if rows is None else self.score[rows]
        # Not every row's own bound need be read: what lies two of the widest below the last of the best can
        # neither be among those nor say what can. The rest of the margin is for the rounding of these sums.
        widest = index.widest * self.length + index.longest * (self.rest + _SINGLE * self.length)
        near = np.flatnonzero(score >= np.float32(threshold(score, limit) - 2.5 * widest - SLACK))
        score = score[near]
        if rows is not None:
            near = rows[near]
        bound = index.error[near] * np.float32(self.length)
        bound += index.radius[near] * np.float32(self.rest)
        bound += np.float32(_SINGLE * self.length * index.longest)
        found: Ids = near[score + bound >= threshold(score - bound, limit) - SLACK]
        return found


def exact(index: Index, query: npt.NDArray[np.float64], rows: Ids) -> Scores:
    """The inner products of ``query`` with the vectors of ascending ``rows``."""
    # These products are summed in float64, on this thread: numpy would copy the vectors first or, with all
    # cores, wake those for a small task.
    import numkong

    if not len(rows):
        return np.zeros(0)
    packed = numkong.dots_pack(query.astype(np.float32)[np.newaxis])
    scores: Scores = np.asarray(numkong.dots_packed(index.gather(rows), packed)).reshape(-1)
    return scores


def search(index: Index, query: npt.NDArray[np.float32], limit: int, rows: Ids | None) -> Ranking:
    """The best ``limit`` of ``rows`` (ascending; None: all) by inner product, ties by row."""
    exactly = query.astype(np.float64)
    count = len(index) if rows is None else len(rows)
    if count > max(_FEW, len(index) // 100, limit):
        rows = _scan(index, exactly).best(limit, rows)
    elif rows is None:
        rows = np.arange(len(index), dtype=np.int64)
    return rank(rows, exact(index, exactly, rows), limit)


def _scan(index: Index, query: npt.NDArray[np.float64]) -> _Scan:
    """Scan the codes of every row."""
    import numkong

    # The query in two int8 digits: the second costs the scan nothing and makes the query's share of the error
    # vanish.
    high, step = _digits(query)
    low, fine = _digits(query - high * step)
    rest = float(np.linalg.norm(query - high * step - low * fine))
    packed = numkong.dots_pack(np.stack([high, low]).astype(np.int8))
    products = np.empty((len(index), 2), dtype=np.int32)

    def scan(shards: range) -> None:
        for i in shards:
            codes = index.shards[i].int8
            if len(codes):
                _read_ahead(codes)
                products[index.starts[i] : index.starts[i + 1]] = np.asarray(
                    numkong.dots_packed(codes, packed)
                )

    if len(index) < _MANY:
        scan(range(len(index.shards)))
    else:
        # The scan waits for memory, and leaves Python's lock: two threads take a little more than half.
        with ThreadPoolExecutor(max_workers=1) as other:
            half = other.submit(scan, range(1, len(index.shards), 2))
            scan(range(0, len(index.shards), 2))
            half.result()
    length = float(np.linalg.norm(query))
    # In single precision, as fast again; the products are whole numbers that it holds exactly up to 2²⁴.
    score = np.multiply(products[:, 0], np.float32(step), dtype=np.float32)
    score += np.multiply(products[:, 1], np.float32(fine), dtype=np.float32)
    score *= index.scale
    return _Scan(index, score, length, rest)


def _read_ahead(codes: npt.NDArray[np.int8]) -> None:
    """Have the codes of one shard in the processor's cache: one word of each line is looked at.

    The scan itself waits for memory at every line; after this it takes half the time, both together.
    """
    lines = codes.reshape(-1)
    np.max(lines[: len(lines) // _LINE * _LINE].view(np.int64)[:: _LINE // 8], initial=0)


def _digits(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], float]:
    """Whole numbers of at most 127 and the step that they count."""
    step = float(np.abs(values).max()) / 127 or 1.0
    return np.rint(values / step), step
