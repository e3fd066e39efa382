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
from taboot_pipelines.model import ids
from taboot_pipelines.model.crawls import CrawlPlan, DoneUrl, FoundUrl, Listing, Outcome, crawl_id, url_id
from taboot_pipelines.model.jobs import JobState, Lifecycle
from taboot_pipelines.model.notifications import DeliveryState
from taboot_pipelines.model.records import UploadedItem
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog.assertions import HandedIn, NewAssertion
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.database import Database
from taboot_pipelines.stores.catalog.feedback import Opinion
from taboot_pipelines.stores.catalog.frontier import Frontier
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.catalog.schema import metadata
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.stores.roles import Roles, empty, plain
from taboot_pipelines_tests.stores.test_catalog import locator

MINE, OTHERS = "alpha", ["bravo", "charlie"]
ROUNDS = {"app": 8, "owner": 2}


@pytest.fixture(params=["app", "owner"])
def catalog(request: pytest.FixtureRequest, roles: Roles, tmp_path: Path) -> Iterator[Catalog]:
    url = getattr(roles, request.param)
    empty(roles)
    leases = open_leases(Settings(home=tmp_path, catalog_url=url), 5)
    opened = open_catalog(Settings(home=tmp_path, catalog_url=url, catalog_admin_url=roles.owner), leases)
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
    job = catalog.jobs.start(ns, "s")
    rows = [locator(f"p{i}", f"sha{i}", job)._replace(url=mark, mime=mark) for i in range(4)]
    catalog.locators.record_fetched(ns, "s", "files", job, rows, mark)
    catalog.locators.record_absent(ns, "s", job, rows[3:], confirmed=1)
    catalog.uploads.enqueue(ns, "sha0", mark, 1, max_retries=1, next_retry_at=0, error_message=mark)
    catalog.pointers.publish(
        ns, "s", Pointer(stage="chunks", tables={mark: 1}, inputs=mark, txn=mark, applied={})
    )
    catalog.runs.record(ns, "s", "A", [{"run_id": "run", "unit_id": "unit", **run}], [state], [])
    catalog.batches.begin(ns, "s", "A", [mark])
    catalog.choices.add(ns, [chosen(mark)])
    catalog.dead_letters.record(
        ns,
        "s",
        "documents",
        [{"item": "p0", "code": "E_PARSE", "message": mark, "fingerprint": "f", "kind": "failed"}],
        [],
    )
    catalog.answers.keep(ns, [answer(mark)])
    catalog.answers.record_windows(ns, "s", ["doc-p0"], [window(mark)])
    catalog.source_states.save(ns, "s", mark, {"cursor": mark})
    catalog.tombstones.add(ns, ["doc-p3"], "deleted")
    catalog.notifications.add(ns, [told(mark)])
    catalog.uploaded.put(ns, [UploadedItem(mark, "sha0", 1, mark, mark, mark, mark)], mark)
    catalog.tags.change(ns, [mark], add=[mark], remove=[])
    catalog.feedback.keep(ns, opinion(mark))
    catalog.retention.sync(ns, {"s": 30})
    catalog.retention.keep(ns, [mark], 5)
    catalog.assertions.add(ns, [NewAssertion("field", mark, mark, mark)])
    catalog.receipts.save(ns, "receipt", [mark], True, {"s": "pending"}, [mark])
    catalog.audit_log.record(ns, mark, mark)
    catalog.totals.add(ns, {("runs_total", mark): 1.0})
    frontier = catalog.crawls.frontier(ns, catalog.crawls.begin(ns, "s", crawl_plan(mark)), mark)
    frontier.add_roots([FoundUrl(url_id(mark), mark, mark, mark)], Listing(mark))
    (claimed,) = frontier.claim(5)
    page = DoneUrl(claimed, Outcome.FETCHED, message=mark, content=mark, children=url_id("x"))
    frontier.finish([page], [FoundUrl(url_id("x"), "x", mark, mark, claimed.url_id)])
    with catalog.database.begin(ns) as c:
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


def opinion(mark: str) -> Opinion:
    return Opinion(mark, mark, (mark,), (mark,), mark, mark, 0)


def chosen(mark: str) -> dict[str, Any]:
    return {
        "source_id": "s",
        "tier": "A",
        "unit_id": "unit",
        "run_id": "run",
        "number": 1,
        "input_fingerprint": mark,
        "overrides": "{}",
        "reads": f'{{"files": {{"{mark}": null}}}}',
    }


