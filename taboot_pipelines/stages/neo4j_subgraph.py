"""neo4j_subgraph: the graph in Neo4j equals the snapshot; beside it stand the crawls (see ``crawl_graph``).

Two ledgers of ours (:class:`Ledger`) say by bucket what has been written; a run writes what differs and
asks the server for nothing else. Each write or deletion is marked in the ledgers before it is sent: a kill
leaves nothing unrecorded on the server, and what changes back meanwhile is written again. If the ledgers
cannot be trusted (they are gone, the server is another, or its watermark is not the one that was left there),
the server is asked.

Holds rules ``support``, ``watermark``, ``incremental-equals-scratch`` and ``kill-anywhere``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.graph import (
    DOCUMENT_COLUMNS,
    END_COLUMNS,
    ENTITY_COLUMNS,
    RELATION_COLUMNS,
    Assembly,
)
from taboot_pipelines.knowledge.names import NAMES_ORDER
from taboot_pipelines.model import ids
from taboot_pipelines.model.audit import Discrepancy, Kind
from taboot_pipelines.model.tables import DOCUMENTS, EDGES_SCHEMA, declare, rows_of
from taboot_pipelines.stages.crawl_graph import CrawlWriter
from taboot_pipelines.stages.housekeeping import STALE_FILES
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.snapshot import SnapshotReader, needed_snapshot, policies_of
from taboot_pipelines.stages.stage import ServerTarget
from taboot_pipelines.stages.workspace import Progress, Workspace
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.graph import open_graph
from taboot_pipelines.stores.graph.neo4j import Neo4jGraph
from taboot_pipelines.stores.graph.rows import LAYOUT, edge_fingerprints, node_fingerprints
from taboot_pipelines.stores.state import keys
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion

#: What the Neo4j stage has written, in the tables ``graph.nodes`` (id: the node's key, label) and
#: ``graph.edges`` (id: the edge_id, label: its type; bucketed by document). An empty fingerprint: perhaps
#: written, to be written again.
GRAPH_ROWS = declare(
    "graph",
    pa.schema(
        [
            pa.field("bucket", pa.int32(), False),
            pa.field("label", pa.string(), False),
            pa.field("id", pa.string(), False),
            pa.field("fingerprint", pa.string(), False),
        ]
    ),
    key="id",
)

#: (label or type, id) -> fingerprint; "" if it is unknown whether the row was written.
Rows = dict[tuple[str, str], str]
UNSURE = ""


class Ledger:
    """The table ``graph.nodes`` or ``graph.edges`` of a namespace.

    It follows the server and not the catalog's pointer: the entries of a killed run stay.
    """

    def __init__(self, workspace: Workspace, namespace: str, name: str, txn: str) -> None:
        self._tables, self._namespace, self._name, self._txn = workspace.tables, namespace, name, txn

    def version(self) -> TableVersion | None:
        return self._tables.version(self._namespace, NAMESPACE, self._name)

    def load(self, buckets: Collection[int] | None = None) -> dict[int, Rows]:
        table = self._tables.read(self._namespace, NAMESPACE, self._name, self.version(), buckets=buckets)
        found: dict[int, Rows] = {}
        for bucket, label, id_, fingerprint in zip(
            *(table.column(c).to_pylist() for c in GRAPH_ROWS.names), strict=True
        ):
            found.setdefault(bucket, {})[label, id_] = fingerprint
        return found

    def store(self, rows: Mapping[int, Rows]) -> None:
        """Replace these buckets."""
        if rows:
            self._replace(
                ((b, *key, f) for b in sorted(rows) for key, f in sorted(rows[b].items())), rows.keys()
            )

    def start_over(self, rows: Mapping[int, Rows]) -> None:
        """Replace the whole table."""
        self._replace(((b, *key, f) for b in sorted(rows) for key, f in sorted(rows[b].items())), None)

    def tidy(self) -> None:
        """Remove old files if there are many; nobody reads this table without the namespace's lease."""
        if self._tables.stale_files(self._namespace, NAMESPACE, self._name) >= STALE_FILES:
            self._tables.vacuum(self._namespace, NAMESPACE, self._name)

    def _replace(self, rows: Iterable[tuple[int, str, str, str]], buckets: Collection[int] | None) -> None:
        columns = list(zip(*rows, strict=True)) or [()] * len(GRAPH_ROWS)
        table = pa.table(
            {f.name: pa.array(c, f.type) for f, c in zip(GRAPH_ROWS, columns, strict=True)}, schema=GRAPH_ROWS
        )
        self._tables.replace(self._namespace, NAMESPACE, self._name, table, buckets=buckets, txn=self._txn)


