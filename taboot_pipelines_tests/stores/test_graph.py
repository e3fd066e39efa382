"""The graph in a real Neo4j: schema, every value there and back, one namespace at a time."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import neo4j
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import EDGES, NODES
from taboot_pipelines.model.tables import EDGES_SCHEMA, NODES_SCHEMA
from taboot_pipelines.settings import Neo4jSettings, Settings
from taboot_pipelines.stores.graph import cypher, open_graph
from taboot_pipelines.stores.graph.neo4j import Neo4jGraph
from taboot_pipelines.stores.graph.rows import edge_fingerprints, node_fingerprints

SINCE = datetime(2024, 2, 29, 12, 30, 59, 123456, tzinfo=UTC)
DOC, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
#: A key of each label; scalars as the model has them.
KEYS: dict[str, tuple[Any, ...]] = {
    "Document": (DOC,),
    "Service": ("h/p", "db"),
    "Host": ("nas.lan",),
    "IP": ("10.0.0.1",),
    "ReverseProxy": ("swag",),
    "Endpoint": ("http", "x.org", 80, "/"),
    "Network": ("h/net",),
    "Container": ("ab" * 32,),
    "Image": ("name:docker.io/library/redis:latest",),
    "VPNTunnel": ("t1",),
    "TailscaleNode": ("n1",),
}
#: What tries to become Cypher, or to break a row.
HOSTILE = [
    "'}) DETACH DELETE n //",
    "`}) MATCH (m) DETACH DELETE m //",
    "$namespace",
    "\\u0027}) RETURN 1 //",
    "a\x00b",
    "🦊 „x“",
    "\n\r\t",
    "",
    "x" * 9000,
]

OF_GRAPH = """
CREATE CONSTRAINT doc_docid FOR (d:Document) REQUIRE (d.namespace, d.docId) IS UNIQUE
CREATE INDEX doc_url FOR (d:Document) ON (d.url)
CREATE INDEX doc_source FOR (d:Document) ON (d.sourceType)
CREATE CONSTRAINT service_name FOR (s:Service) REQUIRE (s.namespace, s.scope, s.name) IS UNIQUE
CREATE INDEX service_proto_port FOR (s:Service) ON (s.protocol, s.port)
CREATE CONSTRAINT host_hostname FOR (h:Host) REQUIRE (h.namespace, h.hostname) IS UNIQUE
CREATE INDEX host_ip FOR (h:Host) ON (h.ip)
CREATE CONSTRAINT ip_addr FOR (i:IP) REQUIRE (i.namespace, i.addr) IS UNIQUE
CREATE CONSTRAINT proxy_name FOR (p:ReverseProxy) REQUIRE (p.namespace, p.name) IS UNIQUE
CREATE CONSTRAINT endpoint_uniq FOR (e:Endpoint) \
REQUIRE (e.namespace, e.scheme, e.fqdn, e.port, e.path) IS UNIQUE
CREATE INDEX endpoint_fqdn FOR (e:Endpoint) ON (e.fqdn)
CREATE CONSTRAINT network_id FOR (n:Network) REQUIRE (n.namespace, n.networkId) IS UNIQUE
CREATE CONSTRAINT container_id FOR (c:Container) REQUIRE (c.namespace, c.containerId) IS UNIQUE
CREATE INDEX container_compose FOR (c:Container) ON (c.composeProject, c.composeService)
CREATE CONSTRAINT image_id FOR (i:Image) REQUIRE (i.namespace, i.imageId) IS UNIQUE
CREATE CONSTRAINT vpn_id FOR (v:VPNTunnel) REQUIRE (v.namespace, v.tunnelId) IS UNIQUE
CREATE CONSTRAINT tailscale_nodeid FOR (t:TailscaleNode) REQUIRE (t.namespace, t.nodeId) IS UNIQUE
CREATE INDEX tailscale_ip FOR (t:TailscaleNode) ON (t.tailscaleIp)
""".strip().splitlines()
OF_CRAWLS = """
CREATE INDEX url_job_status IF NOT EXISTS FOR (n:URL) ON (n.job_status)
CREATE INDEX url_name_http IF NOT EXISTS FOR (n:URL) ON (n.name, n.http_type)
CREATE INDEX root_name_depth IF NOT EXISTS FOR (n:ROOT) ON (n.name, n.requested_depth)
CREATE INDEX url_claimed_at IF NOT EXISTS FOR (n:URL) ON (n.claimed_at)
CREATE CONSTRAINT root_crawl_id IF NOT EXISTS FOR (n:ROOT) REQUIRE n.crawl_id IS UNIQUE
CREATE INDEX url_crawl_id IF NOT EXISTS FOR (n:URL) ON (n.crawl_id)
""".strip().splitlines()
OURS = [f"CREATE CONSTRAINT {t.lower()}_edge FOR ()-[r:{t}]-() REQUIRE r.edgeId IS UNIQUE" for t in EDGES]


@pytest.fixture(scope="module")
def graph(neo4j_url: str) -> Iterator[Neo4jGraph]:
    made = Neo4jGraph(Neo4jSettings(url=neo4j_url))
    made.ensure_schema()
    yield made
    made.close()


@pytest.fixture(scope="module")
def driver(neo4j_url: str) -> Iterator[neo4j.Driver]:
    with neo4j.GraphDatabase.driver(neo4j_url, auth=None) as made:
        yield made


@pytest.fixture
def namespace(graph: Neo4jGraph) -> Iterator[str]:
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    graph.drop_namespace(name)


def node(label: str, key: tuple[Any, ...] | None = None, **more: Any) -> dict[str, Any]:
    key = key or KEYS[label]
    row = {
        "label": label,
        "key": ids.node_key(key),
        "name": str(key[-1]),
        "scope": key[0] if label == "Service" else None,
        "properties": "{}",
        "first_seen": SINCE,
        "last_seen": SINCE,
    }
    if label == "Document":
        row["properties"] = json.dumps(
            {
                "url": f"notes:{key[0]}.md",
                "metadata": {"author": "x", "n": [1, 2]},
                "sourceType": "files",
                "title": "T",
            }
        )
    return {**row, **more, "doc_ids": []}


def edge(
    namespace: str,
    type_: str,
    start: dict[str, Any],
    end: dict[str, Any],
    doc_id: str = DOC,
    what: str = "",
    **more: Any,
) -> dict[str, Any]:
    return {
        "edge_id": ids.edge_id(
            namespace, type_, start["label"], start["key"], end["label"], end["key"], what, doc_id
        ),
        "type": type_,
        "start_label": start["label"],
        "start_key": start["key"],
        "start_name": start["name"],
        "end_label": end["label"],
        "end_key": end["key"],
        "end_name": end["name"],
        "properties": "{}",
        "doc_id": doc_id,
        "url": f"notes:{doc_id}.md",
        "confidence": 0.9,
        "source": "tier_a",
        "extraction_method": "test",
        "since": SINCE,
        "run_id": "r",
        "blob_sha256": "b" * 64,
        "byte_start": 1,
        "byte_end": 9,
        "line": 3,
        "start_basis": "bytes",
        "end_basis": "derived",
        "supports": '[{"blob":"b"}]',
        **more,
    }


def nodes_of(rows: list[dict[str, Any]]) -> pa.Table:
    table = pa.Table.from_pylist(rows, schema=NODES_SCHEMA)
    return table.append_column("fingerprint", node_fingerprints(table))


def edges_of(rows: list[dict[str, Any]]) -> pa.Table:
    table = pa.Table.from_pylist(rows, schema=EDGES_SCHEMA)
    return table.append_column("fingerprint", edge_fingerprints(table))


def whole(graph: Neo4jGraph, namespace: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    nodes = [r for t in graph.nodes(namespace) for r in t.to_pylist()]
    edges = [r for t in graph.edges(namespace) for r in t.to_pylist()]
    return sorted(nodes, key=lambda r: (r["label"], r["key"])), sorted(edges, key=lambda r: r["edge_id"])


def everything(namespace: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A node of each label and an edge of each type between each of its pairs of labels."""
    nodes = {label: node(label) for label in NODES}
    edges = [
        edge(namespace, t.type, nodes[a], nodes[b])
        for t in EDGES.values()
        for a in sorted(t.start)
        for b in sorted(t.end)
    ]
    for n in nodes.values():
        n["doc_ids"] = [DOC]
    return sorted(nodes.values(), key=lambda r: r["label"]), sorted(edges, key=lambda r: r["edge_id"])


