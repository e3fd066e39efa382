"""What a tool says is bounded, goes on where it ended, and marks what documents say."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.mcp.texts import MARK, MAX_CHARS, Page, plain, quoted, start_of

ANY = st.text(st.characters(), max_size=300)


@given(st.lists(st.text(max_size=900), max_size=60), st.lists(ANY, max_size=3))
def test_all_pages_together_have_each_item_once_and_none_is_too_long(
    items: list[str], notes: list[str]
) -> None:
    given = [f"<{n}> {plain(item, 800)}" for n, item in enumerate(items)]
    seen: list[int] = []
    start = 0
    for _ in range(len(items) + 1):
        text = Page("lead", given, start, [plain(n) for n in notes]).text()
        assert len(text) <= MAX_CHARS
        seen += [int(n) for n in re.findall(r"(?m)^<(\d+)> ", text)]
        on = re.search(r"go on with cursor=(\d+)\)$", text)
        if on is None:
            break
        assert int(on[1]) > start
        start = start_of(on[1])
    assert seen == list(range(len(items)))


@given(ANY)
def test_no_line_of_a_document_stands_without_its_mark(text: str) -> None:
    for blank in (False, True):
        for line in quoted(text, blank=blank).split("\n"):
            assert line.startswith(MARK) or not line
            assert line.isprintable()


@given(ANY)
def test_a_name_is_one_line(text: str) -> None:
    assert plain(text).isprintable() and len(plain(text)) <= 400


@pytest.mark.parametrize("cursor", ["-1", "x", "1.5", "٣", "9" * 20])
def test_a_cursor_of_somebody_else_is_refused(cursor: str) -> None:
    with pytest.raises(TabootError, match="cursor"):
        start_of(cursor)
