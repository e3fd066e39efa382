"""One suite for shards in a directory and on an object store: published whole or not at all, read verified,
pruned, mended.
"""

from __future__ import annotations

import io
import multiprocessing
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import obstore
import pyarrow as pa
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import Settings, ShardSettings, load_settings
from taboot_pipelines.shards import files, open_shards
from taboot_pipelines.shards.analyzer import ANALYZER
from taboot_pipelines.shards.layout import search_file_name
from taboot_pipelines.shards.manifest import Manifest, SpaceEntry
from taboot_pipelines.shards.protocol import ShardStore, damaged_shards, load_manifest
from taboot_pipelines.shards.publish import PublishReport, prune, publish
from taboot_pipelines.shards.reader import verify
from taboot_pipelines_tests.objects import Bucket
from taboot_pipelines_tests.shards.builder import NAMESPACE, SPACE, Doc, HashEmbedder, World
from taboot_pipelines_tests.shards.swapping import increments
from taboot_pipelines_tests.unwritable import tree

SMALL = ShardSettings(max_chunks=12, max_entities=10)
MANIFEST = f"{NAMESPACE}.duckdb.manifest.json"


class Kept:
    """A shard store with the files behind it; ``home`` is where a reader of it lives."""

    def __init__(self, home: Path, bucket: Bucket | None) -> None:
        self.home, self.bucket = home, bucket
        self.directory = home / "kb"
        self.store = self.open(home)

    def open(self, home: Path) -> ShardStore:
        """As another process, or another machine, opens it."""
        return open_shards(self.settings(home))

    def settings(self, home: Path) -> Settings:
        if self.bucket is None:
            return load_settings(home=home, shard_url=self.directory.as_uri())
        return load_settings(home=home, shard_url=self.bucket.url, storage=self.bucket.storage.model_dump())

    def reader(self, home: Path) -> KnowledgeBase:
        return KnowledgeBase.open(settings=self.settings(home), embedder=HashEmbedder())

    def paths(self) -> list[str]:
        if self.bucket is not None:
            return sorted(m["path"] for batch in obstore.list(self.bucket.store) for m in batch)
        return sorted(str(p.relative_to(self.directory)) for p in self.directory.rglob("*") if p.is_file())

    def read(self, path: str) -> bytes:
        return (
            bytes(obstore.get(self.bucket.store, path).bytes())
            if self.bucket is not None
            else (self.directory / path).read_bytes()
        )

    def write(self, path: str, data: bytes) -> None:
        if self.bucket is not None:
            obstore.put(self.bucket.store, path, data)
        else:
            (self.directory / path).chmod(0o644)
            (self.directory / path).write_bytes(data)

    def remove(self, path: str) -> None:
        if self.bucket is not None:
            obstore.delete(self.bucket.store, path)
        else:
            (self.directory / path).unlink()

    def texts(self) -> str:
        return "".join(decoded(self.read(p)) for p in self.paths())


def decoded(data: bytes) -> str:
    """All that a file of a shard holds, compression undone."""
    text = data.decode("latin-1")
    if data[8:12] == b"DUCK":
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "db"
            file.write_bytes(data)
            with duckdb.connect(str(file), read_only=True) as connection:
                for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                    text += str(connection.execute(f'SELECT * FROM "{table}"').fetchall())
    elif data.startswith(b"ARROW1"):
        text += str(pa.ipc.open_file(io.BytesIO(data)).read_all().to_pydict())
    return text


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.server)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    return Kept(tmp_path, None if request.param == "directory" else Bucket(request.getfixturevalue("s3")))


def world(count: int = 8) -> World:
    return World(
        [Doc(f"{i}.md", f"# Note {i}\n\nservice s{i} of the lab\n\ncommon words") for i in range(count)]
    )


def edit(w: World, name: str, text: str) -> None:
    next(d for d in w.docs.values() if d.path == name).text = text


def found(kb: KnowledgeBase, query: str) -> list[str]:
    return [h.text for h in kb.search(query, 3, mode="keyword").hits]


def test_one_edit_writes_one_shard_and_nothing_changed_writes_nothing(kept: Kept) -> None:
    w = world()
    first = publish(kept.store, w.input(), SMALL)
    assert first.shards_new > 1 and first.manifest_version == 1
    before = kept.paths()
    w.loaded.clear()
    again = publish(kept.open(kept.home / "other"), w.input(), SMALL)
    assert again == PublishReport(
        shards_new=0,
        shards_reused=first.shards_new,
        shards_removed=0,
        bytes_written=0,
        chunks=24,
        documents=8,
        entities=0,
        manifest_version=1,
        changed=False,
    )
    assert w.loaded == [] and kept.paths() == before
    edit(w, "3.md", "quite another text")
    second = publish(kept.store, w.input("s2"), SMALL)
    assert (second.shards_new, second.shards_removed, second.manifest_version) == (1, 1, 2)
    verify(kept.store, load_manifest(kept.store, NAMESPACE))


