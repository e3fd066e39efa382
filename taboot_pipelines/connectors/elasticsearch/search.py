"""Pages of hits from Elasticsearch and OpenSearch: the search API, ES|QL, and SQL.

A search holds a point in time, where the account may open one, and goes on from the last hit's sort values
(``search_after``). One that has expired is opened anew and the search begins again at the last hit's time;
whoever takes the hits counts those that come again once. Without a point in time the search goes on by a
tiebreaker. ES|QL has no pages of its own: the next one begins at the last row's time. SQL has a cursor.

How many hits the windows of Elasticsearch have, and what tells of edits of them, by which those that
changed are found.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol
from urllib.parse import quote

from taboot_pipelines.connectors.api.client import ApiClient
from taboot_pipelines.connectors.elasticsearch.hits import Hit, Layout, Tally, hit_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer

Product = Literal["elasticsearch", "opensearch"]

#: How long a point in time is kept between two pages.
_KEEP_ALIVE = "5m"
#: How often a point in time may be lost before the search has come to a later time.
_MAX_LOST = 3
#: Pages of SQL in a row that have no rows.
_MAX_EMPTY = 10
#: What a server answers to a way of asking that it does not have.
_UNKNOWN_WAYS = frozenset({400, 405, 501})
_PLAIN_NAME = re.compile(r"[A-Za-z_@][A-Za-z0-9_@]*(?:\.[A-Za-z_@][A-Za-z0-9_@]*)*")


@dataclass(frozen=True, slots=True)
class Page:
    """``partial``: why hits may be missing from it; empty where none are."""

    hits: Sequence[Hit]
    partial: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for. ``query``: a clause of the Query DSL; ``since``: milliseconds since 1970."""

    index: tuple[str, ...]
    query: Mapping[str, Any] | None
    layout: Layout
    page_size: int
    tiebreaker: str | None = None
    since: int | None = None

    @property
    def path(self) -> str:
        """The indices as part of a URL's path."""
        return quote(",".join(self.index), safe="*,")

    def within(self, low: int | None, high: int | None) -> dict[str, Any]:
        """A clause for the hits of ``[low, high)`` (milliseconds) that the query takes."""
        clauses = [clause for clause in (self.time(low, high), self.query) if clause]
        return {"bool": {"filter": clauses}} if clauses else {"match_all": {}}

    def time(self, low: int | None, high: int | None) -> dict[str, Any] | None:
        """A clause for the hits of ``[low, high)`` alone; None where hits have no time."""
        name = self.layout.time_field
        if name is None:
            return None
        if self.since is not None:
            low = self.since if low is None else max(low, self.since)
        bounds = {word: value for word, value in (("gte", low), ("lt", high)) if value is not None}
        if not bounds:
            return {"exists": {"field": name}}
        return {"range": {name: {**bounds, "format": "epoch_millis"}}}


class Pages(Protocol):
    """Hits in pages. ``ordered``: by their times."""

    ordered: bool

    def read(self, low: int | None, high: int | None) -> Iterator[Page]:
        """The hits of ``[low, high)`` in milliseconds. Raises what ``ApiClient.ask`` does, ``E_CONFIG`` for
        what the server does not understand, ``E_NOT_FOUND`` for an index that is not there."""
        ...


