"""The reducer: which claim speaks, and that neither order nor repetition of the claims ever matters."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.knowledge.reducer import (
    Claim,
    load_claims,
    reduce_entities,
    reduce_entity,
    touched_entities,
)
from taboot_pipelines.model import ids
from taboot_pipelines.model.ids import canonical_json

BARE, DECLARED = ids.node_key(("", "db")), ids.node_key(("host/stack", "db"))


def claim(value: str | None = "x", **fields: Any) -> Claim:
    """A claim about the service ``db``; ``value`` is its property ``image`` (None: it has no properties)."""
    given: dict[str, Any] = {
        "doc_id": "d1",
        "observed_key": DECLARED,
        "name": "db",
        "source": "tier_a",
        "confidence": 1.0,
        "recency": 100,
        "properties": canonical_json({} if value is None else {"image": value}),
    }
    return Claim(**{**given, **fields})


def image(*claims: Claim) -> str:
    return str(json.loads(reduce_entity("Service", DECLARED, claims)["properties"])["image"])


def test_priority_goes_over_specificity_over_recency_over_id() -> None:
    ladder = [
        claim("correction", source="correction", confidence=0.1, recency=0, doc_id="a"),
        claim("structured", source="structured", confidence=0.2, recency=0, doc_id="a"),
        claim("tier a", source="tier_a", confidence=0.3, recency=0, doc_id="a"),
        claim("confident", source="tier_b", confidence=1.0, recency=0, doc_id="a"),
        claim("recent", source="tier_b", confidence=0.9, recency=9, doc_id="a"),
        claim("last id", source="tier_b", confidence=0.9, recency=5, doc_id="b"),
        claim("first id", source="tier_b", confidence=0.9, recency=5, doc_id="a"),
    ]
    for i, strongest in enumerate(ladder):
        assert image(*reversed(ladder[i:])) == json.loads(strongest.properties)["image"]


def test_each_property_is_that_of_the_strongest_claim_that_has_it() -> None:
    row = reduce_entity(
        "Service",
        DECLARED,
        [
            claim(source="structured", properties='{"image":"strong"}'),
            claim(source="tier_c", properties='{"image":"weak","version":"7"}'),
        ],
    )
    assert json.loads(row["properties"]) == {"image": "strong", "version": "7"}


def test_a_name_is_that_of_a_claim_that_knows_the_node() -> None:
    key = ids.node_key(("redis:7",))
    refers = claim(None, observed_key=key, name="REDIS:7", recency=10**9)
    declares = claim(None, observed_key=key, name="redis:7", properties='{"tag":"7"}', confidence=0.2)
    assert reduce_entity("Image", key, [refers, declares])["name"] == "redis:7"
    service = reduce_entity("Service", DECLARED, [claim(name="whatever")])
    assert (service["name"], service["scope"]) == ("db", "host/stack")


claims = st.builds(
    Claim,
    doc_id=st.sampled_from(["a", "b", "c"]),
    observed_key=st.sampled_from([BARE, DECLARED]),
    name=st.sampled_from(["db", "DB"]),
    source=st.sampled_from(["structured", "tier_a", "tier_b", "tier_c"]),
    confidence=st.sampled_from([0.5, 0.9, 1.0]),
    recency=st.integers(0, 3),
    properties=st.sampled_from(["{}", '{"image":"x"}', '{"image":"y"}', '{"image":"x","version":"7"}']),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(claims, min_size=1, max_size=8), st.randoms(use_true_random=False), st.booleans())
def test_order_repetition_and_grouping_never_matter(
    given_claims: list[Claim], order: random.Random, resolves: bool
) -> None:
    resolved = {BARE: DECLARED} if resolves else {}
    pairs = [("Service", c) for c in given_claims]
    rows = reduce_entities(pairs, resolved)
    shuffled = [*pairs, *order.sample(pairs, len(pairs) // 2)]
    order.shuffle(shuffled)
    assert reduce_entities(shuffled, resolved) == rows
    # What is remembered in the row is enough to reduce again: nothing is lost by being stored.
    again = [(row["label"], c) for row in rows for c in load_claims(row["claims"])]
    assert reduce_entities(again, resolved) == rows
    assert {row["key"] for row in rows} == {DECLARED if resolves else c.observed_key for c in given_claims}


@settings(max_examples=60, deadline=None)
@given(st.lists(claims, min_size=1, max_size=8))
def test_joining_is_undone_when_its_ground_goes(given_claims: list[Claim]) -> None:
    pairs = [("Service", c) for c in given_claims]
    apart = reduce_entities(pairs, {})
    joined = reduce_entities(pairs, {BARE: DECLARED})
    assert reduce_entities([(r["label"], c) for r in joined for c in load_claims(r["claims"])], {}) == apart


def test_what_a_change_touches() -> None:
    nodes = [("Service", BARE), ("Image", "redis:7"), ("Document", "d1")]
    other = ids.node_key(("host/other", "db"))
    assert touched_entities(nodes, {}, {}) == {("Service", BARE), ("Image", "redis:7")}
    # A name that means another service touches both, and itself, even if nothing else changed.
    assert touched_entities([], {BARE: DECLARED}, {BARE: other}) == {
        ("Service", BARE),
        ("Service", DECLARED),
        ("Service", other),
    }
    assert touched_entities([], {BARE: DECLARED}, {BARE: DECLARED}) == set()
