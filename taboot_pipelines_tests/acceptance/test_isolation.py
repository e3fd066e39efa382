"""Thousands of attempts to reach one namespace from another, through everything that takes a namespace: none
succeeds. ``TABOOT_TEST_ATTEMPTS`` makes that many, as ``make soak`` does.

Catalog (PostgreSQL, as the application's role), Qdrant (its fake), Neo4j and ``KnowledgeBase``. ``red`` holds
what ``blue`` holds, but for words of their own; each attempt uses red's namespace with blue's ids, keys,
names, sources and words.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.catalog import schema
from taboot_pipelines.stores.graph.rows import edge_fingerprints
from taboot_pipelines.stores.vectors.filters import Where
from taboot_pipelines.stores.vectors.points import point_key
from taboot_pipelines_tests.acceptance.full_servers import settings_of
from taboot_pipelines_tests.fakes.qdrant import FakeQdrant
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.stores.roles import with_roles
from taboot_pipelines_tests.world import World, graph, logical

ATTEMPTS = int(os.environ.get("TABOOT_TEST_ATTEMPTS", "2000"))
#: How many of ten attempts are made through what.
SHARES = {"catalog": 4.0, "sql": 2.0, "qdrant": 1.5, "neo4j": 1.0, "knowledge base": 1.5}
#: E_NEO4J: red has no such node for the relationship's end.
REFUSALS = {"E_NOT_FOUND", "E_EDGE_UNKNOWN", "E_NAMESPACE", "E_QUERY", "E_CATALOG", "E_NEO4J"}


class Blue:
    """What an attacker in red knows of blue: everything."""

    def __init__(self, world: World) -> None:
        kb, w = world.kb("blue"), world.workspace
        self.doc_ids = kb.documents().column("doc_id").to_pylist()
        edges, nodes = kb.edges(), kb.nodes()
        self.edges = edges
        self.edge_ids = list(
            zip(edges.column("type").to_pylist(), edges.column("edge_id").to_pylist(), strict=True)
        )
        self.keys = list(zip(nodes.column("label").to_pylist(), nodes.column("key").to_pylist(), strict=True))
        self.names = [n for n in nodes.column("name").to_pylist() if "blue" in n]
        self.paths = list(w.catalog.locators.of_source("blue", "blue-notes"))
        self.hashes = sorted(w.catalog.blobs.hashes("blue") - w.catalog.blobs.hashes("red"))
        assert w.points is not None
        self.space = w.embedder.space.id
        self.points = [i for i, _ in w.points.scan("blue", self.space, "")]
        assert (
            min(
                len(x)
                for x in (
                    self.doc_ids,
                    self.edge_ids,
                    self.keys,
                    self.names,
                    self.paths,
                    self.hashes,
                    self.points,
                )
            )
            > 3
        )


@pytest.fixture
def world(tmp_path: Path, tei: FakeTei, postgres: Any, redis_url: str, neo4j_url: str) -> Any:
    with FakeQdrant() as qdrant:
        roles = with_roles(postgres, "isolation")
        made = World(
            tmp_path,
            tei.url,
            catalog_admin_url=roles.owner,
            **settings_of(
                catalog_url=roles.app, redis_url=redis_url, qdrant_url=qdrant.url, neo4j_url=neo4j_url
            ),
        )
        for color in ("red", "blue"):
            notes = made.source(f"{color}-notes", namespace=color, tags=[color])
            for i in range(8):
                (notes / f"{color}-{i}.md").write_text(
                    f"# {color} {i}\n\nThe {color}-word host{i}.{color}.lan is at"
                    f" 10.{i}.0.{1 if color == 'red' else 2}:8080.\n"
                )
                (notes / f"same-{i}.md").write_text(f"# Same {i}\n\nBoth have this: 10.9.9.{i}.\n")
            stack = made.source(f"{color}-stack", "compose", namespace=color, host=f"{color}.lan")
            (stack / "compose.yaml").write_text(
                f"services:\n  {color}-web:\n    image: nginx\n    depends_on: [{color}-db]\n  {color}-db:\n "
                "   image: postgres\n"
            )
        made.ingest()
        yield made
        made.workspace.close()


def test_no_attempt_reaches_anything(world: World) -> None:
    blue, rng = Blue(world), random.Random(17)
    before = state(world)
    assert "blue" in str(before["documents"]) and before["points"]
    done: Counter[str] = Counter()
    for surface, calls in {
        "catalog": catalog_calls(world, blue, rng),
        "sql": sql_calls(world, rng),
        "qdrant": qdrant_calls(world, blue, rng),
        "neo4j": neo4j_calls(world, blue, rng),
        "knowledge base": kb_calls(world, blue, rng),
    }.items():
        while done[surface] < ATTEMPTS * SHARES[surface] / 10:
            name, attempt = rng.choice(calls)
            try:
                seen = repr(attempt())
            except TabootError as error:
                assert error.code in REFUSALS and (error.code != "E_NEO4J" or name == "write_edges"), (
                    surface,
                    name,
                    error,
                )
                seen = ""
            assert "blue" not in seen, f"{surface}.{name} saw what is blue's: {seen[:300]}"
            done[surface] += 1
    assert done.total() >= ATTEMPTS
    assert state(world) == before


def state(world: World) -> dict[str, Any]:
    """All of blue, wherever it is."""
    w = world.workspace
    assert w.points is not None and w.graph is not None
    space = w.embedder.space.id
    found: dict[str, Any] = {**logical(w, "blue"), **graph(world.kb("blue"))}
    found["points"] = sorted(w.points.scan("blue", space, ""))
    found["in neo4j"] = [
        sorted(str(r) for t in tables for r in t.to_pylist())
        for tables in (w.graph.nodes("blue"), w.graph.edges("blue"))
    ]
    found["watermarks"] = (w.graph.watermark("blue"), w.points.watermark("blue", space))
    with w.catalog.database.read(None) as c:
        found["catalog"] = {
            n: sorted(map(str, c.execute(sa.select(t).where(t.c.namespace == "blue")).all()))
            for n, t in schema.metadata.tables.items()
        }
    return found


Calls = list[tuple[str, Callable[[], object]]]


def catalog_calls(world: World, blue: Blue, rng: random.Random) -> Calls:
    c = world.workspace.catalog
    return [
        (
            "locators",
            lambda: c.locators.of_source("red", rng.choice(["blue-notes", "blue-stack"]), state=None),
        ),
        ("locators_of", lambda: c.locators.of_documents("red", rng.sample(blue.doc_ids, 2))),
        ("jobs", lambda: c.jobs.find("red", "blue-notes")),
        ("sources", lambda: c.sources.find("red")),
        (
            "pointer",
            lambda: c.pointers.get(
                "red", rng.choice(["blue-notes", "blue-stack"]), rng.choice(["documents", "chunks"])
            ),
        ),
        ("drop_pointers", lambda: c.pointers.drop("red", "blue-notes")),
        ("runs", lambda: c.runs.find("red")),
        ("unit_states", lambda: c.runs.unit_states("red", "blue-stack", "tier_a")),
        ("dead_letters", lambda: c.dead_letters.find("red", "blue-notes")),
        (
            "record_dead",
            lambda: c.dead_letters.record("red", "blue-notes", "documents", [], rng.sample(blue.paths, 1)),
        ),
        ("hashes_only_of", lambda: c.locators.hashes_only_of("red", rng.sample(blue.doc_ids, 1))),
        ("blob_hashes", lambda: set(blue.hashes) & c.blobs.hashes("red")),
        ("tombstones", lambda: c.tombstones.all("red")),
        ("remove_tombstones", lambda: c.tombstones.remove("red", rng.sample(blue.doc_ids, 1))),
        ("restore_locators", lambda: c.locators.restore("red", rng.sample(blue.doc_ids, 1))),
        ("forget", lambda: c.forget("red", rng.sample(blue.doc_ids, 1), rng.sample(blue.hashes, 1))),
        ("activate", lambda: c.locators.activate("red", "blue-notes")),
        ("set_source_state", lambda: c.sources.set_state("red", "blue-notes", "retired")),
        ("upload_done", lambda: c.uploads.mark_done("red", rng.choice(blue.hashes))),
        ("audit_events", lambda: c.audit_log.all("red")),
        ("policies", lambda: c.retention.all("red")),
        ("keep_documents", lambda: c.retention.keep("red", rng.sample(blue.doc_ids, 1), 1)),
        ("kept_documents", lambda: c.locators.kept_for("red", ["blue-notes"], rng.sample(blue.doc_ids, 1))),
    ]


def sql_calls(world: World, rng: random.Random) -> Calls:
    """Statements that forget the namespace, on the connection of a transaction of red's."""
    tables = list(schema.metadata.tables.values())

    def run(make: Callable[[sa.Table], Any], *, rows: bool) -> object:
        with world.workspace.catalog.database.begin("red") as c:
            done = c.execute(make(rng.choice(tables)))
            if rows:
                return [r for r in done.all() if r._mapping["namespace"] != "red" and "blue"]
            assert done.rowcount == 0
            return ""

    def others(t: sa.Table) -> Any:
        return t.c.namespace != "red"

    return [
        ("select", lambda: run(lambda t: sa.select(t), rows=True)),
        ("select where", lambda: run(lambda t: sa.select(t).where(t.c.namespace == "blue"), rows=True)),
        ("delete", lambda: run(lambda t: sa.delete(t).where(others(t)), rows=False)),
        ("update", lambda: run(lambda t: sa.update(t).where(others(t)).values(namespace="red"), rows=False)),
    ]


