"""How services say that they were asked too often, and for how long they are to be left alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

#: Where a service only says that it was asked too often.
DEFAULT_WAIT_SECONDS = 60.0
#: Headers that say when a window of requests ends, in seconds since the epoch or from now.
_RESETS = ("x-ratelimit-reset", "ratelimit-reset", "x-rate-limit-reset")
_REMAINING = ("x-ratelimit-remaining", "ratelimit-remaining", "x-rate-limit-remaining")
#: A number above this is a time of day, below it a span.
_EPOCH = 1_000_000_000


def seconds_to_wait(status: int, headers: Mapping[str, str]) -> float | None:
    """The seconds for which an answer asks to be left alone; None for one that means something else.

    429 means it, and 403 or 503 with ``Retry-After`` (RFC 9110 §10.2.3), or 403 with no requests remaining
    (GitHub's primary limit). Times of day are measured by the server's own clock, its ``Date``, since ours
    may differ. ``headers``: names in lower case.
    """
    stated = headers.get("retry-after", "").strip()
    spent = any(headers.get(name, "").strip() in ("0", "0.0") for name in _REMAINING)
    if status != 429 and not (status in (403, 503) and stated) and not (status == 403 and spent):
        return None
    if (seconds := retry_after(headers)) is not None:
        return seconds
    for name in _RESETS:
        if spent and (seconds := _span(headers.get(name, "").strip(), headers)) is not None:
            return seconds
    return DEFAULT_WAIT_SECONDS


def retry_after(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` (RFC 9110 §10.2.3: seconds or a date) in seconds from now, at least 0; None where it
    says nothing. ``headers``: names in lower case."""
    return _span(headers.get("retry-after", "").strip(), headers)


def _span(text: str, headers: Mapping[str, str]) -> float | None:
    """Seconds from now, from a number of them, a time since the epoch or an HTTP date."""
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        when = _date(text)
        return None if when is None else max(0.0, when - _now(headers))
    if not math.isfinite(number):
        return None
    return max(0.0, number - _now(headers) if number > _EPOCH else number)


def _now(headers: Mapping[str, str]) -> float:
    stated = _date(headers.get("date", ""))
    return datetime.now(UTC).timestamp() if stated is None else stated


def _date(text: str) -> float | None:
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