@pytest.mark.parametrize("statement", OF_GRAPH + OF_CRAWLS + OURS)
def test_each_rule_is_there_under_its_name(graph: Neo4jGraph, driver: neo4j.Driver, statement: str) -> None:
    if "IF NOT EXISTS" in statement:
        assert driver.execute_query(statement).summary.counters.contains_updates is False
    # Refused as equivalent: the same name and the same definition.
    with pytest.raises(neo4j.exceptions.ClientError) as caught:
        driver.execute_query(statement.replace("IF NOT EXISTS ", ""))
    assert caught.value.code == "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists"


def test_the_schema_is_made_once_and_a_stranger_under_its_name_is_named(
    graph: Neo4jGraph, driver: neo4j.Driver
) -> None:
    graph.ensure_schema()
    assert graph.missing_schema() == []
    driver.execute_query("DROP INDEX host_ip")
    try:
        assert [r.name for r in graph.missing_schema()] == ["host_ip"]
        driver.execute_query("CREATE INDEX host_ip FOR (n:Host) ON (n.color)")
        with pytest.raises(TabootError, match=r"E_NEO4J.*host_ip"):
            graph.ensure_schema()
    finally:
        driver.execute_query("DROP INDEX host_ip IF EXISTS")
        graph.ensure_schema()
    assert graph.missing_schema() == []


