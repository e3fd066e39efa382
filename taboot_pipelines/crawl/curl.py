"""The client: libcurl, any number of requests in one thread, HTTP/2 where the server has it.

libcurl speaks the protocol and pools connections; what it would decide by itself is taken from it. It gets
every name's checked addresses with the request, its sockets are opened here, for those addresses only, and it
gets the target's bytes as :mod:`taboot_pipelines.crawl.urls` parsed them. It reads neither the environment
nor ``.netrc``, keeps no cookies, follows no redirect, and has no protocol but HTTP. Bodies are decoded and
bounded here, and the time-outs between two pieces and for the whole run only while somebody waits for the
answers.

One request as libcurl makes it: its options, the answer as it comes, and what it has come to.
"""

from __future__ import annotations

import ipaddress
import selectors
import socket
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress

import pycurl

from taboot_pipelines.crawl.addresses import (
    ANYWHERE,
    Names,
    Network,
    Pin,
    Resolver,
    check_address,
    not_public,
    resolve,
)
from taboot_pipelines.crawl.authorities import authorities
from taboot_pipelines.crawl.client import Reply, Request
from taboot_pipelines.crawl.inflate import Inflater
from taboot_pipelines.crawl.proxies import Proxy
from taboot_pipelines.errors import TabootError

#: A body that nobody reads (a refusal's, an image's) is let through up to this size, since a new connection
#: costs more.
MAX_UNREAD_BYTES = 65536
#: Idle connections go after so long; servers close theirs not much later.
_IDLE_SECONDS = 60
#: ``CURLOPT_SUPPRESS_CONNECT_HEADERS``, which pycurl has no name for: a proxy's answer is not the page's.
_SUPPRESS_CONNECT_HEADERS = 265
#: ``CURLE_PROXY``, likewise.
_E_PROXY = 97
#: What a SOCKS proxy says of the host behind it (``CURLPX_REPLY_…``), which is no failure of its own.
_HOST_ERRORS = {
    19: "connection refused",
    21: "the host is unreachable",
    22: "the network is unreachable",
    24: "the time to live expired",
}
#: Headers of which every repetition counts, joined by commas (RFC 9110 §5.3); of the others the last does.
_LISTS = frozenset(
    {"content-encoding", "link", "x-robots-tag", "cache-control", "pragma", "vary", "age", "date", "expires"}
)
_HTTP_VERSIONS = {1: "1.0", 2: "1.1", 3: "2"}
#: Headers that libcurl would add by itself.
_NO_DEFAULTS = (b"Accept:", b"User-Agent:")
_ABORT = -1
#: What has to come in the time between two pieces: less is an answer that drips.
_PIECE_BYTES = 1024


