"""Positioned JSON equals the standard library's, in values and in errors, and each value stands where it
says."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gold import hujson
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import MAX_DEPTH, Value, parse
from taboot_pipelines_tests.world import DATA

SETS = ("tailscale", "unifi", "gmail", "reddit", "github-api", "ai-chats", "youtube")
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    scalars | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=30,
)


def agrees(source: str, value: Value) -> None:
    """Every value's own text reads as the value, and a string's pieces are its content."""
    for part in value.walk():
        assert json.loads(source[part.start : part.end]) == part.plain()
        if isinstance(part.data, str):
            runs = list(part.runs(source))
            assert "".join(run.text for run in runs) == part.data
            assert all(source[run.start : run.end] == run.text for run in runs if run.verbatim)


@given(documents, st.sampled_from([None, 1]), st.booleans())
def test_it_reads_what_json_reads(document: object, indent: int | None, ascii_only: bool) -> None:
    source = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    if any(0xD800 <= ord(c) <= 0xDFFF for c in json.loads(source).__repr__()):
        return
    value = parse(source)
    assert value.plain() == document
    agrees(source, value)


@given(st.text(alphabet='{}[]",:\\u0019eE+-.tfnrulasx /*\n', max_size=40))
def test_it_refuses_what_json_refuses(source: str) -> None:
    try:
        expected, bad = json.loads(source, parse_constant=pytest.fail), False
    except ValueError:
        expected, bad = None, True
    if bad:
        with pytest.raises(TabootError, match="E_PARSE"):
            parse(source)
    else:
        assert parse(source).plain() == expected or "\\ud" in source.lower()


@pytest.mark.parametrize("name", SETS)
def test_real_files(name: str) -> None:
    read = 0
    for path in sorted((DATA / name).rglob("*.*json")):
        source = path.read_text("utf-8")
        try:
            expected = hujson.loads(source)
        except ValueError:
            continue
        value = parse(source, hujson=True)
        assert value.plain() == expected
        read += 1
    assert read or name == "youtube"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('{"a": 1, // one\n /* two, \n three */ "b": [1, 2,],}', {"a": 1, "b": [1, 2]}),
        ("\ufeff[]", []),
        ('["//", "/*", "*/"] // end', ["//", "/*", "*/"]),
        ("{/***/}", {}),
    ],
)
def test_hujson(source: str, expected: object) -> None:
    assert parse(source, hujson=True).plain() == expected
    with pytest.raises(TabootError):
        parse(source if source.isascii() and "{/" in source else "[1,]")


@pytest.mark.parametrize("source", ["[,]", "{,}", "[1 2]", "/* open", "[1,,]", '{"a",}', "{a: 1}", "// only"])
def test_what_is_neither(source: str) -> None:
    with pytest.raises(TabootError, match=r"E_PARSE.*line \d+, column \d+"):
        parse(source, hujson=True)


def test_a_half_of_a_pair_and_a_whole_one() -> None:
    source = r'"a\ud83d\ude00b\ud83dc\udE00"'
    value = parse(source)
    assert value.data == "a\U0001f600b\ufffdc\ufffd"
    assert "".join(run.text for run in value.runs(source)) == value.data


def test_hostile_texts_take_time_in_proportion() -> None:
    for source in (
        "[" * 1_000_000,
        '{"a":' * 300_000,
        "/*" + "*" * 1_000_000,
        '"' + "\\\\" * 500_000,
        "9" * 9999,
    ):
        begun = time.process_time()
        with pytest.raises(TabootError, match="E_PARSE"):
            parse(source, hujson=True)
        assert time.process_time() - begun < 20
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH).walk()


def test_what_stands_at_a_path() -> None:
    value = parse('{"a": [{"n": "7", "t": true}], "s": "x"}')
    assert value.integer("a", 0, "n") == 7 and value.true("a", 0, "t")
    assert value.string("s") == "x" and value.string("a") == ""
    assert value.at("a", 1) is None and value.at("s", "t") is None and value.at(0) is None
    assert len(value.items("a")) == 1 and value.items("s") == [] and list(value.members()) == ["a", "s"]