STAGE = "neo4j_subgraph"
VERSION = "1"
CIRCUIT = keys.CIRCUIT("neo4j")
_NODES, _EDGES = "graph.nodes", "graph.edges"
#: Buckets read at once; bounds the edges in memory, and the number of times a table is opened.
_TOGETHER = 16

#: (label or type, id) -> (number of the row, fingerprint)
Numbered = dict[tuple[str, str], tuple[int, str]]


class _GraphWriter:
    """Writes the graph of one namespace, so that it equals the snapshot."""

    def __init__(
        self, workspace: Workspace, graph: Neo4jGraph, namespace: str, report: StageReport, progress: Progress
    ) -> None:
        self.workspace = workspace
        self.graph = graph
        self.namespace = namespace
        self.report = report
        self.progress = progress
        self.tables = workspace.tables
        self.snapshot = snapshot = needed_snapshot(workspace, namespace)
        settings = workspace.settings.neo4j
        self.batch = settings.batch_rows
        #: Identifies the database that the ledgers are about.
        self.place = ids.digest(settings.url, settings.database)
        self.policies = policies_of(workspace, namespace, snapshot)
        kept = ([self.policies.sources, self.policies.documents],) if self.policies else ()
        self.inputs = ids.digest(
            snapshot.tables, snapshot.applied, snapshot.inputs, self.place, VERSION, LAYOUT, *kept
        )
        report.data_version = self.inputs
        self.pointer = workspace.catalog.pointers.get(namespace, NAMESPACE, STAGE)
        self.ledgers = {name: Ledger(workspace, namespace, name, self.inputs) for name in (_NODES, _EDGES)}
        self.writing = False
        self.crawls = CrawlWriter(workspace, graph, namespace, self.place)

    def unchanged(self) -> bool:
        return self._is_of_snapshot() and self.crawls.unchanged()

    def _is_of_snapshot(self) -> bool:
        return self.pointer is not None and self.pointer.inputs == self.inputs and self._whole(self.pointer)

    # --- what should be there -------------------------------------------------------------------------------

    def _assembly(self) -> Assembly:
        reader = SnapshotReader(self.workspace, self.namespace, self.snapshot)
        parts, retention = [], dict[str, int]()
        for source, rows in reader.rows("documents", DOCUMENT_COLUMNS):
            parts.append(rows)
            retention |= self.policies.days((source, d) for (d,) in rows_of(rows, "doc_id"))
        documents = pa.concat_tables(
            [pa.schema([DOCUMENTS.field(c) for c in DOCUMENT_COLUMNS]).empty_table(), *parts]
        )
        assembly = Assembly(
            self.namespace,
            documents,
            self._read("entities", ENTITY_COLUMNS),
            self._read("names", None),
            self._read("decisions", None),
            retention,
        )
        for first in range(0, ids.BUCKETS, _TOGETHER):
            assembly.note(self._read("relations", END_COLUMNS, range(first, first + _TOGETHER)))
        return assembly

    def _nodes(self, assembly: Assembly) -> pa.Table:
        nodes = assembly.nodes()
        return nodes.append_column("fingerprint", node_fingerprints(nodes))

    def _edges(self, assembly: Assembly, buckets: Sequence[int]) -> pa.Table:
        """Return the edges of the documents of some buckets."""
        edges = assembly.edges(self._read("relations", RELATION_COLUMNS, buckets)).select(EDGES_SCHEMA.names)
        return edges.append_column("fingerprint", edge_fingerprints(edges))

    def _read(
        self, name: str, columns: Iterable[str] | None, buckets: Sequence[int] | None = None
    ) -> pa.Table:
        return self.tables.read(
            self.namespace,
            NAMESPACE,
            name,
            self.snapshot.tables[name],
            columns=None if columns is None else list(columns),
            buckets=buckets,
        )

    def _digests(self) -> dict[str, str]:
        """Return {bucket: digest of everything that its edges are made of}.

        The digest is "" if a document of the bucket is examined again at every run.
        """
        names = ids.digest(self._read("names", None).sort_by(NAMES_ORDER).to_pylist())
        decisions = self._read("decisions", None).drop_columns(["at"]).sort_by("number")
        # A field is no part of an edge.
        of_edges = decisions.filter(pc.not_equal(decisions.column("kind"), "field"))
        if of_edges.num_rows:
            names = ids.digest(names, of_edges.to_pylist())
        state = self._read(
            "doc_state", ["bucket", "doc_id", "document_fingerprint", "relations_fingerprint"]
        ).sort_by("doc_id")
        rows: dict[int, list[tuple[str, ...]]] = {b: [] for b in range(ids.BUCKETS)}
        for bucket, *row in rows_of(state):
            rows[bucket].append(tuple(row))
        return {
            str(b): "" if any(not r[1] for r in members) else ids.digest(names, members, LAYOUT)
            for b, members in rows.items()
        }

    # --- making it so ---------------------------------------------------------------------------------------

    def apply(self, *, ask: bool = False) -> None:
        """Write what differs from the snapshot, and from the crawls of the catalog.

        With ``ask`` the ledgers are not trusted, and the server is asked what it holds.
        """
        if ask or not self._is_of_snapshot():
            self._apply_snapshot(ask)
        if ask or not self.crawls.unchanged():
            self.crawls.apply(self.report, anew=ask)

    def _apply_snapshot(self, ask: bool) -> None:
        self.report.counts |= dict.fromkeys(
            ("nodes_written", "nodes_deleted", "edges_written", "edges_deleted"), 0
        )
        believed = not ask and self._believed()
        if not believed:
            # If the ledgers are trusted, the run that left them has seen to the schema; what has been removed
            # from it since is found by the audit.
            self._ensure_schema(ask)
            self._adopt()
        assembly, digests = self._assembly(), self._digests()
        gone = self._write_nodes(self._nodes(assembly))
        self._write_edges(assembly, digests, self._untouched(digests) if believed else frozenset())
        self._delete_nodes(gone)
        self.graph.set_watermark(self.namespace, self.snapshot.inputs)
        for ledger in self.ledgers.values():
            ledger.tidy()
        versions = {name: ledger.version() for name, ledger in self.ledgers.items()}
        applied = {"place": self.place, "snapshot": self.snapshot.inputs, "digests": digests}
        self.workspace.catalog.pointers.publish(
            self.namespace,
            NAMESPACE,
            Pointer(stage=STAGE, tables=versions, inputs=self.inputs, txn=self.inputs, applied=applied),
        )
        self.report.tables = versions

    def _ensure_schema(self, ask: bool) -> None:
        try:
            self.graph.ensure_schema()
        except TabootError as error:
            # Somebody removed a constraint and wrote duplicates since. All of the graph is derived, so
            # it is made again.
            if not ask or "ConstraintCreationFailed" not in str(error.details.get("reason")):
                raise
            self.graph.drop_namespace(self.namespace)
            self.graph.ensure_schema()

    def _whole(self, pointer: Pointer) -> bool:
        return self.tables.exist(self.namespace, NAMESPACE, pointer.tables) and set(pointer.tables) == set(
            self.ledgers
        )

    def _believed(self) -> bool:
        """Whether the server holds what the ledgers say: it carries the watermark that was left there."""
        if (
            self.pointer is None
            or self.pointer.applied["place"] != self.place
            or not self._whole(self.pointer)
        ):
            return False
        return self.graph.watermark(self.namespace) in {
            UNSURE,
            self.pointer.applied["snapshot"],
            self.snapshot.inputs,
        }

    def _untouched(self, digests: Mapping[str, str]) -> frozenset[int]:
        """Return the buckets whose edges are as the last run left them; none if a later run was killed."""
        if self.pointer is None or self.ledgers[_EDGES].version() != self.pointer.tables[_EDGES]:
            return frozenset()
        before = self.pointer.applied["digests"]
        return frozenset(int(b) for b, d in digests.items() if d and before.get(b) == d)

    def _adopt(self) -> None:
        """Make the ledgers say what the server holds."""
        nodes: dict[int, Rows] = {}
        for label, key, fingerprint in self.graph.node_fingerprints(self.namespace):
            nodes.setdefault(ids.bucket(key), {})[label, key] = fingerprint
        self.ledgers[_NODES].start_over(nodes)
        edges: dict[int, Rows] = {}
        for type_, edge_id, doc_id, fingerprint in self.graph.edge_fingerprints(self.namespace):
            edges.setdefault(_doc_bucket(doc_id), {})[type_, edge_id] = fingerprint
        self.ledgers[_EDGES].start_over(edges)

    def _begin(self) -> None:
        """Mark the graph as being of no snapshot before the first write; readers turn to the shards."""
        if not self.writing:
            self.graph.set_watermark(self.namespace, UNSURE)
            self.writing = True

    def _write_nodes(self, nodes: pa.Table) -> dict[int, list[tuple[str, str]]]:
        """Write the nodes that differ; return by bucket those to be deleted, once no edge holds them."""
        ledger, wanted = self.ledgers[_NODES], _by_bucket(_numbered(nodes, "label", "key"))
        state = ledger.load()
        changed = {
            b: [k for k, (_, f) in rows.items() if state.get(b, {}).get(k) != f] for b, rows in wanted.items()
        }
        gone = {b: [k for k in rows if k not in wanted.get(b, {})] for b, rows in state.items()}
        self.report.counts |= {"nodes": nodes.num_rows}
        for group in _groups(
            {b: len(changed.get(b, ())) + len(gone.get(b, ())) for b in sorted(changed.keys() | gone.keys())},
            self.batch,
        ):
            self._begin()
            for b in group:
                state.setdefault(b, {}).update(dict.fromkeys([*changed.get(b, ()), *gone.get(b, ())], UNSURE))
            ledger.store({b: state[b] for b in group})
            rows = [wanted[b][k] for b in group for k in changed.get(b, ())]
            if rows:
                self.report.add(
                    "nodes_written",
                    self.graph.write_nodes(self.namespace, nodes.take(pa.array([i for i, _ in rows]))),
                )
                for b in group:
                    state[b].update({k: wanted[b][k][1] for k in changed.get(b, ())})
                ledger.store({b: state[b] for b in group})
            self.progress(STAGE, self.report.counts["nodes_written"], nodes.num_rows)
        return {b: keys for b, keys in gone.items() if keys}

    def _write_edges(self, assembly: Assembly, digests: Mapping[str, str], untouched: frozenset[int]) -> None:
        """Write the edges that differ and delete the unwanted ones, some buckets at a time."""
        ledger = self.ledgers[_EDGES]
        sent: set[tuple[str, str]] = set()
        pending: list[_Bucket] = []
        todo = [b for b in range(ids.BUCKETS) if b not in untouched]
        for first in range(0, len(todo), _TOGETHER):
            buckets = todo[first : first + _TOGETHER]
            edges, before = self._edges(assembly, buckets), ledger.load(buckets)
            wanted = _edges_by_bucket(edges)
            for number, b in enumerate(buckets, first + 1):
                pending.append(_Bucket(b, edges, wanted.get(b, {}), before.get(b, {})))
                if number == len(todo) or sum(len(p.changed) + len(p.gone) for p in pending) >= self.batch:
                    self._send([p for p in pending if p.changed or p.gone], sent)
                    pending = []
                    self.progress(STAGE, number, len(todo))

    def _send(self, pending: list[_Bucket], sent: set[tuple[str, str]]) -> None:
        if not pending:
            return
        self._begin()
        ledger = self.ledgers[_EDGES]
        ledger.store({p.bucket: p.before | dict.fromkeys([*p.changed, *p.gone], UNSURE) for p in pending})
        rows = pa.concat_tables(
            [p.edges.take(pa.array([p.wanted[k][0] for k in p.changed], pa.int64())) for p in pending]
        )
        # The ledger's entry of an edge may stand in another bucket than the edge itself, if its document
        # was tampered with.
        gone = [k for p in pending for k in p.gone if k not in sent]
        self.report.add("edges_deleted", self.graph.delete_edges(self.namespace, gone))
        self.report.add("edges_written", self.graph.write_edges(self.namespace, rows))
        sent.update(k for p in pending for k in p.changed)
        ledger.store({p.bucket: {k: f for k, (_, f) in p.wanted.items()} for p in pending})

    def _delete_nodes(self, gone: Mapping[int, list[tuple[str, str]]]) -> None:
        if not gone:
            return
        keys = [k for members in gone.values() for k in members]
        held = set(self.graph.delete_nodes(self.namespace, keys))
        self.report.add("nodes_deleted", len(keys) - len(held))
        if held:
            self.report.problem(
                "E_NEO4J",
                "nodes",
                f"{len(held)} nodes are held by relationships that are not ours; they keep nothing but their"
                " key.",
            )
        ledger = self.ledgers[_NODES]
        state = ledger.load(gone)
        ledger.store(
            {
                b: {k: f for k, f in state.get(b, {}).items() if k not in members or k in held}
                for b, members in ((b, set(m)) for b, m in gone.items())
            }
        )

    # --- comparing ------------------------------------------------------------------------------------------

    def audit(self) -> Iterator[Discrepancy]:
        for rule in self.graph.missing_schema():
            yield _discrepancy(
                "missing",
                rule.name,
                f"The database lacks the {'constraint' if rule.unique else 'index'} {rule.name}.",
            )
        if self.graph.watermark(self.namespace) != self.snapshot.inputs:
            yield _discrepancy(
                "different", f"{self.namespace}/watermark", "The graph is not marked as that of the snapshot."
            )
        assembly = self._assembly()
        nodes = self._nodes(assembly)
        wanted = dict(
            zip(
                rows_of(nodes, "label", "key"),
                nodes.column("fingerprint").to_pylist(),
                strict=True,
            )
        )
        found = ((label, key, f) for label, key, f in self.graph.node_fingerprints(self.namespace))
        yield from _compare("node", wanted, found)
        wanted = {}
        for first in range(0, ids.BUCKETS, _TOGETHER):
            edges = self._edges(assembly, range(first, first + _TOGETHER))
            wanted |= zip(
                rows_of(edges, "type", "edge_id"),
                edges.column("fingerprint").to_pylist(),
                strict=True,
            )
        yield from _compare(
            "relationship", wanted, ((t, e, f) for t, e, _, f in self.graph.edge_fingerprints(self.namespace))
        )
        yield from self.crawls.audit()


