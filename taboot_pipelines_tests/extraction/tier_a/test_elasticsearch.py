"""What a cluster says of its nodes, as hosts and a service."""

from __future__ import annotations

import json

from taboot_pipelines.extraction.tier_a.elasticsearch import ElasticsearchExtractor
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec
from taboot_pipelines_tests.fakes.elasticsearch import NODES

PATH = "cluster/nodes.json"


def interpreted(text: str) -> Interpretation:
    view = FileView(frozenset([PATH]), lambda _: text)
    return ElasticsearchExtractor().interpret(UnitSpec(PATH, (PATH,)), view, SourceFacts("default", "es"))


def test_nodes_are_hosts_of_the_cluster() -> None:
    text = json.dumps(NODES, indent=2)
    said = interpreted(text)
    nodes = {(n.node.label, n.node.key): dict(n.properties) for n in said.nodes}
    assert nodes == {
        ("Service", ("es/logging", "logging")): {"protocol": "http", "version": "9.1.2"},
        ("Host", ("es-1.lan",)): {"ip": "10.0.0.11", "osType": "linux"},
        ("Host", ("es-2",)): {"ip": "10.0.0.12", "osType": "linux"},
        ("IP", ("10.0.0.11",)): {"isPublic": False},
        ("IP", ("10.0.0.12",)): {"isPublic": False},
    }
    edges = {(e.type, e.start.name, e.end.name, e.properties.get("port")) for e in said.edges}
    assert edges == {
        ("RESOLVES_TO", "es-1.lan", "10.0.0.11", None),
        ("RESOLVES_TO", "es-2", "10.0.0.12", None),
        *(("BINDS", "logging", host, port) for host in ("es-1.lan", "es-2") for port in (9200, 9300)),
    }
    for claim in (*said.nodes, *said.edges):
        quote = text[claim.evidence.start : claim.evidence.end]
        assert quote and '"' not in quote
    for edge in said.edges:
        if edge.end_basis == "bytes":
            assert edge.end.name in text[edge.evidence.start : edge.evidence.end]


def test_other_answers_say_nothing_and_odd_ones_raise_nothing() -> None:
    assert not interpreted('{"cluster_name": "c", "status": "green"}').nodes
    assert [p.code for p in interpreted("{").problems] == ["E_PARSE"]
    odd = {"cluster_name": "a b", "nodes": {"1": {"name": "x y"}, "2": 5, "3": {"name": "ok", "ip": "::zz"}}}
    said = interpreted(json.dumps(odd))
    assert [n.node.name for n in said.nodes] == ["ok"]
    # The cluster's name is none, and of nodes without a host name it is said once that there are some.
    assert [p.code for p in said.problems] == ["E_PARSE", "E_UNRESOLVED"]
    paths = ["2026-11-20T00:00:00Z/a/b.json", PATH, "x.json#untimed/y.json", "nodes.JSON", "a.yaml"]
    assert [u.name for u in ElasticsearchExtractor().units(paths)] == [PATH, "nodes.JSON"]
