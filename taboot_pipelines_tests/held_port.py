"""A port of loopback that stays ours from its choice until the test is over, whoever listens on it meanwhile.

A port that is chosen, let go and then bound by a process that takes seconds to start may have been given to
another by then; so may that of a server which is stopped and started again.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port(port: int = 0) -> Iterator[int]:
    """A port that the kernel chose, or ``port``, which nobody may listen on yet. Bound, but not listened on,
    by a socket that shares it: the kernel gives it to nobody who asks for any port, connections are refused,
    and a server that names it, and sets ``SO_REUSEADDR`` as servers do, gets it again and again."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        yield holder.getsockname()[1]
