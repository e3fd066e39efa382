"""Search files: a cache that says what the shards say, and that nobody needs."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import Settings, ShardSettings, load_settings
from taboot_pipelines.shards import cache, layout, open_shards
from taboot_pipelines.shards.attaching import read_tables
from taboot_pipelines.shards.manifest import Manifest
from taboot_pipelines.shards.protocol import load_manifest, verified_path
from taboot_pipelines.shards.publish import prune, publish
from taboot_pipelines.shards.reader import Shards
from taboot_pipelines.shards.search_files import SEARCHED, derived
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc, HashEmbedder, World, edge
from taboot_pipelines_tests.shards.searching import search_path

SMALL = ShardSettings(max_chunks=6)


def world(count: int = 8) -> World:
    docs = [Doc(f"{i}.md", f"# Note {i}\n\nservice s{i} of the lab\n\ncommon words") for i in range(count)]
    docs[0].edges = [edge(("h", "web"), ("h", "db"), quote="service")]
    return World([*docs, Doc("empty.md", "")])


def asked(home: Path, **more: Any) -> list[tuple[str, float]]:
    settings = load_settings(home=home, **more)
    kb = KnowledgeBase.open(settings=settings, embedder=HashEmbedder(), read_only=settings.read_only)
    return [
        (h.text, h.score) for q in ("s3 lab", "common", "note 1") for h in kb.search(q, 5, mode="hybrid").hits
    ]


def published(home: Path, w: World | None = None) -> Manifest:
    store = open_shards(Settings(home=home))
    publish(store, (w or world()).input(), SMALL)
    manifest = load_manifest(store, NAMESPACE)
    assert manifest is not None and len(manifest.of_kind("documents")) > 2
    return manifest


def contents(home: Path, manifest: Manifest) -> list[list[Any]]:
    """All that the search files of a home's shards say."""
    mapped = [s.mapped for s in Shards.open(open_shards(Settings(home=home)), manifest).documents]
    return [
        [
            *(m._table(name) for name in ("chunks", "documents", "links", "names", "postings")),
            m.int8.tolist(),
            m.two_bit.tolist(),
            m.float32.tolist(),
        ]
        for m in mapped
    ]


def search_files(home: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (home / "cache" / "shards").rglob("*.search-*")}


