"""A home that cannot be written, also not by root, which CI runs as: programs without root's right to pass by
the modes of files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

#: How a command line begins whose process is bound by the modes of files.
PYTHON: tuple[str, ...] = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable)
    if os.geteuid() == 0
    else (sys.executable,)
)

_READ = 0o555


@contextlib.contextmanager
def unwritable(home: Path) -> Iterator[None]:
    """Take the right to write from every file and folder of a home, and give it back in the end."""
    found = [home, *home.rglob("*")]
    modes = {path: path.stat().st_mode for path in found}
    for path, mode in modes.items():
        path.chmod(mode & _READ)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def tree(home: Path) -> dict[str, tuple[int, int, int, str]]:
    """{path: mode, size, time of the last change, hash of the bytes} of all that lies under a home."""
    found = {}
    for path in sorted((home, *home.rglob("*"))):
        stat = path.stat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(home))] = (
            stat.st_mode,
            stat.st_size,
            stat.st_mtime_ns,
            hashlib.sha256(data).hexdigest(),
        )
    return found
