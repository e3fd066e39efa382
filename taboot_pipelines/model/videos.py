"""What is known of YouTube's videos whoever reads them: their ids and URLs, the kinds of files that hold one,
and why one cannot be had."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value

#: A video: what the APIs say of it, with its transcript.
VIDEO = "application/vnd.taboot.video+json"
#: A transcript in YouTube's own forms.
TRANSCRIPT_JSON = "application/vnd.taboot.timedtext+json"
TRANSCRIPT_XML = "application/vnd.taboot.timedtext+xml"

_ID = re.compile(r"[A-Za-z0-9_-]{11}")
_HOSTS = frozenset(("youtube.com", "youtube-nocookie.com", "youtu.be"))
_PATHS = ("embed", "shorts", "live", "v", "e")

_ACCOUNT = "Leave it out of the source: only some accounts may see it."
#: (what the service says, code, what that means, remedy); the first that fits.
_REASONS = (
    (
        r"not a bot|unusual traffic|automated",
        "E_403_WAF",
        "is not shown to programs from this address",
        "Run again later, or from another address; by `base_url` a proxy can be asked.",
    ),
    (r"\bage\b|inappropriate", "E_FORBIDDEN", "is limited by age", _ACCOUNT),
    (r"\bprivate\b", "E_FORBIDDEN", "is private", _ACCOUNT),
    (r"\bmembers?\b|join this channel", "E_FORBIDDEN", "is for members of its channel", _ACCOUNT),
    (r"\bcountr|your (?:region|location)", "E_FORBIDDEN", "is not shown in this country", _ACCOUNT),
    (r"payment|purchase|rent", "E_FORBIDDEN", "has to be paid for", _ACCOUNT),
    (
        r"unavailable|removed|no longer|terminated|deleted|does ?n[o']t exist|not available",
        "E_NOT_FOUND",
        "is not available any more",
        None,
    ),
)
#: So much of what is said of a refusal is looked at.
_MAX_SAID = 20_000
_REASON_PATTERNS = [(re.compile(p, re.I), *rest) for p, *rest in _REASONS]


def watch_url(video_id: str) -> str:
    """Where people watch a video."""
    return f"https://www.youtube.com/watch?v={video_id}"


def video_id(text: str) -> str | None:
    """The id of a video from the id or one of the forms of its URL; None for anything else."""
    text = text.strip()
    if _ID.fullmatch(text):
        return text
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host = (parts.hostname or "").removeprefix("www.").removeprefix("m.").removeprefix("music.")
        names = [name for name in parts.path.split("/") if name]
        if parts.scheme not in ("http", "https") or host not in _HOSTS:
            return None
        if host == "youtu.be":
            found = names[0] if names else ""
        elif len(names) == 2 and names[0] in _PATHS:
            found = names[1]
        else:
            found = parse_qs(parts.query).get("v", [""])[0] if names == ["watch"] else ""
    except ValueError:
        return None
    return found if _ID.fullmatch(found) else None


def is_player(root: Value) -> bool:
    """Whether JSON is the answer of YouTube's player."""
    return "playabilityStatus" in root.members() or "videoDetails" in root.members()


def unplayable(player: Value, what: str) -> TabootError | None:
    """Why the player shows a video to nobody here; None if it does. ``what`` begins the sentence."""
    status = player.string("playabilityStatus", "status")
    if status in ("", "OK"):
        return None
    if status == "LIVE_STREAM_OFFLINE":
        return TabootError(
            "E_TRANSCRIPT", f"{what} has not begun.", remedy="It is asked for at the next run."
        )
    told = player.at("playabilityStatus")
    texts = [v.data for v in told.walk() if isinstance(v.data, str)] if told is not None else []
    # The reason says more than the buttons and explanations around it.
    for said in (player.string("playabilityStatus", "reason"), " ".join(texts)[:_MAX_SAID]):
        for pattern, code, meaning, remedy in _REASON_PATTERNS:
            if pattern.search(said):
                return TabootError(code, f"{what} {meaning}.", remedy=remedy)
    if status == "ERROR":
        return TabootError("E_NOT_FOUND", f"{what} is not available any more.")
    meaning = "cannot be played here" if status == "UNPLAYABLE" else "is not shown without an account"
    return TabootError("E_FORBIDDEN", f"{what} {meaning}.", remedy=_ACCOUNT)


def kind_of(root: Value) -> str | None:
    """The media type of JSON that holds a video or a transcript; None for anything else."""
    members: Mapping[str, Value] = root.members()
    if "events" in members and isinstance(members["events"].data, list):
        first = members["events"].data[:1]
        if not first or {"tStartMs", "segs", "dDurationMs", "id"} & first[0].members().keys():
            return TRANSCRIPT_JSON
    if is_player(root) or root.string("kind") == "youtube#video" or is_exported(root):
        return VIDEO
    if "id" in members and ("player" in members or "video" in members):
        return VIDEO
    return None


def is_exported(root: Value) -> bool:
    """Whether JSON is what yt-dlp writes of a video of YouTube beside it (``.info.json``)."""
    return root.string("extractor_key").lower() == "youtube" and bool(root.string("title"))
