"""The catalog on both databases: transactions of the fetch log, sources, dead jobs, dead letters, erasure."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.ingesting import TRANSIENT
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.locators import Locator
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines_tests.stores.conftest import Opener


def locator(path: str, sha256: str, job_id: str, at: int = 1) -> Locator:
    return Locator(
        path=path,
        doc_id=f"doc-{path}",
        state="present",
        role="document",
        sha256=sha256,
        byte_size=3,
        mime=None,
        charset=None,
        url=None,
        final_url=None,
        etag=None,
        last_modified=None,
        lifecycle="INGESTED",
        created_at=at,
        since=at,
        job_id=job_id,
    )


def test_fetches_are_logged_and_become_the_present_state(catalog: Catalog) -> None:
    job = catalog.jobs.start("n", "s")
    catalog.locators.record_fetched(
        "n", "s", "files", job, [locator("a", "x", job), locator("b", "y", job)], "sources/n"
    )
    assert set(catalog.locators.of_source("n", "s")) == {"a", "b"} and catalog.blobs.hashes("n") == {"x", "y"}
    assert catalog.blobs.usage("n")["total_bytes"] == 6
    told = locator("c", "x", job)._replace(etag='"1"', charset="utf-8")
    catalog.locators.record_fetched("n", "t", "web", job, [told, told._replace(sha256="z")], "sources/n")
    handed_in = {
        b["content_hash"]: (b["source_agent_id"], b["source_metadata"]) for b in catalog.blobs.all("n")
    }
    assert handed_in == {
        "x": ("s", "{}"),
        "y": ("s", "{}"),
        "z": ("t", '{"charset":"utf-8","etag":"\\"1\\""}'),
    }
    catalog.locators.record_absent("n", "s", job, [catalog.locators.of_source("n", "s")["a"]])
    assert set(catalog.locators.of_source("n", "s")) == {"b"} and set(
        catalog.locators.of_source("n", "s", state="absent")
    ) == {"a"}
    assert catalog.locators.of_source("other", "s") == {}
    catalog.jobs.end(job, JobState.SUCCEEDED, {"discovered": 2})
    with pytest.raises(TabootError, match="E_TRANSITION"):
        catalog.jobs.end(job, JobState.FAILED)


def test_a_source_that_leaves_or_moves_is_retiring(catalog: Catalog) -> None:
    def entry(namespace: str) -> dict[str, str]:
        return {"namespace": namespace, "type": "files", "config": "{}", "root": "/"}

    catalog.sources.sync({"a": entry("one"), "b": entry("one")})
    assert catalog.sources.sync({"a": entry("two"), "b": entry("one")}) == [("one", "a")]
    assert catalog.sources.sync({"a": entry("two")}) == [("one", "a"), ("one", "b")]
    catalog.sources.set_state("one", "b", "retired")
    assert catalog.sources.sync({"a": entry("two"), "b": entry("one")}) == [("one", "a")]


def test_pointers_are_replaced_whole(catalog: Catalog) -> None:
    assert catalog.pointers.get("n", "s", "chunks") is None
    catalog.pointers.publish(
        "n",
        "s",
        Pointer(stage="chunks", tables={"chunks": "1"}, inputs="in", txn="t", applied={"documents": 3}),
    )
    catalog.pointers.publish(
        "n", "s", Pointer(stage="chunks", tables={"chunks": "2"}, inputs="in2", txn="t2", applied={})
    )
    assert catalog.pointers.get("n", "s", "chunks") == Pointer(
        stage="chunks", tables={"chunks": "2"}, inputs="in2", txn="t2", applied={}
    )


def test_a_dead_letter_counts_its_attempts_and_is_cleared(catalog: Catalog) -> None:
    letter = {"item": "a", "code": "E_PARSE", "message": "m", "fingerprint": "f", "kind": "failed"}
    catalog.dead_letters.record("n", "s", "documents", [letter], [])
    catalog.dead_letters.record("n", "s", "documents", [letter], [])
    assert [d["attempts"] for d in catalog.dead_letters.find("n")] == [2]
    catalog.dead_letters.record("n", "s", "documents", [{**letter, "code": "E_EMPTY"}], [])
    assert [d["attempts"] for d in catalog.dead_letters.find("n")] == [1]
    catalog.dead_letters.record("n", "s", "documents", [], ["a"])
    assert catalog.dead_letters.find("n") == []


JOB = """
import sys, pathlib, os
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases import open_leases
home, url = pathlib.Path(sys.argv[1]), sys.argv[2] or None
leases = open_leases(Settings(home=home, catalog_url=url), 5)
print(open_catalog(Settings(home=home, catalog_url=url), leases).jobs.start("n", "s"), flush=True)
os._exit(9)
"""


def test_jobs_of_dead_processes_are_failed_once(tmp_path: Path, opener: Opener) -> None:
    catalog = opener()
    alive = catalog.jobs.start("n", "s")
    url = (
        ""
        if catalog.health().backend == "sqlite"
        else catalog.database.engine.url.render_as_string(hide_password=False)
    )
    died = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path), url], capture_output=True, text=True, check=False
    )
    dead = died.stdout.strip()
    assert dead, died.stderr
    others, found = [opener() for _ in range(3)], []
    threads = [
        threading.Thread(target=lambda c=c: found.extend(c.jobs.fail_dead())) for c in (catalog, *others)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [dead]
    states = {j["job_id"]: j["state"] for j in catalog.jobs.find("n")}
    assert states == {alive: "running", dead: "failed"}
    catalog.jobs.end(alive, JobState.SUCCEEDED, namespace="n")
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        catalog.jobs.end("no such job", JobState.SUCCEEDED, namespace="n")


def test_a_job_is_ended_in_its_own_namespace_only(catalog: Catalog) -> None:
    job = catalog.jobs.start("n", "s")
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        catalog.jobs.end(job, JobState.FAILED, namespace="other")
    assert [j["state"] for j in catalog.jobs.find("n")] == [JobState.RUNNING.value]
    catalog.jobs.end(job, JobState.SUCCEEDED, namespace="n")


def test_what_is_forgotten_leaves_no_row_and_in_a_file_no_byte(tmp_path: Path, catalog: Catalog) -> None:
    job = catalog.jobs.start("n", "s")
    catalog.locators.record_fetched(
        "n",
        "s",
        "files",
        job,
        [locator("uniquewordone.md", "x", job), locator("kept.md", "y", job)],
        "sources/n",
    )
    catalog.dead_letters.record(
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
    assert catalog.locators.hashes_only_of("n", ["doc-uniquewordone.md"]) == ["x"]
    catalog.forget("n", ["doc-uniquewordone.md"], ["x"])
    assert catalog.database.compact()
    assert set(catalog.locators.of_source("n", "s")) == {"kept.md"} and catalog.dead_letters.find("n") == []
    assert catalog.blobs.usage("n")["total_bytes"] == 3 and catalog.blobs.usage("n")["total_sources"] == 1
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"uniquewordone" in p.read_bytes()]


def test_many_rows_are_the_same_rows_as_few(catalog: Catalog) -> None:
    """Above a threshold PostgreSQL gets them as a stream, with everything that a text may hold."""
    job = catalog.jobs.start("n", "s")
    odd = ["tab\tand\nline", "back\\slash \\N", "ünï 🐳 \u2028", "'quote' \"double\"", "%s {x} :y"]
    many = [locator(f"{odd[i % len(odd)]}/{i}", f"sha{i % 700}", job, i + 1) for i in range(1000)]
    catalog.locators.record_fetched("n", "s", "files", job, many, "sources/n")
    assert catalog.locators.of_source("n", "s") == {x.path: x for x in many}
    assert (
        len(catalog.blobs.all("n")) == 700
        and catalog.blobs.usage("n")["total_sources"] == 700
        and catalog.blobs.usage("n")["total_bytes"] == 2100
    )
    catalog.locators.record_fetched("n", "s", "files", job, many[:300], "sources/n")
    assert catalog.blobs.usage("n")["total_sources"] == 700
    catalog.locators.record_absent("n", "s", job, many[:500])
    assert set(catalog.locators.of_source("n", "s")) == {x.path for x in many[500:]}
    # Of two rows with one key the last counts, in a stream as in single statements.
    for rows in (
        [many[0], locator(many[0].path, "other", job)],
        [*many, locator(many[0].path, "other", job)],
    ):
        catalog.locators.touch("n", "s", rows)
        assert catalog.locators.of_source("n", "s")[many[0].path].sha256 == "other"


def test_two_sources_of_a_namespace_lose_no_byte_of_the_count(opener: Opener) -> None:
    """Writers at once, of blobs that they partly share: each counted once."""

    def ingest(catalog: Catalog, source: str) -> None:
        for batch in range(10):
            rows = [
                locator(f"{batch}/{i}", f"shared{batch}.{i}" if i < 5 else f"{source}{batch}.{i}", "j")
                for i in range(10)
            ]
            catalog.locators.record_fetched("n", source, "files", "j", rows, "sources/n")

    threads = [threading.Thread(target=ingest, args=(opener(), f"s{i}")) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opener().blobs.usage("n")["total_sources"] == len(opener().blobs.all("n")) == 50 + 4 * 50
    assert opener().blobs.usage("n")["total_bytes"] == 250 * 3


def test_rows_come_in_the_order_of_their_bytes(catalog: Catalog) -> None:
    """PostgreSQL would sort them by a language's rules, in which ``_`` and ``-`` hardly count."""
    entry = {"namespace": "n", "type": "files", "config": "{}", "root": "/"}
    names = ["a-b", "a_b", "ab", "a-c", "a1"]
    catalog.sources.sync(dict.fromkeys(names, entry))
    assert [r["source_id"] for r in catalog.sources.find("n")] == sorted(names)
    catalog.dead_letters.record(
        "n",
        "s",
        "documents",
        [
            {"item": x, "code": "E_PARSE", "message": "m", "fingerprint": "", "kind": "failed"}
            for x in ("b", "B", "a", "_")
        ],
        [],
    )
    assert [d["item"] for d in catalog.dead_letters.find("n")] == ["B", "_", "a", "b"]


