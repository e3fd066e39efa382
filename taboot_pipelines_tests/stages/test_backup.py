"""Backups: made while writers run, restored elsewhere, where they answer as the original did."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.stages import backup, retention, storage_audit
from taboot_pipelines.stages.deletion import delete, restore
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.migrator import HEAD, REVISIONS
from taboot_pipelines_tests.defs.conftest import COMPOSE
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.objects import Bucket
from taboot_pipelines_tests.servers import PostgresServer, S3Server
from taboot_pipelines_tests.world import Kept, World, differences, logical, take_in

SECRET = "swordfish-of-the-backup"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Kept:
    """Sources that were edited and deleted from, with a policy and a correction."""
    world = World(tmp_path_factory.mktemp("house"), tei.url)
    notes = world.source("notes", retention_days=90)
    (world.source("stack", "compose", host="atlas") / "compose.yaml").write_text(COMPOSE)
    for name in ("one", "two", "three"):
        (notes / f"{name}.md").write_text(f"# {name}\n\nThe web service {name} asks cache for its rows.\n")
    world.ingest()
    (notes / "one.md").write_text("# one\n\nThe web service moved to another shelf in the rack.\n")
    (notes / "two.md").unlink()
    world.ingest(confirm_deletes=True)
    delete(world.workspace, "default", [doc_id(world, "three.md")])
    world.kb().correct("web", "description", "the page", label="Service")
    return Kept(world)


@pytest.fixture
def lived(world: World, kept: Kept) -> World:
    return kept.put_back(world)


def doc_id(world: World, path: str, source: str = "notes") -> str:
    return world.workspace.catalog.locators.of_source("default", source, state=None)[path].doc_id


def restored(world: World, place: str, name: str = "restored", **more: Any) -> Workspace:
    """An empty home that is filled from the place."""
    workspace = world.open(world.root / name)
    backup.restore(workspace, place, **more)
    return workspace


def same(world: World, workspace: Workspace) -> None:
    """Everything that is derived is equal, and every store agrees."""
    assert not differences(logical(world.workspace), logical(workspace))
    for namespace in {row["namespace"] for row in workspace.catalog.sources.find()}:
        assert storage_audit.run(workspace, namespace, deep=True).left == []


def files(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}


def test_a_restored_home_answers_as_the_original(lived: World, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    made = backup.create(lived.workspace, str(place))
    assert made.new_blobs == made.manifest.blob_count > 0 and not made.manifest.lost
    assert place.stat().st_mode & 0o077 == 0
    assert all(p.stat().st_mode & 0o077 == 0 for p in place.rglob("*") if p.is_file())
    workspace = restored(lived, str(place))
    same(lived, workspace)
    before, after = lived.kb(), lived.kb(home=lived.root / "restored")
    for query in ("shelf in the rack", "web service", "nginx"):
        hits = [[(h.doc_id, h.text, h.score) for h in kb.search(query).hits] for kb in (before, after)]
        assert hits[0] == hits[1] and hits[0]
    assert before.nodes().equals(after.nodes()) and before.edges().equals(after.edges())
    assert before.documents().drop_columns("url").equals(after.documents().drop_columns("url"))
    question = "What does web depend on?"
    assert before.answer(question).text == after.answer(question).text != ""
    # What was decided and deleted is so there too, and can be taken back.
    assert after.assertions().items == before.assertions().items
    assert restore(workspace, "default", [doc_id(lived, "three.md")]).restored
    assert retention.kept(workspace, "default")
    workspace.close()


def test_a_second_backup_copies_only_what_is_new_and_pruning_leaves_what_is_named(
    lived: World, tmp_path: Path
) -> None:
    place = str(tmp_path / "saved")
    first = backup.create(lived.workspace, place)
    assert backup.create(lived.workspace, place).new_blobs == 0
    (lived.directory / "notes" / "four.md").write_text("# four\n\nA fourth note on the rack.\n")
    lived.ingest()
    third = backup.create(lived.workspace, place, keep=2)
    assert third.new_blobs == 1 and third.pruned == (first.manifest.id,)
    storage = lived.workspace.settings.storage
    assert [m.id for m in backup.backups(place, storage)[0]][-1] == third.manifest.id
    found = backup.verify(place, storage)
    assert (found.backups, found.damages) == (2, ()) and found.blobs == third.manifest.blob_count
    workspace = restored(lived, place)
    same(lived, workspace)
    workspace.close()


def test_backups_after_an_erasure_hold_no_byte_of_it(lived: World, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    (lived.directory / "notes" / "plan.md").write_text(f"# {SECRET}\n\nThe {SECRET} is in the rack.\n")
    lived.ingest()
    backup.create(lived.workspace, str(place))
    assert any(SECRET.encode() in data for data in files(place).values())
    delete(lived.workspace, "default", [doc_id(lived, "plan.md")], erase=True)
    (lived.directory / "notes" / "plan.md").unlink()
    backup.create(lived.workspace, str(place), keep=1)
    for name, data in files(place).items():
        read = gzip.decompress(data) if name.endswith(".gz") else data
        assert SECRET.encode() not in read, name
        assert b"plan.md" not in read, name


def test_a_backup_that_is_made_while_documents_are_read_and_erased_is_of_one_moment(
    lived: World, tmp_path: Path
) -> None:
    place, stop, failures = str(tmp_path / "saved"), threading.Event(), list[BaseException]()
    workspace = lived.open(lived.home)
    notes = lived.directory / "notes"

    def write() -> None:
        try:
            number = 0
            while not stop.is_set():
                number += 1
                (notes / f"busy-{number % 3}.md").write_text(f"# busy\n\nNote {number} on the rack.\n")
                take_in(workspace, "notes", confirm_deletes=True)
                if number % 3 == 0:
                    located = workspace.catalog.locators.of_source("default", "notes")
                    delete(workspace, "default", [located["busy-1.md"].doc_id], erase=True)
                    restore(workspace, "default", [located["busy-1.md"].doc_id])
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    made = [backup.create(lived.workspace, place).manifest.id for _ in range(6)]
    stop.set()
    thread.join()
    assert not failures
    assert backup.verify(place, lived.workspace.settings.storage).damages == ()
    for number, backup_id in enumerate(made[::2]):
        home = restored(lived, place, f"moment-{number}", backup_id=backup_id)
        assert storage_audit.run(home, "default", deep=True).left == []
        home.close()
    workspace.close()


def test_from_a_bucket_into_other_servers(
    lived: World, tmp_path: Path, tei: FakeTei, s3: S3Server, postgres: PostgresServer
) -> None:
    saved, kept = Bucket(s3), Bucket(s3)
    lived.overrides["storage"] = storage = saved.storage
    lived.workspace.close()
    lived.workspace = lived.open(lived.home)
    made = backup.create(lived.workspace, saved.url)
    assert backup.verify(saved.url, storage).damages == ()
    elsewhere = World(
        tmp_path / "elsewhere",
        tei.url,
        catalog_url=postgres.database("restored"),
        blob_url=kept.url,
        storage=storage,
    )
    done = backup.restore(elsewhere.workspace, saved.url)
    assert done.manifest.id == made.manifest.id and done.documents == 2
    same(lived, elsewhere.workspace)
    # What is numbered goes on behind what was restored, and its sources are read on.
    elsewhere.workspace.catalog.audit_log.record("default", "test", "subject")
    sources = elsewhere.workspace.settings.sources_file
    assert sources.read_bytes() == lived.workspace.settings.sources_file.read_bytes()
    assert sources.stat().st_mode & 0o777 == 0o600
    delete(elsewhere.workspace, "default", [doc_id(lived, "one.md")])
    elsewhere.workspace.close()


def test_damage_is_found_and_nothing_is_restored_from_it(lived: World, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    made = backup.create(lived.workspace, str(place))
    storage = lived.workspace.settings.storage
    blob = next(p for p in sorted((place / "blobs").rglob("*")) if p.is_file())
    kept = blob.read_bytes()
    blob.write_bytes(b"x" + kept[1:])
    assert [d.what for d in backup.verify(str(place), storage).damages] == ["has other bytes"]
    workspace = lived.open(lived.root / "other")
    with pytest.raises(TabootError, match="E_BACKUP"):
        backup.restore(workspace, str(place))
    assert not workspace.catalog.sources.find()
    blob.unlink()
    assert [d.what for d in backup.verify(str(place), storage).damages] == ["is missing"]
    # The next backup mends it, and the home is still empty, so that it can be filled.
    assert backup.create(lived.workspace, str(place)).new_blobs == 1
    backup.restore(workspace, str(place), made.manifest.id[:26])
    same(lived, workspace)
    workspace.close()
    manifest = next((place / "backups").rglob("manifest.json"))
    good = manifest.read_bytes()
    altered = good.replace(b'"release":"', b'"release":"9')
    for broken in (b"", b"{", b"[]", b'{"format": 99}', b'{"format": "2"}', altered):
        manifest.write_bytes(broken)
        _, bad = backup.backups(str(place), storage)
        assert [d.backup for d in bad] == [manifest.parent.name]
        assert manifest.parent.name in {d.backup for d in backup.verify(str(place), storage).damages}
        with pytest.raises(TabootError, match="E_BACKUP"):
            backup.restore(lived.open(lived.root / "third"), str(place), manifest.parent.name)


def test_a_bad_backup_hinders_no_other_and_nothing_is_removed_beside_it(lived: World, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    first, second = (backup.create(lived.workspace, str(place)).manifest for _ in range(2))
    (place / "backups" / first.id / "manifest.json").write_bytes(b"")
    made = backup.create(lived.workspace, str(place), keep=1)
    assert not made.pruned and first.id in made.note
    workspace = restored(lived, str(place), backup_id=second.id)
    same(lived, workspace)
    workspace.close()


def test_only_files_of_backups_of_this_home_are_ever_removed(lived: World, tmp_path: Path) -> None:
    foreign = tmp_path / "nas"
    for name in ("backups/2024-01-05/db.dump", "blobs/registry/layer.tar"):
        (foreign / name).parent.mkdir(parents=True, exist_ok=True)
        (foreign / name).write_text("not ours")
    before = files(foreign)
    with pytest.raises(TabootError, match="holds other files"):
        backup.create(lived.workspace, str(foreign), keep=1)
    assert files(foreign) == before
    place = tmp_path / "saved"
    backup.create(lived.workspace, str(place))
    for name, text in before.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(text)
    made = backup.create(lived.workspace, str(place), keep=1)
    assert made.pruned and before.items() <= files(place).items()
    other = World(tmp_path / "other", lived.tei)
    with pytest.raises(TabootError, match="another home"):
        backup.create(other.workspace, str(place), keep=1)
    other.workspace.close()
    (tmp_path / "link").symlink_to(lived.home / "blobs", target_is_directory=True)
    with pytest.raises(TabootError, match="is within"):
        backup.create(lived.workspace, str(tmp_path / "link"))


def test_the_backup_just_made_stays_whatever_the_clock_says(lived: World, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    first = backup.create(lived.workspace, str(place)).manifest
    ahead = first.model_copy(update={"id": f"2031{first.id[4:]}"})
    ahead = ahead.model_copy(update={"sha256": ahead.hashed()})
    folder = place / "backups" / first.id
    folder.rename(folder.with_name(ahead.id))
    (folder.with_name(ahead.id) / "manifest.json").write_text(ahead.model_dump_json())
    made = backup.create(lived.workspace, str(place), keep=1)
    assert made.pruned == (ahead.id,)
    assert [m.id for m in backup.backups(str(place), lived.workspace.settings.storage)[0]] == [
        made.manifest.id
    ]


def test_one_namespaces_lost_blob_is_no_others(lived: World, tmp_path: Path) -> None:
    for namespace in ("ana", "bob"):
        folder = lived.source(f"of-{namespace}", namespace=namespace)
        (folder / "same.md").write_text("# Same\n\nThe same words stand in both houses.\n")
    lived.ingest()
    (sha256,) = lived.workspace.catalog.blobs.hashes("ana")
    lived.workspace.blobs.delete("ana", sha256)
    made = backup.create(lived.workspace, str(tmp_path / "saved"), keep=1)
    assert made.manifest.lost == (("ana", sha256),)
    assert (tmp_path / "saved" / "blobs" / "bob" / sha256).exists()
    workspace = restored(lived, str(tmp_path / "saved"))
    assert workspace.catalog.locators.count("bob", "of-bob") == 1
    assert workspace.blobs.exists("bob", sha256)
    workspace.close()


def test_a_damaged_copy_is_written_anew(lived: World, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    backup.create(lived.workspace, str(place))
    blob = next(p for p in sorted((place / "blobs").rglob("*")) if p.is_file())
    blob.write_bytes(b"x" + blob.read_bytes()[1:])
    assert backup.create(lived.workspace, str(place)).new_blobs == 0
    assert backup.create(lived.workspace, str(place), deep=True).new_blobs == 1
    assert backup.verify(str(place), lived.workspace.settings.storage).damages == ()


def test_a_backup_and_a_restoration_that_are_killed_are_completed(
    lived: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> Any:
        raise Killed

    place = tmp_path / "saved"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("taboot_pipelines.stages.backup.BackupManifest.hashed", killed)
        backup.create(lived.workspace, str(place))
    # As a process leaves it that is killed while it writes a file.
    (place / "blobs" / "default" / ".half-a-blob").write_text(SECRET)
    backup.create(lived.workspace, str(place), keep=1)
    assert not any(SECRET.encode() in data for data in files(place).values())
    assert all(p.stat().st_mode & 0o077 == 0 for p in place.rglob("*"))
    workspace = lived.open(lived.root / "restored")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("taboot_pipelines.stages.backup.follow", killed)
        backup.restore(workspace, str(place))
    backup.restore(workspace, str(place))
    same(lived, workspace)
    with pytest.raises(TabootError, match="empty home"):
        backup.restore(workspace, str(place))
    workspace.close()


def test_a_backup_that_somebody_else_made_writes_nothing(lived: World, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    made = backup.create(lived.workspace, str(place)).manifest
    own = gzip.decompress((place / "backups" / made.id / "catalog.jsonl.gz").read_bytes())
    rows: list[Any] = [
        ["blob", {"namespace": "x/y", "content_hash": "0" * 64}],
        ["source_entry", {"namespace": "default", "source_id": "../../../outside"}],
        ["blob", {"namespace": "default", "content_hash": "../../up"}],
        ["blob"],
        "no row",
        {"namespace": 3},
    ]
    for number, row in enumerate(rows):
        rewritten(place, made, gzip.compress(own + json.dumps(row).encode() + b"\n"))
        workspace = lived.open(lived.root / f"other-{number}")
        with pytest.raises(TabootError, match="E_BACKUP"):
            backup.restore(workspace, str(place))
        assert not workspace.catalog.sources.find(), row
        assert not any(p.is_file() for p in (workspace.home / "blobs").rglob("*")), row
        workspace.close()


def test_a_catalog_that_unpacks_without_end_is_refused_in_bounded_memory(
    lived: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "_LONGEST", 1_000_000)
    place = tmp_path / "saved"
    made = backup.create(lived.workspace, str(place)).manifest
    rewritten(place, made, gzip.compress(b'["blob", "' + b"x" * 2_000_000))
    with pytest.raises(TabootError, match="too long"):
        backup.restore(lived.open(lived.root / "other"), str(place))


def rewritten(place: Path, made: backup.BackupManifest, catalog: bytes, **more: Any) -> None:
    """Put another catalog into a backup, as somebody who knows its form would."""
    folder = place / "backups" / made.id
    (folder / "catalog.jsonl.gz").write_bytes(catalog)
    told = made.model_copy(update={"catalog_sha256": sha256_hex(catalog), **more})
    told = told.model_copy(update={"sha256": told.hashed()})
    (folder / "manifest.json").write_text(told.model_dump_json())


def test_a_lost_blob_is_told_and_the_rest_is_saved(lived: World, tmp_path: Path) -> None:
    located = lived.workspace.catalog.locators.of_source("default", "notes")["one.md"]
    lived.workspace.blobs.delete("default", located.sha256)
    made = backup.create(lived.workspace, str(tmp_path / "saved"))
    assert made.manifest.lost == (("default", located.sha256),) and made.manifest.blob_count > 0
    found = backup.verify(str(tmp_path / "saved"), lived.workspace.settings.storage)
    assert [d.what for d in found.damages] == ["was lost before the backup was made"]


def test_what_cannot_be_a_place_is_said(lived: World, tmp_path: Path) -> None:
    storage = lived.workspace.settings.storage
    with pytest.raises(TabootError, match="E_BACKUP"):
        backup.create(lived.workspace, str(lived.home / "within"))
    with pytest.raises(TabootError, match="E_BACKUP"):
        backup.backups(str(tmp_path / "nowhere"), storage)
    with pytest.raises(TabootError, match="E_CONFIG"):
        backup.create(lived.workspace, "ftp://somewhere/else")
    (tmp_path / "empty").mkdir()
    assert backup.backups(str(tmp_path / "empty"), storage) == ([], [])
    with pytest.raises(TabootError, match="E_BACKUP"):
        backup.restore(lived.open(lived.root / "other"), str(tmp_path / "empty"))
    backup.create(lived.workspace, str(tmp_path / "saved"))
    with pytest.raises(TabootError, match="empty home"):
        backup.restore(lived.workspace, str(tmp_path / "saved"))
    # A home that is the place itself would mix its blobs with the backup's.
    with pytest.raises(TabootError, match="is within"):
        backup.restore(lived.open(tmp_path / "saved"), str(tmp_path / "saved"))


def test_a_backup_of_an_earlier_release_is_migrated_and_of_a_newer_one_refused(
    lived: World, tmp_path: Path
) -> None:
    place = tmp_path / "saved"
    made = backup.create(lived.workspace, str(place)).manifest
    assert made.revision == HEAD
    catalog = place / "backups" / made.id / "catalog.jsonl.gz"
    rewritten(place, made, catalog.read_bytes(), revision=REVISIONS[-1] + "9")
    with pytest.raises(TabootError, match="newer release"):
        restored(lived, str(place), "newer")
    # As an earlier release had it: without the tables and the columns that came since.
    rows = [json.loads(line) for line in gzip.decompress(catalog.read_bytes()).splitlines()]
    for table, row in rows:
        if table == "deletion":
            del row["expired"]
        if table == "locator":
            del row["announced_at"]
    old = [json.dumps(row) for row in rows if row[0] != "retention_policy"]
    rewritten(place, made, gzip.compress("\n".join(old).encode()), revision="0010")
    workspace = restored(lived, str(place), "older")
    assert [row["source_id"] for row in workspace.catalog.sources.find()] == ["notes", "stack"]
    assert not retention.kept(workspace, "default")
    assert storage_audit.run(workspace, "default", deep=True).left == []
    workspace.close()