def told(mark: str) -> dict[str, Any]:
    return {"id": "delivery", "endpoint": mark, "kind": "failed", "payload": mark}


def answer(mark: str) -> dict[str, Any]:
    text = dict.fromkeys(("model", "prompt_version", "schema_version"), mark)
    return {"key": "k", "answer": f'"{mark}"', "input_tokens": 1, "output_tokens": 1, **text}


def window(mark: str) -> dict[str, Any]:
    numbers = {"span_start": 0, "span_end": 1, "tokens": 1}
    return {"doc_id": "doc-p0", "blob_sha256": mark, "key": "k", "open": True, **numbers}


def crawl_plan(mark: str) -> CrawlPlan:
    return CrawlPlan((mark,), 5, 10, configuration=mark, link_rules=mark)


def rounds_of(catalog: Catalog) -> int:
    return ROUNDS[str(catalog.database.engine.url.username).removeprefix("taboot_")]


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
    catalog: Catalog,
    random_: random.Random,
    others: list[dict[str, Any]],
    theirs: list[tuple[str, str]],
) -> dict[str, Callable[[], object]]:
    """Each public method, asked in ``alpha`` with the keys and ids of the others."""
    path, sha, doc = (f"{kind}{random_.randrange(4)}" for kind in ("p", "sha", "doc-p"))
    job = random_.choice(others)["job_id"]
    batch, promotion = (random_.choice(ids) for ids in zip(*theirs, strict=True))
    crawl, plan = crawl_id(random_.choice(OTHERS), "s", 1), crawl_plan("of-alpha")
    reports = catalog.crawl_reports
    theirs = [ids.digest(o, "field", f"of-{o}", 1) for o in OTHERS]
    x = locator(path, random_.choice([sha, "new"]), job)._replace(url="of-alpha")
    return {
        "sources.find": lambda: catalog.sources.find(MINE),
        "sources.set_state": lambda: catalog.sources.set_state(
            MINE, "s", random_.choice(["active", "retiring"])
        ),
        "jobs.start": lambda: catalog.jobs.start(MINE, "s"),
        "jobs.end": lambda: catalog.jobs.end(job, JobState.FAILED, namespace=MINE),
        "jobs.last_succeeded": lambda: catalog.jobs.last_succeeded(MINE, "s"),
        "jobs.last_completed": lambda: catalog.jobs.last_completed(MINE, "s"),
        "jobs.first_completed": lambda: catalog.jobs.first_completed(MINE),
        "jobs.outdate": lambda: catalog.jobs.outdate(MINE, "s"),
        "jobs.forget_old": lambda: catalog.jobs.forget_old(MINE, "s", 0),
        "jobs.last": lambda: catalog.jobs.last(MINE, ["s"]),
        "jobs.confirm": lambda: catalog.jobs.confirm(MINE, {"s": random_.choice(others)}, 1),
        "jobs.ended_since": lambda: catalog.jobs.ended_since(MINE, 0),
        "jobs.find": lambda: catalog.jobs.find(MINE, random_.choice([None, "s"])),
        "locators.of_source": lambda: catalog.locators.of_source(MINE, "s", state=None),
        "locators.etags": lambda: catalog.locators.etags(MINE, "s"),
        "locators.listed": lambda: catalog.locators.listed(MINE, ["s"]),
        "locators.positions": lambda: catalog.locators.positions(MINE, ["s"]),
        "locators.sizes": lambda: catalog.locators.sizes(MINE, "s"),
        "locators.at": lambda: catalog.locators.at(MINE, "s", [x.path]),
        "locators.sample": lambda: catalog.locators.sample(MINE, "s", 5),
        "locators.count": lambda: catalog.locators.count(MINE, "s", "document"),
        "locators.position": lambda: catalog.locators.position(MINE, "s"),
        "locators.changed_since": lambda: catalog.locators.changed_since(MINE, "s", 0),
        "locators.of_documents": lambda: catalog.locators.of_documents(MINE, [doc]),
        "locators.captures_of": lambda: catalog.locators.captures_of(MINE, [("s", x)]),
        "locators.record_fetched": lambda: catalog.locators.record_fetched(
            MINE, "s", "files", job, [x], "of-alpha"
        ),
        "locators.touch": lambda: catalog.locators.touch(MINE, "s", [x]),
        "locators.record_absent": lambda: catalog.locators.record_absent(MINE, "s", job, [x], confirmed=1),
        "locators.activate": lambda: catalog.locators.activate(MINE, "s"),
        "locators.change": lambda: catalog.locators.change(
            MINE, "s", [path], Lifecycle.MANUAL_DELETE, "of-alpha"
        ),
        "locators.kept_for": lambda: catalog.locators.kept_for(MINE, ["s"], [doc]),
        "locators.in_lifecycle": lambda: catalog.locators.in_lifecycle(MINE, Lifecycle.INGESTED),
        "locators.lifecycles": lambda: catalog.locators.lifecycles(MINE),
        "locators.expired": lambda: catalog.locators.expired(MINE, "s"),
        "source_states.load": lambda: catalog.source_states.load(MINE, "s", f"of-{random_.choice(OTHERS)}"),
        "source_states.save": lambda: catalog.source_states.save(
            MINE, "s", "of-alpha", {"cursor": random_.choice([None, "of-alpha"])}
        ),
        "source_states.forget": lambda: catalog.source_states.forget(MINE, ["s", "other"]),
        "crawls.begin": lambda: catalog.crawls.begin(MINE, "s", plan),
        "crawls.frontier": lambda: every_method(
            catalog.crawls.frontier(MINE, replace(catalog.crawls.begin(MINE, "s", plan), crawl_id=crawl))
        ),
        "crawls.find": lambda: catalog.crawls.find(MINE, random_.choice([None, "s"])),
        "crawls.running": lambda: catalog.crawls.running(MINE, "s"),
        "crawls.get": lambda: catalog.crawls.get(MINE, crawl),
        "crawls.ledger": lambda: catalog.crawls.ledger(MINE, crawl),
        "crawls.cancel": lambda: catalog.crawls.cancel(MINE, crawl),
        "crawls.resume": lambda: catalog.crawls.resume(MINE, crawl),
        "crawls.forget_old": lambda: catalog.crawls.forget_old(MINE, "s", 0),
        "crawl_reports.held": lambda: reports.held(MINE),
        "crawl_reports.marks": lambda: reports.marks(MINE, crawl),
        "crawl_reports.urls": lambda: list(reports.urls(MINE, crawl)),
        "crawl_reports.url": lambda: reports.url(MINE, crawl, url_id("x")),
        "crawl_reports.places": lambda: reports.places(MINE, crawl),
        "crawl_reports.leads": lambda: list(reports.leads(MINE, crawl)),
        "crawl_reports.lead_count": lambda: reports.lead_count(MINE, crawl),
        "crawl_reports.skipped_as": lambda: reports.skipped_as(MINE, "s", "E_TOMBSTONED"),
        "crawl_reports.progress": lambda: reports.progress(
            MINE, replace(catalog.crawls.begin(MINE, "s", plan), crawl_id=crawl)
        ),
        "crawls.forget_source": lambda: catalog.crawls.forget_source(MINE, "s"),
        "locators.changes": lambda: catalog.locators.changes(MINE, 0),
        "locators.history": lambda: catalog.locators.history(MINE, "s", path, 5),
        "sources.add": lambda: catalog.sources.add(
            MINE, "uploads", {"type": "uploads", "config": "of-alpha", "root": "/"}
        ),
        "uploaded.all": lambda: catalog.uploaded.all(MINE),
        "uploaded.put": lambda: catalog.uploaded.put(MINE, [UploadedItem("of-alpha", sha, 1)], "of-alpha"),
        "feedback.all": lambda: catalog.feedback.all(MINE),
        "feedback.keep": lambda: catalog.feedback.keep(MINE, opinion("of-alpha")),
        "feedback.withdraw": lambda: catalog.feedback.withdraw(MINE, "of-beta"),
        "tags.all": lambda: catalog.tags.all(MINE),
        "tags.change": lambda: catalog.tags.change(MINE, [doc], add=["of-alpha"], remove=["of-beta"]),
        "uploads.enqueue": lambda: catalog.uploads.enqueue(
            MINE, sha, "of-alpha", 1, max_retries=1, next_retry_at=0, error_message=""
        ),
        "uploads.due": lambda: catalog.uploads.due(MINE, 2**62),
        "uploads.mark_failed": lambda: catalog.uploads.mark_failed(MINE, sha, 1, 0, "", final=True),
        "uploads.mark_done": lambda: catalog.uploads.mark_done(MINE, sha),
        "blobs.reconcile": lambda: catalog.blobs.reconcile(MINE),
        "blobs.all": lambda: catalog.blobs.all(MINE),
        "locators.hashes_only_of": lambda: catalog.locators.hashes_only_of(MINE, [doc]),
        "locators.held_hashes": lambda: catalog.locators.held_hashes(MINE),
        "blobs.hashes": lambda: catalog.blobs.hashes(MINE),
        "blobs.usage": lambda: catalog.blobs.usage(MINE),
        "pointers.get": lambda: catalog.pointers.get(MINE, "s", "chunks"),
        "pointers.of_owner": lambda: catalog.pointers.of_owner(MINE, "s", ["chunks"]),
        "pointers.of_stages": lambda: catalog.pointers.of_stages(MINE, ["chunks"]),
        "pointers.publish": lambda: catalog.pointers.publish(
            MINE, "s", Pointer(stage="chunks", tables={}, inputs="of-alpha", txn="", applied={})
        ),
        "pointers.drop": lambda: catalog.pointers.drop(MINE, "s"),
        "runs.unit_states": lambda: catalog.runs.unit_states(MINE, "s", "A"),
        "runs.record": lambda: catalog.runs.record(MINE, "s", "A", [], [], ["unit"]),
        "runs.set_suppressed": lambda: catalog.runs.set_suppressed(MINE, "s", "A", {"unit": True}),
        "runs.find": lambda: catalog.runs.find(MINE),
        "runs.propose": lambda: catalog.runs.propose(MINE, "s", "A", []),
        "runs.numbers": lambda: catalog.runs.numbers(MINE, "s", "A", ["unit"]),
        "runs.starting_with": lambda: catalog.runs.starting_with(MINE, ""),
        "runs.by_id": lambda: catalog.runs.by_id(MINE, ["run"]),
        "runs.tally": lambda: catalog.runs.tally(MINE, "s", "A"),
        "runs.touching": lambda: catalog.runs.touching(MINE, "s", ["unit"], [path]),
        "batches.begin": lambda: catalog.batches.begin(MINE, "s", "A", ["unit"]),
        "batches.announce": lambda: catalog.batches.announce(MINE, "s", "A", ["unit"]),
        "batches.start": lambda: catalog.batches.start(MINE, batch),
        "batches.beat": lambda: catalog.batches.beat(MINE, batch),
        "batches.withdraw": lambda: catalog.batches.withdraw(MINE, batch),
        "batches.fail": lambda: catalog.batches.fail(MINE, batch, "of-alpha"),
        "batches.find": lambda: catalog.batches.find(MINE, "s", "A"),
        "choices.of_tier": lambda: catalog.choices.of_tier(MINE, "s", "A"),
        "choices.sources": lambda: catalog.choices.sources(MINE),
        "choices.add": lambda: catalog.choices.add(MINE, [chosen("of-alpha")]),
        "choices.last_promotion": lambda: catalog.choices.last_promotion(MINE, "s", "A"),
        "choices.find": lambda: catalog.choices.find(MINE, promotion=promotion),
        "choices.withdraw": lambda: catalog.choices.withdraw(MINE, range(1, 50)),
        "blobs.not_stored": lambda: catalog.blobs.not_stored(MINE),
        "dead_letters.find": lambda: catalog.dead_letters.find(MINE),
        "dead_letters.failing": lambda: catalog.dead_letters.failing(MINE, ["E_PARSE"]),
        "dead_letters.failed": lambda: catalog.dead_letters.failed(MINE, ["docs"]),
        "dead_letters.record": lambda: catalog.dead_letters.record(MINE, "s", "documents", [], ["p0"]),
        "dead_letters.start_over": lambda: catalog.dead_letters.start_over(
            MINE, [{"source_id": "s", "stage": "documents", "item": "p0"}]
        ),
        "answers.open_count": lambda: catalog.answers.open_count(MINE),
        "totals.add": lambda: catalog.totals.add(MINE, {("runs_total", "of-alpha"): 1.0}),
        "totals.all": lambda: catalog.totals.all(MINE),
        "answers.known": lambda: catalog.answers.known(MINE, ["k"]),
        "answers.keep": lambda: catalog.answers.keep(MINE, [answer("of-alpha")]),
        "answers.record_windows": lambda: catalog.answers.record_windows(
            MINE, "s", [doc], [window("of-alpha")]
        ),
        "answers.close_windows": lambda: catalog.answers.close_windows(MINE, "s", [doc]),
        "answers.open_windows": lambda: catalog.answers.open_windows(MINE, "s"),
        "answers.places": lambda: catalog.answers.places(MINE, "s", "k"),
        "quotas.of": lambda: catalog.quotas.of(MINE, 5),
        "quotas.count": lambda: catalog.quotas.count(MINE, 1),
        "dead_letters.forget_retired": lambda: catalog.dead_letters.forget_retired(MINE),
        "tombstones.all": lambda: catalog.tombstones.all(MINE),
        "tombstones.add": lambda: catalog.tombstones.add(MINE, [doc], "deleted"),
        "tombstones.expire": lambda: catalog.tombstones.expire(MINE, {doc: sha}),
        "notifications.add": lambda: catalog.notifications.add(MINE, [told("of-alpha")]),
        "notifications.known": lambda: catalog.notifications.known(MINE, ["delivery"]),
        "notifications.due": lambda: catalog.notifications.due(MINE, "ops", 2**62),
        "notifications.counts": lambda: catalog.notifications.counts(MINE),
        "notifications.find": lambda: catalog.notifications.find(MINE),
        "notifications.tried": lambda: catalog.notifications.tried(
            MINE, "delivery", DeliveryState.FAILED, 1, 0, "500"
        ),
        "notifications.start_over": lambda: catalog.notifications.start_over(MINE, ["delivery"]),
        "notifications.forget_old": lambda: catalog.notifications.forget_old(MINE, 2**62, [], []),
        "retention.all": lambda: catalog.retention.all(MINE),
        "retention.sync": lambda: catalog.retention.sync(MINE, random_.choice([{}, {"s": 3}])),
        "retention.keep": lambda: catalog.retention.keep(MINE, [doc, "of-alpha"], 9),
        "retention.keep_as_source": lambda: catalog.retention.keep_as_source(
            MINE, [f"of-{o}" for o in OTHERS]
        ),
        "tombstones.remove": lambda: catalog.tombstones.remove(MINE, [doc]),
        "assertions.all": lambda: catalog.assertions.all(MINE),
        "assertions.position": lambda: catalog.assertions.position(MINE),
        "assertions.add": lambda: catalog.assertions.add(MINE, [NewAssertion("field", "{}", "", "")]),
        "assertions.record_blobs": lambda: catalog.assertions.record_blobs(
            MINE, [HandedIn(sha, 1, "text/plain")], "of-alpha"
        ),
        "assertions.erase": lambda: catalog.assertions.erase(MINE, [random_.choice(theirs)]),
        "assertions.erase_raw": lambda: catalog.assertions.erase_raw(MINE, [random_.choice(theirs)]),
        "locators.restore": lambda: catalog.locators.restore(MINE, [doc]),
        "forget": lambda: catalog.forget(MINE, [doc], [sha]),
        "receipts.save": lambda: catalog.receipts.save(MINE, "receipt", [], True, {"s": "done"}, []),
        "receipts.pending": lambda: catalog.receipts.pending(MINE),
        "audit_log.record": lambda: catalog.audit_log.record(MINE, "k", "s"),
        "audit_log.all": lambda: catalog.audit_log.all(MINE),
    }


