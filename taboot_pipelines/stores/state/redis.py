"""State in Redis (5 or newer; the tests run on 7), one round trip a call.

Operations of more than one command are Lua scripts, which Redis runs atomically and on its own clock. A call
whose connection broke is retried within the time-out of one command, so that a restart of the server is
bridged. It may then be carried out twice, which every operation tolerates: a bucket gives fewer tokens, a
circuit counts one failure more, a count of what was removed may be 0. No message repeats the words of Redis
or the URL, which holds the password.
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.settings import RedisSettings
from taboot_pipelines.stores.state import keys
from taboot_pipelines.stores.state.protocol import Grant, grant, pack, unpack

if TYPE_CHECKING:
    import redis

T = TypeVar("T")

_HEALTH_CHECK_SECONDS = 30
#: Backoff with full jitter (Brooker, AWS 2015): a random wait of up to the first, which is doubled with each
#: retry up to the second.
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 0.5
#: Members in one command.
_PART = 5000

_TIME = "local t = redis.call('TIME'); local now = t[1] * 1000000 + t[2]\n"
# A stored time that lies in the future, as after the server's clock was set back, counts as now.
#: KEYS: lock. ARGV: holder, ms. A retry by the lock's own holder is granted; nobody else holds it for longer
#: than this caller would.
_LOCK = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""
_UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
#: KEYS: bucket. ARGV: rate, burst, tokens, ms to live. Numbers are returned as text: Redis would truncate
#: them to integers.
_TAKE = (
    _TIME
    + """
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'updated_at')
local rate, burst, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local passed = math.max(0, now - tonumber(bucket[2] or now)) / 1000000
local have = math.min(burst, tonumber(bucket[1] or burst) + passed * rate)
local given = 0
if have >= wanted then given = 1; have = have - wanted end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', have), 'updated_at', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {given, string.format('%.17g', have)}
"""
)
#: KEYS: circuit. Returns microseconds to wait. After the rest one caller gets 0, and the next rest begins.
_CIRCUIT_OPEN = (
    _TIME
    + """
local c = redis.call('HMGET', KEYS[1], 'state', 'trial_at', 'rest', 'life', 'opened_at')
if not c[1] or c[1] == 'closed' then return 0 end
if tonumber(c[5]) > now then
  redis.call('HSET', KEYS[1], 'opened_at', string.format('%.0f', now),
    'trial_at', string.format('%.0f', now + tonumber(c[3])))
  redis.call('PEXPIRE', KEYS[1], c[4])
  return tonumber(c[3])
end
if tonumber(c[2]) > now then return tonumber(c[2]) - now end
redis.call('HSET', KEYS[1], 'state', 'half_open', 'opened_at', string.format('%.0f', now),
  'trial_at', string.format('%.0f', now + tonumber(c[3])))
redis.call('PEXPIRE', KEYS[1], c[4])
return 0
"""
)
#: KEYS: circuit. ARGV: threshold, rest in microseconds, ms to live, ms to live of a closed circuit.
_CIRCUIT_FAILED = (
    _TIME
    + """
local c = redis.call('HMGET', KEYS[1], 'state', 'failures', 'life')
local state, failures, life = c[1] or 'closed', tonumber(c[2] or 0) + 1, c[3] or ARGV[4]
if state == 'half_open' or (state == 'closed' and failures >= tonumber(ARGV[1])) then
  state, life = 'open', ARGV[3]
  redis.call('HSET', KEYS[1], 'opened_at', string.format('%.0f', now),
    'trial_at', string.format('%.0f', now + tonumber(ARGV[2])), 'rest', ARGV[2], 'life', life)
