"""The catalog: migrated on opening, transactions of the fetch log, sources, dead jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import taboot_pipelines.stores.catalog as package
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.stores.catalog import Catalog, Locator, Pointer
from taboot_pipelines.stores.catalog.database import HEAD
from taboot_pipelines.stores.catalog.schema import metadata
from taboot_pipelines.stores.leases import Leases


@pytest.fixture
def catalog(tmp_path: Path):  # type: ignore[no-untyped-def]
    opened = Catalog.open(tmp_path, Leases(tmp_path, 5))
    yield opened
    opened.close()


def locator(path: str, sha256: str, job_id: str, at: int = 1) -> Locator:
    return Locator(path, f"doc-{path}", "present", "document", sha256, 3, None, None, None, None, None, None, "INGESTED", at, at, job_id)


def test_the_migrations_give_exactly_the_declared_schema(tmp_path: Path, catalog: Catalog) -> None:
    from alembic.autogenerate import compare_metadata

    engine = sa.create_engine(f"sqlite:///{tmp_path / 'catalog.db'}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    config = Config()
    config.set_main_option("script_location", str(Path(package.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_migrations_go_down_and_up_again(tmp_path: Path, catalog: Catalog) -> None:
    catalog._migrate("base")
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'catalog.db'}")
    assert set(sa.inspect(engine).get_table_names()) <= {"alembic_version", "sqlite_sequence"}
    again = Catalog.open(tmp_path, Leases(tmp_path, 5))
    assert again.sources() == []
    again.close()


def test_a_file_that_is_no_database_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"not a database, but long enough to be read as a header" * 20)
    with pytest.raises(TabootError, match="E_CATALOG"):
        Catalog.open(tmp_path, Leases(tmp_path, 5))


def test_fetches_are_logged_and_become_the_present_state(catalog: Catalog) -> None:
    job = catalog.start_job("n", "s")
    catalog.record_fetched("n", "s", "files", job, [locator("a", "x", job), locator("b", "y", job)], "sources/n")
    assert set(catalog.locators("n", "s")) == {"a", "b"} and catalog.blob_hashes("n") == {"x", "y"}
    assert catalog.usage("n")["total_bytes"] == 6
    catalog.record_absent("n", "s", job, [catalog.locators("n", "s")["a"]])
    assert set(catalog.locators("n", "s")) == {"b"} and set(catalog.locators("n", "s", state="absent")) == {"a"}
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


def test_jobs_of_dead_processes_are_failed(tmp_path: Path, catalog: Catalog) -> None:
    alive = catalog.start_job("n", "s")
    script = (
        "import sys, pathlib, os\nfrom taboot_pipelines.stores.catalog import Catalog\nfrom taboot_pipelines.stores.leases import Leases\n"
        "h = pathlib.Path(sys.argv[1]); print(Catalog.open(h, Leases(h, 5)).start_job('n', 's'), flush=True); os._exit(9)"
    )
    dead = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False).stdout.strip()
    assert catalog.fail_dead_jobs() == [dead]
    states = {j["job_id"]: j["state"] for j in catalog.jobs("n")}
    assert states == {alive: "running", dead: "failed"}


def test_what_is_forgotten_leaves_no_byte(tmp_path: Path, catalog: Catalog) -> None:
    job = catalog.start_job("n", "s")
    catalog.record_fetched("n", "s", "files", job, [locator("uniquewordone.md", "x", job), locator("kept.md", "y", job)], "sources/n")
    catalog.record_dead("n", "s", "documents", [{"item": "uniquewordone.md", "code": "E_PARSE", "message": "m", "fingerprint": "", "kind": "failed"}], [])
    assert catalog.hashes_only_of("n", ["doc-uniquewordone.md"]) == ["x"]
    catalog.forget("n", ["doc-uniquewordone.md"], ["x"])
    catalog.compact()
    assert set(catalog.locators("n", "s")) == {"kept.md"}
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"uniquewordone" in p.read_bytes()]
