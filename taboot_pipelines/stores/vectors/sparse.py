"""Chunks and queries as sparse vectors for BM25. What is stored knows nothing of other chunks (rule
``one-ranking``).

The value of a term in a chunk is BM25's saturated term frequency with a constant average length (Robertson,
Zaragoza 2009, with the mean replaced); the IDF comes with the query. A dot product on the server is thus BM25
but for the length norm, and only chooses candidates: scores are ours.

A term's index is the CRC-32 of its UTF-8 bytes. Two terms of one chunk that share an index are added up, in
chunks and in queries alike. All values are positive, so a collision can only raise a server's score: no
candidate is lost by it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

K1, B = 1.2, 0.75
#: Words of a chunk as the analyzer counts them; real documentation in chunks of 256 tokens has about 60.
AVERAGE_LENGTH = 64.0
#: Names everything that the stored values depend on but the analyzer: another name means other values.
WEIGHTING = f"bm25:crc32:{K1:g}:{B:g}:{AVERAGE_LENGTH:g}"

Sparse = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]


def term_index(term: str) -> int:
    """The 32-bit index of a term."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def chunk_vector(terms: Mapping[str, int], length: int) -> Sparse:
    """(indices ascending, values) of a chunk from its term frequencies and its length in words."""
    norm = K1 * (1 - B + B * length / AVERAGE_LENGTH)
    return vector({term: tf * (K1 + 1) / (tf + norm) for term, tf in terms.items()})


def vector(weights: Mapping[str, float]) -> Sparse:
    """(indices ascending, values): the weights of terms, added up where two share an index."""
    summed: dict[int, float] = {}
    for term, weight in weights.items():
        index = term_index(term)
        summed[index] = summed.get(index, 0.0) + weight
    ordered = sorted(summed)
    return np.array(ordered, dtype=np.uint32), np.array([summed[i] for i in ordered], dtype=np.float32)
