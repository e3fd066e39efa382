"""The audit finds every planted difference by its id, and repair leaves none that can be derived."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids, tables
from taboot_pipelines.model.audit import Discrepancy
from taboot_pipelines.stages import storage_audit
from taboot_pipelines.stages.chain import CHAIN, Chain
from taboot_pipelines.stages.deriving import run_source_stage
from taboot_pipelines.stages.embeddings import table_name
from taboot_pipelines.stages.stage import SourceStage, SourceWork, StageTable
from taboot_pipelines.stores.catalog import schema
from taboot_pipelines.stores.tables import NAMESPACE
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import DATA, Kept, World, differences, graph, logical

pytestmark = pytest.mark.slow

OURS = "default"


def fill(world: World) -> None:
    stacks = world.source("stacks", "compose", host="box.lan")
    for name in ("traefik-golang", "flask-redis"):
        for path in sorted(p for p in (DATA / "awesome-compose" / name).rglob("*") if p.is_file()):
            target = stacks / path.relative_to(DATA / "awesome-compose")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    notes = world.source("notes")
    for i in range(6):
        (notes / f"{i}.md").write_text(
            f"# Note {i}\n\nThe redis of stack {i} listens on 10.0.0.{i}:6379, see http://wiki{i}.lan/.\n"
        )
    (notes / "broken.md").write_bytes(b"\xff\xfe\x00\xd8")
    world.ingest()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei, data: Path) -> Kept:
    world = World(tmp_path_factory.mktemp("filled"), tei.url)
    fill(world)
    return Kept(world)


@pytest.fixture
def filled(world: World, kept: Kept) -> World:
    return kept.put_back(world)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei, data: Path) -> Iterator[World]:
    """A world for tests that leave it as it was."""
    world = World(tmp_path_factory.mktemp("whole"), tei.url)
    fill(world)
    yield world
    world.workspace.close()


@pytest.mark.parametrize("gone", [False, True])
def test_a_table_of_a_further_stage_is_audited_too(
    filled: World, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    lengths = pa.schema([("bucket", pa.int32()), ("doc_id", pa.string()), ("length", pa.int32())])
    monkeypatch.setitem(tables.TABLES, "lengths", (lengths, "doc_id"))

    def run(work: SourceWork) -> None:
        of = work.upstream["documents"].tables["documents"]
        held = work.workspace.tables.read(
            work.namespace, work.source_id, "documents", of, columns=["doc_id"]
        ).column("doc_id")
        ids_ = [*held.to_pylist(), *(["00000000-0000-0000-0000-000000000000"] if gone else [])]
        rows = [{"bucket": ids.doc_bucket(d), "doc_id": d, "length": 1} for d in ids_]
        version = work.workspace.tables.replace(
            work.namespace,
            work.source_id,
            "lengths",
            pa.Table.from_pylist(rows, schema=lengths),
            buckets=None,
            txn="1",
        )
        work.publish("1", tables={"lengths": version}, applied={"documents": of})

    stage = SourceStage(
        name="lengths",
        group="documents",
        version="1",
        holds="How long each document is.",
        needs=("documents",),
        tables=(StageTable(name="lengths", owner="source"),),
        run=run,
    )
    monkeypatch.setattr(storage_audit, "CHAIN", Chain(*CHAIN.of_source, stage, *CHAIN.of_namespace))
    for deep in (False, True):
        assert len(audited(filled, deep=deep)) == 0
    run_source_stage(filled.workspace, stage, filled.workspace.entries("notes")[0])
    for deep in (False, True):
        found = storage_audit.run(filled.workspace, OURS, deep=deep)
        assert [(d.kind, d.item[:8]) for d in found.found] == [("surplus", "00000000")] * gone
        assert found.checked["lengths"] == 6 + gone


def audited(world: World, **options: bool) -> list[Discrepancy]:
    return storage_audit.run(world.workspace, OURS, **options).found


def test_a_healthy_namespace_has_no_discrepancy_and_everything_was_looked_at(filled: World) -> None:
    report = storage_audit.run(filled.workspace, OURS, deep=True)
    assert report.found == [] and not report.repaired
    kb = filled.kb()
    assert (
        report.checked["documents"] == kb.documents().num_rows
        and report.checked["chunks"] == kb.manifest.chunks
    )
    assert (
        report.checked["relations"] >= kb.edges().num_rows
        and report.checked["blobs"] >= report.checked["documents"]
    )
    assert all(report.checked[name] for name in ("vectors", "runs", "entities", "doc_state", "declarations"))


def test_an_empty_catalog_is_no_discrepancy(world: World) -> None:
    assert audited(world) == []


def table(world: World, owner: str, name: str) -> pa.Table:
    tables = world.workspace.tables
    return tables.read(OURS, owner, name, tables.version(OURS, owner, name))


def without_first(world: World, owner: str, name: str, key: str) -> str:
    """Take the rows of one key out of a table; return the key.

    The catalog's pointer names the version without them.
    """
    catalog, tables = world.workspace.catalog, world.workspace.tables
    rows = table(world, owner, name)
    lost = str(rows.column(key)[0].as_py())
    version = tables.replace(
        OURS, owner, name, rows.filter(pc.not_equal(rows.column(key), lost)), buckets=None, txn="sabotage"
    )
    with catalog.database.begin(OURS) as c:
        p = schema.pointer
        for row in c.execute(sa.select(p).where(p.c.namespace == OURS)).all():
            for column in ("tables", "applied"):
                changed = json.loads(getattr(row, column))
                holders = (
                    [changed]
                    if name in changed
                    else [v for s, v in changed.items() if s == owner and isinstance(v, dict) and name in v]
                )
                if row.owner not in (owner, NAMESPACE):
                    continue
                for holder in holders:
                    holder[name] = version
                c.execute(
                    sa.update(p)
                    .where(p.c.namespace == OURS, p.c.owner == row.owner, p.c.stage == row.stage)
                    .values({column: json.dumps(changed)})
                )
    return lost


def lost_document(world: World) -> tuple[str, str]:
    return "missing", without_first(world, "notes", "documents", "doc_id")


def lost_chunks(world: World) -> tuple[str, str]:
    return "missing", without_first(world, "stacks", "chunks", "doc_id")


def lost_vector(world: World) -> tuple[str, str]:
    name = table_name(world.workspace.embedder.space.id)
    rows = table(world, NAMESPACE, name)
    live = set(table(world, "notes", "chunks").column("sha256").to_pylist())
    lost = next(s for s in rows.column("sha256").to_pylist() if s in live)
    world.workspace.tables.replace(
        OURS,
        NAMESPACE,
        name,
        rows.filter(pc.not_equal(rows.column("sha256"), lost)),
        buckets=None,
        txn="sabotage",
    )
    return "missing", lost


def unread_table(world: World) -> tuple[str, str]:
    for path in (world.home / "tables" / OURS / "stacks" / "observations").rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:100])
    return "unreadable", "stacks/observations"


def lost_tables(world: World) -> tuple[str, str]:
    shutil.rmtree(world.home / "tables" / OURS / NAMESPACE / "relations")
    return "unreadable", f"{NAMESPACE}/relations"


def table_ahead(world: World) -> tuple[str, str]:
    world.workspace.tables.replace(
        OURS,
        NAMESPACE,
        "relations",
        table(world, NAMESPACE, "relations").slice(3),
        buckets=None,
        txn="killed",
    )
    return "different", f"{NAMESPACE}/relations"


def snapshot_of_a_ghost(world: World) -> tuple[str, str]:
    return "missing", without_first(world, NAMESPACE, "doc_state", "doc_id")


def stray_blob(world: World) -> tuple[str, str]:
    sha256, _ = world.workspace.blobs.put(OURS, b"nobody fetched this")
    return "surplus", sha256


def flipped_byte(world: World) -> tuple[str, str]:
    """A text that is no UTF-8 any more, in a file that is Parquet all the same."""
    flipped = 0
    for path in (world.home / "tables" / OURS / "notes" / "documents").rglob("*.parquet"):
        data = path.read_bytes()
        flipped += b"redis" in data
        path.write_bytes(data.replace(b"redis", b"re\xf9is", 1))
    assert flipped
    return "unreadable", "notes/documents"


def altered(world: World, owner: str, name: str, column: str) -> tuple[str, str]:
    """Five other letters in one text, in a file that says nothing of it."""
    for path in (world.home / "tables" / OURS / owner / name).rglob("*.parquet"):
        rows = pq.ParquetFile(path).read()
        texts = [t.replace("redis", "mysql") for t in rows.column(column).to_pylist()]
        if texts != rows.column(column).to_pylist():
            pq.write_table(rows.set_column(rows.column_names.index(column), column, pa.array(texts)), path)
            return "unreadable", f"{owner}/{name}"
    raise AssertionError("no text was altered")


def altered_chunk(world: World) -> tuple[str, str]:
    return altered(world, "notes", "chunks", "text")


def altered_document(world: World) -> tuple[str, str]:
    return altered(world, "notes", "documents", "text")


def altered_number(world: World) -> tuple[str, str]:
    """Another line of a statement, in a table that has no hash of its rows."""
    for path in (world.home / "tables" / OURS / NAMESPACE / "relations").rglob("*.parquet"):
        rows = pq.ParquetFile(path).read()
        at = rows.column_names.index("line")
        lines = pc.add(rows.column(at), pa.scalar(1, rows.column(at).type))
        pq.write_table(rows.set_column(at, rows.field(at), lines), path)
    return "unreadable", f"{NAMESPACE}/relations"


def published(world: World) -> Path:
    """Return the folder of a shard that the manifest names; older ones lie beside it for a while."""
    return world.home / "kb" / f"{OURS}.duckdb.shards" / world.kb().manifest.of_kind("documents")[0].key


def flipped_shard(world: World) -> tuple[str, str]:
    path = published(world) / "shard-00000.duckdb"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    return "unreadable", path.parent.name


def lost_shard(world: World) -> tuple[str, str]:
    path = published(world)
    shutil.rmtree(path)
    return "unreadable", path.name


def lost_manifest(world: World) -> tuple[str, str]:
    (world.home / "kb" / f"{OURS}.duckdb.manifest.json").unlink()
    return "missing", OURS


def cut_manifest(world: World) -> tuple[str, str]:
    path = world.home / "kb" / f"{OURS}.duckdb.manifest.json"
    path.write_bytes(path.read_bytes()[:200])
    return "unreadable", OURS


@pytest.mark.parametrize(
    "plant",
    [
        lost_document,
        lost_chunks,
        lost_vector,
        unread_table,
        lost_tables,
        table_ahead,
        snapshot_of_a_ghost,
        stray_blob,
        flipped_byte,
        altered_chunk,
        altered_document,
        altered_number,
        flipped_shard,
        lost_shard,
        lost_manifest,
        cut_manifest,
    ],
    ids=lambda f: f.__name__,
)
def test_what_can_be_derived_is_found_by_id_and_repaired(
    whole: World, plant: Callable[[World], tuple[str, str]]
) -> None:
    before, seen = logical(whole.workspace), graph(whole.kb())
    kind, item = plant(whole)
    report = storage_audit.run(whole.workspace, OURS, repair=True, deep=True)
    assert (kind, item) in {(d.kind, d.item) for d in report.found}
    assert all(d.repairable for d in report.found)
    assert report.repaired and report.left == []
    assert not differences(before, logical(whole.workspace))
    assert not differences(seen, graph(whole.kb()))


@pytest.mark.parametrize("rotten", ["documents", "chunks"])
def test_a_text_that_rotted_is_served_by_nothing_until_it_is_repaired(filled: World, rotten: str) -> None:
    (filled.directory / "notes" / "6.md").write_text("# Note 6\n\nThe redis of stack 6 is the last.\n")
    for stage in CHAIN.names:
        filled.run(stage, "notes")
        if stage == rotten:
            break
    with contextlib.suppress(AssertionError):
        while True:
            altered(filled, "notes", rotten, "text")
    with pytest.raises(TabootError) as caught:
        filled.ingest("notes")
    assert caught.value.code == "E_TABLE" and "--deep --repair" in caught.value.remedy
    assert not any("mysql" in hit.text for hit in filled.kb().search("mysql of stack 6", 50).hits)
    assert storage_audit.run(filled.workspace, OURS, repair=True, deep=True).left == []
    texts = {hit.text for hit in filled.kb().search("redis of stack 6", 50).hits}
    assert any("redis of stack 6" in text for text in texts) and not any("mysql" in text for text in texts)
    scratch = filled.open(filled.replay())
    assert not differences(logical(scratch), logical(filled.workspace))


def test_a_shard_that_was_made_of_a_rotten_text_is_built_again(
    filled: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases that did not compare a text with its hash may have published one."""
    (filled.home / "kb" / f"{OURS}.duckdb.manifest.json").unlink()
    shutil.rmtree(filled.home / "kb" / f"{OURS}.duckdb.shards")
    kept = shutil.copytree(filled.home / "tables", filled.root / "tables")
    altered_chunk(filled)
    filled.workspace.tables.read_anew()
    with monkeypatch.context() as patch:
        patch.setattr(ids, "altered", lambda texts, hashes: False)
        filled.ingest()
    shutil.rmtree(filled.home / "tables")
    shutil.move(kept, filled.home / "tables")
    found = audited(filled, deep=True)
    assert [(d.store, d.kind) for d in found] == [("shards", "unreadable")]
    assert storage_audit.run(filled.workspace, OURS, repair=True, deep=True).left == []
    assert not any("mysql" in hit.text for hit in filled.kb().search("mysql of stack", 50).hits)


