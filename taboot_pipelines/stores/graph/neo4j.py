"""The graph in Neo4j 5, community edition or better.

One database holds every namespace, told apart by the property ``namespace`` alone, which every statement here
is bound to (:mod:`taboot_pipelines.stores.graph.cypher`). Neo4j community has neither databases nor rights of
its own for each namespace: whoever has the password reads and writes all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson
import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import EDGES, NODES
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.model.tables import EDGES_SCHEMA, NODES_SCHEMA
from taboot_pipelines.settings import Neo4jSettings
from taboot_pipelines.stores.graph import cypher
from taboot_pipelines.stores.graph.crawls import CrawlNodes
from taboot_pipelines.stores.graph.cypher import RULES, Rule, Statement
from taboot_pipelines.stores.graph.rows import edge_rows, key_parts, node_rows

T = TypeVar("T")
K = TypeVar("K")

_SCHEMES = frozenset({"bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc"})
#: Relationships can be unique since this version.
_MIN_VERSION = (5, 7)
#: About how many bytes one transaction may write, however few rows that is.
_BATCH_BYTES = 16 * 1024 * 1024
#: A whole label or type is read in one go and may take longer than one write: so many time-outs.
_LONG_READ = 10
_READ_ROWS = 5_000


class Neo4jGraph:
    """The graphs of all namespaces in one database. Threads may share it.

    Every method raises ``E_NEO4J`` when the server does not do what it is asked within ``timeout_seconds``,
    retries of transient failures (deadlocks, a new leader, a server that starts again) included, and
    ``E_NAMESPACE`` for a namespace that is none.
    """

    def __init__(self, settings: Neo4jSettings) -> None:
        """Touches no network. Raises ``E_CONFIG`` for an unusable URL, ``E_EXTRA`` without the extra."""
        try:
            from neo4j import GraphDatabase
            from neo4j.exceptions import ConfigurationError
        except ImportError:
            raise TabootError(
                "E_EXTRA",
                "TABOOT_NEO4J__URL needs the extra neo4j.",
                remedy="pip install 'taboot-pipelines[neo4j]'",
            ) from None
        self._settings = settings
        self._address = _checked(settings.url or "")
        password = settings.password
        try:
            self._driver = GraphDatabase.driver(
                settings.url or "",
                auth=None if password is None else (settings.user, password.get_secret_value()),
                connection_timeout=min(10.0, settings.timeout_seconds),
                connection_acquisition_timeout=settings.timeout_seconds,
                max_transaction_retry_time=settings.timeout_seconds,
                notifications_min_severity="OFF",
                user_agent="taboot-pipelines",
                telemetry_disabled=True,
            )
        except (ConfigurationError, ValueError):
            raise TabootError(
                "E_CONFIG", "TABOOT_NEO4J__URL is not an address that Neo4j's driver accepts."
            ) from None
        # What one transaction wrote the next one sees, whichever member of a cluster answers.
        self._bookmarks = GraphDatabase.bookmark_manager()

    def close(self) -> None:
        self._driver.close()

    def health(self) -> Health:
        def ask() -> tuple[str | None, str]:
            # Asked once and not again: whoever asks wants to know how it is now.
            with self._typed(), self._session() as session:
                row = session.run(
                    "CALL dbms.components() YIELD name, versions, edition WHERE name = 'Neo4j Kernel' RETURN"
                    " versions[0] AS version, edition"
                ).single(strict=True)
            version = str(row["version"])
            number = tuple(int(p) for p in version.split(".")[:2] if p.isdigit())
            needed = ".".join(map(str, _MIN_VERSION))
            old = f"Neo4j {version} is too old; relationships can be unique since {needed}."
            return f"{version} {row['edition']}", "" if number >= _MIN_VERSION else old

        return probe("graph", "neo4j", ask)

    # --- schema ---------------------------------------------------------------------------------------------

    def ensure_schema(self) -> None:
        """Make the constraints and indexes that are missing, and wait until they hold.

        ``E_NEO4J`` names a rule of ours whose name someone else has given to something else.
        """
        missing = self.missing_schema()
        for rule in missing:
            self._rows(rule.create, write=True)
        if missing:
            self._rows(
                "CALL db.awaitIndexes($seconds)",
                write=False,
                seconds=max(1, int(self._settings.timeout_seconds)),
            )

    def missing_schema(self) -> list[Rule]:
        """The rules that the database does not have, under whatever name."""
        columns = "YIELD name, type, labelsOrTypes, properties"
        rows = self._rows(f"SHOW CONSTRAINTS {columns}", write=False) + self._rows(
            f"SHOW INDEXES {columns}, owningConstraint WHERE owningConstraint IS NULL", write=False
        )
        there = {
            r["name"]: (r["type"], tuple(r["labelsOrTypes"] or ()), tuple(r["properties"] or ()))
            for r in rows
        }
        same = {
            ("UNIQUENESS" in kind, *rest)
            for kind, *rest in there.values()
            if "UNIQUENESS" in kind or kind == "RANGE"
        }
        missing = [r for r in RULES if (r.unique, (r.label,), r.properties) not in same]
        for rule in missing:
            if rule.name in there:
                raise TabootError(
                    "E_NEO4J",
                    f"The database has another rule under the name {rule.name}.",
                    rule=rule.name,
                    remedy="Drop that constraint or index, or use a database of its own.",
                )
        return missing

    # --- writing --------------------------------------------------------------------------------------------

    def write_nodes(self, namespace: str, nodes: pa.Table) -> int:
        """Make nodes equal to rows of ``NODES_SCHEMA`` with a column ``fingerprint``; how many there were."""
        return self._write(namespace, node_rows(_sorted(nodes, ("label", "key"))), cypher.merge_nodes)

    def write_edges(self, namespace: str, edges: pa.Table) -> int:
        """Make relationships equal to rows of ``EDGES_SCHEMA`` with a column ``fingerprint``, between nodes
        that are there; ``E_NEO4J`` if an end is not.

        They are written in the order of their ends, so that writers wait for each other in one order.
        """
        done = self._write(
            namespace,
            edge_rows(_sorted(edges, ("type", "start_label", "end_label", "start_key", "end_key"))),
            lambda key: cypher.merge_edges(*key),
        )
        if done != edges.num_rows:
            raise TabootError(
                "E_NEO4J",
                f"{edges.num_rows - done} relationships have an end that is not in the graph.",
                remedy="Run `taboot audit --repair`.",
                missing=edges.num_rows - done,
            )
        return done

    def delete_edges(self, namespace: str, edges: Iterable[tuple[str, str]]) -> int:
        """Delete relationships (type, edge id) of the namespace; how many there were."""
        return self._write(namespace, ((t, e, len(e)) for t, e in sorted(edges)), cypher.delete_edges)

    def delete_nodes(self, namespace: str, nodes: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
        """Delete nodes (label, key) that no relationship holds. Return those that relationships of others
        still hold: they stay, with nothing but their key.
        """
        held = []
        for label in sorted({label for label, _ in nodes}):
            keys = sorted(k for x, k in nodes if x == label)
            parts = [key_parts(label, k) for k in keys]
            if self._write(namespace, ((label, p, 100) for p in parts), cypher.delete_nodes) == len(parts):
                continue
            left = {tuple(r["parts"]) for r in self._stream(namespace, cypher.node_fingerprints(label))}
            stay = [(k, p) for k, p in zip(keys, parts, strict=True) if tuple(p) in left]
            self._write(namespace, ((label, p, 100) for _, p in stay), cypher.strip_nodes)
            held += [(label, k) for k, _ in stay]
        return held

    def drop_namespace(self, namespace: str) -> None:
        """Delete everything of ours in the namespace, in transactions of ``batch_rows``. What relationships
        of others hold keeps nothing but its key.
        """
        # First: what is left must not pass for the whole graph, neither to readers nor after a kill.
        self._run(namespace, cypher.drop_watermark(), write=True)
        for type_ in EDGES:
            for start in cypher.started_by(type_):
                self._repeat(namespace, cypher.drop_edges(type_, start))
        for label in NODES:
            self._repeat(namespace, cypher.drop_nodes(label))
            self._repeat(namespace, cypher.drop_held_nodes(label))
        self.crawls.drop_all(namespace)

    # --- reading --------------------------------------------------------------------------------------------

    def nodes(self, namespace: str) -> Iterator[pa.Table]:
        """The namespace's nodes in parts of ``NODES_SCHEMA``, in no order, equal to those of the knowledge
        base that they were made from.
        """
        for label in NODES:
            for part in self._parts(namespace, cypher.read_nodes(label)):
                yield _table(
                    [
                        {
                            **r,
                            "label": label,
                            "scope": orjson.loads(r["key"])[0] if label == "Service" else None,
                            "doc_ids": sorted(
                                {*r["doc_ids"], r["key"]} if label == "Document" else r["doc_ids"]
                            ),
                        }
                        for r in part
                        if r["key"] is not None
                    ],
                    NODES_SCHEMA,
                )

    def edges(self, namespace: str) -> Iterator[pa.Table]:
        """The namespace's relationships in parts of ``EDGES_SCHEMA``, in no order."""
        urls = {
            r["doc_id"]: orjson.loads(r["properties"] or "{}").get("url")
            for r in self._stream(namespace, cypher.document_urls())
        }
        for type_ in EDGES:
            for start in cypher.started_by(type_):
                for part in self._parts(namespace, cypher.read_edges(type_, start)):
                    yield _table(
                        [
                            {
                                **r,
                                "type": type_,
                                "start_label": start,
                                "end_label": next((x for x in r["end_labels"] if x in NODES), None),
                                "url": urls.get(r["doc_id"]),
                            }
                            for r in part
                        ],
                        EDGES_SCHEMA,
                    )

    def node_fingerprints(self, namespace: str) -> Iterator[tuple[str, str, str]]:
        """(label, key, fingerprint) of every node; without a fingerprint where it is not as we wrote it."""
        for label in NODES:
            for r in self._stream(namespace, cypher.node_fingerprints(label)):
                key, parts = r["id"], r["parts"]
                if key and _parts_of(label, key) == parts:
                    yield label, key, r["fingerprint"]
                elif all(isinstance(p, str | int) for p in parts):  # a key of other values is none of ours
                    yield label, ids.node_key(parts), ""

    def edge_fingerprints(self, namespace: str) -> Iterator[tuple[str, str, str, str]]:
        """(type, edge id, document id, fingerprint) of every relationship."""
        for type_ in EDGES:
            for start in cypher.started_by(type_):
                for r in self._stream(namespace, cypher.edge_fingerprints(type_, start)):
                    yield type_, r["id"], r["doc_id"], r["fingerprint"]

    def neighbourhood(
        self,
        namespace: str,
        start: Sequence[tuple[str, str]],
        hops: int,
        types: Collection[str] | None,
        limit: int,
        snapshot: str | None = None,
    ) -> list[tuple[str, int]] | None:
        """(edge id, hop) of the ``limit`` nearest edges within ``hops`` (1 or 2) of nodes (label, key).

        The nearest come first, then other relations before MENTIONS, then by confidence and id. With a
        ``snapshot``: None unless the graph equals it from the first to the last read.
        """
        around = cypher.edges_around(None if types is None else frozenset(types))
        groups = [
            (cypher.start_nodes(x), [key_parts(x, k) for y, k in start if y == x])
            for x in sorted({x for x, _ in start})
        ]

        def equal(tx: Any) -> bool:
            row = tx.run(cypher.watermark().text, namespace=namespace).single()
            return snapshot is None or (row is not None and row["snapshot"] == snapshot)

        def walk(tx: Any) -> list[tuple[str, int]] | None:
            if not equal(tx):
                return None
            reached = [r["id"] for s, rows in groups for r in tx.run(s.text, namespace=namespace, rows=rows)]
            found: dict[str, int] = {}
            for hop in range(1, hops + 1):
                # Those found before are among those around what was reached.
                rows = list(tx.run(around.text, namespace=namespace, ids=reached, limit=limit + len(found)))
                found |= {r["edge"]: hop for r in rows if r["edge"] not in found}
                if len(found) >= limit:
                    break
                reached = sorted({e for r in rows for e in r["ends"]} | set(reached))
            return list(found.items())[:limit] if equal(tx) else None

        ids.check_namespace(namespace)
        # Not tried again: a reader has the shards to turn to.
        with (
            self._typed(),
            self._session(default_access_mode="READ") as session,
            session.begin_transaction(timeout=self._settings.timeout_seconds) as tx,
        ):
            return walk(tx)

    # --- crawls ---------------------------------------------------------------------------------------------

    @property
    def crawls(self) -> CrawlNodes:
        """The crawls beside the graph, which nothing else here reads or writes."""
        return CrawlNodes(self._run, self._stream, self._write, self._repeat)

    # --- which snapshot it equals ---------------------------------------------------------------------------

    def watermark(self, namespace: str) -> str | None:
        """The snapshot that the namespace's graph equals: "" while it is being changed, None if nobody has
        written it.
        """
        rows = self._run(namespace, cypher.watermark(), write=False)
        return str(rows[0]["snapshot"]) if rows else None

    def set_watermark(self, namespace: str, snapshot: str) -> None:
        self._run(namespace, cypher.set_watermark(), write=True, snapshot=snapshot)

    # --- transactions ---------------------------------------------------------------------------------------

    def _write(
        self, namespace: str, rows: Iterable[tuple[K, Any, int]], statement: Callable[[K], Statement]
    ) -> int:
        """Run the statement of each kind over its rows, in batches; rows of a kind come together."""
        return sum(
            int(self._run(namespace, statement(kind), write=True, rows=part)[0]["done"])
            for kind, part in _batches(rows, self._settings.batch_rows)
        )

    def _repeat(self, namespace: str, statement: Statement, **parameters: Any) -> None:
        """Run a statement that deletes at most ``$limit`` rows until it finds none."""
        limit = self._settings.batch_rows
        while self._run(namespace, statement, write=True, limit=limit, **parameters)[0]["done"]:
            pass

    def _run(self, namespace: str, statement: Statement, *, write: bool, **parameters: Any) -> list[Any]:
        ids.check_namespace(namespace)
        return self._rows(statement.text, write=write, namespace=namespace, **parameters)

    def _rows(self, text: str, *, write: bool, **parameters: Any) -> list[Any]:
        return self._transaction(lambda tx: list(tx.run(text, parameters)), write=write)

    def _transaction(self, work: Callable[[Any], T], *, write: bool) -> T:
        from neo4j import unit_of_work

        timed = unit_of_work(timeout=self._settings.timeout_seconds)(work)
        with self._typed(), self._session() as session:
            result: T = (session.execute_write if write else session.execute_read)(timed)
            return result

    def _stream(self, namespace: str, statement: Statement, **parameters: Any) -> Iterator[Mapping[str, Any]]:
        """Rows as the server finds them: neither side holds them all."""
        from neo4j import Query

        ids.check_namespace(namespace)
        with self._typed(), self._session(fetch_size=_READ_ROWS, default_access_mode="READ") as session:
            # The text is one of our own statements, not a literal.
            query = Query(statement.text, timeout=_LONG_READ * self._settings.timeout_seconds)
            yield from session.run(query, namespace=namespace, **parameters)

    def _parts(self, namespace: str, statement: Statement) -> Iterator[list[dict[str, Any]]]:
        part: list[dict[str, Any]] = []
        for row in self._stream(namespace, statement):
            part.append(dict(row))
            if len(part) == _READ_ROWS:
                yield part
                part = []
        if part:
            yield part

    def _session(self, **options: Any) -> Any:
        return self._driver.session(
            database=self._settings.database, bookmark_manager=self._bookmarks, **options
        )

    @contextlib.contextmanager
    def _typed(self) -> Iterator[None]:
        """Raise what the driver raises as ``E_NEO4J`` in our words: the server's may quote values."""
        from neo4j.exceptions import AuthError, DriverError, Forbidden, Neo4jError

        settings = self._settings
        try:
            yield
        except (AuthError, Forbidden) as error:
            raise TabootError(
                "E_NEO4J",
                f"Neo4j at {self._address} does not let the user {settings.user!r} in, or do this.",
                remedy="Check TABOOT_NEO4J__USER and TABOOT_NEO4J__PASSWORD.",
                reason=error.code,
            ) from None
        except Neo4jError as error:
            code = str(error.code)
            if code.endswith("DatabaseNotFound"):
                raise TabootError(
                    "E_NEO4J",
                    f"Neo4j at {self._address} has no database {settings.database!r}.",
                    remedy="Correct TABOOT_NEO4J__DATABASE.",
                ) from None
            if "TransactionTimedOut" in code:
                raise TabootError(
                    "E_NEO4J",
                    f"A transaction did not end within {settings.timeout_seconds:g} s.",
                    remedy="Raise TABOOT_NEO4J__TIMEOUT_SECONDS or lower TABOOT_NEO4J__BATCH_ROWS.",
                ) from None
            raise TabootError(
                "E_NEO4J", f"Neo4j at {self._address} refused a statement ({code}).", reason=code
            ) from None
        except (DriverError, OSError) as error:
            raise TabootError(
                "E_NEO4J", f"Neo4j at {self._address} does not answer.", reason=type(error).__name__
            ) from None
        except (UnicodeError, OverflowError):
            raise TabootError("E_NEO4J", "A value is one that Neo4j cannot hold.") from None


