"""The stage documents from outside: which blobs become rows or dead letters, and what is reused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.records import Enumerated, Event, Fetched
from taboot_pipelines.stages import documents, source_state
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines_tests.acceptance.checks import blob_path, flip_byte
from taboot_pipelines_tests.world import World

NS, SOURCE = "default", "notes"
GERMAN = "Der Dienst läuft auf dem alten Rechner im Keller und wird jeden Abend gesichert. " * 5


def parse(world: World) -> StageReport:
    """Fetch, then run the stage under test; return its report."""
    world.run("raw_blobs", SOURCE)
    return world.run("documents", SOURCE)


def rows(world: World) -> dict[str, dict[str, Any]]:
    """Return the rows of the documents table by path."""
    tables = world.workspace.tables
    version = tables.version(NS, SOURCE, "documents")
    return {r["path"]: r for r in tables.read(NS, SOURCE, "documents", version).to_pylist()}


def letters(world: World) -> dict[str, tuple[str, str, int]]:
    """Return {item: (code, kind, attempts)} of each item with a dead letter."""
    return {
        d["item"]: (d["code"], d["kind"], d["attempts"])
        for d in world.workspace.catalog.dead_letters.find(NS, SOURCE, documents.STAGE)
    }


def version(world: World) -> int | None:
    return world.workspace.tables.version(NS, SOURCE, "documents")


@pytest.fixture
def notes(world: World) -> Path:
    """Three files that can be read."""
    path = world.source(SOURCE)
    for i in range(3):
        (path / f"{i}.md").write_text(f"# Note {i}\n\nNumber {i} is served by http://host{i}.example.com/.\n")
    return path


def test_a_bad_blob_becomes_a_dead_letter_and_its_neighbours_get_their_rows(
    world: World, notes: Path
) -> None:
    (notes / "picture.md").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    (notes / "half.md").write_bytes(b"\xff\xfe" + "half".encode("utf-16-le") + b"\x00\xd8")
    (notes / "empty.md").write_bytes(b"")
    report = parse(world)
    assert rows(world).keys() == {"0.md", "1.md", "2.md"}
    assert letters(world) == {
        "picture.md": ("E_BINARY", "failed", 1),
        "half.md": ("E_ENCODING", "failed", 1),
        "empty.md": ("E_EMPTY", "skipped", 1),
    }
    assert report.counts == {"new": 3, "reused": 0, "removed": 0, "failed": 2, "rejected": 1, "total": 3}
    assert sorted(p["item"] for p in report.problems) == ["half.md", "picture.md"]

    # The same bytes are not tried again, whatever changes beside them.
    (notes / "0.md").write_text("# Another note\n\nabout something else.\n")
    report = parse(world)
    assert report.counts == {"new": 1, "reused": 2, "removed": 0, "failed": 2, "rejected": 1, "total": 3}
    assert {attempts for _, _, attempts in letters(world).values()} == {1}

    (notes / "picture.md").write_text("# Mended\n\nThis is text now.\n")
    (notes / "half.md").unlink()
    report = parse(world)
    assert report.counts["new"] == 1 and letters(world).keys() == {"empty.md"}
    assert rows(world)["picture.md"]["title"] == "Mended"

    # A file that was a document and cannot be read any more is no document any more.
    (notes / "1.md").write_bytes(b"\x00\x01\x02")
    parse(world)
    assert rows(world).keys() == {"0.md", "2.md", "picture.md"}
    assert letters(world)["1.md"][:2] == ("E_BINARY", "failed")


def test_a_blob_that_was_damaged_is_read_again_once_it_is_mended(world: World, notes: Path) -> None:
    world.run("raw_blobs", SOURCE)
    damaged = blob_path(world, world.workspace.catalog.locators.of_source(NS, SOURCE)["1.md"].sha256)
    flip_byte(damaged)
    world.run("documents", SOURCE)
    assert letters(world) == {"1.md": ("E_BLOB_CORRUPT", "failed", 1)}
    assert rows(world).keys() == {"0.md", "2.md"}
    # The letter makes the next fetch write the bytes again, and the blob be tried again.
    report = parse(world)
    assert report.counts["new"] == 1 and letters(world) == {}
    assert rows(world).keys() == {"0.md", "1.md", "2.md"}


def test_a_rejected_language_is_recorded_as_skipped(world: World, notes: Path) -> None:
    (notes / "deutsch.md").write_text(f"# Anleitung\n\n{GERMAN}\n")
    world.source(SOURCE, languages=["en"])
    report = parse(world)
    assert letters(world) == {"deutsch.md": ("E_LANGUAGE", "skipped", 1)}
    assert report.counts["rejected"] == 1 and report.counts["failed"] == 0 and report.problems == []
    assert rows(world).keys() == {"0.md", "1.md", "2.md"}

    world.source(SOURCE, languages=["en", "de"])
    parse(world)
    assert letters(world) == {} and rows(world)["deutsch.md"]["lang"] == "de"


def test_pages_are_parsed_again_when_another_form_of_them_is_wanted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = b'<meta property="og:title" content="Tea"><p>Tea is made of leaves and of hot water.</p>'

    class Site:
        def events(self, *_: object) -> Iterator[Event]:
            yield Fetched("https://example.com/", page, mime="text/html", url="https://example.com/")
            yield Enumerated(True)

    monkeypatch.setattr(source_state, "open_connector", lambda *_: Site())
    texts = []
    for extraction in (None, "structured", "raw", "markdown", "markdown"):
        world.source(SOURCE, "web", path=None, urls=["https://example.com/"], extraction=extraction)
        report = parse(world)
        texts.append(rows(world)["https://example.com/"]["text"])
    assert [t.strip() for t in texts] == [
        "Tea is made of leaves and of hot water.",
        "## Open Graph\n- og:title: Tea",
        page.decode(),
        "Tea is made of leaves and of hot water.",
        "Tea is made of leaves and of hot water.",
    ]
    assert report.skipped == "unchanged"


def test_an_unchanged_run_writes_no_version_of_the_table(world: World, notes: Path) -> None:
    (notes / "empty.md").write_bytes(b"")
    first = parse(world)
    assert first.counts["new"] == 3 and first.skipped is None
    before, found = version(world), rows(world)
    pointer = world.workspace.catalog.pointers.get(NS, SOURCE, documents.STAGE)
    second = parse(world)
    assert second.skipped == "unchanged" and second.tables == first.tables == {"documents": before}
    assert second.data_version == first.data_version
    assert version(world) == before and rows(world) == found
    assert world.workspace.catalog.pointers.get(NS, SOURCE, documents.STAGE) == pointer

    (notes / "1.md").write_text("# Note 1\n\nwas edited.\n")
    third = parse(world)
    assert (third.counts["new"], third.counts["reused"]) == (1, 2)
    # The rows of the documents that did not change are what they were.
    now = rows(world)
    assert {p: r for p, r in now.items() if p != "1.md"} == {p: r for p, r in found.items() if p != "1.md"}
    assert now["1.md"]["doc_id"] == found["1.md"]["doc_id"]
    assert now["1.md"]["created_at"] == found["1.md"]["created_at"]
    assert now["1.md"]["since"] > found["1.md"]["since"]

    (notes / "2.md").unlink()
    assert parse(world).counts["removed"] == 1 and rows(world).keys() == {"0.md", "1.md"}


def test_a_lost_table_is_made_again(world: World, notes: Path) -> None:
    parse(world)
    world.run("chunks", SOURCE)
    before = rows(world)
    shutil.rmtree(world.home / "tables" / NS / SOURCE / "documents")
    report = parse(world)
    assert report.skipped is None and report.counts["new"] == 3 and rows(world) == before
    # Versions of the table are counted anew, so what followed from the lost one is compared anew as well.
    again = world.run("chunks", SOURCE)
    assert again.skipped is None and again.counts["reused_documents"] == 3


def test_a_source_that_was_never_fetched_is_a_typed_error(world: World, notes: Path) -> None:
    with pytest.raises(TabootError) as caught:
        world.run("documents", SOURCE)
    assert caught.value.code == "E_NOT_FOUND" and "raw_blobs" in (caught.value.remedy or "")


#: Real files of public documentation, and words in them that a person would take for a secret.
SECRETS = {
    "linuxserver-docs-md/docs/images/docker-mariadb.md": ["ROOT_ACCESS_PASSWORD", "DATABASE_PASSWORD"],
    "linuxserver-docs-md/docs/images/docker-planka.md": ["notasecretkey"],
    "linuxserver-docs-md/docs/general/container-customization.md": ["pleasedontusethisexamplepassword"],
    "traefik-configs/integration/resources/compose/access_log.yml": ["$apr1$H6uskkkW$IgXLP6ewTrSuBkTrqE8wj/"],
}


def test_secrets_of_real_files_are_masked_in_place(world: World, data: Path) -> None:
    """The masked text is as long as the file's, so every offset leads to the bytes that stand there."""
    path = world.source(SOURCE)
    for name in SECRETS:
        shutil.copy(data / name, path / Path(name).name)
    parse(world)
    found = rows(world)
    assert letters(world) == {} and len(found) == len(SECRETS)
    for name, secrets in SECRETS.items():
        row = found[Path(name).name]
        blob = world.workspace.blobs.get(NS, row["blob_sha256"])
        assert blob == (data / name).read_bytes(), "the blob itself is kept as it is"
        written, text, offsets = blob.decode(), row["text"], OffsetMap.loads(row["offsets"])
        assert len(text) == len(written)
        masked = [i for i, (a, b) in enumerate(zip(text, written, strict=True)) if a != b]
        assert masked and {text[i] for i in masked} == {"*"}
        for secret in secrets:
            assert secret in written and secret not in text
            at = written.index(secret)
            assert text[at : at + len(secret)] == "*" * len(secret)
            start, end = offsets.to_bytes(at, at + len(secret))
            assert blob[start:end].decode() == secret
        # Every line of the document leads to its bytes, masked or not.
        at = 0
        for line in written.splitlines(keepends=True):
            start, end = offsets.to_bytes(at, at + len(line))
            assert blob[start:end].decode() == line
            at += len(line)
        assert not [s for s in secrets if any(s in str(v) for k, v in row.items() if k != "offsets")]


def test_what_a_document_refers_to_gets_no_row(world: World, data: Path) -> None:
    """The environment file of a Compose project is fetched for its facts, and is no document."""
    folder = world.source(SOURCE, "compose")
    shutil.copytree(data / "awesome-compose" / "wireguard", folder, dirs_exist_ok=True)
    parse(world)
    roles = {p: x.role for p, x in world.workspace.catalog.locators.of_source(NS, SOURCE).items()}
    assert roles == {".env": "input", "compose.yaml": "document"}
    assert rows(world).keys() == {"compose.yaml"} and letters(world) == {}
