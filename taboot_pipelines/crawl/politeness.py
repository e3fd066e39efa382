"""When a domain may be asked, and when it is left alone: a token bucket, a circuit breaker, ``Retry-After``.

All three are in the state, so that all runs and processes share them.
Nothing here waits: who may not ask yet is told for how long, and asks elsewhere meanwhile. A circuit opens
after failures in a row: no answer, a broken one, or 5xx; what a server refuses by 4xx is an answer. Then the
domain's pages fail with ``E_CIRCUIT_OPEN`` until it has rested, one of them tries it, and an answer closes
the circuit for all. Where the state does not answer, requests are paced in this process alone.

What the state said of a domain holds for :data:`RECHECK_SECONDS`, so that a domain without a limit costs a
look at the clock.
"""

from __future__ import annotations

import email.utils
import math
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from taboot_pipelines.crawl.domains import Domains, Limits
from taboot_pipelines.crawl.urls import WebUrl
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import HttpSettings
from taboot_pipelines.stores.state.keys import CIRCUIT, RATE, RETRY_AFTER
from taboot_pipelines.stores.state.protocol import Lenient

#: A server that asks to be left alone for longer is asked again after this time.
MAX_RETRY_AFTER_SECONDS = 24 * 3600.0
#: How long it may take until what another process learned of a domain is heeded here.
RECHECK_SECONDS = 5.0
#: When it is worth asking again while another request tries whether a domain is well.
_TRIAL_SECONDS = 0.05
#: Tokens for this time are taken from the bucket at once where the rate is high.
_LEASE_SECONDS = 0.1
_MAX_DOMAINS = 100_000


@dataclass(slots=True)
class _Domain:
    """What this process knows of a domain; times are of ``time.monotonic``.

    ``free_until``: until then it may be asked without a look at anything. ``checked_until``: until then what
    the state said of it holds. ``open_until``: its circuit is open. ``held_until``: it asked to be left
    alone. ``next_at``: no token before. ``leased``: tokens that are ours already, until ``leased_until``.
    ``in_doubt``: it failed last, or is on trial, so that one request at a time tries it. ``asked``: requests
    that have not been told of, the last of them at ``asked_at``. ``on_trial``: its circuit is half open, and
    the one request that may be made is this process's.
    """

    limits: Limits
    version: int
    free_until: float = -math.inf
    checked_until: float = -math.inf
    open_until: float = -math.inf
    held_until: float = -math.inf
    next_at: float = -math.inf
    leased: int = 0
    leased_until: float = -math.inf
    in_doubt: bool = False
    on_trial: bool = False
    well: bool = False
    asked: int = 0
    asked_at: float = -math.inf


