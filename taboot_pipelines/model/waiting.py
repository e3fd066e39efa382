"""What work waits for (a lease, a rate limit, a server that does not answer), told to whoever shows progress.

A process shows one progress, so there is one observer. Without one, telling costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Told what is waited for and for how many seconds at most, 0 where that is not known; "" when it is over.
Observer = Callable[[str, float], None]
_observers: list[Observer] = []


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Let ``observer`` be told while the block runs, in place of any other; by any thread."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def tell(what: str, seconds: float = 0.0) -> None:
    """Say what is waited for, such as ``the lease of source mail``; "" when the wait is over."""
    if _observers:
        _observers[-1](what, seconds)


@contextmanager
def waiting_for(what: str, seconds: float = 0.0) -> Iterator[None]:
    """Tell of a wait for as long as the block takes."""
    tell(what, seconds)
    try:
        yield
    finally:
        tell("")
