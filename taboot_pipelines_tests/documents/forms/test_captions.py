"""Captions of every format become paragraphs whose words lead to their bytes and whose times are kept."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.documents.forms.captions import read_track
from taboot_pipelines.documents.forms.captions_cues import Cue, merged
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.offsets import read_places
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines_tests.world import DATA

SUBTITLES = DATA / "youtube" / "subtitles"
XML = "application/vnd.taboot.timedtext+xml"
JSON3 = "application/vnd.taboot.timedtext+json"


def parsed(data: bytes, path: str = "talk.vtt", mime: str | None = None) -> ParsedDocument:
    return parse_document(data, path=path, mime=mime, charset=None, languages=[], max_chars=1_000_000)


def spoken(document: ParsedDocument) -> str:
    """The words alone, without the times that lead paragraphs."""
    return " ".join(re.sub(r"\*\*[0-9:]+\*\*", "", document.text).split())


def cues_of(source: str) -> list[tuple[int, int, str]]:
    return [(cue.start, cue.end, cue.text) for cue in read_track(source).cues]


# --- beside another reader ----------------------------------------------------------------------------------

#: What webvtt-py refuses or takes in, and why we do otherwise: (cues of ours, left out).
OTHERWISE = {
    "empty.vtt": (0, 0),
    "invalid.vtt": (7, 0),  # only the word WEBVTT is missing
    "invalid_format.sbv": (0, 1),
    "invalid_format2.srt": (0, 1),
    "invalid_format3.srt": (0, 1),
    "invalid_format4.srt": (0, 0),
    "missing_timeframe.srt": (4, 1),  # there the cue without times is text of the one before
}


@pytest.mark.parametrize("path", sorted(p.name for p in SUBTITLES.iterdir()))
def test_cues_are_those_that_another_reader_finds(path: str) -> None:
    source = (SUBTITLES / path).read_bytes().decode()
    track = read_track(source)
    if path in OTHERWISE:
        assert (len(track.cues), track.left_out) == OTHERWISE[path]
        return
    theirs = {"vtt": webvtt.read, "srt": webvtt.from_srt, "sbv": webvtt.from_sbv}[path[-3:]](SUBTITLES / path)
    assert [(c.start, c.text.split()) for c in track.cues] == [
        (_milliseconds(c.start), c.text.split()) for c in theirs
    ]
    for ours, other in zip(track.cues, theirs, strict=True):
        assert ours.end == max(_milliseconds(other.end), ours.start)


def _milliseconds(time: str) -> int:
    hours, minutes, seconds = time.split(":")
    return round((int(hours) * 60 + int(minutes)) * 60_000 + float(seconds) * 1000)


def test_what_was_generated_and_rolls_up_is_said_once() -> None:
    document = parsed((SUBTITLES / "youtube_dl.vtt").read_bytes())
    assert document.text == "**4:46** yeah what this will happen is I'm telling"


def test_youtubes_own_formats() -> None:
    document = parsed((DATA / "youtube" / "transcript.xml.static").read_bytes(), "t.xml", XML)
    assert spoken(document) == (
        "Hey, this is just a test this is not the original transcript"
        " just something shorter, I made up for testing"
    )
    document = parsed((DATA / "youtube" / "sample.json3").read_bytes(), "sample.json3")
    assert (
        document.text == "**0:00** hello world second line\n\n**0:35** after the gap\n\n**1:10** final words"
    )
    assert document.mime == JSON3


# --- what files do that no format allows --------------------------------------------------------------------

FORGIVEN = {
    "comma and dot": ("1\n00:00:01.5 --> 00:00:02,500\na\n", [(1500, 2500, "a")]),
    "hours left out": ("WEBVTT\n\n01:02.5 --> 75:00.000\na\n", [(62_500, 4_500_000, "a")]),
    "byte order mark": ("\ufeffWEBVTT\n\n00:01.000 --> 00:02.000\na\n", [(1000, 2000, "a")]),
    "carriage returns": ("1\r00:00:01,000 --> 00:00:02,000\ra\r\r", [(1000, 2000, "a")]),
    "no empty lines": (
        "1\n00:00:01,000 --> 00:00:02,000\na\n2\n00:00:02,000 --> 00:00:03,000\nb\n",
        [(1000, 2000, "a"), (2000, 3000, "b")],
    ),
    "empty lines in a text": (
        "1\n00:00:01,000 --> 00:00:02,000\na\n\nb\n\n2\n00:00:02,000 --> 00:00:03,000\nc\n",
        [(1000, 2000, "a\nb"), (2000, 3000, "c")],
    ),
    "a number that is said": (
        "1\n00:00:01,000 --> 00:00:02,000\n42\n\n2\n00:00:02,000 --> 00:00:03,000\nb\n",
        [(1000, 2000, "42"), (2000, 3000, "b")],
    ),
    "settings and styles": (
        "WEBVTT\n\nSTYLE\n::cue { color: red }\n\nREGION\nid:a\n\nNOTE\n00:00.000 --> 00:01.000\nno\n\n"
        "id\n00:01.000 --> 00:02.000 align:start\n<c.red>a</c> <v Ann>b &amp; c&nbsp;d &lt; e",
        [(1000, 2000, "a b & c d < e")],
    ),
    "overrides": (
        "1\n00:00:01,000 --> 00:00:02,000\n{\\an8}<font color=red>a</font> < b",
        [(1000, 2000, "a < b")],
    ),
    "before the beginning": (
        "1\n-00:00:01,000 --> 00:00:02,000\na\n\n2\n-00:00:03,000 --> -00:00:02,000\nb\n",
        [(0, 2000, "a")],
    ),
    "an end before the start": ("0:00:17.484,0:00:16.543\na[br]b\n", [(17_484, 17_484, "a\nb")]),
    "no time at all": (
        "1\n00:00:61,000 --> 00:00:62,000\na\n\n2\n0:0:01,0 --> 0:0:02,0\nb\n",
        [(1000, 2000, "b")],
    ),
    "srt in webvtt's clothes": ("WEBVTT\n1\n00:00:01,000 --> 00:00:02,000\na", [(1000, 2000, "a")]),
    "srv1": (
        '<transcript><text start="1.5" dur="1">a &amp;amp; &lt;b&gt;c&lt;/b&gt;</text></transcript>',
        [(1500, 2500, "a & c")],
    ),
    "srv2": ('<timedtext><text t="1500" d="1000">a&#10;b</text></timedtext>', [(1500, 2500, "a\nb")]),
    "srv3": (
        '<?xml version="1.0"?><timedtext format="3"><head><ws id="0"/></head><body><w t="0"/>'
        '<p t="1500" d="1000"><s>a</s><s t="5"> b</s></p><p t="2000" d="1" a="1">\n</p>'
        '<p t="x">c</p></body></timedtext>',
        [(1500, 2500, "a b")],
    ),
    "json3": (
        '{"events":[{"dDurationMs":5,"segs":[{"utf8":"\\u00e9 "},{"utf8":"b"}]},'
        '{"tStartMs":"x","segs":[{"utf8":"c"}]}]}',
        [(0, 5, "é b")],
    ),
}


@pytest.mark.parametrize("name", FORGIVEN)
def test_what_can_be_read_is_and_the_rest_is_counted(name: str) -> None:
    source, expected = FORGIVEN[name]
    assert cues_of(source) == expected
    lost = {"before the beginning": 1, "no time at all": 1, "srv3": 1, "json3": 1}.get(name, 0)
    assert read_track(source).left_out == lost
    assert parsed(source.encode(), "x.vtt").metadata.get("cues_left_out", "0") == str(lost)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "E_EMPTY"),
        (b"some text\n", "E_PARSE"),
        (b"WEBVTT\n\nNOTE nothing\n", "E_PARSE"),
        (b"1\n00:00:01,000 --> 00:00:02,000\n\n", "E_PARSE"),
        (b"<html><body>Sign in</body></html>", "E_PARSE"),
        (b'<transcript><text start="1">cut', "E_PARSE"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><transcript><text start="1">&b;</text></transcript>', "E_PARSE"),
        (b'{"events": 5}', "E_PARSE"),
        (b'{"error": {"code": 403}}', "E_PARSE"),
        (b'{"events": [', "E_PARSE"),
        (b"WEBVTT\n\n00:01.000 --> 00:02.000\na\x00b", "E_BINARY"),
    ],
)
def test_a_file_without_cues_is_a_typed_reason(data: bytes, code: str) -> None:
    with pytest.raises(TabootError) as raised:
        parsed(data)
    assert raised.value.code == code and "talk.vtt" in raised.value.message


@pytest.mark.parametrize(
    "source",
    [
        "1\n00:00:01,000 --> 00:00:02,000\na" + "\n" * 300_000 + "b",
        "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n" + "<" * 300_000,
        "1\n00:00:01,000 --> 00:00:02,000\n" + "&" * 300_000 + "{" * 300_000,
        "-->\n" * 100_000,
        "1\n" * 100_000,
        "00:00:01,000 --> 00:00:02,000\nno\nno\n\n" * 30_000,
    ],
)
@pytest.mark.timeout(60)
def test_hostile_files_take_time_in_proportion_to_their_length(source: str) -> None:
    track = read_track(source)
    merged(track.cues)


FILE_PIECES = [
    "WEBVTT",
    "\n",
    "\r\n",
    " ",
    "1",
    "00:00:01.000",
    "0:00:02,5",
    "-00:01.000",
    " --> ",
    ",",
    "NOTE",
]
MARKUP_PIECES = [
    "<c>",
    "</c>",
    "<v Ann>",
    "&amp;",
    "&#0;",
    "&#xD800;",
    "&lt;",
    "{\\an8}",
    "STYLE",
    "a",
    "é",
    "😀",
]
XML_PIECES = ["<transcript>", "</transcript>", '<text start="1" dur="x">', "</text>", "<!-- -->", "<![CDATA["]
ODD_PIECES = ["]]>", "\u2028", "\x0b", "\ufeff"]
pieces = st.sampled_from([*FILE_PIECES, *MARKUP_PIECES, *XML_PIECES, *ODD_PIECES])


@given(st.lists(pieces, max_size=25).map("".join))
def test_any_text_is_captions_or_a_typed_reason(source: str) -> None:
    try:
        document = parsed(source.encode())
    except TabootError as error:
        assert "failed with" not in error.message, "nothing takes the reader by surprise"
    else:
        assert document.text and document.offsets.to_bytes(0, len(document.text))[1] <= len(source.encode())


# --- rolling captions ---------------------------------------------------------------------------------------

lines = st.lists(
    st.sampled_from(["no", "no no", "yes", "we roll up", "up", "the end."]), min_size=1, max_size=12
)


def _clock(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"


def _webvtt(cues: list[tuple[int, int, list[str]]]) -> str:
    return "WEBVTT\n\n" + "".join(
        f"{_clock(start)} --> {_clock(end)} align:start\n" + "\n".join(said) + "\n\n"
        for start, end, said in cues
    )


def rolled_as_youtube(said: list[str], length: int) -> str:
    """Each cue holds the line before, then its own with its words' times; a flash of 10 ms holds it alone."""
    cues = []
    for number, line in enumerate(said):
        start = number * length
        words = line.split()
        timed = words[0] + "".join(f"<{_clock(start + 1)}><c> {word}</c>" for word in words[1:])
        above = said[number - 1] if number else " "
        cues.append((start, start + length - 10, [above, timed]))
        cues.append((start + length - 10, start + length, [line, " "]))
    return _webvtt(cues)


