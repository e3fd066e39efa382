"""Vector search by codes of the vectors: first two-bit codes of all rows, then int8 codes, then the vectors.

An int8 code gives its row's score within a known bound (``quantization``). Rows whose best case lies below
the k-th best worst case cannot be among the k best; the few that remain are scored in float64 from the
float32 vectors. So a scan of all int8 codes provably finds the same rows as one of the full vectors. A filter
only removes rows before that, so it never loses a result; where it leaves few rows they are scored at once.

Of many rows the int8 codes are more than a processor reads in a few milliseconds. There the two-bit codes
name several times as many rows as are wanted, and the rest is done among those. A row that they do not name
is missed only if its code errs by more than five standard deviations; where the scores lie too close for
that, or where a proof is asked for, all int8 codes are scanned.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.fusion import SLACK, Ids, Ranking, Scores, rank, threshold
from taboot_pipelines.retrieval.index import Index

#: Fewer rows are scored exactly straight away: that costs less than a scan.
_FEW = 1000
#: Of so many rows the int8 codes are more than what a processor keeps: the two-bit codes are looked at first,
#: and a second thread is worth its start.
_MANY = 30_000
#: The two-bit codes name so many times as many rows as are wanted, and some more; where these do not do, so
#: many, and then so many: naming more takes longer.
_TIMES = 4
_MORE = 64
_SOME = 640
_MOST = 2048
#: The int8 codes of less than a row in so many are gathered, and those of the others not looked at.
_GATHERED = 4
#: Bytes that memory gives to the processor at a time.
_LINE = 64
#: What single precision may take from an approximate score, for vectors of length 1: some units of its last
#: digit.
_SINGLE = 2e-6


def exact(index: Index, query: npt.NDArray[np.float64], rows: Ids) -> Scores:
    """The inner products of ``query`` with the vectors of ascending ``rows``."""
    # These products are summed in float64, on this thread: numpy would copy the vectors first or, with all
    # cores, wake those for a small task.
    import numkong

    if not len(rows):
        return np.zeros(0)
    packed = numkong.dots_pack(query.astype(np.float32)[np.newaxis])
    vectors = index.gather(rows, [shard.float32 for shard in index.shards])
    scores: Scores = np.asarray(numkong.dots_packed(vectors, packed)).reshape(-1)
    return scores


def search(
    index: Index,
    query: npt.NDArray[np.float32],
    limit: int,
    rows: Ids | None,
    *,
    needed: int,
    proven: bool,
    meanwhile: Callable[[], None] | None = None,
) -> Ranking:
    """The best ``limit`` of ``rows`` (ascending; None: all) by inner product, ties by row.

    ``needed``: the best so many must be those that a scan of every vector finds, unless codes err by more
    than five standard deviations; of the rest some may be missed. ``proven``: nothing may be missed.
    ``meanwhile``: is called once, on this thread, while another looks through two-bit codes if any do.
    """
    exactly = query.astype(np.float64)
    count = len(index) if rows is None else len(rows)
    scan = index.fast_scan() if count >= _MANY and not proven else None
    few = (_TIMES * limit + _MORE) * len(index) // max(count, 1)
    if scan is None or few * _TIMES > len(index):
        if meanwhile is not None:
            meanwhile()
        return _best(index, exactly, limit, rows)
    some, many = max(few, _SOME), max(few, _MOST)
    if meanwhile is None:
        named = scan.nearest(query, some + 1)
    else:
        with ThreadPoolExecutor(max_workers=1) as other:
            looking = other.submit(scan.nearest, query, some + 1, alone=False)
            meanwhile()
            named = looking.result()
    for size in dict.fromkeys((few, some, many)):
        if size > some:
            named = scan.nearest(query, size + 1)
        # Where one more is named, none behind it can be better than it might be.
        if size < len(named.ids):
            near = np.sort(named.ids[:size])
            if rows is not None:
                near = near[rows[np.searchsorted(rows, near).clip(max=count - 1)] == near]
            best = _best(index, exactly, limit, near)
            others = max(float(named.scores[size]), 0.0) * index.longest
            if len(best.ids) == limit and others + SLACK <= best.scores[min(needed, limit) - 1]:
                return best
    return _best(index, exactly, limit, rows)


def _best(index: Index, query: npt.NDArray[np.float64], limit: int, rows: Ids | None) -> Ranking:
    """The best ``limit`` of ``rows`` (ascending; None: all), proven by int8 codes where there are many."""
    count = len(index) if rows is None else len(rows)
    if count > max(_FEW, limit):
        rows = _contenders(index, query, limit, rows)
    elif rows is None:
        rows = np.arange(len(index), dtype=np.int64)
    return rank(rows, exact(index, query, rows), limit)


def _contenders(index: Index, query: npt.NDArray[np.float64], limit: int, rows: Ids | None) -> Ids:
    """Those of ``rows`` (ascending; None: all, in either case more than ``limit``) that can be among the best
    ``limit`` of them by what their int8 codes say.
    """
    # The query in two int8 digits: the second costs the scan nothing and makes the query's share of the error
    # vanish.
    high, step = _digits(query)
    low, fine = _digits(query - high * step)
    length = float(np.linalg.norm(query))
    rest = float(np.linalg.norm(query - high * step - low * fine))
    products = _products(index, np.stack([high, low]).astype(np.int8), rows)
    # In single precision, as fast again; the products are whole numbers that it holds exactly up to 2²⁴.
    score = np.multiply(products[:, 0], np.float32(step), dtype=np.float32)
    score += np.multiply(products[:, 1], np.float32(fine), dtype=np.float32)
    score *= index.scale if rows is None else index.scale[rows]
    # Not every row's own bound need be read: what lies two of the widest below the last of the best can
    # neither be among those nor say what can. The rest of the margin is for the rounding of these sums.
    widest = index.widest * length + index.longest * (rest + _SINGLE * length)
    at = np.flatnonzero(score >= np.float32(threshold(score, limit) - 2.5 * widest - SLACK))
    score = score[at]
    near = at if rows is None else rows[at]
    bound = index.error[near] * np.float32(length)
    bound += index.radius[near] * np.float32(rest)
    bound += np.float32(_SINGLE * length * index.longest)
    found: Ids = near[score + bound >= threshold(score - bound, limit) - SLACK]
    return found


def _products(index: Index, digits: npt.NDArray[np.int8], rows: Ids | None) -> npt.NDArray[np.int32]:
    """The products of the int8 codes of ``rows`` (None: all) with ``digits``, (2, dimension): (rows, 2)."""
    import numkong

    packed = numkong.dots_pack(digits)
    if rows is not None and len(rows) * _GATHERED <= len(index):
        codes = index.gather(rows, [shard.int8 for shard in index.shards])
        return np.asarray(numkong.dots_packed(codes, packed))
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
    return products if rows is None else products[rows]


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