class SearchPages:
    """By the search API. ``product``: None where the server does not tell."""

    ordered = True

    def __init__(self, client: ApiClient, asked: Asked, product: Product | None) -> None:
        self._client = client
        self._asked = asked
        self._kinds: tuple[Product, ...] = (product,) if product else ("elasticsearch", "opensearch")
        self._format = product != "opensearch"
        #: Why the search goes on without a point in time; empty while it does with one.
        self.without_pit = ""

    def read(self, low: int | None, high: int | None) -> Iterator[Page]:
        held = self._open()
        after: list[Any] | None = None
        lost = 0
        try:
            while True:
                answer = self._ask(held, after, low, high)
                data = None if answer.gone else _object(answer)
                if held is not None and (data is None or _is_lost(data)):
                    lost += 1
                    if lost > _MAX_LOST:
                        raise _broken("loses its points in time")
                    held, after = self._open(), None
                    continue
                if data is None:
                    raise self._not_found()
                raw = _hits(data)
                hits = [
                    hit_of(one, self._asked.layout, sorted_by_time=self._asked.layout.time_field is not None)
                    for one in raw
                ]
                yield Page(hits, partial_of(data))
                if len(raw) < self._asked.page_size:
                    return
                last = raw[-1].get("sort")
                if not isinstance(last, list) or last == after:
                    raise _broken("answers with pages that do not end")
                after = last
                if held is not None:
                    if isinstance(data.get("pit_id"), str):
                        held = replace(held, id=data["pit_id"])
                    moment = None if hits[-1].nanos is None else hits[-1].nanos // 1_000_000
                    if moment is not None and (low is None or moment > low):
                        # Where it begins again if the point in time is lost.
                        low, lost = moment, 0
        finally:
            self._close(held)

    def _ask(
        self, held: _PointInTime | None, after: list[Any] | None, low: int | None, high: int | None
    ) -> Answer:
        asked = self._asked
        body: dict[str, Any] = {
            "size": asked.page_size,
            "query": asked.within(low, high),
            "sort": self._sort(held),
            "track_total_hits": False,
            "seq_no_primary_term": True,
        }
        if names := _wanted(asked.layout):
            body["_source"] = names
        if after is not None:
            body["search_after"] = after
        path = f"/{asked.path}/_search"
        if held is not None:
            body["pit"] = {"id": held.id, "keep_alive": _KEEP_ALIVE}
            path = "/_search"
        try:
            return self._client.ask("POST", path, json=body)
        except TabootError as error:
            if error.code == "E_API" and error.details.get("status") == 400:
                raise TabootError(
                    "E_CONFIG",
                    "Elasticsearch cannot run the search of this source.",
                    remedy=(
                        "Check `query` and `time_field`; where no point in time can be opened, name a"
                        " `tiebreaker`: a field that is sorted by and different in each hit."
                    ),
                ) from None
            raise

    def _sort(self, held: _PointInTime | None) -> list[Any]:
        time = self._asked.layout.time_field
        order: list[Any] = []
        if time is not None:
            how = {"order": "asc"}
            if self._format:
                how["format"] = "strict_date_optional_time_nanos"
            order.append({time: how})
        if held is None or held.kind == "opensearch":
            order.append({self._asked.tiebreaker or "_id": "asc"})
        elif time is None:
            # With a point in time this stands behind every other order by itself.
            order.append({"_shard_doc": "asc"})
        return order

    def _open(self) -> _PointInTime | None:
        """A point in time; None where there can be none."""
        if self.without_pit:
            return None
        reason = "this server has none"
        for kind in self._kinds:
            way = "_pit" if kind == "elasticsearch" else "_search/point_in_time"
            try:
                answer = self._client.ask(
                    "POST", f"/{self._asked.path}/{way}", params={"keep_alive": _KEEP_ALIVE}
                )
            except TabootError as error:
                if error.code == "E_FORBIDDEN":
                    reason = "this account may open none"
                elif error.details.get("status") not in _UNKNOWN_WAYS:
                    raise
                continue
            if answer.gone:
                if _error_type(answer) == "index_not_found_exception":
                    raise self._not_found()
                continue
            data = _object(answer)
            found = data.get("id") or data.get("pit_id")
            if isinstance(found, str):
                self._kinds = (kind,)
                return _PointInTime(kind, found)
        self.without_pit = reason
        return None

    def _close(self, held: _PointInTime | None) -> None:
        if held is None:
            return
        # It ends by itself if this fails.
        with contextlib.suppress(TabootError):
            if held.kind == "elasticsearch":
                self._client.ask("DELETE", "/_pit", json={"id": held.id})
            else:
                self._client.ask("DELETE", "/_search/point_in_time", json={"pit_id": [held.id]})

    def _not_found(self) -> TabootError:
        return TabootError(
            "E_NOT_FOUND", f"There is no index {','.join(self._asked.index)} in Elasticsearch."
        )


@dataclass(frozen=True, slots=True)
class _PointInTime:
    kind: Product
    id: str


class EsqlPages:
    """By ES|QL. Rows are told apart by their columns ``_index`` and ``_id`` (``METADATA _index, _id``), else
    by all that they say."""

    ordered = True

    def __init__(self, client: ApiClient, asked: Asked, text: str) -> None:
        assert asked.layout.time_field is not None
        self._client = client
        self._asked = asked
        self._time = asked.layout.time_field
        name = self._time if _PLAIN_NAME.fullmatch(self._time) else f"`{self._time.replace('`', '``')}`"
        self._text = f"{text.rstrip()}\n| SORT {name} ASC\n| LIMIT {asked.page_size}"

    def read(self, low: int | None, high: int | None) -> Iterator[Page]:
        while True:
            body = {"query": self._text, "filter": self._asked.time(low, high)}
            answer = _asked_text(self._client, "/_query", body)
            data = _object(answer)
            rows = _rows(_columns(data, "columns"), data.get("values"), self._asked.layout)
            yield Page(rows, "the answer is partial" if data.get("is_partial") is True else partial_of(data))
            if len(rows) < self._asked.page_size:
                return
            last = rows[-1].nanos
            if last is None or last // 1_000_000 == low:
                raise TabootError(
                    "E_TOO_LARGE",
                    f"More than {self._asked.page_size} rows of ES|QL are of one millisecond.",
                    remedy="Raise `page_size`, or narrow the query.",
                )
            low = last // 1_000_000


