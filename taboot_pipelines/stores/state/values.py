"""How a value is stored: as it is, or gzip-compressed beyond 10 KB; at most 50 MB."""

from __future__ import annotations

import gzip
import zlib

from taboot_pipelines.errors import TabootError

COMPRESS_BYTES = 10 * 1024
MAX_BYTES = 50 * 1024 * 1024
_MAGIC = b"\x1f\x8b"


def pack(value: bytes) -> bytes:
    """Return the bytes to store. Raises ``E_TOO_LARGE``.

    A short value that looks like gzip is compressed, too, so that it is not mistaken when read.
    """
    if len(value) > MAX_BYTES:
        raise TabootError(
            "E_TOO_LARGE",
            f"A value of {len(value)} bytes is more than the state holds ({MAX_BYTES}).",
            remedy="Nothing needs to be done: it is not cached.",
        )
    if len(value) > COMPRESS_BYTES or value.startswith(_MAGIC):
        return gzip.compress(value, 1, mtime=0)
    return value


def unpack(stored: bytes) -> bytes | None:
    """Return the value; None if the stored bytes are damaged, since state may be lost."""
    if not stored.startswith(_MAGIC):
        return stored
    machine = zlib.decompressobj(31)
    try:
        value = machine.decompress(stored, MAX_BYTES + 1)
    except zlib.error:
        return None
    return value if machine.eof and len(value) <= MAX_BYTES else None
