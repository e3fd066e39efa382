"""Threads of GitHub as Markdown: whole, in order, leading back to the bytes, whatever people wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.connectors.api.resources import canonical
from taboot_pipelines.documents.forms.github import beneath
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines.sources import document_forms


def rendered(kind: str, resource: object, data: bytes | None = None) -> ParsedDocument:
    return parse_document(
        canonical(resource) if data is None else data,
        path=f"acme/shop#{kind}",
        mime=f"application/vnd.taboot.github-{kind}+json",
        charset="utf-8",
        languages=[],
        max_chars=100_000,
        forms=document_forms(),
    )


def issue(**more: Any) -> dict[str, Any]:
    return {
        "number": 12,
        "title": "Prüfung `x` #1",
        "body": "Body",
        "state": "closed",
        "state_reason": "not_planned",
        "user": {"login": "ann"},
        "labels": [{"name": "bug"}, "plain"],
        "assignees": [{"login": "bob"}],
        "milestone": {"title": "v2"},
        "created_at": "2024-03-01T10:00:00Z",
        "closed_at": "2024-03-02T10:00:00Z",
        "html_url": "https://github.com/acme/shop/issues/12",
        **more,
    }


def said(body: str | None, at: int, **more: Any) -> dict[str, Any]:
    time = f"2024-03-{at:02}T00:00:00Z"
    return {
        "id": at,
        "user": {"login": "bob"},
        "body": body,
        "created_at": time,
        "submitted_at": time,
        **more,
    }


def test_an_issue() -> None:
    found = rendered(
        "issue", {"issue": issue(), "comments": [said("Second", 5), said("First", 4, user=None)]}
    )
    assert found.title == "Prüfung `x` #1 (#12)"
    assert found.text.startswith("# Prüfung `x` #1 (#12)\n\n- State: closed (not planned)\n- Author: ann\n")
    assert "- Labels: bug, plain\n- Assignees: bob\n- Milestone: v2\n" in found.text
    assert found.text.index("## Description\n\nBody") < found.text.index("## Comment by ghost, 2024-03-04")
    assert found.text.index("First") < found.text.index("## Comment by bob, 2024-03-05T00:00:00Z\n\nSecond")
    assert found.metadata == {
        "author": "ann",
        "canonical_url": "https://github.com/acme/shop/issues/12",
        "keywords": ["bug", "plain"],
        "number": "12",
        "state": "closed (not planned)",
        "milestone": "v2",
        "closed_at": "2024-03-02T10:00:00Z",
    }
    assert found.date is not None and found.date.isoformat() == "2024-03-01T10:00:00+00:00"


def test_a_pull_request_with_reviews_and_lines() -> None:
    hunk = "@@ -1 +1 @@\n-a\n+```b"
    lines = [
        said("Why?", 6, pull_request_review_id=5, path="a b.py", line=None, original_line=4, diff_hunk=hunk),
        said("Because", 7, id=7, in_reply_to_id=6, pull_request_review_id=8),
        said("Alone", 3, pull_request_review_id=99, path="c.py", diff_hunk=None),
    ]
    reviews = [
        said("Nearly", 5, state="CHANGES_REQUESTED"),
        said("", 8, state="COMMENTED"),
        said(None, 9, state="APPROVED"),
    ]
    merged = issue(state="closed", pull_request={"merged_at": "2024-04-01T00:00:00Z"})
    text = rendered(
        "pull",
        {"issue": merged, "comments": [said("Talk", 4)], "reviews": reviews, "review_comments": lines},
    ).text
    order = [
        "- State: merged",
        "- Merged: 2024-04-01T00:00:00Z",
        "## Comment on lines by bob, 2024-03-03",
        "c.py:",
        "Alone",
        "## Comment by bob, 2024-03-04",
        "## Changes requested by bob, 2024-03-05",
        "Nearly",
        "### Comment on lines by bob, 2024-03-06",
        "a b.py, line 4:",
        f"````diff\n{hunk}\n````",
        "Why?",
        "#### Answer by bob, 2024-03-07",
        "Because",
        "## Approved by bob, 2024-03-09",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places) and text.count("## Review") == 0


def test_a_release_and_a_repository() -> None:
    release = {
        "tag_name": "v1",
        "name": None,
        "body": "# Big\n",
        "prerelease": True,
        "author": None,
        "published_at": "2024-01-01T00:00:00Z",
        "html_url": "https://github.com/acme/shop/releases/tag/v1",
        "assets": [{"name": "a.tgz", "size": 12}],
    }
    found = rendered("release", release)
    assert found.title == "v1" and "### Big" in found.text and "- a.tgz, 12 bytes" in found.text
    assert found.metadata["state"] == "pre-release"
    repository = {"full_name": "acme/shop", "description": "A shop.", "archived": True, "topics": ["x", "y"]}
    found = rendered("repository", repository)
    assert found.text.startswith("# acme/shop\n\nA shop.\n\n- Topics: x, y\n- State: archived\n")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("# One\n## Two", "### One\n#### Two"),
        ("###### Six", "###### Six"),
        ("One\r\n===\r\nTwo\n---\n", "### One\n#### Two\n"),
        ("```sh\n# no heading\n```", "```sh\n# no heading\n```"),
        ("```sh\n# open", "```sh\n# open\n```"),
        ("> ```\n> # quoted", "> ```\n> # quoted"),
        ("<!-- a template\n# hidden", "<!-- a template\n# hidden\n-->"),
        ("<details>\n\n# In\n\n</details>", "<details>\n\n### In\n\n</details>"),
        ("- [ ] task @bob\n\n> # quote", "- [ ] task @bob\n\n> ### quote"),
        ("#hashtag, #12 and\n    # code", "#hashtag, #12 and\n    # code"),
        ("| a |\n| - |\n| b |", "| a |\n| - |\n| b |"),
    ],
)
def test_headings_stand_beneath_their_part(body: str, shown: str) -> None:
    found = rendered("issue", {"issue": issue(body=body), "comments": [said("# After", 4)]})
    assert f"## Description\n\n{shown}\n\n## Comment by bob" in found.text
    assert found.text.rstrip().endswith("### After")


LINES = [
    "# a",
    "b\n===",
    "```",
    "~~~~",
    "x `y`",
    "> q",
    "- i",
    "  - # j",
    "<!--",
    "-->",
    "<pre>",
    "é€😀",
    "\\",
    "\x01",
    "    # c",
    "\t",
    "",
]
bodies = st.lists(st.sampled_from(LINES), max_size=8).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\n\n"]).map(lambda end: end.join(lines))
)


@given(bodies, bodies, st.booleans())
def test_each_code_point_leads_to_its_bytes(first: str, second: str, ascii_only: bool) -> None:
    resource = {"issue": issue(body=first), "comments": [said(second, 4), said("The end.", 5)]}
    data = json.dumps(resource, ensure_ascii=ascii_only).encode()
    found = rendered("issue", resource, data)
    # Whatever stands before it, the last comment is a part of its own.
    assert found.text.endswith("## Comment by bob, 2024-03-05T00:00:00Z\n\nThe end.\n\n")
    at = found.text.index("Prüfung")
    low, high = found.offsets.to_bytes(at, at + len("Prüfung"))
    assert json.loads(b'"' + data[low:high] + b'"') == "Prüfung"
    end = len(found.text.rstrip())
    low, high = found.offsets.to_bytes(end - len("The end."), end)
    assert data[low:high] == b"The end."
    for words in ("é€😀", "`y`"):
        if (at := found.text.find(words)) >= 0:
            low, high = found.offsets.to_bytes(at, at + len(words))
            assert json.loads(b'"' + data[low:high] + b'"') == words


@given(bodies)
def test_edits_only_add_and_take_away_marks(body: str) -> None:
    edits = beneath(body, 2)
    assert edits == sorted(edits, key=lambda e: e[:2])
    for start, end, words in edits:
        assert set(words) <= set("#` ~\n->?]</preitxaslyc") and set(body[start:end]) <= set("\r\n =-\t>")


@pytest.mark.parametrize("kind", ["issue", "pull", "release", "discussion", "repository"])
@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{}",
        b'{"issue": 1}',
        b'{"issue": {"title": 3, "labels": 4}, "comments": {"a": 1}}',
        b"{",
        b"\xff",
    ],
)
def test_what_is_no_such_resource_is_told_or_read_for_what_it_has(kind: str, data: bytes) -> None:
    try:
        assert rendered(kind, None, data).text.strip()
    except TabootError as error:
        assert error.code in ("E_PARSE", "E_ENCODING", "E_EMPTY")
