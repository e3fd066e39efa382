"""State when its backend is wrong, gone, or forgets: typed errors, nothing secret in them, and work again
afterwards.
"""

from __future__ import annotations

import builtins
import logging
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import RedisSettings, Settings, load_settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import catalog as catalog_state
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.protocol import Lenient, State
from taboot_pipelines.stores.state.redis import RedisState
from taboot_pipelines_tests.servers import own_redis


def _redis(url: str, patience: float = 0.4) -> RedisState:
    """A command may take half a minute, so that a slow machine is no outage; how long a server that is away
    is asked again is ``patience``."""
    state = RedisState(RedisSettings(url=url, timeout_seconds=30))
    state._timeout = patience
    return state


@pytest.mark.server
def test_a_redis_that_stops_is_an_error_and_works_when_it_is_back(tmp_path: Path) -> None:
    with own_redis(tmp_path) as server:
        state = _redis(server.url)
        state.set("n", "job:1", b"x", 60)
        assert state.take_tokens("n", "rate:a", rate=1, burst=1).allowed
        with state.lock("n", "lock:crawl:a", 60) as held:
            assert held
            server.stop()
            for call in (
                lambda: state.get("n", "job:1"),
                lambda: state.take_tokens("n", "rate:a", rate=1, burst=1),
                lambda: state.queued("n", "dlq:pending"),
            ):
                with pytest.raises(TabootError, match="E_REDIS"):
                    call()
            health = state.health()
            assert (
                not health.ok
                and health.message.startswith("E_REDIS: Redis could not be reached.")
                and "TABOOT_REDIS__URL" in health.message
            )
        # It comes back empty, scripts included: what was there is lost, nothing else.
        server.start()
        assert state.get("n", "job:1") is None
        assert state.take_tokens("n", "rate:a", rate=1, burst=1).allowed
        assert not state.circuit_failed("n", "circuit:a") and state.health().ok
        state.close()


@pytest.mark.server
def test_a_restart_within_the_time_of_a_command_is_not_noticed(tmp_path: Path) -> None:
    with own_redis(tmp_path, keeps_data=True) as server:
        state = _redis(server.url, patience=30)
        state.enqueue("n", "dlq:pending", {"a": 1.0})
        server.stop()
        back = threading.Thread(target=server.start)
        back.start()
        assert state.queued("n", "dlq:pending") == {"a": 1.0}
        back.join()
        state.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "http://h",
        "redis://h:notaport/0",
        "redis://h:99999999/0",
        "redis://:sekret@h/0?unknown_option=1",
    ],
)
def test_an_unusable_url_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(TabootError, match="E_CONFIG") as caught:
        _redis(url)
    assert "sekret" not in str(caught.value) and "TABOOT_REDIS__URL" in str(caught.value)


def test_making_the_client_touches_no_network_and_no_message_holds_the_password() -> None:
    state = _redis("redis://me:sekret@127.0.0.1:1/0", patience=0.2)
    with pytest.raises(TabootError, match="E_REDIS") as caught:
        state.get("n", "job:1")
    told = (
        f"{caught.value} {caught.value.details} {state.health()} {caught.value.__cause__}"
        f" {caught.value.__context__}"
    )
    assert "sekret" not in told


@pytest.mark.server
def test_a_wrong_password_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_redis(tmp_path) as server:
        guarded = _redis(server.url)
        guarded._client.config_set("requirepass", "right")
        wrong = _redis(server.url.replace("redis://", "redis://:sekret@"), patience=30)
        waits: list[float] = []
        monkeypatch.setattr("taboot_pipelines.stores.state.redis.time.sleep", waits.append)
        with pytest.raises(TabootError, match="E_REDIS: Redis refuses the log-in"):
            wrong.get("n", "job:1")
        assert waits == [], "another try would not change it"
        with pytest.raises(TabootError, match="E_REDIS"):
            _redis(server.url).get("n", "job:1")
        wrong.close()


def test_a_key_of_another_kind_is_a_typed_error(redis_url: str) -> None:
    state = _redis(redis_url)
    state.set("kinds", "job:1", b"x", 5)
    with pytest.raises(TabootError, match="E_REDIS: Redis refused a command"):
        state.queued("kinds", "job:1")
    state._client.zadd("taboot:kinds:dlq:pending", {b"\xff\xfe": 1})
    assert (
        list(state.queued("kinds", "dlq:pending").values()) == [1.0]
        and len(state.due("kinds", "dlq:pending", 2)) == 1
    )
    state._client.delete("taboot:kinds:dlq:pending")
    state.close()


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == "redis":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TabootError, match=r"E_EXTRA.*taboot-pipelines\[redis\]"):
        _redis("redis://h/0")


def test_a_lenient_user_is_told_once_and_waits_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, now = _redis("redis://127.0.0.1:1/0", patience=0.2), [1000.0]
    monkeypatch.setattr(
        "taboot_pipelines.stores.state.protocol.time", SimpleNamespace(monotonic=lambda: now[0])
    )
    lenient = Lenient(state, rest_seconds=30)
    asked = []

    def use(s: State) -> bytes | None:
        asked.append(1)
        return s.get("n", "job:1")

    with caplog.at_level(logging.WARNING):
        assert [lenient.ask(use, None) for _ in range(5)] == [None] * 5
        assert len(asked) == 1, "while it rests nothing is asked"
        now[0] += 29
        lenient.ask(use, None)
        assert len(asked) == 1
        now[0] += 1
        lenient.ask(use, None)
    assert len(asked) == 2 and caplog.text.count("State is not available") == 1


def test_the_catalog_forgets_what_has_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_state, "_PURGE_ROWS", 10)
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    state = open_state(load_settings(), catalog)
    for i in range(15):
        state.set("n", f"job:{i}", b"x", 0.05 if i else 60)
    state.set("other", "job:1", b"x", 0.05)
    time.sleep(0.1)

    def rows() -> int:
        with catalog.database.read("n") as c:
            return int(
                c.execute(
                    sa.select(sa.func.count())
                    .select_from(t.state_value)
                    .where(t.state_value.c.namespace == "n")
                ).scalar_one()
            )

    assert rows() == 15, "nothing is removed before its turn"
    monkeypatch.setattr(catalog_state, "_PURGE_SECONDS", 0.0)
    state.set("n", "job:0", b"x", 60)
    assert rows() == 5, "at most ten rows at once"
    state.set("n", "job:0", b"x", 60)
    assert rows() == 1 and state.get("n", "job:0") == b"x"
    catalog.close()
    with pytest.raises(TabootError, match="E_CATALOG"):
        (tmp_path / "catalog.db").write_bytes(b"no database any more, however hard one looks" * 100)
        state.get("n", "job:0")


def test_a_catalog_that_does_not_answer_is_not_well(tmp_path: Path) -> None:
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    state = open_state(load_settings(), catalog)
    assert state.health().ok
    catalog.close()
    for path in tmp_path.glob("catalog.db*"):
        path.unlink()
    (tmp_path / "catalog.db").write_bytes(b"no database any more, however hard one looks" * 100)
    health = state.health()
    assert not health.ok and health.message.startswith("E_CATALOG")
