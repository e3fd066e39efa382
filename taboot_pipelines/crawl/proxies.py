"""The proxies that a source goes by: which one is next, which one is left alone as it failed, and a test.

A proxy is asked for anything only while its circuit is closed; circuits are in the state, so that what one
process learned of a proxy holds for all. The order of turns is each process's own.

Tunnels by a proxy of the operator: CONNECT of HTTP (RFC 9110 §9.3.6) and SOCKS5 (RFC 1928, RFC 1929).

The proxy is told the address that was checked, never the name, so that it has nothing to look up and reaches
nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from taboot_pipelines.crawl.addresses import Address
from taboot_pipelines.crawl.domains import Domains, DomainSettings
from taboot_pipelines.crawl.politeness import Politeness
from taboot_pipelines.crawl.urls import WebUrl
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import HttpSettings
from taboot_pipelines.stores.state.protocol import Lenient

PROXY_FAILURES = 3
PROXY_REST_SECONDS = 60.0
_PORTS = {"http": 8080, "https": 443, "socks5": 1080}
#: That names are looked up here and not by the proxy holds for both.
_SCHEMES = {"socks5h": "socks5"}
_URL = re.compile(
    r"(?i)(http|https|socks5h?)://(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?/?"
)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,199})\}")


def _proxy_url(value: str) -> str:
    match = _URL.fullmatch(value)
    if match is None or not 0 < int(match[3] or 1) < 65536:
        raise ValueError(
            "is not the URL of a proxy, such as http://proxy.lan:3128 (http, https, socks5 or socks5h; the"
            " user and password stand in fields of their own)"
        )
    return value


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError("is not ${NAME}, the environment variable that holds the password")
    return value


class ProxyServer(BaseModel):
    """One proxy of a list."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: Annotated[str, AfterValidator(_proxy_url)] = Field(
        description=(
            "Such as `http://proxy.lan:3128`; http, https, socks5 or socks5h (the same as socks5: names are"
            " looked up here, and the proxy is told checked addresses). It may have any address, private ones"
            " too, but a cloud's metadata service's."
        )
    )
    username: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = Field(
        None, description="The user, or `${NAME}` for the environment variable of that name."
    )
    password: Annotated[str, AfterValidator(_variable)] | None = Field(
        None, description="`${NAME}`: the environment variable that holds it."
    )


class ProxySettings(BaseModel):
    """A list of proxies that sources name by `proxies`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    servers: Annotated[list[ProxyServer], Field(min_length=1, max_length=1000)] = Field(
        description="The proxies: `url`, and `username` and `password` where it asks for them."
    )
    rotation: Literal["round_robin", "least_used", "random"] = Field(
        "round_robin",
        description="Which is next: each in turn, the one with the fewest requests, or any.",
    )
    active: bool = Field(True, description="Whether the list is in use; else its sources go without a proxy.")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy to go by. ``scheme``: ``http``, ``https`` or ``socks5``; ``host`` is a name or an address."""

    scheme: str
    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What people and logs call it: never with its password."""
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ProxyTest:
    """Whether one proxy answers: ``seconds`` it took, ``code`` and ``reason`` where it failed."""

    proxy: str
    works: bool
    seconds: float
    code: str = ""
    reason: str = ""


class Proxies:
    """One list of proxies at work. ``secret(NAME)`` gives the environment's value or raises ``E_CONFIG``.
    Threads may share one."""

    def __init__(
        self,
        name: str,
        settings: ProxySettings,
        hints: Lenient,
        namespace: str,
        secret: Callable[[str], str],
        *,
        chance: random.Random | None = None,
    ) -> None:
        self.name = name
        self._rotation = settings.rotation
        self._proxies = [_opened(server, secret) for server in settings.servers] if settings.active else []
        self._chance = chance or random.Random()
        rules = DomainSettings(
            circuit_failures=PROXY_FAILURES, circuit_rest_seconds=PROXY_REST_SECONDS, rate_limit_rps=0
        )
        # A proxy fails, rests and is tried as a domain is.
        self._health = Politeness(
            hints,
            namespace,
            HttpSettings(),
            Domains(HttpSettings(), {_circuit(p): rules for p in self._proxies}),
        )
        self._lock = threading.Lock()
        #: Where the next turn begins; several processes begin at different proxies.
        self._next = self._chance.randrange(len(self._proxies)) if self._proxies else 0
        self._used = dict.fromkeys(self._proxies, 0)

    def choose(self, _url: WebUrl | None = None) -> Proxy | None:
        """The proxy for one request, whose outcome :meth:`told` hears; None if the list is not in use. Raises
        ``E_PROXY`` if none of them is well."""
        if not self._proxies:
            return None
        with self._lock:
            for proxy in self._order():
                try:
                    if self._health.wait(_circuit(proxy)) > 0:
                        continue  # another request tries whether it is well
                except TabootError:
                    continue
                self._used[proxy] += 1
                self._next = self._proxies.index(proxy) + 1
                return proxy
        raise TabootError(
            "E_PROXY",
            f"None of the {len(self._proxies)} proxies of {self.name} works; they are tried again later.",
            proxies=self.name,
        )

    def told(self, proxy: Proxy, *, failed: bool | None) -> None:
        """Whether the proxy failed to carry the request (None: it was not asked after all). What the site
        behind it answers is no failure of the proxy."""
        self._health.told(_circuit(proxy), failed=failed)

    def test(self, ask: Callable[[Proxy], None]) -> list[ProxyTest]:
        """Try every proxy, whatever its circuit says; ``ask`` fetches something by it and raises
        ``TabootError`` if that fails. The outcome counts as any other."""
        found = []
        for proxy in self._proxies:
            begun = time.monotonic()
            try:
                ask(proxy)
            except TabootError as error:
                self._health.told(_circuit(proxy), failed=True)
                seconds = time.monotonic() - begun
                found.append(ProxyTest(proxy.name, False, seconds, error.code, error.message))
            else:
                self._health.told(_circuit(proxy), failed=False)
                found.append(ProxyTest(proxy.name, True, time.monotonic() - begun))
        return found

    def _order(self) -> Sequence[Proxy]:
        """All proxies, the one whose turn it is first."""
        if self._rotation == "random":
            return self._chance.sample(self._proxies, len(self._proxies))
        start = self._next % len(self._proxies)
        turns = self._proxies[start:] + self._proxies[:start]
        return turns if self._rotation == "round_robin" else sorted(turns, key=lambda p: self._used[p])


def _circuit(proxy: Proxy) -> str:
    return f"proxy {proxy.name}"


def _opened(server: ProxyServer, secret: Callable[[str], str]) -> Proxy:
    match = _URL.fullmatch(server.url)
    assert match is not None
    scheme = match[1].lower()
    scheme = _SCHEMES.get(scheme, scheme)

    def filled(text: str | None) -> str | None:
        return None if text is None else _VARIABLE.sub(lambda found: secret(found[1]), text)

    return Proxy(
        scheme,
        match[2].lower(),
        int(match[3]) if match[3] else _PORTS[scheme],
        filled(server.username),
        filled(server.password),
    )


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
