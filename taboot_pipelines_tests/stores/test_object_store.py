"""The whole chain on an object store, and what goes wrong with one: in words, waited out where it ends soon,
without secrets.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import SecretStr

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import Settings, StorageSettings, load_settings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.stages import raw_blobs, storage_audit
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stages.running import run_stage
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.blobs import open_blobs
from taboot_pipelines.stores.tables import Tables
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.objects import Bucket, storage_of
from taboot_pipelines_tests.servers import OwnServer, S3Server, own_s3, s3_at
from taboot_pipelines_tests.shards.test_stores import decoded
from taboot_pipelines_tests.world import World, differences, graph, logical

SECRET = "wJalrXUtnFEMI-K7MDENG"
KEY = "AKIAEXAMPLEKEY"


def urls(bucket: Bucket) -> dict[str, Any]:
    """Settings that keep everything but the catalog in the bucket."""
    return {
        "blob_url": f"{bucket.url}/blobs",
        "table_url": f"{bucket.url}/tables",
        "shard_url": f"{bucket.url}/shards",
        "storage": {
            k: v.get_secret_value() if isinstance(v, SecretStr) else v
            for k, v in bucket.storage.model_dump().items()
        },
    }


def words(bucket: Bucket, home: Path) -> str:
    """All that the bucket and the home hold, in folded case."""
    data = {**bucket.contents(), **{str(p): p.read_bytes() for p in home.rglob("*") if p.is_file()}}
    return "".join(
        str(pq.read_table(io.BytesIO(d)).to_pydict()) if p.endswith(".parquet") else decoded(d)
        for p, d in data.items()
    ).casefold()


def from_scratch(world: World, bucket: Bucket, root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A local replay of the catalog's inputs and the bucket's blobs, those that wait for it included: what
    the stores must equal.
    """
    local = World(root, world.tei)
    local.workspace.close()
    shutil.rmtree(local.home)
    local.home.mkdir()
    shutil.copytree(world.home / "uploads", local.home / "blobs")
    for path, data in bucket.contents().items():
        if path.startswith("blobs/"):
            target = local.home / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    with (
        sqlite3.connect(world.home / "catalog.db") as source,
        sqlite3.connect(local.home / "catalog.db") as target_db,
    ):
        source.backup(target_db)
    home = local.replay()
    workspace = local.open(home)
    try:
        return logical(workspace), graph(local.kb(home=home))
    finally:
        workspace.close()


def assert_as_from_scratch(world: World, bucket: Bucket, root: Path) -> None:
    rows, seen = from_scratch(world, bucket, root)
    assert not (d := differences(logical(world.workspace), rows)), d
    assert not (d := differences(graph(world.kb()), seen)), d


def fill(world: World) -> None:
    notes, stack = world.source("notes"), world.source("stack", "compose")
    for i in range(6):
        (notes / f"{i}.md").write_text(
            f"# Note {i}\n\nThe web service listens on http://host{i}.example.com:80{i}0/ behind db.\n"
        )
    (stack / "compose.yaml").write_text(
        "services:\n  web:\n    image: nginx:1.27\n    depends_on: [db]\n  db:\n    image: postgres:16\n"
    )


@pytest.fixture
def remote(s3: S3Server, tmp_path: Path, tei: FakeTei) -> Iterator[tuple[World, Bucket]]:
    bucket = Bucket(s3)
    world = World(tmp_path / "world", tei.url, **urls(bucket))
    yield world, bucket
    world.workspace.close()


