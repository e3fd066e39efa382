"""What an entry of type ``youtube`` holds, and how it names playlists and channels."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal
from urllib.parse import unquote

from pydantic import AfterValidator, Field, model_validator

from taboot_pipelines.connectors.access import SecretReference, VariableName
from taboot_pipelines.connectors.entries import BoundedSource, RecordedSource, unique
from taboot_pipelines.connectors.youtube.client import SITE
from taboot_pipelines.model.videos import video_id

API = "https://www.googleapis.com/youtube/v3"
_CHANNEL = re.compile(r"UC[A-Za-z0-9_-]{22}|@[\w.·-]{3,60}")
_PLAYLIST = re.compile(r"(?!UC[A-Za-z0-9_-]{22}\Z)[A-Za-z0-9_-]{10,64}")
_IN_URL = re.compile(r"(?:https?://)?(?:(?:www\.|m\.|music\.)?youtube\.com|youtu\.be)/(?:channel/)?")
#: Channels as they were once called; the Data API does not find all of them.
_OLD = re.compile(r"(?:c|user)/")


def playlist_of(text: str) -> str | None:
    """The id of a playlist from it or from a URL that names it; None for anything else."""
    found = re.search(r"[?&]list=([A-Za-z0-9_-]+)", text)
    name = found[1] if found and _IN_URL.match(text) else text
    return name if _PLAYLIST.fullmatch(name) else None


def channel_of(text: str) -> str | None:
    """The id or handle of a channel from it or from its URL; None for anything else."""
    name = _IN_URL.sub("", text, count=1)
    if name != text:
        name = unquote(name.partition("/")[0].partition("?")[0])
    return name if _CHANNEL.fullmatch(name) else None


def _check(names: list[str], known: Callable[[str], str | None], what: str) -> list[str]:
    """Refuse what ``known`` does not know, and say where it belongs."""
    for name in names:
        if known(name) is None:
            raise ValueError(f"holds {name[:200]!r}, which is no {what}{_belongs(name)}")
    return unique(names)


def _belongs(name: str) -> str:
    if channel_of(name) is not None:
        return "; it belongs in `channels`"
    if _OLD.match(_IN_URL.sub("", name, count=1)) and _IN_URL.match(name):
        return "; open it, and take the handle (`@name`) that it shows"
    if _IN_URL.match(name) and "list=" in name:
        return "; it belongs in `playlists`"
    return "; it belongs in `videos`" if _IN_URL.match(name) and video_id(name) is not None else ""


def _videos(value: list[str]) -> list[str]:
    return _check(value, video_id, "id or URL of a video")


def _playlists(value: list[str]) -> list[str]:
    return _check(value, playlist_of, "id or URL of a playlist")


def _channels(value: list[str]) -> list[str]:
    return _check(value, channel_of, "id, handle (`@name`) or URL of a channel")


class YoutubeSource(RecordedSource, BoundedSource):
    """Videos with their transcripts: named ones, playlists and channels, or a folder of recorded files
    (captions, answers of the player and the Data API, `.info.json` of yt-dlp)."""

    type: Literal["youtube"]
    videos: Annotated[list[str], AfterValidator(_videos)] = Field(
        default_factory=list, description="Ids or URLs of videos; these need no key."
    )
    playlists: Annotated[list[str], AfterValidator(_playlists)] = Field(
        default_factory=list, description="Ids or URLs of playlists."
    )
    channels: Annotated[list[str], AfterValidator(_channels)] = Field(
        default_factory=list,
        description="Ids (`UC…`), handles (`@name`) or URLs of channels.",
    )
    key: SecretReference | None = Field(
        None, description="`${NAME}`: the variable that holds a key of the YouTube Data API v3."
    )
    key_env: VariableName | None = Field(None, description="The same by the variable's name alone.")
    translated: bool = Field(
        False,
        description="Where no transcript is in one of `languages`, take one that YouTube translates.",
    )
    refresh_days: Annotated[int, Field(ge=0, le=3650)] = Field(
        30,
        description="The transcript of an unchanged video is asked for again after so many days, since"
        " nothing says that one was corrected; 0: at each run.",
    )
    base_url: str = Field(SITE, description="Where videos and transcripts are asked for, such as a proxy.")
    api_url: str = Field(API, description="Where the Data API is.")

    @model_validator(mode="after")
    def _one_way_to_ask(self) -> YoutubeSource:
        """Refuse fields that contradict each other, and lists without a key."""
        keys = [name for name in (self.key, self.key_env) if name is not None]
        named = self.videos or self.playlists or self.channels
        if self.path is not None:
            if named or keys:
                raise ValueError("has a `path`, so that nothing is asked: leave out what is asked for")
            return self
        if self.include or self.exclude:
            raise ValueError("`include` and `exclude` choose files; they need a `path`")
        if not named:
            raise ValueError("needs `videos`, `playlists`, `channels` or a `path`")
        if len(keys) > 1:
            raise ValueError("has both `key` and `key_env`; one of them names the variable")
        if (self.playlists or self.channels) and not keys:
            raise ValueError("of `playlists` and `channels` needs a `key`; single `videos` need none")
        if self.since is not None and not keys:
            raise ValueError("needs a `key` for `since`: without it nobody says when a video was published")
        return self
