"""What tests of clients that render have in common."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from typing import Any

from taboot_pipelines.crawl.captures import PageReply, PageRequest
from taboot_pipelines.crawl.client import Client, Reply, Timeouts
from taboot_pipelines.crawl.urls import parse_url
from taboot_pipelines.errors import TabootError

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]
AGENT = (("User-Agent", "taboot-test"),)


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Return once something holds, which it does much sooner unless it never will."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.02)


def request(url: str, **fields: Any) -> PageRequest:
    """A request with bounds that no test waits for, nor a slow machine reaches."""
    return PageRequest(
        url=parse_url(url),
        **{"headers": AGENT, "max_bytes": 1_000_000, "timeouts": Timeouts(60, 60, 200), **fields},
    )


def answers(client: Client, *requests: PageRequest, seconds: float = 240) -> list[Reply | TabootError]:
    """What becomes of the requests, all on their way at once, in their order."""
    for ticket, one in enumerate(requests):
        client.start(ticket, one)
    found: dict[int, Reply | TabootError] = {}
    while len(found) < len(requests):
        some = client.finished(seconds)
        assert some, "nothing came in time"
        found |= dict(some)
    assert client.finished(0) == []
    return [found[i] for i in range(len(requests))]


def page(client: Client, url: str, **fields: Any) -> PageReply:
    """The answer to one request."""
    (reply,) = answers(client, request(url, **fields))
    assert isinstance(reply, PageReply), reply
    return reply


def error(client: Client, url: str, **fields: Any) -> TabootError:
    """The error that one request ends with."""
    (reply,) = answers(client, request(url, **fields))
    assert isinstance(reply, TabootError), reply
    return reply
