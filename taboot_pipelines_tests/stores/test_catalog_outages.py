"""PostgreSQL fails, waits in a circle, or is restarted in the middle: the catalog waits and goes on, or says
so in words.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.servers import PostgresServer, own_postgres
from taboot_pipelines_tests.stores.roles import plain, with_roles
from taboot_pipelines_tests.stores.test_catalog import locator

_NUMBER = count()


def opened(home: Path, url: str) -> Catalog:
    return open_catalog(
        Settings(home=home, catalog_url=url), open_leases(Settings(home=home, catalog_url=url), 5)
    )


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.database(f"outages_{next(_NUMBER)}")


@pytest.fixture
def catalog(url: str, tmp_path: Path) -> Iterator[Catalog]:
    made = opened(tmp_path, url)
    made.blobs.all("n")
    yield made
    made.close()


def end_sessions(url: str) -> None:
    with psycopg.connect(
        plain(make_url(url).set(database="postgres").render_as_string(hide_password=False)), autocommit=True
    ) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
            [make_url(url).database],
        )


def pointer(number: int) -> Pointer:
    return Pointer(stage="chunks", tables={"chunks": str(number)}, inputs="in", txn="t", applied={})


def test_connections_that_were_ended_are_replaced_without_a_word(catalog: Catalog, url: str) -> None:
    for number in range(3):
        end_sessions(url)
        catalog.pointers.publish("n", "s", pointer(number))
        end_sessions(url)
        assert catalog.pointers.get("n", "s", "chunks") == pointer(number)
        end_sessions(url)
        # A superuser is well, but for what it is.
        assert "BYPASSRLS" in catalog.health().message and catalog.health().version


def test_a_transaction_that_failed_before_its_commit_is_run_again_whole(
    catalog: Catalog, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taboot_pipelines.stores.catalog import blobs as module

    original, cut = module.write, []

    def write(connection, table, rows, conflict=None):
        if table.name == "blob" and len(cut) < 2:
            cut.append(1)
            end_sessions(url)
        return original(connection, table, rows, conflict)

    monkeypatch.setattr(module, "write", write)
    catalog.locators.record_fetched(
        "n", "s", "files", "j", [locator(f"p{i}", f"x{i}", "j") for i in range(300)], "sources/n"
    )
    assert len(cut) == 2
    with catalog.database.read("n") as c:
        assert c.execute(sa.text('SELECT count(*), count(DISTINCT path) FROM "fetch"')).one() == (300, 300)
    assert catalog.blobs.usage("n")["total_sources"] == 300


def test_a_commit_without_an_answer_is_not_repeated(
    catalog: Catalog, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have happened, and the fetch log would then hold it twice."""
    from sqlalchemy.engine import Connection

    commit, tried = Connection.commit, []

    def lost(self: Connection) -> None:
        tried.append(1)
        commit(self)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(Connection, "commit", lost)
    with pytest.raises(TabootError, match="E_CATALOG"):
        catalog.locators.record_fetched("n", "s", "files", "j", [locator("a", "x", "j")], "sources/n")
    assert tried == [1]


def test_a_lock_that_somebody_keeps_is_named_as_such(catalog: Catalog, url: str) -> None:
    with psycopg.connect(plain(url)) as other:
        other.execute("LOCK TABLE pointer")
        with pytest.raises(TabootError) as caught, catalog.database.begin("n") as c:
            c.execute(sa.text("SET LOCAL lock_timeout = 100"))
            c.execute(sa.text("SELECT * FROM pointer"))
    assert caught.value.code == "E_CATALOG" and "lock" in caught.value.message
    assert "pg_stat_activity" in caught.value.remedy


