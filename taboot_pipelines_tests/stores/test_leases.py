"""Leases on both backends: exclusive between processes, bounded in waiting, freed by the death of their
holder.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines.stores.leases.postgres import lock_key
from taboot_pipelines.stores.leases.protocol import LeaseStore
from taboot_pipelines_tests.servers import PostgresServer, own_postgres
from taboot_pipelines_tests.stores.roles import plain

HOLDER = """
import sys, time, pathlib
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.leases import open_leases
leases = open_leases(Settings(home=pathlib.Path(sys.argv[1]), catalog_url=sys.argv[2] or None), 5)
with leases.source("default", "s"), leases.namespace("default"):
    print("held", flush=True)
    time.sleep(600)
"""

COUNTER = """
import sys, pathlib
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.leases import open_leases
home = pathlib.Path(sys.argv[1])
leases, total = open_leases(Settings(home=home, catalog_url=sys.argv[2] or None), 240), home / "total"
for _ in range(40):
    with leases.source("default", "s"):
        number = int(total.read_text())
        total.write_text(str(number + 1))
"""

Maker = Callable[[float], LeaseStore]


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.server)])
def url(request: pytest.FixtureRequest) -> str:
    """Of the database that keeps the leases; empty for files."""
    return "" if request.param == "file" else str(request.getfixturevalue("postgres").database("leases"))


@pytest.fixture
def make(url: str, tmp_path: Path) -> Iterator[Maker]:
    made: list[LeaseStore] = []

    def open_one(wait: float) -> LeaseStore:
        made.append(open_leases(Settings(home=tmp_path, catalog_url=url or None), wait))
        return made[-1]

    yield open_one
    for leases in made:
        leases.close()


def run(script: str, home: Path, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, str(home), url], stdout=subprocess.PIPE, text=True)


def test_a_second_process_waits_in_vain_and_gets_it_when_the_first_is_killed(
    make: Maker, url: str, tmp_path: Path
) -> None:
    holder = run(HOLDER, tmp_path, url)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(TabootError, match="E_BUSY") as error, make(0.2).source("default", "s"):
            pass
        assert str(error.value.details["holder"]).split(":")[-1] == str(holder.pid)
        with pytest.raises(TabootError, match="E_BUSY"), make(60).source("default", "s", wait=0):
            pass
        with make(0.2).source("default", "other"), make(0.2).namespace("other"):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    # A server notices by and by that its client is gone.
    with make(60).source("default", "s"), make(60).namespace("default"):
        pass


def test_a_waiter_is_let_in_as_soon_as_the_holder_lets_go(make: Maker) -> None:
    entered, order = threading.Event(), []

    def wait() -> None:
        entered.wait()
        with make(120).namespace("default"):
            order.append("waiter")

    waiter = threading.Thread(target=wait)
    waiter.start()
    with make(5).namespace("default"):
        entered.set()
        time.sleep(0.5)
        order.append("holder")
    waiter.join(120)
    assert order == ["holder", "waiter"]


def test_a_wait_is_bounded_by_us_and_not_by_the_databases_limit_for_statements(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.database("lease_limit")
    with psycopg.connect(plain(url), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {make_url(url).database} SET statement_timeout = '100ms'")
    first, second = (open_leases(Settings(home=tmp_path, catalog_url=url), 1) for _ in range(2))
    with (
        first.source("default", "s"),
        pytest.raises(TabootError, match="E_BUSY"),
        second.source("default", "s"),
    ):
        pass
    for leases in (first, second):
        leases.close()


def test_processes_exclude_each_other(make: Maker, url: str, tmp_path: Path) -> None:
    (tmp_path / "total").write_text("0")
    processes = [run(COUNTER, tmp_path, url) for _ in range(3)]
    assert [p.wait(300) for p in processes] == [0, 0, 0]
    assert (tmp_path / "total").read_text() == "120"


def test_the_holder_may_enter_again_and_another_thread_may_not(make: Maker) -> None:
    leases, refused = make(0.2), []

    def enter() -> None:
        with pytest.raises(TabootError, match="E_BUSY") as error, leases.source("default", "s"):
            pass
        refused.append(error.value.code)

    with leases.source("default", "s"), leases.namespace("default"), leases.source("default", "s"):
        leases.confirm()
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    assert refused == ["E_BUSY"]
    with make(0.2).source("default", "s"), make(0.2).namespace("default"):
        pass


def test_a_failure_inside_lets_go_and_is_what_is_raised(make: Maker) -> None:
    leases = make(0.2)
    with pytest.raises(ZeroDivisionError), leases.source("default", "s"), leases.exclusive("x.vectors"):
        raise ZeroDivisionError
    with make(0.2).source("default", "s"), make(0.2).exclusive("x.vectors"):
        leases.confirm()


def end_sessions_of(url: str, name: str) -> None:
    """End the session that holds a lease, as a lost connection would."""
    with psycopg.connect(plain(url), autocommit=True) as connection:
        key = lock_key(name) % 2**64
        found = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks JOIN pg_database d ON d.oid = database"
            " WHERE locktype = 'advisory' AND datname = current_database() AND classid = %s AND objid = %s",
            [key >> 32, key % 2**32],
        ).fetchall()
    assert found == [(True,)]


def test_under_a_lost_lease_nothing_is_published(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.database("leases_lost")
    leases = open_leases(Settings(home=tmp_path, catalog_url=url), 5)
    catalog = open_catalog(Settings(home=tmp_path, catalog_url=url), leases)
    first, second = (
        Pointer(stage="chunks", tables={"chunks": "1"}, inputs="a", txn="a", applied={}),
        Pointer(stage="chunks", tables={"chunks": "2"}, inputs="b", txn="b", applied={}),
    )
    with leases.source("default", "s"):
        catalog.pointers.publish("default", "s", first)
    with (
        pytest.raises(TabootError, match=r"E_CATALOG.*lease of source s was lost"),
        leases.source("default", "s"),
    ):
        end_sessions_of(url, "default.source.s")
        other = open_leases(Settings(home=tmp_path, catalog_url=url), 5)
        with other.source("default", "s"):
            with pytest.raises(TabootError, match="E_CATALOG"):
                leases.confirm()
            catalog.pointers.publish("default", "s", second)
    other.close()
    assert catalog.pointers.get("default", "s", "chunks") == first
    # The end of a block tells, too, and so does a second lease inside.
    with pytest.raises(TabootError, match=r"E_CATALOG.*was lost"), leases.source("default", "s"):
        end_sessions_of(url, "default.source.s")
    with pytest.raises(TabootError, match=r"E_CATALOG.*was lost"), leases.source("default", "s"):
        end_sessions_of(url, "default.source.s")
        with leases.namespace("default"):
            pytest.fail("taken although the first was lost")
    with leases.source("default", "s"):
        catalog.pointers.publish("default", "s", second)
    assert catalog.pointers.get("default", "s", "chunks") == second
    catalog.close()
    leases.close()


@pytest.mark.server
def test_a_waiter_outlives_a_restart_and_the_holder_is_told(tmp_path: Path) -> None:
    with own_postgres(tmp_path) as server:
        holder, waiter, got = (
            open_leases(Settings(home=tmp_path, catalog_url=server.url), 5),
            open_leases(Settings(home=tmp_path, catalog_url=server.url), 300),
            threading.Event(),
        )

        def wait() -> None:
            with waiter.source("default", "s"):
                got.set()

        with pytest.raises(TabootError, match=r"E_CATALOG.*was lost"), holder.source("default", "s"):
            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.5)
            assert not got.is_set()
            server.stop()
            with pytest.raises(TabootError, match="E_CATALOG"):
                holder.confirm()
            server.start()
            assert got.wait(300)
        thread.join()
        # A session kept from before the restart is replaced without a word.
        with waiter.source("default", "s"):
            pass
        server.stop()
        with (
            pytest.raises(TabootError, match=r"E_CATALOG.*cannot be reached"),
            open_leases(Settings(home=tmp_path, catalog_url=server.url), 5).source("default", "s", wait=0),
        ):
            pass
        holder.close()
        waiter.close()
