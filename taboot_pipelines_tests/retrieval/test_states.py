"""How the sources are: their jobs, their dead letters, and what of it a copy of the shards knows."""

from __future__ import annotations

import shutil
from pathlib import Path

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.world import World


def test_jobs_and_dead_letters_are_those_of_the_catalog(world: World, tmp_path: Path) -> None:
    folder = world.source("guides", tags=["docs"])
    (folder / "guide.md").write_text("# Lanterns\n\nThe lantern hangs in the hall.\n")
    (folder / "de.md").write_text("Die Lampe steht auf dem Dachboden und wird am Abend angezündet. " * 3)
    stacks = world.source("stacks", "compose", host="atlas")
    (stacks / "compose.yaml").write_text("services:\n  web: [nginx\n")
    world.ingest()
    found = world.kb().sources()
    guides, stack = found.sources
    assert (guides.id, guides.type, guides.tags, guides.state) == ("guides", "files", ("docs",), "active")
    assert guides.documents == 1 and guides.skipped == 1 and guides.failed == 0
    assert guides.last_job is not None and guides.last_job.state == "succeeded"
    assert (guides.last_job.discovered, guides.last_job.fetched, guides.last_job.complete) == (2, 2, True)
    assert (
        stack.failed
        == len([x for x in found.dead_letters if x.source == "stacks" and x.kind == "failed"])
        > 0
    )
    codes = {(x.source, x.kind, x.code) for x in found.dead_letters}
    assert ("guides", "skipped", "E_LANGUAGE") in codes and ("stacks", "failed", "E_PARSE") in codes
    assert found.note == ""
    table = found.to_arrow().to_pylist()
    assert [(r["id"], r["documents"], r["last_job"]) for r in table[:1]] == [("guides", 1, "succeeded")]
    assert "guides" in found._repr_html_()

    # Deletions that wait are counted, and a source that is new and has never run is among them.
    (folder / "guide.md").unlink()
    (folder / "de.md").unlink()
    world.source("later")
    world.ingest("guides")
    states = {s.id: s for s in world.kb().sources().sources}
    assert states["guides"].last_job is not None and (states["guides"].last_job.held or 0) > 0
    assert states["later"].last_job is None and states["later"].documents == 0

    # A copy of the shards knows what is published, and says what it does not know.
    shutil.copytree(world.home / "kb", tmp_path / "copy" / "kb")
    copy = KnowledgeBase.open(tmp_path / "copy").sources()
    assert [(s.id, s.documents, s.state) for s in copy.sources][:1] == [("guides", 1, "")]
    assert copy.dead_letters == () and "stay with the home" in copy.note
    assert not (tmp_path / "copy" / "catalog.db").exists()


def test_a_catalog_that_cannot_be_read_is_a_note(world: World) -> None:
    (world.source("guides") / "guide.md").write_text("# Lanterns\n\nThe lantern hangs in the hall.\n")
    world.ingest()
    kb = world.kb()
    world.workspace.close()
    for path in world.home.glob("catalog.db*"):
        path.unlink()
    (world.home / "catalog.db").write_bytes(b"no database" * 1000)
    found = kb.sources()
    assert [s.id for s in found.sources] == ["guides"]
    assert "E_CATALOG" in found.note
    world.workspace = world.open(world.root / "another")
