"""Settings come from the environment; what is wrong there is refused at start by its name, and never
quoted.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import (
    PREFIX,
    Settings,
    load_leniently,
    load_settings,
    unknown_variables,
    variables,
)

SERVERS = [
    name.upper()
    for name, field in Settings.model_fields.items()
    if "url" in getattr(field.annotation, "model_fields", ())
]


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Compose and Kubernetes pass on what an operator has not filled in."""
    # The tests let facts of a model that was not measured pass.
    monkeypatch.delenv("TABOOT_EXTRACTION__MIN_PRECISION", raising=False)
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
    assert set(caught.value.details["settings"]) == {f"TABOOT_{part}__URL" for part in SERVERS}
    assert set(SERVERS) >= {"TEI", "RERANKER", "LLM", "QDRANT", "NEO4J", "REDIS", "CRAWL4AI"}


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


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any setting."""
    for name in [v for v in os.environ if v.upper().startswith(PREFIX)]:
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("TABOOT_HOEM", "TABOOT_HOME"),
        ("TABOOT_QDRANT_URL", "TABOOT_QDRANT__URL"),
        ("TABOOT_QDRANT__URI", "TABOOT_QDRANT__URL"),
        ("TABOOT_EMBEDDING__TORCH__MODLE", "TABOOT_EMBEDDING__TORCH__MODEL"),
        ("taboot_retrieval__cache_mbs", "TABOOT_RETRIEVAL__CACHE_MB"),
        ("TABOOT_HOME__X", "TABOOT_HOME"),
        ("TABOOT_XYZZY_PLUGH", None),
        ("TABOOT_FOO", None),
    ],
)
def test_a_variable_that_is_no_setting_is_told_with_the_nearest(
    bare: pytest.MonkeyPatch, tmp_path: Path, variable: str, nearest: str | None
) -> None:
    plain = load_settings()
    bare.setenv(variable, "hunter2")
    assert load_settings() == plain, "it changes nothing, at any level"
    (unknown,) = unknown_variables(tmp_path / "sources.yaml")
    assert (unknown.variable, "hunter2" in unknown.message) == (variable, False)
    assert unknown.nearest == nearest and (nearest or unknown.variable) in unknown.message


def test_every_setting_and_what_a_mapping_holds_is_known(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text("token: ${TABOOT_TOKEN_OF_MINE}\n")
    for name in (
        *variables(),
        "TABOOT_K8S__GPU_NODE_SELECTOR__POOL",
        "TABOOT_TOKEN_OF_MINE",
        "taboot_log__level",
        "TABOOT_TEST_DATA",
    ):
        bare.setenv(name, "")
    assert unknown_variables(tmp_path / "sources.yaml") == []
    # The names are said once: those that pydantic takes are those that are known.
    assert {"TABOOT_HOME", "TABOOT_QDRANT", "TABOOT_EMBEDDING__TORCH__MODEL"} <= set(variables())


def test_what_is_wrong_is_left_out_and_told(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = load_settings()
    bare.setenv("TABOOT_HOME", str(tmp_path))
    for name, value in {
        "TABOOT_QDRANT__URL": "hunter2",
        "TABOOT_CHUNKING__MAX_TOKENS": "hunter2",
        "TABOOT_CHUNKING__OVERLAP_TOKENS": "40",
        "TABOOT_HTTP": "{hunter2",
        "TABOOT_LOG": '{"level": "hunter2"}',
        "taboot_executor": "hunter2",
    }.items():
        bare.setenv(name, value)
    settings, problems = load_leniently()
    assert {p.variable for p in problems} == {
        "TABOOT_QDRANT__URL",
        "TABOOT_CHUNKING__MAX_TOKENS",
        "TABOOT_HTTP",
        "TABOOT_LOG__LEVEL",
        "TABOOT_EXECUTOR",
    }
    assert "hunter2" not in str(problems)
    assert settings.home == tmp_path and settings.chunking.overlap_tokens == 40
    assert (settings.qdrant, settings.http, settings.log) == (plain.qdrant, plain.http, plain.log)
    # Fields that contradict each other are left out together.
    bare.setenv("TABOOT_CHUNKING__MAX_TOKENS", "30")
    settings, problems = load_leniently()
    assert settings.chunking == plain.chunking and "TABOOT_CHUNKING" in {p.variable for p in problems}
    with pytest.raises(TabootError, match="E_CONFIG"):
        load_settings()
