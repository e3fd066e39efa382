"""From observed relations to edges: ids after resolution, equal edges joined, ambiguous mentions dropped."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.knowledge.graph import RESOLVED, resolve_edges
from taboot_pipelines.model import ids, tables

DOC = ids.doc_id("ns", ids.locator("s", "a"))


def key(scope, name):
    return ids.node_key((scope, name))


def relation(**more):
    row = {
        "bucket": 0,
        "doc_id": DOC,
        "type": "DEPENDS_ON",
        "start_label": "Service",
        "start_key": key("h/p", "app"),
        "start_name": "app",
        "end_label": "Service",
        "end_key": key("", "db"),
        "end_name": "db",
        "discriminator": "[]",
        "properties": "{}",
        "confidence": 1.0,
        "source": "tier_a",
        "extraction_method": "m",
        "start_basis": "derived",
        "end_basis": "bytes",
        "run_id": "r",
        "blob_sha256": "b",
        "byte_start": 1,
        "byte_end": 2,
        "line": 1,
        "supports": None,
        **more,
    }
    row["supports"] = row["supports"] or json.dumps(
        [
            {
                "run": row["run_id"],
                "blob": row["blob_sha256"],
                "start": row["byte_start"],
                "end": row["byte_end"],
                "line": 1,
                "span": [1, 2],
                "method": row["extraction_method"],
            }
        ]
    )
    return row


def name(observed, resolved=None, candidates=()):
    return {
        "name": observed,
        "observed_key": key("", observed),
        "resolved_key": resolved,
        "reason": "r",
        "candidates": list(candidates),
    }


def resolve(relations, names=()):
    return resolve_edges(
        pa.Table.from_pylist(list(relations), schema=tables.RELATIONS),
        pa.Table.from_pylist(list(names), schema=tables.NAMES),
        namespace="ns",
    )


def test_a_bare_name_becomes_the_service_it_means():
    (edge,) = resolve(
        [relation(end_name="db-1", end_key=key("", "db-1"))], [name("db-1", key("h/p", "db"))]
    ).to_pylist()
    assert (edge["end_key"], edge["end_name"], edge["end_observed"]) == (key("h/p", "db"), "db", "db-1")
    assert edge["edge_id"] == ids.edge_id(
        "ns", "DEPENDS_ON", "Service", key("h/p", "app"), "Service", key("h/p", "db"), "[]", DOC
    )
    (alone,) = resolve([relation()]).to_pylist()
    assert alone["end_key"] == key("", "db") and alone["edge_id"] != edge["edge_id"]


def test_only_services_have_bare_names():
    (edge,) = resolve([relation(end_label="Host", type="BINDS")], [name("db", key("h/p", "db"))]).to_pylist()
    assert edge["end_key"] == key("", "db")


def test_equal_edges_join_and_the_stronger_one_stays():
    rows = [
        relation(confidence=0.9, extraction_method="a", byte_start=5, byte_end=6),
        relation(
            end_key=key("h/p", "db"),
            confidence=0.9,
            extraction_method="z",
            source="structured",
            byte_start=7,
            byte_end=8,
            properties='{"condition":"c"}',
        ),
        relation(end_key=key("h/p", "db"), confidence=0.5, extraction_method="b", source="correction"),
    ]
    (edge,) = resolve(rows, [name("db", key("h/p", "db"), [key("h/p", "db")])]).to_pylist()
    assert (edge["extraction_method"], edge["byte_start"], edge["properties"]) == (
        "z",
        7,
        '{"condition":"c"}',
    )
    assert [s["start"] for s in json.loads(edge["supports"])] == [1, 5, 7]
    apart = resolve(rows, [name("db", None, [key("h/p", "db"), key("h/q", "db")])])
    assert len(apart) == 2  # the name became ambiguous: the edges part again
    assert len(resolve([relation(), relation(discriminator='["x"]'), relation(doc_id=DOC[:-1] + "0")])) == 3


def test_an_ambiguous_name_mentions_nothing_but_keeps_its_relations():
    mention = relation(
        type="MENTIONS", start_label="Document", start_key=DOC, start_name="a", discriminator="[3]"
    )
    two = [name("db", None, ["x", "y"])]
    assert resolve([mention, relation()], two).column("type").to_pylist() == ["DEPENDS_ON"]
    assert len(resolve([mention, relation()], [name("db", None)])) == 2
    assert len(resolve([mention], [name("db", key("h", "db"), [key("h", "db")])])) == 1


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            texts, texts, texts, st.sampled_from([0.5, 1.0]), st.sampled_from(["tier_a", "structured"]), texts
        ),
        max_size=12,
    ),
    seed=st.integers(),
)
def test_ids_are_those_of_the_model_and_order_of_arrival_never_matters(rows, seed):
    given = [
        relation(
            start_key=key(a, b), start_name=b, discriminator=c, confidence=d, source=e, extraction_method=f
        )
        for a, b, c, d, e, f in rows
    ]
    table = resolve(given)
    assert table.schema.names == RESOLVED.names
    assert set(table.column("edge_id").to_pylist()) == {
        ids.edge_id(
            "ns",
            r["type"],
            r["start_label"],
            r["start_key"],
            r["end_label"],
            r["end_key"],
            r["discriminator"],
            r["doc_id"],
        )
        for r in given
    }
    assert table.column("edge_id").to_pylist() == sorted(set(table.column("edge_id").to_pylist()))
    random.Random(seed).shuffle(given)
    assert resolve(given).equals(table)


@pytest.mark.parametrize("names", [[], [name("db", key("h/p", "db"))]])
def test_nothing_gives_nothing(names):
    assert resolve([], names).schema == RESOLVED and len(resolve([], names)) == 0