class Politeness:
    """The turns of all domains of one namespace. A domain is a name of ``domains.name_of``. Threads may share
    one."""

    def __init__(
        self, hints: Lenient, namespace: str, settings: HttpSettings, domains: Domains | None = None
    ) -> None:
        self._hints = hints
        self._namespace = namespace
        self._patience = settings.total_timeout_seconds
        self.domains = domains or Domains(settings)
        self._lock = threading.Lock()
        self._known: dict[str, _Domain] = {}

    def domain_of(self, url: WebUrl) -> str:
        """The domain whose turn ``url`` waits for."""
        return self.domains.name_of(url)

    def wait(self, domain: str, *, delay: float | None = None) -> float:
        """0.0: the turn is the caller's, who asks now and calls :meth:`told`; else the seconds until it is
        worth calling again. ``delay``: the seconds between two requests that the site asks for; the stricter
        of it and ours holds.

        Raises ``E_DOMAIN_BLOCKED``, and ``E_CIRCUIT_OPEN`` for a domain that rests.
        """
        now = time.monotonic()
        known = self._known.get(domain)
        if known is not None and now < known.free_until and not delay:
            known.asked += 1
            known.asked_at = now
            return 0.0
        with self._lock:
            return self._wait(domain, now, delay)

    def _wait(self, domain: str, now: float, delay: float | None) -> float:
        known = self._look(domain, now)
        if known.limits.blocked:
            raise TabootError("E_DOMAIN_BLOCKED", f"{domain} is blocked.", domain=domain)
        if now < known.open_until:
            raise TabootError(
                "E_CIRCUIT_OPEN",
                f"{domain} failed repeatedly and is left alone for {known.open_until - now:.0f} s more.",
                domain=domain,
                seconds=known.open_until - now,
            )
        if now < known.held_until:
            return known.held_until - now
        if known.in_doubt and known.asked > 0:
            if now < known.asked_at + self._patience:
                return _TRIAL_SECONDS
            known.asked = 0  # whoever asked has gone without a word
        wait = self._take(domain, known, now, delay)
        if wait == 0.0:
            known.asked += 1
            known.asked_at = now
        return wait

    def told(self, domain: str, *, failed: bool | None, retry_after: float | None = None) -> None:
        """What became of the request whose turn it was: whether the domain failed to answer it (None: nothing
        was asked of it after all), and the seconds for which it asks to be left alone."""
        known = self._known.get(domain)
        if known is not None and failed is False and known.well and retry_after is None:
            known.asked -= known.asked > 0
            return
        with self._lock:
            now = time.monotonic()
            known = self._look(domain, now)
            known.asked -= known.asked > 0
            if retry_after is not None and retry_after > 0:
                self._hold(domain, known, now, min(retry_after, MAX_RETRY_AFTER_SECONDS))
            if failed:
                self._failed(domain, known, now)
            elif failed is False and not known.well:
                self._hints.ask(lambda state: state.circuit_succeeded(self._namespace, CIRCUIT(domain)), None)
                known.well, known.in_doubt, known.on_trial = True, False, False
                known.open_until = -math.inf
                known.checked_until = -math.inf

    def _look(self, domain: str, now: float) -> _Domain:
        """What is known of the domain, asked of the state again if that is too old."""
        self.domains.reload()
        known = self._known.get(domain)
        if known is None:
            if len(self._known) >= _MAX_DOMAINS:
                # What is forgotten is in the state.
                self._known = {name: d for name, d in self._known.items() if d.asked > 0}
            known = _Domain(self.domains.limits(domain), self.domains.version)
            self._known[domain] = known
        if known.version != self.domains.version:
            known.limits, known.version = self.domains.limits(domain), self.domains.version
        if now >= known.checked_until and not known.limits.blocked and not known.on_trial:
            known.checked_until = now + RECHECK_SECONDS
            self._check_circuit(domain, known, now)
            self._check_hold(domain, known, now)
            unlimited = known.limits.rate == 0 and known.limits.delay == 0
            at_ease = max(known.open_until, known.held_until) <= now and not known.in_doubt
            known.free_until = known.checked_until if unlimited and at_ease else -math.inf
        return known

    def _check_circuit(self, domain: str, known: _Domain, now: float) -> None:
        def left() -> float:
            return self._hints.ask(lambda state: state.circuit_open(self._namespace, CIRCUIT(domain)), 0.0)

        wait = left()
        if wait > 0:
            known.open_until = now + wait
            known.well, known.in_doubt = False, True
            # Another process may find it well before.
            known.checked_until = now + min(wait, RECHECK_SECONDS)
        else:
            if known.open_until > -math.inf:
                # It has rested, or another process found it well.
                known.in_doubt, known.open_until = False, -math.inf
            # Only if the trial is this caller's does the state put off whoever asks next.
            if not known.well and left() > 0:
                known.in_doubt = known.on_trial = True

    def _check_hold(self, domain: str, known: _Domain, now: float) -> None:
        kept = self._hints.ask(lambda state: state.get(self._namespace, RETRY_AFTER(domain)), None)
        try:
            left = float(kept) - time.time() if kept is not None else 0.0
        except ValueError:
            left = 0.0
        if left > 0:
            known.held_until = max(known.held_until, now + min(left, MAX_RETRY_AFTER_SECONDS))

    def _hold(self, domain: str, known: _Domain, now: float, seconds: float) -> None:
        known.held_until = max(known.held_until, now + seconds)
        known.free_until = -math.inf
        until = repr(time.time() + (known.held_until - now)).encode()
        self._hints.ask(
            lambda state: state.set(
                self._namespace, RETRY_AFTER(domain), until, max(1.0, known.held_until - now)
            ),
            None,
        )

    def _failed(self, domain: str, known: _Domain, now: float) -> None:
        known.well, known.in_doubt, known.on_trial, known.free_until = False, True, False, -math.inf
        limits = known.limits
        opened = self._hints.ask(
            lambda state: state.circuit_failed(
                self._namespace,
                CIRCUIT(domain),
                threshold=limits.circuit_failures,
                rest_seconds=limits.circuit_rest_seconds,
            ),
            False,
        )
        if opened:
            known.checked_until = -math.inf  # the state says for how long

    def _take(self, domain: str, known: _Domain, now: float, delay: float | None) -> float:
        """Take a token, or say how long there is none."""
        rate, burst = known.limits.rate, known.limits.burst
        pause = max(known.limits.delay, delay or 0.0)
        if pause > 0 and (rate == 0 or pause > 1 / rate):
            rate, burst = 1 / pause, 1
        if rate == 0:
            return 0.0
        if now < known.next_at:
            return known.next_at - now
        if known.leased > 0 and now < known.leased_until:
            known.leased -= 1
            return 0.0
        wanted = max(1, min(burst, int(rate * _LEASE_SECONDS)))
        grant = self._hints.ask(
            lambda state: state.take_tokens(
                self._namespace, RATE(domain), rate=rate, burst=burst, tokens=wanted
            ),
            None,
        )
        if grant is None:
            known.next_at = now + 1 / rate
            return 0.0
        if grant.allowed:
            known.leased, known.leased_until = wanted - 1, now + 10 * _LEASE_SECONDS
            return 0.0
        wait = max(grant.wait_seconds, 0.001)
        known.next_at = now + wait
        return wait


def retry_after(value: str, now: datetime) -> float | None:
    """Seconds that the header ``Retry-After`` (RFC 9110 §10.2.3) asks for, None if it cannot be read."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:12])
    try:
        at = email.utils.parsedate_to_datetime(value)
        seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return max(seconds, 0.0)
