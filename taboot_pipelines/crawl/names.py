"""Names of hosts: looked up beside the thread that fetches, checked, and remembered for a while.

A name is asked for once a minute at most. All addresses of an answer are checked, and one that may not be
reached refuses the name: a server that mixes public and private ones is after the private one. The connection
is made to what was checked, whatever the name means a moment later.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from taboot_pipelines.crawl.addresses import ANYWHERE, Address, Network, Resolver, reachable
from taboot_pipelines.errors import TabootError

#: Names remembered at once; the oldest go first.
MAX_NAMES = 10_000
LIFE_SECONDS = 60.0
#: How long a name that did not resolve is not asked for again.
FAILURE_SECONDS = 2.0
#: Look-ups at one time. A name server that does not answer holds one of them for a while.
_THREADS = 16


@dataclass(frozen=True, slots=True)
class Pin:
    """What a name may be connected to. ``addresses`` is empty where it does not resolve, for good unless
    ``again``, and where ``blocked`` says why it may not be reached."""

    addresses: tuple[Address, ...] = ()
    blocked: TabootError | None = None
    again: bool = False


class Names:
    """``wake`` is called, from another thread, whenever a look-up has ended."""

    def __init__(self, allowed: Sequence[Network], resolver: Resolver, wake: Callable[[], None]) -> None:
        self._allowed = tuple(allowed)
        self._resolver = resolver
        self._wake = wake
        self._lock = threading.Lock()
        #: By host, port, and whether it is a proxy's.
        self._known: dict[tuple[str, int, bool], tuple[float, Pin | None]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def find(self, host: str, port: int, *, proxy: bool = False) -> Pin | None:
        """What ``host`` (an IPv6 address in brackets) may be connected to; None while it is looked up.
        ``proxy``: it is a proxy of the operator, and so may be anywhere but at a metadata service."""
        literal = _literal(host)
        if literal is not None:
            return self._pin(host, port, proxy, lambda *_: [literal])
        key = host, port, proxy
        now = time.monotonic()
        with self._lock:
            until, pin = self._known.get(key, (0.0, None))
            if now < until:
                return pin
            while len(self._known) >= MAX_NAMES:
                del self._known[next(iter(self._known))]
            self._known.pop(key, None)
            self._known[key] = (float("inf"), None)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="taboot-names")
        self._threads.submit(self._look_up, key)
        return None

    def close(self) -> None:
        """Begin no more look-ups. One that is under way ends by itself."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _look_up(self, key: tuple[str, int, bool]) -> None:
        host, port, proxy = key
        pin, life = Pin(), FAILURE_SECONDS
        try:
            pin, life = self._pin(host, port, proxy, self._resolver), LIFE_SECONDS
        except socket.gaierror as error:
            pin = Pin(again=error.errno == socket.EAI_AGAIN)
        except OSError:
            pass
        finally:
            with self._lock:
                self._known[key] = (time.monotonic() + life, pin)
            self._wake()

    def _pin(self, host: str, port: int, proxy: bool, resolver: Resolver) -> Pin:
        try:
            return Pin(tuple(reachable(host, port, ANYWHERE if proxy else self._allowed, resolver)))
        except TabootError as error:
            return Pin(blocked=error)


def _literal(host: str) -> Address | None:
    if not host.startswith("[") and not host[-1:].isdigit():
        return None
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
