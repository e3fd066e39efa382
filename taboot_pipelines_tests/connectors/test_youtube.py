"""Videos by a fake YouTube on loopback, made of recorded answers, and by folders of recorded files."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from taboot_pipelines.connectors.access import Access, MemoryState
from taboot_pipelines.connectors.api.resources import without
from taboot_pipelines.connectors.protocol import Planner
from taboot_pipelines.connectors.youtube.entry import YoutubeSource
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.offsets import read_places
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    ParsedDocument,
    Skipped,
    Unchanged,
)
from taboot_pipelines.model.videos import video_id
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import document_forms, open_connector
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines_tests.connectors.servers import send
from taboot_pipelines_tests.fakes.youtube import KEY, FakeVideo, FakeYoutube
from taboot_pipelines_tests.world import DATA

pytestmark = pytest.mark.needs("data")

YOUTUBE = DATA / "youtube"
A, B, C = "aaaaaaaaaaA", "bbbbbbbbb-B", "ccccccccc_C"
CHANNEL, UPLOADS = "UC" + "c" * 22, "UU" + "c" * 22
CUES = [(0, 2000, "Welcome to the house."), (61_000, 2000, "Grafana listens on port 3010.")]
TOMORROW = timedelta(days=1)


class Runs:
    """Runs of one entry, one after the other: what is known and the connector's state are kept."""

    def __init__(self, root: Path, entry: Mapping[str, Any], key: str = KEY) -> None:
        self.entry = parse_entry({"id": "talks", "type": "youtube", **entry})
        self.state = MemoryState()
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.known: dict[str, Known] = {}
        self.blobs: dict[str, Fetched] = {}
        self.tombstones: set[str] = set()
        self.access = replace(
            Access.of(Settings(home=root / "home"), root),
            state=self.state,
            secrets=lambda name: SecretStr(key),
            clock=lambda: self.now,
        )

    def stream(self) -> Iterator[Event]:
        for event in open_connector(self.entry, self.access).events(self.known, self.tombstones.__contains__):
            if isinstance(event, Fetched):
                self.blobs[event.path] = event
                self.known[event.path] = Known(sha256_hex(event.data.decode()), event.etag, None, event.url)
            elif isinstance(event, Gone):
                self.blobs.pop(event.path, None)
                self.known.pop(event.path, None)
            yield event

    def __call__(self) -> list[Event]:
        events = [event for event in self.stream() if not isinstance(event, Checkpoint)]
        assert isinstance(events[-1], Enumerated)
        if events[-1].complete:
            told = {e.path for e in events if isinstance(e, Fetched | NotModified | Failed | Skipped)}
            told |= {path for e in events if isinstance(e, Unchanged) for path in e.roles}
            for path in self.known.keys() - told:
                del self.known[path], self.blobs[path]
        return events

    def documents(self) -> dict[str, ParsedDocument]:
        return {path: read(event) for path, event in self.blobs.items()}


def read(event: Fetched) -> ParsedDocument:
    return parse_document(
        event.data,
        path=event.path,
        mime=event.mime,
        charset=event.charset,
        languages=[],
        max_chars=10**6,
        forms=document_forms(),
    )


def codes(events: list[Event]) -> dict[str, str]:
    """What became of each path: its code, or the event's name."""
    found = {}
    for event in events:
        if isinstance(event, Skipped | Gone):
            found[event.path] = event.code
        elif isinstance(event, Failed):
            found[event.path] = event.error.code
        elif isinstance(event, Fetched | NotModified):
            found[event.path] = type(event).__name__
    return found


@pytest.fixture
def fake() -> Iterator[FakeYoutube]:
    with FakeYoutube().serving() as fake:
        yield fake


def talk(**changed: Any) -> FakeVideo:
    return FakeVideo(**{"tracks": {("en", ""): list(CUES)}, **changed})


# --- what is asked, and what of it is stored ----------------------------------------------------------------


