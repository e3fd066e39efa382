"""What counts as a vector."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.embedding.protocol import unit_vectors
from taboot_pipelines.errors import TabootError

GOOD = [3.0, 4.0]


def test_good_rows_become_unit_rows():
    unit = unit_vectors([GOOD, [0.0, -0.1]], 2, 2)
    assert unit.dtype == np.float32
    assert np.allclose(unit, [[0.6, 0.8], [0.0, -1.0]])


@pytest.mark.parametrize(
    ("raw", "count", "index"),
    [
        ([GOOD, [math.nan, 1.0]], 2, 1),
        ([GOOD, [math.inf, 1.0]], 2, 1),
        ([GOOD, [1e300, 1.0]], 2, 1),
        ([GOOD, [0.0, 0.0]], 2, 1),
        ([GOOD, [0.05, 0.05]], 2, 1),
        ([GOOD, [1.0]], 2, 1),
        ([GOOD, None], 2, 1),
        ([GOOD, [1.0, "x"]], 2, 1),
        ([GOOD, [1.0, None]], 2, 1),
        ([GOOD, [[1.0], [2.0]]], 2, 1),
        ([[1.0, 2.0, 3.0]], 1, 0),
        ([[True, False]], 1, 0),
        ([[10**400, 1]], 1, 0),
    ],
)
def test_a_bad_row_is_named(raw, count, index):
    with pytest.raises(TabootError) as caught:
        unit_vectors(raw, count, 2, first=10)
    assert caught.value.code == "E_VECTOR" and caught.value.details["index"] == 10 + index


@pytest.mark.parametrize("raw", [[], [GOOD] * 3, None, {}, "vectors", 7, [[]], GOOD, [[[1.0]]]])
def test_a_wrong_number_of_rows_is_refused(raw):
    with pytest.raises(TabootError) as caught:
        unit_vectors(raw, 2, 2)
    assert caught.value.code == "E_VECTOR"


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda x: st.lists(x, max_size=4),
    max_leaves=12,
)


@given(st.lists(_JSON, max_size=4), st.integers(0, 4))
def test_any_answer_gives_unit_vectors_or_a_typed_error(raw, count):
    try:
        unit = unit_vectors(raw, count)
    except TabootError as error:
        assert error.code == "E_VECTOR"
    else:
        assert unit.shape[0] == count and np.allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-5)
