"""Questions whose answers are known, counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.world import World

RUNBOOK = """# Backups

Restic keeps 7 daily, 4 weekly and 6 monthly snapshots.

Jonas Okafor looks after the proxy.
"""
QUESTIONS = [
    {
        "id": "a",
        "kind": "prose",
        "question": "How long does restic keep snapshots?",
        "must": ["7 DAILY"],
        "evidence": ["runbooks/backups.md"],
        "answer": "7 daily ones",
    },
    {"kind": "prose", "question": "who looks after the proxy", "must": ["Jonas"], "evidence": ["other.md"]},
    {"kind": "prose", "question": "how long does restic keep snapshots", "must": ["9 daily"]},
    {"kind": "prose", "question": "What is the capital of Australia?", "must": ["Canberra"]},
    {"kind": "none", "question": "What is the capital of Austria?"},
    {"kind": "none", "question": "Who looks after the proxy?"},
]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    world = World(tmp_path_factory.mktemp("evaluation"), None)
    (world.source("runbooks") / "backups.md").write_text(RUNBOOK)
    world.ingest()
    world.workspace.close()
    return world.kb()


def test_answers_are_judged_by_what_they_say_and_cite(kb: KnowledgeBase, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text("\n\n".join(map(json.dumps, QUESTIONS)), encoding="utf-8")
    found = kb.evaluate(file)
    assert [row.verdict for row in found.rows] == ["right", "wrong", "wrong", "unanswered", "right", "wrong"]
    assert [(s.kind, s.asked, s.right, s.wrong, s.unanswered) for s in found.scores] == [
        ("prose", 4, 1, 2, 1),
        ("none", 2, 1, 1, 0),
        ("all", 6, 2, 3, 1),
    ]
    assert found.rows[0].cited[0].endswith("runbooks/backups.md") and found.rows[2].missing == ("9 daily",)
    table = found.to_arrow()
    assert table.column("verdict").to_pylist() == [row.verdict for row in found.rows]
    assert table.num_rows == len(QUESTIONS) and "unanswered" in found._repr_html_()
    assert kb.evaluate(str(file), mode="keyword") == kb.evaluate(QUESTIONS, mode="keyword")
    assert [s.asked for s in kb.evaluate([]).scores] == [0]


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b'{"question": "a?"}\n{"question": ', "E_PARSE", "Question 2"),
        (b'{"kind": "prose"}', "E_PARSE", "question"),
        (b'["a?"]', "E_PARSE", "Question 1"),
        (b'{"question": "a?", "must": ["("]}', "E_PARSE", "regular expression"),
        ('{"question": "größer?"}'.encode("latin-1"), "E_ENCODING", "UTF-8"),
        (None, "E_PATH", "cannot be read"),
    ],
)
def test_what_is_no_file_of_questions_is_named(
    kb: KnowledgeBase, tmp_path: Path, content: bytes | None, code: str, said: str
) -> None:
    file = tmp_path / "questions.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(TabootError) as caught:
        kb.evaluate(file)
    assert caught.value.code == code and said in caught.value.message


def test_what_people_think_of_answers_is_asked_again(tmp_path: Path) -> None:
    world = World(tmp_path, None)
    guides = world.source("runbooks")
    (guides / "backups.md").write_text(RUNBOOK)
    (guides / "lamps.md").write_text("# Lamps\n\nThe lantern hangs in the hall.\n")
    world.ingest()
    kb = world.kb()
    asked, wrong, lamp = QUESTIONS[0]["question"], "who looks after the proxy", "Where does the lantern hang?"
    kb.feedback(asked, "right", note="as it was", who="jo")
    kb.feedback(wrong, "wrong", must=["Petra"])
    kb.feedback("Who owns the moon?", "wrong")
    kb.feedback("What is the capital of Austria?", "none")
    kb.feedback(lamp, "right")
    found = kb.evaluate()
    assert [(r.question, r.kind, r.verdict) for r in found.rows] == [
        (asked, "feedback", "right"),
        (wrong, "feedback", "wrong"),
        ("What is the capital of Austria?", "none", "right"),
        (lamp, "feedback", "right"),
    ], "of one that is wrong it must be known what is right"
    # The last opinion of a question holds, and one that is taken back is gone.
    kb.feedback(wrong, "right")
    assert [r.verdict for r in kb.evaluate().rows] == ["right"] * 4
    kb.feedback(wrong, None)
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        kb.feedback(wrong, None)
    first = kb.feedbacks()[0]
    assert (first.question, first.verdict, first.note, first.who) == (asked, "right", "as it was", "jo")
    # Another namespace sees none of them, and takes none back.
    other = KnowledgeBase(kb.settings, "other")
    other.feedback(asked, "none")
    assert [item.verdict for item in other.feedbacks()] == ["none"]
    other.feedback(asked, None)
    assert other.feedbacks() == () and len(kb.feedbacks()) == 4
    # What an answer said is kept nowhere; what is erased takes with it what was thought of its answers.
    (backups,) = first.doc_ids
    assert "7 daily" not in str(kb.feedbacks())
    kb.delete([backups], erase=True)
    assert asked not in {item.question for item in kb.feedbacks()}
    assert lamp in {item.question for item in kb.feedbacks()}


@pytest.mark.parametrize(
    ("verdict", "given"),
    [
        ("good", {}),
        ("none", {"must": ["a"]}),
        ("wrong", {"must": ["("]}),
        ("wrong", {"note": 5}),
        ("wrong", {"note": "x" * 100_000}),
        ("wrong", {"question": "x" * 3000}),
        ("wrong", {"question": ""}),
    ],
)
def test_opinions_that_are_none_are_refused(kb: KnowledgeBase, verdict: str, given: dict[str, Any]) -> None:
    before = kb.feedbacks()
    with pytest.raises(TabootError, match=r"E_QUERY|E_ENTITY_VALIDATION|E_ASSERTION"):
        kb.feedback(**{"question": "Who?", "verdict": verdict, **given})
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        kb.feedback("What is the capital of Austria?", "right")
    assert kb.feedbacks() == before
