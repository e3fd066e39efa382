"""Where a passage is in its document's URL."""

from __future__ import annotations

import json
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.offsets import PLACES, Places, read_places, stored_places

steps = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 90)), max_size=30)


@given(steps, st.integers(0, 5000))
def test_a_position_leads_to_the_value_of_the_last_place_before_it(
    steps: list[tuple[int, int]], position: int
) -> None:
    at, value, places = 0, 0, []
    for step, more in steps:
        at, value = at + step, value + more
        places.append((at, value))
    kept = Places.of("t={}s", places)
    stored = stored_places(canonical_json({PLACES: kept.stored(), "author": "A"}))
    assert stored is not None and read_places(stored) == kept
    number = bisect_right([start for start, _ in places], position) - 1
    expected = "" if number < 0 else f"&t={places[number][1]}s"
    assert kept.url("https://e.org/watch?v=1", position) == f"https://e.org/watch?v=1{expected}"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://youtu.be/x", "https://youtu.be/x?t=7s"),
        ("https://e.org/w?v=x#more", "https://e.org/w?v=x&t=7s#more"),
        ("videos:talk.vtt", "videos:talk.vtt"),
        ("/srv/videos/talk.vtt", "/srv/videos/talk.vtt"),
    ],
)
def test_only_urls_of_the_web_have_places(url: str, expected: str) -> None:
    assert Places("t={}s", (0,), (7,)).url(url, 3) == expected
    assert Places("t={}s", (0,), (7,)).leads_into(expected, url) == (url != expected)


def test_what_is_no_place_is_none() -> None:
    assert stored_places('{"author":"places"}') is None
    assert read_places(json.dumps({"query": 'x" onclick', "starts": [0], "values": [1]})) is None
    assert read_places(json.dumps({"query": "t={}", "starts": [0], "values": []})) is None


@pytest.mark.parametrize(
    ("marks", "position"),
    [
        ([], 5),  # nothing was looked for: the passage itself
        ([(22, "restic")], 20),
        ([(12, "a"), (22, "a"), (23, "b")], 20),
        ([(12, "a"), (22, "b"), (32, "c")], 10),  # parted by a place
        ([(12, "a"), (22, "b"), (32, "c"), (33, "b")], 30),
        ([(12, "a"), (32, "a")], 10),
        ([(6, "a"), (7, "b"), (12, "a")], 5),  # what lies before all places has more
        ([(6, "a"), (12, "a")], 10),
    ],
)
def test_a_passage_leads_to_where_the_words_are(marks: list[tuple[int, str]], position: int) -> None:
    assert Places("t={}s", (10, 20, 30), (1, 2, 3)).nearest(5, marks) == position


def test_words_of_the_place_that_a_passage_begins_in() -> None:
    assert Places("t={}s", (10, 20), (1, 2)).nearest(15, [(16, "a")]) == 15
