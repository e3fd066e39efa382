"""Titles are found as a whole, on word borders, the longest there, whatever their case, form and blanks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from taboot_pipelines.knowledge.mentions import documents_holding, title_tokens, titles_within, tokens
from taboot_pipelines.knowledge.titles import (
    MAX_TITLE,
    Folded,
    TitleMatcher,
    normalize,
    title_keys,
)

#: No NUL, which no text has, and no end of a paragraph, over which no title reaches.
WORDS = st.text(st.characters(exclude_characters="\0\n", exclude_categories=["Cs"]), max_size=12)


@pytest.mark.parametrize(
    ("title", "keys"),
    [
        ("Mercury (planet)", ("mercury (planet)", "mercury")),
        ("  New\n York ", ("new york",)),
        ("STRASSE", ("strasse",)),
        ("Straße", ("strasse",)),
        ("Ｆｕｌｌ Ｗｉｄｔｈ", ("full width",)),
        ("(all of it)", ("(all of it)",)),
        ("f(x) (a) (b)", ("f(x) (a) (b)", "f(x) (a)")),
        ("C", ()),
        ("C (language)", ("c (language)",)),
        ("…", ()),
        ("x" * (MAX_TITLE + 1), ()),
        ("東京", ("東京",)),
    ],
)
def test_by_what_a_document_may_be_named(title: str, keys: tuple[str, ...]) -> None:
    assert title_keys(title) == keys


@pytest.mark.parametrize(
    ("titles", "text", "expected"),
    [
        (["New York", "York"], "From New  York\nto York.", [("New  York", 1), ("York", 1)]),
        (["New York"], "New\n\nYork, Newer York, New Yorker, renew york", []),
        (["New York"], "(new york)/NEW YORK-based", [("new york", 2)]),
        (["a b", "b c", "bb"], "a b c", [("a b", 1), ("b c", 1)]),
        (["aa bb cc", "bb cc", "bb"], "aa bb cc, bb", [("aa bb cc", 1), ("bb", 1)]),
        (["Café"], "the cafe\u0301 and CAFÉS", [("cafe\u0301", 1)]),
        (["Straße"], "in der STRASSE", [("STRASSE", 1)]),
        (["Mercury (planet)"], "Mercury; Mercury (planet)", [("Mercury", 1), ("Mercury (planet)", 1)]),
        (["東京"], "私は東京へ行く", [("東京", 1)]),
        (["docker"], "Docker入門 dockers", [("Docker", 1)]),
        (["snake case"], "snake case_x snake_case", []),
    ],
)
def test_titles_in_a_text(titles: list[str], text: str, expected: list[tuple[str, int]]) -> None:
    matcher = TitleMatcher(key for title in titles for key in title_keys(title))
    assert [(text[o.start : o.end], o.count) for o in matcher.find(text)] == expected


def test_without_titles_nothing_is_found() -> None:
    assert TitleMatcher([]).find("text") == [] and TitleMatcher(["title"]).find("") == []


@settings(deadline=None)
@given(WORDS, WORDS, WORDS)
@example("0", "00 \u00b4", "0")  # becomes a blank and an accent
def test_a_title_is_found_wherever_it_stands(before: str, title: str, after: str) -> None:
    keys = title_keys(title)
    assume(keys)
    text = f"{before} {title} {after}"
    (found,) = (o for o in TitleMatcher(keys[:1]).find(text) if o.title == keys[0])
    assert 0 <= found.start < found.end <= len(text)
    assert keys[0] in normalize(text[found.start : found.end])
    # The index leads to the text.
    assert set(title_tokens(keys[0])) <= set(tokens(text))
    index = pa.table({"doc_id": ["d"], "tokens": pa.array([tokens(text)], pa.list_(pa.int64()))})
    assert documents_holding([], index, [keys[0]]) == {"d"}


@settings(deadline=None)
@given(st.text(max_size=40))
def test_every_place_leads_back_into_the_text(text: str) -> None:
    folded = Folded(text)
    reached = 0
    for at in range(len(folded.text)):
        start, end = folded.original(at, at + 1)
        assert reached <= start <= end <= len(text)
        reached = start
    assert normalize(normalize(text)) == normalize(text)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=6), st.lists(WORDS, max_size=6), st.data())
def test_few_titles_find_as_much_as_all_of_them(
    titles: list[str], around: list[str], data: st.DataObject
) -> None:
    keys = sorted({key for title in titles for key in title_keys(title)})
    held = data.draw(st.lists(st.sampled_from([*titles, *keys, "x"]), max_size=4))
    glue = data.draw(st.sampled_from([" ", "", "_", "-", "\n\n", "東"]))
    text = glue.join(data.draw(st.permutations([*around, *held])))
    few = titles_within(pa.array(keys, pa.string()), [text])
    assert set(few.to_pylist()) <= set(keys)
    assert TitleMatcher(few.to_pylist()).find(text) == TitleMatcher(keys).find(text)


def test_titles_of_other_words_are_not_looked_for() -> None:
    titles = pa.array(["service 1", "service 12", "guide: service (2)", "東京", "12", "é"], pa.string())
    kept = titles_within(titles, ["Service 12 and 東京", "a guide"]).to_pylist()
    assert kept == ["service 12", "東京", "12", "é"]
