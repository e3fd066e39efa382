"""Readers of configuration files against the labels made by hand (``benchmarks/gold/*/labels.txt``)."""

from __future__ import annotations

import pytest

from benchmarks.gold import config_f1


@pytest.mark.parametrize("name", config_f1.sets())
@pytest.mark.needs("data")
def test_what_is_labelled_is_found_where_it_stands_and_nothing_else(name: str) -> None:
    counts, differs, quoted = config_f1.measured(name)
    assert differs == []
    assert sum(labelled for _, _, labelled in counts.values()) >= 20
    assert quoted[0] == quoted[1] == quoted[2] > 0