def rolled_in_rows(said: list[str], length: int, rows: int) -> str:
    """CEA-608: the last rows stand on the screen, and each new one moves them up."""
    return _webvtt(
        [(n * length, (n + 1) * length, said[max(0, n + 1 - rows) : n + 1]) for n in range(len(said))]
    )


@given(lines, st.integers(100, 5000), st.one_of(st.none(), st.integers(2, 4)))
def test_rolled_up_cues_merge_back_to_what_was_said(said: list[str], length: int, rows: int | None) -> None:
    source = rolled_as_youtube(said, length) if rows is None else rolled_in_rows(said, length, rows)
    cues = merged(read_track(source).cues)
    assert [cue.text for cue in cues] == said
    assert [cue.start for cue in cues] == [n * length for n in range(len(said))]


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5), min_size=1, max_size=6))
def test_lines_that_grow_word_by_word_merge_back(said: list[list[str]]) -> None:
    said = [[f"{word}{number}" for word in line] for number, line in enumerate(said)]
    cues, time = [], 0
    for line in said:
        for count in range(1, len(line) + 1):
            cues.append((time, time + 100, [" ".join(line[:count])]))
            time += 100
    words = [cue.text for cue in merged(read_track(_webvtt(cues)).cues)]
    if all(len(line) == 1 for line in said):
        assert words == [line[0] for line in said]
    elif sum(len(line) - 1 for line in said) >= len(said) - 1:
        assert words == [word for line in said for word in line]