def test_every_label_and_type_comes_back_as_it_went(graph: Neo4jGraph, namespace: str) -> None:
    nodes, edges = everything(namespace)
    assert graph.write_nodes(namespace, nodes_of(nodes)) == len(nodes)
    assert graph.write_edges(namespace, edges_of(edges)) == len(edges)
    assert whole(graph, namespace) == (nodes, edges)
    # Again, with other values: nothing of before remains, nothing is doubled.
    for row in edges:
        row |= {"confidence": 0.5, "properties": '{"extra":1}'}
    graph.write_edges(namespace, edges_of(edges))
    assert whole(graph, namespace) == (nodes, edges)
    prints = dict(
        zip((r["edge_id"] for r in edges), edges_of(edges).column("fingerprint").to_pylist(), strict=True)
    )
    assert {e: f for _, e, _, f in graph.edge_fingerprints(namespace)} == prints


def test_properties_are_native_where_neo4j_has_the_type(
    graph: Neo4jGraph, driver: neo4j.Driver, namespace: str
) -> None:
    values = {
        "port": 80,
        "external": True,
        "tags": ["a", "b"],
        "mixed": [1, "a"],
        "map": {"k": [1]},
        "huge": 2**70,
        "nothing": None,
        "ratio": 0.5,
        "empty": [],
    }
    network = node("Network", properties=json.dumps(values))
    document = node("Document")
    graph.write_nodes(namespace, nodes_of([network, document]))
    mention = edge(namespace, "MENTIONS", document, network, properties='{"chunkIndex":0,"span":[3,9]}')
    graph.write_edges(namespace, edges_of([mention]))
    records, _, _ = driver.execute_query(
        "MATCH (d:Document)-[r:MENTIONS]->(n:Network {namespace: $n}) RETURN properties(n) AS n,"
        " properties(r) AS r, properties(d) AS d",
        n=namespace,
    )
    found, relation, doc = (records[0][c] for c in ("n", "r", "d"))
    wanted = {
        "port": 80,
        "external": True,
        "tags": ["a", "b"],
        "mixed": '[1,"a"]',
        "map": '{"k":[1]}',
        "ratio": 0.5,
        "empty": [],
        "name": "h/net",
        "networkId": "h/net",
    }
    assert {k: found[k] for k in wanted} == wanted and "nothing" not in found
    # 64 bits hold no more: JSON's reader gives a float for it, the text stays whole.
    assert json.loads(found["properties"])["huge"] == 2**70
    assert (
        found["createdAt"].to_native()
        == SINCE
        == found["updatedAt"].to_native()
        == doc["ingestedAt"].to_native()
        == relation["since"].to_native()
    )
    assert (
        relation["span"],
        relation["chunkIndex"],
        relation["docId"],
        relation["byteStart"],
        relation["extractionMethod"],
    ) == ([3, 9], 0, DOC, 1, "test")
    assert (doc["docId"], doc["metadata"], doc["sourceType"], doc["title"], doc["namespace"]) == (
        DOC,
        '{"author":"x","n":[1,2]}',
        "files",
        "T",
        namespace,
    )


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_string_becomes_cypher_or_breaks_a_row(graph: Neo4jGraph, namespace: str, text: str) -> None:
    document = node("Document", name=text)
    document["properties"] = json.dumps({"url": text, "title": text})
    rows = [
        document,
        node("Network", (text or "-",), name=text, properties=json.dumps({"description": text})),
        node("Endpoint", ("http", "x.org", 80, "/" + text), name=text),
    ]
    rows.append(node("Service", ("h/" + text, "db"), name="db"))
    for row in rows:
        row["doc_ids"] = [DOC] if row["label"] in {"Document", "Network", "Endpoint"} else []
    edges = [
        edge(
            namespace,
            "MENTIONS",
            document,
            r,
            what=text,
            url=text,
            extraction_method=text,
            supports=json.dumps([text]),
        )
        for r in rows[1:3]
    ]
    graph.write_nodes(namespace, nodes_of(rows))
    graph.write_edges(namespace, edges_of(edges))
    expected = sorted(rows, key=lambda r: (r["label"], r["key"])), sorted(edges, key=lambda r: r["edge_id"])
    assert whole(graph, namespace) == expected
    assert {k: f for _, k, f in graph.node_fingerprints(namespace)} == dict(
        zip((r["key"] for r in rows), nodes_of(rows).column("fingerprint").to_pylist(), strict=True)
    )
    assert graph.delete_edges(namespace, [(e["type"], e["edge_id"]) for e in edges]) == 2
    assert graph.delete_nodes(namespace, [(r["label"], r["key"]) for r in rows]) == [] and whole(
        graph, namespace
    ) == ([], [])


