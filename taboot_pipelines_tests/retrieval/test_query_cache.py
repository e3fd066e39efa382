"""Vectors of queries in Redis: one request of the embedding server for all processes, and none of Redis'
faults seen by a search.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

from taboot_pipelines.embedding.protocol import Space, Vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import caches
from taboot_pipelines.retrieval.query_vectors import QueryCache, open_query_cache
from taboot_pipelines.settings import load_settings
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.servers import own_redis
from taboot_pipelines_tests.world import World

SPACE = Space("acme/model", "r1", 8, 254)


class Embed:
    """Counts its calls; a text's vector is its own."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.calls: list[str] = []
        self._seconds = seconds

    def __call__(self, text: str) -> Vectors:
        self.calls.append(text)
        time.sleep(self._seconds)
        raw = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32).astype(np.float32)
        vector: Vectors = raw / np.linalg.norm(raw)
        return vector


@pytest.fixture
def ns(redis_url: str) -> Iterator[str]:
    name = f"query-cache-{uuid.uuid4().hex}"
    yield name
    with redis.Redis.from_url(redis_url) as raw:
        for key in raw.scan_iter(f"taboot:{name}*"):
            raw.delete(key)


def opened(url: str, ns: str, prefix: str = "") -> QueryCache:
    found = open_query_cache(
        load_settings(
            redis={"url": url, "timeout_seconds": 30},
            tei={"url": "http://127.0.0.1:1", "prefix_query": prefix},
        ),
        ns,
    )
    assert found is not None
    return found


def test_a_vector_is_made_once_and_comes_back_bit_by_bit(redis_url: str, ns: str) -> None:
    embed, one, other = Embed(), opened(redis_url, ns), opened(redis_url, ns)
    made = [cache.vector(SPACE, "where is grafana?", embed) for cache in (one, one, other, other)]
    assert embed.calls == ["where is grafana?"]
    assert all(v.dtype == np.float32 and np.array_equal(v, Embed()("where is grafana?")) for v in made)
    with redis.Redis.from_url(redis_url) as raw:
        (key,) = raw.scan_iter(f"taboot:{ns}:*")
        assert 86000 < raw.ttl(key) <= 86400 and b"grafana" not in key
        kept = json.loads(raw.get(key) or b"")
        assert set(kept) == {"embedding", "model"} and kept["model"] == SPACE.id


def test_spaces_prefixes_namespaces_and_texts_are_kept_apart(redis_url: str, ns: str) -> None:
    embed = Embed()
    for cache in (opened(redis_url, ns), opened(redis_url, ns, "query: "), opened(redis_url, ns + "-b")):
        for space in (SPACE, Space("acme/model", "r2", 8, 254), Space("other/model", "r1", 8, 254)):
            cache.vector(space, "a", embed)
            cache.vector(space, "a ", embed)
    assert len(embed.calls) == 18


def test_many_processes_that_miss_at_once_ask_once(
    redis_url: str, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "_PATIENCE_SECONDS", 60.0)
    embed = Embed(seconds=0.3)
    readers = [opened(redis_url, ns) for _ in range(6)]
    barrier = threading.Barrier(6)

    def ask(cache: QueryCache) -> Vectors:
        barrier.wait()
        return cache.vector(SPACE, "q", embed)

    with ThreadPoolExecutor(6) as pool:
        vectors = list(pool.map(ask, readers))
    assert embed.calls == ["q"] and all(np.array_equal(v, vectors[0]) for v in vectors)


def test_a_failure_is_not_kept_and_frees_the_lock(redis_url: str, ns: str) -> None:
    cache = opened(redis_url, ns)

    def fail(_: str) -> Vectors:
        raise TabootError("E_EMBEDDER", "down")

    with pytest.raises(TabootError, match="E_EMBEDDER"):
        cache.vector(SPACE, "q", fail)
    with redis.Redis.from_url(redis_url) as raw:
        assert list(raw.scan_iter(f"taboot:{ns}:*")) == []
    embed = Embed()
    cache.vector(SPACE, "q", embed)
    assert embed.calls == ["q"]


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"[",
        b"[]",
        b'{"embedding": [1, 2], "model": "x"}',
        b'{"embedding": "x", "model": "MODEL"}',
        b'{"embedding": [1, 2], "model": "MODEL"}',
        b'{"model": "MODEL"}',
        b'{"embedding": [[1],[1,2]], "model": "MODEL"}',
    ],
)
def test_what_is_no_vector_is_made_again(redis_url: str, ns: str, junk: bytes) -> None:
    opened(redis_url, ns).vector(SPACE, "q", Embed())
    with redis.Redis.from_url(redis_url) as raw:
        (key,) = raw.scan_iter(f"taboot:{ns}:*")
        raw.set(key, junk.replace(b"MODEL", SPACE.id.encode()))
    embed = Embed()
    assert np.array_equal(opened(redis_url, ns).vector(SPACE, "q", embed), Embed()("q")) and embed.calls == [
        "q"
    ]


def test_only_a_server_behind_redis_is_cached() -> None:
    assert open_query_cache(load_settings(), "n") is None
    assert open_query_cache(load_settings(redis={"url": "redis://127.0.0.1:1"}), "n") is None
    assert open_query_cache(load_settings(tei={"url": "http://127.0.0.1:1"}), "n") is None


@pytest.mark.server
def test_searches_of_two_readers_ask_the_embedder_once_and_survive_redis(
    tmp_path: Path, tei: FakeTei
) -> None:
    with own_redis(tmp_path) as server:
        world = World(tmp_path, tei.url, redis={"url": server.url, "timeout_seconds": 4})
        (world.source("docs") / "d.md").write_text("# A page\n\nThe grafana service listens on port 3000.\n")
        world.ingest("docs")

        def embedded(kb: Any, query: str) -> tuple[int, Any]:
            before = tei.texts
            found = kb.search(query)
            return tei.texts - before, [(h.chunk_id, h.score) for h in found.hits]

        asked, hits = embedded(world.kb(), "where does grafana listen?")
        assert asked == 1 and hits
        assert embedded(world.kb(), "where does grafana listen?") == (0, hits), "another reader asks nobody"
        server.stop()
        assert embedded(world.kb(), "where does grafana listen?") == (1, hits)
        world.workspace.close()
