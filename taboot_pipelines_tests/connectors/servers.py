"""Real HTTP servers on loopback for the tests of the web connector."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from taboot_pipelines.connectors.access import Access, HttpAccess
from taboot_pipelines.crawl.addresses import Resolver
from taboot_pipelines.settings import HttpSettings, Settings

Handler = Callable[[BaseHTTPRequestHandler], None]


class Site:
    """What a server saw: ``hits`` per path, ``most`` requests at one time; and where it listens."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port = server.server_address[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.hits: Counter[str] = Counter()
        self.headers: list[tuple[str, dict[str, str]]] = []
        self.most = 0
        self._now = 0
        self.lock = threading.Lock()

    def enter(self, path: str, headers: dict[str, str]) -> None:
        with self.lock:
            self.hits[path] += 1
            self.headers.append((path, headers))
            self._now += 1
            self.most = max(self.most, self._now)

    def leave(self) -> None:
        with self.lock:
            self._now -= 1


def resolving(resolver: Resolver, **http: Any) -> Access:
    """Access by the settings ``http`` to a web whose host names mean what ``resolver`` says."""
    settings = HttpSettings(**http)
    return replace(Access.of(Settings(), Path()), http=HttpAccess(settings, resolver=resolver))


def base_of(h: BaseHTTPRequestHandler) -> str:
    """The base URL of the server that is answering."""
    return f"http://127.0.0.1:{cast(ThreadingHTTPServer, h.server).server_port}"


class _Counted(BaseHTTPRequestHandler):
    """A request that its site counts until it is answered."""

    site: Site
    counted = False

    def enter(self) -> None:
        self.counted = True
        self.site.enter(self.path, {k.lower(): v for k, v in self.headers.items()})

    def leave(self) -> None:
        """Count it no more; once is enough."""
        if self.counted:
            self.counted = False
            self.site.leave()


def send(h: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    """Answer with ``headers`` (``_`` for ``-``) and the body's length."""
    h.send_response(status)
    for name, value in {"content_length": str(len(body)), **headers}.items():
        h.send_header(name.replace("_", "-"), value)
    # Once it has its answer, a client may ask for the next before this thread is done with the first.
    if isinstance(h, _Counted):
        h.leave()
    h.end_headers()
    h.wfile.write(body)


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    """A server's TLS context with a self-signed certificate for ``name`` at ``folder``/cert.pem."""
    tool = shutil.which("openssl")
    if tool is None:
        pytest.skip("needs the openssl command to make a certificate")
    subprocess.run(
        [
            tool,
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-addext",
            f"subjectAltName=DNS:{name}",
            "-keyout",
            str(folder / "key.pem"),
            "-out",
            str(folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@contextmanager
def serve(handle: Handler, tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    class Request(_Counted):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.enter()
            try:
                handle(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            finally:
                self.leave()

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 64

        def handle_error(self, *_: object) -> None:
            pass  # a client that hangs up is what many tests are about

    server = Server(("127.0.0.1", 0), Request)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    site = Request.site = Site(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
