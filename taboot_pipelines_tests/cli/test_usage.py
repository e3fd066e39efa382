"""``taboot usage`` and ``taboot jobs``."""

from __future__ import annotations

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.fakes.tei import FakeTei


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


def test_spaces_are_shown_and_the_old_one_dropped(lab: Shell) -> None:
    """The other model is built beside what is searched, which stays until it is dropped by name."""
    (only,) = lab.json("spaces")["spaces"]
    assert only["searched"] and only["chosen"] and not only["lacking"] and only["vectors"]
    lab("spaces", "--drop", only["space"], code=1)
    assert "E_QUERY" in lab.err and "is searched" in lab.err
    with FakeTei(model_id="fake/other-model", dimension=64) as other:
        lab.environment["TABOOT_TEI__URL"] = other.url
        chosen, searched = sorted(lab.json("spaces")["spaces"], key=lambda s: s["searched"])
        assert (chosen["chosen"], chosen["vectors"], searched["chosen"]) == (True, 0, False)
        assert chosen["lacking"] == searched["vectors"] and searched["space"] == only["space"]
        found = lab.json("search", "restore a database")
        assert found["hits"] and "Words alone" in found["notes"][0]
        lab("ingest")
        new, old = sorted(lab.json("spaces")["spaces"], key=lambda s: not s["searched"])
        assert new["chosen"] and new["vectors"] == old["vectors"] and not new["lacking"]
        assert not lab.json("search", "restore a database")["notes"]
        assert "kept" in lab("spaces")
        lab("spaces", "--drop", "nope", code=1)
        assert "E_NOT_FOUND" in lab.err
        assert lab.json("spaces", "--drop", old["space"])["dropped"]["vectors"] == old["vectors"]
        assert [s["space"] for s in lab.json("spaces")["spaces"]] == [new["space"]]
