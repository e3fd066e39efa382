"""The harness over other people's gold: what a model says right counts, and nothing else is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks.gold import outside_llm
from benchmarks.gold.outside_llm import SETS, OutsideSet, Passage, score
from taboot_pipelines.inference.chat.openai import OpenAiChat
from taboot_pipelines.settings import LlmSettings
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.fakes.reading_model import window_of


def told(outside: OutsideSet, passage: Passage, text: str) -> list[dict[str, Any]]:
    """The gold's facts that stand in a line of the text, in the words of the schema."""
    found = []
    for gold in passage.facts:
        relation = outside.ontology.by_type.get(gold.relation, outside.ontology.relations[0])
        for line in text.split("\n"):
            spots = (line.find(gold.start), line.find(gold.end))
            last = max(spots[0] + len(gold.start), spots[1] + len(gold.end))
            if min(spots) >= 0 and last - min(spots) <= 400:
                types = {"start_type": relation.start[0], "end_type": relation.end[0]}
                ends = {"start": gold.start, "relation": relation.type, "end": gold.end}
                found.append({"quote": line[min(spots) : last], **ends, **types})
                break
    return found


@pytest.mark.parametrize("name", sorted(SETS))
def test_what_the_gold_says_counts_and_what_nobody_says_is_not_left(data: Path, name: str) -> None:
    for outside in SETS[name](data / name):
        passages = outside.passages[:12]
        with FakeOpenAi(context=10**6) as llm:

            def react(body: dict[str, Any], outside: OutsideSet = outside) -> str:
                text = window_of(body)
                facts = [f for p in outside.passages[:12] for f in told(outside, p, text)]
                relation = outside.ontology.relations[0]
                types = {"start_type": relation.start[0], "end_type": relation.end[0]}
                invented = {"start": "Atlantis", "relation": relation.type, "end": "Avalon", **types}
                return orjson.dumps({"facts": [*facts[:20], {"quote": text[:40], **invented}]}).decode()

            llm.react = react
            chat = OpenAiChat(LlmSettings(url=llm.url, timeout_seconds=60))
            found = score(chat, outside, passages, 8)
            chat.close()
        assert found.failed == 0 and found.said > found.kept >= found.matched > 0
        assert found.kept_conform == found.kept and found.kept_invented == 0 < found.said_invented
        assert 0 < found.recall <= 1 and found.precision > 0.5


def test_it_says_what_it_needs_where_there_is_no_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TABOOT_LLM__URL", raising=False)
    monkeypatch.setattr("sys.argv", ["outside_llm.py"])
    assert outside_llm.main() == 0 and "TABOOT_LLM__URL" in capsys.readouterr().out
