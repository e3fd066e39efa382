"""Threads of Reddit as documents: what is said leads to its bytes, and what was taken away is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import REDDIT_THREAD, ParsedDocument
from taboot_pipelines.sources import document_forms


def read(resource: Any) -> tuple[ParsedDocument, bytes]:
    data = json.dumps(resource, ensure_ascii=False, indent=2).encode()
    return parse_document(
        data,
        path="p",
        mime=REDDIT_THREAD,
        charset="utf-8",
        languages=[],
        max_chars=100_000,
        forms=document_forms(),
    ), data


def test_a_thread_states_its_author_date_and_flair() -> None:
    post = {
        "id": "a",
        "title": "Wie sichert ihr?",
        "author": "ann",
        "subreddit": "homelab",
        "created_utc": 1_700_000_000.0,
        "link_flair_text": "Backup",
        "selftext": "Größe: 5 €",
        "is_self": True,
        "permalink": "/r/homelab/comments/a/x/?ref=search_posts",
    }
    parsed, data = read({"post": post, "comments": [], "omitted": 0})
    assert parsed.title == "Wie sichert ihr?" and parsed.date is not None and parsed.date.year == 2023
    assert parsed.metadata == {
        "author": "ann",
        "keywords": ["Backup"],
        "canonical_url": "https://www.reddit.com/r/homelab/comments/a/x/",
    }
    at = parsed.text.index("Größe: 5 €")
    assert data[slice(*parsed.offsets.to_bytes(at, at + 10))].decode() == "Größe: 5 €"


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ({"post": {"title": "t", "selftext": "[removed]"}}, "E_EMPTY"),
        ({"post": {"title": "t", "removed_by_category": "moderator"}}, "E_EMPTY"),
        ({"post": {"selftext": "x"}}, "E_PARSE"),
        ([], "E_PARSE"),
    ],
)
def test_what_is_no_thread(resource: Any, code: str) -> None:
    with pytest.raises(TabootError, match=code):
        read(resource)
    with pytest.raises(TabootError, match="E_PARSE"):
        parse_document(
            b"\xff",
            path="p",
            mime=REDDIT_THREAD,
            charset=None,
            languages=[],
            max_chars=10,
            forms=document_forms(),
        )


bodies = st.sampled_from(
    ["said", "two\nlines", "[deleted]", "[removed]", "", "# head\n> quote", "é\r\n😀", None]
)


@given(st.lists(st.tuples(bodies, st.integers(0, 12)), max_size=12))
def test_any_comments_are_read_and_none_that_was_taken_away(comments: list[tuple[Any, int]]) -> None:
    told = [
        {"id": f"c{n}", "body": body, "author": f"user{n}", "depth": depth, "created_utc": n}
        for n, (body, depth) in enumerate(comments)
    ]
    parsed, data = read({"post": {"title": "t"}, "comments": told, "omitted": 0})
    assert "[deleted]" not in parsed.text and "[removed]" not in parsed.text
    for n, (body, _) in enumerate(comments):
        shown = f"u/user{n}*" in parsed.text or f"u/user{n}," in parsed.text
        assert not shown or body not in ("[deleted]", "[removed]")
        if body and body.strip() and not body.startswith("["):
            assert shown
    assert int(parsed.offsets.byte_end.max(initial=0)) <= len(data)
