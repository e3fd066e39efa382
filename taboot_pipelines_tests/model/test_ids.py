"""Ids come from content, and no two different things share one."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids

part = st.one_of(st.none(), st.text(), st.integers())


@given(st.lists(part), st.lists(part))
def test_composites_of_different_parts_differ(left: list[object], right: list[object]) -> None:
    assert (ids.composite(*left) == ids.composite(*right)) == (left == right)


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
            ids.check_namespace(bad)  # type: ignore[arg-type]
        assert raised.value.code == "E_NAMESPACE"
