"""Sentences are read as well as before: F1 may lose two points on no set, and a file of labels is checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction import quality

#: What was reached; raised by whoever makes it better.
BASELINE = json.loads(Path(__file__).with_name("baseline.json").read_text("utf-8"))


#: ``open.jsonl`` holds 528 passages beside which the rules of Tier B were written, ``kept.jsonl`` 240 that
#: were written and labelled apart and that no rule was made from. Both were made up for this purpose.
PROSE = Path(__file__).parents[2] / "benchmarks" / "gold" / "prose"


@pytest.mark.parametrize("name", ["open", "kept"])
def test_sentences_are_read_no_worse_than_before(name: str) -> None:
    passages = quality.read_passages(PROSE / f"{name}.jsonl")
    whole = quality.score(quality.found_by_grammar(passages), passages)[quality.ALL]
    assert len(passages) == {"open": 528, "kept": 240}[name] and whole.labelled > 150
    assert whole.f1 >= BASELINE[name]["f1"] - 0.02, whole
    assert whole.precision >= BASELINE[name]["precision"] - 0.02, whole


def test_what_is_found_is_scored_by_relation() -> None:
    text = "# Notes\n\nPlex listens on port 32400.\n"
    label = quality.Labelled("EXPOSES_ENDPOINT", "Plex", "32400")
    passage = quality.Passage(text, 9, len(text), (label,))
    found = quality.found_by_grammar([passage])
    scores = quality.score(found, [passage])
    assert scores["EXPOSES_ENDPOINT"] == quality.Score(1, 1, 1) == scores[quality.ALL]
    wrong = quality.score([[quality.Labelled("BINDS", "Plex", "32400")]], [passage])
    assert wrong["BINDS"] == quality.Score(0, 1, 0) and wrong["EXPOSES_ENDPOINT"].recall == 0.0
    assert wrong[quality.ALL].f1 == 0.0


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        '{"text": "a", "triples": []}',
        '{"text": "a", "sentence": "b", "triples": []}',
        '{"text": "a b", "sentence": "a b", "triples": [["LIKES", "a", "b"]]}',
        '{"text": "a b", "sentence": "a b", "triples": [["DEPENDS_ON", "a", "c"]]}',
        '{"text": "a b", "sentence": "a b", "triples": [["DEPENDS_ON", "a"]]}',
        "[]",
    ],
)
def test_a_line_that_is_no_passage_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text('{"text": "a b", "sentence": "a b", "triples": []}\n\n' + line + "\n")
    with pytest.raises(TabootError, match=r"E_SCHEMA_INVALID.*Line 3") as caught:
        quality.read_passages(path)
    assert "triples" in caught.value.remedy


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TabootError, match="E_PATH"):
        quality.read_passages(tmp_path / "none.jsonl")
