"""A fake of Elasticsearch and OpenSearch: the requests that the connector makes, over hits held in memory."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taboot_pipelines_tests.fakes.answering import Request, Response, answering

SEQ_NO = "_seq_no"
NODES = {
    "_nodes": {"total": 2, "successful": 2, "failed": 0},
    "cluster_name": "logging",
    "nodes": {
        "r1A2WoRbTwKZ516z6NEs5A": {
            "name": "es-1",
            "transport_address": "10.0.0.11:9300",
            "host": "es-1.lan",
            "ip": "10.0.0.11",
            "version": "9.1.2",
            "roles": ["data", "master"],
            "os": {"refresh_interval_in_millis": 1000, "name": "Linux", "available_processors": 4},
            "http": {"bound_address": ["[::]:9200"], "publish_address": "10.0.0.11:9200"},
        },
        "xNqz7mM2RkqY8vP1nL0wQQ": {
            "name": "es-2",
            "transport_address": "10.0.0.12:9300",
            "host": "10.0.0.12",
            "ip": "10.0.0.12",
            "version": "9.1.2",
            "os": {"refresh_interval_in_millis": 1000, "name": "Linux"},
            "http": {"publish_address": "es-2.lan/10.0.0.12:9200"},
        },
    },
}


class FakeElasticsearch:
    """``hits``: by (index, id), the sources. Times are milliseconds since 1970 in ``@timestamp``.

    ``product``: as which it answers; ``pit``: None: points in time may not be opened; ``expire_after``: each
    point in time ends after so many searches; ``seq_no``: whether it tells sequence
    numbers; ``fail``: {number of a request: what it is answered with}.
    """

    def __init__(self, product: str = "elasticsearch") -> None:
        self.product = product
        self.hits: dict[tuple[str, str], dict[str, Any]] = {}
        self.pit = True
        self.expire_after: int | None = None
        self.fail: dict[int, Response] = {}
        self.failed_shards = 0
        self.asked: Counter[str] = Counter()
        self.requests: list[Request] = []
        self._open: dict[str, tuple[list[tuple[tuple[str, str], dict[str, Any]]], int]] = {}
        self._pits = 0
        self.seq_no = True
        self._versions: dict[tuple[str, str], tuple[dict[str, Any], int]] = {}
        self._edits = 0

    @contextmanager
    def serve(self) -> Iterator[str]:
        with answering(self._answer) as base:
            yield base

    @property
    def still_open(self) -> int:
        """How many points in time nobody closed."""
        return len(self._open)

    def _answer(self, asked: Request) -> Response:
        self.requests.append(asked)
        number = len(self.requests) - 1
        if number in self.fail:
            return self.fail[number]
        path = asked.path
        self.asked[f"{asked.method} {path}"] += 1
        if path == "/":
            version = {"number": "9.1.2", "build_flavor": "default"}
            if self.product == "opensearch":
                version = {"number": "3.1.0", "distribution": "opensearch"}
            node = f"es-{number % 2}"
            return Response(body={"name": node, "cluster_name": "logging", "version": version})
        if path.startswith("/_nodes"):
            return Response(body=NODES)
        if path.startswith("/_cat/indices"):
            names = sorted({index for index, _ in self.hits})
            return Response(body=[{"index": name, "uuid": "u", "status": "open"} for name in names])
        if path.endswith("/_count"):
            found = [h for h in self._sorted() if matches(asked.body["query"], h[1])]
            return Response(body={"count": len(found), "_shards": {"total": 1, "failed": 0}})
        if path == "/_query":
            return self._esql(asked.body)
        if path in ("/_sql", "/_plugins/_sql"):
            return self._sql(asked.body)
        if path.endswith(("/_pit", "/_search/point_in_time")):
            return self._point_in_time(asked)
        if path.endswith("/_search"):
            return self._search(asked.body)
        return Response(404, {"error": {"type": "unknown"}})

    def _point_in_time(self, asked: Request) -> Response:
        if asked.path.endswith("/_pit") != (self.product == "elasticsearch"):
            return Response(405, {"error": "method not allowed"})
        if asked.method == "DELETE":
            body = asked.body
            for pit in [body["id"]] if "id" in body else body["pit_id"]:
                self._open.pop(pit, None)
            return Response(body={"succeeded": True})
        if not self.pit:
            return Response(403, {"error": {"type": "security_exception"}})
        self._pits += 1
        self._open[f"pit-{self._pits}"] = (self._sorted(), 0)
        name = "id" if self.product == "elasticsearch" else "pit_id"
        return Response(body={name: f"pit-{self._pits}"})

    def _sorted(self) -> list[tuple[tuple[str, str], dict[str, Any]]]:
        """The hits as they are now, each with its sequence number."""
        for key, source in self.hits.items():
            if self._versions.get(key, ({}, 0))[0] != source:
                self._edits += 1
                self._versions[key] = (dict(source), self._edits)
        return [(key, {**self.hits[key], SEQ_NO: self._versions[key][1]}) for key in sorted(self.hits)]

    def _search(self, body: dict[str, Any]) -> Response:
        held = self._sorted()
        pit = body.get("pit")
        if pit is not None:
            if pit["id"] not in self._open:
                return Response(404, {"error": {"type": "search_context_missing_exception"}})
            held, searches = self._open[pit["id"]]
            if self.expire_after is not None and searches + 1 >= self.expire_after:
                del self._open[pit["id"]]
            else:
                self._open[pit["id"]] = (held, searches + 1)
        shards = {"total": 2, "successful": 2 - self.failed_shards, "failed": self.failed_shards}
        found = [h for h in held if matches(body["query"], h[1])]
        if self.failed_shards:
            found = found[::2]
        if "aggs" in body:
            of = body["aggs"]["windows"]["date_histogram"]
            step = int(of["fixed_interval"].removesuffix("ms"))
            if "aggs" in body["aggs"]["windows"] and not self.seq_no:
                return Response(400, {"error": {"type": "illegal_argument_exception"}})
            counted = Counter(source[of["field"]] // step * step for _, source in found)
            edits: Counter[int] = Counter()
            for _, source in found:
                edits[source[of["field"]] // step * step] += source[SEQ_NO]
            buckets = [
                {"key": at, "doc_count": n, **({"edits": {"value": float(edits[at])}} if self.seq_no else {})}
                for at, n in sorted(counted.items())
            ]
            return Response(body={"_shards": shards, "aggregations": {"windows": {"buckets": buckets}}})
        names = [next(iter(order)) for order in body["sort"]]
        if pit is not None and self.product == "elasticsearch" and "_shard_doc" not in names:
            names.append("_shard_doc")
        # A number that holds for one point in time only, as the real one does.
        salt = hash(pit["id"]) % 7 if pit is not None else 0

        def order(hit: tuple[tuple[str, str], dict[str, Any]]) -> list[Any]:
            tie = {"_shard_doc": held.index(hit) + salt * 100_000, "_id": hit[0][1]}
            return [tie[n] if n in tie else hit[1][n] for n in names]

        rows = sorted(((order(h), h) for h in found), key=lambda row: row[0])
        if "search_after" in body:
            rows = [row for row in rows if row[0] > body["search_after"]]
        wanted = body.get("_source")
        hits = [
            {
                "_index": index,
                "_id": id_,
                "_score": None,
                **({"_seq_no": source[SEQ_NO], "_primary_term": 1} if self.seq_no else {}),
                "_source": {
                    k: v for k, v in source.items() if k != SEQ_NO and (wanted is None or k in wanted)
                },
                "sort": place,
            }
            for place, ((index, id_), source) in rows[: body["size"]]
        ]
        return Response(
            body={"took": 1, "timed_out": False, "_shards": shards, "hits": {"max_score": None, "hits": hits}}
        )

    def _esql(self, body: dict[str, Any]) -> Response:
        limit = int(re.findall(r"LIMIT (\d+)", body["query"])[-1])
        if "SORT @timestamp ASC" not in body["query"]:
            return Response(400, {"error": {"type": "verification_exception"}})
        found = [h for h in self._sorted() if matches(body["filter"], h[1])]
        found.sort(key=lambda hit: hit[1]["@timestamp"])
        columns = [
            "_index",
            "_id",
            *sorted({name for _, source in found for name in source if name != SEQ_NO} | {"@timestamp"}),
        ]
        rows = [[*key, *(source.get(c) for c in columns[2:])] for key, source in found[:limit]]
        return Response(body={"columns": [{"name": c, "type": "keyword"} for c in columns], "values": rows})

    def _sql(self, body: dict[str, Any]) -> Response:
        first = "cursor" not in body
        at, size, low = (0, body["fetch_size"], body.get("filter")) if first else json.loads(body["cursor"])
        found = [h for h in self._sorted() if matches(low, h[1])]
        columns = sorted({name for _, s in found for name in s if name != SEQ_NO} | {"@timestamp"})
        rows = [[source.get(c) for c in columns] for _, source in found[at : at + size]]
        said: dict[str, Any] = {"rows": rows}
        if first:
            said["columns"] = [{"name": c, "type": "keyword"} for c in columns]
        if at + size < len(found):
            said["cursor"] = json.dumps([at + size, size, low])
        return Response(body=said)


def matches(query: dict[str, Any] | None, source: dict[str, Any]) -> bool:
    """Whether a hit's source matches a clause of the Query DSL, of those that the tests use."""
    if not query:
        return True
    ((kind, of),) = query.items()
    if kind == "match_all":
        return True
    if kind == "bool":
        return all(matches(q, source) for q in of.get("filter", ())) and not any(
            matches(q, source) for q in of.get("must_not", ())
        )
    if kind == "exists":
        return of["field"] in source
    ((name, bounds),) = of.items()
    if kind == "term":
        return bool(source.get(name) == bounds)
    if kind == "range":
        value = source.get(name)
        if value is None:
            return False
        return bounds.get("gte", value) <= value and ("lt" not in bounds or value < bounds["lt"])
    raise AssertionError(kind)
