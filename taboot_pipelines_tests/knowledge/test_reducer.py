"""The reducer: which claim speaks, and that neither order nor repetition of the claims ever matters."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.knowledge.reducer import (
    Claim,
    Latest,
    Support,
    load_claims,
    reduce_entities,
    reduce_entity,
    supports,
    supports_after,
    touched_entities,
)
from taboot_pipelines.model import ids
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.tables import CLAIM

BARE, DECLARED = ids.node_key(("", "db")), ids.node_key(("host/stack", "db"))
#: A claim with the document that makes it.
Said = tuple[Latest, Claim]


def said(value: str | None = "x", *, recency: int = 100, doc_id: str = "d1", **fields: Any) -> Said:
    """A claim about the service ``db``; ``value`` is its property ``image`` (None: it has no properties)."""
    given: dict[str, Any] = {
        "label": "Service",
        "observed_key": DECLARED,
        "name": "db",
        "source": "tier_a",
        "confidence": 1.0,
        "properties": canonical_json({} if value is None else {"image": value}),
    }
    return Latest(recency, doc_id), Claim(**{**given, **fields})


def supported(claims: list[Said]) -> dict[Claim, Support]:
    """The support of claims; those of one document and date are what it claims together."""
    documents: dict[Latest, list[Claim]] = {}
    for latest, claim in claims:
        documents.setdefault(latest, []).append(claim)
    return supports(documents.items())


def image(*claims: Said) -> str:
    row = reduce_entity("Service", DECLARED, supported(list(claims)))
    return str(json.loads(row["properties"])["image"])


def test_priority_goes_over_specificity_over_recency_over_id() -> None:
    ladder = [
        said("correction", source="correction", confidence=0.1, recency=0, doc_id="a"),
        said("structured", source="structured", confidence=0.2, recency=0, doc_id="a"),
        said("tier a", source="tier_a", confidence=0.3, recency=0, doc_id="a"),
        said("confident", source="tier_b", confidence=1.0, recency=0, doc_id="a"),
        said("recent", source="tier_b", confidence=0.9, recency=9, doc_id="a"),
        said("last id", source="tier_b", confidence=0.9, recency=5, doc_id="b"),
        said("first id", source="tier_b", confidence=0.9, recency=5, doc_id="a"),
        said("proposed", source="proposed:structured", confidence=1.0, recency=9, doc_id="c"),
        said("proposed by a guess", source="proposed:tier_c", confidence=1.0, recency=9, doc_id="c"),
    ]
    for i, (_, strongest) in enumerate(ladder):
        assert image(*reversed(ladder[i:])) == json.loads(strongest.properties)["image"]


def test_each_property_is_that_of_the_strongest_claim_that_has_it() -> None:
    row = reduce_entity(
        "Service",
        DECLARED,
        supported(
            [
                said(source="structured", properties='{"image":"strong"}'),
                said(source="tier_c", properties='{"image":"weak","version":"7"}'),
            ]
        ),
    )
    assert json.loads(row["properties"]) == {"image": "strong", "version": "7"}


def test_a_name_is_that_of_a_claim_that_knows_the_node() -> None:
    key = ids.node_key(("redis:7",))
    refers = said(None, label="Image", observed_key=key, name="REDIS:7", recency=10**9)
    declares = said(label="Image", observed_key=key, name="redis:7", properties='{"tag":"7"}', confidence=0.2)
    assert reduce_entity("Image", key, supported([refers, declares]))["name"] == "redis:7"
    proposes = said(
        label="Image", observed_key=key, name="Redis", properties='{"tag":"8"}', source="proposed:tier_a"
    )
    assert reduce_entity("Image", key, supported([refers, proposes]))["name"] == "REDIS:7"
    assert reduce_entity("Image", key, supported([proposes]))["name"] == "Redis"
    service = reduce_entity("Service", DECLARED, supported([said(name="whatever")]))
    assert (service["name"], service["scope"]) == ("db", "host/stack")


claims = st.builds(
    Claim,
    label=st.just("Service"),
    observed_key=st.sampled_from([BARE, DECLARED]),
    name=st.sampled_from(["db", "DB"]),
    source=st.sampled_from(["structured", "tier_a", "tier_b", "proposed:tier_a", "tier_c"]),
    confidence=st.sampled_from([0.5, 0.9, 1.0]),
    properties=st.sampled_from(["{}", '{"image":"x"}', '{"image":"y"}', '{"image":"x","version":"7"}']),
)
#: {doc_id: (its date, what it claims)}
documents = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.integers(0, 3), st.lists(claims, max_size=4)), max_size=6
)


def of(given_documents: dict[str, tuple[int, list[Claim]]]) -> list[tuple[Latest, list[Claim]]]:
    return [(Latest(recency, doc_id), made) for doc_id, (recency, made) in given_documents.items()]


def stored(rows: list[dict[str, Any]]) -> dict[Claim, Support]:
    """The claims as they are read again from rows of entities."""
    return {c: s for row in rows for c, s in load_claims(row["label"], row["claims"]).items()}


@settings(max_examples=100, deadline=None)
@given(documents, st.randoms(use_true_random=False), st.booleans())
def test_order_and_repetition_never_matter(
    given_documents: dict[str, tuple[int, list[Claim]]], order: random.Random, resolves: bool
) -> None:
    resolved = {BARE: DECLARED} if resolves else {}
    made = of(given_documents)
    rows = reduce_entities(supports(made), resolved)
    shuffled = [(latest, order.sample(c, len(c)) + c) for latest, c in made]
    order.shuffle(shuffled)
    assert reduce_entities(supports(shuffled), resolved) == rows
    # What is remembered in the row is enough to reduce again: nothing is lost by being stored.
    assert reduce_entities(stored(rows), resolved) == rows
    keys = {claim.observed_key for _, some in made for claim in some}
    assert {row["key"] for row in rows} == ({DECLARED} if resolves and keys else keys)


@settings(max_examples=300, deadline=None)
@given(documents, documents, st.sets(st.sampled_from("abcdef")))
def test_a_change_of_some_documents_is_as_good_as_counting_all_anew(
    before: dict[str, tuple[int, list[Claim]]],
    edits: dict[str, tuple[int, list[Claim]]],
    deleted: set[str],
) -> None:
    after = {d: made for d, made in {**before, **edits}.items() if d not in deleted}
    looked_at = deleted | edits.keys()
    everything = supports(of(after))
    asked: list[Claim] = []

    def find_latest(wanted: Any) -> dict[Claim, Latest]:
        asked.extend(wanted)
        return {claim: everything[claim].latest for claim in wanted}

    found = supports_after(
        supports(of(before)),
        of({d: made for d, made in before.items() if d in looked_at}),
        of({d: made for d, made in after.items() if d in looked_at}),
        find_latest,
    )
    assert found == everything
    assert set(asked) <= everything.keys(), "all documents are looked through only for what is still claimed"


def test_a_newer_document_spares_the_look_at_all() -> None:
    _, claim = said()
    many = supports((Latest(n, f"d{n}"), [claim]) for n in range(1000))

    def never(_wanted: Any) -> dict[Claim, Latest]:
        raise AssertionError("all documents were looked through")

    edited = supports_after(many, [(Latest(999, "d999"), [claim])], [(Latest(1000, "d999"), [claim])], never)
    assert edited == {claim: Support(1000, Latest(1000, "d999"))}
    gone = supports_after(many, [(Latest(5, "d5"), [claim])], [], never)
    assert gone == {claim: Support(999, Latest(999, "d999"))}
    row = reduce_entity("Service", DECLARED, many)
    assert len(row["claims"]) < 200, "a row does not grow with the documents behind it"


@settings(max_examples=60, deadline=None)
@given(documents)
def test_joining_is_undone_when_its_ground_goes(given_documents: dict[str, tuple[int, list[Claim]]]) -> None:
    claims = supports(of(given_documents))
    joined = reduce_entities(claims, {BARE: DECLARED})
    assert reduce_entities(stored(joined), {}) == reduce_entities(claims, {})


def test_claims_are_stored_with_the_columns_of_their_table() -> None:
    assert [field.name for field in CLAIM] == list(Claim._fields)
    assert pa.array([[said()[1]._asdict()]], pa.list_(CLAIM)).to_pylist() == [[said()[1]._asdict()]]


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
