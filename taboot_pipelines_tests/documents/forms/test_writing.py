"""What a form writes leads back to the bytes that say it, whatever stands in the JSON it is made from."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.documents.forms.writing import Edit, JsonWriter, Writer
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import parse

texts = st.text(alphabet=st.sampled_from("ab \n\r\t\"\\é€😀\x01/'"), max_size=30)


@given(st.lists(texts, min_size=1, max_size=4), st.booleans(), st.sampled_from([0, 3]))
def test_each_code_point_leads_to_its_bytes(strings: list[str], ascii_only: bool, bom: int) -> None:
    source = json.dumps(strings, ensure_ascii=ascii_only)
    data = b"\xef\xbb\xbf"[:bom] + source.encode()
    writer = JsonWriter(source, 10_000, bom=bom)
    spans = []
    for value in parse(source).data:
        writer.put("## ")
        start = writer.length
        writer.string(value, prefix="> ")
        spans.append((start, writer.length, value))
        writer.put("\n")
    text, offsets = writer.text, writer.offsets()
    assert writer.length == len(text)
    for start, end, value in spans:
        plain = value.data.replace("\r\n", "\n").replace("\r", "\n").replace("\x01", "\ufffd")
        assert text[start:end] == plain.replace("\n", "\n> ")
        for at in range(start, end):
            low, high = offsets.to_bytes(at, at + 1)
            literal = data[low:high].decode()
            if text[at] in "\n> \ufffd":
                continue
            assert json.loads(f'"{literal}"') == text[at]


def test_what_is_said_in_other_words_leads_to_its_value() -> None:
    source = '{"at": 1700000000, "é": [1, 2]}'
    value = parse(source)
    writer = JsonWriter(source, 100)
    stamp, both = value.at("at"), value.at("é")
    assert stamp is not None and both is not None
    writer.said("2023-11-14", stamp)
    writer.put("\n")
    writer.said("one and two", both)
    data, offsets = source.encode(), writer.offsets()
    assert data[slice(*offsets.to_bytes(0, 4))] == b"1700000000"
    assert data[slice(*offsets.to_bytes(14, 15))] == b"[1, 2]"


def test_a_text_with_a_map_of_its_own_and_the_limit() -> None:
    writer = Writer(12)
    writer.put("> ")
    writer.exact("é€", "utf-8", 100)
    writer.block("", 5, 9)
    assert writer.offsets().to_bytes(3, 4) == (102, 105)
    with pytest.raises(TabootError, match="E_TOO_LARGE"):
        writer.put("123456789")


@given(texts, st.lists(st.integers(0, 30), max_size=6), st.booleans())
def test_other_words_in_place_of_pieces(text: str, cuts: list[int], ascii_only: bool) -> None:
    source = json.dumps(text, ensure_ascii=ascii_only)
    value = parse(source)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    places = sorted(min(cut, len(text)) for cut in cuts)
    edits = [Edit(a, b, "<>") for a, b in zip(places[::2], places[1::2], strict=False)]
    # Two that touch where nothing lies between are one.
    edits = [e for i, e in enumerate(edits) if i == 0 or e[0] > edits[i - 1][1]]
    writer = JsonWriter(source, 10_000)
    seen: list[str] = []

    def edits_of(content: str) -> list[Edit]:
        seen.append(content)
        return edits

    writer.edited(value, edits_of)
    assert seen == [text]
    expected, at = "", 0
    for start, end, words in edits:
        expected += text[at:start] + words
        at = end
    expected += text[at:]
    expected = expected.replace("\x01", "\ufffd")
    assert writer.text == expected
    data, offsets = source.encode(), writer.offsets()
    for place, letter in enumerate(writer.text):
        if letter not in "<>\n\ufffd":
            low, high = offsets.to_bytes(place, place + 1)
            assert json.loads(f'"{data[low:high].decode()}"') == letter