RUN = {
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
STATE = {
    "reads": "{}",
    "fingerprint": "f",
    "subordinates": "[]",
    "environment": "{}",
    "problems": "[]",
    "suppressed": False,
}


def interpret(catalog: Catalog, reads: dict[str, str], *, source: str = "s") -> None:
    """Record a finished run of each unit, given as {unit id: JSON of what it read}."""
    catalog.runs.record(
        "n",
        source,
        "A",
        [{"run_id": f"{source}-{unit}", "unit_id": unit, **RUN} for unit in reads],
        [{"unit_id": u, "run_id": f"{source}-{u}", **STATE, "reads": read} for u, read in reads.items()],
        [],
    )


def test_suppressed_units_leave_the_active_runs_and_come_back(catalog: Catalog) -> None:
    interpret(catalog, dict.fromkeys(["u1", "u2", "u3"], "{}"))
    catalog.runs.set_suppressed("n", "s", "A", {"u1": True, "u3": True})
    assert [r["unit_id"] for r in catalog.runs.find("n", active=True)] == ["u2"]
    assert {u for u, x in catalog.runs.unit_states("n", "s", "A").items() if x["suppressed"]} == {"u1", "u3"}
    catalog.runs.set_suppressed("n", "s", "A", {"u1": False, "u2": True})
    assert {r["unit_id"] for r in catalog.runs.find("n", active=True)} == {"u1"}


def test_what_is_forgotten_leaves_no_unit_of_its_name_and_none_that_read_it(catalog: Catalog) -> None:
    """Whatever the kind of a unit is called, and whether it has a state, an archived run or only a letter."""
    job = catalog.jobs.start("n", "s")
    paths = ["gone.yaml", "odd:gone.yaml", "other.yaml"]
    rows = [locator(path, path, job) for path in paths]
    catalog.locators.record_fetched("n", "s", "files", job, rows, "sources/n")
    catalog.locators.record_fetched("n", "t", "files", job, [locator("else", "z", job)], "sources/n")
    reader = '{"files": {"gone.yaml": "x"}, "globs": {}}'
    interpret(catalog, {"anykind:gone.yaml": "{}", "document:doc-gone.yaml": "{}", "old:gone.yaml": "{}"})
    interpret(
        catalog, {"anykind:reader.yaml": reader, "anykind:other.yaml": "{}", "anykind:a:gone.yaml": "{}"}
    )
    interpret(catalog, {"anykind:gone.yaml": "{}"}, source="t")
    catalog.runs.record("n", "s", "A", [], [], ["old:gone.yaml"])
    items = ["gone.yaml", "new:gone.yaml", "anykind:reader.yaml", "odd:gone.yaml", "odd:other.yaml"]
    letter = {"code": "E_PARSE", "message": "m", "fingerprint": "", "kind": "failed"}
    for source in ("s", "t"):
        catalog.dead_letters.record("n", source, "any", [{"item": x, **letter} for x in items], [])
    catalog.forget("n", ["doc-gone.yaml"], [])
    kept = ["anykind:a:gone.yaml", "anykind:other.yaml"]
    assert sorted(catalog.runs.unit_states("n", "s", "A")) == kept
    assert sorted(r["unit_id"] for r in catalog.runs.find("n") if r["source_id"] == "s") == kept
    # ``odd:gone.yaml`` is a file of its own.
    assert [d["item"] for d in catalog.dead_letters.find("n", "s")] == ["odd:gone.yaml", "odd:other.yaml"]
    assert set(catalog.locators.of_source("n", "s")) == {"odd:gone.yaml", "other.yaml"}
    # Another source has paths of its own.
    assert list(catalog.runs.unit_states("n", "t", "A")) == ["anykind:gone.yaml"]
    assert len(catalog.dead_letters.find("n", "t")) == len(items)


@pytest.mark.parametrize("name", ["", "UPPER", "a'b", "a;b", "x" * 64, "a\n", "ä"])
def test_what_is_no_name_is_no_namespace(catalog: Catalog, name: str) -> None:
    with pytest.raises(TabootError, match="E_NAMESPACE"):
        catalog.blobs.all(name)


def test_a_file_that_is_no_database_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"not a database, but long enough to be read as a header" * 20)
    with pytest.raises(TabootError, match="E_CATALOG"):
        open_catalog(Settings(home=tmp_path), open_leases(Settings(home=tmp_path, catalog_url=None), 5))


