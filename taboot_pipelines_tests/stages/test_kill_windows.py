"""Kills between two particular statements, and what they must not leave behind.

Holds rules ``watermark``, ``kill-anywhere``, ``complete-enumeration`` and ``deleted-stays-deleted``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.stages import deletion
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines.stores.catalog.deletions import Tombstones
from taboot_pipelines.stores.catalog.locators import Locators
from taboot_pipelines.stores.catalog.runs import Runs
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, differences, graph, holding, logical

pytestmark = pytest.mark.slow

WORD = "zyxwvutquux"


class Killed(BaseException):
    """Stands for a kill: nothing may handle it."""


@contextmanager
def killed_at(owner: Any, name: str, call: int = 1) -> Iterator[None]:
    """Stop at the ``call``-th call of a method: neither it nor anything after it happens."""
    original = getattr(owner, name)
    left = [call]

    def die(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        return original(*args, **kwargs)

    setattr(owner, name, die)
    try:
        with pytest.raises(Killed):
            yield
    finally:
        setattr(owner, name, original)


def restart(world: World) -> None:
    world.workspace.close()
    world.workspace = world.open(world.home)


def assert_like_scratch(world: World) -> None:
    scratch = world.replay()
    other = world.open(scratch)
    assert differences(logical(world.workspace), logical(other)) == {}
    assert differences(graph(world.kb()), graph(world.kb(home=scratch))) == {}
    other.close()


def doc_id(world: World, source: str, path: str) -> str:
    return world.workspace.catalog.locators.of_source("default", source, state=None)[path].doc_id


@pytest.mark.parametrize("call", [1, 2])
def test_rows_of_a_killed_interpretation_are_not_taken_for_those_of_the_bytes_before(
    world: World, call: int
) -> None:
    conf = world.source("proxy", "swag") / "a.conf"
    text = "server {{ server_name a.*; location / {{ proxy_pass http://{}:80; }} }}\n"
    conf.write_text(text.format("first"))
    world.ingest()
    conf.write_text(text.format("second"))
    with killed_at(Runs, "record", call):
        world.ingest()
    restart(world)
    conf.write_text(text.format("first"))
    world.ingest()
    assert_like_scratch(world)


def test_a_file_that_was_taken_in_gets_its_own_facts_back(world: World) -> None:
    path = world.source("stacks", "compose")
    (path / "base.yaml").write_text("services:\n  base:\n    image: redis:7\n")
    including = "include: [base.yaml]\nservices:\n  app:\n    image: nginx:1\n"
    (path / "compose.yaml").write_text(including.split("\n", 1)[1])
    world.ingest()
    for call in (1, 2):
        (path / "compose.yaml").write_text(including)
        with killed_at(Runs, "set_suppressed", call):
            world.ingest()
        restart(world)
        (path / "compose.yaml").write_text(including.split("\n", 1)[1])
        world.ingest()
        assert_like_scratch(world)


def test_a_killed_delete_is_carried_out_by_the_next_run(world: World) -> None:
    path = world.source("notes")
    (path / "a.md").write_text(f"The word is {WORD}.\n")
    (path / "b.md").write_text("Another document.\n")
    world.ingest()
    for owner, name in ((Tombstones, "add"), (Locators, "record_absent")):
        with killed_at(owner, name):
            delete(world.workspace, "default", [doc_id(world, "notes", "a.md")], erase=True)
        restart(world)
    world.ingest()
    assert world.kb().documents().num_rows == 1 and holding(world.home, WORD) == []


def test_an_erased_document_leaves_no_byte_under_an_earlier_name_or_in_a_source_on_its_way_out(
    world: World,
) -> None:
    path = world.source("notes")
    (path / "a.md").write_text(f"The word is {WORD}.\n")
    (path / "b.md").write_text("Another document.\n")
    other = world.source("other")
    (other / "o.md").write_text(f"{WORD} stands here as well.\n")
    (other / "p.md").write_text("Nothing.\n")
    world.ingest()
    (path / "a.md").rename(path / f"{WORD}.md")
    world.ingest()
    world.remove_source("other")
    world.workspace.sync_sources()
    receipt = delete(
        world.workspace,
        "default",
        [doc_id(world, "notes", f"{WORD}.md"), doc_id(world, "other", "o.md")],
        erase=True,
    )
    assert receipt.final and holding(world.home, WORD) == []


def test_a_reader_that_holds_the_catalog_open_makes_the_receipt_pending(world: World) -> None:
    import sqlite3

    path = world.source("notes")
    (path / "a.md").write_text(f"The word is {WORD}.\n")
    (path / f"{WORD}.md").write_text("Another document.\n")
    world.ingest()
    reader = sqlite3.connect(world.home / "catalog.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM locator").fetchone()
    receipt = delete(
        world.workspace, "default", [doc_id(world, "notes", p) for p in ("a.md", f"{WORD}.md")], erase=True
    )
    assert receipt.stores["catalog"] == "pending" and not receipt.final
    reader.close()
    world.ingest()
    assert deletion.finish_pending(world.workspace, "default") == [] and holding(world.home, WORD) == []


def test_a_new_embedder_serves_sources_that_cannot_be_fetched(world: World, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (world.source(name) / "a.md").write_text(f"The document of source {name} says {name}.\n")
    world.ingest()
    (world.directory / "two").rename(world.root / "unmounted")
    with FakeTei(model_id="fake/other-model", dimension=64) as server:
        world.workspace.close()
        world.tei = server.url
        world.workspace = world.open(world.home)
        run_chain(world.workspace, "one")
        kb = world.kb()
        assert kb.manifest.space.dimension == 64
        assert {h.source for h in kb.search("document of source two", mode="vector").hits} == {"one", "two"}


def test_units_that_say_nothing_are_not_interpreted_again(world: World) -> None:
    path = world.source("notes")
    for i in range(5):
        (path / f"{i}.md").write_text(f"Words without anything to mention, number {'x' * (i + 1)}.\n")
    world.ingest()
    (path / "0.md").write_text("Other words without anything to mention.\n")
    report = {r.stage: r for r in world.ingest()}["tier_a_triples"]
    assert report.counts["interpreted"] == 1 and report.tables == {"observations": None}


@pytest.mark.parametrize("unrelated", [0, 1])
def test_everything_gone_is_held_whatever_else_appears(world: World, unrelated: int) -> None:
    path = world.source("notes")
    for i in range(9):
        (path / f"{i}.md").write_text("The same stub everywhere.\n" if i else "One of its own.\n")
    world.ingest()
    for i in range(9):
        (path / f"{i}.md").unlink()
    # One copy of a stub reappears, which is one of nine; or something new that replaces none.
    (path / "new.md").write_text("Something new.\n" if unrelated else "One of its own, again.\n")
    held = {r.stage: r for r in world.ingest()}["raw_blobs"].held
    assert [h["deletions"] for h in held] == [9] and world.kb().documents().num_rows == 10


def test_lost_tables_are_made_again(world: World) -> None:
    import shutil

    path = world.source("stacks", "compose")
    (path / "compose.yaml").write_text("services:\n  app:\n    image: redis:7\n    ports: ['80:80']\n")
    world.ingest()
    before = graph(world.kb())
    for lost in sorted((world.home / "tables").glob("default/*/*")):
        shutil.rmtree(lost)
        world.ingest()
        assert graph(world.kb()) == before, lost.name
    shutil.rmtree(world.home / "tables")
    world.ingest()
    assert_like_scratch(world)
