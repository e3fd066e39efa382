"""What is kept of searches: one maker at a time, bounded, by publication, and nothing of what was erased."""

from __future__ import annotations

import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase, caches
from taboot_pipelines.retrieval.caches import Cache, Kind
from taboot_pipelines.settings import RedisSettings, RetrievalSettings, Settings
from taboot_pipelines.stores.state.keys import CACHE_QUERY
from taboot_pipelines.stores.state.redis import RedisState
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.retrieval.test_filters import Page
from taboot_pipelines_tests.retrieval.test_search import build
from taboot_pipelines_tests.servers import own_redis
from taboot_pipelines_tests.shards.builder import Doc, HashEmbedder
from taboot_pipelines_tests.world import World

TEXT = Kind(CACHE_QUERY, dump=str.encode, load=bytes.decode, size=len)


@pytest.fixture
def ns(redis_url: str) -> Iterator[str]:
    name = f"caches-{uuid.uuid4().hex}"
    yield name
    with redis.Redis.from_url(redis_url) as raw:
        for key in raw.scan_iter(f"taboot:{name}*"):
            raw.delete(key)


def in_redis(url: str, ns: str, max_bytes: int = 1000) -> Cache[str]:
    return Cache(TEXT, ns, max_bytes, RedisState(RedisSettings(url=url, timeout_seconds=30)))


def alone(max_bytes: int = 1000) -> Cache[str]:
    return Cache(TEXT, "n", max_bytes, None)


class Maker:
    def __init__(self, seconds: float = 0.0) -> None:
        self.calls, self._seconds = 0, seconds

    def __call__(self) -> str:
        self.calls += 1
        time.sleep(self._seconds)
        return "made"


@pytest.mark.parametrize("shared", [False, True])
def test_of_many_threads_one_makes_it_and_the_others_wait(
    redis_url: str, ns: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "_PATIENCE_SECONDS", 60.0)
    cache, make, barrier = in_redis(redis_url, ns) if shared else alone(), Maker(0.2), threading.Barrier(12)

    def ask(_: int) -> tuple[str, bool]:
        barrier.wait()
        return cache.get("q", make)

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(ask, range(12)))
    assert make.calls == 1 and {v for v, _ in found} == {"made"} and sum(not known for _, known in found) == 1
    counts = cache.counts()
    assert (counts.hits, counts.misses, counts.entries) == (11, 1, 1)


def test_of_many_processes_one_makes_it(redis_url: str, ns: str, tmp_path: Path) -> None:
    code = f"""
import sys, time
from pathlib import Path
from taboot_pipelines.retrieval import caches
from taboot_pipelines_tests.retrieval.test_caches import in_redis
caches._PATIENCE_SECONDS = 60.0
def make():
    with open({str(tmp_path / "made")!r}, "a") as f:
        f.write("x")
    time.sleep(1.0)
    return "made"
cache = in_redis({redis_url!r}, {ns!r})
Path({str(tmp_path)!r}, "ready-" + sys.argv[1]).touch()
while len(list(Path({str(tmp_path)!r}).glob("ready-*"))) < 3:
    time.sleep(0.01)
print(cache.get("q", make)[0])
"""
    running = [
        subprocess.Popen([*python(), "-c", code, str(n)], stdout=subprocess.PIPE, text=True) for n in range(3)
    ]
    said = [process.communicate(timeout=300)[0].strip() for process in running]
    assert said == ["made"] * 3 and (tmp_path / "made").read_text() == "x"


def test_waiting_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_PATIENCE_SECONDS", 0.05)
    cache, started, release = alone(), threading.Event(), threading.Event()

    def stuck() -> str:
        started.set()
        release.wait(30)
        return "late"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.get, "q", stuck)
        started.wait(30)
        assert cache.get("q", Maker()) == ("made", False)
        release.set()
        assert first.result(30) == ("late", False)


def test_a_failure_is_not_kept_and_keeps_nobody_waiting() -> None:
    cache = alone()

    def fail() -> str:
        raise TabootError("E_EMBEDDER", "down")

    for _ in range(3):
        with pytest.raises(TabootError, match="E_EMBEDDER"):
            cache.get("q", fail)
    assert cache.get("q", Maker()) == ("made", False) and cache.get("q", fail) == ("made", True)
    assert cache.get("r", Maker(), keep=lambda _: False) == ("made", False) and cache.counts().entries == 1


def test_the_least_recently_used_go_first_and_nothing_outgrows_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = alone(max_bytes=100)
    for n in range(10):
        cache.get(f"{n}", lambda: "x" * 29)
        cache.get("0", Maker())
        assert cache.counts().bytes <= 100
    assert cache.counts().entries == 3 and cache.get("0", Maker())[1] and not cache.get("3", Maker())[1]
    assert cache.get("big", lambda: "x" * 200) == ("x" * 200, False) and not cache.get("big", Maker())[1]
    now = time.monotonic()
    monkeypatch.setattr(caches.time, "monotonic", lambda: now + 3601)
    assert not cache.get("0", Maker())[1], "an hour is over"