def _edges_by_bucket(edges: pa.Table) -> dict[int, Numbered]:
    found: dict[int, Numbered] = {}
    columns = (edges.column(c).to_pylist() for c in ("doc_id", "type", "edge_id", "fingerprint"))
    for number, (doc_id, type_, edge_id, fingerprint) in enumerate(zip(*columns, strict=True)):
        found.setdefault(ids.doc_bucket(doc_id), {})[type_, edge_id] = (number, fingerprint)
    return found


class _Bucket:
    """What a bucket of edges should hold, and what it holds according to the ledger."""

    def __init__(self, bucket: int, edges: pa.Table, wanted: Numbered, before: Rows) -> None:
        self.bucket, self.wanted, self.before = bucket, wanted, before
        self.changed = [k for k, (_, f) in wanted.items() if before.get(k) != f]
        self.gone = [k for k in before if k not in wanted]
        self.edges = edges


def _numbered(table: pa.Table, label: str, key: str) -> Numbered:
    columns = (table.column(c).to_pylist() for c in (label, key, "fingerprint"))
    return {(x, k): (i, f) for i, (x, k, f) in enumerate(zip(*columns, strict=True))}


def _by_bucket(rows: Numbered) -> dict[int, Numbered]:
    """Return the nodes by the bucket of their key."""
    found: dict[int, Numbered] = {}
    for (label, key), row in rows.items():
        found.setdefault(ids.bucket(key), {})[label, key] = row
    return found


