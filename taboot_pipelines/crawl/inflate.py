"""Compressed bodies, undone in pieces of bounded size, so that a small answer cannot fill the memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator


def inflate(chunks: Iterable[bytes], *, gzip: bool) -> Iterator[bytes]:
    """The decompressed bytes in pieces of at most 64 KiB. ``gzip`` False: zlib, or raw deflate as some
    servers send it. Raises ``zlib.error``, and ``EOFError`` where the stream ends too early."""
    machine = None
    for chunk in chunks:
        while chunk:
            if machine is None:
                raw = not gzip and (chunk[0] & 0x0F) != 8
                machine = zlib.decompressobj(31 if gzip else -15 if raw else 15)
            piece = machine.decompress(chunk, 65536)
            if piece:
                yield piece
            chunk = machine.unconsumed_tail
            while not chunk and not machine.eof and len(piece) == 65536:
                # The input is used up, but the machine holds more than it was allowed to give.
                piece = machine.decompress(b"", 65536)
                if piece:
                    yield piece
                chunk = machine.unconsumed_tail
            if machine.eof:
                chunk, machine = machine.unused_data, None
                if not gzip or not chunk.startswith(b"\x1f\x8b"):
                    return  # what follows the last member is padding
    if machine is not None:
        raise EOFError
