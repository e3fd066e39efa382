"""By stdio as assistants start it, and over HTTP on loopback, where nobody gets in without the token."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import httpx2
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from taboot_pipelines.browse.app import take_port
from taboot_pipelines.mcp.server import PATH, READING, WRITING, make_app
from taboot_pipelines_tests.cli.test_metrics import read
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.mcp.asking import PROGRAM, by_stdio, call, with_client
from taboot_pipelines_tests.unwritable import PYTHON, tree, unwritable
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow

#: A request of its own connection; without TLS no certificates are read for it.
http = functools.partial(httpx2.request, verify=False)
TOKEN = "a-token-of-this-test-alone"
COMPOSE = "services: {web: {image: nginx, depends_on: [cache]}, cache: {image: 'redis:7'}}\n"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with FakeTei() as tei:
        made = World(tmp_path_factory.mktemp("house"), tei.url)
        (made.source("stacks", "compose", host="hearth.lan") / "compose.yaml").write_text(COMPOSE)
        made.ingest()
        yield made
        made.workspace.close()


def environment(world: World) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))}
    return {
        **kept,
        "TABOOT_HOME": str(world.home),
        "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
        "TABOOT_TEI__URL": world.tei,
    }


def test_an_assistant_starts_it_and_asks(house: World) -> None:
    async def talk(client: Client) -> None:
        listed = await client.list_tools()
        assert [t.name for t in listed.tools] == list(READING)
        assert "cache" in (await call(client, "ask", {"question": "What does web depend on?"})).text
        assert (await call(client, "ingest", {})).is_error

    with_client(by_stdio(environment(house)), talk)


def test_a_home_without_anything_says_so_and_an_assistant_may_fill_it(world: World) -> None:
    stacks = world.source("stacks", "compose", host="hearth.lan")
    (stacks / "compose.yaml").write_text(COMPOSE)

    async def talk(client: Client) -> None:
        listed = await client.list_tools()
        assert [t.name for t in listed.tools] == [*READING, *WRITING]
        empty = await call(client, "status", {})
        assert empty.is_error and "E_KB_UNINITIALIZED" in empty.text
        done = await call(client, "ingest", {})
        assert done.text == "The knowledge base is up to date.\n- stacks: succeeded"
        assert "cache" in (await call(client, "ask", {"question": "What does web depend on?"})).text
        (stacks / "late").mkdir()
        (stacks / "late" / "compose.yaml").write_text("services:\n  late:\n    image: 'late:1'\n")
        assert not (await call(client, "ingest", {})).is_error
        changed = await call(client, "changes", {"since": "2020-01-01"})
        assert "1 new" in changed.text and "- new: stacks: late/compose.yaml (20" in changed.text
        broken = await call(client, "ingest", {"source": "nope"})
        assert broken.is_error and "E_SOURCE_UNKNOWN" in broken.text

    with_client(by_stdio(environment(world), "--write"), talk)


def test_over_a_home_that_cannot_be_written(house: World) -> None:
    """Every tool answers, and nothing is written."""
    house.workspace.close()
    asked = {
        "ask": {"question": "What does web depend on?"},
        "search": {"query": "nginx"},
        "query": {"name": "dependents", "parameters": {"service": "cache"}},
        "impact": {"service": "cache"},
        "neighbors": {"node": "web"},
        "path": {"start": "web", "end": "cache"},
        "explain": {"id": house.kb().edges().column("edge_id")[0].as_py()},
        "document": {"document": "compose.yaml"},
        "changes": {"since": "2020-01-01"},
        "drift": {},
        "sources": {},
        "status": {},
    }
    assert set(asked) == set(READING)

    async def talk(client: Client) -> None:
        for tool, arguments in asked.items():
            said = await call(client, tool, arguments)
            assert not said.is_error, (tool, said.text)
            if tool in ("sources", "status"):
                assert "last run" in said.text, said.text

    async def refused(client: Client) -> None:
        what = {"entity": "web", "field": "description", "value": "the page", "reason": "test"}
        said = await call(client, "correct", what)
        assert said.is_error and "E_READ_ONLY" in said.text

    with unwritable(house.home):
        before = tree(house.home)
        with_client(by_stdio(environment(house), start=PYTHON), talk)
        told = {**environment(house), "TABOOT_READ_ONLY": "true"}
        with_client(by_stdio(told, "--write", start=PYTHON), refused)
        assert tree(house.home) == before


def test_nothing_but_the_protocol_is_written_to_stdout(house: World) -> None:
    """A program that writes to stdout there breaks the conversation; an end of stdin ends the server."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "mcp"],
        env=environment(house),
        input=b"this is no message\n",
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        assert line.startswith(b"{") and b'"jsonrpc"' in line


