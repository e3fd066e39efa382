"""How people name repositories, subreddits and videos in the sources file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.connectors.youtube.entry import channel_of, playlist_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.videos import video_id
from taboot_pipelines.sources.sources_file import load_sources

VIDEO, LIST, CHANNEL = "dQw4w9WgXcQ", "PLabcdefghijk", "UC" + "a" * 22
REDDIT = {"client_id_env": "A", "client_secret_env": "B"}
KEY = {"key_env": "K"}


def entry(folder: Path, type_: str, **fields: Any) -> Any:
    (folder / "sources.yaml").write_text(json.dumps({"sources": [{"id": "x", "type": type_, **fields}]}))
    return load_sources(folder / "sources.yaml").entries["x"]


@pytest.mark.parametrize(
    ("type_", "field", "name", "texts"),
    [
        (
            "github",
            "repositories",
            "acme/shop",
            [
                "acme/shop",
                " acme/shop/ ",
                "https://github.com/acme/shop",
                "https://github.com/acme/shop.git",
                "https://github.com/acme/shop/tree/main/docs?x=1",
                "git@github.com:acme/shop.git",
                "ssh://git@github.com/acme/shop",
                "github.com/acme/shop",
            ],
        ),
        ("github", "organisations", "acme", ["acme", "@acme", "https://github.com/orgs/acme"]),
        ("github", "users", "ann", ["ann", "https://github.com/ann", "https://github.com/ann/"]),
        (
            "reddit",
            "subreddits",
            "selfhosted",
            ["selfhosted", "r/selfhosted", "/r/selfhosted/", "https://old.reddit.com/r/selfhosted/"],
        ),
        ("reddit", "users", "spez", ["spez", "u/spez", "/user/spez", "https://www.reddit.com/user/spez/"]),
        (
            "reddit",
            "listings",
            "/r/a+b/top?t=month",
            ["/r/a+b/top?t=month", "https://www.reddit.com/r/a+b/top/?t=month", "/r/a+b/top.json?t=month"],
        ),
        (
            "reddit",
            "threads",
            "abc123",
            [
                "t3_abc123",
                "https://redd.it/abc123?utm_source=share",
                "reddit.com/comments/abc123",
                "https://www.reddit.com/gallery/abc123",
                "https://www.reddit.com/r/x/comments/abc123/t/def456/?context=3",
            ],
        ),
    ],
)
def test_a_url_is_as_good_as_the_name(
    tmp_path: Path, type_: str, field: str, name: str, texts: list[str]
) -> None:
    more = REDDIT if type_ == "reddit" else {}
    for text in texts:
        found = entry(tmp_path, type_, **{field: [text]}, **more)
        assert getattr(found, field) == [name], text
        # What is kept of the entry is read again.
        assert type(found).model_validate_json(found.config_json()) == found


def test_every_way_to_name_a_video_a_playlist_and_a_channel(tmp_path: Path) -> None:
    videos = [
        VIDEO,
        f"https://youtu.be/{VIDEO}?t=3",
        f"youtube.com/watch?app=desktop&v={VIDEO}&list={LIST}",
        f"https://www.youtube.com/shorts/{VIDEO}",
        f"https://m.youtube.com/live/{VIDEO}?feature=share",
    ]
    playlists = [
        LIST,
        f"https://www.youtube.com/playlist?list={LIST}&si=x",
        f"youtube.com/playlist?list={LIST}",
        f"https://youtu.be/{VIDEO}?list={LIST}",
        f"https://music.youtube.com/playlist?list={LIST}",
    ]
    channels = [
        f"https://www.youtube.com/channel/{CHANNEL}/featured",
        f"youtube.com/channel/{CHANNEL}",
        CHANNEL,
    ]
    found = entry(tmp_path, "youtube", videos=videos, playlists=playlists, channels=channels, **KEY)
    assert {video_id(x) for x in found.videos} == {VIDEO}
    assert {playlist_of(x) for x in found.playlists} == {LIST}
    assert {channel_of(x) for x in found.channels} == {CHANNEL}
    assert channel_of("https://www.youtube.com/@name/videos") == "@name"
    assert channel_of("https://youtube.com/@%E4%B8%AD%E6%96%87%E5%AD%97?si=x") == "@中文字"


@pytest.mark.parametrize(
    ("type_", "fields", "said"),
    [
        ("github", {"repositories": ["https://gitlab.com/a/b"]}, "`OWNER/NAME`"),
        ("github", {"repositories": ["acme/.."]}, "`OWNER/NAME`"),
        ("github", {"repositories": ["acme"]}, "`OWNER/NAME`"),
        ("github", {"organisations": ["acme/shop"]}, "`repositories`"),
        ("github", {"repositories": ["a/b"], "base_url": "https://github.com"}, "https://api.github.com"),
        ("github", {"repositories": ["a/b"], "token": "$SWORDFISH"}, "`${NAME}`"),
        ("github", {"repositories": ["a/b"], "token": "ghp_SWORDFISH"}, "`${NAME}`"),
        ("github", {"repositories": "a/b"}, "list"),
        ("reddit", {"subreddits": ["a+b"], **REDDIT}, "`listings`"),
        ("reddit", {"threads": ["https://www.reddit.com/r/x/s/AbCd"], **REDDIT}, "sharing"),
        ("reddit", {"subreddits": ["x1"]}, "`client_id_env`"),
        ("youtube", {"videos": [f"https://www.youtube.com/playlist?list={LIST}"]}, "`playlists`"),
        ("youtube", {"videos": ["@name"]}, "`channels`"),
        ("youtube", {"playlists": [f"https://youtu.be/{VIDEO}"], **KEY}, "`videos`"),
        ("youtube", {"channels": ["https://www.youtube.com/c/Name"], **KEY}, "handle"),
        ("youtube", {"channels": ["@name"]}, "`key`"),
    ],
)
def test_what_cannot_be_meant_is_told_with_the_remedy(
    tmp_path: Path, type_: str, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(TabootError) as caught:
        entry(tmp_path, type_, **fields)
    assert caught.value.code == "E_SOURCES" and said in caught.value.message
    assert "SWORDFISH" not in caught.value.message
