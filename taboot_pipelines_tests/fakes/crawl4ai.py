"""A fake Crawl4AI server: real HTTP, the request checks and the answer's shape of the real one, no browser.

``POST /crawl`` fetches each URL with a plain GET, follows redirects as Chromium would, and renders by a
function of the test's choice; ``GET /health`` says that it lives. It refuses what the real server of version
0.9 refuses of a caller: a wrong token, and fields that are power rather than wish. In a test::

    with FakeCrawl4Ai(api_key="k") as service:
        ... Crawl4AiSettings(url=service.url, api_key="k") ...
        assert service.requests[0]["urls"] == [...]
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import orjson

_FORBIDDEN = frozenset(
    {
        *("proxy", "proxy_config", "extra_args", "user_data_dir", "cookies", "headers", "init_scripts"),
        *("js_code", "js_code_before_wait", "deep_crawl_strategy", "session_id", "magic", "base_url"),
    }
)
_TYPES = frozenset({"BrowserConfig", "CrawlerRunConfig", "CacheMode"})


class FakeCrawl4Ai:
    """The server. ``requests``: the bodies that came; ``render(html)``: what becomes of a page."""

    def __init__(self, *, api_key: str | None = None) -> None:
        self.api_key = api_key
        self.render: Callable[[str], str] = lambda html: html
        self.requests: list[dict[str, Any]] = []
        self._answers: deque[tuple[int, bytes]] = deque()
        self._httpd = _Server(("127.0.0.1", 0), _Handler)
        self._httpd.fake = self
        self._thread = threading.Thread(target=self._httpd.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._httpd.server_address[1]}"

    def answer(self, status: int, body: bytes) -> None:
        """Give this instead, once."""
        self._answers.append((status, body))

    def __enter__(self) -> FakeCrawl4Ai:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._httpd.shutdown()
        self._httpd.server_close()
        self._thread.join()

    def crawl(self, body: dict[str, Any]) -> tuple[int, bytes]:
        """The status and body for a request's."""
        self.requests.append(body)
        if self._answers:
            return self._answers.popleft()
        if not 1 <= len(body.get("urls", ())) <= 100:
            return 422, b'{"detail": "urls"}'
        for config in (body.get("browser_config"), body.get("crawler_config")):
            parameters = (config or {}).get("params", {})
            values = [v for v in parameters.values() if isinstance(v, dict)]
            if _FORBIDDEN & set(parameters) or any(v.get("type") not in _TYPES for v in values):
                return 400, b'{"detail": "not permitted from an untrusted request"}'
        return 200, orjson.dumps(
            {
                "success": True,
                "results": [self._result(url) for url in body["urls"]],
                "server_processing_time_s": 0.1,
                "server_memory_delta_mb": 0.0,
                "server_peak_memory_mb": 100.0,
            }
        )

    def _result(self, url: str) -> dict[str, Any]:
        empty: dict[str, Any] = {"url": url, "html": "", "links": {}, "media": {}, "screenshot": None}
        first: list[int] = []

        class Watched(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *arguments: Any) -> Any:
                first.append(arguments[2])
                return super().redirect_request(*arguments)

        try:
            with urllib.request.build_opener(Watched).open(url, timeout=5) as response:
                page = self.render(response.read().decode("utf-8", "replace"))
                return empty | {
                    "success": True,
                    "html": page,
                    "cleaned_html": page,
                    "markdown": {"raw_markdown": page, "fit_markdown": None},
                    "status_code": first[0] if first else response.status,
                    "redirected_url": response.url,
                    "redirected_status_code": response.status,
                    "response_headers": {k.lower(): v for k, v in response.headers.items()},
                    "error_message": "",
                }
        except urllib.error.HTTPError as error:
            return empty | {
                "success": True,
                "html": "<html></html>",
                "status_code": error.code,
                "redirected_url": error.url,
                "response_headers": {k.lower(): v for k, v in error.headers.items()},
            }
        except OSError:
            return empty | {
                "success": False,
                "status_code": None,
                "redirected_url": None,
                "error_message": f"Failed on navigating:\nPage.goto: net::ERR_CONNECTION_REFUSED at {url}",
            }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: FakeCrawl4Ai


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200 if self.path == "/health" else 404, b'{"status": "ok"}')

    def do_POST(self) -> None:
        fake = cast(_Server, self.server).fake
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if fake.api_key is not None and self.headers.get("Authorization") != f"Bearer {fake.api_key}":
            self._send(401, b'{"detail": "Invalid or missing API token"}')
        elif self.path != "/crawl":
            self._send(404, b"{}")
        else:
            self._send(*fake.crawl(orjson.loads(body)))

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