def every_method(frontier: Frontier) -> list[object]:
    """What a frontier of another namespace's crawl gives, and that it takes in nothing."""
    for write in (
        lambda: frontier.claim(5),
        lambda: frontier.waiting(),
        lambda: frontier.heartbeat(),
        lambda: frontier.state(),
        lambda: frontier.add_roots([], Listing()),
        lambda: frontier.finish([], []),
        lambda: frontier.end(complete=True),
    ):
        with pytest.raises(TabootError, match="E_NOT_FOUND"):
            write()
    frontier.reopen([url_id("x")])
    frontier.take_over([url_id("x")])
    return [
        frontier.release(),
        frontier.reclaim(alone=True),
        list(frontier.settled()),
        frontier.handed(10),
        frontier.stored_links([url_id("of-bravo")]),
        frontier.last_answers([url_id("x"), url_id("of-bravo")]),
        frontier.stored_urls([url_id("x")]),
        frontier.ledger(),
    ]


#: Those that span namespaces on purpose, or none.
SPANNING = {
    *("close", "health", "sources.sync", "jobs.fail_dead", "batches.fail_stale"),
    *("uploaded.namespaces", "assertions.handing"),
}


def public_methods(catalog: Catalog) -> set[str]:
    """``forget``, ``jobs.start`` …: methods that begin a transaction; those that join one take it first."""
    owners = {f"{name}.": owner for name, owner in vars(catalog).items() if not isinstance(owner, Database)}
    return {
        f"{prefix}{name}"
        for prefix, owner in {"": catalog, **owners}.items()
        for name, method in inspect.getmembers(type(owner), inspect.isfunction)
        if not name.startswith("_") and list(inspect.signature(method).parameters)[1:2] != ["c"]
    }


