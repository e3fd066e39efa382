"""Ids come from content, and no two different things share one."""

from __future__ import annotations

import enum
import functools
import json
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids

part = st.one_of(st.none(), st.text(), st.integers())


@given(st.lists(part), st.lists(part))
def test_composites_of_different_parts_differ(left: list[object], right: list[object]) -> None:
    assert (ids.composite(*left) == ids.composite(*right)) == (left == right)


class Colour(enum.StrEnum):
    RED = "red"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        [1e-4, 1e-5, 9.9e15, 1e16, 1e22, -0.0, 1 << 64, Colour.RED, "\ud800", "\x7f\u2028", "1e5"]
    )
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_json_is_written_as_python_writes_it(value: object) -> None:
    """Ids are made of it: another way to write it, however quick, may change none."""

    def written(encode: Callable[[object], str]) -> str:
        try:
            return encode(value)
        except TypeError:  # keys that cannot be put in order
            return "TypeError"

    plain = functools.partial(json.dumps, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert written(ids.canonical_json) == written(plain)


def test_null_is_not_the_empty_text() -> None:
    assert ids.digest(None) != ids.digest("")
    assert ids.digest("a", "b") != ids.digest("ab")


@given(st.text(), st.text())
def test_doc_ids_are_uuid4_and_equal_for_canonically_equal_paths(source: str, path: str) -> None:
    import unicodedata

    made = ids.doc_id("default", ids.locator(source, path))
    assert uuid.UUID(made).version == 4 and uuid.UUID(made).variant == uuid.RFC_4122
    assert made == ids.doc_id(
        "default", ids.locator(source, unicodedata.normalize("NFD", unicodedata.normalize("NFC", path)))
    )
    assert made != ids.doc_id("other", ids.locator(source, path))


def test_node_keys_keep_their_parts() -> None:
    assert ids.node_key(("nas.lan",)) == "nas.lan"
    assert ids.node_key(("", "db")) == '["","db"]'


def test_only_names_are_namespaces() -> None:
    for good in ("a", "a-b_c", "0" * 63):
        assert ids.check_namespace(good) == good
    for bad in ("", "A", "-a", "a" * 64, "a/b", "a b", "ä", "a\n", None):
        with pytest.raises(TabootError) as raised:
            ids.check_namespace(bad)
        assert raised.value.code == "E_NAMESPACE"
