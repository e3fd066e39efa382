"""The key patterns inside a namespace, how long each lives, and how a key is written in Redis.

Nothing that must last is in the state alone: dead letters are rows of the catalog's ``dead_letter`` table,
and ``dlq:pending`` is rebuilt from it. Every key expires except the queues.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import check_namespace

HOUR = 3600.0
DAY = 24 * HOUR
#: The longest time to live of a key; no cache needs more.
_MAX_TTL = 3650 * DAY
_MAX_NAME = 1024


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of names, ``{prefix}{ident}``.

    ``ttl_seconds`` is None for a queue, which does not expire, since it is rebuilt.
    """

    prefix: str
    ttl_seconds: float | None

    def __call__(self, ident: str = "") -> str:
        return self.prefix + ident


#: Letters that are to be tried again, ordered by the time when they are due.
DLQ_PENDING = Pattern("dlq:pending", None)
#: The progress of a job; the time to live begins anew with each write, the last of which is the job's end.
JOB = Pattern("job:", 7 * DAY)
#: The ingests of the command line that are under way, each until the time from which it counts as dead.
QUEUE_INGESTS = Pattern("queue:ingests", None)
#: Which sources such an ingest takes in, and which process it is.
INGEST = Pattern("ingest:", DAY)
#: Results of searches.
CACHE_QUERY = Pattern("cache:query:", HOUR)
CACHE_QUERY_EMBED = Pattern("cache:query_embed:", DAY)
#: The least time to live of a bucket: it may be forgotten once it is full again.
RATE = Pattern("rate:", 60.0)
#: The least time to live of a circuit after its last failure.
CIRCUIT = Pattern("circuit:", HOUR)
#: What the robots.txt of an origin said; RFC 9309 §2.4 allows a day.
ROBOTS = Pattern("robots:", DAY)
#: Until when a host asked to be left alone (``Retry-After``), as Unix time.
RETRY_AFTER = Pattern("retry_after:", DAY)
QUEUE_QDRANT_RETRY = Pattern("queue:qdrant_retry", None)
LOCK_QUERY = Pattern("lock:query:", 30.0)


def check_name(name: str) -> str:
    """Return the name of a key, queue or member unchanged.

    Raises ``E_INTERNAL`` if a backend could not hold it: names are made by our own code.
    """
    if not 0 < len(name) <= _MAX_NAME or "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
        raise TabootError(
            "E_INTERNAL",
            f"The name of a piece of state is empty, holds what no store takes, or exceeds {_MAX_NAME}"
            " characters.",
        )
    return name


def redis_key(namespace: str, name: str) -> str:
    """Return the key in Redis: ``taboot:{namespace}:{name}``."""
    return f"taboot:{check_namespace(namespace)}:{check_name(name)}"


def milliseconds(seconds: float) -> int:
    """Return a time to live as backends take it: at least 1 ms, at most ten years."""
    return max(1, int(min(seconds, _MAX_TTL) * 1000))


def check_due(due: float) -> float:
    """Return a time that orders a queue. Raises ``E_INTERNAL`` for NaN, which has no order."""
    if math.isnan(due):
        raise TabootError("E_INTERNAL", "The time that a member of a queue is due is not a number.")
    return float(due)


def bucket_life(rate: float, burst: float) -> int:
    """Return the milliseconds until a bucket may be forgotten: it is full again by then."""
    return milliseconds(max(RATE.ttl_seconds or 0.0, burst / rate if rate > 0 else math.inf))


def circuit_life(rest_seconds: float) -> float:
    """Return the seconds until a circuit without further failures is forgotten.

    A circuit must outlive its own rest and the trial after it.
    """
    return max(CIRCUIT.ttl_seconds or 0.0, 2 * rest_seconds)


#: Seconds that one of our own servers rests after five failures in a row. The default of 300 s is for
#: other people's sites: here an operator has just restarted the server and waits for it.
SERVER_REST_SECONDS = 30.0
