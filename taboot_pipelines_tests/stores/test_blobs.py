"""Blobs: stored once by content, atomic to write, verified to read."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import obstore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.blobs import BlobStore, open_blobs
from taboot_pipelines_tests.objects import Bucket
from taboot_pipelines_tests.stores.blob_writer import write_equal


class Kept:
    """A blob store and a way to change what lies in it."""

    def __init__(self, home: Path, bucket: Bucket | None) -> None:
        self.directory, self.bucket = home / "blobs", bucket
        elsewhere = {} if bucket is None else {"blob_url": bucket.url, "storage": bucket.storage}
        self.store = open_blobs(Settings(home=home, **elsewhere))

    def overwrite(self, path: str, data: bytes) -> None:
        if self.bucket is not None:
            obstore.put(self.bucket.store, path, data)
        else:
            (self.directory / path).write_bytes(data)


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.server)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """One suite for both backends."""
    return Kept(tmp_path, None if request.param == "directory" else Bucket(request.getfixturevalue("s3")))


@pytest.fixture
def store(kept: Kept) -> BlobStore:
    return kept.store


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
    store = open_blobs(Settings(home=tmp_path_factory.getbasetemp() / "blobs-property"))
    assert store.get("n", store.put("n", data)[0]) == data


def test_one_flipped_bit_is_noticed_and_healed(kept: Kept) -> None:
    store = kept.store
    sha, _ = store.put("n", b"trusted bytes")
    kept.overwrite(store.path("n", sha), b"trusted bytez")
    with pytest.raises(TabootError, match="E_BLOB_CORRUPT"):
        store.get("n", sha)
    assert store.put("n", b"trusted bytes") == (sha, False)
    with pytest.raises(TabootError, match="E_BLOB_CORRUPT"):
        store.get("n", sha)
    store.put("n", b"trusted bytes", heal=True)
    assert store.get("n", sha) == b"trusted bytes"


def test_a_truncated_blob_is_replaced_by_the_next_put(kept: Kept) -> None:
    sha, _ = kept.store.put("n", b"trusted bytes")
    kept.overwrite(kept.store.path("n", sha), b"trust")
    kept.store.put("n", b"trusted bytes")
    assert kept.store.get("n", sha) == b"trusted bytes"


def test_a_local_blob_is_its_owners_alone(tmp_path: Path) -> None:
    for home, url in ((tmp_path / "a", None), (tmp_path / "b", (tmp_path / "c").as_uri())):
        store = open_blobs(Settings(home=home, blob_url=url))
        sha, _ = store.put("n", b"bytes")
        directory = home / "blobs" if url is None else tmp_path / "c"
        assert stat.S_IMODE((directory / "sources" / "n" / sha).stat().st_mode) == 0o600


def test_a_sweep_keeps_what_it_is_told(store: BlobStore) -> None:
    kept, *gone = (store.put("n", str(i).encode())[0] for i in range(5))
    other, _ = store.put("n2", b"0")
    assert store.sweep("n", {kept}) == 4
    assert [name for name, _ in store.list("n")] == [kept] and [name for name, _ in store.list("n2")] == [
        other
    ]
    store.delete("n", kept, *gone)
    store.delete("n")
    assert list(store.list("n")) == []


def test_of_four_writers_of_equal_bytes_one_is_first(s3, tmp_path: Path) -> None:
    bucket = Bucket(s3)
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(4), context.Queue()
    processes = [
        context.Process(
            target=write_equal, args=(tmp_path / str(i), bucket.url, bucket.storage, start, results)
        )
        for i in range(4)
    ]
    for p in processes:
        p.start()
    told = [results.get(timeout=300) for _ in processes]
    for p in processes:
        p.join(60)
    assert [sum(new) for new in zip(*told, strict=True)] == [1] * 40
    assert len(bucket.contents()) == 40
