"""Who is to blame where a server fails: a window, or the server; over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction import tier_c
from taboot_pipelines.inference.chat.openai import OpenAiChat
from taboot_pipelines.knowledge.window_requests import (
    RequestSettings,
    WindowRequest,
    WindowRequester,
    question_tokens,
)
from taboot_pipelines.settings import LlmSettings, Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.fakes.reading_model import reads, window_of


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    settings = Settings(home=tmp_path)
    opened = open_catalog(settings, open_leases(settings))
    yield opened
    opened.close()


def run(
    catalog: Catalog, poisoned: set[int], count: int, down: bool = False
) -> tuple[WindowRequester, list[str]]:
    """Ask about so many windows of a server that fails at some of them, or at all."""
    asking = RequestSettings(tier_c.GRAPH, "fake/llm", tier_c.token_counter(), at_once=1)
    windows = [tier_c.windows(f"Here svc{i} depends on db{i}.", asking.counter)[0] for i in range(count)]
    questions = [
        WindowRequest(tier_c.key(asking.ontology, w, asking.model), w, question_tokens(asking, w))
        for w in windows
    ]
    told: list[str] = []

    def failed(question: WindowRequest, error: TabootError) -> None:
        told.append(f"{question.window.text.split()[1]} {error.code}")

    with FakeOpenAi(context=10**6) as llm:

        def react(body: dict[str, object]) -> str | None:
            if down or any(f"svc{i} " in window_of(body) for i in poisoned):
                raise ConnectionError
            return reads(body)

        llm.react = react
        chat = OpenAiChat(LlmSettings(url=llm.url, max_retries=0, timeout_seconds=20), backoff_seconds=0.01)
        asker = WindowRequester(catalog, "default", chat, asking, failed, lambda _done, _total: None)
        answers = asker.ask(questions)
        asker.end()
        chat.close()
    assert len(answers) + len(told) + asker.account.waiting == count
    return asker, told


def test_a_window_at_which_a_server_breaks_that_answers_the_others_is_told(catalog: Catalog) -> None:
    asker, told = run(catalog, {1, 5}, 6)
    assert told == ["svc1 E_LLM", "svc5 E_LLM"] and asker.account.stopped is None


def test_a_server_that_answers_nothing_is_left_alone_and_no_window_is_blamed(catalog: Catalog) -> None:
    asker, told = run(catalog, set(), 9, down=True)
    assert told == [] and asker.account.asked == 3 and asker.account.waiting == 9
    assert asker.account.stopped is not None and asker.account.stopped.code == "E_LLM"


def test_a_server_that_goes_away_on_the_way_keeps_what_it_answered(catalog: Catalog) -> None:
    asker, told = run(catalog, {3, 4, 5, 6, 7, 8}, 9)
    assert told == [] and asker.account.waiting == 6 and asker.account.asked == 6
