"""A SOCKS5 proxy on loopback (RFC 1928, RFC 1929), which connects to addresses alone."""

from __future__ import annotations

import ipaddress
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress


class Socks:
    """``asked``: the addresses and ports that it was to connect to; ``said``: the users and passwords."""

    def __init__(self, credentials: tuple[str, str] | None, reply: int) -> None:
        self.asked: list[tuple[str, int]] = []
        self.said: list[tuple[str, str]] = []
        self._credentials = credentials
        self._reply = reply
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._carry, args=(self._listening.accept()[0],), daemon=True).start()

    def _carry(self, peer: socket.socket) -> None:
        with closing(peer), suppress(OSError, EOFError):
            version, count = _exactly(peer, 2)
            if version != 5:
                return
            methods = _exactly(peer, count)
            wanted = 2 if self._credentials else 0
            if wanted not in methods:
                peer.sendall(b"\x05\xff")
                return
            peer.sendall(bytes((5, wanted)))
            if self._credentials:
                version, length = _exactly(peer, 2)
                user = _exactly(peer, length).decode()
                password = _exactly(peer, _exactly(peer, 1)[0]).decode()
                self.said.append((user, password))
                peer.sendall(b"\x01\x00" if (user, password) == self._credentials else b"\x01\x01")
                if (user, password) != self._credentials:
                    return
            version, command, _, kind = _exactly(peer, 4)
            assert (version, command) == (5, 1) and kind in (1, 4), "an address, not a name"
            host = str(ipaddress.ip_address(_exactly(peer, 4 if kind == 1 else 16)))
            (port,) = struct.unpack("!H", _exactly(peer, 2))
            self.asked.append((host, port))
            if self._reply:
                peer.sendall(bytes((5, self._reply, 0, 1)) + bytes(6))
                return
            with socket.create_connection((host, port)) as onward:
                # Bound by a name, which some proxies say.
                peer.sendall(b"\x05\x00\x00\x03\x05proxy\x00\x00")
                relay(peer, onward)


@contextmanager
def socks_proxy(credentials: tuple[str, str] | None = None, reply: int = 0) -> Iterator[Socks]:
    """Such a proxy. ``credentials``: the user and password that it asks for. ``reply``: what it answers to
    every wish to connect."""
    with closing(Socks(credentials, reply)) as found:
        yield found


def relay(one: socket.socket, other: socket.socket) -> None:
    """Carry what comes from either to the other until both have ended."""

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=pump, args=(other, one), daemon=True)
    back.start()
    pump(one, other)
    back.join(5)


def _exactly(peer: socket.socket, size: int) -> bytes:
    came = b""
    while len(came) < size:
        piece = peer.recv(size - len(came))
        if not piece:
            raise EOFError
        came += piece
    return came
