"""How many hits the windows of Elasticsearch have, and what tells of edits of them, by which those that
changed are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taboot_pipelines.connectors.api import ApiClient
from taboot_pipelines.connectors.elasticsearch_hits import Tally
from taboot_pipelines.connectors.elasticsearch_pages import Asked
from taboot_pipelines.errors import TabootError

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
