"""When a document expires: so many days after its bytes came, and never without a week's notice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 24 * 3600 * 1_000_000
#: The longest that may be asked for.
MAX_DAYS = 36_500
#: A document is EXPIRING for so many days before its retention ends it (seed 000, "Document Retention
#: Lifecycle").
NOTICE_DAYS = 7


def moment_of(micros: int) -> datetime:
    """Microseconds since the epoch as a moment (UTC)."""
    return _EPOCH + timedelta(microseconds=micros)


def notice(days: int | None) -> int:
    """How long before it is deleted a document that is kept for so many days is announced (microseconds)."""
    return min(NOTICE_DAYS if days is None else days, NOTICE_DAYS) * DAY


class Policy(NamedTuple):
    """How long documents are kept: ``days`` after their bytes came, None for good; ``set_at``: since when
    that is asked for (microseconds since the epoch)."""

    days: int | None
    set_at: int

    def expires_at(self, since: int) -> int | None:
        """When a document whose bytes came at ``since`` expires (microseconds since the epoch); None: never.

        Who asks for less time than documents are old already is given the notice all the same: they go a week
        after the policy was set, or after its ``days`` where those are fewer.
        """
        if self.days is None:
            return None
        return max(since + self.days * DAY, self.set_at + notice(self.days))

    def moment(self, since: datetime) -> datetime | None:
        """The same in moments (UTC)."""
        at = self.expires_at((since - _EPOCH) // timedelta(microseconds=1))
        return None if at is None else moment_of(at)


@dataclass(frozen=True)
class Policies:
    """The policies of a namespace: by source id, and by doc_id."""

    sources: Mapping[str, Policy] = field(default_factory=dict)
    documents: Mapping[str, Policy] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.sources or self.documents)

    def of(self, source_id: str, doc_id: str) -> Policy | None:
        """The policy of a document; None if it has none, so that it is kept for good."""
        return self.documents.get(doc_id) or self.sources.get(source_id)

    def days(self, documents: Iterable[tuple[str, str]]) -> dict[str, int]:
        """{doc_id: days} of those of the documents (source id, doc_id) that are not kept for good."""
        if not self:
            return {}
        found = ((doc_id, self.of(source_id, doc_id)) for source_id, doc_id in documents)
        return {doc_id: p.days for doc_id, p in found if p is not None and p.days is not None}
