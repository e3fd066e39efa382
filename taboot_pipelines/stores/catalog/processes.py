"""Which process works at something, and whether it has ended: for jobs and interpretation batches."""

from __future__ import annotations

import os
import socket
from typing import Any


def this_process() -> dict[str, Any]:
    """The columns that name this process: ``pid``, ``host``, ``process_started_at``."""
    import psutil

    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "process_started_at": psutil.Process().create_time(),
    }


def has_ended(pid: int, host: str, started_at: float | None) -> bool:
    """Whether it is certain that the process has ended; of a process of another machine it never is."""
    import psutil

    if host != socket.gethostname():
        return False
    try:
        # A process with the same id that started at another time is another process.
        return started_at is not None and abs(psutil.Process(pid).create_time() - started_at) >= 1
    except psutil.NoSuchProcess:
        return True
