"""What is made late is made once, whoever asks first."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from taboot_pipelines.retrieval.lazy import Lazy


def test_threads_that_ask_at_once_get_the_same():
    made = []
    barrier = threading.Barrier(8)

    def make() -> object:
        time.sleep(0.05)
        made.append(object())
        return made[-1]

    part = Lazy(make)
    assert part.made is None

    def ask(_: int) -> object:
        barrier.wait()
        return part()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {part.made} == set(made)


def test_nothing_is_made_twice_and_a_failure_is_tried_again():
    calls = []

    def make() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not yet")

    part = Lazy(make)
    with pytest.raises(ValueError, match="not yet"):
        part()
    assert part() is None and part() is None and len(calls) == 2