def qdrant_calls(world: World, blue: Blue, rng: random.Random) -> Calls:
    p = world.workspace.points
    assert p is not None
    dimension = world.workspace.embedder.space.dimension

    def found(hits: list[tuple[bytes, float]]) -> object:
        texts = {s for source in ("red-notes", "red-stack") for s in hashes(world, "red", source)}
        mine = {point_key("red", s) for s in texts}
        return ["blue" for key, _ in hits if key not in mine]

    def vector() -> Any:
        return np.random.default_rng(rng.randrange(1 << 30)).standard_normal(dimension).astype(np.float32)

    where = [
        Where("red", sources=frozenset(["blue-notes"])),
        Where("red", tags=frozenset(["blue"])),
        Where("blue"),
        Where("blue", tags=frozenset(["blue"])),
        None,
    ]
    space = blue.space
    return [
        ("nearest", lambda: found(p.nearest("red", space, vector(), 50, rng.choice(where)))),
        (
            "matching",
            lambda: found(
                p.matching(
                    "red",
                    space,
                    (np.arange(50, dtype=np.uint32), np.ones(50, np.float32)),
                    50,
                    rng.choice(where),
                )
            ),
        ),
        ("delete", lambda: p.delete("red", space, rng.sample(blue.points, 3))),
        ("scan", lambda: [i for i, _ in p.scan("red", space, "") if i in blue.points and "blue"]),
        ("watermark", lambda: p.watermark("red", space)),
        (
            "bad namespace",
            lambda: p.delete(rng.choice(["", "*", "red' or 'blue", "BLUE", "red\nblue"]), space, blue.points),
        ),
    ]


