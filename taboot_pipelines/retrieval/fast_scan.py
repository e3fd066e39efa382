"""The nearest rows by two-bit codes, of which a processor looks up many at a time.

It is faiss's fast scan (André, Kermarrec, Le Scouarnec 2017, "Accelerated Nearest Neighbor Search with Quick
ADC"): tables of 16 products, one for each two numbers of the query, are held in registers. A row takes a
quarter of the bytes of its int8 codes and a tenth of their time. What it says of a row errs
(``quantization``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.fusion import Ranking
from taboot_pipelines.shards.quantization import DEVIATION, SHARE, levels, rotation

#: Numbers to a table.
_TOGETHER = 2


class FastScan:
    """``codes``: those of the rows, in order, in any number of parts; ``dimension``: of their vectors."""

    def __init__(self, codes: Sequence[npt.NDArray[np.uint8]], dimension: int) -> None:
        import faiss

        self._dimension = dimension
        # As many as whole bytes hold: what is beyond the vector's own is 0 in every query.
        held = -(-dimension // 4) * 4
        plain: Any = faiss.IndexPQ(held, held // _TOGETHER, 4, faiss.METRIC_INNER_PRODUCT)
        level = levels(dimension)
        centroids = np.stack(np.meshgrid(level, level, indexing="ij"), axis=-1).reshape(16, _TOGETHER)
        faiss.copy_array_to_vector(np.tile(centroids, (held // _TOGETHER, 1)).reshape(-1), plain.pq.centroids)
        plain.is_trained = True
        for part in codes:
            plain.add_sa_codes(part)
        self._index: Any = faiss.IndexPQFastScan(plain)
        self._held = held

    def nearest(self, query: npt.NDArray[np.float32], count: int) -> Ranking:
        """The ``count`` rows that the codes take for the nearest to ``query``, best first, by the largest
        inner product with a vector of length 1 that their codes can stand for: five standard deviations above
        what they say. Of few rows, or equal ones, it may name fewer.
        """
        turned = np.zeros((1, self._held), dtype=np.float32)
        turned[0, : self._dimension] = query @ rotation(self._dimension)
        products, rows = self._index.search(turned, count)
        named = rows[0] >= 0
        margin = 5 * DEVIATION * float(np.linalg.norm(query)) / self._dimension**0.5
        return Ranking(rows[0][named], products[0][named] / SHARE + margin)
