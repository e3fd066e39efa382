"""The connector of type ``youtube``: videos of the API and the player, or of recorded files.

Recorded and exported files of videos: answers of the player and the Data API, what yt-dlp writes, and
watch pages, and captions in any of their formats.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any

from taboot_pipelines.connectors.access import Access, header_value, secret_of
from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.connectors.api.resources import canonical, item, version_of
from taboot_pipelines.connectors.protocol import Connector, Planned
from taboot_pipelines.connectors.recorded import Part, RecordedFile, RecordedFiles
from taboot_pipelines.connectors.youtube.client import (
    PAGE,
    DataApi,
    Site,
    best_track,
    refused,
    tracks_of,
    translatable,
)
from taboot_pipelines.connectors.youtube.entry import YoutubeSource, channel_of, playlist_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
)
from taboot_pipelines.model.videos import TRANSCRIPT_XML, VIDEO, kind_of, unplayable, video_id, watch_url

#: Members that change by themselves while nothing is done to a video.
_VOLATILE = frozenset(
    ("etag", "viewCount", "likeCount", "statistics", "thumbnail", "thumbnails", "averageRating")
)
#: Of the player's answer what says something of the video; the rest is for playing it.
_SHOWN = ("videoDetails", "microformat")
#: After these nothing more can be had in this run.
_ENDS = frozenset(("E_REQUESTS", "E_429_RATE", "E_CIRCUIT_OPEN"))
#: With these no run has any use.
_FAILS = frozenset(("E_CREDENTIALS", "E_CONFIG"))
#: So many refusals in a row are no matter of single videos.
_MAX_BLOCKED = 3
#: A video without a transcript is looked at again after so many days: YouTube makes one in hours.
_WAIT_DAYS = 1


class YoutubeConnector:
    """Asks the Data API what there is, and the player for transcripts."""

    def __init__(self, entry: YoutubeSource, access: Access) -> None:
        self._entry = entry
        self._access = access

    def plan(self) -> Iterator[Planned]:
        """How many videos there are: one request for each playlist, up to two for each channel."""
        entry = self._entry
        with _Service(entry, self._access) as service:
            total: int | None = len(entry.videos)
            if service.api is not None:
                for name, playlist in service.lists():
                    try:
                        items = service.api.count(playlist() or "")
                    except TabootError as error:
                        if error.code in _ENDS | _FAILS:
                            raise
                        yield Planned(name, note=error.message)
                        total = None
                        continue
                    yield Planned(name, requests=math.ceil(items / PAGE) or 1, items=items)
                    total = None if total is None else total + items
            if entry.max_items is not None and total is not None:
                total = min(total, entry.max_items)
            keyed = service.api is not None
            if keyed and total is not None:
                yield Planned("what there is of each video", requests=math.ceil(total / PAGE), items=total)
            yield Planned(
                "videos and transcripts",
                requests=None if total is None else 2 * total + 1,
                items=total,
                note="two requests each at first" + (", none for what did not change" if keyed else ""),
            )

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_CONFIG`` where the key is not set, ``E_CREDENTIALS`` where it is refused. What fails of
        a list makes the enumeration partial; anything else is one item."""
        with _Service(self._entry, self._access) as service:
            yield from _Run(service, self._entry, self._access, known, tombstoned).events()


class _Service:
    """The two services, of which one run may ask so much together."""

    def __init__(self, entry: YoutubeSource, access: Access) -> None:
        self._entry = entry
        limits = Limits(
            max_requests=entry.max_requests,
            max_wait_seconds=entry.max_wait_seconds,
            max_answer_bytes=access.max_blob_bytes,
        )
        self._site = ApiClient("YouTube", entry.base_url, limits=limits)
        self._clients = [self._site]
        self.site = Site(self._site, access.state, self._spend)
        self.api: DataApi | None = None
        secret = secret_of(access, entry.key, entry.key_env)
        if secret is not None:
            headers = {"x-goog-api-key": header_value(secret, "key")}
            client = ApiClient(
                "The YouTube Data API",
                entry.api_url,
                authorize=lambda _: headers,
                limits=limits,
                refused=refused,
            )
            self._clients.append(client)
            self.api = DataApi(client, access.state, self._spend)

    def __enter__(self) -> _Service:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()

    def _spend(self) -> None:
        if sum(client.requests for client in self._clients) >= self._entry.max_requests:
            message = f"The run has made its {self._entry.max_requests} requests of YouTube."
            raise TabootError("E_REQUESTS", message)

    def lists(self) -> Iterator[tuple[str, Callable[[], str | None]]]:
        """Each list of the entry: what it is called, and what asks for the id of its playlist."""
        api = self.api
        if api is None:
            return
        for text in self._entry.playlists:
            yield f"playlists/{playlist_of(text)}", partial(playlist_of, text)
        for text in self._entry.channels:
            channel = channel_of(text) or ""
            yield f"channels/{channel}", partial(api.uploads, channel)