def test_a_named_video_needs_no_key(fake: FakeYoutube, tmp_path: Path) -> None:
    fake.videos[A] = talk(description="0:00 Hello\n0:30 The middle\n1:00 Ports")
    runs = Runs(tmp_path, fake.entry(videos=[f"https://youtu.be/{A}?t=3"]))
    assert codes(runs()) == {A: "Fetched"}
    assert fake.asked == {"watch": 1, "player": 1, "timedtext": 1}
    blob = runs.blobs[A]
    assert blob.url == f"https://www.youtube.com/watch?v={A}"
    assert b"swordfish" not in blob.data and json.loads(blob.data)["transcript"]["json3"]["events"]
    document = runs.documents()[A]
    assert document.title == "A talk" and document.metadata["author"] == "The house"
    assert document.metadata["transcript"] == "en"
    assert document.text.endswith(
        "## Transcript\n\n### 0:00 Hello\n\n**0:00** Welcome to the house.\n\n### 0:30 The middle\n\n"
        "### 1:00 Ports\n\n**1:01** Grafana listens on port 3010."
    )
    places = read_places(json.dumps(document.metadata["places"]))
    assert places is not None and blob.url is not None
    for said, second in (("Grafana", 61), ("### 1:00", 60), ("The middle\n\n###", 30)):
        assert places.url(blob.url, document.text.index(said)) == f"{blob.url}&t={second}s"
    assert places.url(blob.url, 0) == blob.url
    # Each word leads to its bytes.
    at = document.text.rindex("Grafana")
    low, high = document.offsets.to_bytes(at, at + 7)
    assert blob.data[low:high] == b"Grafana"
    # Counters alone make no new blob; without a key the player is the only one to ask.
    fake.asked.clear()
    assert codes(runs()) == {A: "NotModified"} and fake.asked == {"player": 1}


def test_playlists_and_channels_by_the_data_api(fake: FakeYoutube, tmp_path: Path) -> None:
    ids = [f"video{n:06}" for n in range(120)]
    fake.videos = {x: talk(title=f"Talk {x}") for x in ids}
    fake.playlists = {UPLOADS: ids[:100], "PL0123456789": ids[90:]}
    fake.channels = {"@house": UPLOADS}
    entry = fake.entry(playlists=["PL0123456789"], channels=["@house"], videos=[ids[0]], key_env="YT_KEY")
    runs = Runs(tmp_path, entry)
    events = runs()
    assert events[-1] == Enumerated(True) and set(codes(events).values()) == {"Fetched"}
    assert runs.blobs.keys() == set(ids)
    assert runs.documents()[ids[5]].date == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    # Unchanged: every request is a conditional one, and nothing is stored.
    fake.asked.clear(), fake.unmodified.clear()
    assert set(codes(runs()).values()) == {"NotModified"}
    assert fake.asked == fake.unmodified and fake.asked["videos"] == 3 and "player" not in fake.asked
    # One video is edited, one added, one removed: only they are asked for.
    fake.videos[ids[7]].title = "Corrected"
    fake.videos["new-video_1"] = talk()
    fake.playlists["PL0123456789"].append("new-video_1")
    del fake.videos[ids[8]]
    fake.asked.clear()
    found = codes(runs())
    assert found.pop(ids[7]) == found.pop("new-video_1") == "Fetched" and found.pop(ids[8]) == "E_NOT_FOUND"
    assert set(found.values()) == {"NotModified"} and fake.asked["player"] == fake.asked["timedtext"] == 2


def test_a_corrected_transcript_is_found_when_it_is_time(fake: FakeYoutube, tmp_path: Path) -> None:
    fake.videos[A] = talk()
    runs = Runs(tmp_path, fake.entry(videos=[A], key="${YT_KEY}", refresh_days=10))
    runs()
    fake.videos[A].tracks["en", ""] = [(0, 1000, "Corrected.")]
    runs.now += 9 * TOMORROW
    assert codes(runs()) == {A: "NotModified"}
    runs.now += TOMORROW
    assert codes(runs()) == {A: "Fetched"} and "Corrected." in runs.documents()[A].text
    runs.now += 10 * TOMORROW
    assert codes(runs()) == {A: "NotModified"}, "asked for again, and the same"


