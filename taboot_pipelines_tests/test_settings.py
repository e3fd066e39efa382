"""Settings come from the environment; what is wrong there is refused at start by its name, and never
quoted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings, load_settings

SERVERS = ["TEI", "RERANKER", "LLM", "QDRANT", "NEO4J", "REDIS"]


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Compose and Kubernetes pass on what an operator has not filled in."""
    plain = load_settings()
    for name, field in Settings.model_fields.items():
        nested = getattr(field.annotation, "model_fields", None)
        for variable in [f"TABOOT_{name}__{inner}" for inner in nested] if nested else [f"TABOOT_{name}"]:
            monkeypatch.setenv(variable.upper(), "")
    assert load_settings() == plain


@pytest.mark.parametrize("part", SERVERS)
@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "ftp://hunter2",
        "http://",
        "redis://",
        "bolt://",
        "http://hunter2:port/",
        "http://[::hunter2",
        "http://h:0",
    ],
)
def test_a_wrong_address_is_refused_at_start(monkeypatch: pytest.MonkeyPatch, part: str, url: str) -> None:
    monkeypatch.setenv(f"TABOOT_{part}__URL", url)
    with pytest.raises(TabootError) as caught:
        load_settings()
    assert caught.value.code == "E_CONFIG" and caught.value.details["settings"] == [f"TABOOT_{part}__URL"]
    assert "hunter2" not in str(caught.value)


def test_every_wrong_address_is_named_at_once() -> None:
    with pytest.raises(TabootError) as caught:
        load_settings(**{part.lower(): {"url": ""} for part in SERVERS})
    assert caught.value.details["settings"] == [f"TABOOT_{part}__URL" for part in SERVERS]


def test_addresses_that_servers_have_are_taken(tmp_path: Path) -> None:
    for part, urls in {
        "tei": ["http://gpu.lan:8080", "https://[::1]/embed"],
        "qdrant": [":memory:", "https://qdrant.lan"],
        "llm": ["http://h/v1"],
        "reranker": ["http://h"],
        "neo4j": ["bolt://h", "neo4j+ssc://h:7687"],
        "redis": ["redis://:p%40ss@h:6379/0", "rediss://u:p@h", "unix:///run/redis.sock?db=1"],
    }.items():
        for url in urls:
            load_settings(home=tmp_path, **{part: {"url": url}})


def test_a_group_that_is_no_json_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABOOT_HTTP", "{hunter2")
    with pytest.raises(TabootError) as caught:
        load_settings()
    assert caught.value.code == "E_CONFIG" and caught.value.details["settings"] == ["TABOOT_HTTP"]
    assert "hunter2" not in str(caught.value)
