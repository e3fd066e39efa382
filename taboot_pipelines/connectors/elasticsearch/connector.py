"""The connector of type ``elasticsearch``: windows of hits, and what a cluster says of itself.

How far the reading of hits has come: what a run begins with, and what it leaves to the next.

What a cluster of Elasticsearch or OpenSearch says of itself, its nodes and its indices.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api.client import ApiClient
from taboot_pipelines.connectors.api.resources import item
from taboot_pipelines.connectors.elasticsearch.entry import (
    ElasticsearchSource,
    connected,
    info_of,
    product_of,
    seconds,
)
from taboot_pipelines.connectors.elasticsearch.files import ElasticsearchReader
from taboot_pipelines.connectors.elasticsearch.hits import Items, LogItem, Tally, window_in
from taboot_pipelines.connectors.elasticsearch.search import (
    Asked,
    EsqlPages,
    Pages,
    Product,
    SearchPages,
    Span,
    SqlPages,
    changed,
    count,
    holds,
)
from taboot_pipelines.connectors.protocol import Connector, Planned
from taboot_pipelines.connectors.recorded import RecordedFiles
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.model.records import (
    LOGS,
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


@dataclass
class Reading:
    """What a run has come to. ``settled``: windows before it are not read again. ``resume``: where the run
    before stopped, ``begun``: when the first of the runs that stopped began (milliseconds since 1970)."""

    settled: int | None
    resume: int | None
    begun: int
    counts: dict[int, Tally]
    fetched: int = 0
    unsaved: int = 0
    reason: str = ""
    whole: bool = True
    #: Paths of what was there, and the spans that were read to their ends.
    seen: set[str] = field(default_factory=set)
    over: list[Span] = field(default_factory=list)

    def read(self, span: Span, counts: Mapping[int, Tally]) -> None:
        """The hits of a span were read."""
        self.over.append(span)
        self.counts = {w: n for w, n in self.counts.items() if not holds(span, w)} | dict(counts)

    def stop(self, span: Span, items: Items, at: int | None) -> None:
        """The hits of a span were read up to the window ``at``, where the next run is to go on; None: it is
        to begin where this one did."""
        if at is not None:
            self.read((span[0], at), {w: n for w, n in items.counts.items() if w < at})
            self.resume = at


#: Where all of it is beneath.
CLUSTER = "cluster/"
#: What changes by itself: which node answers, and what a cluster says of the moment.
_VOLATILE_OF_INFO = ("name",)
_VOLATILE_OF_NODES = ("refresh_interval_in_millis", "timestamp", "total_indexing_buffer", "_nodes")


def cluster_events(
    client: ApiClient,
    info: Answer | None,
    indices: str,
    known: Mapping[str, Known],
    tombstoned: Callable[[str], bool],
) -> Generator[Event, None, bool]:
    """The events of the cluster's items; returns whether all were read that may be. ``info``: the answer
    that the server gave of itself; ``indices``: those that are listed, as part of a URL's path. Raises
    ``E_CREDENTIALS``."""
    listed = f"_cat/indices/{indices}?format=json&h=index,uuid,status,pri,rep&s=index"
    asked: dict[str, tuple[str, tuple[str, ...]]] = {
        f"{CLUSTER}info.json": ("/", _VOLATILE_OF_INFO),
        f"{CLUSTER}nodes.json": ("_nodes/_all/http,os,transport", _VOLATILE_OF_NODES),
        f"{CLUSTER}indices.json": (listed, ()),
    }
    whole = True
    for path, (way, volatile) in asked.items():
        if tombstoned(path):
            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
            continue
        try:
            answer = info if way == "/" and info is not None else client.get(way)
            said = None if answer.gone else answer.json()
            nodes = said.get("_nodes") if isinstance(said, dict) else None
            if isinstance(nodes, dict) and nodes.get("failed"):
                raise TabootError("E_5XX_ORIGIN", f"{nodes['failed']} nodes of the cluster did not answer.")
        except TabootError as error:
            if error.code == "E_CREDENTIALS":
                raise
            if error.code == "E_FORBIDDEN" or error.details.get("status") in (400, 405):
                yield Skipped(path, "E_FORBIDDEN", f"{path}: this account or server does not tell it.")
                continue
            whole = False
            # The end of the run's budget is no failure.
            if error.code != "E_REQUESTS":
                yield Failed(path, error)
            continue
        if said is None:
            yield Skipped(path, "E_NOT_FOUND", f"{path}: this server does not have it.", outside=True)
        else:
            yield item(known, path, said, volatile=volatile, mime="application/json")
    return whole


def connect(entry: ElasticsearchSource, access: Access) -> Connector:
    """The connector of an entry: of its server, or of its folder of files."""
    if entry.path is None:
        return ElasticsearchConnector(entry, access)
    reader = ElasticsearchReader(entry.layout)
    return RecordedFiles(entry, access, reader, default_include=ElasticsearchReader.INCLUDE)
