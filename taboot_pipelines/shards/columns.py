"""Numbers out of Arrow columns without a copy.

``Array.to_numpy`` imports pandas wherever that is installed, which costs a first search more than its own
work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def numbers(column: pa.Array | pa.ChunkedArray, dtype: Any) -> Any:
    """The values of a fixed-width column without nulls as an array of ``dtype``, which must be as wide."""
    if isinstance(column, pa.ChunkedArray):
        parts = [numbers(chunk, dtype) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(
        data, dtype=dtype, count=len(column), offset=column.offset * np.dtype(dtype).itemsize
    )