def test_what_lies_under_a_null_is_in_no_file(tmp_path: Path) -> None:
    store = open_shards(Settings(home=tmp_path))
    (entry, *_) = published(tmp_path).of_kind("documents")
    path = verified_path(store, NAMESPACE, entry, layout.DATABASE)
    tables = dict(zip(SEARCHED, read_tables(path, [f"FROM {name}" for name in SEARCHED]), strict=True))
    documents = tables["documents"]
    at, count = documents.column_names.index("date"), len(documents)
    made = []
    for under in (0, 7):
        buffers = [pa.py_buffer(bytes(-(-count // 8))), pa.py_buffer(under.to_bytes(8, "little") * count)]
        nulls = pa.Array.from_buffers(documents.schema.field(at).type, count, buffers, count)
        assert nulls.null_count == count
        made.append(derived({**tables, "documents": documents.set_column(at, "date", nulls)}))
    assert [bytes(memoryview(made[0][name])) for name in made[0]] == [
        bytes(memoryview(made[1][name])) for name in made[1]
    ]


def test_a_reader_derives_what_the_publisher_wrote(tmp_path: Path) -> None:
    manifest = published(tmp_path)
    written, found = contents(tmp_path, manifest), asked(tmp_path)
    assert len(search_files(tmp_path)) == len(written) == len(manifest.of_kind("documents")) and found
    shutil.rmtree(tmp_path / "cache")
    assert asked(tmp_path) == found and contents(tmp_path, manifest) == written
    assert len(search_files(tmp_path)) == len(written)


def test_who_has_the_search_files_needs_no_database_to_search(tmp_path: Path) -> None:
    published(tmp_path)
    found = asked(tmp_path)
    for path in (tmp_path / "kb").rglob("*.duckdb"):
        path.unlink()
    assert asked(tmp_path) == found
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(TabootError, match="E_SHARD_MISSING"):
        asked(tmp_path)


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "zeros", "other", "header", "folder"])
def test_a_damaged_search_file_is_made_again(tmp_path: Path, harm: str) -> None:
    manifest = published(tmp_path)
    written, found = contents(tmp_path, manifest), asked(tmp_path)
    store = open_shards(Settings(home=tmp_path))
    path, other = (search_path(store, manifest, i) for i in (0, 1))
    data = bytearray(path.read_bytes())
    path.unlink()  # what is mapped is left as it is
    if harm == "folder":
        path.mkdir()
    elif harm == "other":  # whole, but of another shard
        path.write_bytes(other.read_bytes())
    else:
        data[45 if harm == "header" else len(data) // 2] ^= 1
        whole = {"cut": data[:-1], "empty": b"", "zeros": bytes(len(data))}
        path.write_bytes(whole.get(harm, data))
    assert asked(tmp_path) == found
    assert contents(tmp_path, manifest) == written
    assert path.is_dir() == (harm == "folder")


def test_where_nothing_can_be_written_a_reader_does_without(tmp_path: Path) -> None:
    published(tmp_path)
    found = asked(tmp_path)
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("no folder")
    assert asked(tmp_path) == found
    (tmp_path / "cache").unlink()
    assert asked(tmp_path, read_only=True) == found and not (tmp_path / "cache").exists()


def test_a_publisher_whose_cache_is_refused_publishes(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "shards").write_text("no folder")
    published(tmp_path)
    assert asked(tmp_path)


def test_another_form_is_derived_anew_and_the_old_one_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(tmp_path)
    found = asked(tmp_path)
    monkeypatch.setattr(layout, "SEARCH_FORMAT", layout.SEARCH_FORMAT + 1)
    assert asked(tmp_path) == found
    store = open_shards(Settings(home=tmp_path))
    assert len({name.rsplit("-", 1)[1] for name in search_files(tmp_path)}) == 2
    prune(store, NAMESPACE)
    assert {name.rsplit("-", 1)[1] for name in search_files(tmp_path)} == {str(layout.SEARCH_FORMAT)}


def test_what_no_manifest_names_is_bounded_in_age_and_bytes(tmp_path: Path) -> None:
    w = world()
    first = published(tmp_path, w)
    for doc in w.docs.values():
        doc.text += "\n\nmore words, so that every shard is another one" * 20
    second = published(tmp_path, w)
    store, files = open_shards(Settings(home=tmp_path)), search_files(tmp_path)
    shards = [len(m.of_kind("documents")) for m in (first, second)]
    assert store.cache is not None and len(files) == sum(shards)
    store.cache.forget(NAMESPACE, second, cache.GRACE_SECONDS)
    assert search_files(tmp_path) == files
    old = [search_path(store, first, i) for i in range(shards[0])]
    # More than what is named: the oldest goes, but nothing that a reader may be about to map.
    named = sum(map(len, files.values())) - sum(p.stat().st_size for p in old)
    old[0].unlink()
    old[0].write_bytes(bytes(2 * named))
    store.cache.forget(NAMESPACE, second, cache.GRACE_SECONDS)
    assert old[0].exists()
    now = time.time()
    for age, path in enumerate(reversed(old)):
        os.utime(path, (now - cache.GRACE_SECONDS / 2 - age,) * 2)
    store.cache.forget(NAMESPACE, second, cache.GRACE_SECONDS)
    assert not old[0].exists() and old[1].exists()
    os.utime(old[1], (now - cache.GRACE_SECONDS,) * 2)
    assert asked(tmp_path) and not old[1].exists()  # a reader sweeps, too


def derive(home: Path, start: Any, results: Any) -> None:
    start.wait()
    results.put(asked(home))


def test_processes_that_derive_at_once_agree(tmp_path: Path) -> None:
    published(tmp_path)
    written, found = set(search_files(tmp_path)), asked(tmp_path)
    shutil.rmtree(tmp_path / "cache")
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    processes = [context.Process(target=derive, args=(tmp_path, start, results)) for _ in range(2)]
    for p in processes:
        p.start()
    assert [results.get(timeout=120) for _ in processes] == [found] * 2
    for p in processes:
        p.join(60)
    assert set(search_files(tmp_path)) == written
    assert not list((tmp_path / "cache").rglob(".*"))


def test_a_killed_writer_leaves_nothing_that_counts(tmp_path: Path) -> None:
    manifest = published(tmp_path)
    found, store = asked(tmp_path), open_shards(Settings(home=tmp_path))
    path = search_path(store, manifest, 0)
    path.rename(path.with_name(".search-killed"))
    assert asked(tmp_path) == found and path.exists()
    prune(store, NAMESPACE)
    assert not path.with_name(".search-killed").exists()
    assert (
        len(Shards.open(store, manifest).documents[0].mapped.chunks)
        == manifest.of_kind("documents")[0].chunks
    )
