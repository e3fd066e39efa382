"""``taboot upload``, ``taboot tag`` and ``taboot document``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.forking import python


def taboot(folder: Path, *arguments: str, piped: bytes = b"", code: int = 0) -> str:
    """Run the command in a folder of its own, which has no sources file."""
    done = subprocess.run(
        [*python(), "-c", "from taboot_pipelines.cli import main; main()", *arguments],
        cwd=folder,
        input=piped,
        capture_output=True,
        check=False,
        env={**os.environ, "TABOOT_HOME": str(folder / "home")},
    )
    assert done.returncode == code, done.stdout.decode() + done.stderr.decode()
    return (done.stdout + done.stderr).decode()


def test_documents_are_uploaded_tagged_shown_and_replaced(lab: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "manuals"
    folder.mkdir()
    (folder / "mill.md").write_text("# Mill\n\nThe mill turns at night.\n")
    said = lab("upload", str(folder), "--tag", "river")
    assert "new" in said and "manuals/mill.md" in said and "1 document." in said
    assert "The mill turns" in lab("search", "mill turns", "--tag", "river")
    (row,) = lab.json("documents", "--tag", "river")["documents"]
    assert (row["source"], row["path"]) == ("uploads", "manuals/mill.md")
    assert "night" in lab("tag", "manuals/mill.md", "--add", "night", "--remove", "river")
    assert lab.json("documents", "--tag", "river")["total"] == 0
    shown = lab("document", "manuals/mill.md")
    assert "The mill turns at night." in shown and "fetched" in shown and "night" in shown
    assert "mill.md" in lab("document", row["doc_id"][:8], "--chunks")
    assert lab.json("document", "manuals/mill.md")["tags"] == ["night"]
    (folder / "mill.md").write_text("# Mill\n\nThe mill rests.\n")
    (done,) = lab.json("upload", str(folder / "mill.md"), "--as", "manuals/mill.md")["documents"]
    assert done["state"] == "replaced"
    # An ingest of everything, and a look at what there is, know the source as any other.
    lab("ingest")
    assert "uploads" in lab("sources", "list") and "uploads" in lab("status")
    assert "The mill rests." in lab("document", "manuals/mill.md")


def test_what_cannot_be_is_said(lab: Shell, tmp_path: Path) -> None:
    lab("upload", code=2)
    lab("upload", "-", code=2)
    assert "--as NAME" in lab.err
    lab("upload", "a.md", "b.md", "--as", "c.md", code=2)
    lab("upload", str(tmp_path / "none.md"), code=1)
    assert "E_PATH" in lab.err and "does not exist" in lab.err
    lab("upload", "http://127.0.0.1:9/page", code=1)
    assert "E_URL_BLOCKED" in lab.err
    lab("tag", "redis.md", code=2)
    lab("tag", "nothing.md", "--add", "x", code=1)
    lab("document", "nothing.md", code=1)
    assert "E_NOT_FOUND" in lab.err


def test_it_needs_no_sources_file(tmp_path: Path) -> None:
    taboot(tmp_path, "upload", "-", "--as", "notes/backup.md", piped=b"# Backups\n\nKopia runs at dawn.\n")
    found = json.loads(taboot(tmp_path, "search", "when does kopia run", "--json"))
    assert found["hits"][0]["url"] == "uploads:notes/backup.md"
    assert "uploads" in taboot(tmp_path, "status", code=0)
