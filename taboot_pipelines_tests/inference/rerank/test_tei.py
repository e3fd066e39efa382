"""The reranker's client over real HTTP against the fake server: order, batches, splitting, typed failures."""

from __future__ import annotations

import time

import numpy as np
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.rerank import open_reranker
from taboot_pipelines.inference.rerank.tei import TeiReranker
from taboot_pipelines.settings import RerankerSettings, Settings, TorchSettings
from taboot_pipelines_tests.fakes.tei import FakeTei, overlap

QUERY = "restart the nginx proxy"
TEXTS = [f"{'restart ' * (i % 2)}{'nginx ' * (i % 3)}text number {i}" for i in range(100)]


@pytest.fixture
def server():
    with FakeTei(kind="reranker") as fake:
        yield fake


def client(fake: FakeTei, **settings) -> TeiReranker:
    return TeiReranker(RerankerSettings(url=fake.url, **{"max_retries": 2, **settings}), backoff_seconds=0.01)


def refused(call, code: str) -> TabootError:
    with pytest.raises(TabootError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


def test_scores_are_those_of_the_texts_whatever_order_the_server_answers_in(server):
    scores = client(server).rank(QUERY, TEXTS)
    assert scores.dtype == np.float64 and np.allclose(scores, [overlap(QUERY, text) for text in TEXTS])
    assert sorted(server.batches) == [4, 32, 32, 32]
    assert client(server).rank(QUERY, []).shape == (0,) and server.requests == 4


def test_concurrency_is_used_and_bounded(server):
    server.delay = 0.05
    client(server, max_concurrency=3).rank(QUERY, TEXTS * 3)
    assert 2 <= server.max_in_flight <= 3


def test_a_payload_that_is_too_large_is_halved(server):
    server.payload_limit = 800
    assert np.allclose(client(server).rank(QUERY, TEXTS), [overlap(QUERY, text) for text in TEXTS])
    assert max(server.batches) < 32
    error = refused(lambda: client(server).rank(QUERY, ["a", "hush " * 500]), "E_RERANKER")
    assert error.details["index"] == 1 and "hush" not in str(error)


def test_a_long_text_is_cut_off_by_the_server(server):
    server.max_input_length = 10
    assert client(server).rank(QUERY, ["restart " + "word " * 50])[0] == 0.25


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again(server, status):
    server.fail(status, times=2)
    assert client(server).rank(QUERY, ["nginx"])[0] == 0.25


@pytest.mark.parametrize("how", ["nan", "text", "twice", "count", "short", "ragged", "shape", "json"])
def test_rubbish_is_never_a_score(server, how):
    server.corrupt(how)
    error = refused(lambda: client(server).rank(QUERY, TEXTS[:5]), "E_RERANKER")
    if how in ("nan", "text"):
        assert "index" in error.details


def test_an_answer_that_is_too_large_is_refused_once(server):
    server.corrupt("huge")
    assert "exceeds" in refused(lambda: client(server).rank(QUERY, ["a"]), "E_RERANKER").message
    assert server.requests == 1


def test_an_answer_that_drips_meets_the_time_limit(server):
    reranker = client(server, timeout_seconds=0.5, max_retries=0)
    reranker.rank(QUERY, ["a"])
    server.corrupt("drip")
    begin = time.monotonic()
    assert "0.5 s" in refused(lambda: reranker.rank(QUERY, ["a"]), "E_RERANKER").message
    assert time.monotonic() - begin < 50, "the header ends after a minute"


def test_a_model_that_cannot_rank_is_told_in_words():
    with FakeTei() as embedding:
        assert "/rerank" in refused(lambda: client(embedding).rank(QUERY, ["a"]), "E_RERANKER").remedy
        health = client(embedding).health()
        assert not health.ok and "serves an embedding model" in health.message


def test_health_names_version_and_model_and_what_is_wrong(server):
    health = client(server).health()
    assert (health.part, health.ok, health.version) == ("reranker", True, "1.8.0 fake/bag-of-words")
    server.healthy = False
    assert "503" in client(server).health().message
    assert server.requests == 0


def test_a_lone_surrogate_is_named(server):
    assert refused(lambda: client(server).rank(QUERY, ["a", "b\ud800"]), "E_ENCODING").details["index"] == 1
    assert "query" in refused(lambda: client(server).rank("\udfff", ["a"]), "E_ENCODING").message


def test_settings_choose_and_two_are_refused(server, tmp_path):
    assert open_reranker(Settings(home=tmp_path)) is None
    assert isinstance(
        open_reranker(Settings(home=tmp_path, reranker=RerankerSettings(url=server.url))), TeiReranker
    )
    torch = open_reranker(Settings(home=tmp_path, reranker=RerankerSettings(torch=TorchSettings(model="m"))))
    assert type(torch).__name__ == "TorchReranker"
    both = Settings(home=tmp_path, reranker=RerankerSettings(url=server.url, torch=TorchSettings(model="m")))
    assert "TABOOT_RERANKER__TORCH__MODEL" in refused(lambda: open_reranker(both), "E_CONFIG").message
    assert (
        "TABOOT_RERANKER__URL"
        in refused(lambda: TeiReranker(RerankerSettings(url="nonsense")), "E_CONFIG").message
    )
