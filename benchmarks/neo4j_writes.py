"""Edges into Neo4j against a hand-written UNWIND script: ``python benchmarks/neo4j_writes.py [EDGES]``.

Writes the same edges (default 30,000 between 6,000 nodes, with all their properties) with each, in turn, into
a namespace that then goes again, and prints edges a minute (the best of three), the ratio, and what other
batch sizes reach. The script's rows are made before its clock starts; ours start from the Arrow table. Uses
TABOOT_TEST_NEO4J_URL, or starts a server by ``deploy/local/services.py`` in a folder that is removed at the
end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import neo4j
import pyarrow as pa

from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import EDGES_SCHEMA, NODES_SCHEMA
from taboot_pipelines.settings import Neo4jSettings
from taboot_pipelines.stores.graph.neo4j import Neo4jGraph
from taboot_pipelines.stores.graph.rows import edge_fingerprints, node_fingerprints

SERVICES = Path(__file__).parents[1] / "deploy" / "local" / "services.py"
SINCE = datetime(2024, 1, 1, tzinfo=UTC)
SCRIPT = """
UNWIND $rows AS row
MATCH (a:Service {namespace: $namespace, scope: row.scope, name: row.name})
MATCH (b:Host {namespace: $namespace, hostname: row.host})
MERGE (a)-[r:BINDS {edgeId: row.id}]->(b)
SET r = row.props
"""


def made(count: int) -> tuple[pa.Table, pa.Table]:
    """Nodes and edges as the stage hands them over."""
    chosen = random.Random(1)
    services, hosts, documents = 4000, 2000, 1000
    nodes = [
        {
            "label": "Service",
            "key": ids.node_key((f"host/p{i % 97}", f"s{i}")),
            "name": f"s{i}",
            "scope": f"host/p{i % 97}",
        }
        for i in range(services)
    ]
    nodes += [{"label": "Host", "key": f"h{i}.lan", "name": f"h{i}.lan", "scope": None} for i in range(hosts)]
    nodes = [{**n, "properties": "{}", "doc_ids": [], "first_seen": SINCE, "last_seen": SINCE} for n in nodes]
    edges = []
    for i in range(count):
        s, h, port = chosen.randrange(services), chosen.randrange(hosts), chosen.randrange(1, 65536)
        start, end, doc = (
            ids.node_key((f"host/p{s % 97}", f"s{s}")),
            f"h{h}.lan",
            f"d{chosen.randrange(documents)}",
        )
        blob = hashlib.sha256(doc.encode()).hexdigest()
        edges.append(
            {
                "edge_id": ids.edge_id("bench", "BINDS", "Service", start, "Host", end, str(i), doc),
                "type": "BINDS",
                "start_label": "Service",
                "start_key": start,
                "start_name": f"s{s}",
                "end_label": "Host",
                "end_key": end,
                "end_name": end,
                "properties": json.dumps({"port": port, "protocol": "tcp"}),
                "doc_id": doc,
                "url": doc,
                "confidence": 1.0,
                "source": "structured",
                "extraction_method": "compose_ports",
                "since": SINCE,
                "run_id": blob,
                "blob_sha256": blob,
                "byte_start": i,
                "byte_end": i + 20,
                "line": 7,
                "start_basis": "derived",
                "end_basis": "source",
                "supports": json.dumps(
                    [
                        {
                            "run": blob,
                            "blob": blob,
                            "start": i,
                            "end": i + 20,
                            "line": 7,
                            "span": [i, i + 20],
                            "method": "compose_ports",
                        }
                    ]
                ),
            }
        )
    node_table, edge_table = (
        pa.Table.from_pylist(nodes, schema=NODES_SCHEMA),
        pa.Table.from_pylist(edges, schema=EDGES_SCHEMA),
    )
    return node_table.append_column("fingerprint", node_fingerprints(node_table)), edge_table.append_column(
        "fingerprint", edge_fingerprints(edge_table)
    )


def script_rows(edges: pa.Table) -> list[dict[str, Any]]:
    rows = []
    for e in edges.to_pylist():
        scope, name = json.loads(e["start_key"])
        rows.append(
            {
                "scope": scope,
                "name": name,
                "host": e["end_key"],
                "id": e["edge_id"],
                "props": {
                    **json.loads(e["properties"]),
                    "edgeId": e["edge_id"],
                    "namespace": "bench",
                    "docId": e["doc_id"],
                    "confidence": e["confidence"],
                    "source": e["source"],
                    "extractionMethod": e["extraction_method"],
                    "since": e["since"],
                    "runId": e["run_id"],
                    "blobSha256": e["blob_sha256"],
                    "byteStart": e["byte_start"],
                    "byteEnd": e["byte_end"],
                    "line": e["line"],
                    "startBasis": e["start_basis"],
                    "endBasis": e["end_basis"],
                    "supports": e["supports"],
                    "startName": e["start_name"],
                    "endName": e["end_name"],
                    "properties": e["properties"],
                    "fingerprint": e["fingerprint"],
                },
            }
        )
    return rows


@contextlib.contextmanager
def server() -> Iterator[str]:
    named = os.environ.get("TABOOT_TEST_NEO4J_URL")
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = subprocess.run(
                [sys.executable, str(SERVICES), "up", folder, "--only", "neo4j", "--json"],
                check=True,
                stdout=subprocess.PIPE,
            )
            yield json.loads(told.stdout)["services"]["neo4j"]["url"]
        finally:
            subprocess.run(
                [sys.executable, str(SERVICES), "down", folder, "--delete"],
                check=True,
                stdout=subprocess.DEVNULL,
            )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    nodes, edges = made(count)
    rows = script_rows(edges)
    with server() as url:
        driver = neo4j.GraphDatabase.driver(url, auth=None)

        def graph(batch: int) -> Neo4jGraph:
            return Neo4jGraph(Neo4jSettings(url=url, batch_rows=batch))

        def script(batch: int) -> None:
            with driver.session() as session:
                for i in range(0, len(rows), batch):
                    session.execute_write(
                        lambda tx, part=rows[i : i + batch]: tx.run(
                            SCRIPT, rows=part, namespace="bench"
                        ).consume()
                    )

        def timed(work: Callable[[int], Any], batch: int) -> float:
            """Edges a minute into a namespace that holds the nodes only."""
            own = graph(10_000)
            own.drop_namespace("bench")
            own.write_nodes("bench", nodes)
            start = time.perf_counter()
            work(batch)
            seconds = time.perf_counter() - start
            own.close()
            return count / seconds * 60

        def ours(batch: int) -> None:
            own = graph(batch)
            own.write_edges("bench", edges)
            own.close()

        setup = graph(10_000)
        setup.ensure_schema()
        timed(script, 10_000)  # the server's own warming up
        timed(ours, 10_000)
        speeds: dict[tuple[str, int], float] = {}
        for batch in (10_000, 2_000, 5_000, 20_000):
            for _ in range(3 if batch == 10_000 else 2):
                for name, work in (("script", script), ("ours", ours)):
                    speeds[name, batch] = max(speeds.get((name, batch), 0.0), timed(work, batch))
        print("rows a batch    script, edges/min    ours, edges/min")
        for batch in (2_000, 5_000, 10_000, 20_000):
            print(f"{batch:>12,}{speeds['script', batch]:>21,.0f}{speeds['ours', batch]:>19,.0f}")
        print(f"ours / script at 10,000 rows: {speeds['ours', 10_000] / speeds['script', 10_000]:.2f}")
        setup.drop_namespace("bench")
        setup.close()
        driver.close()


if __name__ == "__main__":
    main()
