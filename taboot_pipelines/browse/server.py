"""The server of one person: a port of loopback, a token, and an end by Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.retrieval import KnowledgeBase

HOST = "127.0.0.1"

#: Requests at one time; a browser makes six. What comes beyond is told to come again.
_MOST_AT_ONCE = 64
#: Bytes of a request's line and headers. The longest query that is searched takes a tenth of it.
_MAX_HEAD = 1 << 17
_GRACE_SECONDS = 2


def take_port(port: int) -> socket.socket:
    """A socket that listens on ``port`` of loopback, or on a free one for 0. Raises ``E_PORT`` if another
    process has it.
    """
    taken = socket.socket()
    # A port that was in use a moment ago can be had again; one that is in use cannot.
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((HOST, port))
        taken.listen(128)
    except OSError as error:
        taken.close()
        raise TabootError(
            "E_PORT", f"Port {port} of {HOST} cannot be used: {error.strerror}.", port=port
        ) from error
    return taken


def serve(kb: KnowledgeBase, taken: socket.socket, ready: Callable[[str, str], None]) -> None:
    """Serve ``kb`` on a socket that listens, until the process is interrupted. ``ready`` is called with the
    address that opens it, and with one that does so a single time: for a browser that is started with it,
    since others can see the arguments of a process.
    """
    import uvicorn

    from taboot_pipelines.browse.app import make_app

    token, once = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    port = taken.getsockname()[1]
    app = make_app(kb, token, once, port)
    config = uvicorn.Config(
        app,
        # h11 bounds what it keeps of a request's head.
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_AT_ONCE,
        h11_max_incomplete_event_size=_MAX_HEAD,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    # The socket listens already: what is asked before the loop runs waits in its queue.
    ready(*(f"http://{HOST}:{port}/?token={value}" for value in (token, once)))
    # The first question of a process loads the model and maps the shards; it need not be a person's.
    threading.Thread(target=app.state.warm, name="browse-warm", daemon=True).start()
    try:
        server.run(sockets=[taken])
    except KeyboardInterrupt:
        pass
    finally:
        taken.close()
