"""The catalog on both databases: transactions of the fetch log, sources, dead jobs, dead letters, erasure."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.stores.catalog import Catalog, Locator, Pointer
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.servers import PostgresServer
from taboot_pipelines_tests.stores.roles import Roles, empty, with_roles

Opener = Callable[[], Catalog]


@pytest.fixture(scope="module")
def roles(postgres: PostgresServer) -> Roles:
    return with_roles(postgres, "catalog")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the test's catalog, again and again: SQLite, or PostgreSQL as the application's role."""
    url = admin = None
    if request.param == "postgresql":
        found: Roles = request.getfixturevalue("roles")
        url, admin = found.app, found.owner
        empty(found)
    opened: list[Catalog] = []

    def open_catalog() -> Catalog:
        opened.append(Catalog.open(tmp_path, open_leases(tmp_path, 5, url), url, admin))
        return opened[-1]

    yield open_catalog
    for catalog in opened:
        catalog.close()


@pytest.fixture
def catalog(opener: Opener) -> Catalog:
    return opener()


def locator(path: str, sha256: str, job_id: str, at: int = 1) -> Locator:
    return Locator(
        path,
        f"doc-{path}",
        "present",
        "document",
        sha256,
        3,
        None,
        None,
        None,
        None,
        None,
        None,
        "INGESTED",
        at,
        at,
        job_id,
    )


def test_fetches_are_logged_and_become_the_present_state(catalog: Catalog) -> None:
    job = catalog.start_job("n", "s")
    catalog.record_fetched(
        "n", "s", "files", job, [locator("a", "x", job), locator("b", "y", job)], "sources/n"
    )
    assert set(catalog.locators("n", "s")) == {"a", "b"} and catalog.blob_hashes("n") == {"x", "y"}
    assert catalog.usage("n")["total_bytes"] == 6
    catalog.record_absent("n", "s", job, [catalog.locators("n", "s")["a"]])
    assert set(catalog.locators("n", "s")) == {"b"} and set(catalog.locators("n", "s", state="absent")) == {
        "a"
    }
    assert catalog.locators("other", "s") == {}
    catalog.end_job(job, JobState.SUCCEEDED, {"discovered": 2})
    with pytest.raises(TabootError, match="E_TRANSITION"):
        catalog.end_job(job, JobState.FAILED)


def test_a_source_that_leaves_or_moves_is_retiring(catalog: Catalog) -> None:
    def entry(namespace: str) -> dict[str, str]:
        return {"namespace": namespace, "type": "files", "config": "{}", "root": "/"}

    catalog.sync_sources({"a": entry("one"), "b": entry("one")})
    assert catalog.sync_sources({"a": entry("two"), "b": entry("one")}) == [("one", "a")]
    assert catalog.sync_sources({"a": entry("two")}) == [("one", "a"), ("one", "b")]
    catalog.set_source_state("one", "b", "retired")
    assert catalog.sync_sources({"a": entry("two"), "b": entry("one")}) == [("one", "a")]


def test_pointers_are_replaced_whole(catalog: Catalog) -> None:
    assert catalog.pointer("n", "s", "chunks") is None
    catalog.publish("n", "s", Pointer("chunks", {"chunks": 1}, "in", "t", {"documents": 3}))
    catalog.publish("n", "s", Pointer("chunks", {"chunks": 2}, "in2", "t2", {}))
    assert catalog.pointer("n", "s", "chunks") == Pointer("chunks", {"chunks": 2}, "in2", "t2", {})


def test_a_dead_letter_counts_its_attempts_and_is_cleared(catalog: Catalog) -> None:
    letter = {"item": "a", "code": "E_PARSE", "message": "m", "fingerprint": "f", "kind": "failed"}
    catalog.record_dead("n", "s", "documents", [letter], [])
    catalog.record_dead("n", "s", "documents", [letter], [])
    assert [d["attempts"] for d in catalog.dead_letters("n")] == [2]
    catalog.record_dead("n", "s", "documents", [{**letter, "code": "E_EMPTY"}], [])
    assert [d["attempts"] for d in catalog.dead_letters("n")] == [1]
    catalog.record_dead("n", "s", "documents", [], ["a"])
    assert catalog.dead_letters("n") == []


