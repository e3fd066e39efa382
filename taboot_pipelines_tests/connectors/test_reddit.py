"""Source type ``reddit`` against a fake of Reddit: threads, what vanished, limits, recorded answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api.client import Limits
from taboot_pipelines.connectors.protocol import Connector, Planner
from taboot_pipelines.connectors.reddit.client import RedditApi, Thread, pairs, seconds_asked
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import REDDIT_THREAD, Failed, Fetched, Gone, NotModified, Skipped
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import document_forms, open_connector
from taboot_pipelines.sources.sources_file import parse_entry
from taboot_pipelines_tests.connectors.conftest import DATA
from taboot_pipelines_tests.connectors.mirror import Crash, Mirror, quick_clients
from taboot_pipelines_tests.fakes.answering import Response
from taboot_pipelines_tests.fakes.reddit import FakeReddit, listing

__all__ = ["quick_clients"]
pytestmark = pytest.mark.usefixtures("quick_clients")
NOW = 1_800_000_000
SECRET = "swordfish"
APPLICATION = {"client_id_env": "REDDIT_CLIENT_ID", "client_secret_env": "REDDIT_CLIENT_SECRET"}


@contextmanager
def connected(fake: FakeReddit) -> Iterator[Any]:
    """``open(mirror, now=…, **fields)`` over the fake."""
    with fake.serve() as base:

        def open_(mirror: Mirror, *, now: float = NOW, **fields: Any) -> Connector:
            entry = {"id": "r", "type": "reddit", "base_url": base, **APPLICATION}
            entry["token_url"] = f"{base}/api/v1/access_token"
            if not {"subreddits", "threads", "listings", "users", "searches"} & fields.keys():
                entry["subreddits"] = ["homelab"]
            access = replace(
                Access.of(Settings(), Path(), state=mirror.state),
                clock=lambda: datetime.fromtimestamp(now, UTC),
                secrets=lambda name: SecretStr(f"{SECRET}-{name}"),
            )
            return open_connector(parse_entry({**entry, **fields}), access)

        yield open_


def text_of(mirror: Mirror, path: str) -> str:
    return parse_document(
        mirror.items[path],
        path=path,
        mime=REDDIT_THREAD,
        charset="utf-8",
        languages=[],
        max_chars=10**6,
        forms=document_forms(),
    ).text


def house() -> FakeReddit:
    fake = FakeReddit()
    fake.post("a")
    fake.comment("c1", "t3_a", "a")
    fake.comment("c2", "t1_c1", "a", author="[deleted]", body="[deleted]")
    fake.comment("c3", "t1_c2", "a", body="two\n\nlines")
    fake.comment("c4", "t3_a", "a", body="[removed]")
    fake.post("b", is_self=False, selftext="", url="https://example.org/x", author="[deleted]")
    return fake


def test_a_document_is_a_thread() -> None:
    fake, mirror = house(), Mirror()
    with connected(fake) as open_:
        assert mirror.run(open_(mirror)).complete
    assert sorted(mirror.items) == ["r/homelab/a", "r/homelab/b"] and not mirror.reasons()
    assert text_of(mirror, "r/homelab/a") == (
        "# Title a\n\nr/homelab, u/ann, 2023-11-14 22:13 UTC\n\nText of a\n"
        "\n## Comments\n"
        "\n### u/bob, 2023-11-14 22:20 UTC\n\nBody of c1\n"
        "\n> **A deleted comment**\n"
        "\n> > **u/bob**, 2023-11-14 22:20 UTC\n> >\n> > two\n> > \n> > lines\n"
    )
    assert text_of(mirror, "r/homelab/b") == (
        "# Title b\n\nr/homelab, 2023-11-14 22:13 UTC\n\n<https://example.org/x>\n"
    )
    assert mirror.known["r/homelab/a"].url == "https://www.reddit.com/r/homelab/comments/a/title/"
    told = fake.requests[0]
    pair = base64.b64encode(f"{SECRET}-REDDIT_CLIENT_ID:{SECRET}-REDDIT_CLIENT_SECRET".encode()).decode()
    assert told.path == "/api/v1/access_token" and told.headers["authorization"] == f"Basic {pair}"
    assert "taboot" in told.headers["user-agent"]


def test_what_is_unchanged_costs_the_listing() -> None:
    fake, mirror = house(), Mirror()
    with connected(fake) as open_:
        mirror.run(open_(mirror))
        fake.asked.clear()
        for post in fake.posts.values():
            post["score"] += 5  # votes come by themselves
        mirror.run(open_(mirror, now=NOW + 3600))
        assert fake.asked == {"/api/v1/access_token": 1, "/r/homelab/new": 1}
        assert mirror.counts() == {"NotModified": 2, "Enumerated": 1}
        fake.asked.clear()
        mirror.run(open_(mirror, now=NOW + 90_000))
        assert fake.asked["/comments/a"] == 1 and mirror.counts()["NotModified"] == 2, "looked at once a day"
        fake.comment("c1", "t3_a", "a", body="edited")
        mirror.run(open_(mirror, now=NOW + 90_100))
        assert not mirror.counts()["Fetched"], "no listing shows it"
        fake.comment("c5", "t3_a", "a")
        mirror.run(open_(mirror, now=NOW + 90_200))
        assert [e.path for e in mirror.events if isinstance(e, Fetched)] == ["r/homelab/a"]
        assert "edited" in text_of(mirror, "r/homelab/a")


def test_what_vanished_at_reddit_is_absent_here_too() -> None:
    fake, mirror = FakeReddit(), Mirror()
    for id_ in "abcdefg":
        fake.post(id_)
    fake.comment("c1", "t3_c", "c", body="a secret said by mistake")
    with connected(fake) as open_:
        mirror.run(open_(mirror))
        assert len(mirror.items) == 7
        fake.post("a", selftext="[deleted]", author="[deleted]")
        fake.post("b", removed_by_category="moderator")
        fake.comment("c1", "t3_c", "c", body="[removed]")
        fake.post("d", off=True)  # it left the listing, and is there
        del fake.posts["e"]
        mirror.run(open_(mirror, recheck_hours=0))
        assert sorted(path[-1] for path in mirror.items) == ["c", "d", "f", "g"]
        assert {e.path[-1] for e in mirror.events if isinstance(e, Gone)} == {"a", "b", "e"}
        assert b"by mistake" not in mirror.items["r/homelab/c"]
        fake.post("d", title="Another")
        mirror.run(open_(mirror))
        assert b"Another" in mirror.items["r/homelab/d"]
        fresh = Mirror()
        fresh.run(open_(fresh))
        assert fresh.reasons() == ["E_NOT_FOUND"] and isinstance(fresh.events[-2], Skipped | Fetched)
        # What no entry names any more, and no listing shows, is not asked for.
        mirror.state.committed.clear()
        mirror.run(open_(mirror, subreddits=["other"]))
        assert "r/homelab/d" not in mirror.items


def test_comments_that_are_left_out_are_asked_for() -> None:
    fake, mirror = FakeReddit(), Mirror()
    fake.post("a")
    for n in range(230):
        fake.comment(f"x{n:03}", "t3_a", "a")
    parent = "t3_a"
    for n in range(12):
        fake.comment(f"d{n:02}", parent, "a")
        parent = f"t1_d{n:02}"
    fake.inline = 60
    with connected(fake) as open_:
        mirror.run(open_(mirror))
        said = json.loads(mirror.items["r/homelab/a"])
        assert len(said["comments"]) == 242 and said["omitted"] == 0
        depths = {c["id"]: c["depth"] for c in said["comments"]}
        assert [depths[f"d{n:02}"] for n in range(12)] == list(range(12))
        assert "(answer at depth 11)" in text_of(mirror, "r/homelab/a")
        assert fake.asked["/api/morechildren"] == 2
        few = Mirror()
        few.run(open_(few, max_more=1))
        said = json.loads(few.items["r/homelab/a"])
        assert len(said["comments"]) == 160 and said["omitted"] == 82
        assert "further comments" in text_of(few, "r/homelab/a")
        fake.inline = 1000
        mirror.run(open_(mirror, recheck_hours=0))
        assert mirror.counts()["NotModified"] == 1, "however they came, they are the same"


def test_a_crosspost_is_its_original_once() -> None:
    fake, mirror = FakeReddit(), Mirror()
    parent = fake.post("p", subreddit="selfhosted", off=True)
    fake.post("a", crosspost_parent="t3_p", crosspost_parent_list=[dict(parent)])
    fake.post("b", crosspost_parent="t3_p", crosspost_parent_list=[])
    fake.post("c", crosspost_parent="t3_q")
    fake.post("q", off=True, crosspost_parent="t3_a")
    with connected(fake) as open_:
        assert mirror.run(open_(mirror)).complete
        assert list(mirror.items) == ["r/selfhosted/p"]
        mirror.run(open_(mirror))
        assert mirror.counts() == {"NotModified": 1, "Enumerated": 1}


def test_listings_searches_users_and_single_threads() -> None:
    fake, mirror = house(), Mirror()
    with connected(fake) as open_:
        done = mirror.run(
            open_(
                mirror,
                subreddits=[],
                users=["ann"],
                searches=["nas backup"],
                listings=["/r/homelab+selfhosted/top?t=month"],
                threads=["https://www.reddit.com/r/x/comments/b/y/?z=1", "zz"],
            )
        )
    assert done.complete and len(mirror.items) == 2 and mirror.reasons() == ["E_NOT_FOUND"]
    assert fake.asked["/user/ann/submitted"] == fake.asked["/search"] == fake.asked["/api/info"] == 1
    (top,) = [r for r in fake.requests if r.path == "/r/homelab+selfhosted/top"]
    assert top.query["t"] == "month"


times = st.integers(0, 5)
operations = st.tuples(
    st.sampled_from(["post", "comment", "edit", "delete", "remove", "retitle", "off"]),
    st.integers(0, 12),
    st.integers(0, 30),
)
rounds = st.lists(
    st.tuples(
        st.lists(operations, max_size=8),
        st.none() | st.integers(0, 8),  # the process dies after so many events
        st.none() | st.integers(1, 12),  # requests that the run may make
        st.sampled_from([1, 3, 1000]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=25, deadline=None)
@given(rounds, st.none() | st.integers(1, 3))
def test_incremental_equals_from_scratch(history: list[Any], max_items: int | None) -> None:
    fake, mirror = FakeReddit(), Mirror()
    with connected(fake) as open_:
        for changes, crash_after, max_requests, inline in history:
            fake.inline = inline
            for what, number, other in changes:
                id_, said = f"p{number:x}", f"c{other:x}"
                if what == "post":
                    fake.post(id_, subreddit="homelab")
                elif what == "off" and id_ in fake.posts:
                    del fake.posts[id_]
                elif what == "comment" and id_ in fake.posts and said not in fake.comments:
                    fake.comment(said, f"t3_{id_}", id_)
                elif what == "edit" and said in fake.comments:
                    fake.comments[said] |= {"body": "edited", "edited": 1.0}
                elif what == "remove" and said in fake.comments:
                    fake.comments[said] |= {"body": "[removed]", "author": "[deleted]"}
                elif what == "delete" and id_ in fake.posts:
                    fake.post(id_, selftext="[deleted]")
                elif what == "retitle" and id_ in fake.posts:
                    fake.post(id_, title=f"Changed {other}")
            bounds = {"max_requests": max_requests} if max_requests else {}
            with suppress(Crash):
                mirror.run(
                    open_(mirror, recheck_hours=0, max_items=max_items, **bounds), crash_after=crash_after
                )
        for _ in range(40):
            if mirror.run(open_(mirror, recheck_hours=0, max_items=max_items)).complete:
                break
        scratch = Mirror()
        assert scratch.run(open_(scratch)).complete
        mirror.run(open_(mirror))
    # Scores move by themselves, and make no other version.
    assert mirror.items.keys() == scratch.items.keys()
    assert {p: k.etag for p, k in mirror.known.items()} == {p: k.etag for p, k in scratch.known.items()}


def test_bounds() -> None:
    fake = FakeReddit()
    for n in range(250):
        fake.post(f"p{n:03}")
    with connected(fake) as open_:
        mirror = Mirror()
        assert mirror.run(open_(mirror)).complete and len(mirror.items) == 250
        assert fake.asked["/r/homelab/new"] == 3
        few = Mirror()
        assert few.run(open_(few, max_listing=120)).complete and len(few.items) == 120
        sizes = []
        bounded = Mirror()
        for _ in range(4):
            done = bounded.run(open_(bounded, max_items=100))
            sizes.append((done.complete, len(bounded.items)))
        assert sizes == [(False, 100), (False, 200), (True, 250), (True, 250)]
        bounded = Mirror()
        done = bounded.run(open_(bounded, max_requests=50))
        assert not done.complete and len(bounded.items) == 49 and bounded.reasons() == []
        late = Mirror()
        fake.post("p000", created_utc=1_800_000_000.0)
        late.run(open_(late, since="2027-01-01"))
        assert list(late.items) == ["r/homelab/p000"]
        planner = open_(mirror, threads=["a"])
        assert isinstance(planner, Planner)
        before = len(fake.requests)
        assert [p.requests for p in planner.plan()] == [2, 3] and len(fake.requests) == before


def test_tokens_are_renewed_and_refusals_told(caplog: pytest.LogCaptureFixture) -> None:
    fake, mirror = house(), Mirror()
    fake.token_uses = 1
    with connected(fake) as open_:
        assert mirror.run(open_(mirror)).complete and len(mirror.items) == 2
        assert fake.asked["/api/v1/access_token"] == 3
        for bad in (Response(401, {"error": SECRET}), Response(200, {"error": "invalid_grant"})):
            fake.fail = {"/api/v1/access_token": bad}
            with pytest.raises(TabootError, match="E_CREDENTIALS") as caught:
                Mirror().run(open_(Mirror()))
            assert SECRET not in str(caught.value) + caplog.text
    entry = {"id": "r", "type": "reddit", "subreddits": ["a1"], **APPLICATION}
    with pytest.raises(TabootError, match="REDDIT_CLIENT_ID is not set") as caught:
        Mirror().run(open_connector(parse_entry(entry), Access.of(Settings(), Path())))
    assert caught.value.code == "E_CONFIG"


@pytest.mark.parametrize(
    ("path", "response", "code"),
    [
        ("/r/homelab/new", Response(404, {}), "E_NOT_FOUND"),
        ("/r/homelab/new", Response(200, listing([{"kind": "t5", "data": {}}])), "E_NOT_FOUND"),
        ("/r/homelab/new", Response(403, {"reason": "private"}), "E_FORBIDDEN"),
        ("/r/homelab/new", Response(403, {"reason": "quarantined"}), "E_FORBIDDEN"),
        ("/r/homelab/new", Response(404, {"reason": "banned"}), "E_NOT_FOUND"),
        ("/r/homelab/new", Response(403, b"<body>blocked by network security"), "E_403_WAF"),
        ("/r/homelab/new", Response(200, b"<!doctype html><p>whoa there, pardner!"), "E_API"),
        ("/r/homelab/new", Response(200, b'{"kind": "Listing", '), "E_API"),
        ("/r/homelab/new", Response(200, {"kind": "Listing"}), "E_API"),
        ("/r/homelab/new", Response(200, b"[" * 100_000), "E_API"),
        ("/r/homelab/new", Response(200, listing([], "t3_a")), "E_API"),
        ("/r/homelab/new", Response(503, {}), "E_5XX_ORIGIN"),
        ("/r/homelab/new", Response(429, {}, {"x-ratelimit-reset": "99999"}), "E_429_RATE"),
        ("/comments/a", Response(403, {}), "E_FORBIDDEN"),
        ("/comments/a", Response(200, []), "E_API"),
        ("/api/morechildren", Response(200, {}), "E_API"),
    ],
)
def test_bad_answers_are_told_and_delete_nothing(path: str, response: Response, code: str) -> None:
    fake, mirror = house(), Mirror()
    with connected(fake) as open_:
        mirror.run(open_(mirror))
        fake.fail = {path: response}
        fake.inline = 1
        done = mirror.run(open_(mirror, recheck_hours=0))
    assert code in mirror.reasons() and len(mirror.items) == 2
    assert done.complete == (not path.startswith("/r/")), "a thread that fails keeps what is known of it"
    assert any(isinstance(e, Failed) for e in mirror.events)


def test_reddit_is_left_alone_for_as_long_as_it_says() -> None:
    fake, waits = house(), list[float]()
    fake.headers = {"x-ratelimit-remaining": "0.0", "x-ratelimit-used": "600", "x-ratelimit-reset": "3"}
    with (
        fake.serve() as base,
        RedditApi(
            base,
            f"{base}/api/v1/access_token",
            "a test",
            lambda: ("id", "secret"),
            Limits(max_wait_seconds=5),
            sleep=waits.append,
        ) as api,
    ):
        assert api.get("/api/info", {"id": "t3_a"}) and not waits
        assert api.get("/api/info", {"id": "t3_a"}) and len(waits) == 1 and 2 < waits[0] <= 3
        with pytest.raises(TabootError, match="E_429_RATE"):
            api.get("/api/info", {"id": "t3_a"})
    assert seconds_asked(429, {"x-ratelimit-remaining": "0.4", "x-ratelimit-reset": "42"}) == 42
    assert seconds_asked(429, {"retry-after": "7", "x-ratelimit-reset": "42"}) == 7
    assert seconds_asked(429, {"x-ratelimit-reset": "soon"}) == 60
    assert seconds_asked(200, {"x-ratelimit-remaining": "0"}) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=20))
def test_any_answers_make_a_thread_in_bounded_time(pairs_: list[tuple[int, int, bool]]) -> None:
    thread = Thread({"id": "a", "title": "t"})
    things = [
        {"kind": "t1", "data": {"id": f"c{n}", "parent_id": f"t1_c{m}" if deep else "t3_a", "body": "b"}}
        for n, m, deep in pairs_
    ]
    thread.add(pairs(things))
    comments = thread.comments
    assert sorted(c["id"] for c in comments) == sorted({f"c{n}" for n, _, _ in pairs_})
    assert all(0 <= c["depth"] <= 10 for c in comments)
    backwards = Thread(thread.post)
    backwards.add(pairs([{"kind": "t1", "data": c} for c in reversed(comments)]))
    assert backwards.version() == thread.version()


def test_every_recorded_answer_is_a_document_or_has_a_typed_reason() -> None:
    folder = DATA / "reddit"
    mirror = Mirror()
    entry = parse_entry({"id": "r", "type": "reddit", "path": str(folder)})
    connector = open_connector(entry, Access.of(Settings(), folder, state=mirror.state))
    assert mirror.run(connector).complete
    files = {str(p.relative_to(folder)) for p in folder.rglob("*.json")}
    read = {path.partition("#")[0] for path in mirror.items}
    told = {e.path: e.code for e in mirror.events if isinstance(e, Skipped)}
    assert read | told.keys() == files and len(files) == 12
    assert told == {"bodies/TestSubreddit.test_submit__selftext.1.json": "E_MIME"}
    assert len(mirror.items) == 2 * (1 + 1 + 6 + 1 + 102) + 1
    alone = text_of(mirror, "bodies/TestComment.test_parent__comment.1.json#2gmzqe")
    assert alone.startswith("# Thread 2gmzqe\n\nr/redditdev\n") and "### u/bboe" in alone
    assert "Yes it does. That fix is also in the master branch" in alone
    assert not [e for e in mirror.events if isinstance(e, Failed | NotModified)]
    for path in mirror.items:
        assert text_of(mirror, path).startswith("# ")
    shown = text_of(mirror, "bodies/TestSubmission.test_comments.1.json#2gmzqe")
    assert "u/bboe" in shown and "## Comments" in shown and "> **u/" in shown


def recorded(folder: Path, *answers: object) -> Mirror:
    for number, answer in enumerate(answers):
        (folder / f"{number}.json").write_text(json.dumps(answer))
    mirror = Mirror()
    entry = parse_entry({"id": "r", "type": "reddit", "path": str(folder)})
    assert mirror.run(open_connector(entry, Access.of(Settings(), folder, state=mirror.state))).complete
    return mirror


def post_thing(id_: str) -> dict[str, Any]:
    return {"kind": "t3", "data": {"id": id_, "title": f"Post {id_}", "subreddit": "redditdev"}}


def test_recorded_duplicates_are_threads_too(tmp_path: Path) -> None:
    mirror = recorded(tmp_path, [listing([post_thing("a1")]), listing([post_thing("b2"), post_thing("c3")])])
    assert sorted(mirror.items) == ["0.json#a1", "0.json#b2", "0.json#c3"]


def test_recorded_comments_alone_make_the_threads_they_belong_to(tmp_path: Path) -> None:
    said = {"link_id": "t3_a1", "subreddit": "redditdev", "link_title": "Where is it?", "link_author": "kim"}
    comments = [
        {
            "kind": "t1",
            "data": {**said, "id": "c1", "parent_id": "t3_a1", "body": "Here it is.", "author": "a"},
        },
        {
            "kind": "t1",
            "data": {**said, "id": "c2", "parent_id": "t1_c1", "body": "Thank you.", "author": "b"},
        },
        {"kind": "t1", "data": {**said, "id": "c3", "link_id": "t3_b2", "body": "Elsewhere.", "author": "a"}},
    ]
    mirror = recorded(tmp_path, listing(comments), [listing([post_thing("a1")]), listing(comments[:1])])
    assert sorted(mirror.items) == ["0.json#a1", "0.json#b2", "1.json#a1"]
    text = text_of(mirror, "0.json#a1")
    assert text.startswith("# Where is it?\n\nr/redditdev, u/kim") and "Here it is." in text
    assert "> Thank you." in text and "Elsewhere." not in text
    assert text_of(mirror, "1.json#a1").startswith("# Post a1\n")


def test_recorded_listings_are_read_by_the_api_too() -> None:
    hot = json.loads((DATA / "reddit/bodies/TestSubredditListings.test_hot.1.json").read_text())
    thread = json.loads((DATA / "reddit/bodies/TestSubmission.test_comments.1.json").read_text())
    hot["data"]["after"] = None
    fake, mirror = FakeReddit(), Mirror()
    fake.recorded = {"/r/askreddit/hot": hot, "/r/redditdev/hot": listing(thread[0]["data"]["children"])}
    fake.recorded["/comments/2gmzqe"] = thread
    for child in hot["data"]["children"]:
        post = child["data"]
        fake.recorded[f"/comments/{post['id']}"] = [listing([child]), listing([])]
    with connected(fake) as open_:
        done = mirror.run(open_(mirror, subreddits=["askreddit", "redditdev"], sort="hot"))
        assert done.complete and len(mirror.items) == 103 and mirror.reasons() == []
        mirror.run(open_(mirror, subreddits=["askreddit", "redditdev"], sort="hot"))
        assert mirror.counts() == {"NotModified": 103, "Enumerated": 1}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"path": ".", "subreddits": ["a1"]},
        {"subreddits": ["a1"], "client_id_env": "X"},
        {"subreddits": ["r/a1+a2"], **APPLICATION},
        {"threads": ["https://example.org/comments/a"], **APPLICATION},
        {"listings": ["../api/v1/me"], **APPLICATION},
        {"subreddits": ["a1"], "client_id": "abc", "client_secret": "def"},
        {"subreddits": ["a1"], **APPLICATION, "max_listing": 2000},
    ],
)
def test_entries_that_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(TabootError, match="E_SOURCES"):
        parse_entry({"id": "r", "type": "reddit", **fields})
