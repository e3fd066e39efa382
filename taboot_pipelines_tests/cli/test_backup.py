"""``taboot backup``: save, list, verify, restore, as a person does it."""

from __future__ import annotations

from pathlib import Path

from taboot_pipelines_tests.cli.test_cli import Shell


def test_saved_verified_and_restored_elsewhere(lab: Shell, tmp_path: Path) -> None:
    place, home = str(tmp_path / "saved"), str(tmp_path / "home")
    assert "There is no backup" not in lab("backup", "create", place)
    made = lab.json("backup", "create", place, "--keep", "1")
    assert made["new_blobs"] == 0 and len(made["pruned"]) == 1 and made["lost"] == []
    (listed,) = lab.json("backup", "list", place)["backups"]
    assert listed["id"] == made["id"] and made["id"] in lab("backup", "list", place)
    assert "all of them well" in lab("backup", "verify", place)

    documents = lab.json("documents", "--limit", "500")
    lab("backup", "restore", place, code=1)
    assert "E_BACKUP" in lab.err and "empty home" in lab.err
    lab.environment["TABOOT_HOME"] = home
    assert f"{documents['total']:,} documents" in lab("backup", "restore", place)
    there = lab.json("documents", "--limit", "500")
    assert [d["doc_id"] for d in there["documents"]] == [d["doc_id"] for d in documents["documents"]]
    assert "redis" in lab("search", "redis").lower()
    # The next ingest finds everything as it was.
    counts = {s["source"]: s["stages"][0]["counts"] for s in lab.json("ingest")["sources"]}
    assert sum(c["fetched"] for c in counts.values()) == 0


def test_a_damaged_backup_and_wrong_places(lab: Shell, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    lab("backup", "create", str(place))
    blob = next(p for p in sorted((place / "blobs").rglob("*")) if p.is_file())
    blob.unlink()
    assert "is missing" in lab("backup", "verify", str(place), code=1)
    lab("backup", "list", str(tmp_path / "nowhere"), code=1)
    assert "E_BACKUP" in lab.err and "nowhere" in lab.err
    lab("backup", "create", str(lab.world.home / "inside"), code=1)
    assert "outside of TABOOT_HOME" in lab.err
    lab("backup", "restore", str(place), "--backup", "nothing", code=1)
    assert "no backup(s) 'nothing'" in lab.err
