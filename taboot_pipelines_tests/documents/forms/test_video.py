"""A video of any shape becomes one document: description, chapters, transcript, each leading to its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.offsets import read_places
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines.model.videos import VIDEO
from taboot_pipelines.sources import document_forms
from taboot_pipelines_tests.world import DATA


def parsed(resource: Any, **dumped: Any) -> ParsedDocument:
    data = resource if isinstance(resource, bytes) else json.dumps(resource, **dumped).encode()
    return parse_document(
        data, path="v", mime=VIDEO, charset=None, languages=[], max_chars=1_000_000, forms=document_forms()
    )


def video(description: str = "", **more: Any) -> dict[str, Any]:
    snippet = {"title": "A talk", "channelTitle": "The house", "description": description}
    return {"id": "aaaaaaaaaaA", "video": {"kind": "youtube#video", "snippet": snippet}, **more}


def seconds_at(document: ParsedDocument, said: str) -> str:
    places = read_places(json.dumps(document.metadata["places"]))
    assert places is not None
    return places.url("https://e.org/?", document.text.index(said)).partition("&t=")[2]


def test_recorded_answers_of_the_player() -> None:
    recorded = DATA / "youtube"
    document = parsed((recorded / "youtube.innertube.json.static").read_bytes())
    assert document.title == "Surface Go Review - It’s Awesome" and document.metadata["author"] == "Dave2D"
    assert document.text.startswith(
        f"# {document.title}\n\nDave2D · 5:16\n\n## Description\n\nDave2D review of"
    )
    document = parsed((recorded / "youtube_transcripts_disabled.innertube.json.static").read_bytes())
    assert "Réalisation: Xavier Reim" in document.text
    with pytest.raises(TabootError, match="not available any more") as raised:
        parsed((recorded / "youtube_video_unavailable.innertube.json.static").read_bytes())
    assert raised.value.code == "E_NOT_FOUND"


@pytest.mark.parametrize(
    ("description", "chapters"),
    [
        ("0:00 Intro\n1:05 Middle\n1:02:03 End", ["0:00 Intro", "1:05 Middle", "1:02:03 End"]),
        ("Intro 0:00\nMiddle - 01:05\nEnd (02:03)", ["0:00 Intro", "1:05 Middle", "2:03 End"]),
        ("(00:00) - Intro\n▶ [1:05] Middle\n• 2:03 | End", ["0:00 Intro", "1:05 Middle", "2:03 End"]),
        ("0:00 Intro\n1:05 Middle", []),  # too few
        ("0:05 Intro\n1:05 Middle\n2:03 End", []),  # none at the beginning
        ("0:00 Intro\n0:05 Middle\n2:03 End", []),  # too short
        ("0:00 Intro\n2:05 Middle\n1:03 End", []),  # out of order
        ("We start at 10:30 o'clock.\nThe bus at 11:40 goes.", []),
    ],
)
def test_chapters_are_those_that_youtube_would_show(description: str, chapters: list[str]) -> None:
    document = parsed(video(description))
    listed = document.text.partition("## Chapters\n\n")[2].splitlines()
    assert [line.replace("- **", "").replace("**", "") for line in listed] == chapters
    if chapters:
        assert seconds_at(document, listed[1]) == "65s"


def test_the_transcript_stands_under_its_chapters_in_any_form() -> None:
    cues = '<text start="1" dur="1">caf\u00e9 &amp;amp; bar</text><text start="70" dur="1">Deep</text>'
    xml = f"<transcript>{cues}</transcript>"
    track = {"languageCode": "en", "kind": "asr"}
    resource = video("0:00 Intro\n1:05 Middle\n2:03 End", transcript={"track": track, "text": xml})
    for ascii_only in (True, False):
        document = parsed(resource, ensure_ascii=ascii_only, indent=2)
        assert document.text.endswith(
            "## Transcript\n\n### 0:00 Intro\n\n**0:01** café & bar\n\n"
            "### 1:05 Middle\n\n**1:10** Deep\n\n### 2:03 End"
        )
        assert document.metadata["transcript"] == "en (generated)"
        assert (seconds_at(document, "bar"), seconds_at(document, "Deep")) == ("1s", "70s")
        data = json.dumps(resource, ensure_ascii=ascii_only, indent=2).encode()
        for word, expected in (("café", '"café"'), ("Deep", '"Deep"'), ("Middle", '"Middle"')):
            at = document.text.rindex(word)
            low, high = document.offsets.to_bytes(at, at + len(word))
            assert json.loads(b'"' + data[low:high] + b'"') == json.loads(expected)


def test_a_description_is_text_and_no_markup() -> None:
    said = "# Big\nAll about it\n-----\n> quoted\n1. one\n* two\n```\n#tag stays"
    document = parsed(video(said))
    assert document.text.partition("## Description\n\n")[2] == (
        "\\# Big\nAll about it\n\\-----\n\\> quoted\n\\1. one\n\\* two\n\\```\n#tag stays"
    )


@given(st.text(st.sampled_from('a0:1 \n\r-#é"\\\u2028\x01😀'), max_size=40), st.booleans())
def test_any_description_leads_to_its_bytes(description: str, ascii_only: bool) -> None:
    resource = video(description)
    data = json.dumps(resource, ensure_ascii=ascii_only).encode()
    document = parsed(resource, ensure_ascii=ascii_only)
    where = data.index(b'"description"')
    begin = document.text.find("## Description")
    for at in range(begin + len("## Description") if begin >= 0 else len(document.text), len(document.text)):
        if document.text[at] in "aé😀":
            low, high = document.offsets.to_bytes(at, at + 1)
            assert where < low < high
            assert document.text[at] in json.loads(b'"' + data[low:high] + b'"')


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ({"name": "left-pad"}, "E_PARSE"),
        ([1], "E_PARSE"),
        (b'{"videoDetails": {', "E_PARSE"),
        (
            {"playabilityStatus": {"status": "LOGIN_REQUIRED", "reason": "Sign in to confirm your age"}},
            "E_FORBIDDEN",
        ),
        ({"playabilityStatus": {"status": "UNPLAYABLE", "reason": "Video unavailable"}}, "E_NOT_FOUND"),
        ({"playabilityStatus": {"status": "UNPLAYABLE"}}, "E_FORBIDDEN"),
        ({"playabilityStatus": {"status": "LIVE_STREAM_OFFLINE"}}, "E_TRANSCRIPT"),
        (
            {
                "playabilityStatus": {
                    "status": "LOGIN_REQUIRED",
                    "reason": "Sign in to confirm you’re not a bot",
                }
            },
            "E_403_WAF",
        ),
        ({"playabilityStatus": {"status": "OK"}}, "E_EMPTY"),
        ({"videoDetails": {"title": ["x"], "author": {}, "lengthSeconds": {}, "shortDescription": 7}}, None),
        (
            {"id": 5, "video": {"snippet": [], "contentDetails": "x"}, "player": 3, "transcript": [1]},
            "E_EMPTY",
        ),
    ],
)
def test_what_is_no_video_has_a_typed_reason(resource: Any, code: str | None) -> None:
    if code is None:
        assert parsed(resource).text
        return
    with pytest.raises(TabootError) as raised:
        parsed(resource)
    assert raised.value.code == code


NAMES = """id video player transcript track json3 text events segs utf8 tStartMs snippet title description
tags channelTitle publishedAt contentDetails duration videoDetails lengthSeconds shortDescription author
microformat playerMicroformatRenderer publishDate thumbnails high url thumbnail languageCode"""
names = st.sampled_from(NAMES.split())
shapes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(names, shapes, max_size=6))
def test_a_video_of_any_shape_is_a_document_or_a_typed_reason(resource: dict[str, Any]) -> None:
    try:
        assert parsed({"id": "aaaaaaaaaaA", "video": {}, **resource}).text
    except TabootError as error:
        assert "failed with" not in error.message, "nothing takes the reader by surprise"
