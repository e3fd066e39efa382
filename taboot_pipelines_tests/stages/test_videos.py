"""Videos through the whole chain: a hit leads to the second, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.fakes.youtube import KEY, FakeVideo, FakeYoutube
from taboot_pipelines_tests.world import World, differences, holding, logical

TALK, OTHER = "talkOfAfter", "other-Video"
pytestmark = pytest.mark.needs("data")

CUES = [
    (0, 4000, "Welcome to the tour of our house."),
    (4000, 3000, "Today we look at backups."),
    (600_000, 4000, "The nightly backup goes to the basement with restic."),
    (605_000, 4000, "It listens on nothing at all."),
]


@pytest.fixture
def fake(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeYoutube]:
    monkeypatch.setenv("YT_KEY", KEY)
    with FakeYoutube().serving() as fake:
        fake.videos = {
            TALK: FakeVideo(
                title="A tour of the house",
                description="0:00 Welcome\n10:00 Backups\n20:00 The end",
                tracks={("en", "asr"): CUES},
            ),
            OTHER: FakeVideo(title="Without words", description="Nothing is said here."),
        }
        fake.playlists = {"PL0123456789": [TALK, OTHER]}
        world.source(
            "talks", "youtube", **fake.entry(path=None, playlists=["PL0123456789"], key_env="YT_KEY")
        )
        yield fake


def test_a_hit_and_a_citation_lead_to_the_second(world: World, fake: FakeYoutube) -> None:
    world.ingest()
    kb = world.kb()
    hit = kb.search("nightly backup restic basement", 1).hits[0]
    assert hit.url == f"https://www.youtube.com/watch?v={TALK}&t=600s"
    # What a hit shows is a name of its document.
    assert kb.why_not(hit.url, "anything else").doc_id == hit.doc_id
    with pytest.raises(TabootError, match="No document is called"):
        kb.why_not(f"https://www.youtube.com/watch?v={TALK}&t=sixs", "anything else")
    assert hit.source_type == "youtube" and hit.start == 0, "one chunk is all of so short a video"
    for query, second in (
        ("it listens on nothing", 605),
        ("today we look", 4),
        ("how is it welcomed", 0),
    ):
        assert kb.search(query, 1).hits[0].url == f"https://www.youtube.com/watch?v={TALK}&t={second}s"
    about = next(h for h in kb.search("nothing is said here", 5).hits if h.title == "Without words")
    assert about.url == f"https://www.youtube.com/watch?v={OTHER}"
    answer = kb.answer("Where does the nightly backup go with restic?")
    assert answer.found and answer.citations[0].url.endswith("&t=600s"), answer
    letters = {d["item"]: d["code"] for d in world.workspace.catalog.dead_letters.find("default")}
    assert letters == {f"{OTHER}#transcript": "E_TRANSCRIPT"}
    assert not holding(world.home, KEY) and not holding(world.home, "swordfish")


def test_nothing_new_asks_conditionally_and_stores_nothing(world: World, fake: FakeYoutube) -> None:
    world.ingest()
    fake.asked.clear(), fake.unmodified.clear()
    before = logical(world.workspace)
    reports = {r.stage: r.counts for r in world.ingest()}
    assert fake.asked == fake.unmodified and fake.asked.total() == 2
    assert reports["raw_blobs"]["fetched"] == 0
    assert logical(world.workspace) == before


def test_changes_of_the_origin_end_as_if_read_once(world: World, fake: FakeYoutube) -> None:
    world.ingest()
    fake.videos[TALK].description += "\nCorrected."
    fake.videos["third_Video"] = FakeVideo(tracks={("en", ""): [(0, 1000, "The third one speaks.")]})
    fake.playlists["PL0123456789"] = ["third_Video", TALK]
    world.ingest(confirm_deletes=True)
    kb = world.kb()
    titles = sorted(kb.documents().column("title").to_pylist())
    assert titles == ["A talk", "A tour of the house"]
    scratch = world.open(world.replay())
    try:
        assert not differences(logical(world.workspace), logical(scratch))
    finally:
        scratch.close()


def test_local_captions_are_found_by_their_words(world: World) -> None:
    folder = world.source("films")
    (folder / "tour.srt").write_text(
        "1\n00:00:01,000 --> 00:00:02,000\nThe pump stands\n\n"
        "2\n00:00:02,000 --> 00:00:04,000\nin the cellar.\n"
    )
    world.ingest()
    hit = world.kb().search("pump cellar", 1).hits[0]
    assert hit.text == "**0:01** The pump stands in the cellar." and hit.url == str(folder / "tour.srt")