def _checked(url: str) -> str:
    """The address as people are shown it. Raises ``E_CONFIG`` for a URL that cannot be used or holds a
    secret.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise TabootError("E_CONFIG", "TABOOT_NEO4J__URL is not a URL.") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise TabootError(
            "E_CONFIG", "TABOOT_NEO4J__URL must be such as neo4j://host:7687 or bolt://host:7687."
        )
    if parts.username is not None or parts.password is not None:
        raise TabootError(
            "E_CONFIG",
            "TABOOT_NEO4J__URL must not hold a user or password.",
            remedy="Set TABOOT_NEO4J__USER and TABOOT_NEO4J__PASSWORD.",
        )
    return f"{parts.scheme}://{parts.hostname}{port}"


def _batches(rows: Iterable[tuple[K, Any, int]], max_rows: int) -> Iterator[tuple[K, list[Any]]]:
    """Batches of neighbours of one kind: at most ``max_rows`` rows, and about :data:`_BATCH_BYTES`."""
    kind: K | None = None
    part: list[Any] = []
    size = 0
    for next_kind, row, weight in rows:
        if part and (next_kind != kind or len(part) == max_rows or size + weight > _BATCH_BYTES):
            assert kind is not None
            yield kind, part
            part, size = [], 0
        kind = next_kind
        part.append(row)
        size += weight
    if part and kind is not None:
        yield kind, part


def _sorted(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    return table.sort_by([(c, "ascending") for c in columns])


def _parts_of(label: str, key: str) -> list[Any] | None:
    try:
        return key_parts(label, key)
    except TabootError:
        return None


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows whose times are microseconds, as the statements return them."""
    raw = pa.schema([(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema])
    try:
        return pa.Table.from_pylist(rows, schema=raw).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise TabootError(
            "E_NEO4J",
            "The graph holds values that we have not written.",
            remedy="Run `taboot audit --repair`.",
        ) from None
