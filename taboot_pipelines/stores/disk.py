"""What a local disk refuses, as ``E_STORAGE`` with the path and what to do.

The libraries beneath (Delta, obstore, Arrow, DuckDB) wrap the system's error in one of their own and keep its
number only in words: ``os error 28``, ``[errno 28]``, or ``No space left on device``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from taboot_pipelines.errors import TabootError

_FREE = "Free space there, then run again: what was published before is kept."
_WRITABLE = "Make it writable for this process, then run again: what was published before is kept."
_DEVICE = "Look at the system's log (`dmesg`) and at the mount, then run again."
#: errno -> (what it means, what to do).
_MEANING = {
    errno.ENOSPC: ("no space is left on the disk", _FREE),
    errno.EDQUOT: ("the disk quota is used up", _FREE),
    errno.EFBIG: (
        "the file would be larger than this process may write",
        "Raise `ulimit -f`, then run again.",
    ),
    errno.EROFS: ("the file system is read-only", _WRITABLE),
    errno.EACCES: ("permission is denied", _WRITABLE),
    errno.EPERM: ("the operation is not permitted", _WRITABLE),
    errno.EIO: ("the disk reports an error", _DEVICE),
    errno.ENXIO: ("the device is gone", _DEVICE),
    errno.ENODEV: ("the device is gone", _DEVICE),
    errno.ESTALE: ("the mount is gone", _DEVICE),
    errno.ENOTCONN: ("the mount is gone", _DEVICE),
    errno.EMFILE: ("too many files are open", "Raise `ulimit -n`, then run again."),
    errno.ENFILE: ("too many files are open on this machine", "Close some, then run again."),
}
_NUMBER = re.compile(r"(?:\bos error |\[errno )(\d+)\b", re.IGNORECASE)
_IN_WORDS = {os.strerror(number): number for number in _MEANING}


def refusal(error: BaseException) -> int | None:
    """The errno by which the disk refused; None if ``error`` is of another kind (an absent file, say)."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        text = str(error)
        found = _NUMBER.search(text)
        if found is not None:
            number = int(found[1])
        else:
            number = next((n for words, n in _IN_WORDS.items() if words in text), None)
    return number if number in _MEANING else None


def storage_error(what: str, number: int | None, path: Path, **details: Any) -> TabootError:
    """``E_STORAGE``: ``what`` failed at ``path`` for the reason that the errno ``number`` stands for."""
    words, remedy = _MEANING.get(number or 0, ("the disk failed", None))
    return TabootError("E_STORAGE", f"{what}: {words} ({path}).", remedy=remedy, path=str(path), **details)


@contextlib.contextmanager
def on_disk(what: str, path: Path) -> Iterator[None]:
    """Turn an ``OSError`` into ``E_STORAGE``."""
    try:
        yield
    except OSError as error:
        raise storage_error(what, refusal(error), path, reason=type(error).__name__) from error
