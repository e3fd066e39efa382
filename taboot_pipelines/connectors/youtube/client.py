"""The YouTube Data API v3 (https://developers.google.com/youtube/v3/docs): what playlists and channels hold,
and what is said of videos.

Every list is asked for with the ETag of the last time. What a page held (ids, and versions of videos) is
remembered in the source's state, so that a list that did not change need not be sent again.

What YouTube's own pages ask for to play a video: the player's answer, and the transcript it leads to.

This interface ("innertube") is not documented; what is known of it is what recorded answers show. A watch
page names the key that the player is asked with; it is the same for everybody, and no secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from taboot_pipelines.connectors.access import SourceState
from taboot_pipelines.connectors.api.client import ApiClient
from taboot_pipelines.connectors.api.resources import version_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.json_text import Value
from taboot_pipelines.model.videos import is_player

#: As many as one request gives.
PAGE = 50
#: No list of YouTube has so many pages.
_MAX_PAGES = 2000
_PARTS = "snippet,contentDetails,status"
#: The state's names of what is remembered of lists.
_LISTS = "lists"
#: Why an answer is refused: the quota of the day, that of the moment, the API, the key.
_SPENT = frozenset({"quotaExceeded", "dailyLimitExceeded", "dailyLimitExceededUnreg"})
_TOO_FAST = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"})
_TOO_FAST_SECONDS = 10.0
_DISABLED = frozenset({"accessNotConfigured", "SERVICE_DISABLED"})
_RESTRICTED = frozenset(
    {
        "ipRefererBlocked",
        "API_KEY_SERVICE_BLOCKED",
        "API_KEY_HTTP_REFERRER_BLOCKED",
        "API_KEY_IP_ADDRESS_BLOCKED",
        "API_KEY_ANDROID_APP_BLOCKED",
        "API_KEY_IOS_APP_BLOCKED",
    }
)
_NOT_OURS = frozenset(
    {"playlistItemsNotAccessible", "watchHistoryNotAccessible", "channelForbidden", "forbidden"}
)
_ID = re.compile(r"[A-Za-z0-9_-]{2,64}")


class DataApi:
    """``spend()`` is called before each request, and may refuse it."""

    def __init__(self, client: ApiClient, state: SourceState, spend: Callable[[], None]) -> None:
        self._client = client
        self._state = state
        self._spend = spend
        self._used: set[str] = set()
        self._items: dict[str, Any] = {}
        self._published: dict[str, str] = {}

    def uploads(self, channel: str) -> str | None:
        """The id of the playlist of all that a channel uploaded; None if there is no such channel."""
        by = {"forHandle": channel} if channel.startswith("@") else {"id": channel}

        def read(said: Mapping[str, Any]) -> Any:
            lists = (_at(c, "contentDetails", "relatedPlaylists", "uploads") for c in _items(said))
            return next((name for name in lists if isinstance(name, str) and _ID.fullmatch(name)), None)

        page = self._remembered("channels", {"part": "contentDetails", **by}, read)
        return None if page is None else page[0]

    def count(self, playlist: str) -> int:
        """How many items a playlist has. Raises ``E_NOT_FOUND`` where there is none."""
        answer = self._ask("playlistItems", {"part": "id", "playlistId": playlist, "maxResults": 1}, None)
        if answer.gone:
            raise TabootError("E_NOT_FOUND", f"There is no playlist {playlist}.")
        total = answer.value().integer("pageInfo", "totalResults")
        if total is None:
            raise TabootError("E_API", "The YouTube Data API does not say how many items a playlist has.")
        return max(total, 0)

    def playlist(self, playlist: str) -> tuple[list[str], bool]:
        """The ids of a playlist's videos in its order, and whether it changed while it was read.

        Raises ``E_NOT_FOUND`` where there is none, ``E_API`` for a list without an end.
        """
        base: dict[str, str | int] = {"part": "contentDetails", "playlistId": playlist, "maxResults": PAGE}
        ids: list[str] = []
        tokens: set[str] = set()
        token, fresh = "", False
        while True:
            params = {**base, "pageToken": token} if token else base
            page = self._remembered("playlistItems", params, _ids_of)
            if page is None:
                raise TabootError("E_NOT_FOUND", f"There is no playlist {playlist}.")
            (own, token), anew = page
            ids += own
            fresh |= anew
            if not token:
                break
            if token in tokens or len(tokens) >= _MAX_PAGES:
                raise TabootError("E_API", "The YouTube Data API answers with a list that does not end.")
            tokens.add(token)
        if not tokens or not fresh:
            return ids, False
        # Whatever was put in or taken out meanwhile moved the others from page to page.
        last = self._remembered("playlistItems", base, _ids_of)
        return ids, last is None or last[1]

    def versions(self, ids: Sequence[str], volatile: Collection[str]) -> Mapping[str, str]:
        """The version of each video without its ``volatile`` members; those that are not there are left
        out."""

        def read(said: Mapping[str, Any]) -> Any:
            self._take(said)
            return {
                video["id"]: [version_of(video, volatile), str(_at(video, "snippet", "publishedAt") or "")]
                for video in _items(said)
                if video.get("id") in ids
            }

        page = self._remembered("videos", {"part": _PARTS, "id": ",".join(ids)}, read)
        if page is None:
            raise TabootError("E_API", "The YouTube Data API has no videos.")
        self._published |= {video: published for video, (_, published) in page[0].items()}
        return {video: version for video, (version, _) in page[0].items()}

    def published(self, video: str) -> str:
        """When a video whose version was told was published (RFC 3339)."""
        return self._published.get(video, "")

    def videos(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """What is said of each video, whose versions were told."""
        if not self._items.keys() >= set(ids) & self._published.keys():
            # The versions were remembered.
            self._take(self._ask("videos", {"part": _PARTS, "id": ",".join(ids)}, None).json())
        return {video: self._items[video] for video in ids if video in self._items}

    def forget_unused(self) -> None:
        """Forget what is remembered of lists that the run, which is complete, did not ask for."""
        for name in set(self._state.load(_LISTS) or ()) - self._used:
            self._state.save(name, None)
        self._state.save(_LISTS, sorted(self._used))

    def _take(self, said: Any) -> None:
        self._items = {v["id"]: v for v in _items(said) if isinstance(v.get("id"), str)}

    def _remembered(
        self, path: str, params: Mapping[str, str | int], read: Callable[[Mapping[str, Any]], Any]
    ) -> tuple[Any, bool] | None:
        """What ``read`` makes of an answer, and whether that was sent anew; None where there is nothing."""
        name = f"{path}/{sha256_hex(repr(sorted(params.items())))[:32]}"
        self._used.add(name)
        before = self._state.load(name)
        answer = self._ask(path, params, before[0] if before else None)
        if answer.not_modified and before:
            return before[1], False
        if answer.gone:
            return None
        said = answer.json()
        if not isinstance(said, dict) or not isinstance(said.get("items", []), list):
            raise TabootError(
                "E_API", f"The YouTube Data API answers with something else than a list at {path}."
            )
        found = read(said)
        etag = answer.etag or said.get("etag")
        self._state.save(name, [etag, found] if isinstance(etag, str) else None)
        return found, True

    def _ask(self, path: str, params: Mapping[str, str | int], etag: str | None) -> Answer:
        self._spend()
        return self._client.get(path, params, etag=etag)


def refused(answer: Answer) -> float | None:
    """For how long a refusal asks to be left alone. Raises what it means otherwise (the reasons are those of
    https://developers.google.com/youtube/v3/docs/errors and of Google's ``ErrorInfo``):

    ``E_429_RATE`` (the day's quota), ``E_CREDENTIALS`` (the key), ``E_FORBIDDEN`` (what the key may be used
    for, or a thing that is not everybody's).
    """
    reasons = _reasons(answer)
    if reasons & _SPENT:
        raise TabootError(
            "E_429_RATE",
            "The day's quota of the key is used up at the YouTube Data API. It begins anew at midnight"
            " Pacific time, and a run after that goes on.",
        )
    if reasons & _TOO_FAST:
        return _TOO_FAST_SECONDS
    if answer.status == 429:
        return None
    if reasons & _DISABLED:
        raise TabootError(
            "E_FORBIDDEN",
            "The project of the key does not use the YouTube Data API v3; enable it in Google's cloud"
            " console.",
        )
    if reasons & _RESTRICTED:
        raise TabootError(
            "E_FORBIDDEN",
            "The restrictions of the key keep it from the YouTube Data API v3, or from this address; change"
            " them in Google's cloud console.",
        )
    if answer.status == 400:
        message = "The YouTube Data API refuses the key, or a name in the entry."
        raise TabootError("E_CREDENTIALS", message)
    if answer.status == 403 and reasons & _NOT_OURS:
        raise TabootError("E_FORBIDDEN", "What is asked for is private, and no key can read it.")
    return None


def _reasons(answer: Answer) -> frozenset[str]:
    """The reasons that an error of Google's APIs names, in either of its forms."""
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        return frozenset()
    error = _at(said, "error")
    listed = [
        each
        for name in ("errors", "details")
        for each in (_at(error, name) if isinstance(_at(error, name), list) else ())
    ]
    found = {reason for each in listed if isinstance(reason := _at(each, "reason"), str)}
    if any("PerDay" in str(_at(each, "metadata", "quota_limit")) for each in listed):
        found.add("quotaExceeded")
    return frozenset(found)


def _items(said: Any) -> list[Mapping[str, Any]]:
    items = said.get("items") if isinstance(said, dict) else None
    return [x for x in items if isinstance(x, dict)] if isinstance(items, list) else []


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _ids_of(said: Mapping[str, Any]) -> Any:
    """The ids of a page, and the token of the next, empty on the last."""
    found = (_at(x, "contentDetails", "videoId") for x in _items(said))
    token = said.get("nextPageToken")
    return [
        [x for x in found if isinstance(x, str) and _ID.fullmatch(x)],
        token if isinstance(token, str) else "",
    ]


SITE = "https://www.youtube.com"
#: As which player we ask: one whose caption URLs need no proof of origin.
_CLIENT = {"clientName": "ANDROID", "clientVersion": "20.10.38", "hl": "en"}
_KEY = re.compile(r'"INNERTUBE_API_KEY"\s*:\s*"([A-Za-z0-9_-]{10,100})"')
_CONSENT = re.compile(r"consent\.(?:youtube|google)\.com")
_TIMEDTEXT = "/api/timedtext"
_HOSTS = frozenset(("youtube.com", "www.youtube.com", "m.youtube.com"))
_STATE = "player_key"
#: Languages by the codes that YouTube still uses for them.
_OLD_CODES = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro"}

Track = Mapping[str, Any]


class Site:
    """The player and its transcripts. ``spend()`` is called before each request, and may refuse it."""

    def __init__(self, client: ApiClient, state: SourceState, spend: Callable[[], None]) -> None:
        self._client = client
        self._state = state
        self._spend = spend
        self._key: str | None = state.load(_STATE)

    def player(self, video_id: str) -> Value:
        """The player's answer. Raises what :meth:`ApiClient.ask` raises, and ``E_403_WAF`` where something
        stands between us and it, such as a page that asks for consent."""
        remembered = self._key is not None
        if self._key is None:
            self._key = self._ask_key(video_id)
        try:
            answer = self._ask_player(video_id, self._key)
        except TabootError as error:
            if not remembered or error.code not in ("E_FORBIDDEN", "E_API"):
                raise
            # The key that was good at another run may be so no more.
            self._key = self._ask_key(video_id)
            answer = self._ask_player(video_id, self._key)
        own = answer.string("videoDetails", "videoId")
        if not is_player(answer):
            raise TabootError("E_API", f"YouTube answers with something else than its player of {video_id}.")
        if own and own != video_id:
            raise _blocked(f"YouTube shows another video in place of {video_id}.")
        return answer

    def _ask_player(self, video_id: str, key: str) -> Value:
        self._spend()
        body = {"context": {"client": _CLIENT}, "videoId": video_id}
        answer = self._client.ask("POST", f"youtubei/v1/player?{urlencode({'key': key})}", json=body)
        if answer.gone:
            raise TabootError("E_API", f"YouTube has no player (status {answer.status}).")
        return answer.value()

    def _ask_key(self, video_id: str) -> str:
        self._spend()
        try:
            answer = self._client.get("watch", {"v": video_id}, headers={"accept": "text/html"})
        except TabootError as error:
            if error.code != "E_REDIRECT":
                raise
            raise _blocked("YouTube shows its consent page in place of a video.") from None
        page = answer.body.decode("utf-8", "replace")
        found = _KEY.search(page)
        if found is None:
            what = "its consent page" if _CONSENT.search(page) else "a page without a player"
            raise _blocked(f"YouTube shows {what} in place of a video.")
        self._state.save(_STATE, found[1])
        return found[1]

    def transcript(self, track: Track, translated_to: str | None) -> dict[str, Any]:
        """A track's cues as they came: ``json3``, or ``text`` in another form. Raises as :meth:`player`, and
        ``E_URL_BLOCKED`` where the track's URL leads away from YouTube's transcripts."""
        query = _caption_query(str(track.get("baseUrl") or ""), self._client.base_url)
        query["fmt"] = "json3"
        if translated_to is not None:
            query["tlang"] = translated_to
        self._spend()
        answer = self._client.get(f"{_TIMEDTEXT}?{urlencode(query)}", headers={"accept": "*/*"})
        return _transcript(answer)


def _caption_query(url: str, base_url: str) -> dict[str, str]:
    """The query of a caption URL. It comes out of an answer, so only that is taken of it: whatever it says,
    YouTube is asked, and its transcripts alone."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        fits = parts.path == _TIMEDTEXT and parts.scheme in ("", "http", "https") and not parts.username
        own = urlsplit(base_url)
        fits &= host in _HOSTS or not parts.netloc or (parts.netloc, parts.scheme) == (own.netloc, own.scheme)
    except ValueError:
        fits = False
    if not fits:
        raise TabootError(
            "E_URL_BLOCKED",
            "A transcript's URL leads away from YouTube's transcripts, and is not asked.",
            remedy="Check `base_url`, and what answers there.",
        )
    return {name: value for name, value in parse_qsl(parts.query) if name not in ("fmt", "tlang")}


def _transcript(answer: Answer) -> dict[str, Any]:
    text = answer.text()
    if answer.gone or not text.strip():
        raise _blocked("YouTube gives the transcript to its own players only.")
    begin = text.lstrip()
    if begin.startswith("{"):
        return {"json3": answer.json()}
    if begin.startswith(("<?xml", "<transcript", "<timedtext", "WEBVTT")):
        return {"text": text}
    raise TabootError("E_API", "YouTube answers with something else than a transcript.")


def _blocked(message: str) -> TabootError:
    return TabootError(
        "E_403_WAF",
        message,
        remedy="Run again later, or from another address; by `base_url` a proxy can be asked.",
    )


def tracks_of(player: Value) -> list[Track]:
    """The caption tracks that the player lists."""
    tracks = player.items("captions", "playerCaptionsTracklistRenderer", "captionTracks")
    return [track.plain() for track in tracks if isinstance(track.data, dict)]


def best_track(tracks: Sequence[Track], languages: Sequence[str]) -> Track | None:
    """The track to read: by the first of ``languages`` that has one; of these one that people made before a
    generated one, the language itself before a variant of a region, then as they are listed."""

    def rank(track: Track) -> tuple[int, bool, bool] | None:
        code = str(track.get("languageCode") or "").lower()
        primary = code.partition("-")[0]
        language = _OLD_CODES.get(primary, primary)
        if language not in languages:
            return None
        return languages.index(language), track.get("kind") == "asr", code != primary

    ranked = [(own, number) for number, track in enumerate(tracks) if (own := rank(track)) is not None]
    return tracks[min(ranked)[1]] if ranked else None


def translatable(
    player: Value, tracks: Sequence[Track], languages: Sequence[str]
) -> tuple[Track, str] | None:
    """A track that YouTube translates into one of ``languages``, and that language; one that people made
    first."""
    listed = player.items("captions", "playerCaptionsTracklistRenderer", "translationLanguages")
    offered = {language.string("languageCode") for language in listed}
    wanted = next((language for language in languages if language in offered), None)
    from_ = sorted((t for t in tracks if t.get("isTranslatable")), key=lambda t: t.get("kind") == "asr")
    return (from_[0], wanted) if from_ and wanted else None