@pytest.mark.parametrize(
    ("tracks", "languages", "chosen"),
    [
        ([("de", ""), ("en", "asr"), ("en", "")], ["en"], ("en", "")),
        ([("en", "asr"), ("en-GB", "")], ["en"], ("en-GB", "")),
        ([("en-GB", ""), ("en", "")], ["en"], ("en", "")),
        ([("en", "asr"), ("de", "")], ["en", "de"], ("en", "asr")),
        ([("de", ""), ("en", "")], ["fr", "de"], ("de", "")),
        ([("pt-BR", "asr")], ["pt"], ("pt-BR", "asr")),
        ([("iw", "")], ["he"], ("iw", "")),
        ([("de", ""), ("fr", "asr")], ["en"], None),
        ([("eng-x", "")], ["en"], None),
    ],
)
def test_which_transcript_is_taken(
    fake: FakeYoutube,
    tmp_path: Path,
    tracks: list[tuple[str, str]],
    languages: list[str],
    chosen: tuple[str, str] | None,
) -> None:
    fake.videos[A] = talk(tracks={track: [(0, 1000, f"This is {track}.")] for track in tracks})
    runs = Runs(tmp_path, fake.entry(videos=[A], languages=languages))
    found = codes(runs())
    if chosen is None:
        assert found == {A: "Fetched", f"{A}#transcript": "E_TRANSCRIPT"}
        assert "This is" not in runs.documents()[A].text and fake.asked["timedtext"] == 0
        # Only who asks for it gets a translation.
        runs = Runs(tmp_path, fake.entry(videos=[A], languages=languages, translated=True))
        runs()
        assert f"[{languages[0]}] This is {tracks[0]}." in runs.documents()[A].text
    else:
        assert found == {A: "Fetched"} and f"This is {chosen}." in runs.documents()[A].text


