"""Whether a page may be asked for by its site's robots.txt, and what it means that it cannot be read."""

from __future__ import annotations

import re
import time

from taboot_pipelines.crawl.answers import Answer
from taboot_pipelines.crawl.robots import Robots, RobotsCache
from taboot_pipelines.crawl.urls import WebUrl
from taboot_pipelines.errors import TabootError

#: How long a robots.txt that could not be read is not asked for again.
FAILURE_SECONDS = 30.0
#: Origins of which it is remembered that their robots.txt could not be read.
MAX_FAILURES = 1000
_MAX_AGE = re.compile(r"(?i)\bmax-age=\"?(\d{1,9})")


class RobotsGate:
    """Keeps rules in ``cache``, for all runs, and failures to read them in this process alone."""

    def __init__(self, cache: RobotsCache) -> None:
        self._cache = cache
        #: By origin: why its file could not be read, and until when that holds.
        self._failures: dict[str, tuple[float, TabootError]] = {}

    def rules(self, url: WebUrl) -> Robots | None:
        """The rules of a page that may be asked for; None if they must be read first.

        Raises ``E_ROBOTS`` for a page that may not, and where robots.txt could not be read, why.
        """
        until, error = self._failures.get(url.origin, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise TabootError(
                error.code,
                f"{url.text} was not asked for, since its site's robots.txt could not be read."
                f" {error.message}",
                url=url.text,
            )
        rules = self._cache.get(url.origin)
        if rules is not None and not rules.allows(url):
            why = "is disallowed by its site's robots.txt"
            if not rules.reachable:
                why = "is not asked for while its site's robots.txt cannot be read"
            raise TabootError("E_ROBOTS", f"{url.text} {why}.", url=url.text)
        return rules

    def keep(self, origin: str, result: Answer | TabootError) -> None:
        """Take what came of reading the robots.txt of ``origin``.

        A refusal and redirects that lead nowhere are as if there were no file (RFC 9309 §2.3.1). What is
        no answer of the site at all is kept for a moment only: nothing is known, and so nothing is allowed.
        """
        if isinstance(result, Answer):
            found = _MAX_AGE.search(result.headers.get("cache-control", ""))
            age = float(found[1]) if found else None
            self._cache.put(origin, result.status, result.body, max_age=age)
            return
        status = 404 if result.code == "E_REDIRECT" else result.details.get("status")
        if isinstance(status, int) and 400 <= status < 500 and status not in (408, 429):
            self._cache.put(origin, status, b"")
            return
        while len(self._failures) >= MAX_FAILURES:
            del self._failures[next(iter(self._failures))]
        self._failures[origin] = (time.monotonic() + FAILURE_SECONDS, result)
