"""Databases, caches and brokers: who uses which, and what two services share. A house of three projects in
which most stores are not called as what they run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taboot_pipelines import KnowledgeBase
from taboot_pipelines.retrieval.answering.fact_answers import FactAnswer, answer_from_facts
from taboot_pipelines.retrieval.session import View
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow

BOOKS = """\
services:
  shelf:
    image: acme/shelf:2
    environment: {DATABASE_URL: "postgres://u@records:5432/x", CACHE: "redis://quick:6379"}
    depends_on: [records]
  reader:
    image: acme/reader:2
    environment: {DB_HOST: records}
  records: {image: "postgres:16"}
  quick: {image: "valkey/valkey:8"}
  lamp: {image: "acme/lamp:1"}
  keeper: {image: "acme/keeper:1"}
  lender: {image: "acme/lender:1", environment: {DB_HOST: records}}
"""
MONEY = """\
services:
  money:
    image: acme/money:1
    environment: {DB_URL: "postgres://u@db:5432/m"}
    depends_on: [db]
  teller:
    image: acme/money:1
    ports: ["7070:7070"]
    environment: {DB_URL: "postgres://u@db:5432/m"}
  db: {image: "postgres:15"}
"""
POST = """\
services:
  sorter:
    image: acme/sorter:1
    environment: {QUEUE: "amqp://letters:5672", SESSIONS: "redis://valkey:6379"}
  letters: {image: "rabbitmq:4"}
  valkey: {image: "valkey/valkey:8"}
"""
POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: papers, namespace: apps}
spec:
  template:
    spec:
      containers:
        - {name: main, image: "acme/papers:2"}
        - {name: redis, image: "redis:7.2.4"}
"""
NOTES = """\
# Books

## Services

| Service | Image | Depends on |
|---|---|---|
| `shelf` | `acme/shelf:2` | `records` |
| `shelf-backup` | `acme/backup:3` | `records` |

## Keeper

The keeper keeps its data in an SQLite database in its own volume.
"""


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with FakeTei() as tei:
        world = World(tmp_path_factory.mktemp("stores"), tei.url)
        stacks = world.source("stacks", "compose", host="hearth.lan")
        for project, text in (("books", BOOKS), ("money", MONEY), ("post", POST)):
            (stacks / project).mkdir()
            (stacks / project / "compose.yaml").write_text(text)
        (world.source("notes", "files") / "books.md").write_text(NOTES)
        (world.source("cluster", "files", interpret=True) / "papers.yaml").write_text(POD)
        world.ingest()
        yield world.kb()
        world.workspace.close()


@pytest.fixture(scope="module")
def view(kb: KnowledgeBase) -> View:
    return kb._session.view()


def ask(view: View, question: str) -> FactAnswer:
    answer = answer_from_facts(view, question)
    assert answer is not None and answer.found, answer
    return answer


@pytest.mark.parametrize(
    ("question", "said", "unsaid"),
    [
        # A store by what it runs, whatever it is called.
        ("which services use postgres?", ["shelf", "reader", "money", "teller"], ["sorter"]),
        ("which services use redis?", ["papers"], ["shelf"]),
        ("who uses valkey?", ["shelf", "sorter"], ["money", "reader"]),
        ("who uses a valkey cache?", ["shelf", "sorter"], ["money"]),
        # The database of a thing is not that thing.
        ("who uses the money database?", ["money and teller use db"], ["shelf"]),
        ("what depends on the database of money?", ["money depends on db"], ["shelf"]),
        # What only a document names is said apart.
        (
            "who uses records?",
            ["shelf, reader and lender use records", "document says so of shelf-backup"],
            [],
        ),
        # Which store a thing uses.
        (
            "which database does shelf use?",
            ["shelf (books) uses records, which runs postgres:16."],
            ["quick"],
        ),
        ("which cache does shelf use?", ["shelf (books) uses quick, which runs valkey:8."], ["records"]),
        ("which broker does sorter use?", ["sorter (post) uses letters, which runs rabbitmq:4."], ["valkey"]),
        ("which cache does papers use?", ["papers (apps) runs", "redis:7.2.4 beside itself"], ["acme"]),
        # By the project that uses it, with the words that people put beside one; what it keeps is no name.
        (
            "which database server does money use?",
            ["money (money) uses db, which runs postgres:15."],
            ["runs on"],
        ),
        ("which message broker does the post stack use?", ["sorter (post) uses letters"], ["valkey"]),
        ("which postgres belongs to books?", ["shelf (books) uses records", "reader"], ["money"]),
        ("what database does shelf keep its novels in?", ["shelf (books) uses records"], []),
        ("what is shelf's database", ["shelf (books) uses records, which runs postgres:16."], []),
        ("who connects to the letters container?", ["sorter"], []),
        # What two use.
        ("do shelf and reader share a database?", ["Yes", "both use records"], ["network"]),
        ("do shelf and money use the same database?", ["No", "records", "db"], ["network"]),
        ("do money and teller use the same postgres?", ["Yes", "both use db"], []),
        ("what do shelf and reader both depend on?", ["both use records"], []),
        ("do shelf and reader share a network?", ["Yes", "network"], ["records"]),
        (
            "do shelf, reader and lender all use one postgres?",
            ["Yes", "shelf (books), reader (books) and"],
            [],
        ),
        # By what speaks the same protocol, where none runs what is named.
        ("do shelf and sorter use the same redis?", ["No", "uses quick", "uses valkey"], ["records"]),
        # Exceptions, and what is set against what is asked.
        ("does anything besides shelf use records?", ["Yes: reader and lender use records"], ["shelf use"]),
        ("who other than shelf, reader and lender uses records?", ["nothing but shelf, reader and"], []),
        ("apart from money and teller, does something use the money db?", ["No: nothing but money"], []),
        (
            "which services use postgres rather than redis?",
            ["shelf", "reader", "money", "teller"],
            ["papers"],
        ),
        ("who uses the records in the books stack?", ["shelf, reader and lender use records"], []),
    ],
)
def test_who_uses_a_store_and_who_shares_it(
    view: View, question: str, said: list[str], unsaid: list[str]
) -> None:
    text = ask(view, question).text
    for part in said:
        assert part in text, text
    for part in unsaid:
        assert part not in text, text


@pytest.mark.parametrize(
    "question",
    [
        # They are on one network, and lamp has no database that is known.
        "do shelf and lamp share a database?",
        "do lamp and reader use the same cache?",
        "do shelf and sorter talk to the same broker?",
        # What it uses besides is no answer.
        "which database does sorter use?",
        "which cache does reader use?",
        # The port of teller itself is none either.
        "on which port does teller reach its cache?",
    ],
)
def test_that_one_has_none_that_is_known_is_no_ground_for_a_no(view: View, question: str) -> None:
    answer = answer_from_facts(view, question)
    assert answer is None or not answer.found, answer


def test_what_a_service_is_besides_is_no_answer_out_of_text_either(kb: KnowledgeBase) -> None:
    assert not kb.answer("which database does lamp use?").found
    assert not kb.answer("what database does sorter use?").found
    told = kb.answer("which database does keeper use?")
    assert "SQLite" in " ".join((told.text, *(c.text for c in told.closest)))
