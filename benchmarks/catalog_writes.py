"""Bulk writes of the catalog against the raw clients on the same rows, tables, role and transaction.

    python benchmarks/catalog_writes.py [--rows 20000] [--rounds 5]

PostgreSQL is that of TABOOT_TEST_POSTGRES_URL (a superuser's URL), else one started in a folder for the time
of the run. The peer is psycopg's ``executemany``, which sends in pipeline mode, and for SQLite the standard
library's: both insert the fetch log, upsert the locators and insert the new blobs by hand-written statements.
Ours is ``Locators.record_fetched``, which also keeps the count of bytes. First all rows are new, then all are
known.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy.engine import make_url

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.locators import Locator
from taboot_pipelines.stores.leases.files import FileLeases

SERVICES = Path(__file__).parents[1] / "deploy" / "local" / "services.py"
LOCATOR = list(Locator.__slots__)


@contextmanager
def server() -> Iterator[str]:
    named = os.environ.get("TABOOT_TEST_POSTGRES_URL")
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run(
            [sys.executable, str(SERVICES), "up", folder, "--only", "postgres", "--no-fsync", "--json"],
            check=True,
            capture_output=True,
            text=True,
        )
        try:
            yield json.loads(told.stdout)["services"]["postgres"]["url"]
        finally:
            subprocess.run(
                [sys.executable, str(SERVICES), "down", folder, "--delete"], check=True, capture_output=True
            )


def libpq(url: str) -> str:
    return make_conninfo(**make_url(url).translate_connect_args(username="user", database="dbname"))


def made(rows: int) -> list[Locator]:
    return [
        Locator(
            f"docs/part{i % 40}/page-{i}.md",
            str(uuid.UUID(int=i)),
            "present",
            "document",
            hashlib.sha256(str(i).encode()).hexdigest(),
            1000 + i,
            "text/markdown",
            "utf-8",
            f"https://docs.example/{i}",
            f"https://docs.example/{i}",
            f'"{i:x}"',
            None,
            "INGESTED",
            1,
            1,
            "j" * 32,
        )
        for i in range(rows)
    ]


Execute = Callable[[str, Sequence[Sequence[Any]]], Any]


def by_hand(many: Execute, mark: str, locators: list[Locator]) -> None:
    """What a careful script would send."""

    def values(columns: list[str]) -> str:
        return f"({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"

    fetch = [
        "namespace",
        "source_id",
        "path",
        "job_id",
        "event",
        "sha256",
        "role",
        "attributes",
        "fetched_at",
    ]
    blob = [
        "namespace",
        "content_hash",
        "storage_url",
        "storage_status",
        "mime_type",
        "file_name",
        "byte_size",
        "source_type",
        "source_metadata",
        "created_at",
    ]
    sets = ", ".join(f"{c} = excluded.{c}" for c in LOCATOR if c != "path")
    many(
        f'INSERT INTO "fetch" {values(fetch)}',
        [
            (
                "n",
                "s",
                x.path,
                x.job_id,
                "fetched",
                x.sha256,
                x.role,
                canonical_json(
                    {
                        "mime": x.mime,
                        "charset": x.charset,
                        "url": x.url,
                        "final_url": x.final_url,
                        "etag": x.etag,
                        "last_modified": x.last_modified,
                        "byte_size": x.byte_size,
                    }
                ),
                1,
            )
            for x in locators
        ],
    )
    many(
        f"INSERT INTO locator {values(['namespace', 'source_id', *LOCATOR])} ON CONFLICT (namespace,"
        f" source_id, path) DO UPDATE SET {sets}",
        [("n", "s", *(getattr(x, c) for c in LOCATOR)) for x in locators],
    )
    many(
        f"INSERT INTO blob {values(blob)} ON CONFLICT DO NOTHING",
        [
            (
                "n",
                x.sha256,
                f"sources/n/{x.sha256}",
                "uploaded",
                x.mime,
                x.path.rsplit("/", 1)[-1],
                x.byte_size,
                "files",
                "{}",
                1,
            )
            for x in locators
        ],
    )


def timed(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(
    name: str,
    rows: int,
    rounds: int,
    raw: Callable[[list[Locator]], None],
    ours: Callable[[list[Locator]], None],
    clear: Callable[[], None],
) -> None:
    locators = made(rows)
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for side, run in (("raw", raw), ("ours", ours))[:: 1 if number % 2 else -1]:
            clear()
            for kind in ("new", "known"):
                found.setdefault((kind, side), []).append(timed(lambda run=run: run(locators)))
    for kind in ("new", "known"):
        theirs, mine = (statistics.median(found[kind, side]) for side in ("raw", "ours"))
        print(
            f"{name:10} {kind:5} raw {rows / theirs:8,.0f} rows/s   ours {rows / mine:8,.0f} rows/s   ratio"
            f" {theirs / mine:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    with server() as url, tempfile.TemporaryDirectory() as folder:
        name = f"bench_{uuid.uuid4().hex[:8]}"
        with psycopg.connect(libpq(url), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}")
            # An owner is bound by the policies as the application's role is.
            admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
            admin.execute(f"ALTER DATABASE {name} OWNER TO {name}")
        mine = (
            make_url(url)
            .set(database=name, username=name, password=name)
            .render_as_string(hide_password=False)
        )
        catalog = open_catalog(Settings(home=Path(folder), catalog_url=mine), FileLeases(Path(folder), 5))
        catalog.blobs.all("n")
        raw = psycopg.connect(libpq(mine))

        def raw_postgres(locators: list[Locator]) -> None:
            with raw.transaction(), raw.cursor() as cursor:
                cursor.execute("SELECT set_config('taboot.namespace', 'n', true)")
                by_hand(cursor.executemany, "%s", locators)

        def clear_postgres() -> None:
            with raw.transaction():
                raw.execute('TRUNCATE "fetch", locator, blob, storage_usage')

        def ours(opened: Catalog) -> Callable[[list[Locator]], None]:
            return lambda locators: opened.locators.record_fetched(
                "n", "s", "files", "j" * 32, locators, "sources/n"
            )

        compare("postgresql", arguments.rows, arguments.rounds, raw_postgres, ours(catalog), clear_postgres)
        single = made(1)
        each = [timed(lambda: catalog.locators.touch("n", "s", single)) for _ in range(500)]
        print(f"{'postgresql':10} one row in a transaction: {statistics.median(each) * 1000:.2f} ms")
        raw.close()
        catalog.close()
        with psycopg.connect(libpq(url), autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
            admin.execute(f"DROP ROLE {name}")

        home = Path(folder) / "sqlite"
        catalog = open_catalog(Settings(home=home), FileLeases(home, 5))
        file = sqlite3.connect(home / "catalog.db", isolation_level=None)
        file.execute("PRAGMA synchronous=NORMAL")
        file.execute("PRAGMA secure_delete=ON")

        def raw_sqlite(locators: list[Locator]) -> None:
            file.execute("BEGIN IMMEDIATE")
            by_hand(file.executemany, "?", locators)
            file.execute("COMMIT")

        def clear_sqlite() -> None:
            for table in ("fetch", "locator", "blob", "storage_usage"):
                file.execute(f'DELETE FROM "{table}"')

        compare("sqlite", arguments.rows, arguments.rounds, raw_sqlite, ours(catalog), clear_sqlite)
        file.close()
        catalog.close()


if __name__ == "__main__":
    main()
