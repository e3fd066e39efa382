"""A video of YouTube as a document: title, channel and date, its description, and its transcript under the
chapters that the description lists.

Takes what the connector stores (``id`` with ``player``, ``video`` of the Data API and ``transcript``), an
answer of the player, a video of the Data API, and what yt-dlp writes beside a video (``.info.json``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.documents.forms.captions import TIME_QUERY, clock, read_placed, write_transcript
from taboot_pipelines.documents.forms.captions_cues import (
    Cue,
    Placed,
    Track,
    merged,
    placed_string,
    read_json3,
)
from taboot_pipelines.documents.forms.writing import Formed, Given, JsonWriter
from taboot_pipelines.documents.metadata import Facts, parse_date
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.offsets import Places
from taboot_pipelines.model.videos import VIDEO, kind_of, unplayable, watch_url

#: As YouTube takes chapters from a description: so many, the first at 0:00, each at least so long (seconds).
_MIN_CHAPTERS = 3
_MIN_CHAPTER_SECONDS = 10
_MAX_CHAPTERS = 1000

_STAMP = r"(?:[0-9]{1,2}:)?[0-9]{1,3}:[0-9]{2}"
_CHAPTER = re.compile(
    rf"[^\w\n(\[]{{0,8}}[(\[]?(?P<first>{_STAMP})[)\]]?[\s:.\-–—|•►▶]*(?=\S)(?P<after>[^\n]{{1,300}})"
    rf"|(?P<before>[^\n]{{1,300}}?)[\s:.\-–—|•]+[(\[]?(?P<last>{_STAMP})[)\]]?\s*"
)
#: Lines that Markdown would take for more than text.
_MARKUP = re.compile(r"\s{0,3}(?:#{1,6}(?:\s|\Z)|>|[-=_*~`+]{2,}|[-*+]\s|[0-9]{1,9}[.)]\s)")
_DURATION = re.compile(r"P(?:([0-9]{1,4})D)?(?:T(?:([0-9]{1,5})H)?(?:([0-9]{1,5})M)?(?:([0-9]{1,8})S)?)?")


@dataclass(frozen=True, slots=True)
class _Chapter:
    """A chapter from ``seconds`` on, whose title stands at ``[start, end)`` of the source."""

    seconds: int
    title: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Video:
    """What is said of a video, wherever that stands."""

    id: str
    title: Value | None
    channel: Value | None
    published: Value | None
    length: Value | None
    description: Value | None
    keywords: Sequence[Value]
    image: str
    language: str


def video(data: bytes, given: Given) -> Formed:
    """The document of a video. Raises ``E_PARSE`` for JSON that holds none; where the player refuses it, the
    reason (``E_NOT_FOUND``, ``E_FORBIDDEN``, ``E_403_WAF``, ``E_TRANSCRIPT``)."""
    source, charset, bom = decode(data, given.charset)
    root = parse(source)
    if kind_of(root) != VIDEO:
        raise TabootError("E_PARSE", f"{given.path} holds no video.", path=given.path)
    player = root.at("player") or root
    refusal = unplayable(player, f"The video of {given.path}")
    if refusal is not None and root.at("video") is None:
        raise refusal
    found = _video(root, player)
    track = _transcript(root, source)
    facts = _facts(found, root, track)
    writer = JsonWriter(source, given.max_chars, charset=charset, bom=bom)
    places = _write(writer, found, source, merged(track.cues))
    if places:
        facts.places = Places.of(TIME_QUERY, places)
    if track.left_out:
        facts.put("cues_left_out", track.left_out)
    return Formed(writer.text, writer.offsets(), facts, charset)


def _video(root: Value, player: Value) -> _Video:
    item = root.at("video") or root
    snippet = item.at("snippet")
    shown = player.at("videoDetails")
    micro = player.at("microformat", "playerMicroformatRenderer")

    def first(*ways: tuple[Value | None, str]) -> Value | None:
        for holder, name in ways:
            value = None if holder is None else holder.at(name)
            if value is not None and (value.data or value.data == 0):
                return value
        return None

    keywords = first((snippet, "tags"), (shown, "keywords"), (root, "tags"))
    language = first((root.at("transcript", "track"), "languageCode"), (snippet, "defaultAudioLanguage"))
    own = first((root, "id"), (shown, "videoId"))
    return _Video(
        id=own.data if own is not None and isinstance(own.data, str) else "",
        title=first((snippet, "title"), (shown, "title"), (root, "title")),
        channel=first((snippet, "channelTitle"), (shown, "author"), (root, "channel"), (root, "uploader")),
        published=first((snippet, "publishedAt"), (micro, "publishDate"), (root, "upload_date")),
        length=first((item.at("contentDetails"), "duration"), (shown, "lengthSeconds"), (root, "duration")),
        description=first(
            (snippet, "description"),
            (shown, "shortDescription"),
            (root, "description"),
            (micro, "description"),
        ),
        keywords=keywords.items() if keywords is not None else (),
        image=_image(snippet, shown),
        language=language.data if language is not None and isinstance(language.data, str) else "",
    )


def _image(snippet: Value | None, shown: Value | None) -> str:
    if snippet is not None and (url := snippet.string("thumbnails", "high", "url")):
        return url
    pictures = shown.items("thumbnail", "thumbnails") if shown is not None else []
    return pictures[-1].string("url") if pictures else ""


def _transcript(root: Value, source: str) -> Track:
    """The cues of the transcript that the connector has put beside the video."""
    json3 = root.at("transcript", "json3")
    if json3 is not None:
        return read_json3(json3, source)
    text = root.at("transcript", "text")
    if text is not None and isinstance(text.data, str):
        return read_placed(placed_string(text, source))
    return Track(())


def _facts(found: _Video, root: Value, track: Track) -> Facts:
    facts = Facts(lang=found.language)
    if found.title is not None:
        facts.title = " ".join(str(found.title.data).split())
    facts.put("author", found.channel.data if found.channel is not None else None)
    facts.put("description", found.description.data if found.description is not None else None)
    facts.put_keywords([value.data for value in found.keywords if isinstance(value.data, str)])
    if found.id:
        facts.put("canonical_url", watch_url(found.id))
    facts.put("og_image", found.image)
    if found.published is not None:
        facts.date = parse_date(found.published.data)
    if track.cues:
        generated = " (generated)" if root.string("transcript", "track", "kind") == "asr" else ""
        facts.put("transcript", f"{found.language}{generated}")
    return facts


def _write(writer: JsonWriter, found: _Video, source: str, cues: Sequence[Cue]) -> list[tuple[int, int]]:
    """Write the document; returns (position, second) of what stands at a second of the video."""
    _write_head(writer, found)
    chapters: list[_Chapter] = []
    if found.description is not None and isinstance(found.description.data, str):
        said = placed_string(found.description, source)
        chapters = _chapters(said)
        writer.put("\n\n## Description\n\n")
        _write_description(writer, said)
    if not cues:
        return _write_chapters(writer, chapters)
    writer.put("\n\n## Transcript\n\n")
    places: list[tuple[int, int]] = []
    starts = [chapter.seconds * 1000 for chapter in chapters]
    # The first chapter begins at 0, so no cue lies before it.
    cuts = [bisect_right(starts, cue.start) - 1 for cue in cues]
    at = 0
    for number, chapter in enumerate(chapters):
        until = next((n for n in range(at, len(cues)) if cuts[n] > number), len(cues))
        places.append((writer.length, chapter.seconds))
        writer.put(f"### {clock(chapter.seconds * 1000)} ")
        writer.piece(chapter.title, chapter.start, chapter.end)
        if at < until:
            writer.put("\n\n")
            places += write_transcript(writer, cues[at:until])
        if number + 1 < len(chapters):
            writer.put("\n\n")
        at = until
    if not chapters:
        places = write_transcript(writer, cues)
    return places


def _write_head(writer: JsonWriter, found: _Video) -> None:
    if found.title is not None:
        writer.put("# ")
        writer.said(" ".join(str(found.title.data).split()), found.title)
        writer.put("\n\n")
    told = [
        (found.channel, str(found.channel.data) if found.channel is not None else ""),
        (found.published, _day(found.published)),
        (found.length, _length(found.length)),
    ]
    joint = ""
    for value, text in told:
        if value is not None and text:
            writer.put(joint)
            writer.said(" ".join(text.split()), value)
            joint = " · "


def _day(value: Value | None) -> str:
    day = parse_date(value.data) if value is not None else None
    return f"{day:%Y-%m-%d}" if day is not None else ""


def _length(value: Value | None) -> str:
    """The length as players show it; empty where it is none, or 0 as of a live stream."""
    data = value.data if value is not None else None
    if isinstance(data, str) and (parts := _DURATION.fullmatch(data)):
        days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
        total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    elif isinstance(data, str):
        total = int(data) if re.fullmatch(r"[0-9]{1,9}", data) else 0
    else:
        total = int(data) if isinstance(data, int | float) and 0 <= data < 10**9 else 0
    return clock(total * 1000) if total else ""


def _lines(said: Placed) -> Iterator[tuple[int, int]]:
    """Where each line of a text begins and ends."""
    for match in re.finditer(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)", said.text):
        yield match.span(1)


def _write_description(writer: JsonWriter, said: Placed) -> None:
    """Write a description as it is; what Markdown would take for a heading or a list is text."""
    blank = False
    first = True
    for start, end in _lines(said):
        line = said.text[start:end].rstrip()
        if not line:
            blank = not first
            continue
        if not first:
            writer.put("\n\n" if blank else "\n")
        first = blank = False
        if _MARKUP.match(line):
            indent = len(line) - len(line.lstrip())
            start, line = start + indent, line.lstrip()
            writer.put("\\")
        writer.piece(line, said.begins[start], said.ends[start + len(line) - 1])


def _write_chapters(writer: JsonWriter, chapters: Sequence[_Chapter]) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    if chapters:
        writer.put("\n\n## Chapters\n")
    for chapter in chapters:
        writer.put("\n")
        places.append((writer.length, chapter.seconds))
        writer.put(f"- **{clock(chapter.seconds * 1000)}** ")
        writer.piece(chapter.title, chapter.start, chapter.end)
    return places


def _chapters(said: Placed) -> list[_Chapter]:
    """The chapters that a description lists; none where YouTube would take none from it."""
    found: list[_Chapter] = []
    for start, end in _lines(said):
        match = _CHAPTER.fullmatch(said.text[start : min(end, start + 400)])
        if match is None:
            continue
        title = "after" if match["after"] else "before"
        text = match[title].strip()
        begin = start + match.start(title) + len(match[title]) - len(match[title].lstrip())
        if not text:
            continue
        seconds = 0
        for part in (match["first"] or match["last"]).split(":"):
            seconds = 60 * seconds + int(part)
        found.append(_Chapter(seconds, text, said.begins[begin], said.ends[begin + len(text) - 1]))
        if len(found) > _MAX_CHAPTERS:
            return []
    if len(found) < _MIN_CHAPTERS or found[0].seconds != 0:
        return []
    if any(b.seconds - a.seconds < _MIN_CHAPTER_SECONDS for a, b in pairwise(found)):
        return []
    return found
