"""The TEI client over real HTTP against the fake server: batches, order, retries, splitting, typed
failures.
"""

from __future__ import annotations

import logging
import socket
import threading
import time

import numpy as np
import pytest
from pydantic import SecretStr

from taboot_pipelines.embedding import open_embedder
from taboot_pipelines.embedding.protocol import Space, check_limit
from taboot_pipelines.embedding.tei import TeiEmbedder
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.throttling import retry_after
from taboot_pipelines.settings import ChunkingSettings, Settings, TeiSettings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.circuit import Circuit
from taboot_pipelines.stores.state.protocol import Lenient
from taboot_pipelines_tests.fakes.tei import FakeTei

TEXTS = [f"text number {i} about nginx" for i in range(100)]


@pytest.fixture
def server():
    with FakeTei() as fake:
        yield fake


def client(fake: FakeTei, **settings) -> TeiEmbedder:
    return TeiEmbedder(TeiSettings(url=fake.url, **{"max_retries": 2, **settings}), backoff_seconds=0.01)


def refused(call, code: str) -> TabootError:
    with pytest.raises(TabootError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


def test_vectors_come_in_order_in_batches_the_server_takes(server):
    embedder = client(server)
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (100, 384) and vectors.dtype == np.float32
    assert np.allclose(vectors, server.model.embed(TEXTS), atol=1e-6)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    # One text to learn the dimension, then 32 + 32 + 32 + 4.
    assert sorted(server.batches) == [1, 4, 32, 32, 32]
    assert embedder.embed([]).shape == (0, 384)


def test_the_space_is_what_the_server_says(server):
    space = client(server).space
    assert space == Space("fake/bag-of-words", "0123456789abcdef0123456789abcdef01234567", 384, 510)
    check_limit(space, ChunkingSettings(max_tokens=512))


def test_an_embedder_with_a_smaller_limit_is_refused():
    check_limit(Space("m", "r", 3, 254), ChunkingSettings())
    error = refused(lambda: check_limit(Space("m", "r", 3, 253), ChunkingSettings()), "E_CONFIG")
    assert "TABOOT_CHUNKING__MAX_TOKENS" in error.message


def test_concurrency_is_used_and_bounded(server):
    server.delay = 0.05
    embedder = client(server, max_concurrency=3)
    embedder.embed(TEXTS * 3)
    assert 2 <= server.max_in_flight <= 3


def test_one_client_serves_many_threads(server):
    embedder = client(server)
    results: dict[int, bool] = {}

    def work(n: int) -> None:
        mine = [f"thread {n} text {i}" for i in range(50)]
        results[n] = bool(np.allclose(embedder.embed(mine), server.model.embed(mine), atol=1e-6))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == dict.fromkeys(range(6), True)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(server, status):
    embedder = client(server)
    assert embedder.space
    server.fail(status, times=2)
    assert embedder.embed(TEXTS[:3]).shape == (3, 384)
    assert server.requests == 1 + 3


def test_a_broken_connection_is_tried_again(server):
    embedder = client(server)
    server.corrupt("drop", times=2)
    assert embedder.embed(["a"]).shape == (1, 384)


def test_attempts_are_bounded_and_the_status_is_named(server):
    embedder = client(server)
    assert embedder.space
    server.fail(503, times=50)
    error = refused(lambda: embedder.embed(TEXTS[:3]), "E_EMBEDDER")
    assert error.details["status"] == 503
    assert server.requests == 1 + 3


def test_what_will_not_pass_is_not_tried_again(server):
    embedder = client(server)
    assert embedder.space
    server.fail(422)
    refused(lambda: embedder.embed(["a"]), "E_EMBEDDER")
    assert server.requests == 2


def test_retry_after_is_honoured(server):
    embedder = client(server)
    assert embedder.space
    server.fail(429, retry_after="1")
    begin = time.monotonic()
    embedder.embed(["a"])
    assert time.monotonic() - begin >= 1


def test_a_rest_longer_than_we_wait_is_reported(server):
    embedder = client(server)
    assert embedder.space
    server.fail(503, times=9, retry_after="86400")
    refused(lambda: embedder.embed(["a"]), "E_EMBEDDER")
    assert server.requests == 2


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("7", 7, 7),
        ("", 0, 0),
        (None, 0, 0),
        ("soon", 0, 0),
        ("-3", 0, 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Wed, 21 Oct 9998 07:28:00 GMT", 1e9, 1e12),
    ],
)
def test_retry_after_is_seconds_or_a_date(value, low, high):
    assert low <= (retry_after({} if value is None else {"retry-after": value}) or 0) <= high


