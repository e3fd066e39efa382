"""A document's relations: one row per fact, the strongest statement speaks, and order never matters."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.knowledge.evidence import SourceSpan
from taboot_pipelines.knowledge.relations import ChunkIndex, Endpoint, Relation, mention, relation_rows
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import RELATIONS

DOC = ids.doc_id("ns", ids.locator("s", "a"))
APP, DB = Endpoint("Service", "app", "app"), Endpoint("Service", "db", "db")


def place(at: int = 0) -> SourceSpan:
    return SourceSpan(at, at + 2, at * 2, at * 2 + 4, at + 1)


def statement(**fields: Any) -> Relation:
    given: dict[str, Any] = {
        "type": "DEPENDS_ON",
        "start": APP,
        "end": DB,
        "discriminator": "[]",
        "properties": "{}",
        "confidence": 1.0,
        "source": "tier_a",
        "method": "m",
        "start_basis": "derived",
        "end_basis": "bytes",
        "run_id": "r1",
        "blob_sha256": "b1",
        "place": place(),
    }
    return Relation(**{**given, **fields})


def test_one_fact_is_one_row_that_names_all_its_support() -> None:
    (row,) = relation_rows(
        DOC,
        [
            statement(confidence=0.5, place=place(3), properties='{"condition":"weak","required":true}'),
            statement(place=place(7), properties='{"condition":"strong"}'),
            statement(confidence=0.5, place=place(3), run_id="r2"),
        ],
    )
    assert (row["confidence"], row["byte_start"], row["line"]) == (1.0, 14, 8)
    # What the strongest leaves open, another may say.
    assert json.loads(row["properties"]) == {"condition": "strong", "required": True}
    assert [(s["start"], s["run"]) for s in json.loads(row["supports"])] == [(6, "r1"), (6, "r2"), (14, "r1")]


def test_confidence_goes_over_the_priority_of_the_source() -> None:
    (row,) = relation_rows(DOC, [statement(source="structured", confidence=0.8), statement(confidence=0.9)])
    assert row["source"] == "tier_a"
    (row,) = relation_rows(DOC, [statement(), statement(source="structured")])
    assert row["source"] == "structured"


def test_other_facts_are_other_rows_in_a_fixed_order() -> None:
    other = [
        statement(),
        statement(discriminator='["80"]'),
        statement(end=Endpoint("Service", "cache", "cache")),
        statement(type="CONNECTS_TO"),
    ]
    rows = list(relation_rows(DOC, other))
    assert [(r["type"], r["end_key"], r["discriminator"]) for r in rows] == [
        ("CONNECTS_TO", "db", "[]"),
        ("DEPENDS_ON", "cache", "[]"),
        ("DEPENDS_ON", "db", '["80"]'),
        ("DEPENDS_ON", "db", "[]"),
    ]
    assert pa.Table.from_pylist(rows, schema=RELATIONS).num_rows == 4
    assert list(relation_rows(DOC, [])) == []


statements = st.builds(
    statement,
    end=st.sampled_from([DB, Endpoint("Service", "db", "DB"), APP]),
    confidence=st.sampled_from([0.5, 1.0]),
    source=st.sampled_from(["structured", "tier_a", "tier_b"]),
    method=st.sampled_from(["m", "n"]),
    end_basis=st.sampled_from(["bytes", "normalized"]),
    properties=st.sampled_from(["{}", '{"condition":"a"}', '{"condition":"b"}']),
    run_id=st.sampled_from(["r1", "r2"]),
    place=st.builds(place, st.integers(0, 1)),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(statements, max_size=10), st.randoms(use_true_random=False))
def test_order_and_repetition_never_matter(given_statements: list[Relation], order: random.Random) -> None:
    rows = list(relation_rows(DOC, given_statements))
    shuffled = [*given_statements, *order.sample(given_statements, len(given_statements) // 2)]
    order.shuffle(shuffled)
    assert list(relation_rows(DOC, shuffled)) == rows
    for row in rows:
        group = [s for s in given_statements if s.end.key == row["end_key"]]
        assert row["confidence"] == max(s.confidence for s in group)
        assert len(json.loads(row["supports"])) == len(
            {(s.place.byte_start, s.place.byte_end, s.run_id, s.method) for s in group}
        )


def test_statements_that_tie_in_strength_are_told_apart() -> None:
    tied = [statement(), statement(start_basis="source"), statement(end=Endpoint("Service", "db", "Db"))]
    tied += [dataclasses.replace(tied[0], place=dataclasses.replace(place(), line=9))]
    assert list(relation_rows(DOC, tied)) == list(relation_rows(DOC, tied[::-1]))


def test_a_mention_names_the_first_chunk_that_holds_its_span() -> None:
    # Chunks overlap: [0, 10), [6, 16), [12, 22).
    chunks = ChunkIndex(["c0", "c1", "c2"], [0, 6, 12], [10, 16, 22], ["h0", "h1", "h2"], ["", "A > B", ""])

    def said(start: int, end: int) -> dict[str, Any]:
        made = mention(
            DOC,
            "title",
            DB,
            SourceSpan(start, end, start, end, 1),
            chunks,
            blob_sha256="b",
            confidence=0.9,
            source="tier_a",
            method="declared_name",
            end_basis="bytes",
            run_id="r",
        )
        assert (made.start, made.discriminator) == (Endpoint("Document", DOC, "title"), f"[{start}]")
        properties: dict[str, Any] = json.loads(made.properties)
        return properties

    assert said(6, 9) == {"span": [6, 9], "chunkId": "c0", "chunkHash": "h0", "chunkIndex": 0}
    assert said(9, 12) == {
        "span": [9, 12],
        "chunkId": "c1",
        "chunkHash": "h1",
        "chunkIndex": 1,
        "section": "A > B",
    }
    # No chunk holds all of it: the one in which it begins.
    assert said(5, 18)["chunkId"] == "c0" and said(20, 30)["chunkId"] == "c2"
    assert ChunkIndex([], [], [], [], []).properties(0, 1) == {}
