"""Compressed bodies, undone in pieces of bounded size, so that a small answer cannot fill the memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

_PIECE = 65536
_MEMBER = b"\x1f\x8b"


class Inflater:
    """Undoes gzip of one or more members, or, with ``gzip`` False, zlib or raw deflate as some servers send
    it. What follows the last member is padding."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._machine: zlib._Decompress | None = None
        self._held = b""
        self._begun = self._over = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The bytes that ``chunk`` adds, in pieces of at most 64 KiB. Raises ``zlib.error``."""
        chunk, self._held = self._held + chunk, b""
        while chunk and not self._over:
            if self._machine is None and not self._next_member(chunk):
                return
            machine = self._machine
            assert machine is not None
            piece = machine.decompress(chunk, _PIECE)
            if piece:
                yield piece
            chunk = machine.unconsumed_tail
            while not chunk and not machine.eof and len(piece) == _PIECE:
                # The input is used up, but the machine holds more than it was allowed to give.
                piece = machine.decompress(b"", _PIECE)
                if piece:
                    yield piece
                chunk = machine.unconsumed_tail
            if machine.eof:
                chunk, self._machine = machine.unused_data, None

    def end(self) -> None:
        """Raises ``EOFError`` where the stream ends too early."""
        if self._machine is not None:
            raise EOFError

    def _next_member(self, chunk: bytes) -> bool:
        if self._begun:
            if self._gzip and chunk == _MEMBER[:1]:
                self._held = chunk  # half of what tells a member from padding
                return False
            if not self._gzip or not chunk.startswith(_MEMBER):
                self._over = True
                return False
        raw = not self._gzip and (chunk[0] & 0x0F) != 8
        self._machine = zlib.decompressobj(31 if self._gzip else -15 if raw else 15)
        self._begun = True
        return True


def inflate(chunks: Iterable[bytes], *, gzip: bool) -> Iterator[bytes]:
    """The decompressed bytes of all ``chunks``, as :class:`Inflater` gives them. Raises ``zlib.error``, and
    ``EOFError`` where the stream ends too early."""
    inflater = Inflater(gzip=gzip)
    for chunk in chunks:
        yield from inflater.feed(chunk)
    inflater.end()
