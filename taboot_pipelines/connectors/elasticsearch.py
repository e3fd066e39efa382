"""Logs and other hits of Elasticsearch and OpenSearch, and what their cluster consists of (type
``elasticsearch``).

A run reads from where hits may still arrive (``lookback``) to the end. Of what is older it asks only how many
hits each window has, and the sum of their sequence numbers, by one request, and reads again the windows of
which either is not what it knows; ES|QL and SQL cannot be asked so. What is known of a window that is not
read stands; so a run that read everything would hold the same. Only of a server that tells no sums of
``_seq_no`` an old hit that was edited in place stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import UTC, datetime

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import ApiClient, item
from taboot_pipelines.connectors.elasticsearch_cluster import CLUSTER, cluster_events
from taboot_pipelines.connectors.elasticsearch_counts import Span, changed, count, holds
from taboot_pipelines.connectors.elasticsearch_entry import ElasticsearchSource, seconds
from taboot_pipelines.connectors.elasticsearch_files import ElasticsearchReader
from taboot_pipelines.connectors.elasticsearch_hits import Items, LogItem, Tally, window_in
from taboot_pipelines.connectors.elasticsearch_pages import (
    Asked,
    EsqlPages,
    Pages,
    Product,
    SearchPages,
    SqlPages,
)
from taboot_pipelines.connectors.elasticsearch_reading import Reading
from taboot_pipelines.connectors.elasticsearch_server import connected, info_of, product_of
from taboot_pipelines.connectors.plans import Planned
from taboot_pipelines.connectors.protocol import Connector
from taboot_pipelines.connectors.recorded import RecordedFiles
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    Skipped,
    Unchanged,
)
from taboot_pipelines.model.resource_types import LOGS

_CURSOR = "cursor"
_COUNTS = "tallies"
#: After so many new items what was read is made durable, and the cursor moves.
_CHECKPOINT_ITEMS = 1000
#: Failures that say that nothing can be read at all.
_FATAL = frozenset({"E_CREDENTIALS", "E_CONFIG", "E_NOT_FOUND"})


class ElasticsearchConnector:
    """Asks the server of ``entry``."""

    def __init__(self, entry: ElasticsearchSource, access: Access) -> None:
        assert entry.base_url is not None
        self._entry = entry
        self._access = access
        self._layout = entry.layout
        since = entry.since
        self._asked = Asked(
            tuple(entry.index),
            entry.query,
            self._layout,
            entry.page_size,
            entry.tiebreaker,
            None
            if since is None
            else int(datetime(since.year, since.month, since.day, tzinfo=UTC).timestamp() * 1000),
        )

    def plan(self) -> Iterator[Planned]:
        """What a run would ask for. Raises as :meth:`events` does."""
        with connected(self._entry, self._access) as client:
            info_of(client)
            entry = self._entry
            if entry.cluster:
                yield Planned("the cluster", requests=2, items=3)
            if entry.esql is not None or entry.sql is not None:
                yield Planned("rows of the query", note="the server does not say how many there are")
                return
            reading = self._reading()
            low = reading.settled if reading.resume is None else reading.resume
            counted = count(client, self._asked, self._asked.within(low, None))
            requests = None if counted is None else counted // entry.page_size + 4
            note = "" if low is None else "older windows are counted, and read where their number changed"
            if requests is not None and requests > entry.max_requests:
                note = f"ends after {entry.max_requests} requests; the next run goes on"
            yield Planned(f"hits of {','.join(entry.index)}", requests=requests, items=counted, note=note)

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_CREDENTIALS``, ``E_CONFIG``, ``E_NOT_FOUND`` and, before the first event, what keeps the
        server from being asked at all."""
        with connected(self._entry, self._access) as client:
            info = info_of(client)
            reading = self._reading()
            if self._entry.cluster:
                of = self._asked.path or "*"
                if not (yield from cluster_events(client, info, of, known, tombstoned)):
                    reading.whole, reading.reason = False, "the cluster could not be read"
            pages = self._pages(client, product_of(info))
            yield from self._untimed(client)
            yield from self._hits(client, pages, known, tombstoned, reading)
            if isinstance(pages, SearchPages) and pages.without_pit:
                message = (
                    f"The search went on without a point in time, since {pages.without_pit}: hits that came"
                    " or went meanwhile may be read by the next run only."
                )
                yield Skipped("point-in-time", "E_FORBIDDEN", message, outside=True)
        yield Enumerated(reading.whole, reading.reason)

    # --- hits -----------------------------------------------------------------------------------------------

    def _hits(
        self,
        client: ApiClient,
        pages: Pages,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        reading: Reading,
    ) -> Iterator[Event]:
        try:
            spans = self._spans(client, pages, reading)
        except TabootError as error:
            if error.code in _FATAL:
                raise
            yield from self._failed(error, reading)
            return
        within = [path for path in known if not path.startswith(CLUSTER)]
        stands = [path for path in within if not any(holds(span, window_in(path)) for span in spans)]
        if stands:
            yield Unchanged(dict.fromkeys(stands, "document"))
        came_to_the_end = False
        for span in spans:
            done = yield from self._span(pages, span, known, tombstoned, reading)
            if not done:
                break
            came_to_the_end |= span[1] is None
        if not reading.whole:
            yield from self._gone(known, reading)
        if self._layout.time_field is None:
            return
        if came_to_the_end:
            self._save(reading, self._settled(reading.begun), None)
        else:
            self._save(reading, reading.settled, reading.resume)

    def _untimed(self, client: ApiClient) -> Iterator[Event]:
        """Tell of hits that are not read since they have no time."""
        name = self._layout.time_field
        if name is None or not self._asked.index:
            return
        clauses = {
            "filter": [self._asked.query or {"match_all": {}}],
            "must_not": [{"exists": {"field": name}}],
        }
        try:
            left = count(client, self._asked, {"bool": clauses})
        except TabootError as error:
            if error.code in _FATAL:
                raise
            return  # whatever it is, the search after it tells
        if left:
            message = f"{left} hits have no {name}; set `time_field` to null, or to a field that they have."
            yield Skipped("untimed", "E_PARSE", message, outside=True)

    def _span(
        self,
        pages: Pages,
        span: Span,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        reading: Reading,
    ) -> Generator[Event, None, bool]:
        """The events of the hits of one span; returns False where the run is to stop."""
        items = Items(self._layout, self._access.max_blob_bytes, ordered=pages.ordered)
        partial = ""
        at: int | None = None
        # Hits in no order cannot be gone on with.
        resumable = span[1] is None and pages.ordered
        try:
            for page in pages.read(*span):
                if page.partial:
                    partial = page.partial
                for hit in page.hits:
                    for found in items.add(hit):
                        at = found.window
                        if not (yield from self._item(found, partial, known, tombstoned, reading)):
                            reading.stop(span, items, at if resumable and not partial else None)
                            return False
                if resumable and not partial and reading.unsaved >= _CHECKPOINT_ITEMS:
                    reading.unsaved = 0
                    reading.stop(span, items, at)
                    yield from self._gone(known, reading)
                    self._save(reading, reading.settled, reading.resume)
                    yield Checkpoint()
            for found in items.finish():
                at = found.window
                if not (yield from self._item(found, partial, known, tombstoned, reading)):
                    reading.stop(span, items, at if resumable and not partial else None)
                    return False
        except TabootError as error:
            if error.code in _FATAL:
                raise
            yield from self._failed(error, reading)
            reading.stop(span, items, at if resumable and not partial else None)
            return False
        if partial:
            # What is known of the windows may be more than what was answered, so they are read again.
            missing = TabootError("E_5XX_ORIGIN", f"Hits may be missing: {partial}.")
            yield from self._failed(missing, reading)
            return False
        reading.read(span, items.counts)
        return True

    def _gone(self, known: Mapping[str, Known], reading: Reading) -> Iterator[Gone]:
        """Tell what was not in the spans that were read, where the run does not end as a whole one: the next
        run does not look there."""
        for path in known:
            window = window_in(path)
            if window is None or path in reading.seen:
                continue
            if any(holds(span, window) for span in reading.over):
                reading.seen.add(path)
                yield Gone(path, "E_NOT_FOUND", f"The hits of {path} are no longer in Elasticsearch.")

    def _item(
        self,
        found: LogItem,
        partial: str,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        reading: Reading,
    ) -> Generator[Event, None, bool]:
        """The event of one item; returns False where the run may take no further one."""
        path = found.path
        reading.seen.add(path)
        if tombstoned(path):
            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
        elif found.resource is None:
            message = f"The hits of {path} have {found.size} bytes, more than one document may."
            yield Skipped(path, "E_TOO_LARGE", message)
        elif partial and path in known and self._layout.group_by is not None:
            # It is known whole, and what came of it now may not be.
            yield Unchanged({path: "document"})
        else:
            event = item(known, path, found.resource, mime=LOGS)
            if isinstance(event, Fetched):
                limit = self._entry.max_items
                if limit is not None and reading.fetched >= limit:
                    reading.whole, reading.reason = False, f"the run has taken its {limit} items"
                    return False
                reading.fetched += 1
                reading.unsaved += 1
            yield event
        return True

    def _spans(self, client: ApiClient, pages: Pages, reading: Reading) -> list[Span]:
        """What is to be read: windows that changed though they were over, all from where the run before
        stopped or may have missed hits, and what may have changed since that run read it."""
        end = start = reading.settled
        again: list[Span] = []
        if reading.resume is not None:
            start, end = reading.resume, self._settled(reading.begun)
            if end is None or end < start:
                # What may still change was read by the runs before, and may have changed since.
                again = [(end, start)]
            else:
                end = start
        if end is None or not isinstance(pages, SearchPages):
            return [(start, None), *again]
        return [*changed(client, self._asked, end, reading.counts), (start, None), *again]

    def _reading(self) -> Reading:
        state = self._access.state
        now = int(self._access.clock().timestamp() * 1000)
        cursor = state.load(_CURSOR) or {}
        counts = {int(window): Tally(*told) for window, told in (state.load(_COUNTS) or {}).items()}
        resume = cursor.get("resume")
        begun = cursor.get("begun")
        return Reading(cursor.get("settled"), resume, now if begun is None else begun, counts)

    def _settled(self, begun: int) -> int | None:
        """The beginning of the first window that was not over for long enough when a run began."""
        if self._entry.lookback is None:
            return None
        window = self._layout.window
        return (begun - seconds(self._entry.lookback) * 1000) // window * window

    def _save(self, reading: Reading, settled: int | None, resume: int | None) -> None:
        """Keep what the next run begins with."""
        state = self._access.state
        begun = None if resume is None else reading.begun
        state.save(_CURSOR, {"settled": settled, "resume": resume, "begun": begun})
        state.save(_COUNTS, {str(window): list(n) for window, n in sorted(reading.counts.items())})

    def _failed(self, error: TabootError, reading: Reading) -> Iterator[Failed]:
        reading.whole, reading.reason = False, error.message.rstrip(".")
        # The end of the run's budget is no failure: the next run goes on.
        if error.code != "E_REQUESTS":
            yield Failed("hits", error)

    def _pages(self, client: ApiClient, product: Product | None) -> Pages:
        entry = self._entry
        if entry.esql is not None:
            return EsqlPages(client, self._asked, entry.esql)
        if entry.sql is not None:
            return SqlPages(client, self._asked, entry.sql, product)
        return SearchPages(client, self._asked, product)


def connect(entry: ElasticsearchSource, access: Access) -> Connector:
    """The connector of an entry: of its server, or of its folder of files."""
    if entry.path is None:
        return ElasticsearchConnector(entry, access)
    reader = ElasticsearchReader(entry.layout)
    return RecordedFiles(entry, access, reader, default_include=ElasticsearchReader.INCLUDE)