def test_two_writers_that_wait_for_each_other_both_succeed(
    catalog: Catalog, url: str, tmp_path: Path
) -> None:
    barrier, ran = threading.Barrier(2, timeout=120), {"a": 0, "b": 0}
    from taboot_pipelines.stores.catalog.database import Database, retried

    class Crossing:
        def __init__(self, database: Database) -> None:
            self.database = database

        @retried
        def cross(self, mine: str, first: str, second: str) -> None:
            ran[mine] += 1
            with self.database.begin("n") as c:
                for position, owner in enumerate((first, second)):
                    c.execute(
                        sa.text("UPDATE pointer SET txn = txn || :m WHERE owner = :o"),
                        {"m": mine, "o": owner},
                    )
                    if position == 0 and ran[mine] == 1:
                        barrier.wait()

    catalog.pointers.publish("n", "s1", pointer(1))
    catalog.pointers.publish("n", "s2", pointer(1))
    both = [Crossing(opened(tmp_path, url).database) for _ in range(2)]
    threads = [
        threading.Thread(target=both[0].cross, args=("a", "s1", "s2")),
        threading.Thread(target=both[1].cross, args=("b", "s2", "s1")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sum(ran.values()) == 3
    for source in ("s1", "s2"):
        found = catalog.pointers.get("n", source, "chunks")
        assert found is not None and sorted(found.txn) == ["a", "b", "t"]
    for made in both:
        made.database.close()


@pytest.mark.server
def test_a_restart_in_the_middle_is_waited_for_and_a_server_that_stays_away_is_not(tmp_path: Path) -> None:
    with own_postgres(tmp_path) as server:
        catalog = opened(tmp_path, server.url)
        done, failed, stop = [0], [], threading.Event()

        def work() -> None:
            while not stop.is_set():
                try:
                    catalog.locators.record_fetched(
                        "n", "s", "files", "j", [locator(f"p{done[0]}", f"x{done[0]}", "j")], "sources/n"
                    )
                    done[0] += 1
                except TabootError as error:
                    failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(2):
            before, deadline = done[0], time.monotonic() + 100
            while done[0] < before + 20 and time.monotonic() < deadline:
                time.sleep(0.01)
            server.stop()
            time.sleep(0.3)
            server.start()
        before, deadline = done[0], time.monotonic() + 100
        while done[0] < before + 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        stop.set()
        thread.join(300)
        # Only a commit that was under way may have failed: at most one a restart, and its rows are there
        # whole or not at all.
        assert len(failed) <= 2 and all(e.code == "E_CATALOG" for e in failed), failed
        assert (
            done[0] >= 60
            and len(catalog.locators.of_source("n", "s"))
            == done[0]
            == catalog.blobs.usage("n")["total_sources"]
        )
        server.stop()
        catalog.database.outage_seconds = 0.5
        started = time.monotonic()
        with pytest.raises(TabootError, match="E_CATALOG: The catalog failed: the server cannot be reached"):
            catalog.locators.of_source("n", "s")
        assert time.monotonic() - started < 100
        assert "cannot be reached" in catalog.health().message
        catalog.close()


def test_no_message_quotes_a_row_a_statement_or_a_password(postgres: PostgresServer, tmp_path: Path) -> None:
    roles = with_roles(postgres, "outages_messages")
    owner = opened(tmp_path, roles.owner)
    owner.blobs.all("n")

    def said(catalog: Catalog) -> str:
        with pytest.raises(TabootError, match="E_CATALOG") as error:
            catalog.pointers.publish(
                "n",
                "hunter2",
                Pointer(
                    stage="hunter2", tables={"hunter2": 1}, inputs="hunter2\0", txn="hunter2", applied={}
                ),
            )
        # What a traceback would show beside it: nothing.
        assert error.value.__cause__ is None and error.value.__suppress_context__
        return str(error.value) + str(error.value.to_response())

    wrong = make_url(roles.owner).set(password="hunter2", database="hunter2")
    for catalog, words in (
        (owner, "a value that the database cannot hold"),
        (opened(tmp_path, wrong.render_as_string(hide_password=False)), "there is no such database"),
        (
            opened(
                tmp_path, wrong.set(database="outages_messages", port=1).render_as_string(hide_password=False)
            ),
            "cannot be reached",
        ),
    ):
        catalog.database.outage_seconds = 0.1
        text = said(catalog)
        assert words in text and "hunter2" not in text and "INSERT" not in text, text
        catalog.close()