def test_a_reader_elsewhere_finds_what_is_published_within_a_second(kept: Kept, tmp_path: Path) -> None:
    w = world()
    with pytest.raises(TabootError, match="E_KB_UNINITIALIZED"):
        kept.reader(tmp_path / "laptop")
    publish(kept.store, w.input(), SMALL)
    kb = kept.reader(tmp_path / "laptop")
    assert found(kb, "s3") == ["service s3 of the lab"] and kb.documents().num_rows == 8
    edit(w, "3.md", "# Note 3\n\nservice moved")
    publish(kept.store, w.input("s2"), SMALL)
    deadline = time.monotonic() + 60
    while found(kb, "moved") != ["service moved"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert kb.manifest.version == 2 and found(kb, "s3") == []


def test_prune_keeps_the_manifests_shards_and_the_grace(kept: Kept) -> None:
    w = world()
    publish(kept.store, w.input(), SMALL)
    edit(w, "0.md", "unique-secret-word stays nowhere")
    publish(kept.store, w.input("s2"), SMALL)
    edit(w, "0.md", "harmless")
    publish(kept.store, w.input("s3"), SMALL)
    # What a killed publish and a killed download leave.
    for name in (".building-x/shard-00000.duckdb", ".loading-x"):
        for folder in kept.home.glob(f"cache/shards/*/{NAMESPACE}"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("unique-secret-word")
    assert "unique-secret-word" in kept.texts()
    assert prune(kept.store, NAMESPACE, min_age_seconds=600) == []
    assert len(prune(kept.store, NAMESPACE)) == 2 and prune(kept.store, NAMESPACE) == []
    assert "unique-secret-word" not in kept.texts()
    assert not [
        p for p in kept.home.rglob("*") if p.is_file() and "unique-secret-word" in decoded(p.read_bytes())
    ]
    manifest = load_manifest(kept.store, NAMESPACE)
    assert manifest is not None and manifest.version == 3
    verify(kept.store, manifest)


def test_content_that_comes_back_finds_its_shard_again(kept: Kept) -> None:
    w = world()
    publish(kept.store, w.input(), SMALL)
    for text, version in (
        ("quite another text", 2),
        ("# Note 0\n\nservice s0 of the lab\n\ncommon words", 3),
    ):
        edit(w, "0.md", text)
        report = publish(kept.store, w.input(), SMALL)
        assert report.manifest_version == version and (report.bytes_written > 0) is (version == 2)
    verify(kept.store, load_manifest(kept.store, NAMESPACE))


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_file_is_named_and_the_next_publish_mends_it(kept: Kept, tmp_path: Path, harm: str) -> None:
    w = world(3)
    publish(kept.store, w.input(), SMALL)
    path = next(p for p in kept.paths() if p.endswith("shard-00000.duckdb"))
    data = bytearray(kept.read(path))
    if harm == "remove":
        kept.remove(path)
    else:
        data[len(data) // 2] ^= 1
        kept.write(path, bytes(data[:-1] if harm == "cut" else data))
    with pytest.raises(TabootError) as caught:
        found(kept.reader(tmp_path / "laptop"), "s1")
    assert (
        caught.value.code == ("E_SHARD_MISSING" if harm == "remove" else "E_SHARD_CORRUPT")
        and "shard-00000.duckdb" in caught.value.message
    )
    manifest = load_manifest(kept.store, NAMESPACE)
    assert manifest is not None and len(damaged_shards(kept.store, manifest)) == 1
    report = publish(kept.store, w.input(), SMALL)
    assert report.shards_new == 1 and report.changed
    manifest = load_manifest(kept.store, NAMESPACE)
    assert manifest is not None and damaged_shards(kept.store, manifest) == []
    verify(kept.store, manifest)
    assert found(kept.reader(tmp_path / "laptop"), "s1") == ["service s1 of the lab"]


def test_a_reader_that_only_reads_leaves_no_trace(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of what it read and verified nor of what it found damaged."""
    monkeypatch.setattr(files, "_SETTLED_NS", 0)  # what was just written counts as verified at once
    publish(kept.store, world(3).input(), SMALL)
    manifest, home = load_manifest(kept.store, NAMESPACE), tmp_path / "laptop"
    assert manifest is not None
    path = next(p for p in kept.paths() if p.endswith("shard-00000.duckdb"))
    data = kept.read(path)
    kept.write(path, bytes([data[0] ^ 1]) + data[1:])
    before = kept.paths(), tree(tmp_path)

    def asked() -> list[str]:
        kb = KnowledgeBase.open(settings=kept.settings(home), embedder=HashEmbedder(), read_only=True)
        return found(kb, "s1")

    with pytest.raises(TabootError, match="E_SHARD_CORRUPT"):
        asked()
    assert (kept.paths(), tree(tmp_path)) == before and damaged_shards(kept.store, manifest) == []
    kept.write(path, data)
    before = kept.paths(), tree(tmp_path)
    assert asked() == ["service s1 of the lab"]
    assert (kept.paths(), tree(tmp_path)) == before


def test_a_damaged_manifest_is_named_and_replaced(kept: Kept) -> None:
    w = world(3)
    publish(kept.store, w.input(), SMALL)
    for data in (b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"format":2}'):
        kept.write(MANIFEST, data)
        with pytest.raises(TabootError) as caught:
            load_manifest(kept.store, NAMESPACE)
        assert caught.value.code == "E_SHARD_CORRUPT" and "manifest" in caught.value.message
        assert publish(kept.store, w.input(), SMALL).bytes_written == 0  # the shards were whole
        assert load_manifest(kept.store, NAMESPACE).documents == 3


def test_a_second_publisher_gets_a_conflict_and_changes_nothing(kept: Kept) -> None:
    slow, fast = world(), world(3)

    def load(ids: Any) -> Any:
        if MANIFEST not in (kept.paths() if kept.bucket or kept.directory.exists() else []):
            publish(kept.store, fast.input("fast"), SMALL)
        return slow.load(ids)

    with pytest.raises(TabootError) as caught:
        publish(kept.store, replace(slow.input("slow"), load=load), SMALL)
    assert caught.value.code == "E_CONFLICT"
    assert load_manifest(kept.store, NAMESPACE).snapshot == "fast"
    assert publish(kept.store, slow.input("slow"), SMALL).bytes_written == 0  # what it had built is adopted
    assert load_manifest(kept.store, NAMESPACE).snapshot == "slow"


def test_a_swap_needs_the_etag_that_was_read(kept: Kept) -> None:
    first, second, third = (
        Manifest(
            namespace=NAMESPACE,
            version=v,
            snapshot=str(v),
            space=SpaceEntry.of(SPACE),
            analyzer=ANALYZER,
            sources={},
            shards=(),
        )
        for v in (1, 2, 3)
    )

    def refused(manifest: Manifest, etag: str) -> None:
        with pytest.raises(TabootError) as caught:
            kept.store.swap_manifest(manifest, etag)
        assert caught.value.code == "E_CONFLICT"

    refused(second, '"0123456789abcdef0123456789abcdef"')  # there is none to replace
    kept.store.swap_manifest(first, "")
    refused(second, "")
    _, etag = kept.store.read_manifest(NAMESPACE)
    kept.store.swap_manifest(second, etag)
    refused(third, etag)
    assert load_manifest(kept.store, NAMESPACE) == second


def test_four_processes_swap_the_manifest_and_lose_no_version(kept: Kept) -> None:
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(4), context.Queue()
    place = kept.settings(kept.home)
    processes = [
        context.Process(target=increments, args=(place, str(i), 25, start, results)) for i in range(4)
    ]
    for p in processes:
        p.start()
    conflicts = sum(results.get(timeout=300) for _ in processes)
    for p in processes:
        p.join(60)
    assert load_manifest(kept.store, NAMESPACE).version == 100 and conflicts >= 3


def test_killed_at_any_request_the_old_state_stands_and_the_next_publish_completes(
    s3: Any, tmp_path: Path
) -> None:
    """Every write of a publish is the last one in turn."""
    bucket = Bucket(s3)
    w = world(4)
    kept = Kept(tmp_path, bucket)
    publish(kept.store, w.input(), SMALL)
    put = obstore.put
    done = 0
    for allowed in range(100):
        for d in w.docs.values():
            d.text = f"# Edit {allowed}\n\nservice {d.path} again"
        left = iter(range(allowed))

        def dying(*args: Any, left: Any = left, **options: Any) -> Any:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return put(*args, **options)

        version = load_manifest(kept.store, NAMESPACE).version
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(obstore, "put", dying)
            try:
                publish(kept.store, w.input(str(allowed)), SMALL)
                done = allowed
                break
            except KeyboardInterrupt:
                pass
        manifest = load_manifest(kept.store, NAMESPACE)
        assert manifest is not None and manifest.version <= version + 1
        verify(kept.open(tmp_path / "reader"), manifest)
        publish(kept.store, w.input(str(allowed)), SMALL)
        assert found(kept.reader(tmp_path / "reader"), f"edit {allowed}")
    assert done > 4  # databases, the shards' own records, the manifest, and the marks of what left
    prune(kept.store, NAMESPACE)
    fresh = Kept(tmp_path / "fresh", Bucket(s3))
    publish(fresh.store, w.input(str(done)), SMALL)
    assert [p for p in kept.paths() if p.endswith("/shard.json")] == [
        p for p in fresh.paths() if p.endswith("/shard.json")
    ]
    assert load_manifest(kept.store, NAMESPACE).documents == 4


def test_an_answer_that_was_lost_is_no_conflict(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write went through, its answer did not, and the client's repetition is refused."""
    kept = Kept(tmp_path, Bucket(s3))
    publish(kept.store, world(2).input(), SMALL)
    put = obstore.put

    def repeated(store: Any, path: str, *args: Any, **options: Any) -> Any:
        if path == MANIFEST:
            put(store, path, *args, **options)
        return put(store, path, *args, **options)

    monkeypatch.setattr(obstore, "put", repeated)
    assert publish(kept.store, world(3).input("s2"), SMALL).manifest_version == 2


def test_an_unchanged_manifest_is_not_sent_again_and_asked_for_at_most_once_a_second(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path, Bucket(s3))
    publish(kept.store, world(2).input(), SMALL)
    asked: list[Any] = []
    get = obstore.get
    monkeypatch.setattr(
        obstore,
        "get",
        lambda store, path, **options: (asked.append((path, options)), get(store, path, **options))[1],
    )
    kb = kept.reader(tmp_path / "laptop")
    for _ in range(50):
        found(kb, "s1")
    looks = [options for path, options in asked if path == MANIFEST]
    assert len(looks) <= 3
    view = kb._session.view()
    kb._session.store._looked.clear()
    assert kb._session.view() is view
    assert asked[-1][1]["options"]["if_none_match"] == view.seen.state


def test_a_shard_that_vanished_is_looked_for_in_the_next_manifest(s3: Any, tmp_path: Path) -> None:
    """Between the manifest and the download another publish and a prune came: the reader does not wait for
    its second.
    """
    w = world()
    kept = Kept(tmp_path, Bucket(s3))
    publish(kept.store, w.input(), SMALL)
    kb = kept.reader(tmp_path / "laptop")
    edit(w, "3.md", "# Note 3\n\nservice moved")
    publish(kept.store, w.input("s2"), SMALL)
    prune(kept.store, NAMESPACE)
    assert kb._session._pinned.manifest.version == 1
    assert found(kb, "moved") == ["service moved"]


def cached_in(home: Path) -> set[str]:
    return {p.name for p in (home / "cache" / "shards").rglob("*") if p.is_file()}


def named_by(manifest: Manifest | None) -> set[str]:
    assert manifest is not None
    databases = {f.sha256 for s in manifest.shards for f in s.files}
    return databases | set(map(search_file_name, databases))


def test_readers_share_the_cache_and_it_holds_the_newest_manifest_only(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world()
    kept = Kept(tmp_path, Bucket(s3))
    publish(kept.store, w.input(), SMALL)
    laptop = tmp_path / "laptop"
    results: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: results.append(found(kept.reader(laptop), "s3"))) for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [["service s3 of the lab"]] * 4
    assert cached_in(laptop) == named_by(load_manifest(kept.store, NAMESPACE))
    monkeypatch.setattr("taboot_pipelines.shards.cache.GRACE_SECONDS", 0.0)
    for d in w.docs.values():
        d.text += "\n\nmore"
    publish(kept.store, w.input("s2"), SMALL)
    assert found(kept.reader(laptop), "more")
    assert cached_in(laptop) == named_by(load_manifest(kept.store, NAMESPACE))


def test_a_cached_file_that_rotted_is_fetched_again(s3: Any, tmp_path: Path) -> None:
    kept = Kept(tmp_path, Bucket(s3))
    publish(kept.store, world(2).input(), SMALL)
    laptop = tmp_path / "laptop"
    assert found(kept.reader(laptop), "s1") == ["service s1 of the lab"]
    for path in (laptop / "cache").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"rot" + path.read_bytes()[3:])
    assert found(kept.reader(laptop), "s1") == ["service s1 of the lab"]
    assert damaged_shards(kept.store, load_manifest(kept.store, NAMESPACE)) == []
