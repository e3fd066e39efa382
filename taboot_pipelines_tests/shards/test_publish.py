"""Publishing: the work is in proportion to the change, and the result a function of the content alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import ShardSettings
from taboot_pipelines.shards.directory import DirectoryShards
from taboot_pipelines.shards.inputs import DocumentRows
from taboot_pipelines.shards.layout import manifest_path, shards_dir
from taboot_pipelines.shards.protocol import ShardStore, damaged_shards, load_manifest
from taboot_pipelines.shards.publish import PublishReport, prune, publish
from taboot_pipelines.shards.reader import Shards, verify
from taboot_pipelines_tests.shards.builder import NAMESPACE, SPACE, Doc, World, edge, entity, service

SMALL = ShardSettings(max_chunks=12, max_entities=10)


def world(count: int = 20) -> World:
    docs = [
        Doc(
            f"{i}.md",
            f"# Note {i}\n\nThe service s{i} needs db.\n\ncommon words",
            edges=[edge(("h/p", f"s{i}"), ("", "db"), quote=f"service s{i} needs db")],
        )
        for i in range(count)
    ]
    names = [
        {
            "name": "db",
            "observed_key": service("", "db"),
            "resolved_key": service("h/p", "db"),
            "reason": "only one",
            "candidates": [service("h/p", "db")],
        }
    ]
    return World(
        docs, [entity("h/p", f"s{i}") for i in range(count)] + [entity("h/p", "db", version="7")], names
    )


def edit(w: World, at: int, text: str) -> Doc:
    doc = sorted(w.docs.values(), key=lambda d: d.path)[at]
    doc.text = text
    doc.edges = []
    return doc


@pytest.fixture
def store(tmp_path: Path) -> DirectoryShards:
    return DirectoryShards(tmp_path)


def rows(store: ShardStore) -> dict[str, list]:
    """Every logical row of every shard, by table."""
    manifest = load_manifest(store, NAMESPACE)
    assert manifest is not None
    shards = Shards.open(store, manifest)
    found = {}
    for kind, tables in (
        ("documents", ("documents", "docs", "postings", "edges", "doc_entities")),
        ("entities", ("entities", "names")),
    ):
        for name, table in zip(tables, shards.tables(kind, [f"FROM {t}" for t in tables]), strict=True):
            found[name] = table.to_pylist()
    found["mapped"] = [
        s.mapped.chunks.append_column(
            "d", s.mapped.documents.column("doc_id").take(s.mapped.chunks.column("document"))
        ).to_pylist()
        for s in shards.documents
    ]
    found["int8"] = [s.mapped.int8.tolist() for s in shards.documents]
    found["f32"] = [s.mapped.float32.tolist() for s in shards.documents]
    return found


def test_one_edit_writes_one_document_shard_and_loads_only_its_documents(store):
    w = world()
    first = publish(store, w.input(), SMALL)
    assert (
        first.shards_new > 5
        and first.documents == 20
        and first.chunks == 60
        and first.entities == 21
        and first.changed
    )
    w.loaded.clear()
    edit(w, 3, "quite another text")
    second = publish(store, w.input("s2"), SMALL)
    assert (second.shards_new, second.shards_removed, second.chunks, second.manifest_version) == (1, 1, 58, 2)
    assert second.shards_reused == first.shards_new - 1
    assert len(w.loaded) <= 4  # the documents of one leaf of at most 12 chunks


def test_an_edit_that_keeps_the_number_of_chunks_is_seen(store):
    w = world()
    publish(store, w.input(), SMALL)
    doc = edit(w, 3, "one\n\ntwo\n\nthree")
    assert publish(store, w.input(), SMALL).shards_new == 1
    assert [r["text"] for r in rows(store)["docs"] if r["doc_id"] == doc.doc_id] == ["one", "two", "three"]


def test_nothing_changed_writes_nothing(tmp_path, store):
    w = world()
    publish(store, w.input(), SMALL)
    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in tmp_path.rglob("*")}
    w.loaded.clear()
    report = publish(store, w.input(), SMALL)
    assert report == PublishReport(
        shards_new=0,
        shards_reused=len(list(shards_dir(tmp_path, NAMESPACE).iterdir())),
        shards_removed=0,
        bytes_written=0,
        chunks=60,
        documents=20,
        entities=21,
        manifest_version=1,
        changed=False,
    )
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in tmp_path.rglob("*")} == before
    assert w.loaded == []


def test_what_holds_for_a_source_changes_the_manifest_and_no_shard(store):
    w = world()
    publish(store, w.input(), SMALL)
    w.sources = {"docs": {"type": "files", "tags": ["new"], "root": "/srv"}}
    report = publish(store, w.input(), SMALL)
    assert (report.shards_new, report.bytes_written, report.changed, report.manifest_version) == (
        0,
        0,
        True,
        2,
    )


def test_a_name_that_changes_its_meaning_rewrites_entity_shards_only(store):
    w = world()
    publish(store, w.input(), SMALL)
    w.loaded.clear()
    w.names[0] |= {
        "resolved_key": None,
        "candidates": [service("h/p", "db"), service("h/q", "db")],
        "reason": "two",
    }
    w.entities.append(entity("h/q", "db"))
    report = publish(store, w.input(), SMALL)
    assert w.loaded == [] and 1 <= report.shards_new <= 4


def test_an_empty_namespace_has_a_manifest_without_shards(store):
    report = publish(store, World([]).input(), SMALL)
    manifest = load_manifest(store, NAMESPACE)
    assert report.changed and manifest is not None and manifest.shards == ()


words = st.sampled_from(
    ["alpha", "beta", "gamma", "ERR-123", "node-exporter", "ünïcode", "same text", "x" * 300, ""]
)
texts = st.lists(words, max_size=5).map("\n\n".join)
steps = st.lists(st.tuples(st.integers(0, 11), st.none() | texts), min_size=1, max_size=8)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=steps, cuts=st.integers(1, 8))
def test_incremental_equals_from_scratch(steps, cuts, tmp_path_factory):
    small = ShardSettings(max_chunks=cuts, max_entities=3)
    home = tmp_path_factory.mktemp("kb")
    edited, fresh = DirectoryShards(home / "a"), DirectoryShards(home / "b")
    w = World([], sources={"docs": {"type": "files"}})
    for number, text in steps:
        doc = Doc(f"{number}.md", text or "")
        if text is None:
            w.docs.pop(doc.doc_id, None)
            w.entities = [e for e in w.entities if e["name"] != f"s{number}"]
        else:
            doc.edges = [edge(("h", f"s{number}"), ("", "db"))]
            w.docs[doc.doc_id] = doc
            w.entities = [e for e in w.entities if e["name"] != f"s{number}"] + [
                entity("h", f"s{number}", text=text)
            ]
        publish(edited, w.input(), small)
        prune(edited, NAMESPACE)
    publish(fresh, w.input(), small)
    assert [s.key for s in load_manifest(edited, NAMESPACE).shards] == [
        s.key for s in load_manifest(fresh, NAMESPACE).shards
    ]
    assert rows(edited) == rows(fresh)
    assert {p.name for p in shards_dir(edited.root, NAMESPACE).glob("*")} == {
        p.name for p in shards_dir(fresh.root, NAMESPACE).glob("*")
    }
    shutil.rmtree(home)


def test_order_of_the_given_rows_never_matters(tmp_path):
    w = world()
    first, second = DirectoryShards(tmp_path / "a"), DirectoryShards(tmp_path / "b")
    publish(first, w.input(), SMALL)
    given = w.input()
    turned = replace(
        given,
        docs=given.docs.take(pa.array(range(len(given.docs) - 1, -1, -1))),
        entities=given.entities.take(pa.array(range(len(given.entities) - 1, -1, -1))),
        load=lambda ids: DocumentRows(
            *(
                t.take(pa.array(range(len(t) - 1, -1, -1), pa.int64()))
                for t in (lambda r: (r.documents, r.chunks, r.vectors, r.relations, r.links, r.title_links))(
                    w.load(ids)
                )
            )
        ),
    )
    publish(second, turned, SMALL)
    assert rows(first) == rows(second)


def test_each_database_stands_alone(tmp_path, store):
    """A reader with nothing but DuckDB finds text, vectors, postings and edges in one file."""
    w = world()
    publish(store, w.input(), SMALL)
    entry = load_manifest(store, NAMESPACE).of_kind("documents")[0]
    with duckdb.connect(
        str(shards_dir(tmp_path, NAMESPACE) / entry.key / "shard-00000.duckdb"), read_only=True
    ) as c:
        chunks = {r[0]: r[1:] for r in c.execute("SELECT row, text, length, embedding FROM docs").fetchall()}
        assert len(chunks) == entry.chunks and all(len(v[2]) == SPACE.dimension for v in chunks.values())
        assert sum(v[1] for v in chunks.values()) == entry.length
        found = c.execute("SELECT rows, tfs FROM postings WHERE term = 'common'").fetchone()
        held = sorted(r for r, v in chunks.items() if v[0] == "common words")
        assert found == (held, [1] * len(held)) and held
        assert c.execute("SELECT count(*) FROM edges").fetchone()[0] == entry.documents
        assert (
            c.execute("SELECT count(DISTINCT doc_id) FROM doc_entities WHERE name = 'db'").fetchone()[0]
            == entry.documents
        )


def test_a_second_publisher_gets_a_conflict_and_changes_nothing(tmp_path, store):
    slow, fast = world(), world(3)

    def load(ids):
        if not manifest_path(tmp_path, NAMESPACE).exists():
            publish(store, fast.input("fast"), SMALL)
        return slow.load(ids)

    with pytest.raises(TabootError) as caught:
        publish(store, replace(slow.input("slow"), load=load), SMALL)
    assert caught.value.code == "E_CONFLICT"
    assert load_manifest(store, NAMESPACE).snapshot == "fast"
    assert publish(store, slow.input("slow"), SMALL).bytes_written == 0  # what it had built is adopted
    assert load_manifest(store, NAMESPACE).snapshot == "slow"


def test_a_failure_half_way_leaves_the_old_state_and_the_next_publish_completes(tmp_path, store):
    w = world()
    publish(store, w.input(), SMALL)
    before = rows(store)
    for d in list(w.docs.values()):
        d.text += "\n\nmore"
    count = iter(range(100))

    def load(ids):
        if next(count) == 2:
            raise KeyboardInterrupt
        return w.load(ids)

    with pytest.raises(KeyboardInterrupt):
        publish(store, replace(w.input("s2"), load=load), SMALL)
    assert rows(store) == before
    publish(store, w.input("s2"), SMALL)
    prune(store, NAMESPACE)
    fresh = DirectoryShards(tmp_path / "fresh")
    publish(fresh, w.input("s2"), SMALL)
    assert rows(store) == rows(fresh)
    assert not [p for p in shards_dir(tmp_path, NAMESPACE).iterdir() if p.name.startswith(".")]


def test_prune_removes_what_the_manifest_does_not_name(tmp_path, store):
    w = world()
    publish(store, w.input(), SMALL)
    edit(w, 0, "unique-secret-word stays nowhere")
    publish(store, w.input("s2"), SMALL)
    edit(w, 0, "harmless")
    publish(store, w.input("s3"), SMALL)
    assert len(prune(store, NAMESPACE)) == 2
    assert not any(b"unique-secret-word" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    verify(store, load_manifest(store, NAMESPACE))
    assert prune(store, NAMESPACE) == []


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_any_damaged_file_is_found_named_and_built_again(tmp_path, store, harm):
    w = world(4)
    publish(store, w.input(), ShardSettings())
    manifest = load_manifest(store, NAMESPACE)
    names = [(s.key, f.name) for s in manifest.shards for f in s.files]
    assert [name for _, name in names] == ["shard-00000.duckdb"] * 2
    for key, name in names:
        path = shards_dir(tmp_path, NAMESPACE) / key / name
        data = bytearray(path.read_bytes())
        path.chmod(0o644)
        if harm == "remove":
            path.unlink()
        elif harm == "cut":
            path.write_bytes(data[:-1])
        else:
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        manifest = load_manifest(store, NAMESPACE)
        with pytest.raises(TabootError) as caught:
            verify(store, manifest)
        assert caught.value.code == ("E_SHARD_MISSING" if harm == "remove" else "E_SHARD_CORRUPT")
        assert name in caught.value.message
        assert damaged_shards(store, manifest) == [key]
        report = publish(store, w.input(), ShardSettings())
        assert report.shards_new == 1 and report.changed
        verify(store, load_manifest(store, NAMESPACE))
        assert damaged_shards(store, load_manifest(store, NAMESPACE)) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"format":2}', b'{"format":1,"namespace":"default"}', b"null"],
)
def test_a_damaged_manifest_is_named_and_replaced(tmp_path, store, data):
    w = world(3)
    publish(store, w.input(), SMALL)
    manifest_path(tmp_path, NAMESPACE).write_bytes(data)
    with pytest.raises(TabootError) as caught:
        load_manifest(store, NAMESPACE)
    assert caught.value.code == "E_SHARD_CORRUPT" and "manifest" in caught.value.message
    report = publish(store, w.input(), SMALL)
    assert report.changed and report.bytes_written == 0  # the shards were whole
    assert load_manifest(store, NAMESPACE).documents == 3


@pytest.mark.parametrize("other", [{"format": 0}, {"analyzer": "taboot-0"}])
def test_a_manifest_of_another_release_says_so_and_is_replaced(tmp_path, store, other):
    w = world(3)
    publish(store, w.input(), SMALL)
    path = manifest_path(tmp_path, NAMESPACE)
    path.write_text(json.dumps({**json.loads(path.read_text()), **other}))
    with pytest.raises(TabootError) as caught:
        load_manifest(store, NAMESPACE)
    assert caught.value.code == "E_SHARD_CORRUPT"
    assert "another release" in caught.value.message and "taboot ingest" in caught.value.remedy
    assert publish(store, w.input(), SMALL).changed
    assert load_manifest(store, NAMESPACE).documents == 3


def test_a_manifest_that_leads_out_of_its_folder_is_refused(tmp_path, store):
    publish(store, world(3).input(), SMALL)
    path = manifest_path(tmp_path, NAMESPACE)
    for field, value in (("key", "../../etc"), ("name", "../x")):
        data = json.loads(path.read_bytes())
        (data["shards"][0] if field == "key" else data["shards"][0]["files"][0])[field] = value
        bad = tmp_path / "bad"
        bad.mkdir(exist_ok=True)
        manifest_path(bad, NAMESPACE).write_text(json.dumps(data))
        with pytest.raises(TabootError) as caught:
            load_manifest(DirectoryShards(bad), NAMESPACE)
        assert caught.value.code == "E_SHARD_CORRUPT"


def _broken(w: World, what: str):
    def load(ids):
        r = w.load(ids)
        if what == "no vectors":
            return replace(r, vectors=r.vectors.slice(0, 0))
        if what == "short vectors":
            return replace(
                r,
                vectors=r.vectors.set_column(
                    2, "vector", pa.array([[1.0]] * len(r.vectors), pa.list_(pa.float32()))
                ),
            )
        if what == "not a number":
            return replace(
                r,
                vectors=r.vectors.set_column(
                    2, "vector", pa.array([[float("nan")] * 16] * len(r.vectors), pa.list_(pa.float32()))
                ),
            )
        if what == "fewer chunks":
            return replace(r, chunks=r.chunks.slice(1))
        if what == "other documents":
            return replace(r, documents=r.documents.slice(1))
        if what == "no column":
            return replace(r, relations=r.relations.drop_columns(["supports"]))
        if what == "bad hash":
            bad = r.chunks.set_column(
                r.chunks.column_names.index("sha256"), "sha256", pa.array(["zz"] * len(r.chunks))
            )
            return replace(r, chunks=bad, vectors=pa.table({"sha256": ["zz"], "vector": [[0.25] * 16]}))
        return replace(
            r,
            documents=r.documents.set_column(
                r.documents.column_names.index("offsets"), "offsets", pa.array([b"123"] * len(r.documents))
            ),
        )

    return replace(w.input(), load=load)


@pytest.mark.parametrize(
    "what",
    [
        "no vectors",
        "short vectors",
        "not a number",
        "fewer chunks",
        "other documents",
        "no column",
        "bad hash",
        "bad offsets",
    ],
)
def test_rows_that_do_not_fit_together_are_refused_and_nothing_is_published(store, what):
    with pytest.raises(TabootError) as caught:
        publish(store, _broken(world(3), what), SMALL)
    assert caught.value.code == "E_TABLE"
    assert load_manifest(store, NAMESPACE) is None


def test_documents_that_are_no_hash_or_stand_twice_are_refused(store):
    given = world(2).input()
    for ids in (["x"], [given.docs.column("doc_id")[0].as_py()] * 2):
        docs = pa.table(
            {
                "doc_id": ids,
                "chunk_count": pa.array([1] * len(ids), pa.int32()),
                "fingerprint": ["f"] * len(ids),
            }
        )
        with pytest.raises(TabootError) as caught:
            publish(store, replace(given, docs=docs), SMALL)
        assert caught.value.code == "E_TABLE"


@pytest.mark.parametrize("namespace", ["", "../x", "A", "a\n", "x" * 64])
def test_a_namespace_is_never_a_path(tmp_path, store, namespace):
    with pytest.raises(TabootError) as caught:
        publish(store, replace(world(1).input(), namespace=namespace), SMALL)
    assert caught.value.code == "E_NAMESPACE" and list(tmp_path.iterdir()) == []