def test_an_erasure_and_a_retirement_touch_nothing_else_under_the_same_url(
    s3: S3Server, tmp_path: Path, tei: FakeTei
) -> None:
    """One URL for blobs, tables and shards; namespaces of which one begins like the other; and files of
    somebody else's.
    """
    bucket = Bucket(s3)
    world = World(
        tmp_path,
        tei.url,
        **{**urls(bucket), **dict.fromkeys(("blob_url", "table_url", "shard_url"), f"{bucket.url}/")},
    )
    theirs = {
        f"{top}/deep/down/file.{kind}": b"theirs" for top in ("a", "a.d", "lake") for kind in ("bin", "csv")
    } | {"lake/sales/2024/part.parquet": b"theirs"}
    for path, data in theirs.items():
        obstore.put(bucket.store, path, data)
    namespaces = ("a", "a-b", "a_b", "a0")
    for namespace in namespaces:
        source = world.source(f"of-{namespace}", namespace=namespace)
        for name in ("x", "y"):
            (source / f"{name}.md").write_text(f"# {name}\n\nPage {name} of {namespace}.\n")
    world.ingest()
    others = {
        p: d
        for p, d in bucket.contents().items()
        if not p.startswith(("a/of-a/", "a/_/", "a.duckdb", "sources/a/"))
    }
    assert set(others) > set(theirs)
    gone = world.workspace.catalog.locators.of_source("a", "of-a")["x.md"].doc_id
    assert delete(world.workspace, "a", [gone], erase=True).final
    assert len(world.kb("a").documents()) == 1
    world.remove_source("of-a")
    world.ingest("of-a", confirm_deletes=True)
    left = bucket.contents()
    assert {p: left.get(p) for p in others} == others and not [p for p in left if p.startswith("a/of-a/")]
    assert [storage_audit.run(world.workspace, n, deep=True).found for n in namespaces] == [[]] * 4
    world.workspace.close()


# --- the chain ----------------------------------------------------------------------------------------------


def test_the_chain_on_an_object_store_equals_a_local_replay(
    remote: tuple[World, Bucket], tmp_path: Path
) -> None:
    world, bucket = remote
    fill(world)
    notes = world.directory / "notes"
    world.ingest()
    assert not [p for p in world.home.iterdir() if p.name in {"blobs", "tables", "kb"}], (
        "something was kept locally"
    )
    assert all(
        r.skipped == "unchanged"
        for r in world.ingest()
        if r.stage in {"documents", "tier_a_triples", "entity_snapshots", "kb_shards"}
    )

    (notes / "1.md").write_text("# Note 1\n\nIt moved to http://elsewhere.example.com/.\n")
    (notes / "2.md").unlink()
    (notes / "new.md").write_text("# New\n\nThe word is zyxwvutquux.\n")
    world.ingest()
    assert_as_from_scratch(world, bucket, tmp_path / "edited")
    kb = world.kb()
    edge = kb.edges().filter(pa.compute.equal(kb.edges().column("type"), "DEPENDS_ON")).to_pylist()[0]
    assert kb.explain(edge["edge_id"]).quotes[0].text == "db"

    assert "zyxwvutquux" in words(bucket, world.home)
    gone = world.workspace.catalog.locators.of_source("default", "notes")["new.md"].doc_id
    receipt = delete(world.workspace, "default", [gone], erase=True)
    assert receipt.final
    assert "zyxwvutquux" not in words(bucket, world.home)
    kept = world.workspace.catalog.locators.of_source("default", "notes")["0.md"].doc_id
    assert delete(world.workspace, "default", [kept]).final
    assert_as_from_scratch(world, bucket, tmp_path / "deleted")

    world.remove_source("notes")
    world.ingest(confirm_deletes=True)
    assert not [p for p in bucket.contents() if p.startswith("tables/default/notes/")]
    assert world.kb().documents().column("path").to_pylist() == ["compose.yaml"]