def test_a_damaged_file_is_a_typed_error_that_offers_the_backup(tmp_path: Path) -> None:
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    catalog.blobs.all("n")
    catalog.close()
    file = tmp_path / "catalog.db"
    whole = file.read_bytes()
    # In the header, in its versions of writing and reading, in the text of the schema (which is then no
    # UTF-8), and in the page of its tree.
    for at in (0, 18, 19, whole.index(b"CREATE TABLE") + 8, 100):
        damaged = bytearray(whole)
        damaged[at] = 0xF5
        file.write_bytes(damaged)
        with pytest.raises(TabootError, match="E_CATALOG") as caught:
            opened = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
            opened.blobs.all("n")
            opened.jobs.start("n", "s")
        assert "backup" in caught.value.remedy


@pytest.mark.parametrize("left", ["blobs/sources/n/x", "tables/n/s/x", "kb/n.manifest.json"])
def test_a_catalog_that_lost_its_tables_is_not_begun_anew_beside_what_it_knew_of(
    opener: Opener, tmp_path: Path, left: str
) -> None:
    catalog = opener()
    catalog.blobs.all("n")
    migrator = catalog.database.migrator
    engine = migrator._admin_engine() if migrator._admin_url else sa.create_engine(migrator._engine.url)
    catalog.close()
    with engine.begin() as c:
        if engine.dialect.name == "sqlite":
            c.exec_driver_sql("PRAGMA foreign_keys=OFF")
        for name in sa.inspect(c).get_table_names():
            cascade = " CASCADE" if engine.dialect.name == "postgresql" else ""
            c.exec_driver_sql(f'DROP TABLE "{name}"{cascade}')
    engine.dispose()
    (tmp_path / left).parent.mkdir(parents=True)
    (tmp_path / left).touch()
    for _ in range(2):
        with pytest.raises(TabootError, match="gone or empty") as caught:
            opener().blobs.all("n")
        assert caught.value.code == "E_CATALOG" and "backup" in caught.value.remedy
    (tmp_path / left).unlink()
    assert opener().blobs.all("n") == []


