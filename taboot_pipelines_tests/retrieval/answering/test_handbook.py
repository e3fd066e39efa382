"""Answers out of a handbook: what lists of changes, preparations, orders and questions that a text asks
itself say, words that are shortened, dotted numbers, and sections and things that differ in one word.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from taboot_pipelines.retrieval import Answer, KnowledgeBase
from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.answer_types import Value, carries, read
from taboot_pipelines.retrieval.answering.documents import under_questions
from taboot_pipelines.retrieval.answering.text_query import read_question
from taboot_pipelines.retrieval.sentences import Form, statements
from taboot_pipelines_tests.world import World

FERRY = """\
# Loading and unloading of the ferry

## Before you load

- Lower the ramp and lock it.
- Ask the bridge for a free deck.

## Loading

Cars go first. It takes about 25 minutes.

## Unloading

Lorries go first.

## Order of the decks

1. Deck four, with the lorries.
2. Deck two.
3. Deck three, when the others are full.

## Staff

The lockers of hall B are emptied in May. The pump in hall C holds 40 litres.
Kubernetes runs on the second pier. The mean time between two failures is noted as MTBF in the log.
"""
CHANGES = """\
# Changes of deckhand

## 4.2.0 – 2026-04-01

### Added

- Lorries can be weighed on the ramp.
- A tide table for the week.

## 4.1.0 – 2026-01-15

### Removed

- Support for Oracle.
"""
ASKED = """\
Q: Do dogs need a muzzle on the ferry?
A: No, a lead is enough. Keep them off the seats.

Q: Where can I charge a bicycle?
A: At the two sockets beside the kiosk.

Harbour office: Lena Voss decides, +49 40 555 0199, office@harbour.example. The crane lifts up to 12 t. Its
batteries last for two and a half hours.
"""


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    world = World(tmp_path_factory.mktemp("handbook"), None)
    docs = world.source("handbook")
    for name, text in (("ferry.md", FERRY), ("CHANGES.md", CHANGES), ("asked.md", ASKED)):
        (docs / name).write_text(text)
    world.ingest()
    world.workspace.close()
    return world.kb()


def cited(answer: Answer) -> list[str]:
    return [Path(c.url).read_text().splitlines()[(c.line or 1) - 1].strip() for c in answer.citations]


@pytest.mark.parametrize(
    ("question", "needed"),
    [
        ("In which order are the decks of the ferry filled?", ["Deck four", "Deck two", "Deck three"]),
        ("what changed in deckhand 4.2", ["weighed", "tide table"]),
        ("may a dog travel on the ferry without a muzzle", ["a lead is enough"]),
        ("where to charge my bicycle", ["two sockets"]),
        ("how long does loading the ferry take", ["25 minutes"]),
        ("how long do the batteries of the crane last", ["two and a half hours"]),
        ("phone number of the harbour office", ["+49 40 555 0199"]),
    ],
)
def test_what_the_handbook_says_is_found(kb: KnowledgeBase, question: str, needed: list[str]) -> None:
    answer = kb.answer(question)
    assert answer.found, question
    assert all(value in answer.text for value in needed), answer.text
    assert cited(answer)


@pytest.mark.parametrize(
    "question",
    [
        "what changed in deckhand 4.3.0",
        "what is new in deckhand 2.4",
        "what runs on the third pier?",
        "phone number of the crane",
        "e-mail address of deckhand",
    ],
)
def test_what_it_says_of_another_thing_is_no_answer(kb: KnowledgeBase, question: str) -> None:
    answer = kb.answer(question)
    assert not answer.found, answer.text


@pytest.mark.parametrize(
    ("said", "form", "holds"),
    [
        ("version 3.2.0 is out", "3.2.0", True),
        ("v3.2.0 is out", "3.2", True),
        ("since 3.2.0", "3.3.0", False),
        ("since 2.30", "3.2", False),
        ("at 10.0.0.5", "10.0.5.0", False),
    ],
)
def test_a_dotted_number_is_found_whole_or_by_its_beginning(said: str, form: str, holds: bool) -> None:
    (term,) = [t for t in read_question(form, lambda _: 5.0).terms if t.form == form]
    assert not term.parts
    assert (form in words.forms(said)) is holds


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("reset the turnstile", Value.STEPS),
        ("please close our kiosk", Value.STEPS),
        ("list the decks", None),
        ("behind the kiosk", None),
        ("how much time does it take", Value.DURATION),
        ("how far ahead may I book", Value.DURATION),
        ("hotline of the harbour", Value.PHONE),
        ("which e-mail address has the office", Value.EMAIL),
        ("water temperature", Value.NUMBER),
        ("what has to be done on Mondays", Value.STEPS),
        ("what is the retention period", Value.DURATION),
        ("which period is the dock closed", Value.MOMENT),
    ],
)
def test_a_question_asks_for_a_kind_of_value(question: str, value: Value | None) -> None:
    assert read(question).value is value


def test_a_phone_number_is_no_date_and_no_version() -> None:
    for said in ("since 2026-01-19", "version 4.2.0", "10.40.0.5", "12 t"):
        assert not carries(Value.PHONE, said, frozenset())
    for said in ("+49 40 555 0199", "call 01632 960412", "ext. 17"):
        assert carries(Value.PHONE, said, frozenset())


def test_questions_of_a_text_head_what_follows_them() -> None:
    found = under_questions(statements(ASKED, code=False))
    asked = {s.said: s.section for s in found}
    assert asked["No, a lead is enough."] == "Do dogs need a muzzle on the ferry?"
    assert asked["At the two sockets beside the kiosk."] == "Where can I charge a bicycle?"
    assert [s.said for s in found if s.form is Form.HEADING] == [
        "Do dogs need a muzzle on the ferry?",
        "Where can I charge a bicycle?",
    ]


def test_one_question_alone_heads_nothing() -> None:
    plain = statements("Why bother?\n\nBecause it is cheap.\n", code=False)
    assert under_questions(plain) == plain


def test_a_letter_and_a_word_in_capitals_tell_things_apart() -> None:
    assert [t.form for t in read_question("pump in hall b", lambda _: 5.0).terms] == ["pump", "hall", "b"]
    assert "go" in [t.form for t in read_question("what does GO light up", lambda _: 5.0).terms]
    assert "go" not in [t.form for t in read_question("where does it go", lambda _: 5.0).terms]
