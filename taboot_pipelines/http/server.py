"""A server that the settings name, such as that of a model: its address, its key, and how it is asked."""

from __future__ import annotations

import base64
import re
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import SecretStr

from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.http.client import Codes, HttpClient, server_url

if TYPE_CHECKING:
    from taboot_pipelines.stores.state.circuit import Breaker


class ServerSettings(Protocol):
    """What the settings of every model server have in common."""

    @property
    def url(self) -> str | None: ...
    @property
    def api_key(self) -> SecretStr | None: ...
    @property
    def timeout_seconds(self) -> float: ...
    @property
    def max_concurrency(self) -> int: ...
    @property
    def max_retries(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Peer:
    """How messages call a server: ``name`` opens a sentence, ``setting`` is the prefix of its settings."""

    name: str
    setting: str
    code: str
    timeout_code: str
    #: An answer with more bytes is none.
    max_answer: int


class ServerClient(HttpClient):
    """Requests to one server, by many threads. Made without touching the network; raises ``E_CONFIG`` for a
    URL or key that no request could carry. Which status is an answer is for the caller to judge.

    Callers hold ``slots`` while they ask, so that no more than ``max_concurrency`` requests are on their way,
    whatever the number of threads. ``path``: that of the server's URL, below which it is asked.
    """

    def __init__(
        self,
        peer: Peer,
        settings: ServerSettings,
        *,
        backoff_seconds: float = 0.5,
        circuit: Breaker | None = None,
    ) -> None:
        url, userinfo = server_url(settings.url or "", f"{peer.setting}__URL")
        super().__init__(
            peer.name,
            url,
            circuit=circuit,
            codes=Codes(
                unreached=peer.code,
                timeout=peer.timeout_code,
                failed=peer.code,
                unusable=peer.code,
                too_large=peer.code,
            ),
            timeout_seconds=settings.timeout_seconds,
            max_answer_bytes=peer.max_answer,
            attempts=settings.max_retries + 1,
            backoff_seconds=backoff_seconds,
            # One more than the slots: a health check is not to wait for the work.
            connections=settings.max_concurrency + 1,
            tls=_trusted,
        )
        self.peer = peer
        self.settings = settings
        self.slots = threading.BoundedSemaphore(settings.max_concurrency)
        scheme, _, rest = self.base_url.partition("://")
        self._root = f"{scheme}://{rest.partition('/')[0]}"
        self.path = self.base_url.removeprefix(self._root)
        self.headers = {
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "taboot-pipelines",
        }
        key = settings.api_key.get_secret_value() if settings.api_key else ""
        if key and not re.fullmatch(r"[\x21-\x7e]+", key):
            name = f"{peer.setting}__API_KEY"
            raise TabootError(
                "E_CONFIG", f"{name}: holds characters that an HTTP header cannot carry.", settings=[name]
            )
        if key:
            self.headers["authorization"] = f"Bearer {key}"
        elif userinfo:
            self.headers["authorization"] = f"Basic {base64.b64encode(userinfo.encode()).decode()}"

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        stop: threading.Event | None = None,
        deadline: float | None = None,
    ) -> Answer:
        """Ask until something comes back that will not pass, or the attempts are used up, or ``stop`` is set.

        ``path`` is appended to the URL's own; ``deadline`` (``time.monotonic``) ends all attempts together,
        without one each has the settings' timeout. Raises the peer's codes and ``E_CIRCUIT_OPEN``.
        """
        return self.persist(
            lambda: self.once(method, path, body, deadline=deadline),
            stop=stop or threading.Event(),
            deadline=deadline,
        )

    def once(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        deadline: float | None = None,
        root: bool = False,
    ) -> Answer:
        """Ask once. ``root``: ``path`` begins at the server's root, not below the URL's own. Raises the
        peer's codes if no answer came.
        """
        url = f"{self._root if root else self.base_url}{path}"
        return self.send(method, url, headers=self._sent(body), content=body, deadline=deadline)

    def lines(self, method: str, path: str, body: bytes, *, deadline: float | None = None) -> Iterator[bytes]:
        """Ask once, and give the lines of the answer as they come. Raises as :meth:`once` and, for a status
        that is no answer, what :meth:`refusal` makes.
        """
        url = f"{self.base_url}{path}"
        with self.exchange(
            method, url, headers=self._sent(body), content=body, deadline=deadline
        ) as response:
            if response.status_code != 200:
                raise self.refusal(response.status_code, path)
            rest = b""
            for part in self.parts(response, url):
                *whole, rest = (rest + part).split(b"\n")
                yield from whole
            yield rest

    def refusal(self, status: int, path: str, remedy: str | None = None, **details: Any) -> TabootError:
        """The error for a status that is no answer."""
        if status in (401, 403):
            remedy = f"Check {self.peer.setting}__API_KEY."
        return TabootError(
            self.peer.code,
            f"{self.peer.name} answered {path} with HTTP {status}.",
            remedy=remedy,
            path=path,
            status=status,
            **details,
        )

    def failure(self, answer: Answer, attempts: int) -> TabootError:
        return self.refusal(answer.status, answer.url.removeprefix(self.base_url), attempts=attempts)

    def details(self) -> dict[str, str]:
        return {"setting": f"{self.peer.setting}__URL"}

    def _sent(self, body: bytes | None) -> dict[str, str]:
        return self.headers if body is None else {**self.headers, "content-type": "application/json"}


def _trusted() -> ssl.SSLContext:
    """The system's authorities and certifi's; ``SSL_CERT_FILE`` adds a private one."""
    import httpcore

    return httpcore.default_ssl_context()