class Transfer:
    """One handle of libcurl, and what has come of the request that it is used for."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed
        self.ticket = 0
        self.began = self.heard = 0.0
        self.curl = pycurl.Curl()
        self._proxy: Proxy | None = None
        for option, value in (
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.PATH_AS_IS, 1),
            (pycurl.NETRC, pycurl.NETRC_IGNORED),
            (pycurl.PROXY, ""),
            (pycurl.NOPROXY, ""),
            (pycurl.HTTPPROXYTUNNEL, 1),
            (_SUPPRESS_CONNECT_HEADERS, 1),
            (pycurl.HTTP_CONTENT_DECODING, 0),
            (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS),
            (pycurl.MAXAGE_CONN, _IDLE_SECONDS),
            (pycurl.SSL_VERIFYPEER, 1),
            (pycurl.SSL_VERIFYHOST, 2),
            (pycurl.PROXY_SSL_VERIFYPEER, 1),
            (pycurl.PROXY_SSL_VERIFYHOST, 2),
            (pycurl.CAINFO, authorities()),
            (pycurl.PROXY_CAINFO, authorities()),
            (pycurl.HEADERFUNCTION, self._on_header),
            (pycurl.WRITEFUNCTION, self._on_body),
            (pycurl.OPENSOCKETFUNCTION, self._open_socket),
        ):
            self.curl.setopt(option, value)

    def begin(self, ticket: int, request: Request, found: Sequence[Pin], now: float) -> None:
        """Set up ``request``. ``found``: what its host, and its proxy if it has one, may be connected to."""
        self.ticket, self._request = ticket, request
        self.began = self.heard = now
        self._status = 0
        self._lines: list[bytes] = []
        self._headers: dict[str, str] = {}
        self._complete = self._unread = self._cut = False
        self._error: TabootError | None = None
        self._inflater: Inflater | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        #: Bytes of the answer since ``heard``, and when the last of them came.
        self._come, self._last = 0, now
        url, proxy, set_ = request.url, request.proxy, self.curl.setopt
        # The path is given apart, as it was parsed.
        set_(pycurl.URL, f"{url.scheme}://{url.host}:{url.port}/")
        set_(pycurl.REQUEST_TARGET, url.target)
        headers = [_line(name, value) for name, value in (("Host", url.authority), *request.headers)]
        set_(pycurl.HTTPHEADER, [*_NO_DEFAULTS, *headers])
        set_(pycurl.CONNECTTIMEOUT_MS, max(1, int(request.timeouts.connect * 1000)))
        if proxy != self._proxy:
            self._go_by(proxy)
        if proxy is None:
            set_(pycurl.RESOLVE, _pinned(url.host, url.port, found[0]))
        else:
            # The proxy is told the address, not the name, so that it has nothing to look up.
            (address, *_), host = found[0].addresses, proxy.host
            text = f"[{address}]" if address.version == 6 else str(address)
            set_(pycurl.CONNECT_TO, [f"::{text}:{url.port}"])
            set_(pycurl.RESOLVE, _pinned(host, proxy.port, found[1]))

    def _go_by(self, proxy: Proxy | None) -> None:
        set_ = self.curl.setopt
        self._proxy = proxy
        if proxy is None:
            set_(pycurl.PROXY, "")
            self.curl.unsetopt(pycurl.CONNECT_TO)
            return
        set_(pycurl.PROXY, f"{proxy.scheme}://{proxy.host}:{proxy.port}")
        for option, text in ((pycurl.PROXYUSERNAME, proxy.username), (pycurl.PROXYPASSWORD, proxy.password)):
            if text is None:
                self.curl.unsetopt(option)
            else:
                set_(option, text.encode())

    # --- what libcurl calls ---------------------------------------------------------------------------------

    def _open_socket(self, _purpose: int, address: pycurl.CurlSockAddr) -> socket.socket | int:
        """Every connection begins here, whoever said where it should go."""
        if address.family not in (socket.AF_INET, socket.AF_INET6):
            return pycurl.SOCKET_BAD
        ip = ipaddress.ip_address(address.addr[0])
        # By a proxy libcurl connects to nothing else; what the proxy connects to was checked before.
        allowed = self._allowed if self._proxy is None else ANYWHERE
        if not check_address(ip, allowed):
            host = self._request.url.host if self._proxy is None else self._proxy.host
            self._error = blocked(self._request, not_public(host, ip, allowed))
            return pycurl.SOCKET_BAD
        try:
            return open_socket(address)
        except OSError:  # no IPv6 on this machine, or too many open files
            return pycurl.SOCKET_BAD

    def _hear(self, size: int) -> None:
        self._come, self._last = self._come + size, time.monotonic()
        if self._come >= _PIECE_BYTES:
            self.heard, self._come = self._last, 0

    def _on_header(self, line: bytes) -> int | None:
        self._hear(len(line))
        if line.startswith(b"HTTP/") and not self._complete:
            status = line.split(None, 2)[1:2]
            self._status = int(status[0]) if status and status[0].isdigit() else 0
            self._lines = []
        elif line.strip(b"\r\n"):
            self._lines.append(line)  # after the body these are trailers, which nobody reads
        elif not self._complete and not 100 <= self._status < 200:
            self._complete = True
            self.heard, self._come = self._last, 0
            self._headers = _headers(self._lines)
            if 200 <= self._status < 300:
                return self._decide()
            self._unread = True
        return None

    def _decide(self) -> int | None:
        """Whether the body is wanted; sets up how it is read."""
        request, headers = self._request, self._headers
        url, limit = request.url.text, request.max_bytes
        declared = headers.get("content-length", "")
        length = int(declared[:30]) if declared.isdecimal() else None
        try:
            if request.admit is not None:
                request.admit(headers, url)
            if length is not None and length > limit and not request.cut:
                raise _too_large(request)
            encoding = headers.get("content-encoding", "").strip().lower()
            if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
                raise TabootError(
                    "E_PARSE", f"{url} came in a content encoding that was not asked for.", url=url
                )
        except TabootError as error:
            self._error, self._unread = error, True
            return None if length is not None and length <= MAX_UNREAD_BYTES else _ABORT
        if encoding not in ("", "identity"):
            self._inflater = Inflater(gzip=encoding != "deflate")
        return None

    def _on_body(self, data: bytes) -> int | None:
        self._hear(len(data))
        if self._unread:
            self._size += len(data)
            return None if self._size <= MAX_UNREAD_BYTES else _ABORT
        if self._inflater is None:
            return self._take(data)
        try:
            for piece in self._inflater.feed(data):
                if self._take(piece):
                    return _ABORT
        except zlib.error:
            url = self._request.url.text
            self._error = TabootError("E_PARSE", f"{url} came in a broken content encoding.", url=url)
            return _ABORT
        return None

    def _take(self, piece: bytes) -> int | None:
        limit = self._request.max_bytes
        self._size += len(piece)
        if self._size <= limit:
            self._pieces.append(piece)
            return None
        if self._request.cut:
            self._pieces.append(piece[: limit - self._size])
            self._cut = True
        else:
            self._pieces.clear()
            self._error = _too_large(self._request)
        return _ABORT

    # --- the end of a request -------------------------------------------------------------------------------

    def is_late(self, now: float) -> bool:
        """Whether the answer takes too long as a whole, or next to nothing more of it comes."""
        timeouts = self._request.timeouts
        if now - self.began > timeouts.total:
            return True
        if now - self.heard <= timeouts.read:
            return False
        # Until the request is sent, libcurl's own time-out for connections holds.
        sent: float = self.curl.getinfo(pycurl.PRETRANSFER_TIME)
        return sent > 0 and now - max(self.heard, self.began + sent) > timeouts.read

    def late(self) -> Reply | TabootError:
        """What a request is that took too long: all that matters may have come nevertheless."""
        if self._error is not None or (self._complete and self._unread):
            return self.result(None)
        self._pieces = []
        # One that drips would do so again; one that fell silent may not.
        silent = time.monotonic() - self._last > self._request.timeouts.read / 2
        return timed_out(self._request, again=silent)

    def result(self, code: int | None) -> Reply | TabootError:
        """What the request that ended with libcurl's ``code`` (None: well) has come to."""
        pieces, self._pieces = self._pieces, []
        if self._error is not None:
            return self._error
        if code is None or self._cut or (self._complete and self._unread):
            if self._inflater is not None and not self._cut:
                try:
                    self._inflater.end()
                except EOFError:
                    return broken(self._request, "it broke off within its content encoding")
            get = self.curl.getinfo
            return Reply(
                self._status,
                self._headers,
                b"".join(pieces),
                time.monotonic() - self.began,
                get(pycurl.PRIMARY_IP),
                _HTTP_VERSIONS.get(get(pycurl.INFO_HTTP_VERSION), "1.1"),
            )
        return self._failure(code)

    def _failure(self, code: int) -> TabootError:
        request = self._request
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return timed_out(request)
        if code in (pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_ISSUER_ERROR):
            return broken(request, "its certificate is not trusted", again=False)
        if code in (pycurl.E_SSL_CONNECT_ERROR, pycurl.E_SSL_CIPHER):
            return broken(request, "TLS failed", again=False)
        if code in (pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY, pycurl.E_URL_MALFORMAT):
            return broken(request, "the name does not resolve", again=False)
        if request.proxy is not None and code == _E_PROXY:
            reason = _HOST_ERRORS.get(self.curl.getinfo(pycurl.PROXY_ERROR))
            if reason is not None:
                return broken(request, f"the proxy {request.proxy.name} says: {reason}")
        if request.proxy is not None and (
            code in (pycurl.E_COULDNT_CONNECT, _E_PROXY) or (code == pycurl.E_RECV_ERROR and not self._status)
        ):
            name, url = request.proxy.name, request.url.text
            message = f"The proxy {name} does not answer, or refuses to connect to {url}."
            return TabootError("E_PROXY", message, url=url, proxy=name, again=True)
        if code == pycurl.E_COULDNT_CONNECT:
            return broken(request, "connection refused, or no way to the host")
        return broken(request, "the answer broke off or is not HTTP")


