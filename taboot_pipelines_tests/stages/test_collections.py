"""Saved filters with a name: declared in the sources file, published, and searched by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from starlette.testclient import TestClient

from taboot_pipelines.browse.app import make_app
from taboot_pipelines.cli.group import cli
from taboot_pipelines.errors import TabootError
from taboot_pipelines.mcp.tools import Tools
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.stages import kb_shards
from taboot_pipelines_tests.fakes.qdrant import any_qdrant
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

COLLECTIONS: dict[str, Any] = {
    "runbooks": {"description": "What to do.", "source": "notes", "path_prefix": "runbooks/"},
    "recent": {"tag": ["night", "house"], "date_from": "2001-01-01"},
    "theirs": {"namespace": "other", "source": "attic"},
}


def declare(world: World, **collections: Any) -> None:
    text = yaml.safe_dump({"sources": world.entries, "collections": collections})
    (world.directory / "sources.yaml").write_text(text)
    world.workspace.sync_sources()


@pytest.fixture
def house(world: World) -> World:
    return fill(world)


def fill(world: World) -> World:
    notes = world.source("notes", tags=["house"])
    (notes / "runbooks").mkdir()
    (notes / "runbooks" / "cache.md").write_text("# Cache\n\nThe cache is emptied at night.\n")
    (notes / "plan.md").write_text("# Plan\n\nA cache is wanted.\n")
    (world.source("stacks") / "cache.md").write_text("# Stack\n\nThis cache is redis.\n")
    (world.source("attic", namespace="other") / "old.md").write_text("# Old\n\nA cache of nuts.\n")
    world.ingest()
    declare(world, **COLLECTIONS)
    for namespace in ("default", "other"):
        publish(world, namespace)
    return world


def publish(world: World, namespace: str = "default") -> None:
    kb_shards.run(world.workspace, namespace, "")


def found(kb: KnowledgeBase, **options: Any) -> set[str]:
    titles = {h.title for h in kb.search("cache", mode="keyword", **options).hits}
    assert titles == {h.title for h in kb.search("cache", mode="vector", exact=True, **options).hits}
    rows = kb.documents(**options).column("title").to_pylist()
    assert titles == set(rows)
    return titles


def test_a_search_by_name_is_one_by_its_filters(house: World) -> None:
    kb = house.kb()
    assert found(kb, collection="runbooks") == {"Cache"}
    assert found(kb, collection="recent") == {"Cache", "Plan"}
    # Several are joined by OR, other filters beside by AND; sources and tags are collections too.
    assert found(kb, collection=["runbooks", "stacks"]) == {"Cache", "Stack"}
    assert found(kb, collection="recent", path_prefix="plan") == {"Plan"}
    assert found(kb, collection="runbooks", source="stacks") == set()
    assert found(kb, collection="house") == {"Cache", "Plan"}
    for name, title in (("runbooks", "Cache"), ("stacks", "Stack")):
        answer = kb.answer("What is the cache?", collection=name)
        assert {c.title for c in (*answer.citations, *answer.closest)} == {title}
    (runbooks,) = (c for c in kb.collections() if c.name == "runbooks")
    assert (runbooks.description, runbooks.documents) == ("What to do.", 1)
    assert runbooks.filters == {"source": ["notes"], "path_prefix": ["runbooks/"]}
    assert [c.name for c in kb.collections()] == ["recent", "runbooks"]


def test_it_is_the_same_where_qdrant_is_asked(tmp_path: Path, tei: FakeTei) -> None:
    with any_qdrant() as qdrant:
        world = World(
            tmp_path, tei.url, qdrant={"url": qdrant.url, "max_retries": 0, "search_from_chunks": 0}
        )
        kb = fill(world).kb()
        assert found(kb, collection="house") == {"Cache", "Plan"} and qdrant.requests["query"]
        assert found(kb, collection="runbooks") == {"Cache"}
        assert found(kb, collection=["runbooks", "stacks"]) == {"Cache", "Stack"}
        # The server is not taken for one that lacks points.
        asked = qdrant.requests["query"]
        assert found(kb, tag="house") == {"Cache", "Plan"} and qdrant.requests["query"] > asked
        world.workspace.close()


def test_a_saved_filter_comes_before_a_source_or_tag_of_its_name(house: World) -> None:
    declare(house, house={"source": "stacks"})
    publish(house)
    assert found(house.kb(), collection="house") == {"Stack"}
    assert found(house.kb(), tag="house") == {"Cache", "Plan"}


def test_an_unknown_name_is_refused_with_what_was_meant(house: World) -> None:
    for name, said in (("runbook", "Did you mean 'runbooks'?"), ("zzz", "There are recent, runbooks.")):
        for call in (house.kb().search, house.kb().answer):
            with pytest.raises(TabootError) as error:
                call("What is the cache?", collection=name)
            assert error.value.code == "E_QUERY" and said in error.value.message
            assert error.value.details["collections"] == ["recent", "runbooks"]
    # Another tenant's is unknown here.
    with pytest.raises(TabootError):
        house.kb().search("cache", collection="theirs")
    assert found(house.kb("other"), collection="theirs") == {"Old"}


def test_a_change_is_published_by_the_next_ingest_and_writes_no_shard(house: World) -> None:
    before = house.kb().manifest
    declare(house, runbooks={"source": "stacks"})
    house.ingest()
    after = house.kb().manifest
    assert after.shards == before.shards and after.version == before.version + 1
    assert found(house.kb(), collection="runbooks") == {"Stack"}
    house.ingest()
    assert house.kb().manifest == after
    house.declare()
    house.ingest()
    assert house.kb().collections() == ()


def test_it_is_on_the_command_line_the_page_and_for_assistants(
    house: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABOOT_HOME", str(house.home))
    monkeypatch.setenv("TABOOT_SOURCES", str(house.directory / "sources.yaml"))
    monkeypatch.setenv("TABOOT_TEI__URL", house.tei)

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.output
        return done.output

    listed = run("collections")
    assert "runbooks" in listed and "path_prefix runbooks/" in listed and "What to do." in listed
    assert "Plan" not in run("search", "cache", "--collection", "runbooks")
    assert "emptied" in run("ask", "When is the cache emptied?", "--collection", "runbooks")
    assert "1 of 1 documents" in run("documents", "--collection", "runbooks")
    told = Tools(house.kb()).search("cache", collection="runbooks")
    assert "Cache" in told and "Plan" not in told
    client = TestClient(make_app(house.kb(), "token", "once", 80), base_url="http://localhost")
    client.get("/?token=token")
    page = client.get("/search", params={"q": "cache", "collection": "runbooks"}).text
    assert 'name="collection" value="runbooks" checked' in page and 'value="recent"' in page
    assert "emptied" in page and "This cache is redis" not in page
