"""Traces, at a real receiver of OTLP over HTTP: what is in them, what never is, and that none needs them."""

from __future__ import annotations

import gzip
import http.server
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from taboot_pipelines import telemetry
from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.batching import gather
from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.mcp.test_transports import environment
from taboot_pipelines_tests.world import World

SECRET, WORD, PATH = "planted-secret-of-tei", "xylophone", "the-hidden-page"


class Collector:
    """Keeps the requests that it is sent, and what is in them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                packed = self.headers.get("Content-Encoding") == "gzip"
                assert self.path == "/v1/traces"
                collector.bodies.append(gzip.decompress(body) if packed else body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self) -> list[Span]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [s for r in requests for of in r.resource_spans for sc in of.scope_spans for s in sc.spans]


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


def attributes(span: Span) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value") or "") for a in span.attributes}


def test_what_goes_on_is_told_and_nothing_of_what_is_said(world: World, collector: Collector) -> None:
    page = f"<html><body><h1>Page</h1><p>The {WORD} of the house plays at night.</p></body></html>".encode()

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        found = PATH in request.path
        send(request, 200 if found else 404, page if found else b"", content_type="text/html")

    asked = f"Where does the {WORD} play?"
    program = (
        "from taboot_pipelines.cli import main\n"
        "from taboot_pipelines.retrieval import KnowledgeBase\n"
        "try:\n    main(['ingest'])\nexcept SystemExit:\n    pass\n"
        "kb = KnowledgeBase.open()\n"
        f"kb.search({asked!r})\n"
        f"kb.answer({asked!r})\n"
        f"try:\n    kb.search({asked!r}, limit=-1)\nexcept Exception:\n    pass\n"
    )
    with serve(handle) as site:
        world.source("notes").joinpath("note.md").write_text(f"# Note\n\nThe {WORD} is in the attic.\n")
        urls = [f"{site.base}/{PATH}?key={SECRET}", f"{site.base}/gone"]
        world.entries.append({"id": "site", "type": "web", "urls": urls, "allow_cidrs": ["127.0.0.0/8"]})
        (world.directory / "sources.yaml").write_text(yaml.safe_dump({"sources": world.entries}))
        ours = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "TABOOT_TEI__API_KEY": SECRET,
        }
        command = [*python(), "-c", program]
        subprocess.run(command, env={**environment(world), **ours}, check=True, timeout=300)
        port = site.port
    spans = collector.spans()
    named = {s.name: s for s in spans}
    (resource,) = {
        str(of.resource.attributes)
        for body in collector.bodies
        for of in ExportTraceServiceRequest.FromString(body).resource_spans
    }
    assert "taboot-pipelines" in resource and "service.version" in resource

    root, source = named["ingest"], named["source notes"]
    assert source.parent_span_id == root.span_id and not root.parent_span_id
    stages = [s for s in spans if s.name.startswith("stage ") and s.trace_id == root.trace_id]
    assert {"stage raw_blobs", "stage documents", "stage embeddings", "stage kb_shards"} <= {
        s.name for s in stages
    }
    of_notes = [s for s in stages if s.parent_span_id == source.span_id]
    (fetched,) = (s for s in of_notes if s.name == "stage raw_blobs")
    found = attributes(fetched)
    assert found["taboot.source"] == "notes" and found["taboot.items.fetched"] == 1
    calls = [s for s in spans if s.name.startswith("embeddings ")]
    assert {attributes(s)["gen_ai.operation.name"] for s in calls} == {"embeddings"}
    assert all(s.kind == Span.SPAN_KIND_CLIENT and attributes(s)["gen_ai.request.model"] for s in calls)
    embedding = {s.span_id for s in stages if s.name == "stage embeddings"}
    assert {s.parent_span_id for s in calls if s.trace_id == root.trace_id} & embedding

    gets = {attributes(s)["http.response.status_code"]: s for s in spans if s.name == "GET"}
    answered = attributes(gets[200])
    assert (answered["server.address"], answered["server.port"]) == ("127.0.0.1", port)
    assert gets[200].end_time_unix_nano > gets[200].start_time_unix_nano
    assert gets[404].status.code == Status.STATUS_CODE_ERROR

    searches = [s for s in spans if s.name == "search"]
    assert [s.status.code for s in searches if attributes(s).get("taboot.hits")] == [0]
    (refused,) = (s for s in searches if s.status.code)
    assert attributes(refused)["error.type"] == "E_QUERY" and not refused.status.message
    assert attributes(named["answer"])["taboot.found"] is True
    assert not any(s.events for s in spans), "an exception is none: its message may quote"

    sent = b"".join(collector.bodies)
    assert b"raw_blobs" in sent
    for never in (SECRET, WORD, PATH, "attic", "note.md", "gone"):
        assert never.encode() not in sent, never


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has traced nothing yet."""
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED", *telemetry._ENDPOINTS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(telemetry, "_tracing", telemetry._Tracing())


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, 0),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, 0),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, 0),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, 1),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, 1),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, 1),
    ],
)
def test_without_the_extra_nothing_fails_and_one_warning_says_so(
    variables: dict[str, str],
    told: int,
    anew: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level(logging.WARNING, "taboot_pipelines"):
        for _ in range(3):
            with telemetry.span("search", namespace="default"):
                telemetry.past(telemetry.Span("fetch", {}), "GET")
    assert len(caplog.records) == told
    assert all(record.getMessage().startswith("Nothing is traced") for record in caplog.records)


def test_nothing_of_opentelemetry_is_loaded_where_nothing_is_traced() -> None:
    program = (
        "import sys\nfrom taboot_pipelines import telemetry\n"
        "with telemetry.span('search'):\n    telemetry.event('cache')\n"
        "assert not [m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus_client'))]"
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    subprocess.run([*python(), "-c", program], env=kept, check=True, timeout=60)


def test_a_collector_that_is_away_is_no_failure(anew: None) -> None:
    program = (
        "from taboot_pipelines import telemetry\nwith telemetry.span('search'):\n    pass\nprint('done')"
    )
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    done = subprocess.run(
        [*python(), "-c", program],
        env={**os.environ, **away},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_what_several_threads_ask_a_model_lies_beneath_whoever_asks() -> None:
    where, seen = ContextVar("where", default=""), list[str]()

    def work(_start: int, _end: int, _stop: threading.Event) -> None:
        seen.append(where.get())

    token = where.set("here")
    gather(6, 2, 3, work)
    where.reset(token)
    assert seen == ["here"] * 3


def test_spans_are_told_to_those_who_count_with_how_they_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[telemetry.Span] = []
    monkeypatch.setattr(telemetry, "_listeners", [told.append])
    with telemetry.span("search", namespace="a"):
        pass
    for error in (TabootError("E_QUERY", "No."), ValueError("no")):
        with pytest.raises(type(error)), telemetry.span("search"):
            raise error
    assert list(telemetry.streamed(iter("ab"), "answer")) == ["a", "b"]
    assert [(s.kind, s.outcome) for s in told] == [
        ("search", "ok"),
        ("search", "E_QUERY"),
        ("search", "E_INTERNAL"),
        ("answer", "ok"),
    ]
    assert told[0].attributes == {"taboot.namespace": "a"} and all(s.seconds >= 0 for s in told)