def neo4j_calls(world: World, blue: Blue, rng: random.Random) -> Calls:
    g = world.workspace.graph
    assert g is not None

    def edges() -> pa.Table:
        part = blue.edges.take(pa.array(rng.sample(range(blue.edges.num_rows), 2)))
        return part.append_column("fingerprint", edge_fingerprints(part))

    return [
        ("delete_edges", lambda: g.delete_edges("red", rng.sample(blue.edge_ids, 3))),
        ("delete_nodes", lambda: g.delete_nodes("red", rng.sample(blue.keys, 3)) and ""),
        (
            "neighbourhood",
            lambda: [
                e
                for e, _ in g.neighbourhood("red", rng.sample(blue.keys, 3), 2, None, 100) or []
                if e in dict(map(reversed, blue.edge_ids)) and "blue"
            ],
        ),
        (
            "nodes",
            lambda: sum(t.num_rows for t in g.nodes("red") if "blue" in str(t.column("name").to_pylist())),
        ),
        ("watermark", lambda: g.watermark("red")),
        ("write_edges", lambda: g.write_edges("red", edges()) and ""),
        (
            "bad namespace",
            lambda: g.delete_edges(rng.choice(["", "*", "red'}) DETACH DELETE n //", "BLUE"]), blue.edge_ids),
        ),
    ]


def kb_calls(world: World, blue: Blue, rng: random.Random) -> Calls:
    kb = world.kb("red")
    words = ["blue-word", "host3.blue.lan", "blue", *blue.names]
    filters: list[dict[str, Any]] = [
        {},
        {"source": "blue-notes"},
        {"tag": "blue"},
        {"source": ["blue-notes", "blue-stack"]},
    ]

    def search(mode: Any) -> object:
        return [
            (h.doc_id, h.text, h.also_in)
            for h in kb.search(rng.choice(words), mode=mode, **rng.choice(filters)).hits
        ]

    return [
        ("keyword", lambda: search("keyword")),
        ("keyword again", lambda: search("keyword")),
        ("vector", lambda: search("vector")),
        (
            "neighbors by key",
            lambda: (
                kb.neighbors(rng.choice(blue.keys)[1], 2).edges
                and [
                    e.doc_id
                    for e in kb.neighbors(rng.choice(blue.keys)[1], 2).edges
                    if e.doc_id in blue.doc_ids and "blue"
                ]
            ),
        ),
        ("explain", lambda: "blue" if kb.explain(rng.choice(blue.edge_ids)[1]) else ""),
        (
            "documents",
            lambda: [d for d in kb.documents().column("doc_id").to_pylist() if d in blue.doc_ids and "blue"],
        ),
        (
            "edges",
            lambda: [d for d in kb.edges().column("doc_id").to_pylist() if d in blue.doc_ids and "blue"],
        ),
        ("delete", lambda: kb.delete([rng.choice(blue.doc_ids)], erase=rng.random() < 0.5)),
        ("restore", lambda: kb.restore([rng.choice(blue.doc_ids)])),
    ]


def hashes(world: World, namespace: str, source: str) -> list[str]:
    tables = world.workspace.tables
    found: list[str] = (
        tables.read(
            namespace, source, "chunks", tables.version(namespace, source, "chunks"), columns=["sha256"]
        )
        .column("sha256")
        .to_pylist()
    )
    return found
