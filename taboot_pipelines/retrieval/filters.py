"""Which documents a search is limited to: what callers write, and the one form that every backend reads."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TypedDict, get_args

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.model.ids import domain_of

#: What callers write: one word or several, of which a document must have one; None: any.
Words = str | Collection[str] | None
#: What callers write: a moment, a day, or either as ISO 8601; None: no bound.
Moment = datetime | date | str | None

#: Values that one filter may name.
_MAX_WORDS = 1000


class FilterOptions(TypedDict, total=False):
    """The arguments by which documents are filtered; see :class:`Filter`."""

    source: Words
    type: Words
    tag: Words
    language: Words
    domain: Words
    collection: Words
    content_type: Words
    path_prefix: Words
    date_from: Moment
    date_to: Moment


@dataclass(frozen=True)
class Filter:
    """What a hit must be. None: anything.

    ``sources``, ``types``, ``languages``, ``domains`` (hosts of web pages), ``content_types``: one of;
    ``tags``: it, or its source, has one of; ``collections``: a saved filter of one of these names passes it,
    or, where there is none of the name, its source is called or it has a tag that is so; ``paths``: begins
    with one of; dates: the document's own date, else when its bytes were first seen, in
    ``[date_from, date_to)``. All but ``content_types`` speak of the whole document.
    """

    sources: frozenset[str] | None = None
    types: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    languages: frozenset[str] | None = None
    date_from: datetime | None = None
    date_to: datetime | None = None
    domains: frozenset[str] | None = None
    collections: frozenset[str] | None = None
    content_types: frozenset[str] | None = None
    paths: frozenset[str] | None = None

    @property
    def empty(self) -> bool:
        return self == Filter()


def read_filter(
    *,
    source: Words = None,
    type: Words = None,
    tag: Words = None,
    language: Words = None,
    domain: Words = None,
    collection: Words = None,
    content_type: Words = None,
    path_prefix: Words = None,
    date_from: Moment = None,
    date_to: Moment = None,
) -> Filter:
    """The filter that the arguments of a search mean. Raises ``E_QUERY`` naming the first that is wrong; of a
    value that can be none of a closed set it names the nearest ones.
    """
    return Filter(
        sources=_words("source", source),
        types=_one_of("type", _words("type", type), _source_types),
        tags=_words("tag", tag),
        languages=_words("language", language),
        domains=_mapped(_words("domain", domain), _host),
        collections=_words("collection", collection),
        content_types=_one_of("content_type", _words("content_type", content_type), _content_types),
        paths=_mapped(_words("path_prefix", path_prefix), _path),
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
    if len(words) > _MAX_WORDS:
        raise TabootError("E_QUERY", f"{argument} must name at most {_MAX_WORDS} values.")
    return frozenset(word.encode("utf-8", "replace").decode("utf-8") for word in words)


def _one_of(
    argument: str, words: frozenset[str] | None, known_words: Callable[[], Collection[str]]
) -> frozenset[str] | None:
    if words is None:
        return None
    known = known_words()
    for word in sorted(words):
        if word not in known:
            raise TabootError(
                "E_QUERY",
                f"{argument} must be one of {', '.join(sorted(known))}, not {word[:80]!r}."
                + or_near(word, known),
            )
    return words


# A search without such a filter does not wait for the records and relations of the whole model.


def _source_types() -> Collection[str]:
    from taboot_pipelines.sources import type_names

    return type_names()


def _content_types() -> Collection[str]:
    from taboot_pipelines.model.records import ContentType

    return get_args(ContentType)


def _mapped(words: frozenset[str] | None, change: Callable[[str], str]) -> frozenset[str] | None:
    return None if words is None else frozenset(change(word) for word in words)


def _host(domain: str) -> str:
    """A host as it stands in URLs: in lower case; a whole URL gives its host."""
    domain = domain.strip()
    return domain_of(domain) or domain.lower().rstrip(".")


def _path(prefix: str) -> str:
    """A path as documents have theirs: NFC, without ``./`` or ``/`` in front."""
    prefix = unicodedata.normalize("NFC", prefix)
    while prefix.startswith(("./", "/")):
        prefix = prefix.removeprefix("./").removeprefix("/")
    return prefix


def moment_of(argument: str, value: Moment, *, end: bool = False) -> datetime:
    """The moment that an argument means; ``end``: of a day its end. Raises ``E_QUERY``, also where it is
    None."""
    found = _moment(argument, value, end=end)
    if found is None:
        raise TabootError("E_QUERY", f"{argument} must be a date or a time in ISO 8601.")
    return found


def _moment(argument: str, value: Moment, *, end: bool) -> datetime | None:
    try:
        return None if value is None else as_moment(value, end=end)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise TabootError("E_QUERY", f"{argument} must be a date or a time in ISO 8601.") from None
