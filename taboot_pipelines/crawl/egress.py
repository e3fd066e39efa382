"""A forward proxy on loopback by which a browser reaches the web, and nothing else reaches anything.

A browser resolves names and opens sockets for more reasons than a caller can list: subresources, frames,
workers, WebSockets, beacons, prefetching. So it is told of no other way out than this proxy, and the proxy
does what a client of ours does at every connection: it parses the target by the one parser, resolves the
name once for the whole visit, checks every address, and connects to a checked one. What is refused is
remembered, so that the visit can say why its page did not come.

Each visit has a password of its own, which the browser alone is told; a stranger on this machine is answered
407. The bytes and connections of a visit are counted, and beyond their bounds all of it is cut off.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import re
import secrets
import ssl
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from taboot_pipelines.crawl.addresses import ANYWHERE, Address, Network, Resolver, reachable, resolve
from taboot_pipelines.crawl.authorities import authorities
from taboot_pipelines.crawl.proxies import (
    MAX_HEAD_BYTES,
    PIECE_BYTES,
    Proxy,
    Stream,
    open_tunnel,
    read_head,
    refused,
)
from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.errors import TabootError

#: Connections that one visit may open in all: tunnels, and requests without one.
MAX_CONNECTIONS = 2000
#: Of a name with very many addresses only the first are tried.
_HEAD_SECONDS = 30.0
_RESOLVERS = 8
_AUTHORITY = re.compile(r"[^\s/?#@\\]+:[0-9]{1,5}")
#: Meant for one connection only (RFC 9110 §7.6.1), or for us.
_HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "trailer",
        "upgrade",
        "host",
    )
)


@dataclass(eq=False, slots=True)
class Visit:
    """What one page may reach, and what it did. ``allowed``: as of ``check_address``. ``max_bytes``: in all,
    in both directions. ``way``: the operator's proxy to go by, if any, which may have any address but a
    metadata service's.

    ``addresses``: by host, what it was pinned to; ``gate``: the way's. ``refusals``: by ``host:port``, why
    there was no connection. ``exceeded``: a bound was reached and the visit was cut off.
    """

    allowed: Sequence[Network]
    max_bytes: int
    connect_seconds: float
    way: Proxy | None = None
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    addresses: dict[str, Address] = field(default_factory=dict)
    gate: Address | None = None
    refusals: dict[str, TabootError] = field(default_factory=dict)
    bytes: int = 0
    connections: int = 0
    exceeded: bool = False
    #: By host, and whether it is the way.
    _pinned: dict[tuple[str, bool], asyncio.Future[list[Address]]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def _count(self, n: int) -> None:
        self.bytes += n
        if self.bytes > self.max_bytes:
            self.exceeded = True
            raise _Cut

    def _cut_off(self) -> None:
        for task in self._tasks:
            task.cancel()


class _Cut(Exception):
    """The visit is over."""


class EgressProxy:
    """The proxy, in the running event loop. ``port`` is known after :meth:`open`."""

    def __init__(self, resolver: Resolver = resolve) -> None:
        self._resolver = resolver
        self._threads = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="taboot-resolver")
        self._visits: dict[str, Visit] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def open(self) -> None:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2 * MAX_HEAD_BYTES)
        self.port = int(self._server.sockets[0].getsockname()[1])

    def begin(self, name: str, visit: Visit) -> None:
        """Let in whoever says ``name`` and the visit's password."""
        self._visits[name] = visit

    def end(self, name: str) -> None:
        """Let nobody in by ``name`` any more, and close its connections."""
        if (visit := self._visits.pop(name, None)) is not None:
            visit._cut_off()

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for name in list(self._visits):
            self.end(name)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        visit: Visit | None = None
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head, rest = await read_head(reader)
            lines = head.decode("latin-1").split("\n")
            fields = [_field(line) for line in lines[1:] if line.strip()]
            visit = self._visit(fields)
            if visit is None:
                writer.write(_answer(407, 'Proxy-Authenticate: Basic realm="taboot"\r\n'))
                return
            visit._tasks.add(task)
            await self._carry(visit, lines[0].strip(), fields, rest, (reader, writer))
        except _Cut:
            if visit is not None and visit.exceeded:
                visit._tasks.discard(task)
                visit._cut_off()
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.CancelledError):
            pass  # whoever was on the other end sees that the connection closes
        finally:
            if visit is not None:
                visit._tasks.discard(task)
            await _close(writer)
            self._tasks.discard(task)

    def _visit(self, fields: list[tuple[str, str]]) -> Visit | None:
        stated = next((v for n, v in fields if n.lower() == "proxy-authorization"), "")
        kind, _, coded = stated.partition(" ")
        if kind.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(coded.strip(), validate=True).decode().partition(":")
        except ValueError:
            return None
        visit = self._visits.get(name)
        right = hmac.compare_digest(password.encode(), (visit.password if visit else "").encode())
        return visit if right and password else None

    async def _carry(
        self, visit: Visit, line: str, fields: list[tuple[str, str]], rest: bytes, client: Stream
    ) -> None:
        """Carry out one request: a tunnel, or a request for an ``http`` URL."""
        method, target, version = [*line.split(" "), "", ""][:3]
        tunnel = method == "CONNECT"
        try:
            if not version.startswith("HTTP/1.") or (tunnel and not _AUTHORITY.fullmatch(target)):
                raise TabootError("E_URL_BAD", "The target is not one of HTTP.")
            url = parse_url(f"https://{target}/" if tunnel else target)
            if not tunnel and url.scheme != "http":
                raise TabootError("E_URL_BAD", "Only http goes without a tunnel.")
        except TabootError:
            client[1].write(_answer(400))
            return
        try:
            server = await self._connect(visit, url)
        except TabootError as error:
            visit.refusals.setdefault(f"{url.host}:{url.port}", error)
            client[1].write(_answer(403 if error.code == "E_URL_BLOCKED" else 502))
            return
        try:
            if tunnel:
                client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                if rest:
                    visit._count(len(rest))
                    server[1].write(rest)
                await _both(_pump(visit, client[0], server[1]), _pump(visit, server[0], client[1]))
            else:
                await self._exchange(visit, method, url, fields, rest, client, server)
        finally:
            await _close(server[1])

    async def _exchange(
        self,
        visit: Visit,
        method: str,
        url: WebUrl,
        fields: list[tuple[str, str]],
        rest: bytes,
        client: Stream,
        server: Stream,
    ) -> None:
        """One request and its answer, after which both connections end: what a client sends next could be
        for another host.
        """
        length = next((v for n, v in fields if n.lower() == "content-length"), "0")
        if any(n.lower() == "transfer-encoding" for n, _ in fields) or not length.isdecimal():
            client[1].write(_answer(411))
            return
        kept = _end_to_end(fields)
        head = "".join(f"{n}: {v}\r\n" for n, v in kept)
        line = f"{method} {url.target} HTTP/1.1\r\nHost: {url.authority}\r\n{head}Connection: close\r\n\r\n"
        server[1].write(line.encode("latin-1"))

        async def send() -> None:
            left = int(length)
            piece = rest[:left]
            while left > 0:
                if not piece:
                    piece = await client[0].read(min(left, PIECE_BYTES))
                    if not piece:
                        raise _Cut
                visit._count(len(piece))
                server[1].write(piece)
                await server[1].drain()
                left -= len(piece)
                piece = b""
            # Nothing more is wanted of the client but that it stays.
            if not await client[0].read(1):
                raise _Cut

        async def receive() -> None:
            begun = b""
            while True:
                answer, begun = await read_head(server[0], begun)
                visit._count(len(answer) + len(begun))
                lines = answer.decode("latin-1").split("\n")
                status = lines[0].split(" ")[1:2]
                if not lines[0].startswith("HTTP/1.") or not status:
                    raise _Cut
                if not status[0].startswith("1"):
                    break
            kept = _end_to_end([_field(line) for line in lines[1:] if line.strip()])
            text = "".join(f"{n}: {v}\r\n" for n, v in kept)
            client[1].write(
                f"{lines[0].strip()}\r\n{text}Connection: close\r\n\r\n".encode("latin-1") + begun
            )
            await _pump(visit, server[0], client[1])

        async def done() -> None:
            await receive()
            raise _Cut

        await _both(send(), done())

    async def _connect(self, visit: Visit, url: WebUrl) -> Stream:
        """A connection to a checked address of ``url``'s host. Raises ``E_URL_BLOCKED``, ``E_NETWORK``,
        and ``E_PROXY`` where the visit goes by one."""
        visit.connections += 1
        if visit.connections > MAX_CONNECTIONS:
            visit.exceeded = True
            raise _Cut
        host = url.host.strip("[]")
        addresses = await self._checked(visit, host, url.port)
        if visit.way is None:
            stream, visit.addresses[host] = await self._dial(visit, host, url.port, addresses)
            return stream
        visit.addresses[host] = addresses[0]
        return await self._by(visit, visit.way, addresses[0], url.port)

    async def _by(self, visit: Visit, way: Proxy, address: Address, port: int) -> Stream:
        """A connection to ``address`` by the proxy ``way``. Raises ``E_PROXY`` as well, where it fails."""
        gate = way.host.strip("[]")
        context = None
        if way.scheme == "https":
            context = ssl.create_default_context(cafile=authorities())
        try:
            found = await self._checked(visit, gate, way.port, way=True)
            stream, visit.gate = await self._dial(visit, gate, way.port, found, context)
        except TabootError as error:
            if error.code != "E_NETWORK":
                raise
            raise refused(way, address, "it cannot be reached") from None
        try:
            await open_tunnel(stream, way, address, port, visit.connect_seconds)
        except BaseException:
            await _close(stream[1])
            raise
        return stream

    async def _dial(
        self,
        visit: Visit,
        host: str,
        port: int,
        addresses: Sequence[Address],
        tls: ssl.SSLContext | None = None,
    ) -> tuple[Stream, Address]:
        """A connection to one of the checked ``addresses``, and which that is. Raises ``E_NETWORK``."""
        for address in addresses:
            if address.is_loopback and port == self.port:
                continue  # this proxy itself
            try:
                async with asyncio.timeout(visit.connect_seconds):
                    return await asyncio.open_connection(
                        str(address), port, ssl=tls, server_hostname=host if tls else None
                    ), address
            except OSError:  # also a time-out, and TLS that fails
                continue
        raise TabootError("E_NETWORK", f"{host} could not be connected to.", host=host, again=True)

    async def _checked(self, visit: Visit, host: str, port: int, *, way: bool = False) -> list[Address]:
        """The addresses that the visit's first look-up of ``host`` gave, all of which passed the check."""
        future = visit._pinned.get((host, way))
        if future is None:
            allowed = ANYWHERE if way else visit.allowed
            future = asyncio.ensure_future(self._look_up(host, port, allowed, visit.connect_seconds))
            visit._pinned[host, way] = future
        return await asyncio.shield(future)

    async def _look_up(
        self, host: str, port: int, allowed: Sequence[Network], seconds: float
    ) -> list[Address]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                return await loop.run_in_executor(
                    self._threads, reachable, host, port, allowed, self._resolver
                )
        except OSError:
            message = f"The name {host} does not resolve."
            raise TabootError("E_NETWORK", message, host=host, again=True) from None


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def _end_to_end(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    named = {
        part.strip().lower() for n, v in fields if n.lower() == "connection" for part in v.split(",")
    } - {"close"}
    return [(n, v) for n, v in fields if n and n.lower() not in _HOP_BY_HOP and n.lower() not in named]


def _answer(status: int, fields: str = "") -> bytes:
    return f"HTTP/1.1 {status} Refused\r\n{fields}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()


async def _pump(visit: Visit, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE_BYTES):
        visit._count(len(piece))
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        with contextlib.suppress(OSError):
            writer.write_eof()


async def _both(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run both to their ends; where one fails, the other is given up."""
    tasks = [asyncio.ensure_future(c) for c in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Send what is left, for a moment, and close."""
    try:
        async with asyncio.timeout(1):
            await writer.drain()
    except (OSError, asyncio.CancelledError):
        writer.transport.abort()
    finally:
        writer.close()
