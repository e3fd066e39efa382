"""What is found is scored by relation, and a file of labels is checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction import quality


def test_what_is_found_is_scored_by_relation() -> None:
    text = "# Notes\n\nPlex listens on port 32400.\n"
    label = quality.Labelled("BINDS", "Plex", "32400")
    passage = quality.Passage(text, 9, len(text), (label,))
    found = quality.found_by_rules([passage])
    scores = quality.score(found, [passage])
    assert scores["BINDS"] == quality.Score(1, 1, 1) == scores[quality.ALL]
    wrong = quality.score([[quality.Labelled("RUNS", "Plex", "32400")]], [passage])
    assert wrong["RUNS"] == quality.Score(0, 1, 0) and wrong["BINDS"].recall == 0.0
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
