"""The chain is said once: what is derived from it, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.tables import CHUNKS, TABLES, declare
from taboot_pipelines.stages.chain import CHAIN, Chain
from taboot_pipelines.stages.deriving import run_source_stage
from taboot_pipelines.stages.running import run_stage
from taboot_pipelines.stages.stage import SourceStage, SourceWork, StageTable
from taboot_pipelines_tests.world import World


def nothing(_work: SourceWork) -> None:
    """The work of stages that never run."""


def stage(name: str, *needs: str) -> SourceStage:
    return SourceStage(name=name, holds="Nothing.", group="knowledge", needs=needs, run=nothing)


def test_the_order_is_that_of_the_data() -> None:
    assert CHAIN.names[:6] == ("raw_blobs", "crawl_graph", "documents", "chunks", "links", "embeddings")
    assert CHAIN.of_namespace[0].name == "entity_snapshots" and CHAIN.names[-1] == "kb_shards"
    assert [s.name for s in CHAIN.of_namespace[1:]] == list(CHAIN.serving)
    tiers = [s.name for s in CHAIN.of_source if s.observes]
    assert [s.name for s in CHAIN.of_source[6:9]] == tiers == [f"tier_{x}_triples" for x in "abc"]
    assert CHAIN.first.name == "raw_blobs" and CHAIN.derived == CHAIN.of_source[1:]


def test_what_follows_a_stage_is_what_its_rows_reach_within_the_source() -> None:
    of_source = CHAIN.names[:9]
    following = {name: [f.name for f in CHAIN.following(name) if f.name in of_source] for name in of_source}
    tiers = [s.name for s in CHAIN.of_source if s.observes]
    assert "tier_a_triples" in tiers
    assert following == {
        "raw_blobs": ["crawl_graph", "documents", "chunks", "links", "embeddings", *tiers],
        "crawl_graph": [],
        "documents": ["chunks", "links", "embeddings", *tiers],
        "chunks": ["embeddings", *tiers],
        "links": [],
        "embeddings": [],
        **{tier: [] for tier in tiers},
    }


def test_a_tier_that_is_added_is_needed_by_nothing_before_it_and_followed_by_the_rest() -> None:
    chain = Chain(stage("a"), stage("b", "a"), stage("tier", "b"), stage("late", "tier"))
    assert [s.name for s in chain.following("a")] == ["b", "tier", "late"]
    assert [s.name for s in chain.following("tier")] == ["late"]


@pytest.mark.parametrize(
    "stages",
    [(stage("a", "b"), stage("b")), (stage("a", "a"),), (stage("a"), stage("a")), (stage("a", "gone"),)],
)
def test_a_chain_that_cannot_run_is_refused(stages: tuple[SourceStage, ...]) -> None:
    with pytest.raises(TabootError) as caught:
        Chain(*stages)
    assert caught.value.code == "E_INTERNAL"


def test_an_unknown_stage_or_table_is_named() -> None:
    with pytest.raises(TabootError) as caught:
        CHAIN.stage("nothing")
    assert caught.value.code == "E_NOT_FOUND" and caught.value.details["stages"] == CHAIN.names
    with pytest.raises(TabootError) as caught:
        CHAIN.stage("chunks").table("nothing")
    assert caught.value.code == "E_TABLE"


def test_every_table_has_a_schema_and_one_stage() -> None:
    tables = [t.name for s in CHAIN.stages for t in s.tables]
    assert len(set(tables)) == len(tables)
    assert {t.schema for s in CHAIN.stages for t in s.tables} <= set(TABLES)
    assert StageTable(name="observations.tier_b", owner="source").schema == "observations"


def test_a_table_is_declared_once() -> None:
    with pytest.raises(TabootError) as caught:
        declare("chunks", TABLES["links"][0], key="doc_id")
    assert caught.value.code == "E_INTERNAL" and TABLES["chunks"][0] is CHUNKS


def test_servers_are_among_what_serves_the_snapshot() -> None:
    assert set(CHAIN.targets) >= {"qdrant_points", "neo4j_subgraph"}
    assert set(CHAIN.serving) == {*CHAIN.targets, "kb_shards"}
    assert {name: t.store for name, t in CHAIN.targets.items()}.items() >= {
        ("qdrant_points", "qdrant"),
        ("neo4j_subgraph", "neo4j"),
    }
    assert len({t.store for t in CHAIN.targets.values()}) == len(CHAIN.targets)
    assert all("E_CIRCUIT_OPEN" in t.failures for t in CHAIN.targets.values())


def test_a_stage_whose_upstream_has_not_run_says_what_to_run(tmp_path: Path) -> None:
    world = World(tmp_path, "http://127.0.0.1:9")
    (world.source("notes") / "a.md").write_text("# A\n\nText enough to be a document.")
    world.workspace.sync_sources()
    (entry,) = world.workspace.entries("notes")
    for name, first in (("documents", "raw_blobs"), ("chunks", "documents"), ("tier_a_triples", "raw_blobs")):
        (wanted,) = (s for s in CHAIN.of_source if s.name == name)
        with pytest.raises(TabootError) as caught:
            run_source_stage(world.workspace, wanted, entry)
        assert caught.value.code == "E_NOT_FOUND" and first in caught.value.remedy
    assert run_stage(world.workspace, "raw_blobs", "notes")[0].counts["fetched"] == 1
    assert run_stage(world.workspace, "documents", "notes")[0].counts["new"] == 1
    assert run_stage(world.workspace, "documents", "notes")[0].skipped == "unchanged"