@given(
    st.dictionaries(
        st.sampled_from(["a", "b"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**63), 2**64)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=6,
        ),
    )
)
@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_json_comes_back(graph: Neo4jGraph, namespace: str, properties: dict[str, Any]) -> None:
    row = node("Network", properties=json.dumps(properties))
    graph.write_nodes(namespace, nodes_of([row]))
    assert whole(graph, namespace) == ([row], [])


def test_each_document_keeps_its_own_edge_and_nodes_go_with_the_last(
    graph: Neo4jGraph, namespace: str
) -> None:
    app, db = node("Service", ("h/p", "app")), node("Service")
    edges = [edge(namespace, "DEPENDS_ON", app, db, d) for d in (DOC, OTHER)]
    graph.write_nodes(namespace, nodes_of([app, db]))
    graph.write_edges(namespace, edges_of(edges))
    assert len(whole(graph, namespace)[1]) == 2
    assert graph.delete_edges(namespace, [("DEPENDS_ON", edges[0]["edge_id"])]) == 1
    both = [("Service", n["key"]) for n in (app, db)]
    # Still held by the other document's edge: nothing is detached.
    assert sorted(graph.delete_nodes(namespace, both)) == sorted(both)
    graph.write_nodes(namespace, nodes_of([app, db]))
    assert [e["doc_id"] for e in whole(graph, namespace)[1]] == [OTHER]
    graph.delete_edges(namespace, [("DEPENDS_ON", edges[1]["edge_id"])])
    assert graph.delete_nodes(namespace, both) == [] and whole(graph, namespace) == ([], [])


def test_a_node_that_a_stranger_holds_keeps_its_key_and_nothing_else(
    graph: Neo4jGraph, driver: neo4j.Driver, namespace: str
) -> None:
    graph.write_nodes(namespace, nodes_of([node("Host", properties='{"description":"secret"}')]))
    driver.execute_query("MATCH (h:Host {namespace: $n}) CREATE (h)<-[:OWNS]-(:Person {of: $n})", n=namespace)
    try:
        assert graph.delete_nodes(namespace, [("Host", "nas.lan")]) == [("Host", "nas.lan")]
        records, _, _ = driver.execute_query(
            "MATCH (h:Host {namespace: $n})<-[:OWNS]-() RETURN properties(h) AS p", n=namespace
        )
        assert [r["p"] for r in records] == [{"namespace": namespace, "hostname": "nas.lan"}]
        assert list(graph.node_fingerprints(namespace)) == [("Host", "nas.lan", "")]
    finally:
        driver.execute_query("MATCH (p:Person {of: $n}) DETACH DELETE p", n=namespace)


