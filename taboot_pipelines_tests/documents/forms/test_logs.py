"""Hits of Elasticsearch as documents: lines with times that lead to the bytes of their hits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import LOGS, ParsedDocument
from taboot_pipelines.sources import document_forms

GROUP: dict[str, Any] = {
    "group_by": "service.name",
    "group": "api",
    "from": "2026-11-20T10:00:00Z",
    "to": "2026-11-20T11:00:00Z",
    "hits": [
        {
            "_index": "logs-a",
            "_id": "1",
            "time": "2026-11-20T10:00:01.123Z",
            "_source": {
                "@timestamp": "2026-11-20T10:00:01.123Z",
                "message": "Cannot reach db\n  at pool.py:7\n```",
                "log": {"level": "error"},
                "service": {"name": "api"},
                "http": {"status": 503, "ok": False},
                "tags": ["a", "b"],
                "empty": None,
            },
        },
        {
            "_index": "logs-b",
            "_id": "2",
            "time": "2026-11-20T10:00:02.000Z",
            "fields": {"log.level": ["info"], "message": ["back"], "took": [5]},
        },
    ],
}


def read(resource: Any) -> tuple[ParsedDocument, bytes]:
    data = json.dumps(resource, ensure_ascii=False, indent=2).encode()
    return parse_document(
        data, path="p", mime=LOGS, charset="utf-8", languages=[], max_chars=100_000, forms=document_forms()
    ), data


def test_a_group_is_lines_with_times() -> None:
    parsed, data = read(GROUP)
    assert parsed.text == (
        "# api, 2026-11-20 10:00:00 to 2026-11-20 11:00:00 UTC\n\n"
        "`service.name` of 2 entries from logs-a, logs-b.\n\n"
        "````text\n"
        "2026-11-20T10:00:01.123Z error Cannot reach db\n"
        "      at pool.py:7\n"
        "    ``` http.ok=false http.status=503 tags=a, b\n"
        "2026-11-20T10:00:02.000Z info back took=5\n"
        "````\n"
    )
    assert parsed.title == "api, 2026-11-20 10:00:00 to 2026-11-20 11:00:00 UTC"
    assert parsed.date is not None and parsed.date.isoformat() == "2026-11-20T10:00:00+00:00"
    for said in ("Cannot reach db", "503", "back", "2026-11-20T10:00:02.000Z"):
        at = parsed.text.index(said)
        low, high = parsed.offsets.to_bytes(at, at + len(said))
        assert data[low:high].decode() == said


def test_one_hit_is_a_page() -> None:
    parsed, _ = read(GROUP["hits"][0] | {"_source": {"title": "Restart", "body": "a\nb", "n": 1}})
    assert parsed.text == (
        "# Restart\n\n- time: 2026-11-20T10:00:01.123Z\n- index: logs-a\n- id: 1\n"
        "\na\nb\n\n```text\nn=1\n```\n"
    )
    assert parsed.title == "Restart"
    assert read({"_id": "7", "_index": "i"})[0].title == "i 7"


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"{", "E_PARSE"), (b"\xff{}", "E_PARSE"), (json.dumps({"hits": []}).encode(), "E_EMPTY")],
)
def test_what_is_none(data: bytes, code: str) -> None:
    with pytest.raises(TabootError, match=code):
        parse_document(
            data, path="p", mime=LOGS, charset=None, languages=[], max_chars=1000, forms=document_forms()
        )


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3),
)


@given(st.lists(st.dictionaries(st.sampled_from(["message", "level", "a", "log.level"]), values), min_size=1))
def test_any_hits_are_read(sources: list[dict[str, Any]]) -> None:
    hits = [{"_index": "i", "_id": str(n), "_source": source} for n, source in enumerate(sources)]
    parsed, data = read({"group_by": "g", "group": "x", "hits": hits})
    assert parsed.text.startswith("# x\n") and int(parsed.offsets.byte_end.max(initial=0)) <= len(data)
    for hit in hits:
        read(hit)