JOB = """
import sys, pathlib, os
from taboot_pipelines.stores.catalog import Catalog
from taboot_pipelines.stores.leases import open_leases
home, url = pathlib.Path(sys.argv[1]), sys.argv[2] or None
print(Catalog.open(home, open_leases(home, 5, url), url).start_job("n", "s"), flush=True)
os._exit(9)
"""


def test_jobs_of_dead_processes_are_failed_once(tmp_path: Path, opener: Opener) -> None:
    catalog = opener()
    alive = catalog.start_job("n", "s")
    url = (
        ""
        if catalog.health().backend == "sqlite"
        else catalog._engine.url.render_as_string(hide_password=False)
    )
    died = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path), url], capture_output=True, text=True, check=False
    )
    dead = died.stdout.strip()
    assert dead, died.stderr
    others, found = [opener() for _ in range(3)], []
    threads = [
        threading.Thread(target=lambda c=c: found.extend(c.fail_dead_jobs())) for c in (catalog, *others)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [dead]
    states = {j["job_id"]: j["state"] for j in catalog.jobs("n")}
    assert states == {alive: "running", dead: "failed"}
    catalog.end_job(alive, JobState.SUCCEEDED, namespace="n")
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        catalog.end_job("no such job", JobState.SUCCEEDED, namespace="n")


def test_a_job_is_ended_in_its_own_namespace_only(catalog: Catalog) -> None:
    job = catalog.start_job("n", "s")
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        catalog.end_job(job, JobState.FAILED, namespace="other")
    assert [j["state"] for j in catalog.jobs("n")] == [JobState.RUNNING.value]
    catalog.end_job(job, JobState.SUCCEEDED, namespace="n")


def test_what_is_forgotten_leaves_no_row_and_in_a_file_no_byte(tmp_path: Path, catalog: Catalog) -> None:
    job = catalog.start_job("n", "s")
    catalog.record_fetched(
        "n",
        "s",
        "files",
        job,
        [locator("uniquewordone.md", "x", job), locator("kept.md", "y", job)],
        "sources/n",
    )
    catalog.record_dead(
        "n",
        "s",
        "documents",
        [
            {
                "item": "uniquewordone.md",
                "code": "E_PARSE",
                "message": "m",
                "fingerprint": "",
                "kind": "failed",
            }
        ],
        [],
    )
    assert catalog.hashes_only_of("n", ["doc-uniquewordone.md"]) == ["x"]
    catalog.forget("n", ["doc-uniquewordone.md"], ["x"])
    assert catalog.compact()
    assert set(catalog.locators("n", "s")) == {"kept.md"} and catalog.dead_letters("n") == []
    assert catalog.usage("n")["total_bytes"] == 3 and catalog.usage("n")["total_sources"] == 1
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"uniquewordone" in p.read_bytes()]


def test_many_rows_are_the_same_rows_as_few(catalog: Catalog) -> None:
    """Above a threshold PostgreSQL gets them as a stream, with everything that a text may hold."""
    job = catalog.start_job("n", "s")
    odd = ["tab\tand\nline", "back\\slash \\N", "ünï 🐳 \u2028", "'quote' \"double\"", "%s {x} :y"]
    many = [locator(f"{odd[i % len(odd)]}/{i}", f"sha{i % 700}", job, i + 1) for i in range(1000)]
    catalog.record_fetched("n", "s", "files", job, many, "sources/n")
    assert catalog.locators("n", "s") == {x.path: x for x in many}
    assert (
        len(catalog.blobs("n")) == 700
        and catalog.usage("n")["total_sources"] == 700
        and catalog.usage("n")["total_bytes"] == 2100
    )
    catalog.record_fetched("n", "s", "files", job, many[:300], "sources/n")
    assert catalog.usage("n")["total_sources"] == 700
    catalog.record_absent("n", "s", job, many[:500])
    assert set(catalog.locators("n", "s")) == {x.path for x in many[500:]}
    # Of two rows with one key the last counts, in a stream as in single statements.
    for rows in (
        [many[0], locator(many[0].path, "other", job)],
        [*many, locator(many[0].path, "other", job)],
    ):
        catalog.touch_locators("n", "s", rows)
        assert catalog.locators("n", "s")[many[0].path].sha256 == "other"


