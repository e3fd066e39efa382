"""One DuckDB file of all that is published."""

from __future__ import annotations

import stat
from pathlib import Path

import duckdb
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World


@pytest.fixture
def world(tmp_path: Path, tei: FakeTei) -> World:
    made = World(tmp_path, tei.url, shards={"max_chunks": 4})
    notes = made.source("notes")
    for n in range(9):
        (notes / f"{n}.md").write_text(f"# Note {n}\n\nThe lantern of room {n} depends on redis.\n")
    stack = made.source("stack", "compose")
    (stack / "compose.yaml").write_text(
        "services: {web: {image: nginx, depends_on: [redis]}, redis: {image: redis}}"
    )
    made.ingest()
    return made


def test_the_file_holds_what_the_knowledge_base_tells(world: World, tmp_path: Path) -> None:
    kb, file = world.kb(), tmp_path / "it's all.duckdb"
    assert len(kb.manifest.of_kind("documents")) > 1
    done = kb.export(file, single=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and done.bytes == file.stat().st_size
    with duckdb.connect(str(file), read_only=True) as alone:
        for name, table in (("documents", kb.documents()), ("nodes", kb.nodes()), ("edges", kb.edges())):
            assert alone.sql(f"FROM {name}").to_arrow_table().to_pylist() == table.to_pylist()
            assert done.tables[name] == len(table)
        assert alone.sql("SELECT count(*) FROM chunks").fetchall() == [(kb.manifest.chunks,)]
        ((path, size),) = alone.sql(
            "SELECT path, len(embedding) FROM chunks JOIN documents USING (doc_id) WHERE text LIKE '%room 7%'"
        ).fetchall()
        assert (path, size) == ("7.md", kb.manifest.space.dimension)
        assert ("namespace", "default") in alone.sql("FROM about").fetchall()


def test_no_file_is_lost_and_none_is_left_half(world: World, tmp_path: Path) -> None:
    file = tmp_path / "kept.duckdb"
    file.write_text("of somebody else")
    with pytest.raises(TabootError, match="E_CONFLICT"):
        world.kb().export(file, single=True)
    with pytest.raises(TabootError, match="E_STORAGE"):
        world.kb().export(tmp_path / "nowhere" / "x.duckdb", single=True)
    assert file.read_text() == "of somebody else"
    before = set(tmp_path.iterdir())
    world.kb().export(file, single=True, replace=True)
    assert set(tmp_path.iterdir()) == before and duckdb.connect(str(file)).sql("FROM about")
