"""Vectors as int8 with a certified error, so that a scan of a quarter of the bytes provably keeps the rows
that are best by their exact scores.

A row v is stored as q (int8) and a scale s with v = s·q + r. For a query u = t·p + e with p in int8:

    |u·v − s·t·(p·q)| ≤ |u|·|r| + |e|·|s·q|      (Cauchy–Schwarz, twice)

The reader needs only the two norms |r| (``error``) and |s·q| (``radius``), both rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Quantized:
    """n rows of d dimensions: ``codes`` int8 (n, d); ``scale``, ``error`` and ``radius`` float32 (n,)."""

    codes: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    error: npt.NDArray[np.float32]
    radius: npt.NDArray[np.float32]


def quantize(vectors: npt.NDArray[np.float32]) -> Quantized:
    """Quantize finite float32 rows (n, d) symmetrically to -127…127."""
    exact = vectors.astype(np.float64)
    peak = np.abs(exact).max(axis=1, initial=0.0)
    scale = (peak / 127.0).astype(np.float32)
    divisor = np.where(scale > 0, scale, np.float32(1)).astype(np.float64)
    codes = np.rint(exact / divisor[:, None]).clip(-127, 127).astype(np.int8)
    near = codes * scale.astype(np.float64)[:, None]
    radius = np.linalg.norm(near, axis=1)
    # The second term is for the reader's float64 arithmetic, which errs in proportion to the vector.
    error = np.linalg.norm(exact - near, axis=1) + 1e-12 * radius
    return Quantized(codes, scale, _up(error), _up(radius))


def _up(norms: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """The norms as float32, rounded up, with room for the rounding of the norm itself."""
    wide = norms * (1 + 1e-9) + 1e-12
    return np.nextafter(wide.astype(np.float32), np.float32(np.inf))