def test_an_edge_without_its_ends_is_an_error_and_not_lost(graph: Neo4jGraph, namespace: str) -> None:
    app, db = node("Service", ("h/p", "app")), node("Service")
    graph.write_nodes(namespace, nodes_of([app]))
    with pytest.raises(TabootError, match="E_NEO4J: 1 relationships have an end"):
        graph.write_edges(namespace, edges_of([edge(namespace, "DEPENDS_ON", app, db)]))


def test_batches_cut_by_rows_and_by_bytes_write_the_same(
    neo4j_url: str, graph: Neo4jGraph, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [node("Host", (f"h{i:03}",)) for i in range(50)]
    edges = [edge(namespace, "CONNECTS_TO", rows[i], rows[(i * 7 + 1) % 50], what=str(i)) for i in range(50)]
    monkeypatch.setattr("taboot_pipelines.stores.graph.neo4j._BATCH_BYTES", 200)
    small = Neo4jGraph(Neo4jSettings(url=neo4j_url, batch_rows=7))
    assert (
        small.write_nodes(namespace, nodes_of(rows)) == 50
        and small.write_edges(namespace, edges_of(edges)) == 50
    )
    small.close()
    assert [e["edge_id"] for e in whole(graph, namespace)[1]] == sorted(e["edge_id"] for e in edges)


# --- namespaces ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "A", "a b", "a'}) DETACH DELETE n //", "a\n", "ä", "x" * 64, None, 7])
def test_what_is_no_namespace_is_refused_before_anything_is_sent(name: Any) -> None:
    graph = Neo4jGraph(Neo4jSettings(url="bolt://127.0.0.1:1"))
    empty = nodes_of([node("Host")])
    for call in (
        lambda: graph.write_nodes(name, empty),
        lambda: list(graph.nodes(name)),
        lambda: list(graph.edges(name)),
        lambda: graph.watermark(name),
        lambda: graph.drop_namespace(name),
        lambda: graph.set_watermark(name, "s"),
        lambda: graph.neighbourhood(name, [], 1, None, 1),
        lambda: list(graph.edge_fingerprints(name)),
    ):
        with pytest.raises(TabootError) as caught:
            call()
        assert caught.value.code == "E_NAMESPACE"


def test_a_statement_is_bound_to_a_namespace_and_to_the_model() -> None:
    with pytest.raises(TabootError, match="E_NAMESPACE"):
        cypher.Statement("MATCH (n) RETURN n")
    for name in ("Person", "Service) DETACH DELETE (m", "Service {}"):
        for build in (
            cypher.merge_nodes,
            cypher.read_nodes,
            cypher.delete_nodes,
            cypher.strip_nodes,
            cypher.drop_nodes,
            cypher.start_nodes,
            cypher.node_fingerprints,
        ):
            with pytest.raises(TabootError, match="E_SCHEMA_INVALID"):
                build(name)
        for build in (
            cypher.delete_edges,
            cypher.started_by,
            lambda n: cypher.merge_edges(n, "Host", "IP"),
            lambda n: cypher.edges_around(frozenset([n])),
        ):
            with pytest.raises(TabootError, match="E_SCHEMA_INVALID"):
                build(name)


def test_nothing_reaches_another_namespace(graph: Neo4jGraph, namespace: str) -> None:
    theirs = f"{namespace}-b"
    count = 1500
    hosts = [node("Host", (f"h{i}",)) for i in range(count)]
    edges = [edge(theirs, "CONNECTS_TO", hosts[i], hosts[(i + 1) % count]) for i in range(count)]
    try:
        graph.write_nodes(theirs, nodes_of(hosts))
        graph.write_edges(theirs, edges_of(edges))
        graph.set_watermark(theirs, "their snapshot")
        before = whole(graph, theirs)
        assert graph.delete_edges(namespace, [(e["type"], e["edge_id"]) for e in edges]) == 0
        assert graph.delete_nodes(namespace, [(n["label"], n["key"]) for n in hosts]) == []
        assert graph.neighbourhood(namespace, [(n["label"], n["key"]) for n in hosts], 2, None, 100_000) == []
        assert (
            list(graph.nodes(namespace))
            == list(graph.edges(namespace))
            == list(graph.node_fingerprints(namespace))
            == list(graph.edge_fingerprints(namespace))
            == []
        )
        assert graph.watermark(namespace) is None
        # Their ids between nodes of the same keys in ours: the constraint refuses each.
        graph.write_nodes(namespace, nodes_of(hosts))
        for i in range(50):
            with pytest.raises(TabootError, match="ConstraintValidationFailed"):
                graph.write_edges(namespace, edges_of([{**edges[i], "confidence": 0.1}]))
        # A property that names a namespace does not move a row.
        graph.write_nodes(
            namespace,
            nodes_of([{**hosts[0], "properties": json.dumps({"namespace": theirs, "fingerprint": "x"})}]),
        )
        graph.drop_namespace(namespace)
        assert whole(graph, theirs) == before and graph.watermark(theirs) == "their snapshot"
    finally:
        graph.drop_namespace(theirs)
    assert whole(graph, theirs) == ([], []) and graph.watermark(theirs) is None


def test_a_graph_that_is_being_dropped_is_of_no_snapshot(
    graph: Neo4jGraph, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader may be in the middle of a walk: half of the graph must not pass for all of it."""
    graph.write_nodes(namespace, nodes_of([node("Host")]))
    graph.set_watermark(namespace, "snapshot")
    seen = []
    real = Neo4jGraph._repeat

    def watched(self: Neo4jGraph, *args: Any) -> None:
        seen.append(graph.watermark(namespace))
        real(self, *args)

    monkeypatch.setattr(Neo4jGraph, "_repeat", watched)
    graph.drop_namespace(namespace)
    assert seen and set(seen) == {None}


# --- neighbourhoods, servers that fail ----------------------------------------------------------------------


def test_a_neighbourhood_is_cut_in_our_order_and_only_of_the_snapshot_asked_for(
    graph: Neo4jGraph, namespace: str
) -> None:
    services = {n: node("Service", ("h", n)) for n in "abcde"}
    document = node("Document")
    edges = [
        edge(namespace, "DEPENDS_ON", services[a], services[b], confidence=c)
        for a, b, c in (("a", "b", 0.5), ("a", "c", 0.9), ("b", "d", 1.0), ("d", "e", 1.0), ("a", "a", 0.1))
    ]
    edges.append(edge(namespace, "MENTIONS", document, services["a"], confidence=1.0))
    graph.write_nodes(namespace, nodes_of([*services.values(), document]))
    graph.write_edges(namespace, edges_of(edges))
    graph.set_watermark(namespace, "s1")
    ab, ac, bd, _, aa, mention = (e["edge_id"] for e in edges)
    start = [("Service", services["a"]["key"])]
    assert graph.neighbourhood(namespace, start, 1, None, 10) == [(ac, 1), (ab, 1), (aa, 1), (mention, 1)]
    assert graph.neighbourhood(namespace, start, 2, None, 10, "s1") == [
        (ac, 1),
        (ab, 1),
        (aa, 1),
        (mention, 1),
        (bd, 2),
    ]
    assert graph.neighbourhood(namespace, start, 2, ["DEPENDS_ON"], 2) == [(ac, 1), (ab, 1)]
    assert graph.neighbourhood(namespace, start, 2, ["MENTIONS"], 10) == [(mention, 1)]
    assert graph.neighbourhood(namespace, start, 2, None, 10, "s2") is None
    graph.set_watermark(namespace, "")
    assert graph.neighbourhood(namespace, start, 1, None, 10, "s1") is None


def test_a_server_that_is_not_there_is_named_in_time() -> None:
    graph = open_graph(Settings(neo4j=Neo4jSettings(url="bolt://127.0.0.1:1", timeout_seconds=1)))
    assert graph is not None
    start = time.monotonic()
    with pytest.raises(TabootError, match=r"E_NEO4J: Neo4j at bolt://127.0.0.1:1 does not answer"):
        graph.watermark("default")
    assert time.monotonic() - start < 20
    health = graph.health()
    assert (health.part, health.backend, health.ok) == (
        "graph",
        "neo4j",
        False,
    ) and "does not answer" in health.message
    graph.close()


def test_health_tells_version_and_edition_and_a_wrong_database_is_named(
    graph: Neo4jGraph, neo4j_url: str
) -> None:
    health = graph.health()
    assert health.ok and (health.version or "").startswith("5.") and health.message == ""
    wrong = Neo4jGraph(Neo4jSettings(url=neo4j_url, database="nope"))
    with pytest.raises(TabootError, match="no database 'nope'"):
        wrong.watermark("default")
    assert not wrong.health().ok
    wrong.close()


def test_a_refused_log_in_is_named_without_the_password(
    graph: Neo4jGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> Any:
        raise neo4j.exceptions.AuthError("The client is unauthorized: hunter2")

    monkeypatch.setattr(graph._driver, "session", refuse)
    with pytest.raises(TabootError, match="does not let the user 'neo4j' in") as caught:
        graph.watermark("default")
    assert "hunter2" not in str(caught.value.to_response()) and caught.value.__cause__ is None


@pytest.mark.parametrize(
    "url", ["http://x:7687", "bolt://", "x", "bolt://u:p@h:7687", "bolt://h:99999", "bolt://h:7687?a=b"]
)
def test_an_unusable_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(TabootError) as caught:
        open_graph(Settings(neo4j=Neo4jSettings(url=url)))
    assert caught.value.code == "E_CONFIG" and ":p@" not in str(caught.value)


def test_nothing_is_opened_without_a_url() -> None:
    assert open_graph(Settings()) is None


def test_a_deadlock_is_tried_again(graph: Neo4jGraph, driver: neo4j.Driver, namespace: str) -> None:
    hosts = [node("Host", (f"h{i:03}",)) for i in range(200)]
    graph.write_nodes(namespace, nodes_of(hosts))
    lock = "UNWIND $keys AS k MATCH (n:Host {namespace: $n, hostname: k}) SET n.locked = true"
    survived = 0
    for _ in range(6):
        failures: list[BaseException] = []

        def write(failures: list[BaseException] = failures) -> None:
            try:
                graph.write_nodes(namespace, nodes_of([hosts[0], hosts[-1]]))
            except BaseException as error:
                failures.append(error)

        with driver.session() as session, session.begin_transaction() as other:
            # It holds the last node and many others, so that it is not the one to be ended.
            other.run(lock, keys=[h["key"] for h in hosts[1:]], n=namespace).consume()
            writer = threading.Thread(target=write)
            writer.start()
            time.sleep(0.5)
            try:
                other.run(lock, keys=[hosts[0]["key"]], n=namespace).consume()
                other.commit()
                survived += 1
            except neo4j.exceptions.TransientError:
                other.rollback()
        writer.join(60)
        assert failures == [] and not writer.is_alive()
        if survived:
            break
    assert survived, "the writer was never the one that the server ended"


def test_writers_of_overlapping_nodes_and_of_two_namespaces_all_finish(
    neo4j_url: str, graph: Neo4jGraph, namespace: str
) -> None:
    hosts = [node("Host", (f"h{i}",)) for i in range(20)]
    names = [namespace, f"{namespace}-b"]
    failures: list[BaseException] = []

    def write(name: str, doc: str) -> None:
        own = Neo4jGraph(Neo4jSettings(url=neo4j_url, batch_rows=50))
        try:
            for _ in range(3):
                own.write_nodes(name, nodes_of(hosts))
                own.write_edges(
                    name,
                    edges_of(
                        [edge(name, "CONNECTS_TO", a, b, doc) for a in hosts for b in hosts if a is not b]
                    ),
                )
        except BaseException as error:
            failures.append(error)
        own.close()

    try:
        threads = [threading.Thread(target=write, args=(n, d)) for n in names for d in (DOC, OTHER)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
        assert failures == []
        for name in names:
            nodes, edges = whole(graph, name)
            assert (
                len(nodes) == 20
                and len(edges) == 2 * 20 * 19
                and all(n["doc_ids"] == [DOC, OTHER] for n in nodes)
            )
    finally:
        graph.drop_namespace(names[1])
