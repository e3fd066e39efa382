"""What a local disk refuses, as ``E_STORAGE`` with the path and what to do.

The libraries beneath (Delta, obstore, Arrow, DuckDB) wrap the system's error in one of their own and keep its
number only in words: ``os error 28``, ``[errno 28]``, or ``No space left on device``.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from taboot_pipelines.errors import TabootError

_log = logging.getLogger(__name__)
_OTHERS = 0o007
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


def private_folder(path: Path) -> None:
    """Make a folder that only its owner may enter, or take everybody else's rights from the one there is.

    What is granted to a group alone was granted on purpose and stays. A change is logged, and so is that the
    folder belongs to somebody else. Raises ``OSError`` where it cannot be made.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777
    if mode & _OTHERS:
        try:
            path.chmod(0o700)
        except OSError:
            _log.warning("every user of this machine may read %s (mode %o): `chmod 700` it", path, mode)
        else:
            _log.warning("every user of this machine could read %s (mode %o); it is 700 now", path, mode)


def private_file(path: Path) -> None:
    """Take the rights of everybody else from a file that is there, as :func:`private_folder` does."""
    with contextlib.suppress(OSError):
        if path.stat().st_mode & _OTHERS:
            path.chmod(0o600)


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file in one step, so that a reader, or a crash, sees the old bytes or the new ones.

    Raises ``OSError``.
    """
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
            os.fchmod(fd, mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def on_disk(what: str, path: Path) -> Iterator[None]:
    """Turn an ``OSError`` into ``E_STORAGE``."""
    try:
        yield
    except OSError as error:
        raise storage_error(what, refusal(error), path, reason=type(error).__name__) from error