def test_lost_and_changed_blobs_are_named_and_need_their_source(filled: World) -> None:
    folder = filled.home / "blobs" / "sources" / OURS
    first, second, third = sorted(p.name for p in folder.iterdir())[:3]
    (folder / first).unlink()
    (folder / second).write_bytes(b"")
    data = bytearray((folder / third).read_bytes())
    data[0] ^= 1
    (folder / third).write_bytes(data)
    assert {(d.kind, d.item) for d in audited(filled)} == {("missing", first), ("different", second)}
    report = storage_audit.run(filled.workspace, OURS, repair=True, deep=True)
    expected = {("missing", first), ("different", second), ("different", third)}
    assert {(d.kind, d.item) for d in report.found} == expected
    assert {(d.kind, d.item) for d in report.left} == expected and not report.repaired
    assert not any(d.repairable for d in report.left)


def blob_rows(world: World) -> dict[str, bytes]:
    folder = world.home / "blobs" / "sources" / OURS
    return {p.name: p.read_bytes() for p in folder.iterdir()} if folder.is_dir() else {}


def test_lost_blobs_of_unchanged_files_are_stored_anew_by_the_next_ingest(filled: World) -> None:
    before, held = logical(filled.workspace), blob_rows(filled)
    shutil.rmtree(filled.home / "blobs")
    reports = filled.ingest()
    assert blob_rows(filled) == held and audited(filled, deep=True) == []
    assert not differences(before, logical(filled.workspace))
    assert sum(r.counts.get("fetched", 0) for r in reports) == 0
    assert {p.stat().st_mode & 0o777 for p in (filled.home / "blobs").rglob("*") if p.is_file()} == {0o600}


