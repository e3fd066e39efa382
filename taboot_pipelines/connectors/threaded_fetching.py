"""Pages fetched by threads, as a crawl asks for them: :class:`~taboot_pipelines.connectors.http.Fetcher`
behind the interface of ``crawl.crawler.Fetching``.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from taboot_pipelines.connectors.http import Admit, Answer, Fetcher
from taboot_pipelines.crawl.crawler import TRANSIENT
from taboot_pipelines.crawl.urls import WebUrl
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import MAX_ATTEMPTS
from taboot_pipelines.model.records import Known


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer, and how many seconds it took; who gave it is not known here."""

    status: int
    url: str
    headers: dict[str, str]
    body: bytes
    seconds: float
    address: str | None = None


class ThreadedFetching:
    """A context manager; leaving it waits for what is on its way."""

    def __init__(self, fetcher: Fetcher, max_bytes: int, admit: Admit, threads: int) -> None:
        self._fetcher = fetcher
        self._max_bytes = max_bytes
        self._admit = admit
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="taboot-web")
        self._ended: queue.SimpleQueue[tuple[int, TimedAnswer | TabootError | BaseException]] = (
            queue.SimpleQueue()
        )

    def __enter__(self) -> ThreadedFetching:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def start(self, ticket: int, url: WebUrl, *, known: Known | None = None) -> None:
        self._executor.submit(self._fetch, ticket, url, known)

    def finished(self, timeout: float) -> Sequence[tuple[int, TimedAnswer | TabootError]]:
        found: list[tuple[int, TimedAnswer | TabootError]] = []
        try:
            while True:
                ticket, got = self._ended.get(timeout=0 if found else timeout)
                if isinstance(got, BaseException) and not isinstance(got, TabootError):
                    raise got
                found.append((ticket, got))
        except queue.Empty:
            return found

    def _fetch(self, ticket: int, url: WebUrl, known: Known | None) -> None:
        began = time.monotonic()
        try:
            answer: Answer = self._fetcher.get(url, self._max_bytes, known, self._admit)
            seconds = time.monotonic() - began
            self._ended.put(
                (ticket, TimedAnswer(answer.status, answer.url, answer.headers, answer.body, seconds))
            )
        except TabootError as error:
            if error.code in TRANSIENT:
                # It has tried again itself where that is worth it.
                error.details["attempts"] = MAX_ATTEMPTS
            self._ended.put((ticket, error))
        except BaseException as error:  # noqa: BLE001 - raised where the answers are taken
            self._ended.put((ticket, error))