def test_one_failing_batch_stops_the_others(server):
    embedder = client(server, max_concurrency=2, max_retries=0)
    assert embedder.space
    server.fail(500)
    refused(lambda: embedder.embed(TEXTS * 20), "E_EMBEDDER")
    assert server.requests < 1 + 62


def test_a_batch_that_is_too_large_is_split(server):
    server.payload_limit = 1_000
    vectors = client(server).embed(TEXTS)
    assert np.allclose(vectors, server.model.embed(TEXTS), atol=1e-6)


def test_a_text_that_is_too_long_is_named_and_not_quoted(server):
    server.max_input_length = 20
    texts = [*TEXTS[:40], "hush " * 30, *TEXTS[40:60]]
    error = refused(lambda: client(server).embed(texts), "E_TOKEN_LIMIT")
    assert error.details["index"] == 40 and "hush" not in str(error)


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("nan", "E_VECTOR"),
        ("inf", "E_VECTOR"),
        ("zero", "E_VECTOR"),
        ("tiny", "E_VECTOR"),
        ("short", "E_VECTOR"),
        ("count", "E_VECTOR"),
        ("ragged", "E_VECTOR"),
        ("shape", "E_VECTOR"),
        ("text", "E_VECTOR"),
        ("json", "E_EMBEDDER"),
    ],
)
def test_rubbish_is_never_a_vector(server, how, code):
    embedder = client(server, max_concurrency=1)
    assert embedder.space
    embedder.embed(TEXTS[:32])
    server.corrupt(how)
    error = refused(lambda: embedder.embed(TEXTS[:4]), code)
    if how in ("nan", "inf", "zero", "tiny", "ragged", "text"):
        assert error.details["index"] == 3


def test_a_bad_vector_is_named_by_its_place_in_the_callers_list(server):
    embedder = client(server, max_concurrency=1)
    embedder.embed(TEXTS[:1])
    # The second batch of this call: its last text is number 63.
    server._faults.append((200, None, None))
    server.corrupt("zero")
    assert refused(lambda: embedder.embed(TEXTS[:64]), "E_VECTOR").details["index"] == 63


def test_another_model_behind_the_same_url_is_noticed(server, monkeypatch):
    embedder = client(server)
    assert embedder.space
    monkeypatch.setattr("taboot_pipelines.inference.tei.INFO_TTL", 0.0)
    server.model_sha = "f" * 40
    assert "another model" in refused(lambda: embedder.embed(["a"]), "E_EMBEDDER").message


@pytest.mark.parametrize("field", ["model_id", "max_input_length", "max_client_batch_size"])
def test_a_server_that_is_not_tei_is_refused(server, monkeypatch, field):
    info = server.info()
    for bad in (None, -1, [], {}, True, ""):
        monkeypatch.setattr(server, "info", lambda bad=bad: {**info, field: bad})
        refused(lambda: client(server).space, "E_EMBEDDER")


def test_a_revision_that_is_no_hash_can_stand_in_a_path(server):
    server.model_sha = "../../etc"
    assert set(client(server).space.revision) <= set("0123456789abcdef")
    server.model_sha = None
    assert client(server).space.revision == "unversioned"


def test_the_key_is_sent_and_never_shown(server, caplog):
    caplog.set_level(logging.DEBUG)
    server.api_key = "s3cr3t-key"
    assert client(server, api_key=SecretStr("s3cr3t-key")).embed(["a"]).shape == (1, 384)
    error = refused(lambda: client(server, api_key=SecretStr("wr0ng-key")).space, "E_EMBEDDER")
    assert "TABOOT_TEI__API_KEY" in error.remedy
    shown = caplog.text + str(error) + repr(error.details)
    assert "s3cr3t-key" not in shown and "wr0ng-key" not in shown


@pytest.mark.parametrize("key", ["a\nb", "kéy", "a b"])
def test_a_key_that_no_header_carries_is_refused(server, key):
    error = refused(lambda: client(server, api_key=SecretStr(key)), "E_CONFIG")
    assert key not in str(error)


