"""Source type ``elasticsearch`` against a fake server: what it asks for, what it keeps, what goes wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.elasticsearch.hits import iso, parse_time, segment, value_at, window_in
from taboot_pipelines.connectors.protocol import Connector, Planner
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import LOGS, Failed, Fetched, Skipped
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import document_forms, open_connector
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines_tests.connectors.conftest import DATA
from taboot_pipelines_tests.connectors.mirror import Crash, Mirror, MirrorState, quick_clients
from taboot_pipelines_tests.connectors.servers import certificate, send, serve
from taboot_pipelines_tests.fakes.answering import Response
from taboot_pipelines_tests.fakes.elasticsearch import FakeElasticsearch

__all__ = ["quick_clients"]
pytestmark = pytest.mark.usefixtures("quick_clients")
HOUR = 3_600_000
DAY = 24 * HOUR
#: 2026-11-20T00:00Z
BASE = 1_795_132_800_000
SECRET = "swordfish"


@contextmanager
def connected(fake: FakeElasticsearch) -> Iterator[Any]:
    """``open(mirror, now=…, **fields)`` over the fake."""
    with fake.serve() as base:

        def open_(mirror: Mirror, *, now: int = BASE + 10 * DAY, **fields: Any) -> Connector:
            entry = {"id": "es", "type": "elasticsearch", "base_url": base, "cluster": False}
            if not {"esql", "sql"} & fields.keys():
                entry["index"] = ["logs-*"]
            access = replace(
                Access.of(Settings(), Path(), state=mirror.state),
                clock=lambda: datetime.fromtimestamp(now / 1000, UTC),
                secrets=lambda name: SecretStr(f"{SECRET}-{name}"),
            )
            return open_connector(parse_entry({**entry, **fields}), access)

        yield open_


def hit(fake: FakeElasticsearch, id_: str, at: int, service: str | None = "api", **more: Any) -> None:
    said = {"@timestamp": at, "message": f"message {id_}", "level": "info", **more}
    fake.hits["logs-a", id_] = said | ({"service": service} if service is not None else {})


def test_a_document_is_the_hits_of_a_key_within_a_window() -> None:
    fake = FakeElasticsearch()
    hit(fake, "1", BASE + 5, nested={"a": 1})
    hit(fake, "2", BASE + 3)
    hit(fake, "3", BASE + 4, "we/b #1")
    hit(fake, "4", BASE + HOUR)
    hit(fake, "5", BASE + HOUR, None)
    mirror = Mirror()
    with connected(fake) as open_:
        assert mirror.run(open_(mirror, group_by="service", fields=["message"])).complete
    assert sorted(mirror.items) == [
        "2026-11-20T00:00:00Z/api",
        "2026-11-20T00:00:00Z/we%2Fb %231",
        "2026-11-20T01:00:00Z/(none)",
        "2026-11-20T01:00:00Z/api",
    ]
    assert json.loads(mirror.items["2026-11-20T00:00:00Z/api"]) == {
        "from": "2026-11-20T00:00:00Z",
        "group": "api",
        "group_by": "service",
        "hits": [
            {
                "_id": "2",
                "_index": "logs-a",
                "fields": {"message": "message 2"},
                "time": "2026-11-20T00:00:00.003Z",
            },
            {
                "_id": "1",
                "_index": "logs-a",
                "fields": {"message": "message 1"},
                "time": "2026-11-20T00:00:00.005Z",
            },
        ],
        "to": "2026-11-20T01:00:00Z",
    }
    assert set(mirror.mimes.values()) == {LOGS} and fake.still_open == 0


def test_without_a_key_each_hit_is_a_document() -> None:
    fake = FakeElasticsearch()
    for n in range(5):
        hit(fake, str(n), BASE + n // 2)
    mirror = Mirror()
    with connected(fake) as open_:
        mirror.run(open_(mirror, page_size=2))
        assert sorted(mirror.items) == [f"2026-11-20T00:00:00Z/logs-a/{n}" for n in range(5)]
        said = json.loads(mirror.items["2026-11-20T00:00:00Z/logs-a/3"])
        assert said["_source"]["message"] == "message 3" and "sort" not in said and "_score" not in said
        # With another entry nothing is kept of how far the one before came.
        mirror.state = MirrorState()
        mirror.run(open_(mirror, time_field=None, page_size=2))
        assert sorted(mirror.items) == [f"logs-a/{n}" for n in range(5)]
        assert mirror.run(open_(mirror, time_field=None, page_size=2)).complete
        assert mirror.counts()["NotModified"] == 5
        fake.expire_after = 2
        done = mirror.run(open_(mirror, time_field=None, page_size=2))
        assert not done.complete and mirror.reasons() == ["E_API"] and len(mirror.items) == 5


@pytest.mark.parametrize("product", ["elasticsearch", "opensearch"])
@pytest.mark.parametrize("pit", [True, False])
@pytest.mark.parametrize("expire_after", [None, 1, 2])
def test_pages_go_on_whatever_becomes_of_the_point_in_time(
    product: str, pit: bool, expire_after: int | None
) -> None:
    fake = FakeElasticsearch(product)
    fake.pit, fake.expire_after = pit, expire_after
    for n in range(23):
        hit(fake, f"{n:02}", BASE + n // 3 * (HOUR // 4))
    mirror, whole = Mirror(), Mirror()
    with connected(fake) as open_:
        mirror.run(open_(mirror, group_by="service", page_size=4))
        fake.pit, fake.expire_after = True, None
        whole.run(open_(whole, group_by="service"))
    assert mirror.items == whole.items and len(whole.items) == 2
    assert ("E_FORBIDDEN" in mirror.reasons()) == (not pit), "that there is none is told"
    assert sum(len(json.loads(data)["hits"]) for data in mirror.items.values()) == 23
    paths = {path for path in fake.asked if "_pit" in path or "point_in_time" in path}
    assert any(("point_in_time" in path) == (product == "opensearch") for path in paths)


def test_what_is_unchanged_costs_what_looking_costs() -> None:
    fake = FakeElasticsearch()
    for n in range(400):
        hit(fake, f"{n:03}", BASE + n * HOUR // 10)
    mirror = Mirror()
    with connected(fake) as open_:
        mirror.run(open_(mirror, group_by="service", page_size=50))
        first = len(fake.requests)
        before = dict(mirror.items)
        mirror.run(open_(mirror, group_by="service", page_size=50))
        assert not mirror.counts()["Fetched"] and mirror.items == before and len(before) == 40
        # What it is, hits without a time, the counts of windows, and one page between open and close.
        assert len(fake.requests) - first == 6 < first
        hit(fake, "late", BASE + 5 * HOUR)
        mirror.run(open_(mirror, group_by="service", page_size=50))
        assert [e.path for e in mirror.events if isinstance(e, Fetched)] == ["2026-11-20T05:00:00Z/api"]
        del fake.hits["logs-a", "late"]
        for n in range(100):
            del fake.hits["logs-a", f"{n:03}"]  # the oldest are no longer kept
        assert mirror.run(open_(mirror, group_by="service", page_size=50)).complete
        assert mirror.items == {k: v for k, v in before.items() if k >= "2026-11-20T10"}
        mirror.run(open_(mirror, group_by="service", page_size=50))
        assert mirror.counts().keys() == {"Unchanged", "Enumerated"}
        hit(fake, "350", BASE + 35 * HOUR, message="edited")
        fake.seq_no = False
        mirror.run(open_(mirror, group_by="service", page_size=50))
        assert not mirror.counts()["Fetched"], "nobody tells of an edit of what is over"
        fake.seq_no = True
        mirror.run(open_(mirror, group_by="service", page_size=50))
        assert [e.path for e in mirror.events if isinstance(e, Fetched)] == ["2026-11-21T11:00:00Z/api"]
        mirror.run(open_(mirror, group_by="service", page_size=50))
        assert mirror.counts().keys() == {"Unchanged", "Enumerated"}
        mirror.run(open_(mirror, group_by="service", page_size=50, lookback="30d", now=BASE + 2 * DAY))
    with connected(fake) as open_:
        again = Mirror()
        again.run(open_(again, group_by="service", lookback=None))
        hit(fake, "350", BASE + 35 * HOUR, message="edited twice")
        again.run(open_(again, group_by="service", lookback=None))
        assert again.counts()["Fetched"] == 1 and again.counts()["NotModified"] == 29


times = st.integers(0, 30).map(lambda n: BASE + n * HOUR // 3)
services = st.sampled_from(["api", "web", None])
changes = st.tuples(st.sampled_from(["add", "delete", "edit"]), st.integers(0, 40), times, services)
rounds = st.lists(
    st.tuples(
        st.lists(changes, max_size=8),
        st.none() | st.integers(0, 6),  # the process dies after so many events
        st.none() | st.integers(1, 3),  # searches that a point in time holds
        st.none() | st.integers(2, 14),  # requests that the run may make
        st.integers(0, 6),  # hours that pass
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=30, deadline=None)
@given(
    rounds,
    st.sampled_from([{"group_by": "service"}, {}]),
    st.sampled_from([{"page_size": 2}, {"page_size": 1000}, {"page_size": 3, "max_items": 2}]),
)
def test_incremental_equals_from_scratch(
    history: list[Any], grouping: dict[str, Any], bounds: dict[str, Any]
) -> None:
    """Hits of windows that are over come, go and are edited as those of the others are."""
    fake, mirror = FakeElasticsearch(), Mirror()
    now = BASE + 2 * HOUR
    fields = {**grouping, **bounds, "lookback": "2h"}
    with connected(fake) as open_:
        for operations, crash_after, expire_after, max_requests, passed in history:
            now += passed * HOUR
            for what, number, at, service in operations:
                key = ("logs-a", str(number))
                old = fake.hits.get(key)
                if what == "add" and old is None:
                    hit(fake, str(number), at, service)
                elif what == "delete" and old is not None:
                    del fake.hits[key]
                elif what == "edit" and old is not None:
                    hit(fake, str(number), at, service, message="edited")
            fake.expire_after = expire_after
            limits = {"max_requests": max_requests} if max_requests else {}
            try:
                mirror.run(open_(mirror, now=now, **{**fields, **limits}), crash_after=crash_after)
            except Crash:
                pass
            except TabootError as error:
                assert error.code == "E_REQUESTS"
        fake.expire_after = None
        for _ in range(60):
            if mirror.run(open_(mirror, now=now, **fields)).complete:
                break
        scratch = Mirror()
        assert scratch.run(open_(scratch, now=now, **{**fields, "max_items": None})).complete
    assert mirror.items == scratch.items


def test_bounds() -> None:
    fake = FakeElasticsearch()
    for n in range(30):
        hit(fake, f"{n:02}", BASE + n * HOUR)
    with connected(fake) as open_:
        mirror = Mirror()
        sizes = []
        for _ in range(4):
            sizes.append((mirror.run(open_(mirror, max_items=10, page_size=7)).complete, len(mirror.items)))
        assert sizes == [(False, 10), (False, 20), (True, 30), (True, 30)]
        mirror = Mirror()
        done = mirror.run(open_(mirror, max_requests=5, page_size=7))
        assert not done.complete and "5 requests" in done.reason and 0 < len(mirror.items) < 30
        assert mirror.reasons() == [], "the end of a budget is no failure"
        for _ in range(12):
            if mirror.run(open_(mirror, max_requests=5, page_size=7)).complete:
                break
        assert len(mirror.items) == 30
        since = Mirror()
        since.run(open_(since, since="2026-11-21"))
        assert min(since.items) == "2026-11-21T00:00:00Z/logs-a/24" and len(since.items) == 6
        plan = open_(Mirror(), cluster=True)
        assert isinstance(plan, Planner)
        parts = list(plan.plan())
        assert [(p.what, p.items) for p in parts] == [("the cluster", 3), ("hits of logs-*", 30)]


def test_hits_that_may_be_missing_delete_nothing_and_spoil_no_group() -> None:
    fake, mirror = FakeElasticsearch(), Mirror()
    for n in range(10):
        hit(fake, f"{n:02}", BASE + n * HOUR // 4)
    with connected(fake) as open_:
        mirror.run(open_(mirror, group_by="service", lookback=None))
        before = dict(mirror.items)
        fake.failed_shards = 1
        hit(fake, "new", BASE + 20 * HOUR)
        done = mirror.run(open_(mirror, group_by="service", lookback=None))
        assert not done.complete and mirror.reasons() == ["E_5XX_ORIGIN"]
        assert before.items() <= mirror.items.items()
        fake.failed_shards = 0
        assert mirror.run(open_(mirror, group_by="service", lookback=None)).complete
        scratch = Mirror()
        scratch.run(open_(scratch, group_by="service"))
        assert mirror.items == scratch.items


@pytest.mark.parametrize("way", ["esql", "sql"])
def test_queries_in_words(way: str) -> None:
    fake, mirror = FakeElasticsearch(), Mirror()
    for n in range(25):
        hit(fake, f"{n:02}", BASE + n * HOUR // 4)
    text = "FROM logs METADATA _index, _id" if way == "esql" else "SELECT * FROM logs"
    with connected(fake) as open_:
        fields = {way: text, "group_by": "service", "page_size": 10}
        assert mirror.run(open_(mirror, **fields)).complete
        assert len(mirror.items) == 7
        assert sum(len(json.loads(data)["hits"]) for data in mirror.items.values()) == 25
        mirror.run(open_(mirror, **fields))
        assert mirror.counts().keys() == {"Unchanged", "Enumerated"}
        with pytest.raises(TabootError, match=r"have no column when|cannot run the query"):
            Mirror().run(open_(Mirror(), **{**fields, "time_field": "when", way: text}))
        if way == "esql":
            for n in range(12):
                hit(fake, f"same {n}", BASE + 100 * HOUR)
            done = (same := Mirror()).run(open_(same, **fields))
            assert not done.complete and same.reasons() == ["E_TOO_LARGE"]


def test_the_cluster() -> None:
    fake, mirror = FakeElasticsearch(), Mirror()
    hit(fake, "1", BASE)
    with connected(fake) as open_:
        mirror.run(open_(mirror, cluster=True))
        assert {"cluster/info.json", "cluster/nodes.json", "cluster/indices.json"} < set(mirror.items)
        mirror.run(open_(mirror, cluster=True))
        assert not mirror.counts()["Fetched"], "which node answers is no change"
        fake.fail = {len(fake.requests) + 1: Response(403, {})}
        mirror.run(open_(mirror, cluster=True))
        assert mirror.reasons() == ["E_FORBIDDEN"] and len(mirror.items) == 4


def test_credentials_are_sent_and_told_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeElasticsearch()
    with connected(fake) as open_:
        Mirror().run(open_(Mirror(), api_key="${ES_KEY}"))
        assert fake.requests[-1].headers["authorization"] == f"ApiKey {SECRET}-ES_KEY"
        Mirror().run(open_(Mirror(), username="elastic", password_env="ES_PASSWORD"))
        pair = base64.b64encode(f"elastic:{SECRET}-ES_PASSWORD".encode()).decode()
        assert fake.requests[-1].headers["authorization"] == f"Basic {pair}"
        fake.fail = {n: Response(401, {"error": SECRET}) for n in range(len(fake.requests), 99)}
        with pytest.raises(TabootError, match="E_CREDENTIALS") as caught:
            Mirror().run(open_(Mirror(), api_key="${ES_KEY}"))
        assert SECRET not in str(caught.value) + repr(caught.value.details) + caplog.text
    access = Access.of(Settings(), Path())
    entry = {"id": "e", "type": "elasticsearch", "base_url": "http://127.0.0.1:9", "index": ["a"]}
    with pytest.raises(TabootError, match="NO_SUCH_KEY is not set") as caught:
        Mirror().run(open_connector(parse_entry({**entry, "api_key_env": "NO_SUCH_KEY"}), access))
    assert caught.value.code == "E_CONFIG"
    with pytest.raises(TabootError, match="ca_file"):
        Mirror().run(open_connector(parse_entry({**entry, "ca_file": "none.pem"}), access))


def test_a_server_is_trusted_by_its_own_authority_or_unchecked(tmp_path: Path) -> None:
    def answer(h: BaseHTTPRequestHandler) -> None:
        send(h, 200, b'{"cluster_name": "logging"}')

    with serve(answer, certificate(tmp_path, "localhost")) as site:
        base = {"id": "es", "type": "elasticsearch", "index": ["a"]}
        base["base_url"] = f"https://localhost:{site.port}"
        access = Access.of(Settings(), tmp_path)
        for trust in ({"ca_file": "cert.pem"}, {"verify_tls": False}):
            (mirror := Mirror()).run(open_connector(parse_entry({**base, **trust}), access))
            assert len(mirror.items) == 3, "what is asked for by GET is read"
        with pytest.raises(TabootError, match=r"E_NETWORK.*certificate is not trusted"):
            Mirror().run(open_connector(parse_entry(base), access))
    with serve(answer) as site:
        base["base_url"] = f"https://localhost:{site.port}"
        with pytest.raises(TabootError, match=r"E_NETWORK.*it speaks no TLS at this port"):
            Mirror().run(open_connector(parse_entry(base), access))


@pytest.mark.parametrize(
    ("at", "response", "code"),
    [
        (2, Response(200, b"<!DOCTYPE html><p>login"), "E_API"),
        (3, Response(200, b'{"hits": {"hits": ['), "E_API"),
        (3, Response(200, {"hits": {}}), "E_API"),
        (3, Response(200, b"[" * 100_000), "E_API"),
        (3, Response(429, {}, {"retry-after": "100000"}), "E_429_RATE"),
    ],
)
def test_a_bad_answer_is_told_and_deletes_nothing(at: int, response: Response, code: str) -> None:
    fake, mirror = FakeElasticsearch(), Mirror()
    for n in range(5):
        hit(fake, str(n), BASE + n)
    with connected(fake) as open_:
        mirror.run(open_(mirror, lookback=None))
        fake.requests.clear()
        fake.fail = {at: response}
        done = mirror.run(open_(mirror, lookback=None))
        assert not done.complete and mirror.reasons() == [code] and len(mirror.items) == 5


def test_answers_without_end_and_what_is_not_there() -> None:
    fake = FakeElasticsearch()
    for n in range(4):
        hit(fake, str(n), BASE + n)
    with connected(fake) as open_:
        page = {
            "hits": {
                "hits": [{"_index": "l", "_id": str(n), "_source": {}, "sort": [BASE, n]} for n in (1, 2)]
            }
        }
        fake.fail = {n: Response(200, page) for n in range(3, 99)}
        done = (mirror := Mirror()).run(open_(Mirror(), page_size=2))
        assert not done.complete and mirror.reasons() == ["E_API"]
        fake.requests.clear()
        fake.fail = {1: Response(404, {"error": {"type": "index_not_found_exception"}})}
        with pytest.raises(TabootError, match="E_NOT_FOUND"):
            Mirror().run(open_(Mirror()))
        fake.requests.clear()
        fake.fail = {3: Response(400, {})}
        with pytest.raises(TabootError, match="tiebreaker"):
            Mirror().run(open_(Mirror()))
        fake.fail = {}
        fake.hits["logs-a", "untimed"] = {"message": "when?"}
        done = (mirror := Mirror()).run(open_(Mirror()))
        assert done.complete and mirror.reasons() == ["E_PARSE"]
        (told,) = [e for e in mirror.events if isinstance(e, Skipped)]
        assert "1 hits have no @timestamp" in told.message


def test_a_group_that_is_too_large_is_skipped_and_the_rest_goes_on() -> None:
    fake, mirror = FakeElasticsearch(), Mirror()
    for n in range(100):
        hit(fake, f"{n:03}", BASE + n, "loud", message="x" * 100)
    hit(fake, "quiet", BASE + 1, "quiet")
    with connected(fake) as open_:
        connector = open_(mirror, group_by="service")
        connector._access = replace(connector._access, max_blob_bytes=5000)
        assert mirror.run(connector).complete
    assert list(mirror.items) == ["2026-11-20T00:00:00Z/quiet"] and mirror.reasons() == ["E_TOO_LARGE"]


def test_what_was_deleted_on_purpose_is_not_fetched() -> None:
    fake, mirror = FakeElasticsearch(), Mirror()
    hit(fake, "1", BASE)
    with connected(fake) as open_:
        mirror.run(open_(mirror), tombstones=["2026-11-20T00:00:00Z/logs-a/1"])
    assert not mirror.items and mirror.reasons() == ["E_TOMBSTONED"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"path": ".", "base_url": "http://h"},
        {"base_url": "http://h"},
        {"base_url": "http://h", "index": ["a"], "esql": "FROM a"},
        {"base_url": "http://h", "esql": "FROM a", "sql": "SELECT 1"},
        {"base_url": "http://h", "esql": "FROM a", "time_field": None},
        {"base_url": "http://h", "index": ["a/b"]},
        {"base_url": "http://h", "index": ["a"], "window": "1 hour"},
        {"base_url": "http://h", "index": ["a"], "api_key": "secret"},
        {"base_url": "http://h", "index": ["a"], "username": "u"},
    ],
)
def test_entries_that_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(TabootError, match="E_SOURCES"):
        parse_entry({"id": "e", "type": "elasticsearch", **fields})


@given(st.integers(-(10**18), 4 * 10**18))
def test_times_are_read_as_they_are_written(nanos: int) -> None:
    assert parse_time(iso(nanos)) == nanos
    if nanos > 10**17:
        assert (
            parse_time(nanos) == nanos and parse_time(str(nanos // 1_000_000)) == nanos // 1_000_000 * 10**6
        )


def test_times_and_names_as_they_come() -> None:
    noon = 1_795_176_000 * 10**9
    for text in ("2026-11-20T12:00:00Z", "2026-11-20 13:00:00+01:00", "2026-11-20T06:30-0530", 1_795_176_000):
        assert parse_time(text) == noon, text
    for text in ("", "soon", "2026-13-01", True, None, [], 1e300, "9" * 30, "0000-00-00"):
        assert parse_time(text) is None, text
    assert value_at({"a.b": {"c": 1}}, "a.b.c") == value_at({"a": {"b": {"c": 1}}}, "a.b.c") == 1
    assert value_at({"a": [{"b": 1}, {"b": 2}, {}]}, "a.b") == [1, 2] and value_at({"a": 1}, "a.b") is None
    assert len(segment("x" * 5000)) < 250 and segment("") == "(none)"
    assert window_in("2026-11-20T00:00:00Z/x") == BASE and window_in("cluster/info.json") is None


def recorded(folder: Path, **fields: Any) -> tuple[Mirror, Connector]:
    mirror = Mirror()
    entry = parse_entry({"id": "es", "type": "elasticsearch", "path": str(folder), **fields})
    return mirror, open_connector(entry, Access.of(Settings(), folder, state=mirror.state))


def test_every_recorded_answer_is_a_document_or_has_a_typed_reason() -> None:
    folder = DATA / "elasticsearch-responses"
    mirror, connector = recorded(folder, languages=["en"])
    assert mirror.run(connector).complete
    files = [p for p in folder.rglob("*") if p.suffix in (".yaml", ".yml", ".json")]
    assert len(files) == 31 == len(mirror.items) and mirror.reasons() == []
    for path, data in mirror.items.items():
        parsed = parse_document(
            data,
            path=path,
            mime=mirror.mimes[path],
            charset=None,
            languages=[],
            max_chars=10**6,
            forms=document_forms(),
        )
        assert parsed.text.strip(), path
    (one,) = [path for path in mirror.items if "#" in path]
    assert one.endswith("GetResponseExample3.yaml#untimed/my-index-000001/2"), "fields without _source"
    assert json.loads(mirror.items[one])["fields"] == {"tags": ["env2"]}


def test_files_of_hits(tmp_path: Path) -> None:
    hits = [
        {"_index": "l", "_id": str(n), "_source": {"@timestamp": iso((BASE + n) * 10**6), "service": "api"}}
        for n in range(3)
    ]
    files: dict[str, Any] = {
        "object.json": {"hits": {"total": {"value": 3, "relation": "eq"}, "hits": hits}},
        "number.json": {"hits": {"total": 3, "hits": hits}, "_shards": {"failed": 1}, "timed_out": True},
        "async.json": {"id": "x", "response": {"hits": {"hits": hits}}},
        "msearch.json": {
            "responses": [{"hits": {"hits": hits[:2]}}, {"error": {}}, {"hits": {"hits": hits}}]
        },
        "mget.json": {"docs": [*hits, {"_index": "l", "_id": "9", "found": False}]},
        "eql.json": {"hits": {"sequences": [{"join_keys": [], "events": hits}]}},
        "sql.json": {
            "columns": [{"name": "@timestamp"}, {"name": "service"}],
            "rows": [["2026-11-20T00:00:00Z", "api"], ["2026-11-20T00:00:01Z", "api"]],
        },
        "none.json": {"hits": {"hits": []}},
        "health.json": {"cluster_name": "c", "status": "green"},
        "error.json": {"error": {"type": "x"}, "status": 404},
        "scalar.json": 5,
    }
    for name, said in files.items():
        (tmp_path / name).write_text(json.dumps(said))
    lines = "\n".join(json.dumps(hit) for hit in hits)
    (tmp_path / "dump.ndjson").write_text(lines + "\n\n")
    (tmp_path / "bare.ndjson").write_text("\n".join(json.dumps(h["_source"]) for h in hits))
    (tmp_path / "bulk.ndjson").write_text('{"index": {}}\n{"@timestamp": 5, "service": "x"}')
    (tmp_path / "broken.ndjson").write_text(lines + "\n{")
    (tmp_path / "no.ndjson").write_text("no")
    (tmp_path / "cut.json").write_text('{"hits": ')
    (tmp_path / "anchors.yaml").write_text("value:\n  a: &a [1]\n  b: *a\n")
    (tmp_path / "other.yaml").write_text("services: {}\n")
    mirror, connector = recorded(tmp_path, group_by="service")
    done = mirror.run(connector)
    group = "2026-11-20T00:00:00Z/api"
    for name in ("object", "number", "async", "msearch", "mget", "eql"):
        assert len(json.loads(mirror.items[f"{name}.json#{group}"])["hits"]) == 3, name
    assert len(json.loads(mirror.items[f"sql.json#{group}"])["hits"]) == 2
    assert {f"dump.ndjson#{group}", f"bare.ndjson#{group}", "none.json", "health.json"} < set(mirror.items)
    assert "bulk.ndjson#1970-01-01T00:00:00Z/x" in mirror.items
    told = {e.path: e.code for e in mirror.events if isinstance(e, Skipped)}
    assert told == dict.fromkeys(
        ("error.json", "scalar.json", "no.ndjson", "anchors.yaml", "other.yaml"), "E_MIME"
    )
    assert {e.path: e.error.code for e in mirror.events if isinstance(e, Failed)} == {
        "broken.ndjson": "E_PARSE",
        "cut.json": "E_PARSE",
    }
    assert not done.complete


def test_tables_by_columns_and_files_for_bulk(tmp_path: Path) -> None:
    names = [{"name": "@timestamp", "type": "date"}, {"name": "message", "type": "text"}]
    times = ["2026-11-23T10:00:00Z", "2026-11-23T10:30:00Z", "2026-11-23T11:00:00Z"]
    for count in (1, 2, 3):
        values = [times[:count], [f"m{n}" for n in range(count)]]
        rows = [list(row) for row in zip(*values, strict=True)]
        for number, told in enumerate((values, rows)):
            folder = tmp_path / f"{count}-{number}"
            folder.mkdir()
            (folder / "x.json").write_text(json.dumps({"columns": names, "values": told}))
    bulk = tmp_path / "bulk"
    bulk.mkdir()
    lines = [
        {"index": {"_index": "logs", "_id": "7"}},
        {"@timestamp": times[0], "message": "kept"},
        {"delete": {"_index": "logs", "_id": "8"}},
        {"update": {"_id": "9"}},
        {"doc": {"message": "part"}},
        {"create": {}},
        {"index": "a field of a source"},
    ]
    (bulk / "b.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def read(folder: Path) -> dict[str, bytes]:
        entry = parse_entry({"id": "es", "type": "elasticsearch", "path": str(folder)})
        mirror = Mirror()
        mirror.run(
            open_connector(entry, Access.of(Settings(home=tmp_path / ".home"), tmp_path, state=mirror.state))
        )
        return {path.partition("#")[2]: data for path, data in mirror.items.items()}

    for count in (1, 2, 3):
        assert len(read(tmp_path / f"{count}-0")) == count
        assert read(tmp_path / f"{count}-0").keys() == read(tmp_path / f"{count}-1").keys()
    found = read(bulk)
    assert "2026-11-23T10:00:00Z/logs/7" in found and len(found) == 2
    assert not [data for data in found.values() if b"part" in data]


def test_failures_of_one_part_leave_the_rest() -> None:
    fake, mirror = FakeElasticsearch(), Mirror()
    hit(fake, "1", BASE)
    fake.fail = {1: Response(500, {}), 2: Response(500, {}), 3: Response(500, {}), 4: Response(500, {})}
    with connected(fake) as open_:
        done = mirror.run(open_(mirror, cluster=True))
    failed = [e for e in mirror.events if isinstance(e, Failed)]
    assert not done.complete and [e.path for e in failed] == ["cluster/nodes.json"] and len(mirror.items) == 3
