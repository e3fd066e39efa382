"""The client: libcurl, any number of requests in one thread, HTTP/2 where the server has it.

libcurl speaks the protocol and pools connections; what it would decide by itself is taken from it. It gets
every name's checked addresses with the request, its sockets are opened here, for those addresses only, and it
gets the target's bytes as :mod:`taboot_pipelines.crawl.urls` parsed them. It reads neither the environment
nor ``.netrc``, keeps no cookies, follows no redirect, and has no protocol but HTTP. Bodies are decoded and
bounded here, and the time-outs between two pieces and for the whole run only while somebody waits for the
answers.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import suppress

import pycurl

from taboot_pipelines.crawl.addresses import Network, Resolver, resolve
from taboot_pipelines.crawl.client import Reply, Request
from taboot_pipelines.crawl.names import Names, Pin
from taboot_pipelines.crawl.transfer import Transfer, blocked, broken, timed_out
from taboot_pipelines.errors import TabootError

#: How often it is looked whether a request takes too long.
_SWEEP_SECONDS = 0.1


class CurlClient:
    """Connects to public addresses and to those in ``allowed``, and to a request's proxy wherever it is, but
    for metadata services; all requests share its connections."""

    def __init__(
        self, allowed: Sequence[Network], *, connections: int = 16, resolver: Resolver = resolve
    ) -> None:
        """``connections``: how many are kept open for later requests."""
        self._allowed = tuple(allowed)
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._names = Names(allowed, resolver, self._wake)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections)
        self._free: list[Transfer] = []
        self._busy: dict[pycurl.Curl, Transfer] = {}
        #: Requests whose names are being looked up, and since when.
        self._looking: dict[int, tuple[Request, float]] = {}
        self._done: list[tuple[int, Reply | TabootError]] = []
        self._due: float | None = None
        #: The time when this thread was last here, and when it looks for requests that take too long.
        self._now = time.monotonic()
        self._sweep = 0.0

    def start(self, ticket: int, request: Request) -> None:
        """Begin ``request``, or the look-up of its name."""
        self._pass(time.monotonic())
        if not self._begin(ticket, request):
            self._looking[ticket] = (request, self._now)

    def finished(self, timeout: float) -> list[tuple[int, Reply | TabootError]]:
        """What has finished, as :class:`taboot_pipelines.crawl.client.Client` says."""
        self._pass(time.monotonic())
        end = self._now + timeout
        while not self._done and (self._busy or self._looking):
            self._drive(max(0.0, end - self._now))
            self._collect()
            if self._now >= end:
                break
        done, self._done = self._done, []
        return done

    def close(self) -> None:
        """Give up what is on its way and close all connections."""
        self._looking.clear()
        for transfer in [*self._busy.values()]:
            self._multi.remove_handle(transfer.curl)
            self._free.append(transfer)
        self._busy.clear()
        for transfer in self._free:
            transfer.curl.close()
        self._free.clear()
        self._multi.close()
        self._names.close()
        self._selector.close()
        self._woken.close()
        self._waker.close()

    def _pass(self, now: float) -> None:
        """Time in which nobody waited here counts against no request."""
        away, self._now = now - self._now, now
        if away > _SWEEP_SECONDS:
            for transfer in self._busy.values():
                transfer.began += away
                transfer.heard += away
            self._looking = {t: (r, since + away) for t, (r, since) in self._looking.items()}

    def _wake(self) -> None:
        # Full, and so awake already; or closed, and nobody waits.
        with suppress(OSError):
            self._waker.send(b"!")

    # --- the loop -------------------------------------------------------------------------------------------

    def _drive(self, wait: float) -> None:
        """Let happen what can, at most ``wait`` seconds from now."""
        self._sweep = self._sweep or self._now + _SWEEP_SECONDS
        until = min(self._now + wait, self._sweep, *(() if self._due is None else (self._due,)))
        for key, events in self._selector.select(max(0.0, until - self._now)):
            if key.fileobj is self._woken:
                with suppress(BlockingIOError):
                    self._woken.recv(4096)
                continue
            ready = (pycurl.CSELECT_IN if events & selectors.EVENT_READ else 0) | (
                pycurl.CSELECT_OUT if events & selectors.EVENT_WRITE else 0
            )
            self._multi.socket_action(key.fd, ready)
        self._now = time.monotonic()
        if self._due is not None and self._now >= self._due:
            self._due = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        if self._looking:
            self._begin_found()
        if self._now >= self._sweep:
            self._sweep = 0.0
            self._end_late()

    def _on_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        if what == pycurl.POLL_REMOVE:
            with suppress(KeyError, ValueError):
                self._selector.unregister(fd)
            return
        events = (selectors.EVENT_READ if what & pycurl.POLL_IN else 0) | (
            selectors.EVENT_WRITE if what & pycurl.POLL_OUT else 0
        )
        try:
            self._selector.modify(fd, events)
        except KeyError:
            self._selector.register(fd, events)

    def _on_timer(self, milliseconds: int) -> None:
        self._due = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def _collect(self) -> None:
        left = 1
        while left:
            left, ended, failed = self._multi.info_read()
            for curl in ended:
                self._end(self._busy[curl], None)
            for curl, code, _ in failed:
                self._end(self._busy[curl], code)

    def _end(self, transfer: Transfer, code: int | None, *, late: bool = False) -> None:
        result = transfer.late() if late else transfer.result(code)
        del self._busy[transfer.curl]
        self._multi.remove_handle(transfer.curl)
        self._free.append(transfer)
        self._done.append((transfer.ticket, result))

    def _end_late(self) -> None:
        for transfer in [*self._busy.values()]:
            if transfer.is_late(self._now):
                self._end(transfer, None, late=True)
        for ticket, (request, since) in [*self._looking.items()]:
            if self._now - since > request.timeouts.connect:
                del self._looking[ticket]
                self._done.append((ticket, timed_out(request)))

    # --- the beginning of a request -------------------------------------------------------------------------

    def _begin_found(self) -> None:
        for ticket, (request, _) in [*self._looking.items()]:
            if self._begin(ticket, request):
                del self._looking[ticket]

    def _begin(self, ticket: int, request: Request) -> bool:
        """False while a name is looked up."""
        url, proxy = request.url, request.proxy
        found: list[Pin] = []
        hosts = [(url.host, url.port, False)] + ([(proxy.host, proxy.port, True)] if proxy else [])
        for host, port, is_proxy in hosts:
            pin = self._names.find(host, port, proxy=is_proxy)
            if pin is None:
                return False
            if pin.blocked is not None:
                self._done.append((ticket, blocked(request, pin.blocked)))
                return True
            if not pin.addresses:
                self._done.append(
                    (ticket, broken(request, f"the name {host} does not resolve", again=pin.again))
                )
                return True
            found.append(pin)
        transfer = self._free.pop() if self._free else Transfer(self._allowed)
        transfer.begin(ticket, request, found, self._now)
        self._busy[transfer.curl] = transfer
        self._multi.add_handle(transfer.curl)
        return True