@dataclass
class _Run:
    """One enumeration."""

    service: _Service
    entry: YoutubeSource
    access: Access
    known: Mapping[str, Known]
    tombstoned: Callable[[str], bool]
    #: Why something may be missing; empty where nothing is.
    reason: str = ""
    _taken: int = 0
    _blocked: int = 0
    _done: set[str] = field(default_factory=set)

    def events(self) -> Iterator[Event]:
        try:
            if self.service.api is None:
                yield from self._named()
            else:
                yield from self._listed(self.service.api)
        except _EndError as end:
            self.reason = end.reason
        yield Enumerated(not self.reason, self.reason)

    # --- what there is --------------------------------------------------------------------------------------

    def _named(self) -> Iterator[Event]:
        """The videos that the entry names, by the player alone."""
        # What was never read comes first, so that bounded runs come to an end in time.
        wanted = sorted(self._wanted(self.entry.videos), key=lambda video: video in self.known)
        for ids in _batches(wanted, PAGE):
            for video in ids:
                yield from self._video(video, None)
            yield Checkpoint()

    def _listed(self, api: DataApi) -> Iterator[Event]:
        """Everything that the entry names, by the Data API."""
        found = self._wanted(self.entry.videos)
        for name, playlist in self.service.lists():
            try:
                uploads = playlist()
                if uploads is None:
                    raise TabootError("E_NOT_FOUND", f"There is no {name}.")
                ids, changed = api.playlist(uploads)
            except TabootError as error:
                _let_through(error)
                self.reason = self.reason or f"{name} could not be read to its end"
                yield Failed(name, error)
                continue
            if changed:
                self.reason = self.reason or f"{name} changed while it was read"
            found += ids
        ids = list(dict.fromkeys(found))
        for batch in _batches(ids, PAGE):
            yield from self._batch(api, batch)
            yield Checkpoint()
        if not self.reason:
            api.forget_unused()

    def _wanted(self, texts: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(found for text in texts if (found := video_id(text)) is not None))

    def _batch(self, api: DataApi, batch: Sequence[str]) -> Iterator[Event]:
        """The events of up to a page of videos."""
        wanted = [video for video in batch if not self.tombstoned(video)]
        yield from (self._buried(video) for video in batch if self.tombstoned(video))
        if not wanted:
            return
        try:
            versions = api.versions(wanted, _VOLATILE)
            items: Mapping[str, Any] = {}
            if any(
                not self._is_as_it_was(video, versions.get(video)) for video in wanted if video in versions
            ):
                items = api.videos(wanted)
        except TabootError as error:
            _let_through(error)
            for video in wanted:
                yield Failed(video, error)
            return
        for video in wanted:
            if video not in versions:
                self.access.state.save(f"video/{video}", None)
                yield Gone(video, "E_NOT_FOUND", f"The video {video} is not available, or not to everybody.")
            elif self._too_old(api.published(video)):
                continue
            elif self._is_as_it_was(video, versions[video]):
                yield from self._unchanged(video)
            elif video in items:
                yield from self._video(video, items[video])

    def _too_old(self, published: str) -> bool:
        since = self.entry.since
        return (
            since is not None
            and re.match(r"\d{4}-\d\d-\d\d", published) is not None
            and published[:10] < str(since)
        )

    # --- one video ------------------------------------------------------------------------------------------

    def _buried(self, video: str) -> Skipped:
        return Skipped(video, "E_TOMBSTONED", f"{video} was deleted on purpose.")

    def _is_as_it_was(self, video: str, version: str | None) -> bool:
        """Whether what is stored of a video is what there is, as far as can be told without asking again."""
        known, seen = self.known.get(video), self.access.state.load(f"video/{video}")
        if known is None or not known.whole or known.url != watch_url(video) or seen is None:
            return False
        last, day, outcome = seen
        age = (self._today() - date.fromisoformat(day)).days
        limit = self.entry.refresh_days
        return last == version and 0 <= age < (min(limit, _WAIT_DAYS) if outcome else limit)

    def _today(self) -> date:
        return self.access.clock().date()

    def _unchanged(self, video: str) -> Iterator[Event]:
        yield NotModified(video)
        outcome = self.access.state.load(f"video/{video}")[2]
        if outcome:
            yield self._without(video, outcome)

    def _without(self, video: str, outcome: str) -> Skipped:
        """Why a video that is taken has no transcript."""
        return Skipped(f"{video}#transcript", "E_TRANSCRIPT", f"The video {video} {outcome}.")

    def _video(self, video: str, listed: Mapping[str, Any] | None) -> Iterator[Event]:
        """The events of a video that is asked for. ``listed``: what the Data API says of it."""
        if self.tombstoned(video):
            yield self._buried(video)
            return
        if self.entry.max_items is not None and self._taken >= self.entry.max_items:
            raise _EndError(f"`max_items` of {self.entry.max_items} is reached")
        try:
            if self._blocked >= _MAX_BLOCKED:
                raise TabootError("E_403_WAF", "YouTube shows its videos to nobody from this address.")
            yield from self._asked(video, listed)
            self._blocked = 0
        except TabootError as error:
            _let_through(error)
            self._blocked = self._blocked + 1 if error.code == "E_403_WAF" else 0
            if error.code == "E_403_WAF" and listed is not None and video not in self.known:
                # What the Data API says is worth having; the next run asks for the transcript.
                yield self._item(video, {"id": video, "video": listed})
                yield Failed(f"{video}#transcript", error)
                return
            yield Failed(video, error)
            if listed is None and self._blocked >= _MAX_BLOCKED:
                raise _EndError("YouTube shows its videos to nobody from this address") from None

    def _item(self, video: str, resource: Mapping[str, Any]) -> Event:
        event = item(self.known, video, resource, volatile=_VOLATILE, mime=VIDEO, url=watch_url(video))
        self._taken += isinstance(event, Fetched)
        return event

    def _asked(self, video: str, listed: Mapping[str, Any] | None) -> Iterator[Event]:
        player = self.service.site.player(video)
        refusal = unplayable(player, f"The video {video}")
        if refusal is not None and refusal.code == "E_403_WAF":
            raise refusal
        if refusal is not None and listed is None:
            if refusal.code == "E_NOT_FOUND":
                yield Gone(video, refusal.code, refusal.message)
            else:
                yield Skipped(video, refusal.code, refusal.message)
            return
        shown = {name: value.plain() for name in _SHOWN if (value := player.at(name)) is not None}
        tracks = [] if refusal is not None else tracks_of(player)
        listed_tracks = [{k: v for k, v in track.items() if k != "baseUrl"} for track in tracks]
        resource: dict[str, Any] = {"id": video, "player": {**shown, "tracks": listed_tracks}}
        if listed is not None:
            resource["video"] = listed
        base = version_of(resource if listed is None else listed, _VOLATILE)
        if listed is None and self._is_as_it_was(video, base):
            yield from self._unchanged(video)
            return
        transcript, outcome = self._transcript(player, refusal)
        if transcript is not None:
            resource["transcript"] = transcript
        yield self._item(video, resource)
        if outcome:
            yield self._without(video, outcome)
        self.access.state.save(f"video/{video}", [base, self._today().isoformat(), outcome])

    def _transcript(self, player: Value, refusal: TabootError | None) -> tuple[dict[str, Any] | None, str]:
        """The transcript with its track; else None, and why there is none."""
        if refusal is not None:
            return None, "has no transcript: " + refusal.message.partition(" ")[2].rstrip(".")
        tracks = tracks_of(player)
        languages = self.entry.languages
        track, target = best_track(tracks, languages), None
        if track is None and self.entry.translated and (found := translatable(player, tracks, languages)):
            track, target = found
        if track is None:
            if tracks:
                return None, f"has no transcript in {', '.join(languages)}"
            live = player.true("videoDetails", "isLive") or player.true("videoDetails", "isUpcoming")
            return (
                None,
                "is live, and has no transcript yet" if live else "has transcripts disabled, or none yet",
            )
        said = {k: v for k, v in track.items() if k != "baseUrl"}
        if target is not None:
            said |= {"languageCode": target, "translatedFrom": track.get("languageCode")}
        return {"track": said, **self.service.site.transcript(track, target)}, ""


def _batches(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for at in range(0, len(names), size):
        yield names[at : at + size]


class _EndError(Exception):
    """The run can take nothing more; what it did not come to stays as it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _let_through(error: TabootError) -> None:
    """Raise what is no matter of one item: an error of the whole source, or the end of the run."""
    if error.code in _FAILS:
        raise error
    if error.code in _ENDS:
        raise _EndError(error.message) from None


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


def connect(entry: YoutubeSource, access: Access) -> Connector:
    """What reads the entry's folder, or asks for its videos."""
    if entry.path is not None:
        return RecordedFiles(entry, access, VideoReader(), default_include=DEFAULT_INCLUDE)
    return YoutubeConnector(entry, access)
