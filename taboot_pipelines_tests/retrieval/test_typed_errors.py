"""Whatever a knowledge base is asked, over public houses too, only typed errors come."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import DATA, World

HOUSES = DATA / "house-questions"
#: What no argument of any method means.
ODD: list[Any] = ["", " ", "\x00", "\ud800", "`*`", "a" * 20_000, "(", "%", "'", "{}", "[]", "null", "🦊",
                  "-1", None, 5, b"x", [], [None], {}, float("nan"), object()]  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HOUSES.is_dir(), reason="needs the public houses of the test data"),
]


@pytest.fixture(scope="module", params=["astronomy", "seed", "swarm"])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    root = tmp_path_factory.mktemp(request.param)
    shutil.unpack_archive(HOUSES / "houses" / f"{request.param}.tar.xz", root)
    folder = str(root / request.param)
    with FakeTei(dimension=16) as embedder:
        made = World(root / "world", embedder.url)
        made.source("stacks", "compose", path=folder, host="nas.lan", proxy="traefik")
        made.source("files", path=folder, interpret=True, exclude=["**/*compose*.y*ml", "**/.env"])
        made.ingest()
        lines = (HOUSES / "questions.jsonl").read_text().splitlines()
        asked = [q["question"] for q in map(json.loads, lines) if q["house"] == request.param]
        yield made.kb(), asked
        made.workspace.close()


def raised(kb: KnowledgeBase, method: str, given: Sequence[Any], named: Mapping[str, Any]) -> str:
    """What a method raises that is no typed error; empty if nothing."""
    try:
        getattr(kb, method)(*given, **named)
    except TabootError:
        pass
    except Exception as error:
        return repr(error)
    return ""


def test_questions_and_drift_raise_nothing(house: tuple[KnowledgeBase, list[str]]) -> None:
    kb, asked = house
    kb.drift()
    for question in asked[::2]:
        assert kb.answer(question, mode="keyword").question


def test_odd_arguments_are_typed_errors(house: tuple[KnowledgeBase, list[str]]) -> None:
    kb, asked = house
    chance = random.Random(7)
    nodes, edges, documents = (t.to_pylist() for t in (kb.nodes(), kb.edges(), kb.documents()))
    known = [r[c] for r in nodes for c in ("name", "key")]
    numbers = [5, 1, 0, None, "x", 1.5]
    spans = [(), [(0, 5)], [(5, 0)], [(-1, 2)], [("a", "b")], [1], None, "xy", [(1,)]]

    def one(usual: list[Any]) -> Any:
        return chance.choice(ODD if chance.random() < 0.5 else usual)

    for _ in range(30):
        node, other, count = one(known), one(known), chance.choice(numbers)
        document = one([d[c] for d in documents for c in ("doc_id", "path")])
        label, odd, span = one(["Service", "Host"]), chance.choice(ODD), chance.choice(spans)
        question, mode = one(asked), chance.choice(["keyword", "graph", "x", None])
        named = {"label": label}
        calls: list[tuple[str, list[Any], dict[str, Any]]] = [
            ("search", [question, count], {"mode": mode, "source": odd}),
            ("answer", [question, count], {"mode": mode, "tag": odd}),
            ("compare", [question, count], {"domain": odd}),
            ("why_not", [document, question, count], {"path_prefix": odd}),
            ("neighbors", [node, 1, odd, count], named),
            ("neighbors", [node], {}),
            ("show", [node], {"limit": count}),
            ("path", [node, other, count], {}),
            ("explain", [one([e["edge_id"] for e in edges[:50]])], {}),
            ("links", [document, count], {}),
            ("original", [document, span, chance.choice(spans)], {}),
            ("supports", [node], {"limit": count, **named}),
            ("drift", [odd, count], {}),
            ("runs", [odd, one(["A"])], {"status": one(["failed"]), "document": document, "limit": count}),
            ("run", [odd, count], {}),
            ("diff", [odd, one(["active"])], {"source": one(["files"]), "tier": one(["A"])}),
            ("crawls", [odd], {}),
            ("crawl", [odd], {}),
            ("replay", [odd], {}),
            ("clear_cache", [odd, one(["example.org"])], {}),
            ("delete", [chance.choice([odd, [odd], ["nothing"]])], {}),
            ("restore", [chance.choice([odd, [odd]])], {}),
            ("correct", [odd, "image", one(["x"])], {}),
            ("correct_edge", [odd, "port", 1], {}),
            ("merge", [odd, node], {}),
            ("undo", [odd], {}),
            ("ingest_structured", [odd, chance.choice([{}, {"name": odd}, odd])], {}),
            ("ingest_structured_batch", [chance.choice([odd, [odd], [{"type": odd}]])], {}),
            ("promote", [odd], {"source": one(["files"]), "tier": one(["A"])}),
            ("rollback", [chance.choice([odd, [odd]])], {"promotion": one(["x"])}),
            ("reinterpret", [odd, one(["nothing"])], {"tier": one(["Z"])}),
        ]
        for method, given, by_name in calls:
            assert not raised(kb, method, given, by_name), (method, given, by_name)