class SqlPages:
    """By SQL, whose rows come in no order that could be relied on."""

    ordered = False

    def __init__(self, client: ApiClient, asked: Asked, text: str, product: Product | None) -> None:
        self._client = client
        self._asked = asked
        self._text = text
        self._path = "/_plugins/_sql?format=jdbc" if product == "opensearch" else "/_sql?format=json"

    def read(self, low: int | None, high: int | None) -> Iterator[Page]:
        body: dict[str, Any] = {"query": self._text, "fetch_size": self._asked.page_size}
        if (bounds := self._asked.time(low, high)) is not None:
            body["filter"] = bounds
        columns: list[str] | None = None
        empty = 0
        while True:
            data = _object(_asked_text(self._client, self._path, body))
            if columns is None:
                columns = _columns(data, "columns", "schema")
            rows = data.get("rows", data.get("datarows"))
            yield Page(_rows(columns, rows, self._asked.layout), partial_of(data))
            cursor = data.get("cursor")
            if not isinstance(cursor, str) or not cursor:
                return
            empty = 0 if rows else empty + 1
            if empty > _MAX_EMPTY:
                raise _broken("answers with pages that do not end")
            body = {"cursor": cursor}


def _asked_text(client: ApiClient, path: str, body: object) -> Answer:
    """The answer to a query in words. Raises ``E_CONFIG`` for one that the server does not understand."""
    try:
        answer = client.ask("POST", path, json=body)
    except TabootError as error:
        if error.details.get("status") not in _UNKNOWN_WAYS:
            raise
        answer = None
    if answer is None or answer.gone:
        raise TabootError(
            "E_CONFIG",
            "Elasticsearch cannot run the query of this source.",
            remedy="Check `esql` or `sql`; each needs a server that has this language.",
        )
    return answer


def _wanted(layout: Layout) -> list[str]:
    """The fields that are asked for; empty for all."""
    if not layout.fields:
        return []
    return [*dict.fromkeys([*layout.fields, *filter(None, (layout.time_field, layout.group_by))])]


def _columns(data: Mapping[str, Any], *names: str) -> list[str]:
    listed = next((data[name] for name in names if isinstance(data.get(name), list)), None)
    if listed is None or not all(isinstance(c, dict) and isinstance(c.get("name"), str) for c in listed):
        raise _broken("answers without columns")
    return [c.get("alias") or c["name"] for c in listed]


def _rows(columns: Sequence[str], rows: object, layout: Layout) -> list[Hit]:
    if layout.time_field is not None and layout.time_field not in columns:
        raise TabootError(
            "E_CONFIG",
            f"The rows of the query have no column {layout.time_field}, which `time_field` names.",
        )
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise _broken("answers without rows")
    return [row_hit(dict(zip(columns, row, strict=False)), layout) for row in rows]


def row_hit(row: Mapping[str, Any], layout: Layout) -> Hit:
    """A row of a table as a hit; columns without a value are left out."""
    said = {name: value for name, value in row.items() if value is not None}
    raw: dict[str, Any] = {name: said.pop(name) for name in ("_id", "_index") if name in said}
    return hit_of(raw | {"_source": said}, layout)


def _object(answer: Answer) -> dict[str, Any]:
    """The answer's JSON object. Raises ``E_API`` for anything else."""
    try:
        data = json.loads(answer.text())
    except (ValueError, RecursionError):
        data = answer.json()
    if not isinstance(data, dict):
        raise _broken("answers with something that is no object")
    return data


