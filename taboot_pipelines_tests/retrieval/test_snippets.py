"""The passage that is shown for a hit."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.retrieval.snippets import best_lines, heading, snippet

PAGE = """\
---
title: Backups
tags: [restic, backup]
---
# Backups

## Restore

Nothing of note stands in this first sentence, nor in the one that follows it here.
To restore a database, stop the service, run `restic restore latest` and start it again.
"""


def marks(text: str, *words: str) -> list[tuple[int, int]]:
    return sorted(m.span() for w in words for m in re.finditer(re.escape(w), text, re.IGNORECASE))


def test_the_passage_that_matched_is_shown_and_front_matter_is_not() -> None:
    shown = snippet(PAGE, marks(PAGE, "restore", "restic"), 70)
    assert "title" not in shown.text and "#" not in shown.text
    assert "run `restic restore" in shown.text and shown.before and len(shown.text) <= 75
    bright = [text for word in shown.words for text, hit in word.pieces if hit]
    assert set(bright) == {"restore", "restic"}
    # Without a match it begins where the text does.
    assert snippet(PAGE, [], 40).text.startswith("Nothing of note")


def test_front_matter_is_shown_where_nothing_else_matched() -> None:
    assert "backup]" in snippet(PAGE, marks(PAGE, "tags"), 400).text
    assert snippet("---\nonly: this\n---\n", [], 99).text == "--- only: this ---"
    assert snippet("# Alone\n", [], 99).text == "# Alone"
    assert snippet("", [], 99).text == ""


def test_the_rule_of_a_table_is_no_word() -> None:
    table = "# Dumps\n\n| db | file |\n|---|:--|\n| forge | a--b.sql |\n"
    assert snippet(table, marks(table, "db", "forge"), 99).text == "| db | file | | forge | a--b.sql |"


def test_the_lines_that_have_most_of_the_words_are_chosen() -> None:
    text = "one\n\ntwo\nthree key\n\nfour key\nfive secret\nsix\n"
    # Of "two, three, four" and "four, five, six" the latter has both words.
    assert best_lines(text, marks(text, "key", "secret"), 3) == 2
    assert best_lines(text, marks(text, "key", "secret"), 2) == 3
    assert best_lines(text, [], 3) == 0 and best_lines(text, marks(text, "secret"), 9) == 0
    assert best_lines("", [], 3) == 0


def test_headings_are_not_repeated() -> None:
    assert heading("Backups", "Backups") == "Backups"
    assert heading("Backups", "Backups > Restore") == "Backups > Restore"
    assert heading("Backups", "Restore") == "Backups > Restore" and heading("Backups", "") == "Backups"


@given(st.data(), st.integers(10, 80))
def test_a_snippet_is_a_bounded_part_of_its_text(data: st.DataObject, length: int) -> None:
    text = data.draw(st.text(st.sampled_from("ab \n#-é*"), max_size=200))
    ends = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    found = sorted({(min(a, b), max(a, b)) for a, b in data.draw(st.lists(ends, max_size=5)) if a != b})
    shown = snippet(text, found, length)
    words = [w.text for w in shown.words]
    everything = text.split()
    assert any(everything[i : i + len(words)] == words for i in range(len(everything) + 1))
    assert len(" ".join(words)) <= length or len(words) == 1
    if words and not shown.before and not shown.after:
        assert everything[-1] == words[-1]
