"""A server on loopback for fakes of APIs: each request is answered by a function."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True)
class Request:
    """What was asked. ``body``: JSON or the fields of a form; None where there is none."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Response:
    """An answer: ``body`` is sent as JSON, bytes as they are."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def answering(answer: Callable[[Request], Response]) -> Iterator[str]:
    """Serve ``answer``, one request at a time; gives the base URL."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body: Any = None
            if data:
                form = "urlencoded" in headers.get("content-type", "")
                body = dict(parse_qsl(data.decode())) if form else json.loads(data)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            request = Request(self.command, unquote(parts.path), query, headers, body)
            with lock:
                said = answer(request)
            sent = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in {"content-length": str(len(sent)), **said.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
