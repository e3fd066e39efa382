"""The crawl graph as readers see it: its tables, and how far a crawl has come.

``ROOT`` is the crawl itself, named by the first URL that it was given, ``URL`` a page that it came to know,
``Lead`` a link from one to the other. The first columns of each table are the properties that nodes and
relationships have in Neo4j, in their order; what follows is of the tables alone. Times are UTC microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from taboot_pipelines.model.tables import TIME

#: One row for each crawl, newest first: the ROOT, and the sums of its ledger. ``complete`` null: it goes on.
CRAWLS_SCHEMA = pa.schema(
    [
        ("crawl_id", pa.string()),
        ("name", pa.string()),
        ("http_type", pa.string()),
        ("ip", pa.string()),
        ("domain", pa.string()),
        ("requested_depth", pa.int32()),
        ("current_depth", pa.int32()),
        ("request_time", pa.string()),
        ("created_at", TIME),
        ("source", pa.string()),
        ("number", pa.int32()),
        ("url", pa.string()),
        ("state", pa.string()),
        ("ended_at", TIME),
        ("complete", pa.bool_()),
        ("reason", pa.string()),
        ("strategy", pa.string()),
        ("max_pages", pa.int64()),
        ("discovered", pa.int64()),
        ("fetched", pa.int64()),
        ("not_modified", pa.int64()),
        ("skipped", pa.int64()),
        ("failed", pa.int64()),
        ("open", pa.int64()),
    ]
)

#: One row for each URL of a crawl, the root's own page among them. ``request_time`` is that of the page that
#: leads to it; ``seconds`` is its own. ``key`` tells it from other URLs, and ``parent``
#: is the key of the page by which the shortest way leads to it; null: it was listed. ``code`` says why a URL
#: was skipped or failed, or ``fresh``: it was not asked for, since its last answer may be reused.
#: ``canonical_url`` is what the page says is its own URL, where that is another; nothing follows from it.
CRAWL_URLS_SCHEMA = pa.schema(
    [
        ("crawl_id", pa.string()),
        ("name", pa.string()),
        ("http_type", pa.string()),
        ("ip", pa.string()),
        ("domain", pa.string()),
        ("job_status", pa.string()),
        ("requested_depth", pa.int32()),
        ("current_depth", pa.int32()),
        ("request_time", pa.string()),
        ("attempts", pa.int32()),
        ("claimed_at", TIME),
        ("url_id", pa.string()),
        ("key", pa.string()),
        ("url", pa.string()),
        ("parent", pa.string()),
        ("outcome", pa.string()),
        ("code", pa.string()),
        ("message", pa.string()),
        ("http_status", pa.int32()),
        ("seconds", pa.float64()),
        ("score", pa.float64()),
        ("answered_at", TIME),
        ("canonical_url", pa.string()),
    ]
)

#: One row for each link between two URLs of a crawl, by their keys and ids.
CRAWL_LEADS_SCHEMA = pa.schema(
    [
        ("crawl_id", pa.string()),
        ("parent", pa.string()),
        ("child", pa.string()),
        ("parent_id", pa.string()),
        ("child_id", pa.string()),
        ("parent_depth", pa.int32()),
        ("child_depth", pa.int32()),
    ]
)

#: The URLs that failed, each once for every page that leads to it (null: it was listed).
BROKEN_SCHEMA = pa.schema(
    [
        ("crawl_id", pa.string()),
        ("url", pa.string()),
        ("http_status", pa.int32()),
        ("code", pa.string()),
        ("message", pa.string()),
        ("parent", pa.string()),
    ]
)

#: The ledger: how many URLs of a depth came to which end, and with which code.
LEDGER_SCHEMA = pa.schema(
    [
        ("crawl_id", pa.string()),
        ("depth", pa.int32()),
        ("outcome", pa.string()),
        ("code", pa.string()),
        ("urls", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class CrawlProgress:
    """How far a crawl has come.

    ``counts``: as ``model.crawls.totals`` gives them; ``pending`` and ``in_progress`` are what is open.
    ``errors``: how many URLs failed, or could not be asked for, by code. ``per_second``: pages that came to
    their end in each of the last ``window`` seconds, on average; of a crawl that has ended, in all of it.
    """

    crawl_id: str
    source_id: str
    state: str
    seconds: float
    counts: Mapping[str, int]
    pending: int
    in_progress: int
    per_second: float
    window: float
    errors: Mapping[str, int]

    @property
    def done(self) -> int:
        """How many URLs have come to their end."""
        return self.counts["discovered"] - self.counts["open"]

    @property
    def sentence(self) -> str:
        """It all on one line, for logs and progress bars."""
        errors = ", ".join(f"{count:,} {code}" for code, count in self.errors.items())
        return (
            f"{self.done:,} of {self.counts['discovered']:,} pages done, {self.pending:,} wait,"
            f" {self.in_progress:,} in hand, {self.per_second:.1f}/s"
            + (f"; errors: {errors}" if errors else "")
        )