def _hits(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    outer = data.get("hits")
    hits = outer.get("hits") if isinstance(outer, dict) else None
    if not isinstance(hits, list) or not all(isinstance(hit, dict) for hit in hits):
        raise _broken("answers without hits")
    return hits


def partial_of(data: Mapping[str, Any]) -> str:
    """Why hits may be missing from an answer; empty where none are."""
    shards = data.get("_shards")
    failed = shards.get("failed") if isinstance(shards, dict) else 0
    if isinstance(failed, int) and failed > 0:
        return f"{failed} shards did not answer"
    if data.get("timed_out") is True:
        return "the search ran out of time"
    if data.get("terminated_early") is True:
        return "the search was ended early"
    return ""


def _is_lost(data: Mapping[str, Any]) -> bool:
    """Whether an answer lacks shards because the point in time has ended on them."""
    shards = data.get("_shards")
    failures = shards.get("failures") if isinstance(shards, dict) else None
    return isinstance(failures, list) and any(
        isinstance(failure, dict)
        and isinstance(failure.get("reason"), dict)
        and failure["reason"].get("type") == "search_context_missing_exception"
        for failure in failures
    )


def _error_type(answer: Answer) -> str:
    with contextlib.suppress(TabootError):
        return answer.value().string("error", "type")
    return ""


def _broken(how: str) -> TabootError:
    return TabootError("E_API", f"Elasticsearch {how}.")


#: Windows whose hits are counted by one request; a server refuses more than 65,535.
_MAX_COUNTED = 10_000
_MAX_EXACT = 2**53

#: ``[low, high)`` in milliseconds since 1970; None: open at that end.
Span = tuple[int | None, int | None]


def holds(span: Span, window: int | None) -> bool:
    """Whether a window lies in a span; what lies in no window is in every one."""
    low, high = span
    return window is None or ((low is None or window >= low) and (high is None or window < high))


def count(client: ApiClient, asked: Asked, query: Mapping[str, Any]) -> int | None:
    """How many hits a query has. Raises ``E_NOT_FOUND`` and what ``ApiClient.ask`` does."""
    answer = client.ask("POST", f"/{asked.path}/_count", json={"query": query})
    if answer.gone:
        raise TabootError("E_NOT_FOUND", f"There is no index {','.join(asked.index)} in Elasticsearch.")
    return answer.value().integer("count")


def changed(client: ApiClient, asked: Asked, end: int | None, counts: Mapping[int, Tally]) -> list[Span]:
    """The spans of windows before ``end`` whose hits are not those that they were: ``counts``, by windows in
    milliseconds since 1970. Raises ``E_API``, and ``E_5XX_ORIGIN`` where not every shard counted."""
    if end is None or asked.layout.time_field is None:
        return []
    window = asked.layout.window
    known = {at: n for at, n in counts.items() if at < end}
    first = min(known, default=end)
    oldest = first if asked.since is None else min(first, asked.since)
    # Windows are counted together where there are too many of them.
    together = max(1, -(-(end - oldest) // window // _MAX_COUNTED)) * window
    now = _counted(client, asked, end, together)
    before: dict[int, Tally] = {}
    for at, n in known.items():
        sum_ = before.get(at // together * together, Tally(0, 0))
        edits = None if sum_.edits is None or n.edits is None else sum_.edits + n.edits
        before[at // together * together] = Tally(sum_.hits + n.hits, edits)
    spans: list[Span] = []
    for at in sorted(now.keys() | before.keys()):
        if _are_the_same(now.get(at), before.get(at)):
            continue
        high = min(at + together, end)
        if spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((at, high))
    return spans


def _are_the_same(now: Tally | None, before: Tally | None) -> bool:
    if now is None or before is None or now.hits != before.hits:
        return False
    return now.edits is None or before.edits is None or now.edits == before.edits


def _counted(client: ApiClient, asked: Asked, end: int, together: int) -> dict[int, Tally]:
    """What the server counts in each ``together`` milliseconds before ``end``."""
    windows: dict[str, Any] = {
        "date_histogram": {
            "field": asked.layout.time_field,
            "fixed_interval": f"{together}ms",
            "min_doc_count": 1,
        },
        "aggs": {"edits": {"sum": {"field": "_seq_no"}}},
    }
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": asked.within(None, end),
        "aggs": {"windows": windows},
    }
    try:
        answer = client.ask("POST", f"/{asked.path}/_search", json=body)
    except TabootError as error:
        if error.details.get("status") != 400:
            raise
        # An index may be kept without sequence numbers.
        del windows["aggs"]
        answer = client.ask("POST", f"/{asked.path}/_search", json=body)
    if answer.gone:
        raise TabootError("E_NOT_FOUND", f"There is no index {','.join(asked.index)} in Elasticsearch.")
    said = answer.value()
    if said.integer("_shards", "failed") or said.true("timed_out"):
        raise TabootError("E_5XX_ORIGIN", "Some shards did not count their hits.")
    missing = said.at("aggregations", "windows", "buckets") is None
    # Patterns that no index matches have no buckets either.
    if missing and said.integer("_shards", "total") != 0:
        raise TabootError("E_API", "Elasticsearch answers without the counts that it was asked for.")
    now: dict[int, Tally] = {}
    for bucket in said.items("aggregations", "windows", "buckets"):
        at, n = bucket.integer("key"), bucket.integer("doc_count")
        if at is None or n is None:
            raise TabootError("E_API", "Elasticsearch answers with counts of no time.")
        told = bucket.at("edits", "value")
        edits = told.data if told is not None and isinstance(told.data, int | float) else None
        # Sums are floating numbers, beyond which they are not exact.
        now[at] = Tally(n, None if edits is None or edits >= _MAX_EXACT else int(edits))
    return now
