"""Two clients as one: pages go by a client of their own, such as a browser, and all else by another."""

from __future__ import annotations

from taboot_pipelines.crawl.client import Client, Reply, Request
from taboot_pipelines.errors import TabootError

#: How long one client is waited for while the other may have something to give too.
_TURN_SECONDS = 0.02


class PagesApart:
    """A client that has ``pages`` fetch what is a page (``Request.page``), and ``rest`` everything else."""

    def __init__(self, rest: Client, pages: Client) -> None:
        self._rest, self._pages = rest, pages
        self._asked_rest = self._asked_pages = 0

    def start(self, ticket: int, request: Request) -> None:
        """Begin ``request``, as of a client."""
        if request.page:
            self._pages.start(ticket, request)
            self._asked_pages += 1
        else:
            self._rest.start(ticket, request)
            self._asked_rest += 1

    def finished(self, timeout: float) -> list[tuple[int, Reply | TabootError]]:
        """What has finished, as of a client. While both have something on its way they are waited for in
        turn.
        """
        left = timeout
        while True:
            both = bool(self._asked_rest and self._asked_pages)
            wait = min(left, _TURN_SECONDS) if both else left
            done = self._pages.finished(0 if both else wait) if self._asked_pages else []
            self._asked_pages -= len(done)
            if self._asked_rest and not (done and not both):
                more = self._rest.finished(0 if done else wait)
                self._asked_rest -= len(more)
                done = done + more
            left -= wait
            if done or left <= 0 or not (self._asked_rest or self._asked_pages):
                return done

    def close(self) -> None:
        """Close both."""
        try:
            self._pages.close()
        finally:
            self._rest.close()
