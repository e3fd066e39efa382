"""Settings come from the environment; what is wrong there is refused at start by its name, and never
quoted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings, load_settings

SERVERS = ["TEI", "RERANKER", "LLM", "QDRANT", "NEO4J", "REDIS"]


class _Peer(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="TABOOT_", env_nested_delimiter="__", env_ignore_empty=True, extra="ignore"
    )


#: The same fields, read from the environment by pydantic-settings.
PEER: Any = create_model(
    "Peer", __base__=_Peer, **{n: (f.annotation, f) for n, f in Settings.model_fields.items()}
)


def _variables(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}".upper()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _variables(field.annotation, f"{prefix}{name}__")
            yield f"{prefix}{name}__unknown".upper()


NAMES = sorted(_variables(Settings, "TABOOT_"))
WORDS = st.sampled_from(
    ["", "0", "7", "-1", "0.25", "true", "no", "null", "openvino", "json", "text", "http://h:1", "a__b"]
)
VALUES = (
    WORDS
    | st.text('ab1[]{}":,', max_size=6)
    | st.recursive(
        st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["x", "http://h"]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["url", "api_key", "model", "torch", "Zone"]), inner, max_size=3
            )
        ),
        max_leaves=4,
    ).map(json.dumps)
)
OTHERS = ["TABOOT_UNKNOWN", "TABOOT_HOME__X", "TABOOT_K8S__GPU_NODE_SELECTOR__ZONE", "TABOOT_TEI__URL__X"]


def _mixed(variables: dict[str, str]) -> bool:
    """Whether fields are set beside their whole group, where pydantic-settings forgets the one or the other:
    if the group stands in another, or is no object.
    """
    return any(
        any(name.startswith(f"{group}__") for name in variables)
        and ("__" in group or not variables[group].startswith("{"))
        for group in variables
    )


@given(
    st.dictionaries(st.sampled_from([*NAMES, *OTHERS]), VALUES, max_size=5).filter(lambda v: not _mixed(v)),
    st.sampled_from([str.upper, str.lower, str.title]),
    st.dictionaries(st.sampled_from(["url", "api_key"]), st.sampled_from(["http://g", "k"]), min_size=1).map(
        lambda tei: {"tei": tei}
    )
    | st.just({}),
)
def test_variables_mean_what_pydantic_settings_makes_of_them(variables, case, given) -> None:
    with mock.patch.dict(os.environ, {case(name): value for name, value in variables.items()}, clear=True):
        try:
            theirs = PEER(**given)
        except (ValidationError, SettingsError) as error:
            if "tei" in given and "TABOOT_TEI" in variables:
                return  # what is given wins over text that is none
            with pytest.raises(ValidationError) as caught:
                Settings(**given)
            if isinstance(error, ValidationError):
                assert {e["loc"] for e in caught.value.errors()} == {e["loc"] for e in error.errors()}
        else:
            assert Settings(**given).model_dump() == theirs.model_dump()


def test_what_is_no_json_is_refused_by_the_settings_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABOOT_RETRIEVAL__OWN_TAGS", "hunter2, house")
    monkeypatch.setenv("TABOOT_TEI", "[hunter2")
    with pytest.raises(TabootError) as caught:
        load_settings()
    assert caught.value.details["settings"] == ["TABOOT_TEI", "TABOOT_RETRIEVAL__OWN_TAGS"]
    assert "hunter2" not in str(caught.value)


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
