"""Namespaces in PostgreSQL: whatever is asked in one, by the catalog's methods or by any SQL on its
connection, no row of another is seen or changed; ``taboot_maintenance`` sees all."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import Catalog, Pointer
from taboot_pipelines.stores.catalog.database import Database
from taboot_pipelines.stores.catalog.schema import metadata
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.servers import PostgresServer
from taboot_pipelines_tests.stores.roles import Roles, empty, plain, with_roles
from taboot_pipelines_tests.stores.test_catalog import locator

MINE, OTHERS = "alpha", ["bravo", "charlie"]
ROUNDS = {"app": 20, "owner": 4}


@pytest.fixture(scope="module")
def roles(postgres: PostgresServer) -> Roles:
    return with_roles(postgres, "isolation")


@pytest.fixture(params=["app", "owner"])
def catalog(request: pytest.FixtureRequest, roles: Roles, tmp_path: Path) -> Iterator[Catalog]:
    url = getattr(roles, request.param)
    empty(roles)
    leases = open_leases(Settings(home=tmp_path, catalog_url=url), 5)
    opened = Catalog.open(tmp_path, leases, url, roles.owner)
    for namespace in (MINE, *OTHERS):
        fill(opened, namespace)
    yield opened
    opened.close()


def fill(catalog: Catalog, ns: str) -> None:
    """Rows in every table, the same keys in every namespace; each says in a text whose it is."""
    mark = f"of-{ns}"
    run = {
        "interpretation_config": mark,
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
        "run_id": "run",
        "unit_id": "unit",
        "reads": f'{{"files": {{"{mark}": null}}}}',
        "fingerprint": "f",
        "subordinates": "[]",
        "environment": "{}",
        "problems": "[]",
        "suppressed": False,
    }
    job = catalog.start_job(ns, "s")
    rows = [replace(locator(f"p{i}", f"sha{i}", job), url=mark, mime=mark) for i in range(4)]
    catalog.record_fetched(ns, "s", "files", job, rows, mark)
    catalog.record_absent(ns, "s", job, rows[3:], confirmed=1)
    catalog.queue_upload(ns, "sha0", mark, 1, max_retries=1, next_retry_at=0, error_message=mark)
    catalog.publish(ns, "s", Pointer("chunks", {mark: 1}, mark, mark, {}))
    catalog.record_runs(ns, "s", "A", [{"run_id": "run", "unit_id": "unit", **run}], [state], [])
    catalog.record_dead(
        ns,
        "s",
        "documents",
        [{"item": "p0", "code": "E_PARSE", "message": mark, "fingerprint": "f", "kind": "failed"}],
        [],
    )
    catalog.add_tombstones(ns, ["doc-p3"], "deleted")
    catalog.save_receipt(ns, "receipt", [mark], True, {"s": "pending"}, [mark])
    catalog.audit(ns, mark, mark)
    with catalog.begin(ns) as c:
        for name, table in metadata.tables.items():
            if name.startswith("state_"):
                values: dict[str, Any] = {
                    column.name: (
                        {"LARGE_BINARY": mark.encode(), "TEXT": mark}.get(
                            str(column.type).upper().replace("BLOB", "LARGE_BINARY"), 1
                        )
                    )
                    for column in table.c
                }
                c.execute(table.insert().values({**values, "namespace": ns}))
        entry = metadata.tables["source_entry"]
        c.execute(
            entry.insert().values(
                namespace=ns, source_id="s", type="files", config=mark, root="/", state="active", updated_at=1
            )
        )


def rounds_of(catalog: Catalog) -> int:
    return ROUNDS[str(catalog._engine.url.username).removeprefix("taboot_")]


def rows_of(roles: Roles, namespaces: list[str]) -> dict[str, list[Any]]:
    """Every row of some namespaces, by a superuser."""
    with psycopg.connect(plain(roles.superuser)) as connection:
        found = {
            n: (
                connection.execute(
                    f'SELECT * FROM "{n}" t WHERE namespace = ANY(%s) ORDER BY t::text', [namespaces]
                ).fetchall()
            )
            for n in metadata.tables
        }
    assert all(found.values()), "every table holds rows of the others"
    return found


def calls(
    catalog: Catalog, random_: random.Random, others: list[dict[str, Any]]
) -> dict[str, Callable[[], object]]:
    """Each public method, asked in ``alpha`` with the keys and ids of the others."""
    path, sha, doc = (f"{kind}{random_.randrange(4)}" for kind in ("p", "sha", "doc-p"))
    job = random_.choice(others)["job_id"]
    x = replace(locator(path, random_.choice([sha, "new"]), job), url="of-alpha")
    return {
        "sources": lambda: catalog.sources(MINE),
        "set_source_state": lambda: catalog.set_source_state(
            MINE, "s", random_.choice(["active", "retiring"])
        ),
        "start_job": lambda: catalog.start_job(MINE, "s"),
        "end_job": lambda: catalog.end_job(job, JobState.FAILED, namespace=MINE),
        "jobs": lambda: catalog.jobs(MINE, random_.choice([None, "s"])),
        "locators": lambda: catalog.locators(MINE, "s", state=None),
        "locators_of": lambda: catalog.locators_of(MINE, [doc]),
        "record_fetched": lambda: catalog.record_fetched(MINE, "s", "files", job, [x], "of-alpha"),
        "touch_locators": lambda: catalog.touch_locators(MINE, "s", [x]),
        "record_absent": lambda: catalog.record_absent(MINE, "s", job, [x], confirmed=1),
        "activate": lambda: catalog.activate(MINE, "s"),
        "queue_upload": lambda: catalog.queue_upload(
            MINE, sha, "of-alpha", 1, max_retries=1, next_retry_at=0, error_message=""
        ),
        "due_uploads": lambda: catalog.due_uploads(MINE, 2**62),
        "upload_failed": lambda: catalog.upload_failed(MINE, sha, 1, 0, "", final=True),
        "upload_done": lambda: catalog.upload_done(MINE, sha),
        "blobs": lambda: catalog.blobs(MINE),
        "hashes_only_of": lambda: catalog.hashes_only_of(MINE, [doc]),
        "blob_hashes": lambda: catalog.blob_hashes(MINE),
        "usage": lambda: catalog.usage(MINE),
        "pointer": lambda: catalog.pointer(MINE, "s", "chunks"),
        "pointers": lambda: catalog.pointers(MINE, ["chunks"]),
        "publish": lambda: catalog.publish(MINE, "s", Pointer("chunks", {}, "of-alpha", "", {})),
        "drop_pointers": lambda: catalog.drop_pointers(MINE, "s"),
        "unit_states": lambda: catalog.unit_states(MINE, "s", "A"),
        "record_runs": lambda: catalog.record_runs(MINE, "s", "A", [], [], ["unit"]),
        "set_suppressed": lambda: catalog.set_suppressed(MINE, "s", "A", {"unit": True}),
        "runs": lambda: catalog.runs(MINE),
        "dead_letters": lambda: catalog.dead_letters(MINE),
        "record_dead": lambda: catalog.record_dead(MINE, "s", "documents", [], ["p0"]),
        "tombstones": lambda: catalog.tombstones(MINE),
        "add_tombstones": lambda: catalog.add_tombstones(MINE, [doc], "deleted"),
        "remove_tombstones": lambda: catalog.remove_tombstones(MINE, [doc]),
        "restore_locators": lambda: catalog.restore_locators(MINE, [doc]),
        "forget": lambda: catalog.forget(MINE, [doc], [sha]),
        "save_receipt": lambda: catalog.save_receipt(MINE, "receipt", [], True, {"s": "done"}, []),
        "pending_receipts": lambda: catalog.pending_receipts(MINE),
        "audit": lambda: catalog.audit(MINE, "k", "s"),
        "audit_events": lambda: catalog.audit_events(MINE),
    }


#: Those that span namespaces on purpose, or none.
SPANNING = {"open", "close", "compact", "sync_sources", "fail_dead_jobs"}


def test_no_method_of_the_catalog_reaches_another_namespace(catalog: Catalog, roles: Roles) -> None:
    before, random_ = rows_of(roles, OTHERS), random.Random(11)
    others = [job for namespace in OTHERS for job in catalog.jobs(namespace)]
    public = {
        n
        for n, _ in inspect.getmembers(Catalog, callable)
        if not n.startswith("_") and not hasattr(Database, n)
    } | {"open"}
    assert set(calls(catalog, random_, others)) == public - SPANNING
    done, rounds = 0, rounds_of(catalog)
    for _ in range(rounds):
        for name, call in sorted(calls(catalog, random_, others).items(), key=lambda _: random_.random()):
            try:
                seen = repr(call())
            except TabootError as error:
                # Another's job is not there; nothing else fails.
                assert name == "end_job" and error.code == "E_NOT_FOUND", (name, error)
                seen = str(error)
            assert not [o for o in OTHERS if o in seen], name
            done += 1
    assert done == rounds * len(public - SPANNING)
    assert rows_of(roles, OTHERS) == before


def test_no_statement_reaches_another_namespace(catalog: Catalog, roles: Roles) -> None:
    before, random_, refused, empty, rounds = (
        rows_of(roles, OTHERS),
        random.Random(12),
        0,
        0,
        rounds_of(catalog),
    )
    for _ in range(rounds):
        for name, table in metadata.tables.items():
            other = random_.choice(OTHERS)
            theirs = table.c.namespace == other
            unkeyed = [c for c in table.c if c.name != "id"]
            statement: Any
            statements = [
                sa.select(table),
                sa.select(table).where(theirs),
                sa.delete(table).where(theirs),
                sa.update(table).where(theirs).values(namespace=MINE),
                sa.update(table).where(table.c.namespace != MINE).values(namespace=table.c.namespace),
                sa.select(sa.func.count()).select_from(table).where(theirs),
                sa.text(f'SELECT * FROM "{name}" WHERE namespace = :o FOR UPDATE').bindparams(o=other),
            ]
            random_.shuffle(statements)
            with catalog.begin(MINE) as c:
                for statement in statements:
                    result = c.execute(statement)
                    found = [str(r) for r in result] if result.returns_rows else [""] * result.rowcount
                    assert not [f for f in found if any(o in f for o in OTHERS)], statement
                    assert "WHERE" not in str(statement) or found in ([], ["(0,)"]), statement
                    empty += 1
            for statement in (
                sa.update(table).values(namespace=other),
                table.insert().from_select(
                    unkeyed,
                    sa.select(
                        *[
                            sa.literal(other).label("namespace") if c.name == "namespace" else c
                            for c in unkeyed
                        ]
                    ),
                ),
            ):
                with pytest.raises(TabootError, match="insufficient privilege"), catalog.begin(MINE) as c:
                    assert c.execute(sa.select(sa.func.count()).select_from(table)).scalar(), name
                    c.execute(statement)
                refused += 1
            if random_.random() < 0.05:
                # Without WHERE a statement means one's own rows; they are put back by not committing.
                with pytest.raises(ZeroDivisionError), catalog.begin(MINE) as c:
                    mine = c.execute(sa.select(sa.func.count()).select_from(table)).scalar()
                    assert c.execute(sa.delete(table)).rowcount == mine
                    raise ZeroDivisionError
    assert refused == rounds * len(metadata.tables) * 2 and empty == rounds * len(metadata.tables) * 7
    assert rows_of(roles, OTHERS) == before


def test_a_transaction_without_a_namespace_sees_nothing_and_maintenance_all(
    catalog: Catalog, roles: Roles
) -> None:
    for name, table in metadata.tables.items():
        with catalog.begin(None) as c:
            assert set(c.execute(sa.select(table.c.namespace)).scalars()) == {MINE, *OTHERS}, name
            assert (
                c.execute(
                    sa.update(table).where(table.c.namespace == "bravo").values(namespace="bravo")
                ).rowcount
                > 0
            )
    with psycopg.connect(plain(catalog._engine.url.render_as_string(hide_password=False))) as connection:
        for name in metadata.tables:
            assert connection.execute(f'SELECT count(*) FROM "{name}"').fetchone() == (0,)
    assert {s["namespace"] for s in catalog.sources()} == {MINE, *OTHERS}


def test_a_pooled_connection_takes_no_namespace_along(catalog: Catalog) -> None:
    """After a commit, a failure and maintenance alike, the next user of the connection begins with
    nothing.
    """

    def one(namespace: str | None, fail: bool) -> None:
        with catalog.begin(namespace) as c:
            c.execute(sa.text("SELECT 1/0" if fail else "SELECT 1"))

    for namespace in ("alpha", None, "bravo"):
        for fail in (False, True):
            if fail:
                with pytest.raises(TabootError, match="E_CATALOG"):
                    one(namespace, fail)
            else:
                one(namespace, fail)
            with catalog._engine.connect() as c:
                setting, maintenance, me, session = c.execute(
                    sa.text(
                        "SELECT current_setting('taboot.namespace', true),"
                        " current_setting('taboot.maintenance', true), current_user, session_user"
                    )
                ).one()
                assert not setting and not maintenance and me == session
                assert c.execute(sa.text("SELECT count(*) FROM locator")).scalar() == 0
