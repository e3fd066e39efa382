"""Captions as text that one reads: paragraphs, each led by its time.

Takes WebVTT, SRT, SBV, and YouTube's XML and json3, told apart by what they hold. A document of captions says
in its :class:`~taboot_pipelines.model.places.Places` at which second each cue begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.documents.forms.captions_cues import Cue, Placed, Track, Word, merged
from taboot_pipelines.documents.forms.captions_files import read_file
from taboot_pipelines.documents.forms.captions_timedtext import read_json3, read_xml
from taboot_pipelines.documents.forms.form import Formed, Given
from taboot_pipelines.documents.forms.writing import SourceWriter
from taboot_pipelines.documents.metadata import Facts
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import json_text
from taboot_pipelines.model.places import Places

#: How YouTube's URLs say a time.
TIME_QUERY = "t={}s"
#: A pause of so many ms begins a paragraph, a shorter one only behind a sentence of a long paragraph.
_PAUSE_MS = 3000
_SHORT_PAUSE_MS = 700
#: Words after which a paragraph may end, and must.
_LONG = 60
_TOO_LONG = 150
_SENTENCE_END = re.compile(r"[.!?…。！？]['\"”’»)\]]*\Z")
#: A new speaker, as captions mark one.
_TURN = re.compile(r">>|[-–—]\Z|[-–—](?=\w)")
#: Letters of scripts that put no blank between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f]"
)


def captions(data: bytes, given: Given) -> Formed:
    """The document of a caption file. Raises ``E_PARSE`` for a file without any cue, ``E_ENCODING``."""
    source, charset, bom = decode(data, given.charset)
    if "\x00" in source:
        raise TabootError("E_BINARY", f"{given.path} is no captions: it holds NUL.", path=given.path)
    track = read_track(source)
    cues = merged(track.cues)
    if not cues:
        lost = f" {track.left_out} could not be read." if track.left_out else ""
        raise TabootError("E_PARSE", f"{given.path} holds no cue of captions.{lost}", path=given.path)
    writer = SourceWriter(source, given.max_chars, charset=charset, bom=bom)
    facts = Facts(lang=track.language)
    facts.places = Places.of(TIME_QUERY, write_transcript(writer, cues))
    if track.left_out:
        facts.put("cues_left_out", track.left_out)
    return Formed(writer.text, writer.offsets(), facts, charset)


def read_track(source: str) -> Track:
    """The cues of captions in any of the formats. Raises ``E_PARSE`` for XML or JSON that is none."""
    begin = source.lstrip("\ufeff \t\r\n")[:1]
    if begin == "<":
        return read_xml(source)
    if begin == "{":
        return read_json3(json_text.parse(source), source)
    return read_file(source)


def read_placed(said: Placed) -> Track:
    """The cues of captions that are a part of another text: their words stand where that says."""
    track = read_track(said.text)

    def moved(word: Word) -> Word:
        return Word(word.text, said.begins[word.start], said.ends[word.end - 1])

    cues = tuple(
        Cue(cue.start, cue.end, tuple(tuple(map(moved, line)) for line in cue.lines), cue.speaker)
        for cue in track.cues
    )
    return Track(cues, track.left_out, track.language)


def write_transcript(writer: SourceWriter, cues: Sequence[Cue]) -> list[tuple[int, int]]:
    """Write the cues as paragraphs; returns (where a cue begins in the document, at which second)."""
    places: list[tuple[int, int]] = []
    for paragraph in _paragraphs(cues):
        if places:
            writer.put("\n\n")
        first = paragraph[0]
        places.append((writer.length, first.start // 1000))
        speaker = f" {first.speaker}:" if first.speaker else ""
        writer.put(f"**{clock(first.start)}{speaker}** ")
        last = ""
        for cue in paragraph:
            if cue is not first:
                places.append((writer.length + (last != "" and not _joins(last, cue)), cue.start // 1000))
            for line in cue.lines:
                last = _write_line(writer, line, last)
    return places


def clock(milliseconds: int) -> str:
    """A time as players show it: ``1:02:03``, ``2:03``."""
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _joins(last: str, cue: Cue) -> bool:
    return _unspaced(last, cue.lines[0][0].text)


def _unspaced(last: str, text: str) -> bool:
    return bool(_UNSPACED.match(last[-1]) and _UNSPACED.match(text[0]))


def _write_line(writer: SourceWriter, line: Iterable[Word], last: str) -> str:
    """Write a line behind the word ``last``, if any; returns its own last word. Words that stand one blank
    apart are written at once."""
    begin: Word | None = None
    text, end = "", 0
    for word in line:
        as_it_is = len(word.text) == word.end - word.start
        if begin is not None and as_it_is and word.start == end + 1 and len(text) == end - begin.start:
            text, end = f"{text} {word.text}", word.end
        else:
            if begin is not None:
                writer.piece(text, begin.start, end)
                writer.put(" ")
            elif last and not _unspaced(last, word.text):
                writer.put(" ")
            begin, text, end = word, word.text, word.end
        last = word.text
    if begin is not None:
        writer.piece(text, begin.start, end)
    return last


def _paragraphs(cues: Sequence[Cue]) -> list[list[Cue]]:
    """The cues that are read together: until a pause, another speaker, or the end of a sentence where there
    are many words."""
    paragraphs: list[list[Cue]] = []
    words = 0
    for cue in cues:
        if not paragraphs or _parts(paragraphs[-1][-1], cue, words):
            paragraphs.append([])
            words = 0
        paragraphs[-1].append(cue)
        # A word of a script without blanks is a whole line; it has about two letters.
        words += sum(
            1 if not _UNSPACED.match(word.text) else 1 + len(word.text) // 2
            for line in cue.lines
            for word in line
        )
    return paragraphs


def _parts(last: Cue, cue: Cue, words: int) -> bool:
    pause = cue.start - last.end
    if pause >= _PAUSE_MS or words >= _TOO_LONG or cue.speaker != last.speaker:
        return True
    if _TURN.match(cue.lines[0][0].text):
        return True
    ended = _SENTENCE_END.search(last.lines[-1][-1].text) is not None
    return words >= _LONG and (ended or pause >= _SHORT_PAUSE_MS)
