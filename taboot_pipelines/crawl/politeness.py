"""How often a host is asked, and when it is left alone: a token bucket and a circuit breaker per namespace
and domain.

Both are in the state, so that all runs and processes share them (seed 001 §5.3, §5.4, §8.8, §8.9). A circuit
opens after five failures in a row: no answer, a broken one, or 5xx; what a server refuses by 4xx is an
answer. Then the host's pages fail with ``E_CIRCUIT_OPEN`` until it has rested. Where the state does not
answer, requests are paced in this process alone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import HttpSettings
from taboot_pipelines.stores.state import Lenient
from taboot_pipelines.stores.state.keys import CIRCUIT, RATE

CIRCUIT_FAILURES = 5
CIRCUIT_REST_SECONDS = 300.0
_NO_ANSWER = ("E_NETWORK", "E_TIMEOUT")
#: Refused on this side: nothing was asked of the host.
_NOT_ASKED = ("E_URL_BLOCKED",)


class Politeness:
    """``domain``: the host, with its port unless that is the scheme's. Safe to share by threads."""

    def __init__(self, hints: Lenient, namespace: str, settings: HttpSettings) -> None:
        self._hints = hints
        self._namespace = namespace
        self._settings = settings
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = defaultdict(threading.Lock)
        #: Domains that have answered well since they were last in doubt.
        self._well: set[str] = set()
        self._next: dict[str, float] = {}

    @contextlib.contextmanager
    def visit(self, domain: str) -> Iterator[Callable[[int], None]]:
        """One request to ``domain``, begun when its bucket gives a token; call what it yields with the
        answer's status.

        Raises ``E_CIRCUIT_OPEN`` for a domain that rests, ``E_429_RATE`` if others use up its tokens.
        """
        with self._turn(domain):
            if domain not in self._well:
                self._check(domain)
            self._wait(domain)
            answers: list[int] = []
            try:
                yield answers.append
            except TabootError as error:
                if error.code not in _NOT_ASKED:
                    self._tell(domain, failed=error.code in _NO_ANSWER)
                raise
            self._tell(domain, failed=not answers or answers[-1] >= 500)

    @contextlib.contextmanager
    def _turn(self, domain: str) -> Iterator[None]:
        """A domain in doubt is asked by one thread at a time: the others would be refused while one tries
        whether it is well.
        """
        if domain in self._well:
            yield
            return
        with self._lock:
            turn = self._turns[domain]
        with turn:
            yield

    def _check(self, domain: str) -> None:
        wait = self._hints.ask(lambda state: state.circuit_open(self._namespace, CIRCUIT(domain)), 0.0)
        if wait > 0:
            raise TabootError(
                "E_CIRCUIT_OPEN",
                f"{domain} failed repeatedly and is left alone for {wait:.0f} s more.",
                domain=domain,
            )

    def _tell(self, domain: str, *, failed: bool) -> None:
        if failed:
            self._well.discard(domain)
            threshold, rest = CIRCUIT_FAILURES, CIRCUIT_REST_SECONDS
            self._hints.ask(
                lambda state: state.circuit_failed(
                    self._namespace, CIRCUIT(domain), threshold=threshold, rest_seconds=rest
                ),
                False,
            )
        elif domain not in self._well:
            self._hints.ask(lambda state: state.circuit_succeeded(self._namespace, CIRCUIT(domain)), None)
            self._well.add(domain)

    def _wait(self, domain: str) -> None:
        rate, burst = self._settings.rate_limit_rps, self._settings.rate_limit_burst
        if rate == 0:
            return
        # Some others of this process may be before it, and other processes' requests between.
        end = time.monotonic() + max(self._settings.total_timeout_seconds, 10 / rate)
        while True:
            grant = self._hints.ask(
                lambda state: state.take_tokens(self._namespace, RATE(domain), rate=rate, burst=burst), None
            )
            if grant is None:
                self._pace(domain, rate)
                return
            if grant.allowed:
                return
            if time.monotonic() + grant.wait_seconds > end:
                raise TabootError(
                    "E_429_RATE",
                    f"Other requests to {domain} use up its {rate:g} a second.",
                    remedy="It is tried again at the next run; TABOOT_HTTP__RATE_LIMIT_RPS allows more.",
                    domain=domain,
                )
            time.sleep(grant.wait_seconds)

    def _pace(self, domain: str, rate: float) -> None:
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next.get(domain, 0.0))
            self._next[domain] = at + 1 / rate
        time.sleep(at - now)
