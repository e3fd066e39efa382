"""What YouTube's own pages ask for to play a video: the player's answer, and the transcript it leads to.

This interface ("innertube") is not documented; what is known of it is what recorded answers show. A watch
page names the key that the player is asked with; it is the same for everybody, and no secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from taboot_pipelines.connectors.access import SourceState
from taboot_pipelines.connectors.api import Answer, ApiClient
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value
from taboot_pipelines.model.videos import is_player

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