def test_a_blob_cut_short_is_stored_anew_by_the_next_ingest(filled: World) -> None:
    before, held = logical(filled.workspace), blob_rows(filled)
    for sha256 in sorted(held)[::3]:
        path = filled.home / "blobs" / "sources" / OURS / sha256
        path.write_bytes(path.read_bytes()[:-1])
    filled.ingest()
    assert blob_rows(filled) == held and not differences(before, logical(filled.workspace))


@pytest.mark.parametrize("repair", [False, True])
def test_rotten_blobs_that_an_audit_found_are_stored_anew_by_the_next_ingest(
    filled: World, repair: bool
) -> None:
    before, held = logical(filled.workspace), blob_rows(filled)
    for sha256, data in held.items():
        (filled.home / "blobs" / "sources" / OURS / sha256).write_bytes(bytes([data[0] ^ 1]) + data[1:])
    report = storage_audit.run(filled.workspace, OURS, deep=True, repair=repair)
    assert {d.item for d in report.found} == set(held)
    assert {d["code"] for d in filled.workspace.catalog.dead_letters.find(OURS, stage=CHAIN.first.name)} == {
        "E_BLOB_CORRUPT"
    }
    filled.ingest()
    assert blob_rows(filled) == held and audited(filled, deep=True) == []
    assert not filled.workspace.catalog.dead_letters.find(OURS, stage=CHAIN.first.name)
    assert not differences(before, logical(filled.workspace))


