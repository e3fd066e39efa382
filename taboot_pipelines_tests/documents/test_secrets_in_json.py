"""Secrets in JSON: whatever its layout, after masking it is JSON of the same form, and no secret is left."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taboot_pipelines.documents.secrets.masking import mask
from taboot_pipelines.documents.secrets.values import is_no_secret

JSON = "application/json"
#: Names whose values are secrets, whatever they look like.
_SECRET_NAMES = st.sampled_from(
    [
        "password",
        "x_passphrase",
        "dbPassword",
        "PSK",
        "psk",
        "api_key",
        "apiToken",
        "secret",
        "clientSecret",
        "preshared_key",
        "passwords",
        "x_ssh_password",
        "access_token",
        "wpa-psk",
        "private_key",
        "userpass",
        "wifi_passphrase",
        "pass\u00adword_1",
    ]
)
_PUBLIC_NAMES = st.sampled_from(["name", "ip", "mac", "n\u00e4me", "a b", 'quo"te', "x", "list", ""])
#: Names below a secret one that do not say what it is not.
_INNER_NAMES = st.sampled_from(["k", "v", "value", "first", "0", "psk", "\u00fc"])
_SIGNS = st.text(st.sampled_from("ab\"\\/{}[]:,#' \n\t\u00e9\U0001f600*=&<>`|;$-"), max_size=12)


@st.composite
def _secrets(draw):
    """A text that occurs nowhere else, with signs around it, or a number."""
    number = draw(st.integers(10**9, 10**12))
    if draw(st.integers(0, 4)) == 0:
        return number
    text = f"{draw(_SIGNS)}Zq{number}{draw(_SIGNS)}"
    return text if not is_no_secret(json.dumps(text)[1:-1], literal=True) else f"Zq{number}"


_HELD_SECRETS = st.recursive(
    _secrets(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_INNER_NAMES, inner, max_size=3),
    max_leaves=5,
)
_PLAIN = st.none() | st.booleans() | st.integers(0, 99) | st.sampled_from(["lan", "10.0.0.1", "a, b", "[x]"])
_DOCUMENTS = st.recursive(
    _PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_PUBLIC_NAMES, inner, max_size=3)
        | st.tuples(
            st.dictionaries(_PUBLIC_NAMES, inner, max_size=2),
            st.dictionaries(_SECRET_NAMES, _HELD_SECRETS, max_size=2),
        ).map(lambda both: both[0] | both[1])
    ),
    max_leaves=12,
)
_LAYOUTS = st.sampled_from(
    [
        {"separators": (",", ":")},
        {},
        {"indent": 2},
        {"indent": "\t", "separators": (" ,", " : ")},
        {"indent": 0, "ensure_ascii": False},
    ]
)


def _leaves(value):
    if isinstance(value, dict):
        for held in value.values():
            yield from _leaves(held)
    elif isinstance(value, list):
        for held in value:
            yield from _leaves(held)
    else:
        yield value


def _form(value):
    """A value with all texts and numbers alike."""
    if isinstance(value, dict):
        return {name: _form(held) for name, held in value.items()}
    if isinstance(value, list):
        return [_form(held) for held in value]
    return value if value is None or isinstance(value, bool) else "scalar"


@given(_DOCUMENTS, _LAYOUTS)
@example({"x_passwords": ["Zq1000000001", "Zq1000000002"], "n": 1}, {"separators": (",", ":")})
@example({"psk": [{"k": "Zq1000000001"}]}, {"separators": (",", ":")})
@example({"passwords": ["a]Zq1000000001", 'b","Zq1000000001']}, {})
@example({"password": {"a": [{"k": 1234567890}]}}, {"indent": 2})
def test_json_stays_json_and_no_secret_is_left(document, layout):
    text = json.dumps(document, **layout)
    masked = mask(text, JSON)
    assert len(masked) == len(text)
    assert [i for i, c in enumerate(text) if c == "\n"] == [i for i, c in enumerate(masked) if c == "\n"]
    read = json.loads(masked)
    assert _form(read) == _form(document)
    planted = [leaf for leaf in _leaves(document) if "Zq" in str(leaf) or (_is_number(leaf) and leaf > 99)]
    assert [leaf for leaf in planted if str(leaf) in masked or json.dumps(leaf)[1:-1] in masked] == []
    assert "Zq" not in masked
    kept = [leaf for leaf in _leaves(document) if leaf not in planted]
    assert [leaf for leaf in kept if leaf not in list(_leaves(read))] == []
    assert mask(masked, JSON) == masked


def _is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


@given(_DOCUMENTS)
def test_a_value_for_each_line_is_read_alike(document):
    line = json.dumps(document)
    assert mask(f"{line}\n{line}\n", JSON) == f"{mask(line, JSON)}\n" * 2


@pytest.mark.parametrize(
    "text",
    [
        '{\n  // the way in\n  "password": /* really */ "Zq1",\n}',
        '{"password"\n:\n"Zq1"',
        '"password":\n  "Zq1"',
        '{"pass\\u0077ord": "Zq1"}',
        '{"password": "' + "Zq" * 60_000 + '"}',
        '{"password": ["a", "Zq1',
        '{"name": "DB_PASSWORD", "note": "' + "n" * 500 + '", "value": "Zq1"}',
        '{"value": "Zq}1", "name": "DB_PASSWORD"}',
        '{"note": "it has password: Zq1 and \\"x\\""}',
        '{"site_id": "a", "x_pins": ["]Zq1", ["Zq2"], {"a": "Zq3"}]}',
        '{"admin_name": "a}b", "code": "Zq1"}',
    ],
)
def test_layouts_that_people_write(text):
    masked = mask(text, JSON)
    assert "Zq" not in masked and len(masked) == len(text)
    for mark in '{}[]:,"':
        assert mark not in masked or masked.count(mark) <= text.count(mark)


@pytest.mark.parametrize(
    "text",
    [
        '{"secret": {"secretName": "db-credentials", "defaultMode": 420, "optional": false}}',
        '{"private_preshared_keys": [{"networkconf_id": "5f0c6f1c2ab79c0012345678"}]}',
        '{"properties": {"password": {"type": "string", "description": "of the account", "minLength": 8}}}',
        '{"password_policy": {"rotation": "yearly", "characters": 12345}}',
        '{"tokens": {"input": 123456, "output": 3}, "max_tokens": 4096}',
        '{"keys": ["name", "mac"], "pass": 3}',
    ],
)
def test_what_describes_a_secret_stays(text):
    assert mask(text, JSON) == text


@pytest.mark.parametrize(
    "unit",
    [
        '"\\',
        '"\\"',
        "/*/",
        '{"password":[',
        '"psk":',
        '{"name":"password","value":"',
        "[[{",
        '"password":1,',
        "\\\\",
    ],
)
def test_hostile_repetition_ends(unit):
    begun = time.process_time()
    mask(unit * (400_000 // len(unit)), JSON)
    assert time.process_time() - begun < 20


def test_the_link_that_logs_a_device_in_is_a_secret():
    text = '{"BackendState": "NeedsLogin", "AuthURL": "https://login.tailscale.com/a/1a2b3c4d5e6f7"}'
    assert mask(text, JSON) == text.replace("1a2b3c4d5e6f7", "*" * 13)
