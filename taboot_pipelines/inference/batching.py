"""What every model is asked with: slices of its input, several at a time, in texts that have UTF-8."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable


def gather(count: int, size: int, workers: int, work: Callable[[int, int, threading.Event], None]) -> None:
    """Call ``work(start, end, stop)`` for each slice of at most ``size`` of ``count`` things, ``workers`` at
    a time.

    The first failure is raised; the others are told by ``stop`` and waited for no longer than their request
    takes.
    """
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

    stop = threading.Event()
    slices = [(start, min(start + size, count)) for start in range(0, count, size)]
    if len(slices) <= 1 or workers == 1:
        for start, end in slices:
            work(start, end, stop)
        return
    pool = ThreadPoolExecutor(min(workers, len(slices)), "inference")
    try:
        # In the context of the caller, whose spans theirs lie beneath.
        futures = [
            pool.submit(contextvars.copy_context().run, work, start, end, stop) for start, end in slices
        ]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future in done:
                future.result()
    finally:
        # After a failure the others stop at their next wait; after success there is nothing left to stop.
        stop.set()
        pool.shutdown(cancel_futures=True)


def is_unicode(text: str) -> bool:
    """Whether ``text`` has UTF-8: a lone surrogate has none, and no request can carry it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
