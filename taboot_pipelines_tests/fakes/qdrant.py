"""A fake Qdrant server: real HTTP over qdrant-client's local mode, faults on demand. It is a fake, not a
Qdrant.

Local mode stores points, filters and scores them exactly as documented, one by one. It ignores
``shard_number``, ``replication_factor``, the HNSW parameters, quantization, ``on_disk``, payload indexes and
``search_params``: the fake remembers what it was asked for and says so again when a collection is described,
but nothing acts on it. So no test against it shows anything of speed, of indexes, of approximate search, or
of how many shards agree.

In a test::

    with FakeQdrant() as qdrant:
        qdrant.fail(503, times=2)
        ... QdrantSettings(url=qdrant.url) ...
        assert qdrant.requests["upsert"] == 1

``stop()`` and ``start()`` are an outage: the port stays the same and what was stored stays. Beside a test,
for several processes: ``python -m taboot_pipelines_tests.fakes.qdrant --port 0 [--path DIR]`` prints the port
it listens on; with a path, what was stored outlives the process. ``GET /stats`` gives the counters as JSON.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import orjson
from pydantic import TypeAdapter, ValidationError
from qdrant_client import QdrantClient
from qdrant_client.http import models as m
from qdrant_client.local.qdrant_local import QdrantLocal

from taboot_pipelines_tests.held_port import held_port

VERSION = "1.16.0"


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True)
class _Fault:
    """``status`` None: the connection is dropped."""

    operation: str | None
    status: int | None = None
    retry_after: str | None = None
    said: bytes | None = None


class FakeQdrant:
    """The server. ``requests`` counts what was answered, by operation; ``sent`` the points of upserts and the
    ids of deletes; ``queries`` the bodies of searches; ``encodings`` what answers may be encoded in.

    With ``upstream``, the URL of a server, nothing is faked but the faults: requests are passed on to it, and
    ``store`` is its client. Collections made through it go at the end.

    ``strict``: a filter by a field without an index of the collection is refused, as a server does whose
    strict mode forbids unindexed filtering. ``read_only_key``: with it, what changes anything is refused.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        path: Path | None = None,
        api_key: str | None = None,
        read_only_key: str | None = None,
        version: str = VERSION,
        strict: bool = False,
        upstream: str | None = None,
    ) -> None:
        self.api_key, self.read_only_key, self.version = api_key, read_only_key, version
        self.strict = strict
        self.queries: list[dict[str, Any]] = []
        self.encodings: set[str | None] = set()
        self.upstream = None if upstream is None else _Upstream(upstream)
        #: Seconds that each request takes.
        self.delay = 0.0
        self.requests: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self._path = path
        self._store: Any = (
            QdrantLocal(str(path) if path else ":memory:", force_disable_check_same_thread=True)
            if self.upstream is None
            else self.upstream.client
        )
        self._asked = _Memory(path)
        self._faults: deque[_Fault] = deque()
        self._lock = threading.RLock()
        self._held = ExitStack()
        # It may be stopped and started again: the port stays its own.
        self._port = self._held.enter_context(held_port()) if port == 0 else port
        self._httpd: _Server | None = None
        self._thread: threading.Thread | None = None
        if self.upstream is None:
            for collection in self._store.collections.values():
                _relax(collection)

    # --- the server -----------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    def start(self) -> FakeQdrant:
        self._httpd = _Server(("127.0.0.1", self._port), _Handler)
        self._httpd.fake = self
        self._thread = threading.Thread(
            target=self._httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Refuse connections and drop those that stand; what was stored stays."""
        if self._httpd is not None:
            self._httpd.shutdown()
            self._httpd.server_close()
            self._httpd.drop()
            self._httpd = None

    def __enter__(self) -> FakeQdrant:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._held.close()
        if self.upstream is not None:
            self.upstream.clear()
        self._store.close()

    # --- faults ---------------------------------------------------------------------------------------------

    def fail(
        self, status: int, *, times: int = 1, operation: str | None = None, retry_after: str | None = None
    ) -> None:
        """The next ``times`` requests (of ``operation``) are not carried out and answered with ``status``;
        the answer quotes the request.
        """
        self._faults.extend([_Fault(operation, status, retry_after)] * times)

    def drop(self, *, times: int = 1, operation: str | None = None) -> None:
        """The next requests are carried out, and the connection is dropped before an answer."""
        self._faults.extend([_Fault(operation)] * times)

    def say(self, answer: bytes, *, times: int = 1, operation: str | None = None) -> None:
        """The next requests are answered with these bytes as if they were JSON."""
        self._faults.extend([_Fault(operation, 200, said=answer)] * times)

    def calm(self) -> None:
        """No more faults."""
        self._faults.clear()

    def fault(self, operation: str) -> _Fault | None:
        with self._lock:
            for i, fault in enumerate(self._faults):
                if fault.operation in (None, operation):
                    del self._faults[i]
                    return fault
        return None

    # --- what a test may look at ----------------------------------------------------------------------------

    def payloads(self, collection: str) -> dict[str, dict[str, Any]]:
        """Every point's payload by id, whatever its namespace; empty if there is no such collection."""
        with self._lock:
            if collection not in self.collections():
                return {}
            records, _ = self._store.scroll(collection, limit=1_000_000, with_payload=True)
            return {str(r.id): dict(r.payload or {}) for r in records}

    def collections(self) -> list[str]:
        """Those that there are; of an upstream, those that were made through this."""
        with self._lock:
            if self.upstream is not None:
                held = {c.name for c in self._store.get_collections().collections}
                return sorted(held & self.upstream.made)
            return sorted(self._store.collections)

    @property
    def store(self) -> Any:
        """The local mode or the client of the server behind it, for tests that tamper with what is stored."""
        return self._store

    # --- operations -----------------------------------------------------------------------------------------

    def find(self, method: str, path: str) -> tuple[str, Callable[[bytes], Any]]:
        """(name of the operation, what carries it out when given the body)"""
        for name, wanted, pattern, operation in _OPERATIONS:
            match = re.fullmatch(pattern, path)
            if match is not None and method == wanted:
                names = [unquote(g) for g in match.groups()]
                if self.upstream is not None:
                    return name, partial(self.upstream.carry_out, name, names, method, path)
                return name, partial(operation, self, names)
        raise Refused(404, f"there is no operation {method} {path}")

    def _collection(self, name: str) -> str:
        if name not in self._store.collections and name not in self._store.aliases:
            raise Refused(404, "Not found: Collection doesn't exist!")
        return name

    def _filtered(self, names: list[str], body: bytes) -> str:
        """The collection of a request that may have a filter; in strict mode only by fields with an index."""
        name = self._collection(names[0])
        if self.strict:
            asked = self._asked.collections[self._store.aliases.get(name, name)]
            for field in _fields(orjson.loads(body or b"{}").get("filter")):
                if field not in asked["indexes"]:
                    raise Refused(400, f"Bad request: Index required but not found for {field!r}")
        return name

    def _create(self, names: list[str], body: bytes) -> bool:
        if names[0] in self._store.collections or names[0] in self._store.aliases:
            raise Refused(409, "Wrong input: Collection already exists!")
        asked = _parse(m.CreateCollection, body)
        self._store.create_collection(
            names[0],
            vectors_config=asked.vectors,
            sparse_vectors_config=asked.sparse_vectors,
            metadata=asked.metadata,
        )
        _relax(self._store.collections[names[0]])
        self._asked.create(names[0], orjson.loads(body))
        return True

    def _describe(self, names: list[str], _body: bytes) -> dict[str, Any]:
        name = self._collection(names[0])
        name = self._store.aliases.get(name, name)
        info = orjson.loads(self._store.get_collection(name).model_dump_json())
        asked = self._asked.collections.get(name, {"body": {}, "indexes": {}})
        config, created = info["config"], asked["body"]
        config["params"] |= {
            "shard_number": created.get("shard_number", 1),
            "replication_factor": created.get("replication_factor", 1),
        }
        config["hnsw_config"] |= created.get("hnsw_config") or {}
        config["quantization_config"] = created.get("quantization_config")
        info["payload_schema"] = {
            field: {"data_type": kind, "points": 0} for field, kind in asked["indexes"].items()
        }
        return dict(info)

    def _index(self, names: list[str], body: bytes) -> dict[str, Any]:
        asked = _parse(m.CreateFieldIndex, body)
        schema = asked.field_schema
        kind = schema if isinstance(schema, str) else getattr(schema, "type", None)
        self._asked.index(self._collection(names[0]), asked.field_name, str(getattr(kind, "value", kind)))
        return _DONE

    def _drop_index(self, names: list[str], _body: bytes) -> dict[str, Any]:
        self._asked.index(self._collection(names[0]), names[1], None)
        return _DONE

    def _drop(self, names: list[str], _body: bytes) -> bool:
        self._asked.drop(names[0])
        return bool(self._store.delete_collection(names[0]))

    def _change_aliases(self, _names: list[str], body: bytes) -> bool:
        asked = _parse(m.ChangeAliasesOperation, body)
        for step in asked.actions:
            if isinstance(step, m.CreateAliasOperation):
                self._collection(step.create_alias.collection_name)
                if step.create_alias.alias_name in self._store.collections:
                    raise Refused(409, "Wrong input: Collection already exists!")
        return bool(self._store.update_collection_aliases(change_aliases_operations=asked.actions))

    def _upsert(self, names: list[str], body: bytes) -> dict[str, Any]:
        raw = orjson.loads(body)
        name = self._collection(names[0])
        if "batch" in raw:
            batch = raw["batch"]
            vectors = batch["vectors"]
            points = [
                m.PointStruct(
                    id=point,
                    payload=batch["payloads"][i],
                    vector=(
                        {
                            n: m.SparseVector(**v[i]) if isinstance(v[i], dict) else v[i]
                            for n, v in vectors.items()
                        }
                        if isinstance(vectors, dict)
                        else vectors[i]
                    ),
                )
                for i, point in enumerate(batch["ids"])
            ]
        else:
            points = _parse(m.PointsList, body).points
        self._store.upsert(name, points)
        self.sent["upsert"] += len(points)
        return _DONE

    def _delete(self, names: list[str], body: bytes) -> dict[str, Any]:
        selector = _PARSE_SELECTOR.validate_json(body)
        name = self._filtered(names, body)
        before = self._store.count(name).count
        self._store.delete(name, points_selector=selector)
        self.sent["delete"] += before - self._store.count(name).count
        return _DONE

    def _set_payload(self, names: list[str], body: bytes) -> dict[str, Any]:
        asked = _parse(m.SetPayload, body)
        self._store.set_payload(self._collection(names[0]), payload=asked.payload, points=asked.points)
        return _DONE

    def _retrieve(self, names: list[str], body: bytes) -> list[Any]:
        asked = _parse(m.PointRequest, body)
        found = self._store.retrieve(
            self._collection(names[0]),
            asked.ids,
            with_payload=_or(asked.with_payload, True),
            with_vectors=_or(asked.with_vector, False),
        )
        return [_plain(r) for r in found]

    def _scroll(self, names: list[str], body: bytes) -> dict[str, Any]:
        asked = _parse(m.ScrollRequest, body)
        found, following = self._store.scroll(
            self._filtered(names, body),
            scroll_filter=asked.filter,
            limit=asked.limit or 10,
            offset=asked.offset,
            with_payload=_or(asked.with_payload, True),
            with_vectors=_or(asked.with_vector, False),
        )
        return {"points": [_plain(r) for r in found], "next_page_offset": following}

    def _count(self, names: list[str], body: bytes) -> dict[str, int]:
        asked = _parse(m.CountRequest, body)
        return {"count": self._store.count(self._filtered(names, body), count_filter=asked.filter).count}

    def _query(self, names: list[str], body: bytes) -> dict[str, Any]:
        asked = _parse(m.QueryRequest, body)
        query = asked.query.nearest if isinstance(asked.query, m.NearestQuery) else asked.query
        found = self._store.query_points(
            self._filtered(names, body),
            query=query,
            using=asked.using,
            query_filter=asked.filter,
            limit=asked.limit or 10,
            with_payload=_or(asked.with_payload, False),
            with_vectors=_or(asked.with_vector, False),
        )
        return {"points": [_plain(p) for p in found.points]}


def any_qdrant() -> FakeQdrant:
    """The fake, or where ``TABOOT_TEST_QDRANT_URL`` names a server, the way to that. It is to hold nothing
    else: what tests lose and delete is its collections."""
    return FakeQdrant(upstream=os.environ.get("TABOOT_TEST_QDRANT_URL"))


class _Upstream:
    """A real server behind the fake's door."""

    def __init__(self, url: str) -> None:
        self.client = QdrantClient(url=url, check_compatibility=False, timeout=60)
        self.made: set[str] = set()
        self._http = httpx.Client(base_url=url, timeout=60, headers={"Accept-Encoding": "identity"})

    def carry_out(self, operation: str, names: list[str], method: str, path: str, body: bytes) -> Any:
        # The client waits for its writes by a parameter of the URL, and so must what stands in for it.
        wait = {"wait": "true"} if operation in ("upsert", "delete", "payload", "index", "unindex") else {}
        answer = self._http.request(
            method, path, content=body or None, params=wait, headers={"Content-Type": "application/json"}
        )
        said = answer.json() if answer.content else {}
        if answer.status_code != 200:
            raise Refused(answer.status_code, str(said.get("status")))
        if operation == "create":
            self.made.add(names[0])
        return said["result"]

    def clear(self) -> None:
        for name in self.made:
            self.client.delete_collection(name)
        self._http.close()


#: Operations that change nothing, which a key that may only read is for.
_READING = frozenset(
    {"list", "exists", "describe", "aliases", "retrieve", "scroll", "count", "query", "collections"}
)
_DONE = {"operation_id": 0, "status": "completed"}
_PARSE_SELECTOR: TypeAdapter[Any] = TypeAdapter(m.PointIdsList | m.FilterSelector)


def _parse(model: Any, body: bytes) -> Any:
    return model.model_validate_json(body)


def _plain(model: Any) -> Any:
    return orjson.loads(model.model_dump_json(exclude_none=True))


def _fields(condition: Any, prefix: str = "") -> list[str]:
    """The fields that a filter asks of, by the name of their index."""
    if isinstance(condition, list):
        return [f for c in condition for f in _fields(c, prefix)]
    if not isinstance(condition, dict):
        return []
    if "nested" in condition:
        inner = condition["nested"]
        return _fields(inner["filter"], f"{inner['key']}[].")
    own = [prefix + condition["key"]] if "key" in condition else []
    return own + [f for k in ("must", "should", "must_not") for f in _fields(condition.get(k), prefix)]


def _points_of(operation: str, body: bytes) -> int:
    """How many points an upsert or a deletion by ids is about."""
    if operation == "upsert":
        raw = orjson.loads(body)
        return len(raw["batch"]["ids"] if "batch" in raw else raw["points"])
    if operation == "delete":
        conditions = orjson.loads(body).get("filter", {}).get("must", [])
        return sum(len(c.get("has_id", ())) for c in conditions)
    return 0


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _relax(collection: Any) -> None:
    """A point is a transaction of its own in local mode: only a loss of power may lose one here, no kill of
    the process.
    """
    if collection.storage is not None:
        collection.storage.storage.execute("PRAGMA synchronous = OFF")


class _Memory:
    """What collections were asked to be, beside what local mode keeps of it."""

    def __init__(self, path: Path | None) -> None:
        self._file = path / "asked.json" if path else None
        self.collections: dict[str, Any] = (
            orjson.loads(self._file.read_bytes()) if self._file and self._file.exists() else {}
        )

    def create(self, name: str, body: dict[str, Any]) -> None:
        self.collections[name] = {"body": body, "indexes": {}}
        self._save()

    def index(self, name: str, field: str, kind: str | None) -> None:
        indexes = self.collections[name]["indexes"]
        if kind is None:
            indexes.pop(field, None)
        else:
            indexes[field] = kind
        self._save()

    def drop(self, name: str) -> None:
        self.collections.pop(name, None)
        self._save()

    def _save(self) -> None:
        if self._file is not None:
            self._file.write_bytes(orjson.dumps(self.collections))


_ONE = "/collections/([^/]+)"
_OPERATIONS: list[tuple[str, str, str, Callable[[FakeQdrant, list[str], bytes], Any]]] = [
    (
        "list",
        "GET",
        "/collections",
        lambda f, _n, _b: {"collections": [{"name": n} for n in f.collections()]},
    ),
    (
        "exists",
        "GET",
        f"{_ONE}/exists",
        lambda f, n, _b: {"exists": n[0] in f.store.collections or n[0] in f.store.aliases},
    ),
    ("describe", "GET", _ONE, FakeQdrant._describe),
    ("create", "PUT", _ONE, FakeQdrant._create),
    ("drop", "DELETE", _ONE, FakeQdrant._drop),
    ("alias", "POST", "/collections/aliases", FakeQdrant._change_aliases),
    ("aliases", "GET", "/aliases", lambda f, _n, _b: _plain(f.store.get_aliases())),
    ("index", "PUT", f"{_ONE}/index", FakeQdrant._index),
    ("unindex", "DELETE", f"{_ONE}/index/([^/]+)", FakeQdrant._drop_index),
    ("upsert", "PUT", f"{_ONE}/points", FakeQdrant._upsert),
    ("retrieve", "POST", f"{_ONE}/points", FakeQdrant._retrieve),
    ("payload", "POST", f"{_ONE}/points/payload", FakeQdrant._set_payload),
    ("delete", "POST", f"{_ONE}/points/delete", FakeQdrant._delete),
    ("scroll", "POST", f"{_ONE}/points/scroll", FakeQdrant._scroll),
    ("count", "POST", f"{_ONE}/points/count", FakeQdrant._count),
    ("query", "POST", f"{_ONE}/points/query", FakeQdrant._query),
]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    fake: FakeQdrant

    def __init__(self, *arguments: Any) -> None:
        self._standing: set[Any] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._standing.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._standing.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone, or a connection that a test dropped."""

    def drop(self) -> None:
        for request in list(self._standing):
            self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    #: Headers and body leave in two writes: without this each answer waits for the other side's
    #: acknowledgement.
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Nothing: tests read their own output."""

    def _handle(self) -> None:
        fake = self.server.fake
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path.rstrip("/") or "/"
        if path == "/":
            self._write(
                200,
                {"title": "qdrant - vector search engine (fake)", "version": fake.version, "commit": "fake"},
            )
            return
        if path in ("/healthz", "/livez", "/readyz"):
            self._write(200, None, raw=b"healthz check passed")
            return
        if path == "/stats":
            self._write(200, {"requests": fake.requests, "sent": fake.sent})
            return
        key = self.headers.get("api-key")
        if fake.api_key is not None and key not in (fake.api_key, fake.read_only_key or fake.api_key):
            self._write(401, None, raw=b"Must provide an API key or an Authorization bearer token")
            return
        if fake.delay:
            time.sleep(fake.delay)
        try:
            name, operation = fake.find(self.command, path)
            if key is not None and key == fake.read_only_key and name not in _READING:
                raise Refused(403, "Forbidden: Global manage access is required")
            fake.encodings.add(self.headers.get("Accept-Encoding"))
            if name == "query":
                fake.queries.append(orjson.loads(body))
            fault = fake.fault(name)
            if fault is not None and fault.status is not None:
                quoting = {
                    "status": {"error": f"a fault that a test asked for; the request was {body[:2000]!r}"},
                    "time": 0.0,
                }
                self._write(fault.status, quoting, raw=fault.said, retry_after=fault.retry_after)
                return
            with fake._lock:
                before = _points_of(name, body) if fake.upstream is not None else 0
                result = operation(body)
                fake.requests[name] += 1
                if before:
                    fake.sent[name] += before
            if fault is not None:
                self.close_connection = True
                return
            self._write(200, {"result": result, "status": "ok", "time": 0.0})
        except Refused as error:
            self._write(error.status, {"status": {"error": error.message}, "time": 0.0})
        except (ValidationError, ValueError, KeyError, TypeError, AssertionError) as error:
            self._write(400, {"status": {"error": f"Wrong input: {error}"[:2000]}, "time": 0.0})

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _handle

    def _write(
        self, status: int, answer: Any, *, raw: bytes | None = None, retry_after: str | None = None
    ) -> None:
        data = orjson.dumps(answer) if raw is None else raw
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake Qdrant server over qdrant-client's local mode.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--path", type=Path, help="a directory that outlives the process; default: memory")
    parser.add_argument("--reset", action="store_true", help="empty the directory first")
    arguments = parser.parse_args()
    if arguments.reset and arguments.path is not None:
        shutil.rmtree(arguments.path, ignore_errors=True)
    warnings.simplefilter("ignore")
    fake = FakeQdrant(port=arguments.port, path=arguments.path).start()
    print(fake.port, flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        fake.stop()


if __name__ == "__main__":
    main()