def test_what_is_not_wanted_any_more_when_it_is_written_is_taken_away(redis_url: str, ns: str) -> None:
    cache = in_redis(redis_url, ns)
    cache.get("q", Maker(), still_wanted=lambda: False)
    with redis.Redis.from_url(redis_url) as raw:
        assert list(raw.scan_iter(f"taboot:{ns}:*")) == []
    cache.get("r", Maker())
    assert cache.counts().entries == 1 and cache.clear(lambda v: v != "made") == 0
    assert cache.clear() == 1 and cache.counts().entries == 0


def opened(home: Path, **retrieval: int) -> KnowledgeBase:
    return KnowledgeBase.open(
        settings=Settings(home=home, retrieval=RetrievalSettings(**retrieval)), embedder=HashEmbedder()
    )


def test_an_equal_search_is_answered_from_the_cache_until_something_is_published(tmp_path: Path) -> None:
    kb = build(tmp_path, [Doc("a.md", "redis backup")])
    first, second = kb.search("redis  backup"), kb.search(" redis backup ")
    assert first == second and (first.cached, second.cached) == (False, True)
    for options in ({"limit": 3}, {"source": "docs"}, {"mode": "keyword"}, {"cache": False}, {"expand": 1}):
        assert not kb.search("redis backup", **options).cached
    assert kb.search("redis backup").cached
    build(tmp_path, [Doc("a.md", "redis backup"), Doc("b.md", "redis more")])
    third = kb.search("redis backup")
    assert not third.cached and len(third) == 2
    (stats,) = [s for s in kb.cache_stats() if s.kind == "results"]
    assert (stats.store, stats.hits, stats.misses, stats.entries) == ("process", 2, 6, 1) and stats.bytes > 0
    assert kb.clear_cache("results") == {"results": 1} and not kb.search("redis backup").cached


def test_nothing_is_kept_where_that_is_set(tmp_path: Path) -> None:
    build(tmp_path, [Doc("a.md", "redis backup")])
    kb = opened(tmp_path, cache_mb=0)
    assert [kb.search("redis").cached for _ in range(3)] == [False] * 3
    assert [s.kind for s in kb.cache_stats()] == [] and kb.clear_cache() == {"results": 0, "embeddings": 0}


def test_results_are_cleared_by_domain(tmp_path: Path) -> None:
    kb = build(
        tmp_path,
        [
            Page("a", "redis here", url="https://docs.example.org/a"),
            Page("b", "nginx there", url="https://example.org/b"),
            Doc("c.md", "redis and nginx"),
        ],
    )
    for query in ("redis", "nginx", "backup"):
        kb.search(query, mode="keyword")
    assert kb.clear_cache(domain="DOCS.example.org") == {"results": 1}
    assert [kb.search(q, mode="keyword").cached for q in ("redis", "nginx", "backup")] == [False, True, True]
    for arguments, said in (
        ({"kind": "result"}, "Did you mean 'results'"),
        ({"domain": " "}, "domain must"),
        ({"kind": "embeddings", "domain": "x"}, "domain must not"),
    ):
        with pytest.raises(TabootError, match=said):
            kb.clear_cache(**arguments)


def test_queries_are_embedded_once_whatever_else_is_asked(world: World, tei: FakeTei) -> None:
    (world.source("docs") / "a.md").write_text("# A\n\nredis backup\n")
    world.ingest()
    kb, before = world.kb(), tei.texts
    found = [kb.search("redis", limit) for limit in (1, 2, 3)]
    assert tei.texts - before == 1 and [f.embedding_cached for f in found] == [False, True, True]
    (stats,) = [s for s in kb.cache_stats() if s.kind == "embeddings"]
    assert (stats.store, stats.hits, stats.misses, stats.entries) == ("process", 2, 1, 1)
    assert kb.clear_cache("embeddings") == {"embeddings": 1}


@pytest.mark.server
def test_other_processes_share_results_in_redis_and_an_erasure_takes_them_away(
    tmp_path: Path, tei: FakeTei
) -> None:
    with own_redis(tmp_path) as server:
        world = World(tmp_path, tei.url, redis={"url": server.url, "timeout_seconds": 4})
        source = world.source("docs")
        (source / "secret.md").write_text("# A page\n\nThe grafana password is tangerine.\n")
        (source / "other.md").write_text("# Other\n\nNothing of it.\n")
        world.ingest()
        first, second = world.kb(), world.kb()
        found = first.search("grafana password")
        again = second.search("grafana password")
        assert again == found and again.cached and not found.cached
        with redis.Redis.from_url(server.url) as raw:
            held = list(raw.scan_iter("taboot:default:cache:query:*"))
            assert held and all(0 < raw.ttl(k) <= 3600 for k in held)
            doc_id = next(h.doc_id for h in found.hits if "tangerine" in h.text)
            receipt = first.delete([doc_id], erase=True)
            assert receipt.final and receipt.stores["caches"] == "done"
            assert list(raw.scan_iter("taboot:default:cache:query:*")) == []
        for kb in (first, second, world.kb()):
            assert all("tangerine" not in h.text for h in kb.search("grafana password").hits)
        rest = next(iter(world.kb().documents().column("doc_id").to_pylist()))
        server.stop()
        receipt = first.delete([rest], erase=True)
        assert receipt.stores["caches"] == "pending" and not receipt.final
        world.workspace.close()
