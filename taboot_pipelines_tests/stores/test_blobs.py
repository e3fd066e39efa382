"""Blobs: stored once by content, atomic to write, verified to read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.blobs import BlobStore


@pytest.fixture(params=["directory", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    """One suite for every backend of the object store."""
    return BlobStore.open(tmp_path) if request.param == "directory" else BlobStore.open(tmp_path, "memory:///")


def test_equal_bytes_are_stored_once_per_namespace(store: BlobStore) -> None:
    sha, new = store.put("a", b"bytes")
    assert new and store.put("a", b"bytes") == (sha, False)
    assert not store.exists("b", sha)
    assert store.get("a", sha) == b"bytes"
    assert list(store.list("a")) == [(sha, 5)]
    store.delete("a", sha)
    store.delete("a", sha)
    assert not store.exists("a", sha)
    with pytest.raises(TabootError, match="E_BLOB_MISSING"):
        store.get("a", sha)


@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=200))
def test_what_is_read_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    store = BlobStore.open(tmp_path_factory.getbasetemp() / "blobs-property")
    assert store.get("n", store.put("n", data)[0]) == data


def test_one_flipped_bit_is_noticed_and_healed(tmp_path: Path) -> None:
    store = BlobStore.open(tmp_path)
    sha, _ = store.put("n", b"trusted bytes")
    path = tmp_path / "blobs" / "sources" / "n" / sha
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"trusted bytez")
    with pytest.raises(TabootError, match="E_BLOB_CORRUPT"):
        store.get("n", sha)
    assert store.put("n", b"trusted bytes") == (sha, False)
    with pytest.raises(TabootError, match="E_BLOB_CORRUPT"):
        store.get("n", sha)
    store.put("n", b"trusted bytes", heal=True)
    assert store.get("n", sha) == b"trusted bytes"


def test_a_truncated_blob_is_replaced_by_the_next_put(tmp_path: Path) -> None:
    store = BlobStore.open(tmp_path)
    sha, _ = store.put("n", b"trusted bytes")
    (tmp_path / "blobs" / "sources" / "n" / sha).write_bytes(b"trust")
    store.put("n", b"trusted bytes")
    assert store.get("n", sha) == b"trusted bytes"