def test_no_method_of_the_catalog_reaches_another_namespace(catalog: Catalog, roles: Roles) -> None:
    before, random_ = rows_of(roles, OTHERS), random.Random(11)
    others = [job for namespace in OTHERS for job in catalog.jobs.find(namespace)]
    theirs = [
        (row["batch_id"], choice["promotion"])
        for n in OTHERS
        for row in catalog.batches.find(n)
        for choice in catalog.choices.of_tier(n, "s", "A")
    ]
    public = public_methods(catalog)
    assert public > SPANNING and set(calls(catalog, random_, others, theirs)) == public - SPANNING
    done, rounds = 0, rounds_of(catalog)
    for _ in range(rounds):
        for name, call in sorted(
            calls(catalog, random_, others, theirs).items(), key=lambda _: random_.random()
        ):
            try:
                seen = repr(call())
            except TabootError as error:
                # Another's job or crawl is not there; nothing else fails.
                assert (
                    name.startswith(("jobs.end", "batches.start", "crawls.")) and error.code == "E_NOT_FOUND"
                ), (name, error)
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
            with catalog.database.begin(MINE) as c:
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
                with (
                    pytest.raises(TabootError, match="insufficient privilege"),
                    catalog.database.begin(MINE) as c,
                ):
                    assert c.execute(sa.select(sa.func.count()).select_from(table)).scalar(), name
                    c.execute(statement)
                refused += 1
            if random_.random() < 0.05:
                # Without WHERE a statement means one's own rows; they are put back by not committing.
                with pytest.raises(ZeroDivisionError), catalog.database.begin(MINE) as c:
                    mine = c.execute(sa.select(sa.func.count()).select_from(table)).scalar()
                    assert c.execute(sa.delete(table)).rowcount == mine
                    raise ZeroDivisionError
    assert refused == rounds * len(metadata.tables) * 2 and empty == rounds * len(metadata.tables) * 7
    assert rows_of(roles, OTHERS) == before


