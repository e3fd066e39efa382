"""``taboot usage`` and ``taboot jobs``."""

from __future__ import annotations

from taboot_pipelines_tests.cli.test_cli import Shell


def test_what_is_held_and_allowed_is_shown(lab: Shell) -> None:
    lab.environment["TABOOT_QUOTA__DOCUMENTS"] = "1000"
    told = lab.json("usage")["namespaces"]["default"]
    served = lab.json("status")["namespaces"]["default"]
    assert told["bytes"] == {"used": served["blob_bytes"], "limit": None}
    assert told["documents"]["limit"] == 1000 and told["documents"]["used"] >= served["documents"]
    assert "1,000" in lab("usage")


def test_jobs_are_listed_with_what_came_of_them(lab: Shell) -> None:
    lab("ingest", "runbooks")
    (last,) = lab.json("jobs", "runbooks", "--limit", "1")["jobs"]
    assert (last["source"], last["state"], last["error"]) == ("runbooks", "succeeded", None)
    folder = lab.world.directory / "runbooks"
    folder.rename(folder.with_name("away"))
    try:
        lab("ingest", "runbooks", code=1)
    finally:
        folder.with_name("away").rename(folder)
    (last,) = lab.json("jobs", "runbooks", "--limit", "1")["jobs"]
    assert (last["state"], last["error"]["code"]) == ("failed", "E_PATH")
    assert "E_PATH" in lab("jobs") and "runbooks" in lab("jobs")