def open_socket(address: pycurl.CurlSockAddr) -> socket.socket:
    """The socket of a connection to ``address``, which was checked."""
    return socket.socket(address.family, address.socktype, address.protocol)


def _pinned(host: str, port: int, pin: Pin) -> list[str]:
    if host.startswith("["):
        return []
    addresses = ",".join(f"[{a}]" if a.version == 6 else str(a) for a in pin.addresses)
    # "+": libcurl forgets it after a minute, or it would keep every name that was ever asked for.
    return [f"+{host}:{port}:{addresses}"]


def _line(name: str, value: str) -> bytes:
    """A header as it is sent. What would end the line is left out of the value."""
    text = value.translate({0: None, 10: None, 13: None})
    return f"{name}: {text}".encode("latin-1", "replace")


def _headers(lines: Sequence[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        key, text = name.strip().decode("latin-1").lower(), _text(value.strip())
        headers[key] = f"{headers[key]}, {text}" if key in _LISTS and key in headers else text
    return headers


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def blocked(request: Request, why: TabootError) -> TabootError:
    """``why`` a host may not be reached, for one more request that wants it."""
    return TabootError(why.code, why.message, remedy=why.remedy, url=request.url.text, **why.details)


def _too_large(request: Request) -> TabootError:
    url = request.url.text
    return TabootError("E_TOO_LARGE", f"{url} is larger than {request.max_bytes} bytes.", url=url)


def timed_out(request: Request, *, again: bool = True) -> TabootError:
    url = request.url.text
    return TabootError("E_TIMEOUT", f"{url} did not answer in time.", url=url, again=again)


def broken(request: Request, cause: str, *, again: bool = True) -> TabootError:
    url = request.url.text
    return TabootError("E_NETWORK", f"{url} could not be fetched ({cause}).", url=url, again=again)


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
