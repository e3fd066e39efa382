"""The points in Qdrant equal the live chunks after any changes, kills and outages.

The work is in proportion to the changes.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.stages import qdrant_points, storage_audit
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deletion import delete, finish_pending, restore
from taboot_pipelines.stages.metrics import exposition
from taboot_pipelines.stages.running import run_stage
from taboot_pipelines.stores.catalog.pointers import Pointers
from taboot_pipelines.stores.state.protocol import State
from taboot_pipelines.stores.tables import NAMESPACE, Tables
from taboot_pipelines.stores.vectors import points
from taboot_pipelines.stores.vectors.points import point_id
from taboot_pipelines.stores.vectors.qdrant import QdrantPoints
from taboot_pipelines_tests.fakes.qdrant import FakeQdrant, any_qdrant
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.held_port import held_port
from taboot_pipelines_tests.stages.test_kill_windows import doc_id, killed_at, restart
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taboot_pipelines.stores.vectors.connection._FIRST_DELAY", 0.001)


@pytest.fixture
def qdrant() -> Iterator[FakeQdrant]:
    with any_qdrant() as server:
        yield server


@pytest.fixture
def world(tmp_path: Path, tei: FakeTei, qdrant: FakeQdrant) -> Iterator[World]:
    made = World(tmp_path, tei.url, qdrant={"url": qdrant.url, "max_retries": 1, "batch_points": 5})
    yield made
    made.workspace.close()


def collection(world: World) -> str:
    return world.workspace.points.collection(world.workspace.embedder.space.id)


def expected(world: World, namespace: str = "default") -> dict[str, dict[str, Any]]:
    """Return the points that the tables ask for, put together independently: {id: {field: value}}.

    An occurrence is given as (chunk_id, fields).
    """
    places: dict[str, list[dict[str, Any]]] = {}
    catalog, tables = world.workspace.catalog, world.workspace.tables
    for entry in world.workspace.entries_of(namespace):
        source = entry.source_id
        documents = {
            d["doc_id"]: d
            for d in tables.read(
                namespace,
                source,
                "documents",
                catalog.pointers.get(namespace, source, "documents").tables["documents"],
            ).to_pylist()
        }
        for c in tables.read(
            namespace, source, "chunks", catalog.pointers.get(namespace, source, "chunks").tables["chunks"]
        ).to_pylist():
            d = documents[c["doc_id"]]
            places.setdefault(c["sha256"], []).append(
                {
                    "doc_id": c["doc_id"],
                    "chunk_id": c["chunk_id"],
                    "chunk_index": c["chunk_index"],
                    "url": d["url"],
                    "title": d["title"],
                    "source": entry.config.type,
                    "source_id": source,
                    "job_id": d["job_id"],
                    "mime": d["mime"],
                    "lang": d["lang"],
                    "text_len": len(c["text"]),
                    "start": c["start"],
                    "end": c["end"],
                    "section_header": c["section"],
                    "content_type": c["content_type"],
                    "tags": sorted(entry.config.tags),
                    "created_at": int(d["created_at"].timestamp()),
                    "updated_at": int(d["since"].timestamp()),
                    "crawled_at": d["since"].strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            )
    found = {}
    for sha256, occurrences in places.items():
        occurrences.sort(key=lambda o: (o["doc_id"], o["chunk_index"]))
        for b, start in enumerate(range(0, len(occurrences), points.BUCKET)):
            part = occurrences[start : start + points.BUCKET]
            found[point_id(namespace, sha256, b)] = {
                **part[0],
                "namespace": namespace,
                "sha256": sha256,
                "occurrences": part,
            }
    return found


def assert_equal(world: World, qdrant: FakeQdrant, namespace: str = "default") -> None:
    """Assert that the server holds what the tables ask for, and that the audit says so."""
    wanted = expected(world, namespace)
    held = {p: c for p, c in qdrant.payloads(collection(world)).items() if c["namespace"] == namespace}
    assert held.keys() == wanted.keys()
    for point, content in wanted.items():
        assert {k: v for k, v in held[point].items() if k in content and k != "occurrences"} == {
            k: v for k, v in content.items() if k != "occurrences"
        }
        assert [
            {k: o[k] for k in p}
            for o, p in zip(held[point]["occurrences"], content["occurrences"], strict=True)
        ] == content["occurrences"]
    assert list(qdrant_points.TARGET.audit(world.workspace, namespace)) == []


def stage(world: World, namespace: str = "default"):
    return qdrant_points.TARGET.run(world.workspace, namespace, "")


def test_nothing_is_done_where_nothing_is_configured(tmp_path, tei):
    world = World(tmp_path, tei.url)
    (world.source("notes") / "a.md").write_text("text\n")
    report = next(r for r in world.ingest() if r.stage == "qdrant_points")
    assert (
        report.skipped == "skipped: TABOOT_QDRANT__URL"
        and list(qdrant_points.TARGET.audit(world.workspace, "default")) == []
    )
    qdrant_points.TARGET.repair(world.workspace, "default")
    world.workspace.close()


def test_points_follow_any_sequence_of_changes(world, qdrant):
    rng = random.Random(4)
    paths = [world.source("one", tags=["b", "a"]), world.source("two"), world.source("stacks", "compose")]
    texts = [
        f"# Heading {i}\n\nThe service number {i} listens on port {8000 + i} behind nginx.\n"
        for i in range(6)
    ]
    (paths[2] / "compose.yaml").write_text("services:\n  web:\n    image: nginx:1\n")
    for step in range(5):
        for _ in range(4):
            path = rng.choice(paths[:2]) / f"{rng.randrange(6)}.md"
            if path.exists() and rng.random() < 0.3:
                path.unlink()
            else:
                path.write_text("\n".join(rng.sample(texts, rng.randint(1, 3))))
        if step == 3:
            world.source("one", tags=["c"])
        world.ingest(confirm_deletes=True)
        assert_equal(world, qdrant)
    world.remove_source("one")
    world.ingest(confirm_deletes=True)
    assert_equal(world, qdrant)


def test_unchanged_input_asks_nothing_and_a_change_touches_only_its_points(world, qdrant):
    path = world.source("notes")
    for i in range(12):
        (path / f"{i}.md").write_text(f"Document number {i}.\n")
    (path / "same.md").write_text("Document number 3.\n")
    world.ingest()
    assert qdrant.sent == {"upsert": 12 + 2}  # the points, and the watermark twice
    qdrant.requests.clear(), qdrant.sent.clear()
    assert next(r for r in world.ingest() if r.stage == "qdrant_points").skipped == "unchanged"
    assert not qdrant.requests
    (path / "3.md").write_text("Document number 300.\n")  # its text stays in same.md
    world.ingest()
    assert qdrant.sent == {"upsert": 2 + 2}
    (path / "5.md").unlink()
    world.ingest()
    assert qdrant.sent == {"upsert": 4 + 2, "delete": 1}
    assert_equal(world, qdrant)


def test_a_change_that_touches_no_chunk_writes_no_point(world, qdrant):
    (world.source("notes") / "a.md").write_text("Document.\n")
    path = world.source("stacks", "compose")
    (path / "compose.yaml").write_text("services:\n  web:\n    image: nginx:1\n")
    (path / ".env").write_text("A=1\n")
    world.ingest()
    qdrant.sent.clear()
    (path / ".env").write_text("A=2\n")
    world.ingest()
    assert qdrant.sent["upsert"] <= 1 and qdrant.sent["delete"] == 0  # at most the watermark
    assert_equal(world, qdrant)


def test_a_text_in_many_places_has_several_points(world, qdrant, monkeypatch):
    for module in (points, qdrant_points):
        monkeypatch.setattr(module, "BUCKET", 3)
    path = world.source("notes")
    for i in range(8):
        (path / f"{i}.md").write_text("The same everywhere.\n")
    world.ingest()
    held = qdrant.payloads(collection(world))
    assert sorted(len(c["occurrences"]) for c in held.values()) == [2, 3, 3]
    assert_equal(world, qdrant)
    for i in range(4):
        (path / f"{i}.md").unlink()
    world.ingest(confirm_deletes=True)
    assert_equal(world, qdrant)
    with killed_at(QdrantPoints, "delete"):
        (path / "4.md").unlink()
        world.ingest(confirm_deletes=True)
    restart(world)
    (path / "4.md").write_text("The same everywhere.\n")
    world.ingest()
    assert_equal(world, qdrant)


#: The statements of a run that leave something behind: (owner, method, how often one run calls it).
STATEMENTS = [
    (QdrantPoints, "prepare", 1),
    (QdrantPoints, "set_watermark", 2),
    (QdrantPoints, "_send", 3),
    (QdrantPoints, "delete", 1),
    (QdrantPoints, "switch_alias", 1),
    (QdrantPoints, "other_spaces", 1),
    (Tables, "replace", 2),
    (Pointers, "publish", 1),
]


def test_a_kill_at_any_statement_is_made_good(world, qdrant):
    path = world.source("notes")

    def write(turn: int) -> None:
        for i in range(24):
            (path / f"{i}.md").write_text(f"Document number {i} in turn {turn if i % 2 else 0}.\n")
        (path / "23.md").unlink() if turn % 2 else (path / "23.md").write_text("Here again.\n")

    write(0)
    world.ingest()
    kills = [(owner, method, call) for owner, method, calls in STATEMENTS for call in range(1, calls + 1)]
    for turn, (owner, method, call) in enumerate(kills, 1):
        # The points alone are killed: other stages write tables and pointers too.
        write(turn)
        for name in CHAIN.names[: CHAIN.names.index("entity_snapshots") + 1]:
            run_stage(world.workspace, name, "notes", confirm_deletes=True)
        with killed_at(owner, method, call):
            stage(world)
        restart(world)
        if call % 2:
            write(turn - 1)  # changed back meanwhile: what was in flight must not be taken for it
        world.ingest(confirm_deletes=True)
        assert_equal(world, qdrant)


def test_a_killed_first_run_leaves_nothing_unknown(world, qdrant):
    path = world.source("notes")
    for i in range(12):
        (path / f"{i}.md").write_text(f"Document number {i}.\n")
    with killed_at(QdrantPoints, "_send", 2):
        world.ingest()
    assert len(qdrant.payloads(collection(world))) == 5
    restart(world)
    for i in range(6):
        (path / f"{i}.md").unlink()
    world.ingest(confirm_deletes=True)
    assert_equal(world, qdrant)


def test_an_outage_puts_the_namespace_into_the_queue_and_the_next_run_makes_it_good(world, qdrant):
    path = world.source("notes")
    (path / "a.md").write_text("First.\n")
    world.ingest()
    behind = 'taboot_store_behind{namespace="default",store="qdrant"}'
    assert f"{behind} 0.0" in exposition(world.settings(world.home))
    (path / "b.md").write_text("Second.\n")
    qdrant.stop()
    state: State = world.workspace.state
    for attempt in range(1, 6):
        now = time.time()
        with pytest.raises(TabootError) as caught:
            world.ingest()
        assert caught.value.code == "E_QDRANT"
        due, later = state.queued("default", qdrant_points.QUEUE)["default"], time.time()
        assert now + 15 * 2 ** (attempt - 1) - 1 <= due <= later + 30 * 2 ** (attempt - 1) + 1
    assert len(world.kb().search("Second").hits) == 2, "the shards were published all the same"
    assert f"{behind} 1.0" in exposition(world.settings(world.home))
    with pytest.raises(TabootError) as caught:
        stage(world)
    assert caught.value.code == "E_CIRCUIT_OPEN"
    qdrant.start()
    state.circuit_succeeded("default", qdrant_points.CIRCUIT)
    assert stage(world).counts["new"] == 1
    assert state.queued("default", qdrant_points.QUEUE) == {}
    assert_equal(world, qdrant)


def test_an_outage_in_the_middle_is_made_good(world, qdrant):
    path = world.source("notes")
    for i in range(12):
        (path / f"{i}.md").write_text(f"Document number {i}.\n")
    qdrant.fail(503, times=50, operation="delete")
    world.ingest()
    for i in range(8):
        (path / f"{i}.md").write_text(f"Document number {i} once more.\n")
    with pytest.raises(TabootError):
        world.ingest()
    qdrant.calm()
    assert world.workspace.points.watermark("default", world.workspace.embedder.space.id).snapshot == ""
    world.ingest()
    assert_equal(world, qdrant)


def test_state_that_fails_hides_no_error_and_stops_no_work(world, qdrant, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise TabootError("E_REDIS", "The state does not answer.")

    (world.source("notes") / "a.md").write_text("First.\n")
    state = type(world.workspace.state)
    for name in (
        "circuit_open",
        "circuit_failed",
        "circuit_succeeded",
        "enqueue",
        "dequeue",
        "queued",
        "get",
        "set",
    ):
        monkeypatch.setattr(state, name, fail)
    world.ingest()
    (world.directory / "notes" / "b.md").write_text("Second.\n")
    qdrant.stop()
    with pytest.raises(TabootError) as caught:
        world.ingest()
    assert caught.value.code == "E_QDRANT"
    qdrant.start()


def test_no_answer_holds_an_erased_document(world, qdrant):
    path = world.source("notes")
    (path / "zyxwv.md").write_text("# Zyxwv\n\nAlone here.\n")
    (path / "same.md").write_text("# Zyxwv\n\nIn two places.\n")
    (path / "other.md").write_text("# Zyxwv\n\nIn two places.\n")
    world.ingest()
    gone = [doc_id(world, "notes", p) for p in ("zyxwv.md", "same.md")]
    receipt = delete(world.workspace, "default", gone, erase=True)
    assert receipt.final and receipt.stores["qdrant"] == "done"
    held = [str(c) for name in qdrant.collections() for c in qdrant.payloads(name).values()]
    assert not any(d in content or "zyxwv.md" in content for content in held for d in gone)
    assert_equal(world, qdrant)


def test_an_erasure_waits_for_a_server_that_does_not_answer(world, qdrant):
    path = world.source("notes")
    (path / "a.md").write_text("Alone here.\n")
    (path / "b.md").write_text("Another.\n")
    world.ingest()
    gone = doc_id(world, "notes", "a.md")
    qdrant.stop()
    receipt = delete(world.workspace, "default", [gone], erase=True)
    assert not receipt.final and receipt.stores["qdrant"] == "pending"
    qdrant.start()
    world.ingest()
    assert world.workspace.catalog.receipts.pending("default") == []
    assert not any(gone in str(c) for name in qdrant.collections() for c in qdrant.payloads(name).values())
    assert_equal(world, qdrant)


def test_an_erasure_waits_for_a_server_that_is_not_configured_now(world, qdrant):
    """It holds what it was given before; a receipt that says nothing of it would be final too soon."""
    path = world.source("notes")
    for name in "abc":
        (path / f"{name}.md").write_text(f"Page {name} alone here.\n")
    world.ingest()
    first, second = (doc_id(world, "notes", f"{name}.md") for name in "ab")
    qdrant.stop()
    assert delete(world.workspace, "default", [first], erase=True).stores["qdrant"] == "pending"
    configured = world.overrides.pop("qdrant")
    restart(world)
    receipt = delete(world.workspace, "default", [second], erase=True)
    assert receipt.stores["qdrant"] == "pending" and {
        v for k, v in receipt.stores.items() if k != "qdrant"
    } == {"done"}
    world.ingest()
    # A repair of the namespace's tables does not make it forget the server.
    world.workspace.tables.drop("default", NAMESPACE, "doc_state")
    assert storage_audit.run(world.workspace, "default", repair=True).left == []
    assert finish_pending(world.workspace, "default") == []
    assert (
        len(world.workspace.catalog.receipts.pending("default")) == 2
        and finish_pending(world.workspace, "default") == []
    )
    world.overrides["qdrant"] = configured
    restart(world)
    qdrant.start()
    world.ingest()
    assert world.workspace.catalog.receipts.pending("default") == []
    assert not any(
        d in str(c)
        for d in (first, second)
        for name in qdrant.collections()
        for c in qdrant.payloads(name).values()
    )
    assert_equal(world, qdrant)


def test_what_is_restored_before_its_deletion_ended_stays(world, qdrant):
    path = world.source("notes")
    for name in "abc":
        (path / f"{name}.md").write_text(f"Page {name} alone here.\n")
    world.ingest()
    a, b = (doc_id(world, "notes", f"{name}.md") for name in "ab")
    qdrant.stop()
    assert not delete(world.workspace, "default", [a, b]).final
    assert restore(world.workspace, "default", [a]).restored == (a,)
    qdrant.start()
    world.ingest()
    assert world.workspace.catalog.receipts.pending("default") == []
    documents = world.kb().documents().column("doc_id").to_pylist()
    assert a in documents and b not in documents
    qdrant.stop()
    assert not delete(world.workspace, "default", [a]).final
    restore(world.workspace, "default", [a])
    assert world.workspace.catalog.receipts.pending("default") == []
    qdrant.start()
    world.ingest()
    assert a in world.kb().documents().column("doc_id").to_pylist()
    assert_equal(world, qdrant)


def test_a_deleted_document_comes_back(world, qdrant):
    path = world.source("notes")
    (path / "a.md").write_text("Alone here.\n")
    (path / "b.md").write_text("Another.\n")
    world.ingest()
    gone = doc_id(world, "notes", "a.md")
    delete(world.workspace, "default", [gone])
    assert_equal(world, qdrant)
    restore(world.workspace, "default", [gone])
    assert len(expected(world)) == 2
    assert_equal(world, qdrant)


def test_namespaces_share_a_collection_and_nothing_else(world, qdrant):
    (world.source("one") / "a.md").write_text("The same text.\n")
    (world.source("two", namespace="other") / "a.md").write_text("The same text.\n")
    world.ingest()
    assert len(qdrant.payloads(collection(world))) == 2
    for namespace in ("default", "other"):
        assert_equal(world, qdrant, namespace)
    delete(
        world.workspace, "other", [world.workspace.catalog.locators.of_source("other", "two")["a.md"].doc_id]
    )
    assert len(expected(world)) == 1 and expected(world, "other") == {}
    for namespace in ("default", "other"):
        assert_equal(world, qdrant, namespace)


def test_a_new_space_is_built_beside_the_old_which_then_goes(world, qdrant):
    path = world.source("notes")
    for i in range(7):
        (path / f"{i}.md").write_text(f"Document number {i}.\n")
    world.ingest()
    before = collection(world)
    with FakeTei(model_id="fake/other-model", dimension=64) as server:
        world.tei = server.url
        restart(world)
        with killed_at(QdrantPoints, "_send", 2):
            world.ingest()
        assert len(qdrant.payloads(before)) == 7 and len(qdrant.payloads(collection(world))) == 5
        assert qdrant.store.get_aliases().aliases[0].collection_name == before
        restart(world)
        qdrant.store.delete_collection("taboot.watermarks")  # the tables know of the other space too
        world.ingest()
        assert qdrant.collections() == sorted([collection(world), "taboot.watermarks"])
        assert qdrant.store.get_aliases().aliases[0].collection_name == collection(world) != before
        assert [n for n in world.workspace.tables.names("default", NAMESPACE) if n.startswith("points.")] == [
            f"points.{world.workspace.embedder.space.id}"
        ]
        assert_equal(world, qdrant)


def test_sources_that_come_and_go_are_no_difference(world, qdrant):
    """One that is declared and has not run, and one that has retired after all others ran."""
    for name in ("a", "z"):
        (world.source(name) / f"{name}.md").write_text(f"Page {name} alone here.\n")
    world.ingest()
    (world.source("new") / "n.md").write_text("Not yet.\n")
    world.workspace.sync_sources()
    assert storage_audit.run(world.workspace, "default").found == []
    world.remove_source("new")
    world.remove_source("z")
    world.workspace.sync_sources()
    for source in ("new", "z"):
        world.ingest(source, confirm_deletes=True)
    assert [r["source_id"] for r in world.workspace.catalog.sources.find("default")] == ["a"]
    assert storage_audit.run(world.workspace, "default").found == []
    assert stage(world).skipped == "unchanged"
    world.ingest()
    assert storage_audit.run(world.workspace, "default").found == [] and set(world.kb().manifest.sources) == {
        "a"
    }
    assert_equal(world, qdrant)


def test_whatever_the_server_holds_is_found_and_repaired(world, qdrant):
    path = world.source("notes", tags=["x"])
    for i in range(8):
        (path / f"{i}.md").write_text(f"Document number {i}.\n")
    world.ingest()
    name, store = collection(world), qdrant.store
    held = sorted(qdrant.payloads(name))
    records = {r.id: r for r in store.retrieve(name, held, with_payload=True, with_vectors=True)}
    surplus = point_id("default", "0" * 64)
    from qdrant_client import models

    store.delete(name, points_selector=models.PointIdsList(points=held[:2]))
    store.set_payload(name, payload={"title": "tampered"}, points=held[2:3])
    store.upsert(
        name,
        [
            models.PointStruct(
                id=surplus,
                vector=records[held[3]].vector,
                payload={**records[held[3]].payload, "sha256": "0" * 64},
            )
        ],
    )
    world.workspace.points._connection.client().delete_payload_index(name, "tags")
    store.update_collection_aliases(
        [models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name="taboot.documents"))]
    )
    world.workspace.points.set_watermark("default", world.workspace.embedder.space.id, "another", "")
    found = {(d.kind, d.item) for d in qdrant_points.TARGET.audit(world.workspace, "default")}
    assert found == {
        ("missing", held[0]),
        ("missing", held[1]),
        ("different", held[2]),
        ("surplus", surplus),
        ("different", name),
        ("different", "default"),
    }
    assert all(d.repairable for d in qdrant_points.TARGET.audit(world.workspace, "default"))
    assert stage(world).skipped == "unchanged"
    qdrant_points.TARGET.repair(world.workspace, "default")
    assert_equal(world, qdrant)


def test_a_repair_that_was_killed_is_finished_by_the_next_run(world, qdrant):
    path = world.source("notes")
    for i in range(12):
        (path / f"{i}.md").write_text(f"Document number {i}.\n")
    world.ingest()
    qdrant.store.delete_collection(collection(world))
    with killed_at(QdrantPoints, "_send", 2):
        qdrant_points.TARGET.repair(world.workspace, "default")
    restart(world)
    assert stage(world).counts["new"] > 0
    assert_equal(world, qdrant)


def test_a_server_that_lost_its_points_is_filled_by_the_next_change(world, qdrant):
    path = world.source("notes")
    for i in range(6):
        (path / f"{i}.md").write_text(f"Document number {i}.\n")
    world.ingest()
    for lost in ("points", "everything"):
        if lost == "points":
            qdrant.store.delete(
                collection(world), points_selector=sorted(qdrant.payloads(collection(world)))[:2]
            )
        else:
            for name in qdrant.collections():
                qdrant.store.delete_collection(name)
        (path / "0.md").write_text(f"After the loss of {lost}.\n")
        world.ingest()
        assert_equal(world, qdrant)


def test_another_server_and_a_lost_table_are_filled_from_what_the_server_says(world, qdrant, monkeypatch):
    path = world.source("notes")
    for i in range(6):
        (path / f"{i}.md").write_text(f"Document number {i}.\n")
    world.ingest()
    table = f"points.{world.workspace.embedder.space.id}"
    for damage in ("drop", "corrupt"):
        if damage == "drop":
            world.workspace.tables.drop("default", NAMESPACE, table)
        else:
            for file in (world.home / "tables" / "default" / NAMESPACE / table).rglob("*.parquet"):
                file.write_bytes(b"no parquet")
        (path / "0.md").write_text(f"After {damage}.\n")
        (path / "1.md").unlink(missing_ok=True)
        qdrant.sent.clear()
        world.ingest()
        assert qdrant.sent["upsert"] <= 1 + 2 + 1, "points that were there as they should be were sent again"
        assert_equal(world, qdrant)
    with FakeQdrant() as second:
        world.overrides["qdrant"]["url"] = second.url
        restart(world)
        world.ingest()
        assert_equal(world, second)
        world.overrides["qdrant"]["url"] = qdrant.url
        restart(world)
        (path / "2.md").write_text("Only while the first was away.\n")
        world.ingest()
        assert_equal(world, qdrant)


def test_derived_facts_do_not_depend_on_when_we_ran(world, qdrant):
    path = world.source("notes")
    (path / "a.md").write_text("Document.\n")
    world.ingest()
    before = qdrant.payloads(collection(world))
    restart(world)
    qdrant.store.delete_collection(collection(world))
    qdrant_points.TARGET.repair(world.workspace, "default")
    assert qdrant.payloads(collection(world)) == before


def test_a_text_without_a_word_has_a_point(world, qdrant):
    (world.source("notes") / "a.md").write_text("# The\n\nto be or not to be\n")
    world.ingest()
    assert_equal(world, qdrant)
    assert len(world.kb().search("to be", mode="vector").hits) == len(world.kb().search("to be").hits) == 1


def test_a_real_server_process_may_be_killed_and_started_again(world, tmp_path, qdrant):
    """The fake in a process of its own, killed by SIGKILL in the middle: what it confirmed is there."""

    def start(port: int) -> tuple[subprocess.Popen[str], int]:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "taboot_pipelines_tests.fakes.qdrant",
                "--port",
                str(port),
                "--path",
                str(tmp_path / "stored"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        return process, int(process.stdout.readline())

    path = world.source("notes")
    for i in range(12):
        (path / f"{i}.md").write_text(f"Document number {i}.\n")
    with held_port() as port:
        process, _ = start(port)
        _killed_and_started_again(world, process, lambda: start(port)[0], port)


def _killed_and_started_again(world, process, start, port):
    path = world.directory / "notes"
    try:
        world.overrides["qdrant"]["url"] = f"http://127.0.0.1:{port}"
        restart(world)
        world.ingest()
        process.kill(), process.wait()
        (path / "3.md").write_text("Changed meanwhile.\n")
        with pytest.raises(TabootError, match="E_QDRANT"):
            world.ingest()
        process = start()
        world.ingest()
        held = dict(
            world.workspace.points.scan(
                "default",
                world.workspace.embedder.space.id,
                qdrant_points.made_by(world.workspace.embedder.space.id),
            )
        )
        assert (
            held.keys() == expected(world).keys()
            and list(qdrant_points.TARGET.audit(world.workspace, "default")) == []
        )
    finally:
        process.kill(), process.wait()


def test_ids_are_those_of_the_rule(world, qdrant):
    (world.source("notes") / "a.md").write_text("Alone.\n")
    world.ingest()
    chunk = world.workspace.tables.read(
        "default", "notes", "chunks", world.workspace.tables.version("default", "notes", "chunks")
    ).to_pylist()[0]
    assert list(qdrant.payloads(collection(world))) == [point_id("default", chunk["sha256"])] and chunk[
        "sha256"
    ] == ids.sha256_hex(chunk["text"])
