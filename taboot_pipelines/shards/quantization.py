"""Vectors in fewer bits: int8 with a certified error, and two bits a number with a known deviation.

**int8**, so that a scan of a quarter of the bytes provably keeps the rows that are best by their exact
scores. A row v is stored as q (int8) and a scale s with v = s·q + r. For a query u = t·p + e with p in int8:

|u·v − s·t·(p·q)| ≤ |u|·|r| + |e|·|s·q| (Cauchy–Schwarz, twice)

The reader needs only the two norms |r| (``error``) and |s·q| (``radius``), both rounded up.

**Two bits** for each number of a vector that was rotated: whatever the vectors are, each number is then about
normally distributed, and one quantizer fits all (Max 1960, "Quantizing for Minimum Distortion"; Zandieh et
al. 2025, "TurboQuant: Online Vector Quantization with Near-optimal Distortion Rate"). Nothing is fitted to
the vectors at hand, so codes of all shards can be compared, and a row's are the same in each. What the codes
say of a product errs by a normal deviate of a deviation that is known (``DEVIATION``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

#: Where a number of a standard normal distribution is cut into four, and what each part stands for.
_CUT = 0.9816
_LEVELS = (-1.510, -0.4528, 0.4528, 1.510)
#: What share of a vector's square its codes hold, and so of a product (``_LEVELS`` are the means of their
#: parts).
SHARE = 0.8825
#: How far a product of two vectors of length 1 is from what the codes say, as a standard deviation, times the
#: square root of the number of dimensions.
DEVIATION = (1 / SHARE - 1) ** 0.5


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


@lru_cache(maxsize=4)
def rotation(dimension: int) -> npt.NDArray[np.float32]:
    """A fixed orthogonal matrix R, (dimension, dimension), that turns a vector v to vR.

    Twice, signs are drawn for the numbers, and each becomes a sum over all of them: by a Hadamard transform
    over the largest power of two in ``dimension``, and a cosine transform over the rest. Once would leave a
    vector of one number at a corner of a cube, where all numbers are equally large.
    """
    power = dimension & -dimension
    rest = dimension // power
    hadamard = np.ones((1, 1))
    while len(hadamard) < power:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    n = np.arange(rest)
    cosine = np.cos(np.pi * np.outer(n, n + 0.5) / rest) * np.sqrt(2 / rest)
    cosine[0] /= np.sqrt(2)
    mixed = np.kron(cosine, hadamard).T / np.sqrt(power)
    # The signs are those of a hash: numpy's generators may draw others in another release.
    drawn = np.frombuffer(hashlib.shake_256(b"rotation").digest(2 * dimension), np.uint8) & 1
    first, second = (drawn * 2.0 - 1).reshape(2, dimension, 1)
    turned: npt.NDArray[np.float32] = ((first * mixed) @ (second * mixed)).astype(np.float32)
    return turned


def levels(dimension: int) -> npt.NDArray[np.float32]:
    """What the codes 0 to 3 stand for in a vector of length 1 of ``dimension`` numbers."""
    return np.array(_LEVELS, dtype=np.float32) / np.float32(np.sqrt(dimension))


def two_bit_codes(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """The codes of the directions of finite float32 rows (n, d), four numbers to a byte: uint8 (n, ⌈d/4⌉).

    A half of a byte, the lower one first, has two numbers, the first of them in its upper bits.
    """
    count, dimension = vectors.shape
    coded = np.zeros((count, -(-dimension // 4) * 4), dtype=np.uint8)
    # Lengths only scale the cuts.
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True) / np.float32(np.sqrt(dimension))
    turned = vectors @ rotation(dimension)
    part = coded[:, :dimension]
    for cut in (-_CUT, 0.0, _CUT):
        part += turned > np.float32(cut) * lengths
    halves = coded[:, 0::2] << np.uint8(2) | coded[:, 1::2]
    packed: npt.NDArray[np.uint8] = halves[:, 0::2] | halves[:, 1::2] << np.uint8(4)
    return packed