REFUSED = {
    "private": ({"status": "LOGIN_REQUIRED", "reason": "This is a private video."}, "E_FORBIDDEN"),
    "limited by age": ({"status": "LOGIN_REQUIRED", "reason": "Sign in to confirm your age"}, "E_FORBIDDEN"),
    "inappropriate": (
        {"status": "LOGIN_REQUIRED", "reason": "This video may be inappropriate for some users."},
        "E_FORBIDDEN",
    ),
    "for members": (
        {"status": "UNPLAYABLE", "reason": "Join this channel to get access to members-only content"},
        "E_FORBIDDEN",
    ),
    "in this country": (
        {"status": "UNPLAYABLE", "reason": "The uploader has not made this video available in your country"},
        "E_FORBIDDEN",
    ),
    "has not begun": (
        {"status": "LIVE_STREAM_OFFLINE", "reason": "This live event will begin in 3 hours."},
        "E_TRANSCRIPT",
    ),
    "not available": (
        {"status": "ERROR", "reason": "This video has been removed by the uploader"},
        "E_NOT_FOUND",
    ),
    "to programs": (
        {"status": "LOGIN_REQUIRED", "reason": "Sign in to confirm you’re not a bot"},
        "E_403_WAF",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_had_has_a_typed_reason_and_the_rest_goes_on(
    fake: FakeYoutube, tmp_path: Path, what: str
) -> None:
    status, code = REFUSED[what]
    fake.videos = {A: talk(status=status), B: talk()}
    runs = Runs(tmp_path, fake.entry(videos=[A, B, C]))
    events = runs()
    assert codes(events) == {A: code, B: "Fetched", C: "E_NOT_FOUND"} and events[-1] == Enumerated(True)
    told = next(e for e in events if getattr(e, "path", "") == A)
    message = told.error.message if isinstance(told, Failed) else told.message
    assert what in message or "inappropriate" in what
    # By the Data API such a video is a document without a transcript.
    runs = Runs(tmp_path, fake.entry(videos=[A], key_env="YT_KEY"))
    found = codes(runs())
    assert found[A] == "Fetched" and found[f"{A}#transcript"] in ("E_TRANSCRIPT", "E_403_WAF")
    assert "Transcript" not in runs.documents()[A].text


def test_a_video_without_transcripts_is_looked_at_again(fake: FakeYoutube, tmp_path: Path) -> None:
    fake.videos = {A: talk(tracks={}, live=True)}
    runs = Runs(tmp_path, fake.entry(videos=[A], key_env="YT_KEY"))
    events = runs()
    assert codes(events) == {A: "Fetched", f"{A}#transcript": "E_TRANSCRIPT"}
    assert any(isinstance(e, Skipped) and "is live" in e.message for e in events)
    fake.asked.clear()
    assert codes(runs()) == {A: "NotModified", f"{A}#transcript": "E_TRANSCRIPT"}
    assert fake.asked == {"videos": 1}
    fake.videos[A].tracks["en", "asr"] = CUES
    runs.now += TOMORROW
    assert codes(runs()) == {A: "Fetched"} and "Grafana" in runs.documents()[A].text
    assert runs.documents()[A].metadata["transcript"] == "en (generated)"


# --- what goes wrong ----------------------------------------------------------------------------------------


def answering(path: str, status: int, body: bytes = b"", **headers: str) -> Any:
    def instead(h: BaseHTTPRequestHandler, name: str) -> bool:
        if name == path:
            send(h, status, body, **headers)
        return name == path

    return instead


@pytest.mark.parametrize(
    ("path", "status", "body", "headers", "code"),
    [
        ("watch", 302, b"", {"location": "https://consent.youtube.com/m?continue=x"}, "E_403_WAF"),
        ("watch", 200, b'<form action="https://consent.youtube.com/save">', {}, "E_403_WAF"),
        ("watch", 200, b'<div class="g-recaptcha">', {}, "E_403_WAF"),
        ("player", 200, b"<html>oops</html>", {}, "E_API"),
        ("player", 200, b'{"playabilityStatus": ', {}, "E_API"),
        ("player", 200, b'{"videoDetails": {"videoId": "zzzzzzzzzzz"}}', {}, "E_403_WAF"),
        ("player", 200, b"[]", {}, "E_API"),
        ("player", 403, b"", {}, "E_FORBIDDEN"),
        ("timedtext", 200, b"", {}, "E_403_WAF"),
        ("timedtext", 200, b"<html>no</html>", {}, "E_API"),
        ("timedtext", 404, b"", {}, "E_403_WAF"),
    ],
)
def test_answers_of_something_else(
    fake: FakeYoutube, tmp_path: Path, path: str, status: int, body: bytes, headers: dict[str, str], code: str
) -> None:
    fake.videos = {A: talk(), B: talk()}
    fake.instead = answering(path, status, body, **headers)
    runs = Runs(tmp_path, fake.entry(videos=[A]))
    events = runs()
    assert codes(events) == {A: code}
    # What was known stays, and the next run has it.
    fake.instead = lambda *_: False
    assert codes(runs()) == {A: "Fetched"}
    fake.instead = answering(path, status, body, **headers)
    fake.videos[A].title = "Edited"
    found = codes(runs())
    assert found == {A: "Fetched" if path == "watch" else code} and A in runs.blobs


@pytest.mark.parametrize(
    "host",
    ["https://evil.example", "http://169.254.169.254", "https://www.youtube.com@evil.example", "file://"],
)
def test_a_caption_url_that_leads_elsewhere_is_not_asked(
    fake: FakeYoutube, tmp_path: Path, host: str
) -> None:
    fake.videos[A] = talk()
    fake.caption_host = host
    runs = Runs(tmp_path, fake.entry(videos=[A]))
    assert codes(runs()) == {A: "E_URL_BLOCKED"} and fake.asked["timedtext"] == 0
    fake.caption_host = "https://www.youtube.com/redirect?q="
    assert codes(runs()) == {A: "E_URL_BLOCKED"}


def test_who_is_blocked_stops_asking(fake: FakeYoutube, tmp_path: Path) -> None:
    status = {"status": "LOGIN_REQUIRED", "reason": "Sign in to confirm you’re not a bot"}
    ids = [f"video{n:06}" for n in range(9)]
    fake.videos = {x: talk(status=status) for x in ids}
    events = Runs(tmp_path, fake.entry(videos=ids))()
    assert list(codes(events).values()) == ["E_403_WAF"] * 3 and not events[-1].complete
    assert fake.asked["player"] == 3
    fake.asked.clear()
    runs = Runs(tmp_path, fake.entry(videos=ids, key_env="YT_KEY"))
    events = runs()
    assert runs.blobs.keys() == set(ids) and fake.asked["player"] == 3 and events[-1] == Enumerated(True)


def test_partial_lists_delete_nothing(fake: FakeYoutube, tmp_path: Path) -> None:
    ids = [f"video{n:06}" for n in range(60)]
    fake.videos = {x: talk() for x in ids}
    fake.playlists = {"PL0123456789": list(ids)}
    runs = Runs(tmp_path, fake.entry(playlists=["PL0123456789"], key_env="YT_KEY"))
    runs()
    # The playlist vanishes; the second page is refused; the list changes between two pages.
    gone = fake.playlists.pop("PL0123456789")
    events = runs()
    assert codes(events) == {"playlists/PL0123456789": "E_NOT_FOUND"}
    assert events[-1] == Enumerated(False, "playlists/PL0123456789 could not be read to its end")
    fake.playlists["PL0123456789"] = gone

    def second_page(h: BaseHTTPRequestHandler, name: str) -> bool:
        if "pageToken" in h.path:
            send(h, 403)
        return "pageToken" in h.path

    fake.instead = second_page
    assert not runs()[-1].complete and len(runs.blobs) == 60

    def moved(h: BaseHTTPRequestHandler, name: str) -> bool:
        if "pageToken" in h.path:
            fake.playlists["PL0123456789"] = ids[1:]
        return False

    fake.instead = moved
    events = runs()
    assert events[-1] == Enumerated(False, "playlists/PL0123456789 changed while it was read")
    assert len(runs.blobs) == 60
    fake.instead = lambda *_: False
    assert runs()[-1] == Enumerated(True) and len(runs.blobs) == 59


def google_error(status: int, reason: str, **detail: Any) -> bytes:
    """An error of Google's APIs, in its old form or, with ``detail``, in that of ``ErrorInfo``."""
    said = (
        {"details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, **detail}]}
        if detail
        else {"errors": [{"domain": "youtube.quota", "reason": reason, "message": "x"}]}
    )
    return json.dumps({"error": {"code": status, "message": "swordfish", **said}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (403, google_error(403, "quotaExceeded"), "midnight Pacific"),
        (403, google_error(403, "dailyLimitExceeded"), "midnight Pacific"),
        (429, google_error(429, "RATE_LIMIT_EXCEEDED", metadata={"quota_limit": "ReadPerDay"}), "midnight"),
        (403, google_error(403, "rateLimitExceeded"), "asks to be left alone"),
        (403, google_error(403, "userRateLimitExceeded"), "asks to be left alone"),
    ],
)
def test_a_quota_that_is_used_up_ends_the_run_and_says_when_it_goes_on(
    fake: FakeYoutube, tmp_path: Path, status: int, body: bytes, said: str
) -> None:
    ids = [f"video{n:06}" for n in range(3)]
    fake.videos = {x: talk() for x in ids}
    fake.playlists = {"PL0123456789": ids}
    entry = fake.entry(playlists=["PL0123456789"], key_env="YT_KEY", max_wait_seconds=1)
    runs = Runs(tmp_path, entry)
    runs()
    fake.asked.clear()
    fake.instead = answering("playlistItems", status, body)
    events = runs()
    assert isinstance(events[-1], Enumerated) and not events[-1].complete and said in events[-1].reason
    assert "swordfish" not in events[-1].reason and len(runs.blobs) == 3
    assert fake.asked["playlistItems"] == 1


@pytest.mark.parametrize(
    ("status", "reason", "code", "said"),
    [
        (400, "keyInvalid", "E_CREDENTIALS", "key"),
        (403, "accessNotConfigured", "E_FORBIDDEN", "enable it"),
        (403, "ipRefererBlocked", "E_FORBIDDEN", "restrictions"),
        (403, "playlistItemsNotAccessible", "E_FORBIDDEN", "private"),
        (403, "somethingNew", "E_FORBIDDEN", "does not let"),
    ],
)
def test_a_refusal_says_what_to_do(
    fake: FakeYoutube, tmp_path: Path, status: int, reason: str, code: str, said: str
) -> None:
    fake.instead = answering("playlistItems", status, google_error(status, reason))
    runs = Runs(tmp_path, fake.entry(playlists=["PL0123456789"], key_env="YT_KEY"))
    if code == "E_CREDENTIALS":
        with pytest.raises(TabootError, match=said) as caught:
            runs()
        assert caught.value.code == code
        return
    (failed,) = (e for e in runs() if isinstance(e, Failed))
    assert failed.error.code == code and said in failed.error.message


def test_a_list_without_an_end(fake: FakeYoutube, tmp_path: Path) -> None:
    fake.instead = answering(
        "playlistItems", 200, json.dumps({"items": [], "nextPageToken": "CAUQ0"}).encode()
    )
    runs = Runs(tmp_path, fake.entry(playlists=["PL0123456789"], key_env="YT_KEY"))
    assert codes(runs()) == {"playlists/PL0123456789": "E_API"} and fake.asked["playlistItems"] == 2


def test_bounds_of_a_run(fake: FakeYoutube, tmp_path: Path) -> None:
    ids = [f"video{n:06}" for n in range(20)]
    fake.videos = {x: talk(published=f"2026-01-{n + 1:02}T00:00:00Z") for n, x in enumerate(ids)}
    runs = Runs(tmp_path, fake.entry(videos=ids, key_env="K", max_items=5))
    assert not runs()[-1].complete and len(runs.blobs) == 5
    assert [runs()[-1].complete for _ in range(3)] == [False, False, True]
    assert runs.blobs.keys() == set(ids), "each run goes on where the last one ended"
    runs = Runs(tmp_path, fake.entry(videos=ids, max_requests=9))
    assert len([runs() for _ in range(6)]) == 6 and runs.blobs.keys() == set(ids)
    runs = Runs(tmp_path, fake.entry(videos=ids, key_env="K", since="2026-01-16"))
    assert runs()[-1] == Enumerated(True) and runs.blobs.keys() == set(ids[15:])
    runs = Runs(tmp_path, fake.entry(videos=ids, key_env="K", max_requests=12))
    seen = []
    for _ in range(4):
        fake.asked.clear()
        end = runs()[-1]
        assert fake.asked.total() <= 12
        seen.append(len(runs.blobs))
    assert seen == [5, 10, 15, 20] and end == Enumerated(True)


def test_a_key_that_is_refused_or_missing_and_is_told_nowhere(
    fake: FakeYoutube, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake.videos[A] = talk()
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(TabootError, match="refuses the key") as raised:
            Runs(tmp_path, fake.entry(videos=[A], key_env="YT_KEY"), key="expired-swordfish")()
        assert raised.value.code == "E_CREDENTIALS"
        runs = Runs(tmp_path, fake.entry(videos=[A], key_env="YT_KEY"))
        runs()
    assert "swordfish" not in caplog.text and KEY not in str(runs.state.__dict__)
    assert all(KEY.encode() not in blob.data for blob in runs.blobs.values())
    entry = parse_entry({"id": "t", "type": "youtube", **fake.entry(videos=[A], key_env="NOT_SET_ANYWHERE")})
    with pytest.raises(TabootError, match="NOT_SET_ANYWHERE") as raised:
        list(open_connector(entry, Access.of(Settings(), tmp_path)).events({}, lambda _: False))
    assert raised.value.code == "E_CONFIG"


def test_what_was_deleted_on_purpose_is_not_asked_for(fake: FakeYoutube, tmp_path: Path) -> None:
    fake.videos = {A: talk(), B: talk()}
    for fields in ({"key_env": "K"}, {}):
        runs = Runs(tmp_path, fake.entry(videos=[A, B], **fields))
        runs.tombstones.add(A)
        fake.asked.clear()
        assert codes(runs()) == {A: "E_TOMBSTONED", B: "Fetched"} and fake.asked["player"] == 1


def test_the_plan_tells_what_there_is(fake: FakeYoutube, tmp_path: Path) -> None:
    ids = [f"video{n:06}" for n in range(60)]
    fake.playlists = {"PL0123456789": ids, UPLOADS: ids[:3]}
    fake.channels = {CHANNEL: UPLOADS}
    entry = fake.entry(playlists=["PL0123456789"], channels=[CHANNEL], videos=[A], key_env="K")
    connector = open_connector(Runs(tmp_path, entry).entry, Runs(tmp_path, entry).access)
    assert isinstance(connector, Planner)
    told = [(p.what, p.requests, p.items) for p in connector.plan()]
    assert told == [
        ("playlists/PL0123456789", 2, 60),
        (f"channels/{CHANNEL}", 1, 3),
        ("what there is of each video", 2, 64),
        ("videos and transcripts", 129, 64),
    ]
    assert fake.asked == {"playlistItems": 2, "channels": 1}


NAMES = """items id snippet publishedAt contentDetails videoId nextPageToken relatedPlaylists uploads etag
playabilityStatus status reason videoDetails captions playerCaptionsTracklistRenderer captionTracks baseUrl
languageCode kind translationLanguages events segs utf8 tStartMs"""
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from([A, "OK", "en"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(["channels", "playlistItems", "videos", "player", "timedtext"]), values)
def test_any_json_is_a_typed_reason_at_worst(
    fake: FakeYoutube, tmp_path: Path, path: str, value: Any
) -> None:
    fake.videos, fake.playlists, fake.channels = {A: talk()}, {UPLOADS: [A]}, {"@house": UPLOADS}
    fake.instead = answering(path, 200, json.dumps(value).encode())
    for fields in ({"channels": ["@house"], "key_env": "K"}, {"videos": [A], "translated": True}):
        runs = Runs(tmp_path, fake.entry(**fields))
        runs()
        for blob in runs.blobs.values():
            try:
                read(blob)
            except TabootError as error:
                assert "failed with" not in error.message


# --- entries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"path": ".", "videos": [A]},
        {"path": ".", "key_env": "K"},
        {"videos": [A], "include": ["*"]},
        {"videos": ["not a video"]},
        {"videos": [f"https://evil.example/watch?v={A}"]},
        {"playlists": ["PL0123456789"]},
        {"channels": ["@house"]},
        {"channels": ["house"], "key_env": "K"},
        {"videos": [A], "key_env": "K", "key": "${K}"},
        {"videos": [A], "key": "AIza-the-key-itself"},
        {"videos": [A], "since": "2026-01-01"},
    ],
)
def test_entries_that_cannot_be_meant(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        YoutubeSource.model_validate({"id": "y", "type": "youtube", **fields})


@pytest.mark.parametrize(
    "text",
    [
        A,
        f"https://www.youtube.com/watch?v={A}&t=5s",
        f"https://m.youtube.com/watch?list=x&v={A}",
        f"https://youtu.be/{A}",
        f"youtube.com/shorts/{A}",
        f"https://www.youtube.com/live/{A}?si=x",
        f"https://www.youtube-nocookie.com/embed/{A}",
        f"https://music.youtube.com/watch?v={A}",
    ],
)
def test_a_video_by_any_of_its_urls(text: str) -> None:
    assert video_id(text) == A


# --- folders of files ---------------------------------------------------------------------------------------

#: What becomes of each recorded file; all others are documents.
REASONS = {
    "NOTE.md": None,
    "youtube_video_unavailable.innertube.json.static": "E_NOT_FOUND",
    "subtitles/empty.vtt": "E_EMPTY",
    "subtitles/invalid_format.sbv": "E_PARSE",
    "subtitles/invalid_format2.srt": "E_PARSE",
    "subtitles/invalid_format3.srt": "E_PARSE",
    "subtitles/invalid_format4.srt": "E_PARSE",
}


def test_every_recorded_file_is_a_document_or_has_a_typed_reason(tmp_path: Path) -> None:
    runs = Runs(tmp_path, {"path": str(YOUTUBE)})
    events = runs()
    assert events[-1] == Enumerated(True)
    files = sorted(str(p.relative_to(YOUTUBE)) for p in YOUTUBE.rglob("*") if p.is_file())
    found = codes(events)
    for path in files:
        code = found.get(path)
        if code == "Fetched":
            try:
                assert read(runs.blobs[path]).text
                assert path not in REASONS
            except TabootError as error:
                code = error.code
                assert REASONS[path] == code
        else:
            assert REASONS[path] == code
    again = runs()
    assert not any(isinstance(e, Fetched) for e in again)
    assert sum(len(e.roles) for e in again if isinstance(e, Unchanged)) == len(runs.blobs)


def test_files_of_every_kind_and_those_that_are_something_else(fake: FakeYoutube, tmp_path: Path) -> None:
    fake.videos = {A: talk(title="One"), B: talk(title="Two")}
    folder = tmp_path / "recorded"
    folder.mkdir()
    listed = {"kind": "youtube#videoListResponse", "items": [fake.item(A), fake.item(B)]}
    info = {"id": C, "extractor_key": "Youtube", "title": "Three", "upload_date": "20260102", "duration": 65}
    files = {
        "videos.json": json.dumps(listed),
        "one.json": json.dumps(fake.player(A)),
        f"Three [{C}].info.json": json.dumps(info),
        f"Three [{C}].en.vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n",
        "t.srv3": '<?xml version="1.0"?>\n<timedtext><body><p t="0" d="1">Hi</p></body></timedtext>',
        "t.static": "1\n00:00:01,000 --> 00:00:02,000\nHello\n",
        "page.static": "<html><title>Sign in</title></html>",
        "bot.html": '<html><div class="g-recaptcha"></div></html>',
        "watch.html": f"<html><script>var ytInitialPlayerResponse = {json.dumps(fake.player(B))};</script>",
        "package.json": '{"name": "left-pad"}',
        "cut.json": '{"videoDetails": {"title": ',
        "words.xml": "<rss/>",
        "live.live_chat.json": '{"replayChatItemAction": {}}\n' * 2,
        "empty.json": "",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    runs = Runs(tmp_path, {"path": "recorded"})
    told = runs()
    assert told[-1] == Enumerated(False, "cut.json could not be read to its end")
    found = codes(told)
    assert {path: code for path, code in found.items() if code != "Fetched"} == {
        "page.static": "E_MIME",
        "bot.html": "E_MIME",
        "package.json": "E_MIME",
        "words.xml": "E_MIME",
        "live.live_chat.json": "E_MIME",
        "cut.json": "E_PARSE",
        "empty.json": "E_EMPTY",
    }
    documents = runs.documents()
    assert documents[f"videos.json#{B}"].title == "Two" and documents["one.json"].title == "One"
    assert runs.blobs[f"videos.json#{B}"].url == f"https://www.youtube.com/watch?v={B}"
    assert documents[f"Three [{C}].info.json"].text == "# Three\n\n2026-01-02 · 1:05"
    assert runs.blobs[f"Three [{C}].en.vtt"].url == f"https://www.youtube.com/watch?v={C}"
    assert documents[f"watch.html#{B}"].title == "Two"
    assert documents["t.srv3"].text == "**0:00** Hi" and documents["t.static"].text == "**0:01** Hello"


# --- any history ends as if it had not been -----------------------------------------------------------------

POOL = [f"video{n:06}" for n in range(8)]


class CrashingRuns(Runs):
    """Runs that may end at any event: what was not yet made durable is lost."""

    def crash(self, after: int) -> None:
        """A run that is killed when it has told so many events."""
        durable = dict(self.known), dict(self.blobs), copy.deepcopy(self.state)
        for number, event in enumerate(self.stream()):
            if isinstance(event, Checkpoint | Enumerated):
                durable = dict(self.known), dict(self.blobs), copy.deepcopy(self.state)
            if number == after:
                break
        self.known, self.blobs, self.state = durable
        self.access = replace(self.access, state=self.state)


steps = st.one_of(
    st.tuples(st.just("title"), st.sampled_from(POOL), st.text("abc", min_size=1, max_size=3)),
    st.tuples(st.just("cues"), st.sampled_from(POOL), st.text("abc", min_size=1, max_size=3)),
    st.tuples(st.just("tracks"), st.sampled_from(POOL), st.sampled_from(["", "en", "de", "asr"])),
    st.tuples(st.just("delete"), st.sampled_from(POOL), st.none()),
    st.tuples(st.just("list"), st.permutations(POOL), st.integers(0, len(POOL))),
    st.tuples(st.just("run"), st.none(), st.none()),
    st.tuples(st.just("crash"), st.none(), st.integers(0, 12)),
)


def _change(fake: FakeYoutube, what: str, which: Any, value: Any) -> None:
    if what == "list":
        fake.playlists["PL0123456789"] = list(which)[:value]
    elif what == "delete":
        fake.videos.pop(which, None)
    else:
        video = fake.videos.setdefault(which, talk())
        if what == "title":
            video.title = value
        elif what == "cues":
            video.tracks = {track: [(0, 1000, value)] for track in video.tracks}
        else:
            track = {"": {}, "en": {("en", "")}, "de": {("de", "")}, "asr": {("en", "asr")}}[value]
            video.tracks = {own: list(CUES) for own in track}


def _stable(runs: Runs) -> dict[str, Any]:
    return {path: without(json.loads(blob.data), {"viewCount"}) for path, blob in runs.blobs.items()}


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(steps, max_size=12), st.booleans())
def test_after_any_history_it_is_as_if_read_once(
    fake: FakeYoutube, tmp_path: Path, history: list[tuple[str, Any, Any]], keyed: bool
) -> None:
    fake.page = 3
    fake.videos = {video: talk(title=video) for video in POOL[:5]}
    fake.playlists = {"PL0123456789": POOL[:6]}
    fields = {"playlists": ["PL0123456789"], "key_env": "K"} if keyed else {"videos": POOL}
    entry = fake.entry(**fields, refresh_days=0)
    runs = CrashingRuns(tmp_path, entry)
    for what, which, value in history:
        if what == "run":
            runs()
        elif what == "crash":
            runs.crash(value)
        else:
            _change(fake, what, which, value)
    assert runs()[-1] == Enumerated(True)
    scratch = Runs(tmp_path, entry)
    scratch()
    assert _stable(runs) == _stable(scratch)
    assert not any(isinstance(event, Fetched) for event in runs())