def test_a_transaction_without_a_namespace_sees_nothing_and_maintenance_all(
    catalog: Catalog, roles: Roles
) -> None:
    for name, table in metadata.tables.items():
        with catalog.database.begin(None) as c:
            assert set(c.execute(sa.select(table.c.namespace)).scalars()) == {MINE, *OTHERS}, name
            assert (
                c.execute(
                    sa.update(table).where(table.c.namespace == "bravo").values(namespace="bravo")
                ).rowcount
                > 0
            )
    with psycopg.connect(
        plain(catalog.database.engine.url.render_as_string(hide_password=False))
    ) as connection:
        for name in metadata.tables:
            assert connection.execute(f'SELECT count(*) FROM "{name}"').fetchone() == (0,)
    assert {s["namespace"] for s in catalog.sources.find()} == {MINE, *OTHERS}


def test_a_pooled_connection_takes_no_namespace_along(catalog: Catalog) -> None:
    """After a commit, a failure and maintenance alike, the next user of the connection begins with
    nothing.
    """

    def one(namespace: str | None, fail: bool) -> None:
        with catalog.database.begin(namespace) as c:
            c.execute(sa.text("SELECT 1/0" if fail else "SELECT 1"))

    for namespace in ("alpha", None, "bravo"):
        for fail in (False, True):
            if fail:
                with pytest.raises(TabootError, match="E_CATALOG"):
                    one(namespace, fail)
            else:
                one(namespace, fail)
            with catalog.database.engine.connect() as c:
                setting, maintenance, me, session = c.execute(
                    sa.text(
                        "SELECT current_setting('taboot.namespace', true),"
                        " current_setting('taboot.maintenance', true), current_user, session_user"
                    )
                ).one()
                assert not setting and not maintenance and me == session
                assert c.execute(sa.text("SELECT count(*) FROM locator")).scalar() == 0
