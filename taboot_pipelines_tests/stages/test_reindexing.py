"""Documents that are derived anew from their stored bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from taboot_pipelines.documents import parse
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import documents, embeddings
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.storage_audit import run as audit
from taboot_pipelines.stores.tables import NAMESPACE
from taboot_pipelines_tests.fakes.qdrant import any_qdrant
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.retrieval.test_decisions import check_replay
from taboot_pipelines_tests.world import World, differences, graph, logical

COMPOSE = "services:\n  web:\n    image: nginx:1\n    depends_on: [db]\n  db:\n    image: postgres:16\n"


def fill(world: World) -> World:
    (world.source("stacks", "compose", host="hearth.lan") / "compose.yaml").write_text(COMPOSE)
    notes = world.source("notes")
    (notes / "one.md").write_text("# One\n\nThe web service runs behind the door.\n")
    (notes / "two.md").write_text("# Two\n\nThe mill turns.\n")
    world.ingest()
    return world


@pytest.fixture
def house(world: World) -> World:
    return fill(world)


def state(world: World) -> dict[str, Any]:
    return {**logical(world.workspace), **graph(world.kb())}


def states(done: Any) -> dict[str, str]:
    return {x.path: x.state for x in done}


def lose(world: World, owner: str, table: str, column: str, values: list[str]) -> None:
    """Take rows out of a table, as a defect or a hand would."""
    tables = world.workspace.tables
    rows = tables.read("default", owner, table, tables.version("default", owner, table))
    gone = pc.is_in(rows.column(column), pc.cast(values, rows.schema.field(column).type))
    assert pc.any(gone).as_py(), table
    tables.replace("default", owner, table, rows.filter(pc.invert(gone)), buckets=range(64), txn="lost")


def test_where_nothing_was_wrong_nothing_changes(house: World, tei: FakeTei) -> None:
    before, shards, asked = state(house), house.kb().manifest.shards, tei.stats()["texts"]
    (house.directory / "notes" / "one.md").write_text("# Other\n\nNot yet ingested.\n")
    assert states(house.kb().reindex(["one.md", "compose.yaml"])) == {
        "one.md": "unchanged",
        "compose.yaml": "unchanged",
    }
    assert differences(before, state(house)) == {}
    assert (house.kb().manifest.shards, tei.stats()["texts"]) == (shards, asked)
    assert states(house.kb().reindex(source="notes")) == {"one.md": "unchanged", "two.md": "unchanged"}
    check_replay(house)


def test_what_was_lost_is_there_again(tmp_path: Path, tei: FakeTei) -> None:
    with any_qdrant() as qdrant:
        house = fill(World(tmp_path, tei.url, qdrant={"url": qdrant.url, "max_retries": 1}))
        space = house.workspace.embedder.space.id
        collection = house.workspace.points.collection(space)
        before, points = state(house), qdrant.payloads(collection)
        rows = {r["path"]: r for r in house.kb().documents().to_pylist()}
        note, stack = rows["one.md"]["doc_id"], rows["compose.yaml"]["doc_id"]
        (text,) = [p["sha256"] for p in points.values() if p["doc_id"] == note]
        lose(house, NAMESPACE, embeddings.table_name(space), "sha256", [text])
        for owner, doc_id in (("notes", note), ("stacks", stack)):
            lose(house, owner, "documents", "doc_id", [doc_id])
            lose(house, owner, "chunks", "doc_id", [doc_id])
        (tier_a,) = (s.tier.table for s in CHAIN.of_source if s.name == "tier_a_triples")
        lose(house, "stacks", tier_a, "doc_id", [stack])
        lose(house, NAMESPACE, "doc_state", "doc_id", [note])
        store: Any = qdrant.store
        store.delete(collection, [i for i, p in points.items() if p["doc_id"] == note])
        (shard,) = house.kb().manifest.of_kind("documents")
        (path,) = (p for p in house.home.rglob(shard.files[0].name) if shard.key[:16] in str(p))
        path.write_bytes(path.read_bytes()[:-20] + b"x" * 20)
        done = house.kb().reindex(["one.md", stack])
        assert states(done) == {"one.md": "restored", "compose.yaml": "restored"}
        assert differences(before, state(house)) == {}
        assert qdrant.payloads(collection) == points
        house.kb().verify()
        assert audit(house.workspace, "default", deep=True).left == []
        check_replay(house)
        house.workspace.close()


def test_a_mended_parser_reads_the_bytes_anew(house: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # A defect that spoiled one text, and its mend without a new version.
    sound = parse.parse_document

    def spoiled(data: bytes, **options: Any) -> Any:
        if options["path"] == "bad.md":
            raise TabootError("E_PARSE", "It stumbled.")
        return sound(data.replace(b"service", b"serpent"), **options)

    (house.directory / "notes" / "one.md").write_text("# One\n\nThe web service runs and runs.\n")
    (house.directory / "notes" / "bad.md").write_text("# Bad\n\nA fine page.\n")
    with monkeypatch.context() as patch:
        patch.setattr(documents, "parse_document", spoiled)
        house.ingest()
        assert states(house.kb().reindex(["bad.md"])) == {"bad.md": "failed"}
    assert "serpent" in house.kb().document("one.md").text
    assert states(house.kb().reindex(["one.md", "bad.md"])) == {"bad.md": "restored", "one.md": "changed"}
    assert "service" in house.kb().document("one.md").text
    check_replay(house)


def test_unknown_names_and_lost_bytes_change_nothing(house: World) -> None:
    before = state(house)
    with pytest.raises(TabootError) as unknown:
        house.kb().reindex(["two.mx"])
    assert unknown.value.code == "E_NOT_FOUND" and "two.md" in unknown.value.message
    with pytest.raises(TabootError) as source:
        house.kb().reindex(source="note")
    assert source.value.code == "E_SOURCE_UNKNOWN" and "notes" in source.value.message
    with pytest.raises(TabootError) as nothing:
        house.kb().reindex()
    assert nothing.value.code == "E_QUERY"
    sha256 = house.kb().document("two.md").blob_sha256
    house.workspace.blobs.delete("default", sha256)
    with pytest.raises(TabootError) as lost:
        house.kb().reindex(source="notes")
    assert lost.value.code == "E_BLOB_MISSING"
    assert differences(before, state(house)) == {}


def test_a_killed_reindexing_is_completed_by_the_next_run(
    house: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(house)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("taboot_pipelines.stages.reindexing.derive_again", killed)
        with pytest.raises(KeyboardInterrupt):
            house.kb().reindex(["one.md", "compose.yaml"])
    house.ingest()
    assert differences(before, state(house)) == {}