def test_two_sources_of_a_namespace_lose_no_byte_of_the_count(opener: Opener) -> None:
    """Writers at once, of blobs that they partly share: each counted once."""

    def ingest(catalog: Catalog, source: str) -> None:
        for batch in range(10):
            rows = [
                locator(f"{batch}/{i}", f"shared{batch}.{i}" if i < 5 else f"{source}{batch}.{i}", "j")
                for i in range(10)
            ]
            catalog.record_fetched("n", source, "files", "j", rows, "sources/n")

    threads = [threading.Thread(target=ingest, args=(opener(), f"s{i}")) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opener().usage("n")["total_sources"] == len(opener().blobs("n")) == 50 + 4 * 50
    assert opener().usage("n")["total_bytes"] == 250 * 3


def test_rows_come_in_the_order_of_their_bytes(catalog: Catalog) -> None:
    """PostgreSQL would sort them by a language's rules, in which ``_`` and ``-`` hardly count."""
    entry = {"namespace": "n", "type": "files", "config": "{}", "root": "/"}
    names = ["a-b", "a_b", "ab", "a-c", "a1"]
    catalog.sync_sources(dict.fromkeys(names, entry))
    assert [r["source_id"] for r in catalog.sources("n")] == sorted(names)
    catalog.record_dead(
        "n",
        "s",
        "documents",
        [
            {"item": x, "code": "E_PARSE", "message": "m", "fingerprint": "", "kind": "failed"}
            for x in ("b", "B", "a", "_")
        ],
        [],
    )
    assert [d["item"] for d in catalog.dead_letters("n")] == ["B", "_", "a", "b"]


def test_suppressed_units_leave_the_active_runs_and_come_back(catalog: Catalog) -> None:
    run = {
        "interpretation_config": "{}",
        "input_fingerprint": "f",
        "status": "completed",
        "error_message": None,
        "extracted_nodes": 0,
        "extracted_edges": 0,
        "confidence": None,
        "unknown_field_count": 0,
        "extraction_completeness": "full",
        "started_at": 1,
        "completed_at": 2,
        "heartbeat_at": None,
        "timeout_at": None,
    }
    state = {
        "reads": "{}",
        "fingerprint": "f",
        "subordinates": "[]",
        "environment": "{}",
        "problems": "[]",
        "suppressed": False,
    }
    units = ["u1", "u2", "u3"]
    catalog.record_runs(
        "n",
        "s",
        "A",
        [{"run_id": f"r-{u}", "unit_id": u, **run} for u in units],
        [{"unit_id": u, "run_id": f"r-{u}", **state} for u in units],
        [],
    )
    catalog.set_suppressed("n", "s", "A", {"u1": True, "u3": True})
    assert [r["unit_id"] for r in catalog.runs("n", active=True)] == ["u2"]
    assert {u for u, x in catalog.unit_states("n", "s", "A").items() if x["suppressed"]} == {"u1", "u3"}
    catalog.set_suppressed("n", "s", "A", {"u1": False, "u2": True})
    assert {r["unit_id"] for r in catalog.runs("n", active=True)} == {"u1"}


@pytest.mark.parametrize("name", ["", "UPPER", "a'b", "a;b", "x" * 64, "a\n", "ä"])
def test_what_is_no_name_is_no_namespace(catalog: Catalog, name: str) -> None:
    with pytest.raises(TabootError, match="E_NAMESPACE"):
        catalog.blobs(name)


def test_a_file_that_is_no_database_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"not a database, but long enough to be read as a header" * 20)
    with pytest.raises(TabootError, match="E_CATALOG"):
        Catalog.open(tmp_path, open_leases(tmp_path, 5, None))


def test_a_catalog_that_answers_is_well(catalog: Catalog) -> None:
    catalog.blob_hashes("n")
    health = catalog.health()
    assert health.ok and health.version and health.latency_ms is not None and health.part == "catalog", health