def test_a_locked_file_says_that_it_is_locked_and_how_to_see_by_whom(tmp_path: Path) -> None:
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    sa.event.listen(catalog.database.engine, "connect", lambda c, _: c.execute("PRAGMA busy_timeout=100"))
    catalog.database.engine.dispose()
    file = tmp_path / "catalog.db"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TabootError) as caught, catalog.database.begin("n"):
            pass
        assert catalog.blobs.all("n") == []  # a reader waits for nobody
        other.execute("ROLLBACK")
    error = caught.value
    assert error.code == "E_CATALOG" and error.code in TRANSIENT
    assert "locked" in error.message and str(file) in error.message and f"fuser -v {file}" in error.remedy
    with catalog.database.begin("n"):
        pass
    catalog.close()


def test_a_catalog_that_answers_is_well(catalog: Catalog) -> None:
    catalog.blobs.hashes("n")
    health = catalog.health()
    assert health.ok and health.version and health.latency_ms is not None and health.part == "catalog", health


def test_a_batch_is_one_row_until_its_runs_are_recorded(catalog: Catalog) -> None:
    batches = catalog.batches
    waiting, _ = batches.announce("n", "s", "A", ["u1", "u2"])
    assert waiting is not None
    refused, other = batches.announce("n", "s", "A", ["u2", "u3"])
    assert refused is None and other is not None and other["batch_id"] == waiting
    for source, tier in (("s", "B"), ("t", "A")):
        assert batches.announce("n", source, tier, ["u2"])[0] is not None
    batches.start("n", waiting)
    (running,) = batches.find("n", "s", "A")
    assert (running["status"], running["units"]) == ("running", ["u1", "u2"])
    batches.beat("n", waiting)
    (beaten,) = batches.find("n", "s", "A")
    assert beaten["heartbeat_at"] >= running["heartbeat_at"] and beaten["started_at"] is not None
    # Who begins holds the lease, so the one that ran is dead; what waits for the lease is not.
    later, _ = batches.announce("n", "s", "A", ["u9"])
    begun = batches.begin("n", "s", "A", ["u1"])
    states = {row["batch_id"]: row["status"] for row in batches.find("n", "s", "A")}
    assert states == {waiting: "failed", later: "pending", begun: "running"}
    run = {"run_id": "r1", "unit_id": "u1", **RUN}
    catalog.runs.record(
        "n", "s", "A", [run], [{"unit_id": "u1", "run_id": "r1", **STATE}], [], batch_id=begun
    )
    assert begun not in {row["batch_id"] for row in batches.find("n")}


