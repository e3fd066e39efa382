"""Recorded and exported files of videos: answers of the player and the Data API, what yt-dlp writes, and
watch pages, and captions in any of their formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from taboot_pipelines.connectors.api import canonical
from taboot_pipelines.connectors.recorded import Part, RecordedFile
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.videos import TRANSCRIPT_XML, VIDEO, kind_of, video_id, watch_url

DEFAULT_INCLUDE = (
    "*.json",
    "*.json3",
    "*.vtt",
    "*.srt",
    "*.sbv",
    "*.xml",
    "*.srv1",
    "*.srv2",
    "*.srv3",
    "*.html",
    "*.static",
)
#: Files that say by their names that they are captions: whether they are is told when they are read.
_CAPTIONS = {"vtt": "text/vtt", "srt": "application/x-subrip", "sbv": "text/x-sbv"}
_TRANSCRIPT = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--.{0,2000}?-->\s*)?<(?:transcript|timedtext)[\s/>]", re.S
)
_TIME = r"-?(?:[0-9]{1,6}:)?[0-9]{1,6}:[0-9]{1,2}(?:[.,][0-9]{1,9})?"
_ARROW = re.compile(rf"^[ \t]*{_TIME}[ \t]*-{{1,3}}>[ \t]*{_TIME}", re.M)
_SBV = re.compile(rf"^[ \t]*{_TIME}[ \t]*,[ \t]*{_TIME}[ \t]*\r?$", re.M)
#: How yt-dlp names the video of a file.
_NAMED = re.compile(r"\[([A-Za-z0-9_-]{11})\](?=\.[^/]*\Z)")
_PLAYER = re.compile(r"ytInitialPlayerResponse\s*=\s*(?=\{)")
_IN_BETWEEN = re.compile(r"consent\.(?:youtube|google)\.com|g-recaptcha")
#: What people wrote beside a live video, as yt-dlp records it: a value of JSON on each line.
_CHAT = re.compile(r'\s*\{"(?:replayChatItemAction|clickTrackingParams)"')
#: In so much of a file its first cue is looked for.
_SNIFFED = 65_536


class VideoReader:
    """Takes files that hold a video or its captions. A list of the Data API is a container of its videos."""

    version = "1"

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        """Raises ``E_MIME`` for what is neither, ``E_PARSE`` for JSON that breaks off, ``E_EMPTY``,
        ``E_TOO_LARGE``."""
        data = file.read()
        if not data.strip():
            raise TabootError("E_EMPTY", f"{file.path} is empty.", path=file.path)
        named = _NAMED.search(file.path)
        url = watch_url(named[1]) if named else None
        ending = file.path.rpartition(".")[2].lower()
        if ending in _CAPTIONS:
            yield Part(data, mime=_CAPTIONS[ending], url=url)
            return
        head = data[:_SNIFFED].decode(
            "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace"
        )
        begin = head.lstrip()[:1]
        if begin == "{":
            yield from _json(file.path, data, url)
        elif _TRANSCRIPT.match(head):
            yield Part(data, mime=TRANSCRIPT_XML, url=url)
        elif begin == "<":
            yield from _page(file.path, data)
        elif _ARROW.search(head):
            yield Part(data, mime=_CAPTIONS["vtt" if head.lstrip().startswith("WEBVTT") else "srt"], url=url)
        elif _SBV.search(head):
            yield Part(data, mime=_CAPTIONS["sbv"], url=url)
        else:
            raise TabootError("E_MIME", f"{file.path} holds no video and no captions.", path=file.path)


def _page(path: str, data: bytes) -> Iterator[Part]:
    """The player's answer in a saved watch page."""
    text = data.decode("utf-8", "replace")
    found = _PLAYER.search(text)
    if found is not None:
        try:
            answer, _ = json.JSONDecoder().raw_decode(text, found.end())
        except (ValueError, RecursionError):
            raise TabootError("E_PARSE", f"{path}: the player's answer in the page breaks off.") from None
        shown = answer.get("videoDetails") if isinstance(answer, dict) else None
        own = video_id(str(shown.get("videoId", ""))) if isinstance(shown, dict) else None
        url = watch_url(own) if own else None
        yield Part(canonical(answer), own or "player", mime=VIDEO, charset="utf-8", url=url)
        return
    if _IN_BETWEEN.search(text):
        raise TabootError(
            "E_MIME", f"{path} is a page of YouTube that asks who is there, and shows no video."
        )
    raise TabootError("E_MIME", f"{path} holds no video and no captions.", path=path)


def _json(path: str, data: bytes, url: str | None) -> Iterator[Part]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TabootError("E_MIME", f"{path} is no JSON in UTF-8.", path=path) from None
    if _CHAT.match(text):
        raise TabootError(
            "E_MIME", f"{path} is the recorded chat of a live video, which is not read.", path=path
        )
    try:
        root = parse(text)
    except TabootError as error:
        raise TabootError(error.code, f"{path}: {error.message}", path=path, **error.details) from None
    if root.string("kind") == "youtube#videoListResponse":
        for number, video in enumerate(root.items("items")):
            own = _own(video)
            part = canonical(video.plain())
            yield Part(
                part, own or str(number), mime=VIDEO, charset="utf-8", url=watch_url(own) if own else None
            )
        return
    kind = kind_of(root)
    if kind is None:
        raise TabootError("E_MIME", f"{path} is JSON, but holds no video and no transcript.", path=path)
    own = _own(root)
    yield Part(data, mime=kind, url=watch_url(own) if own else url)


def _own(root: Value) -> str | None:
    """The id that the JSON of a video says it has."""
    return video_id(root.string("videoDetails", "videoId") or root.string("id"))
