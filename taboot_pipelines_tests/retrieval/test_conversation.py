"""Conversations: a follow-up is asked as the full question that it means, and the answer says which."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

STACK = """services:
  web: {image: nginx:1.27, ports: ["8080:80"], depends_on: [cache], mem_limit: 256m}
  cache: {image: redis:7.4, ports: ["6380:6379"], mem_limit: 64m}
  worker: {image: busybox:1.36, depends_on: [cache, web]}
"""


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with FakeTei(dimension=16) as embedder:
        world = World(tmp_path_factory.mktemp("conversation"), embedder.url)
        (world.source("stack", "compose") / "compose.yaml").write_text(STACK)
        world.ingest()
        yield world.kb()
        world.workspace.close()


@pytest.mark.parametrize(
    ("questions", "asked", "says"),
    [
        (["Which port does web publish?", "and its image?"], "and web's image?", "nginx:1.27"),
        (["Which port does web publish?", "what about cache?"], "Which port does cache publish?", "6380"),
        (["Which port does web publish?", "and cache?"], "Which port does cache publish?", "6380"),
        (["Which port does web publish?", "cache"], "Which port does cache publish?", "6380"),
        (["Which port does web publish?", "memory limit"], "memory limit of web?", "256m"),
        (["What does worker need?", "Which image does it use?"], "Which image does worker use?", "busybox"),
        # The last thing is that of the last question, wherever it came from.
        (
            ["Which port does web publish?", "what about cache?", "What depends on it?"],
            "What depends on cache?",
            "worker",
        ),
        # A whole question leans on nothing.
        (["Which port does web publish?", "What does worker need?"], "What does worker need?", "cache"),
        # Circles come to an end.
        (["and it?", "it?", "What about it?", "image of web"], "image of web", "nginx"),
    ],
)  # fmt: skip
def test_a_follow_up_is_asked_as_the_question_that_it_means(
    kb: KnowledgeBase, questions: list[str], asked: str, says: str
) -> None:
    talk = kb.conversation()
    for question in questions:
        answer = talk.ask(question)
    assert (answer.question, answer.found) == (asked, True)
    assert says in answer.text and answer.citations
    assert [a.question for a in talk.answers][-1] == asked and len(talk.answers) == len(questions)
    assert kb.answer(asked) == answer


def test_a_question_that_fails_is_forgotten(kb: KnowledgeBase) -> None:
    talk = kb.conversation()
    talk.ask("Which port does web publish?")
    for wrong in ("", " ", "x" * 200_000):
        with pytest.raises(TabootError) as error:
            talk.ask(wrong)
        assert error.value.code == "E_QUERY"
    assert len(talk.answers) == 1
    assert talk.ask("and its image?").question == "and web's image?"
    with pytest.raises(TabootError):
        kb.conversation(0)


def test_two_conversations_know_nothing_of_each_other(kb: KnowledgeBase) -> None:
    one, other = kb.conversation(), kb.conversation()
    one.ask("Which port does web publish?")
    other.ask("Which port does cache publish?")
    assert one.ask("and its image?").question == "and web's image?"
    assert other.ask("and its image?").question == "and cache's image?"
