"""Exact vector search by a scan of int8 codes: provably the same rows as a scan of the full vectors.

Each code gives its score within a known bound (``shards.quantize``). Rows whose best case lies below the k-th
best worst case cannot be among the k best; the few that remain are scored in float64 from the float32
vectors. A filter only removes rows before that, so it never loses a result; where it leaves few rows they are
scored at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.fusion import SLACK, Ids, Ranking, Scores, rank, threshold
from taboot_pipelines.retrieval.index import Index

#: Fewer rows are scored exactly straight away: that costs less than a scan.
_FEW = 1000


#: Bytes that memory gives to the processor at a time.
_LINE = 64
#: What single precision may take from an approximate score, for vectors of length 1: some units of its last
#: digit.
_SINGLE = 2e-6

Approximate = npt.NDArray[np.float32]


class _Scan(NamedTuple):
    """The least and the most that the score of every row can be."""

    worst: Approximate
    best: Approximate


def exact(index: Index, query: npt.NDArray[np.float64], rows: Ids) -> Scores:
    """The inner products of ``query`` with the vectors of ascending ``rows``."""
    # einsum sums in float64 without a copy, on this thread: a matrix product would wake all cores for a small
    # task.
    scores: Scores = np.einsum("ij,j->i", index.gather(rows), query)
    return scores


def search(index: Index, query: npt.NDArray[np.float32], limit: int, rows: Ids | None) -> Ranking:
    """The best ``limit`` of ``rows`` (ascending; None: all) by inner product, ties by row."""
    exactly = query.astype(np.float64)
    count = len(index) if rows is None else len(rows)
    if count > max(_FEW, len(index) // 100, limit):
        worst, best = _scan(index, exactly)
        if rows is not None:
            worst, best = worst[rows], best[rows]
        found = np.flatnonzero(best >= threshold(worst, limit) - SLACK)
        rows = found if rows is None else rows[found]
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
    for i, shard in enumerate(index.shards):
        if shard.entry.chunks:
            _read_ahead(shard.int8)
            products[index.starts[i] : index.starts[i + 1]] = np.asarray(
                numkong.dots_packed(shard.int8, packed)
            )
    length = float(np.linalg.norm(query))
    # In single precision, as fast again; the products are whole numbers that it holds exactly up to 2²⁴.
    score = np.multiply(products[:, 0], np.float32(step), dtype=np.float32)
    score += np.multiply(products[:, 1], np.float32(fine), dtype=np.float32)
    score *= index.scale
    bound = index.error * np.float32(length)
    bound += index.radius * np.float32(rest)
    bound += np.float32(_SINGLE * length * index.longest)
    best = score + bound
    score -= bound
    return _Scan(score, best)


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
