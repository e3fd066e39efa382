"""Which units are none of their own, because another takes them in."""

from __future__ import annotations

from taboot_pipelines.knowledge.units import taken_in


def test_what_another_unit_takes_in_is_no_unit() -> None:
    assert taken_in({"compose:a": ["b", "not-a-unit"], "compose:b": [], "compose:c": []}) == {"compose:b"}
    assert taken_in({"compose:a": [], "document:a": []}) == set()
    # A path is a unit's only within the same extractor.
    assert taken_in({"compose:a": ["b"], "nginx:b": []}) == set()


def test_of_two_that_take_in_each_other_the_first_stays() -> None:
    assert taken_in({"x:a": ["b"], "x:b": ["a"]}) == {"x:b"}
    assert taken_in({"x:a": ["a"]}) == set()
    # A third that takes in both leaves neither.
    assert taken_in({"x:a": ["b"], "x:b": ["a"], "x:c": ["a", "b"]}) == {"x:a", "x:b"}


def test_a_chain_leaves_its_head() -> None:
    assert taken_in({"x:a": ["b"], "x:b": ["c"], "x:c": []}) == {"x:b", "x:c"}
