"""``taboot retention`` and ``taboot retain``, and what an ingest and ``status`` say of what expires."""

from __future__ import annotations

from typing import Any

import yaml

from taboot_pipelines_tests.cli.test_cli import Shell


def keep(lab: Shell, source: str, days: int) -> None:
    """Let the sources file say how long the documents of a source are kept."""
    file = lab.world.directory / "sources.yaml"
    declared = yaml.safe_load(file.read_text())
    for entry in declared["sources"]:
        if entry["id"] == source:
            entry["retention_days"] = days
    file.write_text(yaml.safe_dump(declared))


def listed(lab: Shell) -> dict[str, dict[str, Any]]:
    return {row["path"]: row for row in lab.json("retention")["documents"]}


def test_documents_are_announced_kept_and_deleted(lab: Shell) -> None:
    assert "kept for good" in lab("retention")
    keep(lab, "runbooks", 30)
    assert lab.json("ingest", "runbooks")["retention"]["default"]["expiring"] == 0
    found = listed(lab)
    assert found["redis.md"]["days"] == 30 and not found["redis.md"]["own"]
    assert {row["source"] for row in found.values()} == {"runbooks"}

    lab.world.age(24)
    said = lab("ingest", "runbooks")
    assert f"{len(found)} expire within 7 days" in said
    (attention,) = [a for a in lab.json("status")["attention"] if "expire" in a["what"]]
    assert attention["command"].startswith("taboot retention")
    assert f"{len(found)} expiring" in lab("status")
    assert "EXPIRING" in lab("retention")

    assert "redis.md is kept for good" in lab("retain", "redis.md", "--forever")
    assert "redis.md" not in listed(lab)
    lab.world.age(7)
    applied = lab.json("retention", "--apply")["applied"]
    assert len(applied["expired"]) == len(found) - 1
    paths = {d["path"] for d in lab.json("documents", "--source", "runbooks")["documents"]}
    assert paths == {"redis.md"} and not listed(lab)
    # The next ingest leaves it so, and a person may have one back.
    lab("ingest", "runbooks")
    assert len(lab.json("documents", "--source", "runbooks")["documents"]) == 1
    assert len(lab.json("restore", applied["expired"][0])["restored"]) == 1
    assert "is kept until" in lab("retain", "redis.md", "--as-source")


def test_what_cannot_be_is_said(lab: Shell) -> None:
    lab("retain", "redis.md", code=2)
    assert "one of --days N, --forever and --as-source" in lab.err
    lab("retain", "redis.md", "--days", "0", code=2)
    lab("retain", "redis.md", "--days", "3", "--forever", code=2)
    lab("retain", "nothing.md", "--days", "3", code=1)
    assert "E_NOT_FOUND" in lab.err and "nothing.md" in lab.err
