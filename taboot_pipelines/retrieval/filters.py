"""Which documents a search is limited to: what callers write, and the one form that every backend reads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from taboot_pipelines.errors import TabootError

#: What callers write: one word or several, of which a document must have one; None: any.
Words = str | Collection[str] | None
#: What callers write: a moment, a day, or either as ISO 8601; None: no bound.
Moment = datetime | date | str | None


@dataclass(frozen=True)
class Filter:
    """What a hit must be. None: anything.

    ``sources``, ``types``, ``languages``: one of; ``tags``: has one of; dates: the document's own date, else
    when its bytes were first seen, in ``[date_from, date_to)``.
    """

    sources: frozenset[str] | None = None
    types: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    languages: frozenset[str] | None = None
    date_from: datetime | None = None
    date_to: datetime | None = None

    @property
    def empty(self) -> bool:
        return self == Filter()


def read_filter(
    *, source: Words, type: Words, tag: Words, language: Words, date_from: Moment, date_to: Moment
) -> Filter:
    """The filter that the arguments of a search mean. Raises ``E_QUERY`` naming the first that is wrong."""
    return Filter(
        sources=_words("source", source),
        types=_words("type", type),
        tags=_words("tag", tag),
        languages=_words("language", language),
        date_from=_moment("date_from", date_from, end=False),
        date_to=_moment("date_to", date_to, end=True),
    )


def as_moment(value: datetime | date | str, *, end: bool) -> datetime:
    """A point in time, UTC unless it says otherwise; a bare date is its first moment, or with ``end`` the
    next day's.

    Raises ``ValueError`` for text that is not ISO 8601.
    """
    if isinstance(value, str):
        text = value.strip()
        value = date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
    return moment + timedelta(days=1) if end else moment


def as_micros(moment: datetime) -> int:
    """Microseconds since the epoch."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _words(argument: str, value: Words) -> frozenset[str] | None:
    if value is None:
        return None
    try:
        words = frozenset([value] if isinstance(value, str) else value)
    except TypeError:
        words = None
    if words is None or not all(isinstance(word, str) for word in words):
        raise TabootError("E_QUERY", f"{argument} must be a text or a list of texts.")
    return words


def _moment(argument: str, value: Moment, *, end: bool) -> datetime | None:
    try:
        return None if value is None else as_moment(value, end=end)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise TabootError("E_QUERY", f"{argument} must be a date or a time in ISO 8601.") from None