def test_a_lost_blob_that_no_file_has_any_more_is_said_to_be_for_a_backup(filled: World) -> None:
    (filled.directory / "notes" / "0.md").write_text("# Note 0\n\nIt says something else now.\n")
    held = set(blob_rows(filled))
    old = {x.sha256 for x in filled.workspace.catalog.locators.of_source(OURS, "notes").values()}
    filled.ingest()
    now = {x.sha256 for x in filled.workspace.catalog.locators.of_source(OURS, "notes").values()}
    (gone,) = (old - now) & held
    (filled.home / "blobs" / "sources" / OURS / gone).unlink()
    (found,) = audited(filled)
    assert found.item == gone and "backup" in found.message and "purge --vanished" in found.message
    assert not filled.workspace.catalog.dead_letters.find(OURS, stage=CHAIN.first.name)


@pytest.mark.parametrize("torn", ["*.parquet", "_delta_log/*.json"])
def test_what_runs_of_the_past_said_is_read_and_dropped_only_by_a_repair(filled: World, torn: str) -> None:
    (filled.directory / "notes" / "0.md").write_text("# Note 0\n\nThe redis listens on 10.0.9.9:6379.\n")
    filled.ingest()
    report = storage_audit.run(filled.workspace, OURS)
    # What Tier A said of the file before, and what Tier B said.
    assert report.found == [] and report.checked["archived_runs"] == 2
    archive, _ = sorted((filled.home / "tables" / OURS / "notes").glob("observations.archive.*"))
    for path in archive.rglob(torn):
        path.write_bytes(path.read_bytes()[:100])
    before = logical(filled.workspace)
    (found,) = audited(filled)
    assert (found.kind, found.item) == ("unreadable", f"notes/{archive.name}")
    assert archive.is_dir() and "backup" in found.message
    assert storage_audit.run(filled.workspace, OURS, repair=True).left == [] and not archive.exists()
    assert not differences(before, logical(filled.workspace))
    (filled.directory / "notes" / "0.md").write_text("# Note 0\n\nThe redis listens on 10.0.9.8:6379.\n")
    filled.ingest()
    assert audited(filled) == [] and archive.is_dir()


