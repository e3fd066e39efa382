"""Retention: documents are announced a week before they expire, and stay away until their bytes change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import Lifecycle, check_transition
from taboot_pipelines.model.retention import DAY, Policy, moment_of
from taboot_pipelines.stages import deletion, retention
from taboot_pipelines.stores.catalog.writing import now_micros
from taboot_pipelines_tests.world import World

NAMES = ("cache.md", "vault.md")


@pytest.fixture
def kept(world: World) -> Iterator[World]:
    """Two documents that are kept for 30 days, and a source that keeps its own for good."""
    folder = world.source("guides", retention_days=30)
    for name in NAMES:
        (folder / name).write_text(f"# {name}\n\nThe {name[:-3]} keeps sessions of the night.\n")
    (world.source("notes") / "note.md").write_text("# Note\n\nThe note on the sessions stays.\n")
    world.ingest()
    return world


def days(number: float) -> int:
    return now_micros() + int(number * DAY)


def states(world: World, source: str = "guides") -> dict[str, str]:
    """{path: lifecycle} of everything that was ever there."""
    located = world.workspace.catalog.locators.of_source("default", source, state=None)
    return {path: x.lifecycle for path, x in located.items()}


def served(world: World) -> set[str]:
    return set(world.kb().documents().column("path").to_pylist())


def transitions(world: World) -> dict[str, list[tuple[str, str]]]:
    """{document: its transitions}, as the audit log has them."""
    found: dict[str, list[tuple[str, str]]] = {}
    for row in world.workspace.catalog.audit_log.all("default"):
        if row["kind"] == "lifecycle":
            details = orjson.loads(row["details"])
            for doc_id in details["doc_ids"]:
                found.setdefault(doc_id, []).append((details["from"], details["to"]))
    return found


def doc_id(world: World, path: str, source: str = "guides") -> str:
    return world.workspace.catalog.locators.of_source("default", source, state=None)[path].doc_id


def run(world: World, number: float) -> retention.RetentionPass:
    return retention.run(world.workspace, "default", days(number))


def test_a_document_is_announced_a_week_before_and_then_deleted_until_its_bytes_change(kept: World) -> None:
    world = kept
    assert states(world) == dict.fromkeys(NAMES, "ACTIVE")
    assert not run(world, 22.9).changed

    announced = run(world, 23.1)
    assert (announced.announced, announced.expiring, announced.expired) == (2, 2, 0)
    assert states(world) == dict.fromkeys(NAMES, "EXPIRING") and served(world) == {*NAMES, "note.md"}
    assert not run(world, 29.9).changed

    over = run(world, 30.1)
    assert over.expired == 2 and over.receipt is not None and over.receipt.final
    assert served(world) == {"note.md"} and states(world) == dict.fromkeys(NAMES, "DELETED")
    assert not world.kb().search("keeps sessions", source="guides").hits

    # It is still at its origin, which is passed over: nothing is stored and nothing is derived.
    raw = next(r for r in world.ingest() if (r.stage, r.source_id) == ("raw_blobs", "guides"))
    counts = {k: raw.counts[k] for k in ("discovered", "fetched", "skipped", "failed", "removed")}
    assert counts == {"discovered": 2, "fetched": 0, "skipped": 2, "failed": 0, "removed": 0}
    assert raw.reasons == {"E_TOMBSTONED": 2} and served(world) == {"note.md"}

    (world.directory / "guides" / "vault.md").write_text("# Vault\n\nIt keeps other sessions now.\n")
    world.ingest()
    assert served(world) == {"vault.md", "note.md"}
    assert states(world) == {"cache.md": "DELETED", "vault.md": "ACTIVE"}
    assert not run(world, 22.9).changed and run(world, 23.1).announced == 1

    for steps in transitions(world).values():
        assert steps[0][0] in {"INGESTED", "DELETED"}
        for before, after in steps:
            check_transition(Lifecycle(before), Lifecycle(after))
        assert all(one[1] == other[0] for one, other in itertools.pairwise(steps))
    assert transitions(world)[doc_id(world, "vault.md")] == [
        ("INGESTED", "ACTIVE"),
        ("ACTIVE", "EXPIRING"),
        ("EXPIRING", "DELETED"),
        ("DELETED", "INGESTED"),
        ("INGESTED", "ACTIVE"),
        ("ACTIVE", "EXPIRING"),
    ]


def test_no_document_is_deleted_within_a_week_of_being_told_of(kept: World) -> None:
    first = run(kept, 400)  # nobody looked for a year
    assert (first.announced, first.expired) == (2, 0)
    assert not run(kept, 406.9).changed and served(kept) == {*NAMES, "note.md"}
    # Nor does keeping one of them take the other away.
    kept.kb().retain([doc_id(kept, "cache.md")], None)
    assert served(kept) == {*NAMES, "note.md"}
    assert run(kept, 407.1).expired == 1 and served(kept) == {"cache.md", "note.md"}


def test_what_a_paused_source_has_does_not_expire(kept: World) -> None:
    kept.source("guides", retention_days=30, enabled=False)
    kept.ingest()
    assert not run(kept, 400).changed and not run(kept, 800).changed
    assert states(kept) == dict.fromkeys(NAMES, "ACTIVE")
    kept.source("guides", retention_days=30)
    kept.ingest()
    assert run(kept, 800).announced == 2


def test_a_namespace_that_fails_keeps_none_of_the_others(
    kept: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = kept.source("theirs", namespace="bob", retention_days=30)
    (other / "old.md").write_text("# Old\n\nAn old guide to the sessions.\n")
    kept.ingest()
    at, real = days(400), retention.run

    def busy(workspace: Any, namespace: str) -> retention.RetentionPass:
        if namespace == "bob":
            raise TabootError("E_BUSY", "Another process writes.")
        return real(workspace, namespace, at)

    monkeypatch.setattr(retention, "run", busy)
    with pytest.raises(TabootError, match="E_BUSY"):
        retention.run_all(kept.workspace, ["bob", "default"])
    assert set(states(kept).values()) == {"EXPIRING"}


def test_readers_see_when_a_document_expires(kept: World) -> None:
    hit = kept.kb().search("keeps sessions", source="guides").hits[0]
    located = kept.workspace.catalog.locators.of_source("default", "guides")
    (since,) = (x.since for x in located.values() if x.doc_id == hit.doc_id)
    assert hit.expires_at == moment_of(since + 30 * DAY)
    rows = {row["path"]: row["expires_at"] for row in kept.kb().documents().to_pylist()}
    assert rows["note.md"] is None and rows["cache.md"] is not None
    nodes = {row["key"]: orjson.loads(row["properties"]) for row in kept.kb().nodes().to_pylist()}
    assert nodes[doc_id(kept, "cache.md")]["retentionPolicy"] == 30
    assert "retentionPolicy" not in nodes[doc_id(kept, "note.md", "notes")]


def test_a_policy_that_comes_later_gives_notice_too(world: World) -> None:
    (world.source("guides") / "old.md").write_text("# Old\n\nAn old guide to the sessions.\n")
    world.ingest()
    assert not run(world, 4000).changed
    world.source("guides", retention_days=30)
    at = now_micros()
    assert Policy(30, at).expires_at(at - 4000 * DAY) == at + 7 * DAY
    assert Policy(3, at).expires_at(at - 4000 * DAY) == at + 3 * DAY
    assert Policy(None, at).expires_at(0) is None
    world.ingest()
    # The entry is edited again, which is no new policy.
    world.source("guides", retention_days=30, tags=["old"])
    world.ingest()
    assert world.workspace.catalog.retention.all("default").sources["guides"].set_at >= at
    assert run(world, 22.9).announced == 0 and run(world, 23.1).announced == 1


def test_a_person_keeps_single_documents_longer_or_for_good(kept: World) -> None:
    kb, cache, vault = kept.kb(), doc_id(kept, "cache.md"), doc_id(kept, "vault.md")
    run(kept, 23.1)
    kb.retain([cache], None)
    assert states(kept) == {"cache.md": "ACTIVE", "vault.md": "EXPIRING"}
    kb.retain([vault], 60)
    assert states(kept)["vault.md"] == "ACTIVE"
    assert not run(kept, 52).changed and states(kept)["vault.md"] == "ACTIVE"
    rows = {row["path"]: row["expires_at"] for row in kept.kb().documents().to_pylist()}
    assert rows["cache.md"] is None and rows["vault.md"] is not None
    run(kept, 61)
    assert run(kept, 68.1).expired == 1 and served(kept) == {"cache.md", "note.md"}

    kb.retain_as_source([cache])
    run(kept, 40)
    assert run(kept, 47.1).expired == 1 and served(kept) == {"note.md"}
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        kb.retain([cache], 5)
    for wrong in (0, -1, 36_501):
        with pytest.raises(TabootError, match="E_QUERY"):
            kb.retain([doc_id(kept, "note.md", "notes")], wrong)


def test_a_policy_that_goes_lets_its_documents_stay(kept: World) -> None:
    run(kept, 23.1)
    kept.source("guides")
    kept.ingest()
    assert run(kept, 23.1).withdrawn == 2 and states(kept) == dict.fromkeys(NAMES, "ACTIVE")
    assert not run(kept, 4000).changed


def test_restored_documents_have_their_whole_time_again(kept: World) -> None:
    run(kept, 23.1)
    run(kept, 30.1)
    deletion.restore(kept.workspace, "default", [doc_id(kept, "cache.md")])
    assert served(kept) == {"cache.md", "note.md"}
    assert not run(kept, 22.9).changed and run(kept, 23.1).announced == 1


def test_what_came_back_meanwhile_is_not_deleted_by_an_expiry_that_is_finished_late(
    kept: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_args: Any, **_more: Any) -> Any:
        raise KeyboardInterrupt

    run(kept, 23.1)
    monkeypatch.setattr(deletion, "_carry_out", killed)
    with pytest.raises(KeyboardInterrupt):
        run(kept, 30.1)
    monkeypatch.undo()
    (kept.directory / "guides" / "vault.md").write_text("# Vault\n\nIt keeps other sessions now.\n")
    kept.ingest("guides")
    done = deletion.finish_pending(kept.workspace, "default")
    assert [receipt.final for receipt in done] in ([True], [])
    assert served(kept) == {"vault.md", "note.md"} and states(kept)["cache.md"] == "DELETED"


def test_purged_and_erased_documents_leave_nothing(kept: World) -> None:
    run(kept, 23.1)
    run(kept, 30.1)
    assert deletion.purge_vanished(kept.workspace, "default", carry_out=True).blobs == 2
    # Its bytes are gone, and stay away all the same.
    kept.ingest()
    assert served(kept) == {"note.md"}
    note = doc_id(kept, "note.md", "notes")
    retention.keep(kept.workspace, "default", [note], 50)
    deletion.delete(kept.workspace, "default", [note], erase=True)
    assert not kept.workspace.catalog.retention.all("default").documents