@pytest.mark.parametrize(
    "url",
    ["nonsense", "ftp://host", "http://", "http://[::1", "http://h:99999", "http://h/?a=b", "http://\x00"],
)
def test_a_url_that_is_none_is_refused(url):
    assert "TABOOT_TEI__URL" in refused(lambda: TeiEmbedder(TeiSettings(url=url)), "E_CONFIG").message


def test_userinfo_of_the_url_is_used_and_never_shown(server, caplog):
    caplog.set_level(logging.DEBUG)
    url = server.url.replace("http://", "http://user:hunter2@")
    embedder = TeiEmbedder(TeiSettings(url=url, max_retries=0))
    assert embedder.embed(["a"]).shape == (1, 384)
    server.fail(500)
    error = refused(lambda: embedder.embed(["a"]), "E_EMBEDDER")
    assert "hunter2" not in caplog.text + str(error)


def test_nothing_there_is_a_typed_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        embedder = TeiEmbedder(TeiSettings(url=url, max_retries=1), backoff_seconds=0.01)
        refused(lambda: embedder.space, "E_EMBEDDER")
        assert not embedder.health().ok


def test_a_server_that_hangs_times_out(server):
    embedder = client(server, timeout_seconds=2, max_retries=0)
    assert embedder.space and embedder.health().ok
    server.delay = 60
    assert "2 s" in refused(lambda: embedder.embed(["a"]), "E_EMBEDDER").message


def test_health_names_version_and_model_and_what_is_wrong(server):
    health = client(server).health()
    assert (health.part, health.backend, health.ok, health.version) == (
        "embedder",
        "tei",
        True,
        "1.8.0 fake/bag-of-words",
    )
    assert health.latency_ms is not None and server.requests == 0
    server.healthy = False
    assert "503" in client(server).health().message
    server.healthy, server.model_id = True, ["not", "a", "name"]
    assert "not that of a TEI server" in client(server).health().message


def test_a_server_of_another_kind_of_model_is_told_in_words():
    with FakeTei(kind="reranker") as reranker:
        health = client(reranker).health()
        assert not health.ok and "serves a reranker model" in health.message
        assert "/embed" in refused(lambda: client(reranker).space, "E_EMBEDDER").remedy


def test_the_circuit_is_asked_before_the_server(server, tmp_path):
    leases = FileLeases(tmp_path, 5)
    catalog = open_catalog(Settings(home=tmp_path), leases)
    state = open_state(Settings(home=tmp_path), catalog)
    settings = Settings(home=tmp_path, tei=TeiSettings(url=server.url, max_retries=0))
    embedder = open_embedder(settings, Circuit(Lenient(state), "tei", "default"))
    assert embedder.embed(["a"]).shape == (1, 384)
    server.fail(503, times=50)
    for _ in range(5):
        refused(lambda: embedder.embed(["a"]), "E_EMBEDDER")
    asked = server.requests
    # Another process shares the state and does not ask either.
    other = open_embedder(settings, Circuit(Lenient(open_state(settings, catalog)), "tei", "default"))
    for one in (embedder, other):
        refused(lambda one=one: one.embed(["a"]), "E_CIRCUIT_OPEN")
    assert server.requests == asked
    state.circuit_succeeded("default", "tei")
    server._faults.clear()
    assert embedder.embed(["a"]).shape == (1, 384)
    catalog.close()


def test_a_lone_surrogate_is_named(server):
    assert refused(lambda: client(server).embed(["a", "b\ud800"]), "E_ENCODING").details["index"] == 1


def test_the_query_prefix_is_put_before_queries_only(server):
    embedder = client(server, prefix_query="search for ")
    assert np.allclose(embedder.embed_query("nginx"), server.model.embed(["search for nginx"])[0], atol=1e-6)
    assert np.allclose(embedder.embed(["nginx"]), server.model.embed(["nginx"]), atol=1e-6)


def test_the_setting_chooses_the_embedder(server, tmp_path):
    assert isinstance(open_embedder(Settings(home=tmp_path, tei=TeiSettings(url=server.url))), TeiEmbedder)
    assert (
        type(open_embedder(Settings(home=tmp_path, tei=TeiSettings(url=None)))).__name__ == "MiniLmEmbedder"
    )


def test_texts_that_share_words_are_near_each_other_in_the_fake(server):
    a, b, c = client(server).embed(["restart the nginx proxy", "how to restart nginx", "bananas are yellow"])
    assert a @ b > 0.4 > a @ c