def test_work_that_is_pending_is_a_difference_until_it_is_done(filled: World) -> None:
    (filled.directory / "notes" / "late.md").write_text("# Late\n\nIt came when nobody went on.\n")
    entry = filled.workspace.entries("notes")[0]
    run_source_stage(filled.workspace, CHAIN.first, entry)
    found = audited(filled)
    assert [d.kind for d in found if d.store == "tables"] == ["missing"]
    assert storage_audit.run(filled.workspace, OURS, repair=True).left == []
    assert filled.kb().documents().num_rows == len(logical(filled.workspace)["notes/documents"]) + len(
        logical(filled.workspace)["stacks/documents"]
    )


@pytest.mark.parametrize("name", ["documents", "chunks", "observations"])
def test_a_lost_table_is_made_again_by_the_next_ingest_though_its_versions_begin_anew(
    filled: World, name: str
) -> None:
    # As often changed as made: the table that is made again comes to carry the number of the lost one.
    shutil.rmtree(filled.home / "tables" / OURS / "notes" / name)
    (filled.directory / "notes" / "0.md").write_text(
        "# Changed\n\nwhile the table was lost, see http://changed.lan/.\n"
    )
    filled.ingest()
    assert audited(filled) == [] and "changed.lan" in str(filled.kb().nodes().column("name").to_pylist())


def test_lost_vectors_are_made_again_for_every_source(filled: World) -> None:
    before = logical(filled.workspace)
    shutil.rmtree(filled.home / "tables" / OURS / NAMESPACE / table_name(filled.workspace.embedder.space.id))
    filled.ingest()
    assert audited(filled) == [] and not differences(before, logical(filled.workspace))


def test_all_tables_lost(filled: World) -> None:
    before, seen = logical(filled.workspace), graph(filled.kb())
    shutil.rmtree(filled.home / "tables")
    filled.ingest()
    assert not differences(before, logical(filled.workspace)) and not differences(seen, graph(filled.kb()))
    assert audited(filled, deep=True) == []