@given(lines)
def test_cues_that_do_not_roll_are_kept_as_they_are(said: list[str]) -> None:
    source = _webvtt([(n * 3000, n * 3000 + 2000, [line]) for n, line in enumerate(said)])
    cues = list(read_track(source).cues)
    if not any(b.text.startswith(a.text + " ") for a, b in pairwise(cues)):
        assert merged(cues) == cues


@given(st.permutations(range(6)))
def test_cues_out_of_order_are_put_in_order(order: list[int]) -> None:
    source = _webvtt([(n * 1000, n * 1000 + 2500, [f"w{n}"]) for n in order])
    assert [cue.text for cue in merged(read_track(source).cues)] == [f"w{n}" for n in range(6)]


# --- the document -------------------------------------------------------------------------------------------

_MARKUP = re.compile(r'[<>&{}\[\]\\*"\'-]')
letters = st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zs", "Zl", "Zp", "Cs"])
said_words = st.text(letters, min_size=1, max_size=6)


@given(
    st.lists(
        st.tuples(st.integers(0, 4000), st.lists(said_words, min_size=1, max_size=8)), min_size=1, max_size=8
    ),
    st.sampled_from(["vtt", "srt", "xml", "srv3", "json3", "json3 in ascii"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_each_word_leads_to_its_bytes_and_its_second(
    said: list[tuple[int, list[str]]], form: str, charset: str
) -> None:
    cues, time = [], 0
    for number, (gap, words) in enumerate(said):
        time += gap
        # No two words are alike, and none is read as markup.
        words = [f"{_MARKUP.sub('_', word)}{number}x{i}" for i, word in enumerate(words)]
        cues.append((time, time + 1000, words))
        time += 1000
    source = _written(cues, form)
    data = source.encode(charset if not form.startswith(("xml", "srv3")) else "utf-8")
    document = parsed(data, "talk", XML if form in ("xml", "srv3") else JSON3)
    text = document.text
    places = read_places(json.dumps(document.metadata["places"]))
    assert places is not None
    position = 0
    for start, _, words in cues:
        for word in words:
            position = text.index(word, position)
            low, high = document.offsets.to_bytes(position, position + len(word))
            found = data[low:high].decode(document.charset)
            assert (json.loads(f'"{found}"') if form == "json3 in ascii" else found) == word
            assert places.url("https://e.org/?v=1", position) == f"https://e.org/?v=1&t={start // 1000}s"


def _written(cues: list[tuple[int, int, list[str]]], form: str) -> str:
    if form == "vtt":
        return _webvtt([(a, b, [" ".join(words)]) for a, b, words in cues])
    if form == "srt":
        return "\r\n\r\n".join(
            f"{n}\r\n{_clock(a).replace('.', ',')} --> {_clock(b).replace('.', ',')}\r\n" + "\r\n".join(words)
            for n, (a, b, words) in enumerate(cues)
        )
    if form == "xml":
        held = (
            f'<text start="{a / 1000}" dur="{(b - a) / 1000}">{" ".join(words)}</text>'
            for a, b, words in cues
        )
        return f"\n<transcript>{''.join(held)}</transcript>"
    if form == "srv3":
        held = (
            f'<p t="{a}" d="{b - a}">' + "".join(f"<s>{w} </s>" for w in words) + "</p>"
            for a, b, words in cues
        )
        return f'<timedtext format="3"><body>{"".join(held)}</body></timedtext>'
    events = [
        {"tStartMs": a, "dDurationMs": b - a, "segs": [{"utf8": f"{w} "} for w in words]}
        for a, b, words in cues
    ]
    return json.dumps({"wireMagic": "pb3", "events": events}, ensure_ascii=form == "json3 in ascii")


def test_paragraphs_end_at_pauses_speakers_and_sentences() -> None:
    sentence = "word " * 14 + "end."
    cues = [(n * 4000, n * 4000 + 3900, [sentence]) for n in range(9)]
    cues += [(40_000, 41_000, [">> Who asks?"]), (41_000, 42_000, ["I do."]), (90_000, 91_000, ["Late."])]
    document = parsed(_webvtt(cues).encode())
    assert re.findall(r"\*\*([0-9:]+)\*\*", document.text) == ["0:00", "0:16", "0:32", "0:40", "1:30"]
    assert "**0:40** >> Who asks? I do.\n\n**1:30** Late." in document.text
    voices = parsed(
        b"WEBVTT\n\n1:00:00.000 --> 1:00:01.000\n<v Ann Lee>Yes</v>\n\n1:00:01.000 --> 1:00:02.000\n<v Bo>No"
    )
    assert voices.text == "**1:00:00 Ann Lee:** Yes\n\n**1:00:01 Bo:** No"


def test_scripts_without_blanks_get_none() -> None:
    document = parsed("WEBVTT\n\n00:00.000 --> 00:01.000\n你好\n\n00:01.000 --> 00:02.000\n世界 ok".encode())
    assert document.text == "**0:00** 你好世界 ok"


def test_many_cues_are_read_in_time(tmp_path: Path) -> None:
    cues = [Cue(n * 1000, n * 1000 + 900, ()) for n in range(3)]
    assert merged(cues) == []
    source = _webvtt([(n * 2000, n * 2000 + 2000, [f"the words of cue number {n}"]) for n in range(5400)])
    document = parsed(source.encode())
    assert spoken(document).count("cue number") == 5400
