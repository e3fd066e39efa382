"""A fake of YouTube: its Data API v3, its player and its transcripts, made of the recorded answers.

Paths, parameters, pagination, ETags and errors are those of the real services. What it tells can be changed
while it runs.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.world import DATA

KEY = "AIzaSyFakeKeyOfTheDataApi-swordfish"
PLAYER_KEY = "AIzaSyFakeKeyOfThePlayer_000"

#: (ms, ms, text)
Cues = list[tuple[int, int, str]]


@cache
def recorded(name: str) -> Any:
    return json.loads((DATA / "youtube" / f"{name}.innertube.json.static").read_text())


@dataclass
class FakeVideo:
    """``tracks``: by (language, kind; empty for one that people made). ``status``: None where it plays."""

    title: str = "A talk"
    description: str = ""
    published: str = "2026-01-02T03:04:05Z"
    tracks: dict[tuple[str, str], Cues] = field(default_factory=dict)
    status: dict[str, Any] | None = None
    live: bool = False


class FakeYoutube:
    def __init__(self) -> None:
        self.videos: dict[str, FakeVideo] = {}
        self.playlists: dict[str, list[str]] = {}
        self.channels: dict[str, str] = {}
        self.base = ""
        self.page = 50
        #: Requests by the last part of their path; those that were answered by 304; the Data API's headers.
        self.asked: Counter[str] = Counter()
        self.unmodified: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        #: May answer in place of the fake; returns whether it did.
        self.instead: Callable[[BaseHTTPRequestHandler, str], bool] = lambda *_: False
        self.caption_host = "https://www.youtube.com"
        self.views = 0

    @contextmanager
    def serving(self) -> Iterator[FakeYoutube]:
        with serve(self._handle) as site:
            self.base = site.base
            yield self

    def entry(self, **fields: Any) -> dict[str, Any]:
        """An entry of the sources file that asks this fake."""
        return {"base_url": self.base, "api_url": f"{self.base}/youtube/v3", **fields}

    def _handle(self, h: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(h.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        body = h.rfile.read(int(h.headers.get("content-length") or 0))
        name = parts.path.rpartition("/")[2]
        self.asked[name] += 1
        if self.instead(h, name):
            return
        if parts.path.startswith("/youtube/v3/"):
            self._data_api(h, name, query)
        elif parts.path == "/watch":
            page = f'<html><script>ytcfg.set({{"INNERTUBE_API_KEY":"{PLAYER_KEY}"}});</script></html>'
            send(h, 200, page.encode(), content_type="text/html; charset=utf-8")
        elif parts.path == "/youtubei/v1/player" and h.command == "POST" and query.get("key") == PLAYER_KEY:
            assert json.loads(body)["context"]["client"]["clientName"]
            self._json(h, self.player(json.loads(body)["videoId"]))
        elif parts.path == "/api/timedtext" and query.get("signature") == "swordfish":
            self._timedtext(h, query)
        else:
            send(h, 404)

    def _json(self, h: BaseHTTPRequestHandler, value: Any, status: int = 200, **headers: str) -> None:
        send(h, status, json.dumps(value).encode(), content_type="application/json; charset=UTF-8", **headers)

    # --- the Data API ---------------------------------------------------------------------------------------

    def _data_api(self, h: BaseHTTPRequestHandler, name: str, query: dict[str, str]) -> None:
        assert "key" not in query, "a key in a URL is in every log"
        self.headers.append({k.lower(): v for k, v in h.headers.items()})
        if h.headers.get("x-goog-api-key") != KEY:
            reason = {"reason": "badRequest", "message": "API key not valid."}
            self._json(h, {"error": {"code": 400, "errors": [reason]}}, 400)
            return
        said = {"channels": self._channels, "playlistItems": self._playlist, "videos": self._videos}[name](
            query
        )
        if said is None:
            self._json(h, {"error": {"code": 404, "errors": [{"reason": "playlistNotFound"}]}}, 404)
            return
        etag = hashlib.sha1(json.dumps(said).encode()).hexdigest()
        if h.headers.get("if-none-match") in (etag, f'"{etag}"'):
            self.unmodified[name] += 1
            send(h, 304, etag=etag)
            return
        self._json(h, {**said, "etag": etag}, etag=etag)

    def _channels(self, query: dict[str, str]) -> Any:
        found = self.channels.get(query.get("id") or query.get("forHandle", ""))
        items = [{"contentDetails": {"relatedPlaylists": {"uploads": found}}}] if found else []
        return {"kind": "youtube#channelListResponse", **({"items": items} if items else {})}

    def _playlist(self, query: dict[str, str]) -> Any:
        ids = self.playlists.get(query["playlistId"])
        if ids is None:
            return None
        size = min(int(query.get("maxResults", "5")), self.page)
        at = int(query.get("pageToken", "CAUQ0").removeprefix("CAUQ"))
        said: dict[str, Any] = {
            "kind": "youtube#playlistItemListResponse",
            "items": [{"contentDetails": {"videoId": x}} for x in ids[at : at + size]],
            "pageInfo": {"totalResults": len(ids), "resultsPerPage": size},
        }
        if at + size < len(ids):
            said["nextPageToken"] = f"CAUQ{at + size}"
        return said

    def _videos(self, query: dict[str, str]) -> Any:
        assert len(query["id"].split(",")) <= 50
        items = [self.item(x) for x in query["id"].split(",") if self._public(x)]
        return {"kind": "youtube#videoListResponse", "items": items}

    def _public(self, video_id: str) -> bool:
        return video_id in self.videos

    def item(self, video_id: str) -> dict[str, Any]:
        video = self.videos[video_id]
        snippet = {
            "publishedAt": video.published,
            "channelId": "UC" + "x" * 22,
            "channelTitle": "The house",
            "title": video.title,
            "description": video.description,
        }
        said = {
            "kind": "youtube#video",
            "id": video_id,
            "snippet": snippet,
            "contentDetails": {"duration": "PT1M5S"},
        }
        return {**said, "etag": hashlib.sha1(json.dumps(said).encode()).hexdigest()}

    # --- the player -----------------------------------------------------------------------------------------

    def player(self, video_id: str) -> dict[str, Any]:
        """The recorded answer of a video that plays, that has transcripts disabled or is not there, with what
        this fake says in its place."""
        video = self.videos.get(video_id)
        if video is None:
            return recorded("youtube_video_unavailable")
        said = copy.deepcopy(recorded("youtube" if video.tracks else "youtube_transcripts_disabled"))
        if video.status is not None:
            return {"playabilityStatus": video.status, "responseContext": said["responseContext"]}
        self.views += 1
        said["videoDetails"] |= {
            "videoId": video_id,
            "title": video.title,
            "shortDescription": video.description,
            "viewCount": str(self.views),
            "lengthSeconds": "65",
            "author": "The house",
        }
        if video.live:
            said["videoDetails"]["isLive"] = True
        if video.tracks:
            listed = said["captions"]["playerCaptionsTracklistRenderer"]
            listed["captionTracks"] = [
                {
                    "baseUrl": f"{self.caption_host}/api/timedtext?v={video_id}&expire={self.views}"
                    f"&signature=swordfish&lang={language}&kind={kind}&fmt=srv3",
                    "languageCode": language,
                    "isTranslatable": True,
                    **({"kind": kind} if kind else {}),
                }
                for language, kind in video.tracks
            ]
        return said

    def _timedtext(self, h: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        cues = self.videos[query["v"]].tracks[query["lang"], query.get("kind", "")]
        if query.get("tlang"):
            cues = [(a, b, f"[{query['tlang']}] {text}") for a, b, text in cues]
        events = [{"tStartMs": a, "dDurationMs": b, "segs": [{"utf8": text}]} for a, b, text in cues]
        assert query["fmt"] == "json3"
        self._json(h, {"wireMagic": "pb3", "events": events})