def _groups(sizes: Mapping[int, int], most: int) -> Iterator[list[int]]:
    """Group buckets while their sizes add up to at most ``most``; empty ones are left out."""
    group: list[int] = []
    load = 0
    for bucket, size in sizes.items():
        if size and group and load + size > most:
            yield group
            group, load = [], 0
        if size:
            group.append(bucket)
            load += size
    if group:
        yield group


def _doc_bucket(doc_id: str) -> int:
    try:
        return ids.doc_bucket(doc_id) % ids.BUCKETS
    except ValueError:
        return 0


def _compare(
    what: str, wanted: Mapping[tuple[str, str], str], found: Iterable[tuple[str, str, str]]
) -> Iterator[Discrepancy]:
    seen = set()
    for label, id_, fingerprint in found:
        item = f"{label} {id_}"
        if (label, id_) not in wanted or (label, id_) in seen:
            yield _discrepancy("surplus", item, f"The {what} is in Neo4j and not in the snapshot.")
        elif wanted[label, id_] != fingerprint:
            yield _discrepancy("different", item, f"The {what} in Neo4j is not that of the snapshot.")
        seen.add((label, id_))
    for label, id_ in sorted(wanted.keys() - seen):
        yield _discrepancy("missing", f"{label} {id_}", f"The {what} of the snapshot is not in Neo4j.")


def _discrepancy(kind: Kind, item: str, message: str) -> Discrepancy:
    return Discrepancy("neo4j", kind, item, message, repairable=True)


TARGET = ServerTarget(
    stage=STAGE,
    store="neo4j",
    part="graph",
    setting="TABOOT_NEO4J__URL",
    open=open_graph,
    code="E_NEO4J",
    circuit=CIRCUIT,
    writer=_GraphWriter,
)
