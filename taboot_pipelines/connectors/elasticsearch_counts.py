"""How many hits the windows of Elasticsearch have, by which those that changed are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taboot_pipelines.connectors.api import ApiClient
from taboot_pipelines.connectors.elasticsearch_pages import Asked
from taboot_pipelines.errors import TabootError

#: Windows whose hits are counted by one request; a server refuses more than 65,535.
_MAX_COUNTED = 10_000

#: ``[low, high)`` in milliseconds since 1970; None: open at that end.
Span = tuple[int | None, int | None]


def holds(span: Span, window: int | None) -> bool:
    """Whether a window lies in a span; what lies in no window is in every one."""
    low, high = span
    return window is None or ((low is None or window >= low) and (high is None or window < high))


def count(client: ApiClient, asked: Asked, query: Mapping[str, Any]) -> int | None:
    answer = client.ask("POST", f"/{asked.path}/_count", json={"query": query})
    if answer.gone:
        raise TabootError("E_NOT_FOUND", f"There is no index {','.join(asked.index)} in Elasticsearch.")
    return answer.value().integer("count")


def changed(client: ApiClient, asked: Asked, end: int | None, counts: Mapping[int, int]) -> list[Span]:
    """The spans of windows before ``end`` that do not have as many hits as they had: ``counts`` of hits by
    windows, in milliseconds since 1970. Raises ``E_API``, and
    ``E_5XX_ORIGIN`` where not every shard counted."""
    if end is None or asked.layout.time_field is None:
        return []
    window = asked.layout.window
    known = {at: n for at, n in counts.items() if at < end}
    first = min(known, default=end)
    oldest = first if asked.since is None else min(first, asked.since)
    # Windows are counted together where there are too many of them.
    together = max(1, -(-(end - oldest) // window // _MAX_COUNTED)) * window
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": asked.within(None, end),
        "aggs": {
            "windows": {
                "date_histogram": {
                    "field": asked.layout.time_field,
                    "fixed_interval": f"{together}ms",
                    "min_doc_count": 1,
                }
            }
        },
    }
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
    now: dict[int, int] = {}
    for bucket in said.items("aggregations", "windows", "buckets"):
        at, n = bucket.integer("key"), bucket.integer("doc_count")
        if at is None or n is None:
            raise TabootError("E_API", "Elasticsearch answers with counts of no time.")
        now[at] = n
    before: dict[int, int] = {}
    for at, n in known.items():
        before[at // together * together] = before.get(at // together * together, 0) + n
    spans: list[Span] = []
    for at in sorted(now.keys() | before.keys()):
        if now.get(at) == before.get(at):
            continue
        high = min(at + together, end)
        if spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((at, high))
    return spans
