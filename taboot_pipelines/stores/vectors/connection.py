"""Requests to Qdrant. Each ends in an answer or in ``E_QDRANT``, whatever server, network or client do."""

from __future__ import annotations

import importlib.util
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.waiting import waiting_for
from taboot_pipelines.settings import QDRANT_LOCAL, QdrantSettings

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

T = TypeVar("T")

#: Worth another try: the server is overloaded, restarting, or behind a proxy that lost it.
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
#: Seconds before the first further try, doubled with each.
_FIRST_DELAY = 0.2
_MAX_DELAY = 10.0
#: The server may ask for a longer wait than ours, but for none longer than this.
_MAX_RETRY_AFTER = 60.0


class Connection:
    """The client of a server, opened at the first request. Made without touching the network; threads may
    share it.
    """

    def __init__(self, settings: QdrantSettings) -> None:
        """Raises ``E_EXTRA`` without the extra ``qdrant``, ``E_CONFIG`` for a URL that is not one of HTTP."""
        if importlib.util.find_spec("qdrant_client") is None:
            raise TabootError("E_EXTRA", "TABOOT_QDRANT__URL is set, but the extra qdrant is not installed.")
        self._settings = settings
        #: The client's local mode: one process, gone at its end, without indexes and quantization.
        self.local = settings.url == QDRANT_LOCAL
        if not self.local:
            _check_url(settings.url or "")
        self._client: QdrantClient | None = None
        self._lock = threading.Lock()

    def client(self) -> QdrantClient:
        with self._lock:
            if self._client is None:
                self._client = self._open()
            return self._client

    def _open(self) -> QdrantClient:
        from qdrant_client import QdrantClient

        if self.local:
            return QdrantClient(QDRANT_LOCAL)
        import httpx

        key = self._settings.api_key
        url = self._settings.url or ""
        # A connection without TLS asks for no certificate, and to read those of all authorities takes 20 ms.
        verified: dict[str, Any] = {} if url.startswith("https:") else {"verify": False}
        return QdrantClient(
            url=url,
            port=None,
            api_key=key.get_secret_value() if key else None,
            timeout=max(1, round(self._settings.timeout_seconds)),
            # The client's own check asks the server unbidden, in a thread, and drops connections to this
            # machine.
            check_compatibility=False,
            # Sent with each request. A compressed answer comes in pieces and stalls for some 40 ms.
            metadata={"Accept-Encoding": "identity"},
            limits=httpx.Limits(max_connections=16, max_keepalive_connections=8),
            **verified,
        )

    def call(self, what: str, ask: Callable[[QdrantClient], T], *, retries: int | None = None) -> T:
        """``ask`` the client. Overload, lost connections and time-outs are tried again, at most ``retries``
        times (default: as set).

        Raises ``E_QDRANT``, whose details have the HTTP ``status`` where there was one. The server's own
        words may quote what it was sent, so they are not repeated.
        """
        left = self._settings.max_retries if retries is None else retries
        delay = _FIRST_DELAY
        while True:
            try:
                return ask(self.client())
            except TabootError:
                raise
            # Whatever the client raises is a failure of the server or of the way to it.
            except Exception as error:  # noqa: BLE001
                status, wait = _judge(error)
                if left <= 0 or (status is not None and status not in _AGAIN):
                    raise TabootError(
                        "E_QDRANT",
                        f"Qdrant could not {what}: {_words(error, status)}.",
                        status=status,
                        reason=type(error).__name__,
                    ) from None
            pause = min(wait, _MAX_RETRY_AFTER) if wait is not None else delay * random.uniform(0.5, 1.0)
            with waiting_for("Qdrant", pause):
                time.sleep(pause)
            delay = min(delay * 2, _MAX_DELAY)
            left -= 1

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
            and not parts.username
        )
    except ValueError:
        usable = False
    if not usable:
        raise TabootError(
            "E_CONFIG",
            "TABOOT_QDRANT__URL is not the address of an HTTP server.",
            remedy="Write it like http://qdrant.lan:6333; a key goes into TABOOT_QDRANT__API_KEY.",
        )


def _judge(error: Exception) -> tuple[int | None, float | None]:
    """Return the HTTP status and the seconds that the server asks to wait.

    The status is 0 for what no further try mends, None where there was no answer at all.
    """
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, ResourceExhaustedResponse):
        return 429, float(max(0, error.retry_after_s))
    if isinstance(error, UnexpectedResponse):
        return error.status_code, None
    if isinstance(error, ResponseHandlingException):
        import httpx

        # Anything but a lost connection is an answer that cannot be read.
        lost = isinstance(error.source, httpx.TransportError) and not isinstance(
            error.source, httpx.UnsupportedProtocol
        )
        return (None if lost else 0), None
    if isinstance(error, ValueError) and "not found" in str(error):
        return 404, None  # how local mode says so
    return 0, None


def _words(error: Exception, status: int | None) -> str:
    if status is None:
        from httpx import TimeoutException

        late = isinstance(getattr(error, "source", None), TimeoutException)
        return "it did not answer in time" if late else "it could not be reached"
    if status == 401:
        return "it refused the key (HTTP 401)"
    if status == 403:
        return "it refused the key, which has no right to do that (HTTP 403)"
    if status:
        return f"it answered HTTP {status}"
    return f"its answer could not be used ({type(error).__name__})"
