"""Tunnels by a proxy of the operator: CONNECT of HTTP (RFC 9110 §9.3.6) and SOCKS5 (RFC 1928, RFC 1929).

The proxy is told the address that was checked, never the name, so that it has nothing to look up and reaches
nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import re

from taboot_pipelines.crawl.addresses import Address
from taboot_pipelines.crawl.proxies import Proxy
from taboot_pipelines.errors import TabootError

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

MAX_HEAD_BYTES = 256 * 1024
PIECE_BYTES = 64 * 1024
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_SOCKS, _CONNECT, _IPV4, _DOMAIN, _IPV6 = 5, 1, 1, 3, 4
_NO_METHOD, _BY_NOBODY, _BY_PASSWORD = 0xFF, 0, 2
#: What a SOCKS proxy says of the host, which is no failure of its own.
_HOST_REPLIES = {
    3: "its network is unreachable",
    4: "it is unreachable",
    5: "the connection was refused",
    6: "the time to live expired",
}
#: What it says of itself.
_PROXY_REPLIES = {
    1: "it failed",
    2: "its rules forbid it",
    7: "it does not know the command",
    8: "it does not know the type of address",
}


async def open_tunnel(stream: Stream, way: Proxy, address: Address, port: int, seconds: float) -> None:
    """Have the proxy ``way`` at the other end of ``stream`` connect to ``address`` and ``port`` within
    ``seconds``; what is sent afterwards goes there.

    Raises ``E_PROXY`` if the proxy does not answer or refuses, ``E_NETWORK`` if it could not reach the host,
    and ``E_CONFIG`` for a user or password that SOCKS5 has no room for.
    """
    try:
        async with asyncio.timeout(seconds):
            if way.scheme == "socks5":
                await _by_socks(stream, way, address, port)
            else:
                await _by_http(stream, way, address, port)
    except (OSError, EOFError, ValueError):  # also a time-out
        raise refused(way, address, "it does not answer, or not as it should") from None


def refused(way: Proxy, host: object, why: str) -> TabootError:
    return TabootError(
        "E_PROXY",
        f"The proxy {way.name} does not connect to {host}: {why}.",
        proxy=way.name,
        again=True,
    )


async def _by_http(stream: Stream, way: Proxy, address: Address, port: int) -> None:
    target = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
    credentials = ""
    if way.username is not None:
        coded = base64.b64encode(f"{way.username}:{way.password or ''}".encode()).decode()
        credentials = f"Proxy-Authorization: Basic {coded}\r\n"
    stream[1].write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{credentials}\r\n".encode())
    head, rest = await read_head(stream[0])
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3})(?![0-9])", head)
    if status is None or rest:
        raise ValueError("no answer of HTTP")
    if not status[1].startswith(b"2"):
        raise refused(way, address, f"it answers {status[1].decode()}")


async def _by_socks(stream: Stream, way: Proxy, address: Address, port: int) -> None:
    reader, writer = stream
    user, password = (way.username or "").encode(), (way.password or "").encode()
    if max(len(user), len(password)) > 255:
        raise TabootError(
            "E_CONFIG",
            f"The user or the password for the proxy {way.name} has more than the 255 bytes of SOCKS5.",
            proxy=way.name,
        )
    offered = (_BY_NOBODY, _BY_PASSWORD) if user else (_BY_NOBODY,)
    writer.write(bytes((_SOCKS, len(offered), *offered)))
    version, method = await reader.readexactly(2)
    if version != _SOCKS:
        raise ValueError("no answer of SOCKS5")
    if method == _NO_METHOD:
        raise refused(way, address, "it asks for another proof of who we are")
    if method not in offered:
        raise ValueError("a method that was not offered")
    if method == _BY_PASSWORD:
        writer.write(bytes((1, len(user))) + user + bytes((len(password),)) + password)
        version, status = await reader.readexactly(2)
        if version != 1 or status != 0:
            raise refused(way, address, "it does not take the user and password")
    kind = _IPV6 if address.version == 6 else _IPV4
    writer.write(bytes((_SOCKS, _CONNECT, 0, kind)) + address.packed + port.to_bytes(2))
    version, reply, _, kind = await reader.readexactly(4)
    if version != _SOCKS:
        raise ValueError("no answer of SOCKS5")
    if reply in _HOST_REPLIES:
        raise TabootError(
            "E_NETWORK",
            f"{address} could not be connected to by the proxy {way.name}: {_HOST_REPLIES[reply]}.",
            proxy=way.name,
            again=True,
        )
    if reply != 0:
        raise refused(way, address, _PROXY_REPLIES.get(reply, f"it replies {reply}"))
    # The address that it connects from, which nobody needs.
    sizes = {_IPV4: 4, _IPV6: 16}
    size = (await reader.readexactly(1))[0] if kind == _DOMAIN else sizes.get(kind)
    if size is None:
        raise ValueError("an address of no known type")
    await reader.readexactly(size + 2)


async def read_head(reader: asyncio.StreamReader, data: bytes = b"") -> tuple[bytes, bytes]:
    """A message's first line and fields, and what came after them already; ``data``: what came before."""
    while (end := _HEAD_END.search(data)) is None:
        if len(data) > MAX_HEAD_BYTES:
            raise ValueError("the head is too long")
        piece = await reader.read(PIECE_BYTES)
        if not piece:
            raise EOFError
        data += piece
    return data[: end.start()], data[end.end() :]
