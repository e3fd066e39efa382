"""The nearest rows by two-bit codes, of which a processor looks up many at a time.

It is faiss's fast scan (André, Kermarrec, Le Scouarnec 2017, "Accelerated Nearest Neighbor Search with Quick
ADC"): tables of 16 products, one for each two numbers of the query, are held in registers. A row takes a
quarter of the bytes of its int8 codes and a tenth of their time. What it says of a row errs
(``quantization``).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.fusion import Ranking
from taboot_pipelines.shards.quantization import DEVIATION, SHARE, levels, rotation

#: Numbers to a table.
_TOGETHER = 2


#: Of so many rows each half is worth a thread.
_MANY = 200_000


class FastScan:
    """``codes``: those of the rows, in order, in any number of parts; ``dimension``: of their vectors."""

    def __init__(self, codes: Sequence[npt.NDArray[np.uint8]], dimension: int) -> None:
        self._dimension = dimension
        # As many as whole bytes hold: what is beyond the vector's own is 0 in every query.
        self._held = -(-dimension // 4) * 4
        ends = np.cumsum([len(part) for part in codes])
        half = int(np.searchsorted(ends, ends[-1] / 2)) if len(ends) and ends[-1] >= _MANY else 0
        self._halves = [self._index(part) for part in (codes[:half], codes[half:]) if part]
        #: The first row of each half.
        self._starts = (0, int(ends[half - 1]) if half else 0)

    def _index(self, codes: Sequence[npt.NDArray[np.uint8]]) -> Any:
        import faiss

        plain: Any = faiss.IndexPQ(self._held, self._held // _TOGETHER, 4, faiss.METRIC_INNER_PRODUCT)
        level = levels(self._dimension)
        centroids = np.stack(np.meshgrid(level, level, indexing="ij"), axis=-1).reshape(16, _TOGETHER)
        of_all = np.tile(centroids, (self._held // _TOGETHER, 1)).reshape(-1)
        faiss.copy_array_to_vector(of_all, plain.pq.centroids)
        plain.is_trained = True
        for part in codes:
            plain.add_sa_codes(part)
        return faiss.IndexPQFastScan(plain)

    def nearest(self, query: npt.NDArray[np.float32], count: int, *, alone: bool = True) -> Ranking:
        """The ``count`` rows that the codes take for the nearest to ``query``, best first, by the largest
        inner product with a vector of length 1 that their codes can stand for: five standard deviations above
        what they say. Of few rows, or equal ones, it may name fewer. ``alone``: whether nothing else of this
        search runs meanwhile, so that a second thread may.
        """
        turned = np.zeros((1, self._held), dtype=np.float32)
        turned[0, : self._dimension] = query @ rotation(self._dimension)
        if len(self._halves) < 2 or not alone:
            found = [half.search(turned, count) for half in self._halves]
        else:
            with ThreadPoolExecutor(max_workers=1) as other:
                second = other.submit(self._halves[1].search, turned, count)
                found = [self._halves[0].search(turned, count), second.result()]
        products = np.concatenate([own[0] for own, _ in found])
        rows = np.concatenate(
            [
                np.where(own[0] < 0, -1, own[0] + start)
                for (_, own), start in zip(found, self._starts, strict=False)
            ]
        )
        best = np.argsort(-products, kind="stable")[:count] if len(found) > 1 else slice(None)
        products, rows = products[best], rows[best]
        named = rows >= 0
        margin = 5 * DEVIATION * float(np.linalg.norm(query)) / self._dimension**0.5
        return Ranking(rows[named], products[named] / SHARE + margin)