end
redis.call('HSET', KEYS[1], 'state', state, 'failures', failures, 'last_failure', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], life)
return state == 'open' and 1 or 0
"""
)


class RedisState:
    """The state in Redis. Threads may share one; connections are pooled and made when first used."""

    def __init__(self, settings: RedisSettings) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise TabootError(
                "E_EXTRA",
                "State in Redis needs the extra `redis`.",
                remedy="Run `pip install 'taboot-pipelines[redis]'`.",
            ) from None
        self._redis = redis
        self._timeout = settings.timeout_seconds
        url = settings.url.get_secret_value() if settings.url is not None else ""
        try:
            # Retries are made here, with a bound on the whole; redis-py would make its own inside
            # of each of them.
            pool = redis.ConnectionPool.from_url(
                url,
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                socket_keepalive=True,
                health_check_interval=_HEALTH_CHECK_SECONDS,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
            )
            pool.connection_class(**pool.connection_kwargs)
        except (ValueError, TypeError, AttributeError, redis.RedisError):
            raise TabootError(
                "E_CONFIG",
                "TABOOT_REDIS__URL: is not a redis://, rediss:// or unix:// URL of a server.",
                settings=["TABOOT_REDIS__URL"],
            ) from None
        self._client: redis.Redis = redis.Redis(connection_pool=pool)
        register = self._client.register_script
        self._lock, self._unlock, self._take = register(_LOCK), register(_UNLOCK), register(_TAKE)
        self._open, self._failed = register(_CIRCUIT_OPEN), register(_CIRCUIT_FAILED)

    def get(self, namespace: str, key: str) -> bytes | None:
        name = keys.redis_key(namespace, key)
        stored: bytes | None = self._ask(lambda: self._client.get(name))
        return None if stored is None else unpack(stored)

    def set(self, namespace: str, key: str, value: bytes, ttl_seconds: float) -> None:
        name, stored, life = (
            keys.redis_key(namespace, key),
            pack(value),
            keys.milliseconds(ttl_seconds),
        )
        self._ask(lambda: self._client.set(name, stored, px=life))

    def delete(self, namespace: str, names: Collection[str]) -> int:
        there = [keys.redis_key(namespace, n) for n in names]
        return sum(int(self._ask(partial(self._client.unlink, *part))) for part in _parts(there))

    def find(self, namespace: str, prefix: str) -> list[tuple[str, int]]:
        """The names of the namespace's keys that begin with ``prefix``, and the bytes of each one's value."""
        start, there = self._there(namespace, prefix)
        found = []
        for part in _parts(there):
            sizes = self._ask(partial(self._sizes, part))
            found += [
                (prefix + key[len(start.encode()) :].decode(errors="replace"), int(size))
                for key, size in zip(part, sizes, strict=True)
            ]
        return found

    def _there(self, namespace: str, prefix: str) -> tuple[str, list[bytes]]:
        start = keys.redis_key(namespace, prefix)
        return start, self._ask(lambda: sorted(set(self._client.scan_iter(f"{start}*", count=_PART))))

    def _sizes(self, there: list[bytes]) -> list[int]:
        with self._client.pipeline(transaction=False) as pipeline:
            for key in there:
                pipeline.strlen(key)
            return list(pipeline.execute())

    @contextlib.contextmanager
    def lock(self, namespace: str, name: str, ttl_seconds: float) -> Iterator[bool]:
        key, holder = keys.redis_key(namespace, name), uuid.uuid4().hex
        held = bool(self._ask(lambda: self._lock(keys=[key], args=[holder, keys.milliseconds(ttl_seconds)])))
        try:
            yield held
        finally:
            if held:
                # If the lock cannot be released, it is free once it expires.
                with contextlib.suppress(TabootError):
                    self._ask(lambda: self._unlock(keys=[key], args=[holder]))

    def take_tokens(
        self, namespace: str, bucket: str, *, rate: float, burst: float, tokens: float = 1.0
    ) -> Grant:
        key = keys.redis_key(namespace, bucket)
        given, left = self._ask(
            lambda: self._take(keys=[key], args=[rate, burst, tokens, keys.bucket_life(rate, burst)])
        )
        return grant(bool(given), float(left), rate=rate, burst=burst, tokens=tokens)

    def enqueue(self, namespace: str, queue: str, due: Mapping[str, float]) -> None:
        key = keys.redis_key(namespace, queue)
        for part in _parts([(keys.check_name(m), keys.check_due(at)) for m, at in due.items()]):
            self._ask(partial(self._client.zadd, key, dict(part)))

    def due(self, namespace: str, queue: str, now: float, limit: int = 100) -> list[str]:
        key = keys.redis_key(namespace, queue)
        found: list[bytes] = self._ask(
            lambda: self._client.zrangebyscore(key, "-inf", keys.check_due(now), start=0, num=max(0, limit))
        )
        return [m.decode(errors="replace") for m in found]

    def dequeue(self, namespace: str, queue: str, members: Collection[str]) -> int:
        key = keys.redis_key(namespace, queue)
        return sum(
            int(self._ask(partial(self._client.zrem, key, *part)))
            for part in _parts([keys.check_name(m) for m in members])
        )

    def queued(self, namespace: str, queue: str) -> dict[str, float]:
        key = keys.redis_key(namespace, queue)
        return {
            m.decode(errors="replace"): float(at)
            for m, at in self._ask(lambda: self._client.zrange(key, 0, -1, withscores=True))
        }

    def circuit_open(self, namespace: str, name: str) -> float:
        key = keys.redis_key(namespace, name)
        return int(self._ask(lambda: self._open(keys=[key]))) / 1_000_000

    def circuit_failed(
        self, namespace: str, name: str, *, threshold: int = 5, rest_seconds: float = 300
    ) -> bool:
        key = keys.redis_key(namespace, name)
        args = [
            threshold,
            keys.milliseconds(rest_seconds) * 1000,
            keys.milliseconds(keys.circuit_life(rest_seconds)),
            keys.milliseconds(keys.circuit_life(0)),
        ]
        return bool(self._ask(lambda: self._failed(keys=[key], args=args)))

    def circuit_succeeded(self, namespace: str, name: str) -> None:
        key = keys.redis_key(namespace, name)
        self._ask(lambda: self._client.unlink(key))

    def resting(self, namespace: str) -> dict[str, float]:
        _, there = self._there(namespace, keys.CIRCUIT.prefix)
        circuits = self._ask(lambda: self._circuits(there))
        seconds, micros = self._ask(self._client.time)
        now, before = int(seconds) * 1_000_000 + int(micros), len(keys.redis_key(namespace, " ")) - 1
        return {
            key[before:].decode(errors="replace"): max(0.0, (int(trial_at) - now) / 1_000_000)
            for key, (state, trial_at) in zip(there, circuits, strict=True)
            if state not in (None, b"closed")
        }

    def _circuits(self, there: list[bytes]) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipeline:
            for key in there:
                pipeline.hmget(key, "state", "trial_at")
            return list(pipeline.execute())

    def health(self) -> Health:
        def ask() -> tuple[str | None, str]:
            told: Mapping[str, Any] = self._ask(self._client.info, patient=False)
            version = str(told.get("redis_version") or "") or None
            if told.get("role") == "slave":
                return (
                    version,
                    "This Redis is a replica and takes no writes; name the primary in TABOOT_REDIS__URL.",
                )
            return version, ""

        return probe("state", "redis", ask)

    def close(self) -> None:
        self._client.close()
        self._client.connection_pool.disconnect()

    def _ask(self, command: Callable[[], Any], *, patient: bool = True) -> Any:
        """Return the command's answer, after retries with backoff if ``patient``.

        Raises ``E_REDIS`` when the retries are used up, and at once for a refusal that no retry would change.
        """
        deadline = time.monotonic() + (self._timeout if patient else 0)
        wait = _FIRST_WAIT
        while True:
            try:
                return command()
            except (self._redis.RedisError, OSError) as error:
                failure = self._failure(error)
                passing = isinstance(error, OSError | self._redis.ConnectionError | self._redis.TimeoutError)
                if (
                    not passing
                    or isinstance(error, self._redis.AuthenticationError)
                    or time.monotonic() >= deadline
                ):
                    raise failure from None
            time.sleep(random.uniform(0, wait))
            wait = min(wait * 2, _LONGEST_WAIT)

    def _failure(self, error: Exception) -> TabootError:
        e = self._redis.exceptions
        kinds = (
            (e.AuthenticationError, "Redis refuses the log-in"),
            (e.AuthorizationError, "Redis refuses the log-in"),
            (e.NoPermissionError, "Redis does not permit the command"),
            (e.BusyLoadingError, "Redis is loading its data"),
            (e.TimeoutError, f"Redis did not answer within {self._timeout:g} s"),
            (e.ReadOnlyError, "Redis is a replica and takes no writes"),
            (e.OutOfMemoryError, "Redis has no memory left"),
            ((e.ConnectionError, OSError), "Redis could not be reached"),
        )
        said = next((words for kind, words in kinds if isinstance(error, kind)), "Redis refused a command")
        return TabootError("E_REDIS", f"{said}.", reason=type(error).__name__)


def _parts(items: list[T]) -> Iterator[list[T]]:
    for i in range(0, len(items), _PART):
        yield items[i : i + _PART]
