"""What a model may write, and what of it is an answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.chat.judging import parse, validate

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def refused(call, code: str) -> TabootError:
    with pytest.raises(TabootError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "{",
        "{'a': 1}",
        '{"a": 1}{',
        '{"a": 1, "a": 2}',
        '[{"b": {"a": 1, "a": 1}}]',
        "NaN",
        "[Infinity]",
        "[-Infinity]",
        "1e999",
        "9" * 100_000,
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 70 + "]" * 70,
        '"\\ud800"',
        '{"\\ud800": 1}',
        '["a\\udfffb"]',
        "\ufeff{}",
        '"\n"',
        "```json\n{}\n```",
        "\x00",
    ],
)
def test_what_is_not_strict_json_is_refused_and_never_quoted(text):
    error = refused(lambda: parse(text), "E_LLM_MALFORMED")
    assert "hunter2" not in str(error)


@given(VALUES)
@settings(max_examples=100, deadline=None)
def test_any_json_value_is_read_as_it_is(value):
    assert parse(json.dumps(value)) == value
    assert parse(" \n" + json.dumps(value, ensure_ascii=False) + "\n ") == value


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_value_or_malformed(text):
    try:
        json.dumps(parse(text)).encode()
    except TabootError as error:
        assert error.code == "E_LLM_MALFORMED"


def test_the_place_in_the_schema_is_named_never_the_value():
    schema = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"required": ["name"]}}},
        "additionalProperties": False,
    }
    validate({"items": [{"name": 1}]}, schema)
    assert (
        refused(lambda: validate({"items": [{"hunter2": 1}]}, schema), "E_SCHEMA_INVALID").details["place"]
        == "properties/items/items/required"
    )
    assert "hunter2" not in str(refused(lambda: validate({"hunter2": 1}, schema), "E_SCHEMA_INVALID"))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "#/nowhere"},
        {"pattern": "("},
        {"$ref": "#"},
    ],
)
def test_a_schema_that_cannot_be_applied_is_a_typed_error(schema):
    refused(lambda: validate("x", schema), "E_SCHEMA_INVALID")


def test_a_recursive_schema_and_a_deep_value_end():
    schema = {"type": "array", "items": {"$ref": "#"}}
    validate(parse("[" * 60 + "]" * 60), schema)
    refused(lambda: validate(parse("[" * 60 + "1" + "]" * 60), schema), "E_SCHEMA_INVALID")
