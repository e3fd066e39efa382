"""Uploads: documents beside the sources file, and tags of single documents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.knowledge_base import KnowledgeBase
from taboot_pipelines.stages import deletion, retention
from taboot_pipelines.stages.storage_audit import run as audit
from taboot_pipelines_tests.crawled import small_site
from taboot_pipelines_tests.world import World, differences, holding, logical

WORD = "zettelwerk"


@pytest.fixture
def house(world: World) -> Iterator[World]:
    """A source of the sources file, which uploads stand beside."""
    (world.source("notes", tags=["house"]) / "note.md").write_text("# Note\n\nThe cache keeps sessions.\n")
    world.ingest()
    return world


def upload(world: World, *documents: str | Path | bytes, **said: Any) -> dict[str, str]:
    """{path: what became of it}."""
    return {x.path: x.code or x.state for x in world.kb().upload(*documents, **said)}


def hits(kb: KnowledgeBase, query: str, **options: Any) -> list[str]:
    """The paths of the documents that are found."""
    rows = kb.documents().select(["doc_id", "path"]).to_pylist()
    paths = {row["doc_id"]: row["path"] for row in rows}
    return [paths[h.doc_id] for h in kb.search(query, mode="keyword", **options).hits]


def test_what_is_uploaded_is_searched_and_outlives_every_ingest(house: World) -> None:
    assert upload(house, f"# Page\n\nThe {WORD} waits.\n".encode(), name="a/page.md") == {"a/page.md": "new"}
    assert hits(house.kb(), WORD) == ["a/page.md"]
    house.workspace.sync_sources()
    house.ingest(confirm_deletes=True)
    assert hits(house.kb(), WORD) == ["a/page.md"]
    # A sources file that is edited, and one that names the source, keep it too.
    house.source("more")
    house.entries.append({"id": "uploads", "type": "uploads", "tags": ["handed"]})
    house.declare()
    house.ingest(confirm_deletes=True)
    assert hits(house.kb(), WORD, tag="handed") == ["a/page.md"]
    assert audit(house.workspace, "default").found == []


def test_the_same_again_is_no_change_and_other_bytes_are_an_edit(house: World) -> None:
    data = f"The {WORD} waits.".encode()
    assert upload(house, data, name="page.txt") == {"page.txt": "new"}
    version = house.kb().manifest.version
    assert upload(house, data, name="page.txt") == {"page.txt": "unchanged"}
    assert house.kb().manifest.version == version
    assert upload(house, b"The mill turns.", name="page.txt") == {"page.txt": "replaced"}
    assert hits(house.kb(), WORD) == []
    assert hits(house.kb(), "mill") == ["page.txt"]
    assert [v.event for v in house.kb().document("page.txt").versions] == ["fetched", "fetched"]


def test_a_folder_is_taken_as_a_source_of_files_takes_it(house: World, tmp_path: Path) -> None:
    folder = tmp_path / "manual"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "one.md").write_text("# One\n\nThe pump hums.\n")
    (folder / "two.txt").write_text("The valve drips.")
    (folder / ".env").write_text("TOKEN=planted-in-an-env-file")
    (folder / "tool.py").write_text("print('code')")
    found = upload(house, folder, tags=["plumbing"])
    assert found == {"manual/deep/one.md": "new", "manual/two.txt": "new"}
    assert set(hits(house.kb(), "pump valve", tag="plumbing")) == set(found)
    assert holding(house.home, "planted-in-an-env-file") == []


def test_a_page_is_fetched_with_every_guard(house: World) -> None:
    with small_site() as site:
        with pytest.raises(TabootError) as refused:
            house.kb().upload(site.url("/a"))
        assert refused.value.code == "E_URL_BLOCKED"
        assert site.site.hits == {}
        (done,) = house.kb().upload(site.url("/a"), allow_cidrs=["127.0.0.0/8"])
        (hit,) = house.kb().search("tells people", mode="keyword").hits
        assert (hit.doc_id, hit.url, hit.title) == (done.doc_id, site.url("/a"), "Page /a")
        assert set(site.site.hits) == {"/robots.txt", "/a"}, "a page alone, and none that it links to"
        with pytest.raises(TabootError) as missing:
            house.kb().upload(site.url("/missing"), allow_cidrs=["127.0.0.0/8"])
        assert missing.value.code == "E_NOT_FOUND"
    assert len(house.kb().documents(source="uploads")) == 1


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("../up.md", "E_PATH"),
        ("/etc/passwd", "E_PATH"),
        ("a//b.md", "E_PATH"),
        ("a\nb.md", "E_PATH"),
        ("", "E_PATH"),
        ("x" * 3000, "E_PATH"),
        (None, "E_QUERY"),
    ],
)
def test_a_name_that_can_be_none_is_refused_and_nothing_is_stored(
    house: World, name: str | None, code: str
) -> None:
    with pytest.raises(TabootError) as error:
        house.kb().upload(WORD.encode(), name=name)
    assert error.value.code == code
    assert house.workspace.catalog.uploaded.all("default") == []
    assert "uploads" not in {row["source_id"] for row in house.workspace.catalog.sources.find("default")}
    assert holding(house.home, WORD) == []


def test_what_is_no_document_is_refused_by_its_name(house: World, tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text("")
    (tmp_path / "prod.env").write_text("A=1")
    os.mkfifo(tmp_path / "pipe.md")
    for name, code in {
        "empty.md": "E_EMPTY",
        "prod.env": "E_PATH",
        "pipe.md": "E_PATH",
        "none.md": "E_PATH",
    }.items():
        with pytest.raises(TabootError) as error:
            house.kb().upload(tmp_path / name)
        assert error.value.code == code, name
        assert name in error.value.message
    (tmp_path / "other").mkdir()
    (tmp_path / "a.md").write_text("One.")
    (tmp_path / "other" / "a.md").write_text("Two.")
    with pytest.raises(TabootError) as error:
        house.kb().upload(tmp_path / "a.md", tmp_path / "other" / "a.md")
    assert error.value.code == "E_QUERY"
    # What holds nothing to read is kept, told of, and lets the rest in.
    found = upload(house, b"\x00\x01\x02\xff" * 50, name="noise.md")
    assert found["noise.md"].startswith("E_")


def test_a_deleted_document_is_there_again_when_it_is_uploaded_again(house: World) -> None:
    data = f"The {WORD} waits.".encode()
    (done,) = house.kb().upload(data, name="page.txt")
    for erase in (False, True):
        deletion.delete(house.workspace, "default", [done.doc_id], erase=erase)
        house.ingest()
        assert hits(house.kb(), WORD) == []
        assert upload(house, data, name="page.txt") == {"page.txt": "new" if erase else "unchanged"}
        assert hits(house.kb(), WORD) == ["page.txt"]


def test_an_erased_upload_leaves_no_byte(house: World) -> None:
    (done,) = house.kb().upload(f"The {WORD} waits.".encode(), name=f"{WORD}.txt", tags=[f"{WORD}-tag"])
    assert holding(house.home, WORD) != []
    receipt = deletion.delete(house.workspace, "default", [done.doc_id], erase=True)
    assert receipt.final
    house.ingest()
    assert holding(house.home, WORD) == []
    assert house.workspace.catalog.tags.all("default") == {}


def test_an_upload_that_was_never_taken_in_survives_a_purge_and_an_erasure(house: World) -> None:
    data = f"The {WORD} waits.".encode()
    (first,) = house.kb().upload(data, name="first.txt")
    catalog, blobs = house.workspace.catalog, house.workspace.blobs
    # As a process leaves it that is killed between the record and the run.
    (item,) = catalog.uploaded.all("default")
    catalog.uploaded.put("default", [item._replace(path="second.txt")], "sources/default")
    deletion.delete(house.workspace, "default", [first.doc_id], erase=True)
    late = blobs.put("default", b"The mill turns.")[0]
    pending = item._replace(path="third.txt", sha256=late, byte_size=15)
    catalog.uploaded.put("default", [pending], "sources/default")
    deletion.purge_vanished(house.workspace, "default", carry_out=True)
    house.ingest()
    assert set(hits(house.kb(), f"{WORD} mill")) == {"second.txt", "third.txt"}


def test_tags_filter_at_once_and_stay_with_the_document(house: World) -> None:
    kb = house.kb()
    (doc_id,) = kb.documents().column("doc_id").to_pylist()
    vectors = logical(house.workspace)["vectors"]
    kb.tag([doc_id], add=["night", "house"])
    assert hits(house.kb(), "sessions", tag="night") == ["note.md"]
    assert house.kb().document(doc_id).tags == ("house", "night")
    assert hits(house.kb(), "sessions", collection="night") == ["note.md"]
    assert hits(house.kb(), "sessions", tag="day") == []
    (house.directory / "notes" / "note.md").write_text("# Note\n\nThe cache keeps sessions for a day.\n")
    house.ingest()
    assert hits(house.kb(), "sessions", tag="night") == ["note.md"]
    house.kb().tag([doc_id], remove=["night"])
    assert hits(house.kb(), "sessions", tag="night") == []
    assert len(vectors) == 1
    for wrong in ("", "x" * 101, "a\nb"):
        with pytest.raises(TabootError) as error:
            house.kb().tag([doc_id], add=[wrong])
        assert error.value.code == "E_QUERY"
    with pytest.raises(TabootError) as unknown:
        house.kb().tag(["00000000-0000-4000-8000-000000000000"], add=["night"])
    assert unknown.value.code == "E_NOT_FOUND"


def test_a_tag_writes_no_shard_and_a_replay_publishes_it_too(house: World) -> None:
    upload(house, b"The mill turns.", name="mill.txt", tags=["river"])
    before = house.kb().manifest
    (doc_id,) = house.kb().documents(tag="river").column("doc_id").to_pylist()
    house.kb().tag([doc_id], add=["wheel"])
    after = house.kb().manifest
    assert [s.key for s in after.shards] == [s.key for s in before.shards]
    scratch = house.open(house.replay())
    try:
        assert differences(logical(house.workspace), logical(scratch)) == {}
    finally:
        scratch.close()
    assert house.kb(home=house.home / ".." / "scratch").documents(tag="wheel").num_rows == 1


def test_uploads_expire_by_a_policy_of_their_own(house: World) -> None:
    (done,) = house.kb().upload(b"The mill turns.", name="mill.txt")
    house.kb().retain([done.doc_id], 10)
    day = 86_400 * 1_000_000
    since = house.kb().document(done.doc_id).since.timestamp() * 1e6
    retention.run(house.workspace, "default", int(since + 5 * day))
    retention.run(house.workspace, "default", int(since + 12.1 * day))
    house.ingest()
    assert hits(house.kb(), "mill") == []
    assert upload(house, b"The mill turns.", name="mill.txt") == {"mill.txt": "unchanged"}
    assert hits(house.kb(), "mill") == ["mill.txt"]


def test_documents_are_listed_in_pages_that_changes_do_not_shift(house: World) -> None:
    for number in range(7):
        (house.directory / "notes" / f"{number}.md").write_text(f"# {number}\n\nPage {number}.\n")
    house.ingest()
    whole = house.kb().documents().column("doc_id").to_pylist()
    seen: list[str] = []
    while (
        page := house.kb().documents(limit=3, after=seen[-1] if seen else None).column("doc_id").to_pylist()
    ):
        seen += page
        if len(seen) == 3:
            house.kb().delete([seen[0]])
    assert seen == whole
    kb = house.kb()
    assert kb.documents(path_prefix="3").column("path").to_pylist() == ["3.md"]
    assert kb.documents(tag="nobody").num_rows == 0
    for wrong in ({"limit": 0}, {"after": 3}, {"content_type": "code"}, {"type": "nonsense"}):
        with pytest.raises(TabootError) as error:
            kb.documents(**wrong)  # type: ignore[arg-type]
        assert error.value.code == "E_QUERY"


def test_a_document_is_shown_with_its_text_chunks_and_versions(house: World) -> None:
    shown = house.kb().document("note.md")
    assert shown.text.startswith("# Note")
    assert [shown.text[c.start : c.end] for c in shown.chunks] == [shown.text.strip()]
    assert [(v.event, v.blob_sha256) for v in shown.versions] == [("fetched", shown.blob_sha256)]
    with pytest.raises(TabootError) as error:
        house.kb().document("note.mx")
    assert error.value.code == "E_NOT_FOUND"
    assert "note.md" in error.value.message
