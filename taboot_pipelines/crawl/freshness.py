"""For how long an answer may be reused without asking again, as its server says (RFC 9111, a private cache).

Only what is said counts: nothing is guessed from ``Last-Modified``. What cannot be read, or says two things,
counts as not fresh, as RFC 9111 §4.2.1 recommends. ``s-maxage`` is meant for shared caches.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from taboot_pipelines.model.crawls import Fresh

#: A longer lifetime counts as this one (RFC 9111 §1.2.2).
MAX_SECONDS = 2**31
#: Text that is longer is not read.
_MAX_CHARS = 8192
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_DIRECTIVE = re.compile(rf'[ \t]*(?:({_TOKEN})(?:=(?:({_TOKEN})|"((?:[^"\\]|\\.)*)"))?)?[ \t]*(?:,|\Z)')
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_TIME = r"\d\d:\d\d:\d\d"
#: The three forms of an HTTP date (RFC 9110 §5.6.7).
_DATE = re.compile(
    rf"{_DAY}, \d\d {_MONTH} \d{{4}} {_TIME} GMT"
    rf"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d\d-{_MONTH}-\d\d {_TIME} GMT"
    rf"|{_DAY} {_MONTH} [ \d]\d {_TIME} \d{{4}}",
    re.ASCII,
)


class _Unreadable(Exception):
    """A header that cannot be read, or says two things."""


class Freshness:
    """Which answers are fresh by ``clock``, each for at most ``max_seconds`` after it came."""

    def __init__(self, clock: Callable[[], datetime], max_seconds: float) -> None:
        self._clock = clock
        self._max_seconds = max_seconds

    def of(
        self, status: int, headers: Mapping[str, str], *, seconds: float | None, before: Fresh | None = None
    ) -> Fresh | None:
        """The time in which an answer that came just now, after ``seconds``, may be reused; None: it may not.

        ``headers``: names in lower case, several of one name joined by commas. A 304 that says nothing of it
        renews the lifetime of the answer that it confirms, ``before`` (RFC 9111 §4.3.4).
        """
        now = self._clock()
        renewed = before.max_age if status == 304 and before is not None else None
        try:
            lifetime, max_age = _lifetime(headers, now, renewed)
            left = min(lifetime - _age(headers, now, seconds or 0.0), self._max_seconds)
        except _Unreadable:
            return None
        if status not in (200, 304) or left <= 0:
            return None
        since = _micros(now)
        return Fresh(since, since + int(left * 1_000_000), max_age)

    def still(self, fresh: Fresh | None) -> Fresh | None:
        """``fresh`` as it is from now on; None if it is over, or if the clock was set back: it then tells no
        more how long ago the answer came.
        """
        now = _micros(self._clock())
        if fresh is None or not fresh.since <= now < fresh.until:
            return None
        return Fresh(now, fresh.until, fresh.max_age)


def _lifetime(headers: Mapping[str, str], now: datetime, renewed: int | None) -> tuple[float, int | None]:
    """The seconds for which an answer is fresh from when its server made it (RFC 9111 §4.2.1), and the
    ``max-age`` that says so, if one does; ``renewed``: that of the answer which it confirms."""
    if "*" in _list(headers.get("vary", "")):
        return 0.0, None
    max_age = renewed
    if "cache-control" in headers:
        directives = _directives(headers["cache-control"])
        if directives.keys() & {"no-cache", "no-store"}:
            return 0.0, None
        said = directives.get("max-age")
        max_age = _seconds(said) if said is not None else None
    elif "no-cache" in _list(headers.get("pragma", "")):
        return 0.0, None
    if max_age is not None:
        return max_age, max_age
    if "expires" not in headers:
        return 0.0, None
    expires = _date(headers["expires"])
    return (expires - (_date(headers["date"]) if "date" in headers else now)).total_seconds(), None


def _age(headers: Mapping[str, str], now: datetime, delay: float) -> float:
    """How many seconds ago the server made the answer (RFC 9111 §4.2.3), at most."""
    apparent = (now - _date(headers["date"])).total_seconds() if "date" in headers else 0.0
    # Of several the first counts (RFC 9111 §5.1).
    age = _seconds(headers["age"].partition(",")[0].strip()) if "age" in headers else 0
    return max(apparent, age + delay)


def _directives(value: str) -> dict[str, str | None]:
    """The directives of ``Cache-Control`` by name, with their arguments. What only concerns some fields
    (``no-cache="set-cookie"``) counts as if it concerned all."""
    if len(value) > _MAX_CHARS:
        raise _Unreadable
    found: dict[str, str | None] = {}
    at = 0
    while at < len(value):
        match = _DIRECTIVE.match(value, at)
        if match is None or match.end() == at:
            raise _Unreadable
        at = match.end()
        name, token, quoted = match[1], match[2], match[3]
        if name is None:
            continue
        name, argument = name.lower(), quoted if token is None else token
        if name == "max-age" and (argument is None or found.get(name, argument) != argument):
            raise _Unreadable
        found[name] = argument
    return found


def _list(value: str) -> set[str]:
    return {part.strip().lower() for part in value.split(",")}


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise _Unreadable
    return min(int(text[:12]) if len(text) <= 12 else MAX_SECONDS, MAX_SECONDS)


def _date(text: str) -> datetime:
    if _DATE.fullmatch(text) is None:
        raise _Unreadable
    try:
        date = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        raise _Unreadable from None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)