def test_so_many_failed_batches_are_kept_and_no_more(catalog: Catalog) -> None:
    ids = []
    for _ in range(25):
        ids.append(catalog.batches.begin("n", "s", "A", ["u"]))
        catalog.batches.fail("n", ids[-1], "E_LLM: away")
    other = catalog.batches.begin("n", "t", "A", ["u"])
    kept = catalog.batches.find("n", "s", "A")
    assert {row["batch_id"] for row in kept} == set(ids[-20:])
    assert {row["error_message"] for row in kept} == {"E_LLM: away"}
    assert [row["batch_id"] for row in catalog.batches.find("n", "t")] == [other]


def test_what_failed_takes_no_place_of_what_was_said(catalog: Catalog) -> None:
    interpret(catalog, {"u": "{}"})
    failed = {**RUN, "status": "failed", "error_message": "gone", "run_id": "s-u", "unit_id": "u"}
    catalog.runs.record("n", "s", "A", [failed], [], ["u"])
    (row,) = catalog.runs.find("n")
    assert (row["status"], row["error_message"]) == ("completed", None) and row["archived_at"] is not None
    other = {**failed, "run_id": "another"}
    catalog.runs.record("n", "s", "A", [other], [], ["u"])
    (row,) = catalog.runs.find("n", status="failed")
    assert row["run_id"] == "another" and row["archived_at"] is not None
    catalog.runs.record("n", "s", "A", [], [{"unit_id": "u", "run_id": "s-u", **STATE}], [], again=["s-u"])
    assert [r["run_id"] for r in catalog.runs.find("n", active=True)] == ["s-u"]


def test_the_newest_choice_that_was_not_taken_back_comes_first(catalog: Catalog) -> None:
    def choice(unit: str, number: int) -> dict[str, Any]:
        return {
            "source_id": "s",
            "tier": "A",
            "unit_id": unit,
            "run_id": f"{unit}-{number}",
            "number": number,
            "input_fingerprint": "f",
            "overrides": "{}",
            "reads": "{}",
        }

    choices = catalog.choices
    first = choices.add("n", [choice("u", 1), choice("v", 1)])
    second = choices.add("n", [choice("u", 2)])
    assert [row["run_id"] for row in choices.of_tier("n", "s", "A")] == ["u-2", "v-1", "u-1"]
    assert choices.last_promotion("n", "s", "A") == second != first
    choices.withdraw("n", [row["id"] for row in choices.find("n", promotion=second)])
    assert choices.last_promotion("n", "s", "A") == first and choices.find("n", promotion=second) == []
    assert [row["run_id"] for row in choices.find("n", run_ids=["v-1", "u-2"])] == ["v-1"]
    assert choices.of_tier("m", "s", "A") == choices.of_tier("n", "t", "A") == []


def test_what_changed_takes_work_in_proportion_to_it(tmp_path: Path) -> None:
    """Counted in steps of SQLite's machine: twice as many documents take twice as many, not four times."""
    steps: dict[int, int] = {}
    for count in (400, 800):
        settings = Settings(home=tmp_path / str(count))
        catalog = open_catalog(settings, open_leases(settings, 5))
        job = catalog.jobs.start("a", "s")
        found = [locator(f"p{n}", f"sha{n}", job) for n in range(count)]
        catalog.locators.record_fetched("a", "s", "files", job, found, "/")
        taken: list[int] = []

        def counted(taken: list[int] = taken) -> int:
            taken.append(1)
            return 0

        with catalog.database.read("a") as c:
            raw: Any = c.connection.driver_connection
        raw.set_progress_handler(counted, 100)
        assert len(catalog.locators.changes("a", 0)) == count
        raw.set_progress_handler(None, 0)
        steps[count] = len(taken)
        catalog.close()
    assert 0 < steps[800] < 3 * steps[400], steps
