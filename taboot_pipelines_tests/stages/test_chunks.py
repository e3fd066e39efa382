"""The stage chunks from outside: where its chunks stand, and which documents a change cuts again."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.stages import chunks
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines_tests.world import World

NS, SOURCE = "default", "notes"
FILES = 24


def run(world: World, *stages: str) -> StageReport:
    """Run stages one after the other for the source; return the report of the last."""
    return [world.run(stage, SOURCE) for stage in stages][-1]


def chunk(world: World) -> StageReport:
    """Fetch and parse, then run the stage under test; return its report."""
    return run(world, "raw_blobs", "documents", "chunks")


def read(world: World, table: str) -> list[dict[str, Any]]:
    """Return the rows of one of the source's tables."""
    tables = world.workspace.tables
    found: list[dict[str, Any]] = tables.read(
        NS, SOURCE, table, tables.version(NS, SOURCE, table)
    ).to_pylist()
    return found


def by_path(world: World) -> dict[str, list[dict[str, Any]]]:
    """Return the chunks of each document in their order, by the document's path."""
    paths = {d["doc_id"]: d["path"] for d in read(world, "documents")}
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in read(world, "chunks"):
        found[paths[row["doc_id"]]].append(row)  # fails for a chunk whose document is gone
    for rows in found.values():
        rows.sort(key=lambda r: r["chunk_index"])
    return found


@pytest.fixture
def pages(world: World, data: Path) -> Path:
    """Real pages, long and short: the first ones of a large documentation."""
    path = world.source(SOURCE)
    for file in sorted((data / "linuxserver-docs-md" / "docs").rglob("*.md"))[:FILES]:
        shutil.copy(file, path / file.name)
    assert len(list(path.iterdir())) == FILES
    return path


def test_every_chunk_stands_where_it_says(world: World, pages: Path) -> None:
    report = chunk(world)
    rows_by_path = {d["path"]: d for d in read(world, "documents")}
    found = by_path(world)
    total = sum(map(len, found.values()))
    assert found.keys() == rows_by_path.keys() and len(found) == FILES
    assert report.counts == {
        "documents": FILES,
        "reused_documents": 0,
        "removed_documents": 0,
        "new": total,
    }
    assert total > 10 * FILES
    limit = world.workspace.settings.chunking.content_tokens
    for path, rows in found.items():
        text, at = rows_by_path[path]["text"], 0
        offsets = OffsetMap.loads(rows_by_path[path]["offsets"])
        file = (pages / path).read_bytes()
        assert [r["chunk_index"] for r in rows] == list(range(len(rows)))
        for r in rows:
            assert text[r["start"] : r["end"]] == r["text"]
            assert r["chunk_id"] == ids.chunk_id(r["doc_id"], r["chunk_index"])
            assert r["sha256"] == ids.sha256_hex(r["text"]) and 0 < r["tokens"] <= limit
            # And in the file, but for what is masked in the document.
            start, end = offsets.to_bytes(r["start"], r["end"])
            written = file[start:end].decode()
            assert all(a in (b, "*") for a, b in zip(r["text"], written, strict=True))
            # Between two chunks nothing is left out but blanks.
            assert not text[at : r["start"]].strip(), (path, r["chunk_index"])
            at = max(at, r["end"])
        assert not text[at:].strip(), path


def test_an_edit_cuts_its_own_document_anew_and_no_other(world: World, pages: Path) -> None:
    chunk(world)
    before = by_path(world)
    edited = max(before, key=lambda p: len(before[p]))
    file = pages / edited
    file.write_text(f"{file.read_text()}\n\n## A new section\n\nwith a sentence of its own at the end.\n")
    report = chunk(world)
    now = by_path(world)
    assert report.counts == {
        "documents": 1,
        "reused_documents": FILES - 1,
        "removed_documents": 0,
        "new": len(now[edited]),
    }
    assert {p: r for p, r in now.items() if p != edited} == {p: r for p, r in before.items() if p != edited}
    assert "a sentence of its own" in now[edited][-1]["text"]
    assert now[edited][0]["text"] == before[edited][0]["text"]


def test_a_change_that_leaves_the_text_alone_cuts_nothing(world: World, pages: Path) -> None:
    chunk(world)
    before = read(world, "chunks")
    # Another list of languages is another reading of every document, with the same texts.
    world.source(SOURCE, languages=["en", "de", "fr"])
    assert run(world, "raw_blobs", "documents").counts["new"] == FILES
    report = run(world, "chunks")
    assert report.counts["documents"] == report.counts["new"] == 0
    assert report.counts["reused_documents"] == FILES and read(world, "chunks") == before


def test_an_unchanged_run_writes_no_version_of_the_table(world: World, pages: Path) -> None:
    first = chunk(world)
    files = {p: p.stat().st_mtime_ns for p in (world.home / "tables").rglob("*") if p.is_file()}
    pointer = world.workspace.catalog.pointers.get(NS, SOURCE, chunks.STAGE)
    second = chunk(world)
    assert second.skipped == "unchanged"
    assert (second.tables, second.data_version) == (first.tables, first.data_version)
    assert {p: p.stat().st_mtime_ns for p in (world.home / "tables").rglob("*") if p.is_file()} == files
    assert world.workspace.catalog.pointers.get(NS, SOURCE, chunks.STAGE) == pointer


def test_a_changed_setting_cuts_every_document_anew(world: World, pages: Path) -> None:
    first = chunk(world)
    before = by_path(world)
    world.workspace.close()
    world.overrides["chunking"] = {"max_tokens": 128}
    world.workspace = world.open(world.home)
    report = chunk(world)
    now = by_path(world)
    assert report.counts["documents"] == FILES and report.counts["reused_documents"] == 0
    assert report.data_version != first.data_version
    limit = world.workspace.settings.chunking.content_tokens
    assert max(r["tokens"] for rows in now.values() for r in rows) <= limit
    assert report.counts["new"] == sum(map(len, now.values())) > sum(map(len, before.values()))
    # Nothing of the old cut is left, not even of documents that are one chunk either way.
    old = {r["fingerprint"] for rows in before.values() for r in rows}
    assert not old & {r["fingerprint"] for rows in now.values() for r in rows}

    world.workspace.close()
    del world.overrides["chunking"]
    world.workspace = world.open(world.home)
    chunk(world)
    assert by_path(world) == before


def test_the_chunks_of_a_document_that_is_gone_go_with_it(world: World, pages: Path) -> None:
    chunk(world)
    before = by_path(world)
    gone, unreadable = sorted(before)[:2]
    (pages / gone).unlink()
    (pages / unreadable).write_bytes(b"\x00\x01\x02")
    report = chunk(world)
    assert report.counts == {
        "documents": 0,
        "reused_documents": FILES - 2,
        "removed_documents": 2,
        "new": 0,
    }
    assert by_path(world) == {p: r for p, r in before.items() if p not in (gone, unreadable)}


def test_a_lost_table_is_made_again(world: World, pages: Path) -> None:
    chunk(world)
    before = by_path(world)
    shutil.rmtree(world.home / "tables" / NS / SOURCE / "chunks")
    report = chunk(world)
    assert report.counts["documents"] == FILES and by_path(world) == before


def test_without_documents_the_stage_says_what_is_missing(world: World) -> None:
    world.source(SOURCE)
    with pytest.raises(TabootError) as caught:
        run(world, "raw_blobs", "chunks")
    assert caught.value.code == "E_NOT_FOUND" and "documents" in (caught.value.remedy or "")
