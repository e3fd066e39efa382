"""One suite for every state backend: the catalog on SQLite and on PostgreSQL, and Redis."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import keys, protocol
from taboot_pipelines.stores.state.protocol import State
from taboot_pipelines_tests.stores.roles import with_roles
from taboot_pipelines_tests.stores.state_worker import let_pass, open_backend, set_clock_back, take

BACKENDS = ("catalog-sqlite", "catalog-postgres", "redis")


def _where(backend: str, request: pytest.FixtureRequest, tmp: Path) -> str:
    if backend == "catalog-sqlite":
        return str(tmp)
    if backend == "redis":
        return str(request.getfixturevalue("redis_url"))
    # The application's role, which row-level security binds; the owner's migrates once, so that what is
    # opened later finds it so.
    roles = with_roles(request.getfixturevalue("postgres"), "state_suite")
    catalog = open_catalog(
        Settings(home=tmp, catalog_url=roles.app, catalog_admin_url=roles.owner), FileLeases(tmp, 5)
    )
    catalog.sources.find()
    catalog.close()
    return roles.app


@pytest.fixture(scope="module")
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    found: dict[str, str] = {}

    def place(backend: str) -> str:
        if backend not in found:
            found[backend] = _where(backend, request, tmp_path_factory.mktemp(backend))
        return found[backend]

    return place


@pytest.fixture(
    params=[b if b == "catalog-sqlite" else pytest.param(b, marks=pytest.mark.server) for b in BACKENDS]
)
def place(request: pytest.FixtureRequest, places: Callable[[str], str]) -> tuple[str, str]:
    return request.param, places(request.param)


@pytest.fixture
def state(place: tuple[str, str]) -> Iterator[State]:
    opened = open_backend(*place)
    yield opened
    opened.close()


@pytest.fixture
def ns() -> str:
    """A namespace that no other test uses: servers are shared."""
    return f"n{uuid.uuid4().hex[:12]}"


# --- values -------------------------------------------------------------------------------------------------


def test_a_value_is_there_until_its_time_is_over(state: State, ns: str) -> None:
    state.set(ns, "cache:query:a", b"short", 60)
    state.set(ns, "cache:query:b", b"long", 3600)
    assert (state.get(ns, "cache:query:a"), state.get(ns, "cache:query:b")) == (b"short", b"long")
    let_pass(state, ns, 60)
    assert (state.get(ns, "cache:query:a"), state.get(ns, "cache:query:b")) == (None, b"long")
    state.set(ns, "cache:query:a", b"again", 60)
    assert state.get(ns, "cache:query:a") == b"again"
    # And by the backend's own clock.
    state.set(ns, "cache:query:c", b"gone", 0.05)
    end = time.monotonic() + 60
    while state.get(ns, "cache:query:c") is not None:
        assert time.monotonic() < end, "it never expires"


def test_setting_again_replaces_the_value_and_its_time(state: State, ns: str) -> None:
    state.set(ns, "job:1", b"one", 0.1)
    state.set(ns, "job:1", b"two", 60)
    time.sleep(0.15)
    assert state.get(ns, "job:1") == b"two"
    state.set(ns, "job:1", b"three", 0.01)
    time.sleep(0.05)
    assert state.get(ns, "job:1") is None


def test_delete_counts_what_was_alive(state: State, ns: str) -> None:
    state.set(ns, "job:1", b"", 60)
    state.set(ns, "job:2", b"2", 0.01)
    state.set(ns, "job:3", b"3", 60)
    time.sleep(0.05)
    assert state.get(ns, "job:1") == b""
    assert state.delete(ns, ["job:1", "job:2", "job:9"]) == 1
    assert state.get(ns, "job:1") is None and state.get(ns, "job:3") == b"3"
    assert state.delete(ns, []) == 0


@pytest.mark.parametrize(
    "value",
    [b"\x00\xff" * 9000, gzip.compress(b"looks packed", mtime=0), b"\x1f\x8b", b"x" * 200_000],
    ids=["large", "gzip", "magic", "repeated"],
)
def test_any_bytes_come_back_as_they_were(state: State, ns: str, value: bytes) -> None:
    state.set(ns, "cache:crawl:x", value, 60)
    assert state.get(ns, "cache:crawl:x") == value


def test_a_value_of_more_than_50_mb_is_refused(state: State, ns: str) -> None:
    with pytest.raises(TabootError, match="E_TOO_LARGE"):
        state.set(ns, "cache:crawl:x", bytes(protocol.MAX_BYTES + 1), 60)
    assert state.get(ns, "cache:crawl:x") is None


def test_packing_shortens_and_survives_damage() -> None:
    packed = protocol.pack(b"a" * 50_000)
    assert len(packed) < 1000 and protocol.unpack(packed) == b"a" * 50_000
    assert protocol.pack(b"a" * protocol.COMPRESS_BYTES) == b"a" * protocol.COMPRESS_BYTES
    assert protocol.unpack(packed[:-4]) is None and protocol.unpack(b"\x1f\x8bnonsense") is None


# --- locks --------------------------------------------------------------------------------------------------


def test_one_holder_at_a_time(state: State, ns: str) -> None:
    with state.lock(ns, "lock:query:x", 30) as first:
        with state.lock(ns, "lock:query:x", 30) as second, state.lock(ns, "lock:query:y", 30) as other:
            assert (first, second, other) == (True, False, True)
        with state.lock(ns, "lock:query:x", 30) as third:
            assert not third, "who never held the lock released it"
    with state.lock(ns, "lock:query:x", 30) as after:
        assert after


def test_a_lock_that_ran_out_is_not_released_by_its_old_holder(state: State, ns: str) -> None:
    late = state.lock(ns, "lock:crawl:x", 0.05)
    assert late.__enter__()
    time.sleep(0.1)
    with state.lock(ns, "lock:crawl:x", 30) as taken:
        assert taken
        late.__exit__(None, None, None)
        with state.lock(ns, "lock:crawl:x", 30) as third:
            assert not third


def test_a_failure_inside_releases_the_lock(state: State, ns: str) -> None:
    with pytest.raises(RuntimeError), state.lock(ns, "lock:crawl:x", 30):
        raise RuntimeError
    with state.lock(ns, "lock:crawl:x", 30) as held:
        assert held


def test_of_many_threads_one_gets_the_lock(state: State, ns: str) -> None:
    barrier = threading.Barrier(8)

    with ThreadPoolExecutor(8) as pool, ExitStack() as until_the_end:

        def attempt(_: int) -> bool:
            barrier.wait()
            return until_the_end.enter_context(state.lock(ns, "lock:query:x", 30))

        assert sum(pool.map(attempt, range(8))) == 1


# --- token buckets ------------------------------------------------------------------------------------------


def test_a_bucket_gives_its_burst_and_then_its_rate(state: State, ns: str) -> None:
    given_ = [state.take_tokens(ns, "rate:a", rate=0.001, burst=3).allowed for _ in range(5)]
    assert given_ == [True, True, True, False, False]
    refused = state.take_tokens(ns, "rate:a", rate=0.001, burst=3)
    assert 900 < refused.wait_seconds <= 1000 and 0 <= refused.remaining < 0.1
    assert state.take_tokens(ns, "rate:b", rate=0.001, burst=3, tokens=2).remaining == pytest.approx(
        1, abs=0.01
    )


def test_a_bucket_fills_again(state: State, ns: str) -> None:
    assert state.take_tokens(ns, "rate:a", rate=0.02, burst=2, tokens=2).allowed
    refused = state.take_tokens(ns, "rate:a", rate=0.02, burst=2)
    assert not refused.allowed and 25 < refused.wait_seconds <= 50
    let_pass(state, ns, refused.wait_seconds / 2)
    assert not state.take_tokens(ns, "rate:a", rate=0.02, burst=2).allowed
    let_pass(state, ns, refused.wait_seconds / 2)
    assert state.take_tokens(ns, "rate:a", rate=0.02, burst=2).allowed
    let_pass(state, ns, 3600)
    assert state.take_tokens(ns, "rate:a", rate=0.02, burst=2).remaining == pytest.approx(1, abs=0.01), (
        "it never holds more than its burst"
    )


def test_more_than_the_burst_is_never_given(state: State, ns: str) -> None:
    asked = state.take_tokens(ns, "rate:a", rate=5, burst=2, tokens=3)
    assert not asked.allowed and asked.wait_seconds == float("inf")
    stopped = state.take_tokens(ns, "rate:b", rate=0, burst=0)
    assert not stopped.allowed and stopped.wait_seconds == float("inf")


def test_eight_threads_get_no_more_than_burst_and_rate_allow(state: State, ns: str) -> None:
    rate, burst, seconds = 50.0, 10.0, 0.6
    start = time.monotonic()

    def work(_: int) -> int:
        taken, asked = 0, 0
        # Each asks as often as the burst is large, however slow the machine is.
        while time.monotonic() - start < seconds or asked < burst:
            asked += 1
            taken += state.take_tokens(ns, "rate:a", rate=rate, burst=burst).allowed
        return taken

    with ThreadPoolExecutor(8) as pool:
        taken = sum(pool.map(work, range(8)))
    assert burst <= taken <= burst + rate * (time.monotonic() - start)


def test_four_processes_get_no_more_than_burst_and_rate_allow(place: tuple[str, str], ns: str) -> None:
    rate, burst = 40.0, 10.0
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([take.__module__, "redis", "psycopg"])
    with ProcessPoolExecutor(4, mp_context=processes) as pool:
        taken = [pool.submit(take, *place, ns, rate, burst, 0.5) for _ in range(4)]
        counts = [t.result() for t in taken]
    assert sum(c for c, _, _ in counts) >= burst
    elapsed = max(end for *_, end in counts) - min(start for _, start, _ in counts)
    assert sum(c for c, _, _ in counts) <= burst + rate * elapsed


# --- queues -------------------------------------------------------------------------------------------------


def test_members_are_due_in_order_and_stay_until_taken_out(state: State, ns: str) -> None:
    state.enqueue(ns, "dlq:pending", {"c": 30.5, "a": 10.0, "Z": 20.0, "b": 20.0, "ä": 20.0})
    assert state.due(ns, "dlq:pending", 9.9) == []
    assert state.due(ns, "dlq:pending", 20.0) == ["a", "Z", "b", "ä"], "ties by code point"
    assert state.due(ns, "dlq:pending", 1e12, limit=2) == ["a", "Z"]
    assert state.dequeue(ns, "dlq:pending", ["a", "nobody"]) == 1
    assert list(state.queued(ns, "dlq:pending").items()) == [
        ("Z", 20.0),
        ("b", 20.0),
        ("ä", 20.0),
        ("c", 30.5),
    ]


def test_a_member_that_is_there_moves(state: State, ns: str) -> None:
    state.enqueue(ns, "queue:qdrant_retry", {"x": 1790000000.123456, "y": 5.0})
    state.enqueue(ns, "queue:qdrant_retry", {"x": 1.5})
    state.enqueue(ns, "queue:qdrant_retry", {})
    assert state.queued(ns, "queue:qdrant_retry") == {"x": 1.5, "y": 5.0}
    assert state.queued(ns, "queue:webhook_retry") == {}


def test_long_queues_and_concurrent_writers_lose_nothing(state: State, ns: str) -> None:
    members = {f"m{i:04}": float(i % 7) for i in range(1200)}

    def work(part: int) -> None:
        state.enqueue(
            ns, "dlq:pending", {m: at for i, (m, at) in enumerate(members.items()) if i % 4 != part}
        )
        state.dequeue(ns, "dlq:pending", [f"x{i}" for i in range(50)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert state.queued(ns, "dlq:pending") == members
    assert state.dequeue(ns, "dlq:pending", members) == 1200 and state.queued(ns, "dlq:pending") == {}


# --- circuits -----------------------------------------------------------------------------------------------


def test_a_circuit_opens_rests_lets_one_try_and_closes(state: State, ns: str) -> None:
    said = [state.circuit_failed(ns, "circuit:x", threshold=3, rest_seconds=60) for _ in range(3)]
    assert said == [False, False, True]
    assert 0 < state.circuit_open(ns, "circuit:x") <= 60 and state.circuit_open(ns, "circuit:y") == 0
    let_pass(state, ns, 60)
    waits = [state.circuit_open(ns, "circuit:x") for _ in range(3)]
    assert waits[0] == 0 and all(0 < w <= 60 for w in waits[1:]), "half open: one may try"
    state.circuit_succeeded(ns, "circuit:x")
    assert [state.circuit_open(ns, "circuit:x") for _ in range(3)] == [0, 0, 0]
    assert not state.circuit_failed(ns, "circuit:x", threshold=3, rest_seconds=0.3), (
        "its failures are forgotten"
    )


def test_to_look_at_circuits_takes_no_trial(state: State, ns: str) -> None:
    for name, rest in (("circuit:long", 60), ("circuit:over", 0.1)):
        state.circuit_failed(ns, name, threshold=1, rest_seconds=rest)
    state.circuit_failed(ns, "circuit:closed", threshold=3)
    state.set(ns, "cache:query:x", b"value", 60)
    time.sleep(0.15)
    for _ in range(2):
        resting = state.resting(ns)
        assert resting.keys() == {"circuit:long", "circuit:over"}
        assert 50 < resting["circuit:long"] <= 60 and resting["circuit:over"] == 0
    assert state.circuit_open(ns, "circuit:over") == 0
    state.circuit_succeeded(ns, "circuit:long")
    assert state.resting(ns).keys() == {"circuit:over"}


def test_a_failed_trial_opens_the_circuit_again_at_once(state: State, ns: str) -> None:
    for _ in range(2):
        state.circuit_failed(ns, "circuit:x", threshold=2, rest_seconds=0.1)
    time.sleep(0.12)
    assert state.circuit_open(ns, "circuit:x") == 0
    assert state.circuit_failed(ns, "circuit:x", threshold=2, rest_seconds=60)
    assert 50 < state.circuit_open(ns, "circuit:x") <= 60


def test_a_trial_that_says_nothing_is_followed_by_another(state: State, ns: str) -> None:
    state.circuit_failed(ns, "circuit:x", threshold=1, rest_seconds=60)
    for _ in range(2):
        assert state.circuit_open(ns, "circuit:x") > 0
        let_pass(state, ns, 60)
        assert state.circuit_open(ns, "circuit:x") == 0
        assert state.circuit_open(ns, "circuit:x") > 0


def test_of_many_threads_one_may_try(state: State, ns: str) -> None:
    state.circuit_failed(ns, "circuit:x", threshold=1, rest_seconds=60)
    let_pass(state, ns, 60)
    barrier = threading.Barrier(8)

    def ask(_: int) -> float:
        barrier.wait()
        return state.circuit_open(ns, "circuit:x")

    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(ask, range(8)))
    assert waits.count(0) == 1


def test_failures_of_many_threads_are_all_counted(state: State, ns: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        said = list(
            pool.map(
                lambda _: state.circuit_failed(ns, "circuit:x", threshold=20, rest_seconds=60), range(20)
            )
        )
    assert said.count(True) == 1


# --- namespaces, names, health ------------------------------------------------------------------------------


# --- a clock that does not only go on -----------------------------------------------------------------------

SIX_HOURS = 6 * 3600.0


def use_up(state: State, ns: str) -> None:
    while state.take_tokens(ns, "rate:a", rate=0.05, burst=3).allowed:
        pass


@pytest.mark.parametrize("steps", [(SIX_HOURS,), (-SIX_HOURS, SIX_HOURS), (SIX_HOURS, SIX_HOURS)])
def test_a_clock_that_steps_back_stops_nothing(state: State, ns: str, steps: tuple[float, ...]) -> None:
    """Set back by six hours; set forward and then right; set back twice."""
    dead = []
    for step in steps:
        use_up(state, ns)
        for _ in range(2):
            state.circuit_failed(ns, "circuit:a", threshold=2, rest_seconds=30)
        # Its holder ended without letting go.
        dead.append(state.lock(ns, "lock:query:a", 30))
        assert dead[-1].__enter__()
        set_clock_back(state, ns, step)
        if step < 0:
            # It goes forward: all is refilled, rested and run out.
            assert state.take_tokens(ns, "rate:a", rate=0.05, burst=3).remaining <= 2
            assert state.circuit_open(ns, "circuit:a") == 0
            with state.lock(ns, "lock:query:a", 30) as held:
                assert held
            continue
        given = state.take_tokens(ns, "rate:a", rate=0.05, burst=3)
        assert not given.allowed and given.remaining <= 3 and given.wait_seconds <= 20
        assert 0 <= state.circuit_open(ns, "circuit:a") <= 30
        with state.lock(ns, "lock:query:a", 30) as held:
            assert not held
        let_pass(state, ns, 45)
        assert state.take_tokens(ns, "rate:a", rate=0.05, burst=3).allowed
        assert state.circuit_open(ns, "circuit:a") == 0
        with state.lock(ns, "lock:query:a", 30) as held:
            assert held
        state.circuit_succeeded(ns, "circuit:a")


def test_failures_of_the_future_are_forgotten_in_their_time(state: State, ns: str) -> None:
    assert not state.circuit_failed(ns, "circuit:a", threshold=3, rest_seconds=0.2)
    set_clock_back(state, ns, SIX_HOURS)
    assert not state.circuit_failed(ns, "circuit:a", threshold=3, rest_seconds=0.2)
    set_clock_back(state, ns, -2 * 3600.0)
    assert not state.circuit_failed(ns, "circuit:a", threshold=2, rest_seconds=0.2)


def test_namespaces_see_nothing_of_each_other(state: State, ns: str) -> None:
    other = ns + "-b"
    state.set(ns, "job:1", b"mine", 60)
    state.enqueue(ns, "dlq:pending", {"m": 1.0})
    state.circuit_failed(ns, "circuit:x", threshold=1, rest_seconds=60)
    state.take_tokens(ns, "rate:x", rate=0.001, burst=1)
    with state.lock(ns, "lock:crawl:x", 60):
        assert state.get(other, "job:1") is None and state.delete(other, ["job:1"]) == 0
        assert state.queued(other, "dlq:pending") == {} and state.dequeue(other, "dlq:pending", ["m"]) == 0
        assert state.due(other, "dlq:pending", 9e9) == []
        assert state.circuit_open(other, "circuit:x") == 0
        assert state.take_tokens(other, "rate:x", rate=0.001, burst=1).allowed
        with state.lock(other, "lock:crawl:x", 60) as held:
            assert held
        state.circuit_succeeded(other, "circuit:x")
    assert state.get(ns, "job:1") == b"mine" and state.circuit_open(ns, "circuit:x") > 0


@pytest.mark.parametrize("bad", ["", "a:b", "A", "a b", "a\n", "*", "ns\x00"])
def test_what_is_no_namespace_reaches_no_key(state: State, bad: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: state.get(bad, "job:1"),
        lambda: state.set(bad, "job:1", b"", 1),
        lambda: state.delete(bad, ["job:1"]),
        lambda: state.queued(bad, "q"),
        lambda: state.lock(bad, "lock:x", 1).__enter__(),
        lambda: state.take_tokens(bad, "rate:x", rate=1, burst=1),
        lambda: state.enqueue(bad, "q", {"m": 1}),
        lambda: state.due(bad, "q", 1),
        lambda: state.dequeue(bad, "q", ["m"]),
        lambda: state.circuit_open(bad, "circuit:x"),
        lambda: state.circuit_failed(bad, "circuit:x"),
        lambda: state.circuit_succeeded(bad, "circuit:x"),
        lambda: state.resting(bad),
    ]
    for call in calls:
        with pytest.raises(TabootError, match="E_NAMESPACE"):
            call()


@pytest.mark.parametrize("bad", ["", "a\x00b", "\ud800", "x" * 2000])
def test_a_name_that_no_store_takes_is_a_typed_error(state: State, ns: str, bad: str) -> None:
    for call in (
        lambda: state.get(ns, bad),
        lambda: state.enqueue(ns, "q", {bad: 1.0}),
        lambda: state.set(ns, bad, b"", 1),
        lambda: state.circuit_failed(ns, bad),
    ):
        with pytest.raises(TabootError, match="E_INTERNAL"):
            call()
    with pytest.raises(TabootError, match="E_INTERNAL"):
        state.enqueue(ns, "q", {"m": float("nan")})


def test_a_backend_that_answers_is_well(state: State, place: tuple[str, str]) -> None:
    health = state.health()
    assert health.ok and health.part == "state" and health.message == ""
    assert health.backend == ("redis" if place[0] == "redis" else "catalog")


# --- the backends agree -------------------------------------------------------------------------------------

_NAMES = st.sampled_from(["a", "b", "ä", "B"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), _NAMES, st.binary(max_size=20)),
        st.tuples(st.just("get"), _NAMES),
        st.tuples(st.just("delete"), st.lists(_NAMES, unique=True)),
        st.tuples(st.just("enqueue"), st.dictionaries(_NAMES, st.floats(-1e10, 1e10))),
        st.tuples(st.just("due"), st.floats(-1e10, 1e10), st.integers(0, 5)),
        st.tuples(st.just("dequeue"), st.lists(_NAMES, unique=True)),
        st.tuples(st.just("queued")),
        st.tuples(st.just("fail"), _NAMES),
        st.tuples(st.just("succeed"), _NAMES),
        st.tuples(st.just("closed"), _NAMES),
        st.tuples(st.just("take"), _NAMES, st.integers(1, 3)),
    ),
    max_size=25,
)


def _step(state: State, ns: str, step: tuple[Any, ...]) -> Any:
    match step:
        case ("set", name, value):
            return state.set(ns, f"job:{name}", value, 600)
        case ("get", name):
            return state.get(ns, f"job:{name}")
        case ("delete", names):
            return state.delete(ns, [f"job:{n}" for n in names])
        case ("enqueue", due):
            return state.enqueue(ns, "dlq:pending", due)
        case ("due", now, limit):
            return state.due(ns, "dlq:pending", now, limit)
        case ("dequeue", names):
            return state.dequeue(ns, "dlq:pending", names)
        case ("queued",):
            return list(state.queued(ns, "dlq:pending").items())
        case ("fail", name):
            return state.circuit_failed(ns, f"circuit:{name}", threshold=2, rest_seconds=600)
        case ("succeed", name):
            return state.circuit_succeeded(ns, f"circuit:{name}")
        case ("closed", name):
            return state.circuit_open(ns, f"circuit:{name}") == 0
        case ("take", name, tokens):
            taken = state.take_tokens(ns, f"rate:{name}", rate=1e-6, burst=4, tokens=tokens)
            return taken.allowed, round(taken.remaining, 3)
    raise AssertionError(step)


@pytest.mark.server
def test_any_sequence_gives_the_same_answers_on_every_backend(places: Callable[[str], str]) -> None:
    states = {b: open_backend(b, places(b)) for b in BACKENDS}

    @given(_STEPS)
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def run(steps: list[tuple[Any, ...]]) -> None:
        ns = f"h{uuid.uuid4().hex[:12]}"
        for step in steps:
            answers = {b: _step(s, ns, step) for b, s in states.items()}
            assert answers["catalog-sqlite"] == answers["catalog-postgres"] == answers["redis"], (
                step,
                answers,
            )

    try:
        run()
    finally:
        for opened in states.values():
            opened.close()


# --- keys ---------------------------------------------------------------------------------------------------


def test_redis_shows_the_keys_and_every_one_but_the_queues_expires(redis_url: str, ns: str) -> None:
    import redis

    state, raw = open_backend("redis", redis_url), redis.Redis.from_url(redis_url)
    ident = "0" * 32
    patterns = [
        keys.JOB,
        keys.CACHE_QUERY,
        keys.CACHE_QUERY_EMBED,
    ]
    for pattern in patterns:
        assert pattern.ttl_seconds is not None
        state.set(ns, pattern(ident), json.dumps({"a": 1}).encode(), pattern.ttl_seconds)
    state.take_tokens(ns, keys.RATE("example.org"), rate=1, burst=5)
    state.circuit_failed(ns, keys.CIRCUIT("example.org"), threshold=2)
    with state.lock(ns, keys.LOCK_QUERY(ident), 30):
        for queue in (keys.DLQ_PENDING, keys.QUEUE_QDRANT_RETRY):
            state.enqueue(ns, queue(), {"m": 1.0})
        lives = {
            key.decode().removeprefix(f"taboot:{ns}:"): raw.ttl(key)
            for key in raw.scan_iter(f"taboot:{ns}:*")
        }
    day = 86400
    expected = {
        f"job:{ident}": 7 * day,
        f"cache:query:{ident}": 3600,
        f"cache:query_embed:{ident}": day,
        "rate:example.org": 60,
        "circuit:example.org": 3600,
        f"lock:query:{ident}": 30,
        "dlq:pending": -1,
        "queue:qdrant_retry": -1,
    }
    assert lives.keys() == expected.keys()
    # However long the lines above took: no two lives that could be mistaken for each other are so close.
    assert all(0.6 * whole <= lives[key] <= whole or lives[key] == whole for key, whole in expected.items())
    assert raw.get(f"taboot:{ns}:job:{ident}") == b'{"a": 1}', "a short value is readable as it is"
    state.close()
    raw.close()