@pytest.fixture(scope="module")
def url(house: World) -> Iterator[str]:
    """The address of a server over HTTP."""
    taken: socket.socket = take_port(0)
    config = uvicorn.Config(make_app(house.kb(), TOKEN), lifespan="on", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{taken.getsockname()[1]}{PATH}"
    server.should_exit = True
    thread.join(30)
    taken.close()


LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
GIVEN = {**ACCEPT, "authorization": f"Bearer {TOKEN}"}


def test_over_http_it_answers_whoever_has_the_token(url: str) -> None:
    async def talk(client: Client) -> None:
        assert "web" in (await call(client, "neighbors", {"node": "web"})).text

    client = httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"})
    with_client(streamable_http_client(url, http_client=client), talk)


def test_whoever_watches_it_hears_that_it_runs(url: str) -> None:
    health = url.rpartition("/")[0] + "/health"
    assert http("GET", health).text == "ok\n"
    assert http("GET", health, headers={"host": "evil.example"}).status_code == 421


def test_prometheus_hears_with_the_token_what_was_asked(url: str) -> None:
    async def talk(client: Client) -> None:
        for _ in range(2):
            await call(client, "search", {"query": "cache"})
        await call(client, "explain", {"id": "nothing"})

    metrics = url.rpartition("/")[0] + "/metrics"
    assert http("GET", metrics).status_code == 401
    asking = {"authorization": f"Bearer {TOKEN}"}
    before = read(http("GET", metrics, headers=asking).text, "server")
    with_client(streamable_http_client(url, http_client=httpx2.AsyncClient(headers=asking)), talk)
    found = read(http("GET", metrics, headers=asking).text, "server")

    def more(name: str, *labels: str) -> float:
        key = (f"taboot_{name}", *labels)
        return found.get(key, 0) - before.get(key, 0)

    assert more("searches_total", "default", "ok") == 2 == more("tool_calls_total", "search", "ok")
    assert more("search_duration_seconds_count", "default") == 2
    assert found["taboot_search_duration_seconds_sum", "default"] > 0
    # Other tests of this process may have asked as well.
    told = {key[2] for key in found if key[:2] == ("taboot_tool_calls_total", "explain")}
    (failed,) = (outcome for outcome in told if more("tool_calls_total", "explain", outcome))
    assert failed.startswith("E_") and more("tool_calls_total", "explain", failed) == 1
    lookups = (more("cache_lookups_total", "query", outcome) for outcome in ("miss", "hit"))
    assert list(lookups) == [1, 1]
    assert more("model_calls_total", "embeddings", "ok") >= 1, "of the server that embeds the query"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (ACCEPT, 401),
        ({**GIVEN, "authorization": "Bearer another"}, 401),
        ({**GIVEN, "authorization": f"Basic {TOKEN}"}, 401),
        ({**GIVEN, "authorization": ""}, 401),
        ({**GIVEN, "origin": "https://evil.example"}, 403),
        ({**GIVEN, "origin": "http://127.0.0.1"}, 403),
        ({**GIVEN, "origin": "null"}, 403),
        ({**GIVEN, "host": "evil.example"}, 421),
        ({**GIVEN, "host": "evil.example:80@127.0.0.1"}, 421),
        ({**GIVEN, "host": "127.0.0.1.evil.example"}, 421),
    ],
)
def test_over_http_nobody_else_gets_in(url: str, headers: dict[str, str], status: int) -> None:
    answer = http("POST", url, json=LIST, headers=headers)
    assert answer.status_code == status and "web" not in answer.text
    # Neither by another method or path.
    for method, path in (("GET", ""), ("DELETE", ""), ("OPTIONS", ""), ("GET", "/../x")):
        assert http(method, url + path, headers=headers).status_code == status


def test_a_body_that_is_no_message_or_too_large_is_refused(url: str) -> None:
    for body in (b"", b"[]", b"{", b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"[" * 100_000):
        assert 400 <= http("POST", url, content=body, headers=GIVEN).status_code < 500
    large = b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 5_000_000 + b'"}'
    assert http("POST", url, content=large, headers=GIVEN).status_code == 413
