"""Dead letters: transient failures are retried three times.

The catalog is the truth, and the queue follows from it.
"""

from __future__ import annotations

import http.server
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.stages import dead_letters
from taboot_pipelines.stages.dead_letters import BACKOFF_SECONDS, TRANSIENT
from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.servers import own_redis
from taboot_pipelines_tests.world import World


def letter(item: str, code: str = "E_TIMEOUT", kind: str = "failed") -> dict[str, str]:
    return {"item": item, "code": code, "message": "m", "fingerprint": "", "kind": kind}


@pytest.fixture(params=["catalog", pytest.param("redis", marks=pytest.mark.server)])
def any_world(request: pytest.FixtureRequest, tmp_path: Path, tei: FakeTei) -> Iterator[World]:
    made = World(
        tmp_path,
        tei.url,
        **({"redis": {"url": request.getfixturevalue("redis_url")}} if request.param == "redis" else {}),
    )
    yield made
    made.workspace.state.delete("default", [])
    made.workspace.state.dequeue(
        "default", "dlq:pending", made.workspace.state.queued("default", "dlq:pending")
    )
    made.workspace.close()


def failures(world: World) -> dict[str, dict[str, Any]]:
    return {d["item"]: dict(d) for d in world.workspace.catalog.dead_letters.find("default")}


def test_the_back_off_grows_and_after_three_retries_a_letter_has_failed_for_good(any_world: World) -> None:
    workspace, catalog = any_world.workspace, any_world.workspace.catalog
    for attempt, wait in enumerate(BACKOFF_SECONDS, 1):
        catalog.dead_letters.record("default", "s", "raw_blobs", [letter("page")], ())
        (at,) = dead_letters.rebuild(workspace, "default").values()
        row = failures(any_world)["page"]
        assert row["attempts"] == attempt and at == pytest.approx(row["last_at"] / 1e6 + wait)
        assert dead_letters.due(workspace, "default", at - 0.01) == []
        (due,) = dead_letters.due(workspace, "default", at)
        assert (due.source_id, due.letters, due.attempt, due.last_at) == ("s", 1, attempt, row["last_at"])
    catalog.dead_letters.record("default", "s", "raw_blobs", [letter("page")], ())
    assert (
        dead_letters.rebuild(workspace, "default") == {} and dead_letters.due(workspace, "default", 9e9) == []
    )
    assert failures(any_world)["page"]["attempts"] == 4, "the letter itself stays"


def test_only_what_may_pass_is_tried_again(any_world: World) -> None:
    workspace = any_world.workspace
    lasting = [
        letter(f"x{i}", code)
        for i, code in enumerate(["E_PARSE", "E_NOT_FOUND", "E_ROBOTS", "E_TOKEN_LIMIT"])
    ]
    workspace.catalog.dead_letters.record(
        "default", "s", "documents", [*lasting, letter("rejected", "E_TIMEOUT", "skipped")], ()
    )
    assert dead_letters.rebuild(workspace, "default") == {}
    workspace.catalog.dead_letters.record(
        "default", "s", "documents", [letter(code, code) for code in TRANSIENT], ()
    )
    assert len(dead_letters.rebuild(workspace, "default")) == len(TRANSIENT)


def test_an_open_circuit_is_not_asked_before_its_rest_is_over(any_world: World) -> None:
    any_world.workspace.catalog.dead_letters.record(
        "default", "s", "raw_blobs", [letter("page", "E_CIRCUIT_OPEN")], ()
    )
    (at,) = dead_letters.rebuild(any_world.workspace, "default").values()
    assert at == pytest.approx(failures(any_world)["page"]["last_at"] / 1e6 + 300)


def test_a_letter_that_is_gone_leaves_the_queue(any_world: World) -> None:
    workspace = any_world.workspace
    workspace.catalog.dead_letters.record("default", "a", "raw_blobs", [letter("one"), letter("two")], ())
    workspace.catalog.dead_letters.record("default", "b", "raw_blobs", [letter("one")], ())
    assert [(d.source_id, d.letters) for d in dead_letters.due(workspace, "default", 9e9)] == [
        ("a", 2),
        ("b", 1),
    ]
    workspace.catalog.dead_letters.record("default", "a", "raw_blobs", [], {"one", "two"})
    assert [(d.source_id, d.letters) for d in dead_letters.due(workspace, "default", 9e9)] == [("b", 1)]
    assert len(workspace.state.queued("default", "dlq:pending")) == 1
    assert "one" not in str(workspace.state.queued("default", "dlq:pending")), "the queue names no file"


@pytest.mark.server
def test_losing_redis_loses_nothing(tmp_path: Path, tei: FakeTei) -> None:
    with own_redis(tmp_path) as server:
        world = World(tmp_path, tei.url, redis={"url": server.url, "timeout_seconds": 4})
        workspace = world.workspace
        workspace.catalog.dead_letters.record(
            "default", "s", "raw_blobs", [letter("one"), letter("two", "E_NETWORK")], ()
        )
        before = dead_letters.rebuild(workspace, "default")
        server.stop()
        assert [d.letters for d in dead_letters.due(workspace, "default", 9e9)] == [2], (
            "the catalog's letters say it too"
        )
        server.start()
        assert workspace.state.queued("default", "dlq:pending") == {}
        assert dead_letters.rebuild(workspace, "default") == before
        assert workspace.state.queued("default", "dlq:pending") == before
        world.workspace.close()


@given(data=st.data())
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_queue_always_follows_from_the_letters(world: World, data: st.DataObject) -> None:
    catalog, items = world.workspace.catalog, ["a", "b", "ä\n", "c"]
    for _ in range(data.draw(st.integers(1, 4))):
        bad = data.draw(st.lists(st.sampled_from(items), unique=True))
        codes = data.draw(
            st.lists(
                st.sampled_from(["E_TIMEOUT", "E_PARSE", "E_5XX_ORIGIN"]),
                min_size=len(bad),
                max_size=len(bad),
            )
        )
        catalog.dead_letters.record(
            "default",
            "s",
            "raw_blobs",
            [letter(i, c) for i, c in zip(bad, codes, strict=True)],
            set(items) - set(bad),
        )
        if data.draw(st.booleans()):
            dead_letters.rebuild(world.workspace, "default")
    dead_letters.rebuild(world.workspace, "default")
    expected = sorted(
        d["last_at"] / 1e6 + BACKOFF_SECONDS[d["attempts"] - 1]
        for d in failures(world).values()
        if d["code"] in TRANSIENT and d["attempts"] <= 3
    )
    assert sorted(world.workspace.state.queued("default", "dlq:pending").values()) == pytest.approx(expected)


def test_a_page_that_failed_comes_in_by_the_next_try(world: World) -> None:
    well = False

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        if request.path == "/b" and not well:
            send(request, 503)
        else:
            send(
                request,
                200,
                b"<html><body><h1>Page</h1><p>The grafana service listens on port 3000 of the"
                b" host.</p></body></html>",
                content_type="text/html",
            )

    with serve(handle) as site:
        world.entries.append(
            {
                "id": "site",
                "type": "web",
                "urls": [f"{site.base}/a", f"{site.base}/b"],
                "allow_cidrs": ["127.0.0.0/8"],
            }
        )
        world.declare()
        world.ingest("site")
        (due,) = dead_letters.due(world.workspace, "default", 9e9)
        assert (due.source_id, due.letters, due.attempt) == ("site", 1, 1)
        well = True
        world.ingest(due.source_id)
    assert dead_letters.due(world.workspace, "default", 9e9) == []
    assert len(world.kb().documents()) == 2