def test_a_reader_needs_the_shards_url_and_nothing_else(remote: tuple[World, Bucket], tmp_path: Path) -> None:
    """On another machine: an empty home, no catalog; evidence needs the blobs as well."""
    world, bucket = remote
    fill(world)
    world.ingest()
    given = urls(bucket)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TABOOT_")} | {
        "TABOOT_HOME": str(tmp_path / "laptop"),
        "TABOOT_SHARD_URL": given["shard_url"],
        "TABOOT_TEI__URL": world.tei,
        "TABOOT_STORAGE__ENDPOINT": given["storage"]["endpoint"],
        "TABOOT_STORAGE__ACCESS_KEY_ID": given["storage"]["access_key_id"],
        "TABOOT_STORAGE__SECRET_ACCESS_KEY": given["storage"]["secret_access_key"],
    }

    def taboot(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from taboot_pipelines.cli import main; main()", *arguments],
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    done = taboot("search", "host3", "--limit", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert [h["url"].rsplit("/", 1)[-1] for h in json.loads(done.stdout)["hits"]] == ["3.md"]
    assert sorted(p.name for p in (tmp_path / "laptop").iterdir()) == ["cache", "spaces.json"]
    edge = next(e["edge_id"] for e in world.kb().edges().to_pylist() if e["type"] == "DEPENDS_ON")
    refused = taboot("explain", edge)
    assert refused.returncode == 1 and "TABOOT_BLOB_URL" in refused.stderr
    assert taboot("explain", edge, TABOOT_BLOB_URL=given["blob_url"]).returncode == 0


def test_each_url_alone_gives_the_same(s3: S3Server, tmp_path: Path, tei: FakeTei) -> None:
    seen = []
    for name in ("blob_url", "table_url", "shard_url"):
        bucket = Bucket(s3)
        world = World(
            tmp_path / name, tei.url, **{k: v for k, v in urls(bucket).items() if k in {name, "storage"}}
        )
        fill(world)
        world.ingest()
        assert {p.split("/")[0] for p in bucket.contents()} == {name.removesuffix("_url") + "s"}
        edges = world.kb().edges()
        seen.append(sorted(edges.column("edge_id").to_pylist()))
        world.workspace.close()
    assert seen[0] == seen[1] == seen[2] and seen[0]


# --- outages ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    with own_s3(tmp_path_factory.mktemp("own")) as server:
        yield server


def patient(own: OwnServer, **storage: object) -> Bucket:
    return Bucket(s3_at(own.url), **storage)


@pytest.mark.server
def test_outages_of_seconds_are_waited_out(own: OwnServer, tmp_path: Path, tei: FakeTei) -> None:
    """The server dies as a stage begins and comes back a second later: once under the tables and blobs, once
    under the shards.
    """
    bucket = patient(own, max_retries=12)
    world = World(tmp_path / "world", tei.url, **urls(bucket))
    fill(world)
    world.workspace.sync_sources()
    for source, struck in (("notes", "documents"), ("stack", "kb_shards")):
        for stage in CHAIN.names:
            again = threading.Timer(1, own.start)
            if stage == struck:
                own.stop()
                again.start()
            try:
                run_stage(world.workspace, stage, source)
            finally:
                if stage == struck:
                    again.join()
    assert_as_from_scratch(world, bucket, tmp_path / "scratch")
    assert all(r.skipped == "unchanged" for r in world.ingest() if r.stage in {"documents", "kb_shards"})
    world.workspace.close()


@pytest.mark.server
def test_a_longer_outage_fails_in_words_and_the_next_run_completes(
    own: OwnServer, tmp_path: Path, tei: FakeTei, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = patient(own, max_retries=0)
    world = World(tmp_path / "world", tei.url, **urls(bucket))
    fill(world)
    world.ingest()
    (world.directory / "notes" / "7.md").write_text(
        "# Seven\n\nA late note about http://late.example.com/.\n"
    )
    reader = world.kb()
    own.stop()
    try:
        for attempt in (
            lambda: world.ingest("notes"),
            lambda: world.kb(),
            lambda: (time.sleep(1.1), reader.search("note", mode="keyword")),
        ):
            with pytest.raises(TabootError) as caught:
                attempt()
            assert caught.value.code == "E_STORAGE" and "does not answer" in caught.value.message
    finally:
        own.start()
    world.ingest()
    time.sleep(1.1)
    assert reader.search("late", mode="keyword").hits
    assert_as_from_scratch(world, bucket, tmp_path / "scratch")
    # The new bytes waited in the home meanwhile, and are uploaded when their time has come.
    late = world.workspace.catalog.locators.of_source("default", "notes")["7.md"].sha256
    monkeypatch.setattr(raw_blobs, "now_micros", lambda: 2**61)
    world.ingest("notes")
    assert f"blobs/sources/default/{late}" in bucket.contents()
    world.workspace.close()


# --- failures in words --------------------------------------------------------------------------------------


def everything(home: Path, url: str, storage: StorageSettings) -> list[Callable[[], object]]:
    """A request of each part."""
    blobs = open_blobs(Settings(home=home, blob_url=f"{url}/b", storage=storage))
    tables = Tables(home, f"{url}/t", storage)
    shards = open_shards(Settings(home=home, shard_url=f"{url}/s", storage=storage))
    rows = pa.table({"bucket": pa.array([1], pa.int32()), "sha256": ["a"], "vector": [[1.0]]})
    return [
        lambda: blobs.put("n", b"bytes"),
        lambda: blobs.get("n", "0" * 64),
        lambda: blobs.exists("n", "0" * 64),
        lambda: list(blobs.list("n")),
        lambda: blobs.delete("n", "0" * 64),
        lambda: blobs.sweep("n", ()),
        lambda: tables.version("n", "s", "vectors.x"),
        lambda: tables.append("n", "s", "vectors.x", rows, txn="t"),
        lambda: tables.names("n", "s"),
        lambda: tables.exist("n", "s", {"vectors.x": 1}),
        lambda: tables.drop_owner("n", "s"),
        lambda: tables.empty_trash("n"),
        lambda: tables.rollback("n", "s", "vectors.x", None),
        lambda: load_manifest(shards, "n"),
        lambda: shards.damage("n"),
        lambda: shards.prune("n", None, 0),
        lambda: shards.look("n", None),
    ]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("secret", "refuses the credentials"),
        ("key", "refuses the credentials"),
        ("bucket", "the bucket no-such-bucket of TABOOT_"),
        ("server", "does not answer"),
    ],
)
def test_what_is_wrong_is_told_in_words_without_secrets(
    s3: S3Server, tmp_path: Path, wrong: str, says: str
) -> None:
    bucket = Bucket(s3)
    given = {
        "secret": {"secret_access_key": SECRET},
        "key": {"access_key_id": KEY},
        "bucket": {},
        "server": {"endpoint": "http://127.0.0.1:9"},
    }[wrong]
    storage = storage_of(s3, **{"max_retries": 0, **given})
    url = "s3://no-such-bucket/x" if wrong == "bucket" else bucket.url
    for request in everything(tmp_path, url, storage):
        with pytest.raises(TabootError) as caught:
            request()
        told = "".join(traceback.format_exception(caught.value)) + json.dumps(caught.value.to_response())
        assert (
            caught.value.code == "E_STORAGE"
            and says in caught.value.message
            and "TABOOT_" in caught.value.message
        ), told
        secrets = {SECRET, KEY, storage.secret_access_key.get_secret_value()}
        assert not [s for s in secrets if s in told] and "Signature" not in told


def test_what_is_not_there_is_not_an_outage(s3: S3Server, tmp_path: Path) -> None:
    bucket = Bucket(s3)
    blobs = open_blobs(Settings(home=tmp_path, blob_url=bucket.url, storage=bucket.storage))
    assert not blobs.exists("n", "0" * 64) and list(blobs.list("n")) == []
    with pytest.raises(TabootError, match="E_BLOB_MISSING"):
        blobs.get("n", "0" * 64)
    assert (
        load_manifest(open_shards(Settings(home=tmp_path, shard_url=bucket.url, storage=bucket.storage)), "n")
        is None
    )


@pytest.mark.parametrize("setting", ["blob_url", "table_url", "shard_url"])
@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "/srv/data",
        "http://host/x",
        "memory:///",
        "s3://",
        "s3:///x",
        "s3://b",
        "s3://key:secretpass@bucket/x",
        "s3://bucket/x?secretpass",
        "s3://bu cket/x",
        "file://host/x",
        "file:relative",
        "ftp://bucket/x",
        "s3://[::1",
        "az://container-without-account/x",
    ],
)
def test_a_wrong_url_is_refused_at_open_by_its_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, url: str
) -> None:
    for name in [n for n in os.environ if n.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    with pytest.raises(TabootError) as caught:
        Workspace(load_settings(home=tmp_path, **{setting: url}))
    assert (
        caught.value.code == "E_CONFIG"
        and f"TABOOT_{setting.upper()}" in caught.value.message
        and "secretpass" not in str(caught.value)
    )
    assert not (tmp_path / "catalog.db").exists()


@pytest.mark.parametrize(
    "endpoint",
    ["minio.lan:9000", "http://", "http://key:secretpass@host", "http://host/?secretpass", "ftp://host"],
)
def test_a_wrong_endpoint_is_refused_at_open(tmp_path: Path, endpoint: str) -> None:
    storage = StorageSettings(endpoint=endpoint)
    with pytest.raises(TabootError) as caught:
        open_blobs(Settings(home=tmp_path, blob_url="s3://bucket/x", storage=storage))
    assert (
        caught.value.code == "E_CONFIG"
        and "TABOOT_STORAGE__ENDPOINT" in caught.value.message
        and "secretpass" not in str(caught.value)
    )


def test_a_batch_does_not_wait_for_each_of_its_blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an outage the first request is repeated; those after it are tried once and queued."""
    storage = StorageSettings(
        endpoint="http://127.0.0.1:9",
        access_key_id=SecretStr(KEY),
        secret_access_key=SecretStr(SECRET),
        max_retries=1,
    )
    blobs = open_blobs(Settings(home=tmp_path, blob_url="s3://bucket/x", storage=storage))
    asked = []
    for name in ("put", "get"):
        original = getattr(obstore, name)
        monkeypatch.setattr(
            obstore,
            name,
            lambda store, *a, original=original, **o: (
                asked.append(store is blobs._store),
                original(store, *a, **o),
            ),
        )
    for request in (
        lambda: blobs.put("n", b"1"),
        lambda: blobs.put("n", b"2"),
        lambda: blobs.get("n", "0" * 64),
    ):
        with pytest.raises(TabootError, match="E_STORAGE"):
            request()
    assert asked == [True, False, False]


def test_a_file_url_is_a_directory(tmp_path: Path, tei: FakeTei) -> None:
    places = {
        name: (tmp_path / "mount point" / name).as_uri() for name in ("blob_url", "table_url", "shard_url")
    }
    world = World(tmp_path / "world", tei.url, **places)
    fill(world)
    world.ingest()
    assert (
        tmp_path / "mount point" / "shard_url" / "default.duckdb.manifest.json"
    ).exists() and world.kb().search("note", mode="keyword").hits
    assert {p.name for p in (tmp_path / "mount point" / "table_url").iterdir()} == {"default"}
    assert not {p.name for p in world.home.iterdir()} & {"blobs", "tables", "kb"}
    world.workspace.close()


def test_what_the_settings_leave_out_comes_from_the_providers_environment(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Bucket(s3)
    for name, value in {
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
    }.items():
        monkeypatch.setenv(name, value)
    for request in everything(tmp_path, bucket.url, StorageSettings()):
        try:
            request()
        except TabootError as error:
            assert error.code == "E_BLOB_MISSING"
    assert {p.split("/")[0] for p in bucket.contents()} <= {"b", "t"}


def test_opening_asks_no_server(tmp_path: Path) -> None:
    storage = StorageSettings(
        endpoint="http://127.0.0.1:9", access_key_id=SecretStr(KEY), secret_access_key=SecretStr(SECRET)
    )
    begun = time.monotonic()
    everything(tmp_path, "s3://bucket/x", storage)
    KnowledgeBase(
        load_settings(home=tmp_path, shard_url="s3://bucket/s", storage=storage.model_dump()), "default"
    )
    assert time.monotonic() - begun < 60  # the retries of one request alone would take longer


def test_health_says_what_each_part_is_and_what_is_wrong(s3: S3Server, tmp_path: Path) -> None:
    bucket = Bucket(s3)
    for url, storage, ok, message in (
        (bucket.url, bucket.storage, True, ""),
        ("s3://no-such-bucket/x", bucket.storage, False, "does not exist"),
        (bucket.url, storage_of(s3, secret_access_key=SECRET), False, "refuses the credentials"),
        (bucket.url, storage_of(s3, endpoint="http://127.0.0.1:9", max_retries=5), False, "does not answer"),
    ):
        parts = [
            open_blobs(Settings(home=tmp_path, blob_url=url, storage=storage)).health(),
            Tables(tmp_path, url, storage).health(),
            open_shards(Settings(home=tmp_path, shard_url=url, storage=storage)).health(),
        ]
        assert [(h.part, h.backend, h.ok) for h in parts] == [
            (p, "s3", ok) for p in ("blobs", "tables", "shards")
        ]
        assert all(message in h.message and SECRET not in h.message for h in parts) and all(
            (h.latency_ms is not None) is ok for h in parts
        )
    blobs = open_blobs(Settings(home=tmp_path))
    local = [blobs.health(), Tables(tmp_path).health(), open_shards(Settings(home=tmp_path)).health()]
    assert [(h.part, h.backend, h.ok, h.message) for h in local] == [
        (p, "directory", True, "") for p in ("blobs", "tables", "shards")
    ]
    (tmp_path / "file").write_text("")
    broken = [Tables(tmp_path / "file").health(), open_shards(Settings(home=tmp_path / "file")).health()]
    assert [h.ok for h in broken] == [False, False] and all("cannot be written" in h.message for h in broken)
