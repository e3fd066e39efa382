"""Incremental equals from scratch, with what people decide among the changes.

Holds rule ``incremental-equals-scratch``. Random corrections of entities and edges, stated facts, merges,
undoings and erasures come between adds, edits, deletions, kills and full disks of
``test_incremental_equals_scratch``; a decision itself is killed at any write. At the end the stores equal a
replay of the catalog's inputs into empty ones.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.results.graph import Node
from taboot_pipelines.stages.storage_audit import run as audit
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.stages.test_incremental_equals_scratch import (
    BATCH,
    Clock,
    Crash,
    Crashing,
    apply,
    declare,
    ingest,
    no_space,
    operation,
    place,
    reads,
    well,
)
from taboot_pipelines_tests.world import World, differences, graph, logical

pytestmark = pytest.mark.slow

SOAK = float(os.environ.get("TABOOT_TEST_SOAK_SECONDS", "0"))
EXAMPLES = int(SOAK / 8) or 3

#: What may be said of an entity, by label; None: that it has no such value.
FIELDS: dict[str, list[tuple[str, Any]]] = {
    "Service": [("port", 1), ("description", "said"), ("port", None), ("version", "9")],
    "Host": [("ip", "10.9.9.9"), ("description", "said")],
    "IP": [("isPublic", True)],
    "Container": [("image", "said/it")],
    "Image": [("tag", "said")],
    "Network": [("description", "said"), ("vlan", 7)],
    "ReverseProxy": [("version", "9")],
    "Endpoint": [("authRequired", True)],
    "TailscaleNode": [("authorized", False)],
}
FACTS: list[dict[str, Any]] = [
    {"entity_type": "Service", "properties": {"name": "theatre", "port": 4}},
    {"entity_type": "Service", "properties": {"name": "vault", "scope": "said/one", "port": 5}},
    {
        "entity_type": "Service",
        "properties": {"name": "grafana-agent", "scope": "said/two"},
        "aliases": ["ga"],
    },
    {"entity_type": "Host", "properties": {"hostname": "hearth.lan", "ip": "10.0.0.99"}},
    {"entity_type": "Host", "properties": {"hostname": "extra-worker"}, "raw_content": "handed in"},
    {
        "type": "DEPENDS_ON",
        "start": {"label": "Service", "name": "jellyfin"},
        "end": {"label": "Service", "name": "vault"},
    },
    {
        "type": "RESOLVES_TO",
        "start": {"label": "Host", "hostname": "hearth.lan"},
        "end": {"label": "IP", "addr": "10.0.0.99"},
        "properties": {"recordType": "A"},
    },
]
#: Edge properties that may be corrected, by type.
PROPERTIES: dict[str, tuple[str, Any]] = {
    "BINDS": ("targetPort", 77),
    "DEPENDS_ON": ("required", False),
    "RUNS": ("restartPolicy", "no"),
    "CONNECTS_TO": ("encrypted", True),
    "ROUTES_TO": ("tls", True),
}

number = st.integers(0, 997)
decision = st.tuples(
    st.sampled_from(
        ["correct", "correct", "state", "state", "merge", "merge", "edge", "undo", "undo", "erase"]
    ),
    number,
    number,
    # Which write of the tables or the catalog is the last, and how it fails.
    st.one_of(st.none(), st.none(), st.tuples(st.integers(1, 12), st.booleans())),
)


def entities(kb: KnowledgeBase) -> list[dict[str, Any]]:
    return [r for r in kb.nodes().to_pylist() if r["label"] != "Document"]


def named(row: dict[str, Any]) -> Node:
    return Node(label=row["label"], key=row["key"], name=row["name"], scope=row["scope"], properties={})


def decide(kb: KnowledgeBase, kind: str, n: int, m: int) -> None:
    """Decide something about what is there."""
    found = entities(kb)
    match kind:
        case "correct":
            row = found[n % len(found)]
            if row["label"] in FIELDS:
                field, value = FIELDS[row["label"]][m % len(FIELDS[row["label"]])]
                kb.correct(named(row), field, value, "said so", who="ann")
        case "state":
            some = [FACTS[n % len(FACTS)], FACTS[m % len(FACTS)]]
            kb.ingest_structured_batch(some[: 1 + m % 2], "said so", who="ann")
        case "merge":
            row = found[n % len(found)]
            same = [r for r in found if r["label"] == row["label"] and r["key"] != row["key"]]
            if same:
                event("merged")
                kb.merge(named(row), named(same[m % len(same)]), "said so", who="ann")
        case "edge":
            edges = [r for r in kb.edges().to_pylist() if r["type"] != "MENTIONS" or n % 4 == 0]
            if edges:
                edge = edges[n % len(edges)]
                event("edge corrected")
                if m % 2 and edge["type"] in PROPERTIES:
                    kb.correct_edge(edge, *PROPERTIES[edge["type"]], "said so", who="ann")
                else:
                    kb.correct_edge(edge, reason="said so", who="ann")
        case "undo" | "erase":
            known = kb.assertions(all_states=True).items
            if known:
                event(kind)
                kb.undo(known[n % len(known)].observation_id, kind == "erase", "said so", who="ann")


def try_to_decide(world: World, kind: str, n: int, m: int, failing: tuple[int, bool] | None) -> None:
    kb = world.kb()
    if not entities(kb):
        return
    try:
        if failing is None:
            decide(kb, kind, n, m)
        else:
            with Crashing(failing[0], Crash if failing[1] else no_space):
                decide(kb, kind, n, m)
    except Crash:
        event("killed while deciding")
    except TabootError as error:
        # Undone already, one already; or the disk that is full.
        assert error.code in {"E_TRANSITION", "E_STORAGE"}, error


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not SOAK,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)
@given(
    start=st.lists(st.tuples(place, st.integers(0, 3)), min_size=3, max_size=8),
    operations=st.lists(st.one_of(decision, decision, operation), min_size=3, max_size=9),
)
def test_decisions_equal_a_replay(tei: FakeTei, start: list[Any], operations: list[Any]) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        Clock() as clock,
        FakeOpenAi(context=10**6) as llm,
        FakeTei(model_id="fake/other-embedder", dimension=24) as other_tei,
    ):
        embedders = (tei, other_tei)
        llm.react = reads
        model = {"url": llm.url, "model": "fake/llm", "max_retries": 0}
        world = World(Path(directory), tei.url, limits={"batch_documents": BATCH}, llm=model)
        declare(world, [where for where, _ in start] + [step[1] for step in operations if len(step) == 3])
        for where, n in start:
            apply(world, clock, llm, embedders, "write", where, n)
        ingest(world)
        for step in operations:
            if len(step) == 4:
                try_to_decide(world, *step)
            else:
                apply(world, clock, llm, embedders, *step)
        well(world, llm)
        ingest(world)
        scratch = world.replay()
        other = world.open(scratch)
        try:
            assert differences(logical(world.workspace), logical(other)) == {}
            assert differences(graph(world.kb()), graph(world.kb(home=scratch))) == {}
            assert audit(world.workspace, "default").left == []
            everything_undone(world)
        finally:
            other.close()
            world.workspace.close()


def everything_undone(world: World) -> None:
    """Undo all that is in force, latest first: what stays is what documents say."""
    kb = world.kb()
    for item in reversed(kb.assertions().items):
        kb.undo(item.observation_id)
    assert kb.assertions().items == ()
    with world.workspace.catalog.database.begin("default") as c:
        c.exec_driver_sql("DELETE FROM assertion")
    plain = world.replay("plain")
    assert differences(graph(kb), graph(world.kb(home=plain))) == {}
