"""Repositories read from a fake GitHub: what becomes of each thing, what it costs, what bad answers cost."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.connectors.access import environment_secret
from taboot_pipelines.connectors.github import entry as github_entry
from taboot_pipelines.connectors.github import listings
from taboot_pipelines.connectors.protocol import Planner
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated
from taboot_pipelines.sources import document_forms, open_connector
from taboot_pipelines_tests.connectors.conftest import DATA
from taboot_pipelines_tests.connectors.github_runs import Store, entry_of
from taboot_pipelines_tests.fakes.github import TOKEN, Answer, FakeGithub, Link, Repository, Submodule

COMPOSE = "services:\n  web:\n    image: nginx\n    env_file: web.vars\n    build: .\n"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
FILES: dict[str, Any] = {
    "README.md": "# Shop\n",
    "docs/Guide.MD": "# Guide\n",
    "app/compose.yaml": COMPOSE,
    "app/web.vars": "A=1\n",
    "app/.env": "TAG=1\n",
    "app/Dockerfile": "FROM alpine\n",
    "other/.env": "UNREAD=1\n",
    "src/main.py": "print(1)\n",
    "proxy/app.conf": "server { location / { proxy_pass http://web:80; } }\n",
}
WITH_TOKEN = {"token": "${GITHUB_TOKEN}"}


@pytest.fixture
def hub() -> Iterator[FakeGithub]:
    with FakeGithub() as made:
        yield made


@pytest.fixture
def shop(hub: FakeGithub) -> Repository:
    return hub.repository("acme/shop", FILES)


def talked(shop: Repository) -> tuple[int, int]:
    """An issue and a pull request with all that may be said of them."""
    issue = shop.issue("It breaks", "## Steps\n\n- [x] look\n", labels=[{"name": "bug"}, {"name": "web"}])
    shop.comment(issue, "Me too, @ann.")
    pull = shop.issue("Mend it", "Closes #1.", pull=True)
    review = shop.review(pull, "Nearly.", "CHANGES_REQUESTED")
    first = shop.review_comment(pull, review["id"], "Why?")
    shop.review_comment(pull, 0, "Because.", in_reply_to_id=first["id"])
    return issue, pull


def fine(store: Store, hub: FakeGithub, **fields: Any) -> None:
    assert store.run(hub.url, **fields) == Enumerated(True)


def text_of(store: Store, path: str) -> str:
    x = store.items[path]
    parsed = parse_document(
        x.data,
        path=path,
        mime=x.mime,
        charset=x.charset,
        languages=[],
        max_chars=1_000_000,
        forms=document_forms(),
    )
    return parsed.text


def test_each_thing_is_an_item_with_the_page_that_people_open(hub: FakeGithub, shop: Repository) -> None:
    issue, pull = talked(shop)
    shop.release("v1/beta", "First.")
    shop.release("v2", draft=True)
    store = Store()
    fine(store, hub, **WITH_TOKEN)
    web = "https://github.com/acme/shop"
    assert {path: (x.role, x.url) for path, x in store.items.items()} == {
        "acme/shop#repository": ("document", web),
        "acme/shop/README.md": ("document", f"{web}/blob/main/README.md"),
        "acme/shop/docs/Guide.MD": ("document", f"{web}/blob/main/docs/Guide.MD"),
        "acme/shop/app/compose.yaml": ("document", f"{web}/blob/main/app/compose.yaml"),
        "acme/shop/app/Dockerfile": ("document", f"{web}/blob/main/app/Dockerfile"),
        "acme/shop/app/web.vars": ("input", f"{web}/blob/main/app/web.vars"),
        "acme/shop/app/.env": ("input", f"{web}/blob/main/app/.env"),
        "acme/shop/proxy/app.conf": ("document", f"{web}/blob/main/proxy/app.conf"),
        f"acme/shop#issues/{issue}": ("document", f"{web}/issues/{issue}"),
        f"acme/shop#pulls/{pull}": ("document", f"{web}/pull/{pull}"),
        "acme/shop#releases/v1/beta": ("document", f"{web}/releases/tag/v1/beta"),
    }
    text = text_of(store, f"acme/shop#pulls/{pull}")
    for said in ("Closes #1.", "Changes requested by cid", "Nearly.", "+  web: {}", "Why?", "Because."):
        assert said in text


def test_without_a_token_files_and_releases_are_read(hub: FakeGithub, shop: Repository) -> None:
    talked(shop)
    store = Store()
    fine(store, hub)
    assert not any("#issues" in path or "#pulls" in path for path in store.items)
    fine(store, hub, issues=True, pulls=False, files=False)
    assert {p for p in store.items if "/shop/" in p} == set() and "acme/shop#issues/1" in store.items


@pytest.mark.parametrize("size", [1, 2, 100])
def test_an_unchanged_repository_costs_its_conditional_requests(
    hub: FakeGithub, shop: Repository, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "PER_PAGE", size)
    hub.per_page = size
    talked(shop)
    for i in range(3):
        shop.issue(f"Another {i}")
        shop.release(f"v{i}")
    shop.files |= {"big.md": LFS, "link.md": Link("README.md"), "lib": Submodule()}
    store = Store()
    fine(store, hub, **WITH_TOKEN)
    before = store.content(), store.problems()
    first = len(hub.log)
    fine(store, hub, **WITH_TOKEN)
    again = hub.log[first:]
    assert again and all(a.conditional and a.status == 304 for a in again)
    assert store.counts()["Fetched"] == 0 and (store.content(), store.problems()) == before


def test_a_change_costs_what_it_changes(hub: FakeGithub, shop: Repository) -> None:
    issue, _ = talked(shop)
    store = Store()
    fine(store, hub, **WITH_TOKEN)
    hub.log.clear()
    shop.files["README.md"] = "# New shop\n"
    shop.comment(issue, "It was the cable.")
    fine(store, hub, **WITH_TOKEN)
    assert store.counts()["Fetched"] == 2
    # The issue itself was on a page that had not changed: it comes out of the blob.
    assert [a.path.split("?")[0] for a in hub.log if a.status == 200] == [
        "/repos/acme/shop/git/trees/main",
        next(a.path for a in hub.log if "/blobs/" in a.path),
        "/repos/acme/shop/issues/comments",
    ]
    assert "It was the cable." in text_of(store, "acme/shop#issues/1")
    assert "Me too" in text_of(store, "acme/shop#issues/1")


def test_an_edit_that_moves_no_date_is_seen(hub: FakeGithub, shop: Repository) -> None:
    _, pull = talked(shop)
    store = Store()
    fine(store, hub, **WITH_TOKEN)
    shop.comments[0]["body"] = "Not me after all."
    shop.reviews[0]["body"] = "Good."
    del shop.review_comments[1]
    fine(store, hub, **WITH_TOKEN)
    assert "Not me" in text_of(store, "acme/shop#issues/1")
    text = text_of(store, f"acme/shop#pulls/{pull}")
    assert "Good." in text and "Because." not in text


def test_what_changes_by_itself_makes_no_new_item(hub: FakeGithub, shop: Repository) -> None:
    issue, _ = talked(shop)
    hub.restless = True
    store = Store()
    fine(store, hub, **WITH_TOKEN)
    shop.of(issue).update(
        updated_at="2026-01-01T00:00:00Z", reactions={"total_count": 9}, user=shop.person("ann")
    )
    fine(store, hub, **WITH_TOKEN)
    assert store.counts()["Fetched"] == 0


def test_what_is_deleted_is_absent(hub: FakeGithub, shop: Repository) -> None:
    issue, _ = talked(shop)
    shop.release("v1")
    store = Store()
    fine(store, hub, **WITH_TOKEN)
    shop.issues = [x for x in shop.issues if x["number"] != issue]
    shop.releases = []
    del shop.files["docs/Guide.MD"]
    del shop.files["app/compose.yaml"]
    fine(store, hub, **WITH_TOKEN)
    assert set(store.items) == {
        "acme/shop#repository",
        "acme/shop/README.md",
        "acme/shop/app/Dockerfile",
        "acme/shop/proxy/app.conf",
        "acme/shop#pulls/2",
    }


def test_a_deletion_while_pages_are_read_hides_no_other_thread(
    hub: FakeGithub, shop: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "PER_PAGE", 2)
    for i in range(6):
        shop.issue(f"Issue {i}")
    store = Store()
    fine(store, hub, **WITH_TOKEN)

    def delete(path: str) -> None:
        if "/issues?" in path and "page=2" in path and len(shop.issues) == 6:
            del shop.issues[0]

    hub.fault = delete
    shop.of(3)["title"] = "Issue 2, renamed"
    fine(store, hub, **WITH_TOKEN)
    assert {p for p in store.items if "#issues" in p} == {f"acme/shop#issues/{n}" for n in range(2, 7)}


def test_a_renamed_repository_keeps_its_paths(hub: FakeGithub, shop: Repository) -> None:
    talked(shop)
    store = Store()
    fine(store, hub, **WITH_TOKEN)
    paths = set(store.items)
    hub.rename("acme/shop", "acme/store")
    hub.log.clear()
    fine(store, hub, **WITH_TOKEN)
    assert set(store.items) == paths
    assert store.items["acme/shop/README.md"].url == "https://github.com/acme/store/blob/main/README.md"
    assert not any("/blobs/" in a.path for a in hub.log), "the bytes are the same"
    scratch = Store()
    fine(scratch, hub, **WITH_TOKEN)
    assert scratch.content() == store.content()
    # Named twice it is read once.
    fine(scratch, hub, repositories=["acme/shop", "acme/store"], **WITH_TOKEN)
    assert scratch.content() == store.content()


def test_organisations_and_users(hub: FakeGithub) -> None:
    hub.repository("acme/one", {"a.md": "a"})
    hub.repository("acme/two", {"b.md": "b"}, facts={"archived": True})
    hub.repository("acme/three", {"c.md": "c"}, facts={"fork": True})
    hub.repository("ann/four", {"d.md": "d"})
    hub.per_page = 1
    store = Store()

    def files(**fields: Any) -> set[str]:
        fine(store, hub, **fields)
        return {path for path in store.items if "#" not in path}

    assert files(organisations=["acme"], users=["ann"]) == {"acme/one/a.md", "acme/two/b.md", "ann/four/d.md"}
    assert files(organisations=["acme"], archived=False, forks=True) == {"acme/one/a.md", "acme/three/c.md"}
    hub.log.clear()
    assert files(organisations=["acme"], archived=False, forks=True) and all(a.status == 304 for a in hub.log)
    end = store.run(hub.url, organisations=["nobody"], repositories=["ann/four"])
    assert (
        end is not None
        and not end.complete
        and store.problems() == {"orgs/nobody#repositories": "E_NOT_FOUND"}
    )


def test_deleted_private_empty_and_misspelt_repositories(hub: FakeGithub, shop: Repository) -> None:
    hub.repository("acme/bare")
    hub.repository("acme/safe", {"a.md": "a"}, private=True)
    names = ["acme/bare", "acme/safe", "acme/shop", "acme/typo"]
    store = Store()
    fine(store, hub, repositories=names, **WITH_TOKEN)
    assert store.problems() == {"acme/typo#repository": "E_NOT_FOUND"}
    assert "acme/bare#repository" in store.items and "acme/safe/a.md" in store.items
    assert "SWORDFISHCLONE" not in repr(store.items)
    del hub.repositories["acme/shop"]
    fine(store, hub, repositories=names, **WITH_TOKEN)
    assert not any(path.startswith("acme/shop") for path in store.items), "a public one is gone"
    del hub.repositories["acme/safe"]
    end = store.run(hub.url, repositories=names, **WITH_TOKEN)
    assert end is not None and not end.complete and "private" in end.reason
    assert "acme/safe/a.md" in store.items, "it may only be hidden from this token"


def test_what_is_no_plain_file_is_named(hub: FakeGithub) -> None:
    files = {
        "big.md": LFS,
        "bin.md": b"\x00\x01",
        "large.md": "x" * 2000,
        "link.md": Link("bin.md"),
        "link.py": Link("x"),
        "lib/sub": Submodule(),
        "ünïcode ?#.md": "ok",
    }
    hub.repository("acme/shop", files)
    store = Store()
    fine(store, hub, limit=1000)
    assert store.problems() == {
        "acme/shop/big.md": "E_TOO_LARGE",
        "acme/shop/large.md": "E_TOO_LARGE",
        "acme/shop/link.md": "E_FORBIDDEN",
        "acme/shop/lib/sub": "E_FORBIDDEN",
    }
    assert set(store.items) == {"acme/shop#repository", "acme/shop/bin.md", "acme/shop/ünïcode ?#.md"}
    assert str(store.items["acme/shop/ünïcode ?#.md"].url).endswith("/%C3%BCn%C3%AFcode%20%3F%23.md")
    assert not any("large" in a.path for a in hub.log)


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_a_truncated_tree_is_read_in_parts(hub: FakeGithub, most: int) -> None:
    files = {f"{a}/{b}/{c}.md": f"{a}{b}{c}" for a in "abc" for b in "de" for c in "fgh"}
    hub.repository("acme/shop", {**files, "top.md": "t"}, most_entries=most)
    store = Store()
    fine(store, hub)
    assert {p for p in store.items if "#" not in p} == {f"acme/shop/{p}" for p in [*files, "top.md"]}


def test_globs_and_deleted_documents(hub: FakeGithub, shop: Repository) -> None:
    store = Store()
    fine(store, hub, include=["src/*.py", "**/*.md"], exclude=["docs"])
    assert {p for p in store.items if "#" not in p} == {"acme/shop/src/main.py", "acme/shop/README.md"}
    store = Store()
    fine(store, hub)
    store.tombstones = {"acme/shop/app/compose.yaml"}
    fine(store, hub)
    # What only the deleted file names is not read; a Dockerfile is by its own name.
    assert store.problems() == {"acme/shop/app/compose.yaml": "E_TOMBSTONED"}
    assert "acme/shop/app/web.vars" not in store.items and "acme/shop/app/Dockerfile" in store.items
    store.tombstones = set()
    fine(store, hub)
    assert "acme/shop/app/web.vars" in store.items


def test_bounds(hub: FakeGithub, shop: Repository) -> None:
    for i in range(5):
        shop.issue(f"Issue {i}", updated_at=f"2024-0{i + 1}-01T00:00:00Z")
    store = Store()
    end = store.run(hub.url, max_items=3, **WITH_TOKEN)
    assert end == Enumerated(False, "`max_items` of 3 is reached") and len(store.items) == 3
    store = Store()
    fine(store, hub, since="2024-03-01", **WITH_TOKEN)
    assert {p for p in store.items if "#issues" in p} == {f"acme/shop#issues/{n}" for n in (3, 4, 5)}
    store = Store()
    ends = [store.run(hub.url, max_requests=9, **WITH_TOKEN) for _ in range(6)]
    assert ends[0] is not None and not ends[0].complete and "its 9 requests" in ends[0].reason
    assert ends[-1] == Enumerated(True), "each run goes on where the last one ended"
    scratch = Store()
    fine(scratch, hub, **WITH_TOKEN)
    assert scratch.content() == store.content()


def test_what_a_run_would_ask_for(hub: FakeGithub, shop: Repository) -> None:
    talked(shop)
    connector = open_connector(entry_of(hub.url, **WITH_TOKEN), Store().access())
    assert isinstance(connector, Planner)
    planned = {p.what: (p.requests, p.items) for p in connector.plan()}
    assert planned == {
        "files of acme/shop": (6, 5),
        "issues and pull requests of acme/shop": (2, 2),
        "releases of acme/shop": (1, 0),
    }
    assert not any("/blobs/" in a.path for a in hub.log)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((200, b"<!DOCTYPE html><p>Unicorn!", {}), "E_API"),
        ((200, b'[{"number": 1, "title": "', {}), "E_API"),
        ((200, b'{"message": "no list"}', {}), "E_API"),
        ((200, b'[{"number": "one"}]', {}), "E_API"),
        ((200, b"[null]", {}), "E_API"),
        ((403, b'{"message": "Resource not accessible by personal access token"}', {}), "E_FORBIDDEN"),
        ((404, b"{}", {}), "E_NOT_FOUND"),
        ((422, b"{}", {}), "E_API"),
    ],
)
def test_a_bad_answer_costs_its_part_alone(
    hub: FakeGithub, shop: Repository, answer: Answer, code: str
) -> None:
    talked(shop)
    store = Store()
    fine(store, hub, **WITH_TOKEN)
    before = store.content()
    hub.fault = lambda path: answer if "/issues?" in path else None
    shop.files["new.md"] = "New.\n"
    del shop.files["README.md"]
    shop.issues.clear()
    end = store.run(hub.url, **WITH_TOKEN)
    assert end is not None and not end.complete and store.problems() == {"acme/shop#issues": code}
    assert before.keys() < store.items.keys() and "acme/shop/new.md" in store.items
    hub.fault = lambda _: None
    fine(store, hub, **WITH_TOKEN)
    assert "acme/shop#issues/1" not in store.items and "acme/shop/README.md" not in store.items


def test_lists_that_do_not_end(hub: FakeGithub, shop: Repository) -> None:
    talked(shop)
    itself = f'<{hub.url}/repos/acme/shop/issues?page=2>; rel="next"'
    body = json.dumps(shop.issues).encode()
    hub.fault = lambda path: (200, body, {"link": itself}) if "/issues?" in path else None
    store = Store()
    end = store.run(hub.url, **WITH_TOKEN)
    assert end is not None and not end.complete and store.problems() == {"acme/shop#issues": "E_API"}
    assert len(hub.log) < 30
    hub.fault = lambda path: (
        (200, body, {"link": '<http://127.0.0.1:9/x>; rel="next"'}) if "/issues?" in path else None
    )
    store.run(hub.url, **WITH_TOKEN)
    assert store.problems() == {"acme/shop#issues": "E_REDIRECT"}, "no other server is asked"


def test_tokens_that_are_refused_and_missing(
    hub: FakeGithub, shop: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = "another"
    with pytest.raises(TabootError, match="E_CREDENTIALS") as caught:
        Store().run(hub.url, **WITH_TOKEN)
    assert TOKEN not in str(caught.value) + repr(caught.value.details)
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    access = Store().access()
    with pytest.raises(TabootError, match="GITHUB_TOKEN is not set"):
        list(
            open_connector(
                entry_of(hub.url, **WITH_TOKEN), replace(access, secrets=environment_secret)
            ).events({}, lambda _: False)
        )
    # One that expires on the way: what was read stands, and nothing is deleted.
    hub.token = None
    store = Store()
    fine(store, hub, **WITH_TOKEN)
    del shop.files["README.md"]
    hub.fault = lambda path: (401, b"{}", {}) if "/releases" in path else None
    end = store.run(hub.url, **WITH_TOKEN)
    assert end is not None and not end.complete and "acme/shop/README.md" in store.items


def test_a_storm_ends_the_run(hub: FakeGithub, shop: Repository) -> None:
    store = Store()
    fine(store, hub)
    shop.files |= {f"{i}.md": str(i) for i in range(40)}
    hub.fault = lambda path: (502, b"", {}) if "/blobs/" in path else None
    end = store.run(hub.url)
    assert end is not None and not end.complete
    assert len(hub.log) < 100 and "acme/shop/README.md" in store.items


@pytest.mark.parametrize(
    "refusal",
    [
        (429, b"", {"retry-after": "0"}),
        (403, b"", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}),
        (403, b'{"message": "You have exceeded a secondary rate limit. Please wait."}', {}),
        (403, b'{"documentation_url": "https://docs.github.com/#secondary-rate-limits"}', {}),
    ],
)
def test_rate_limits(
    hub: FakeGithub, shop: Repository, refusal: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github_entry, "_SECONDARY_SECONDS", 0.01)
    left = [2]

    def refuse(path: str) -> Answer | None:
        if "/trees/" in path and left[0]:
            left[0] -= 1
            return refusal
        return None

    hub.fault = refuse
    store = Store()
    fine(store, hub)
    assert "acme/shop/README.md" in store.items
    left[0] = 10**6
    monkeypatch.setattr(github_entry, "_SECONDARY_SECONDS", 60.0)
    end = store.run(hub.url, max_wait_seconds=1)
    assert end is not None and not end.complete and "name one in `token`" in end.reason
    end = store.run(hub.url, max_wait_seconds=1, issues=False, pulls=False, **WITH_TOKEN)
    assert end is not None and not end.complete and "`token`" not in end.reason


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"x-accepted-github-permissions": "issues=read; pull_requests=read"}, "issues=read"),
        (
            {
                "x-github-sso": "required;"
                " url=https://github.com/orgs/acme/sso?authorization_request=SWORDFISH"
            },
            "sign-on",
        ),
        ({"x-accepted-github-permissions": "<b>SWORDFISH"}, "does not let"),
    ],
)
def test_a_refusal_says_what_the_token_lacks(
    hub: FakeGithub, shop: Repository, headers: dict[str, str], said: str
) -> None:
    hub.fault = lambda path: (403, b"{}", headers) if "/issues?" in path else None
    store = Store()
    end = store.run(hub.url, **WITH_TOKEN)
    assert end is not None and said in end.reason and "SWORDFISH" not in end.reason
    assert store.problems() == {"acme/shop#issues": "E_FORBIDDEN"}


def test_discussions(hub: FakeGithub, shop: Repository) -> None:
    replies = [
        {"id": f"R{i}", "body": f"reply {i}", "createdAt": f"2025-0{i + 1}", "author": None} for i in range(3)
    ]
    comments = [
        {
            "id": f"C{i}",
            "body": f"comment {i}",
            "createdAt": f"2025-0{i + 1}",
            "author": {"login": "bob"},
            "isAnswer": i == 1,
            "replies": replies if i == 1 else [],
        }
        for i in range(3)
    ]
    hub.per_page = 2
    for i in range(3):
        shop.discussion(f"Question {i}", "How?", comments if i == 0 else [])
    store = Store()
    fine(store, hub, discussions=True, **WITH_TOKEN)
    assert {p for p in store.items if "#disc" in p} == {f"acme/shop#discussions/{n}" for n in (1, 2, 3)}
    text = text_of(store, "acme/shop#discussions/1")
    assert "State: answered" in text and text.index("comment 0") < text.index("## Answer by bob")
    assert all(f"reply {i}" in text and f"comment {i}" in text for i in range(3))
    fine(store, hub, discussions=True, **WITH_TOKEN)
    assert store.counts()["Fetched"] == 0
    del shop.discussions[2]
    replies[2]["body"] = "reply changed"
    fine(store, hub, discussions=True, **WITH_TOKEN)
    assert store.counts()["Fetched"] == 1 and "acme/shop#discussions/3" not in store.items
    for kind, code in (("INSUFFICIENT_SCOPES", "E_FORBIDDEN"), ("OTHER", "E_API")):
        body = json.dumps({"errors": [{"type": kind}]}).encode()
        hub.fault = lambda path, body=body: (200, body, {}) if "graphql" in path else None
        end = store.run(hub.url, discussions=True, **WITH_TOKEN)
        assert end is not None and not end.complete
        assert store.problems() == {"acme/shop#discussions": code}


def test_the_wiki_by_git(hub: FakeGithub, shop: Repository, tmp_path: Path) -> None:
    store = Store()
    fine(store, hub, wiki=True, files=False, **WITH_TOKEN)
    assert not any("#wiki" in path for path in store.items), "no page was ever written"
    hub.wikis = tmp_path / "wikis"
    bare, work = hub.wikis / "acme" / "shop.wiki.git", tmp_path / "work"
    author = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]

    def git(*arguments: str) -> None:
        subprocess.run(["git", *author, *arguments], check=True, capture_output=True)

    def commit(**pages: str) -> None:
        for name, text in pages.items():
            (work / name.replace("_", ".")).write_text(text)
        git("-C", str(work), "add", "-A")
        git("-C", str(work), "commit", "-qm", "pages")
        git("-C", str(work), "push", "-q", str(bare), "HEAD:master")

    git("init", "-q", "--bare", "-b", "master", str(bare))
    git("init", "-q", "-b", "master", str(work))
    (work / "link.md").symlink_to("/etc/passwd")
    commit(Home_md="# Home\n", Guide_rst="Guide\n=====\n", picture_png="no page")
    fine(store, hub, wiki=True, files=False, **WITH_TOKEN)
    pages = {p: (x.url, x.mime) for p, x in store.items.items() if "#wiki" in p}
    assert pages == {
        "acme/shop#wiki/Home.md": (f"{hub.url}/acme/shop/wiki/Home", "text/markdown"),
        "acme/shop#wiki/Guide.rst": (f"{hub.url}/acme/shop/wiki/Guide", "text/x-rst"),
    }
    hub.log.clear()
    fine(store, hub, wiki=True, files=False, **WITH_TOKEN)
    assert store.counts()["Fetched"] == 0 and not any("upload-pack" in a.path for a in hub.asked("POST")[1:])
    (work / "Guide.rst").unlink()
    commit(Home_md="# New home\n")
    fine(store, hub, wiki=True, files=False, **WITH_TOKEN)
    assert store.counts()["Fetched"] == 1 and "acme/shop#wiki/Guide.rst" not in store.items
    hub.fault = lambda path: (500, b"", {}) if ".wiki.git/" in path else None
    end = store.run(hub.url, wiki=True, files=False, **WITH_TOKEN)
    assert end is not None and not end.complete and store.problems() == {"acme/shop#wiki": "E_NETWORK"}
    assert "acme/shop#wiki/Home.md" in store.items


@pytest.mark.parametrize(
    "fields",
    [
        {"repositories": ["acme"]},
        {"repositories": ["../etc"]},
        {"repositories": [], "users": []},
        {"path": "."},
        {"discussions": True},
        {"token": "ghp_plain"},
        {"token": "${A}", "token_env": "A"},
        {"base_url": "https://user:secret@ghe.example/api/v3"},
        {"organisations": ["a/b"]},
    ],
)
def test_entries_that_are_refused(fields: dict[str, Any]) -> None:
    given = {"repositories": ["acme/shop"], **fields}
    with pytest.raises((TabootError, ValueError)):
        entry_of(given.pop("base_url", "https://api.github.com"), **given)


@pytest.mark.parametrize(
    ("base", "graphql", "web"),
    [
        ("https://api.github.com", "https://api.github.com/graphql", "https://github.com"),
        ("https://ghe.example/api/v3/", "https://ghe.example/api/graphql", "https://ghe.example"),
    ],
)
def test_enterprise_has_its_addresses(base: str, graphql: str, web: str) -> None:
    assert github_entry.graphql_of(base) == graphql and github_entry.web_of(base) == web


# --- recordings of the real API -----------------------------------------------------------------------------

RECORDINGS = sorted((DATA / "github-api").glob("*/*.json"))


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda f: f.parent.name)
def test_each_recording_is_documents_or_a_reason(file: Any) -> None:
    store = Store()
    entry = {"repositories": None, "path": str(file.parent)}
    assert store.run("https://api.github.com", **entry) == Enumerated(True)
    assert bool(store.items) != bool(store.problems())
    for path in store.items:
        assert text_of(store, path).strip()
    if store.problems():
        assert set(store.problems().values()) == {"E_MIME"}


def test_the_recordings_hold_these() -> None:
    store = Store()
    assert store.run("https://api.github.com", repositories=None, path=str(DATA / "github-api")) is not None
    org = "octokit-fixture-org"
    assert {path.partition(".json#")[2] for path in store.items} == {
        f"{org}/hello-world#repository",
        f"{org}/hello-world/README.md",
        f"{org}/release-assets-conflict#releases/v1.0.0",
        f"{org}/rename-repository-newname#repository",
    }
    assert len(store.problems()) == 6, "what only writes, statuses, references and labels are no documents"


def issue_of(number: int) -> dict[str, Any]:
    page = f"https://github.com/acme/shop/issues/{number}"
    return {"number": number, "title": f"Issue {number}", "state": "open", "body": "Words.", "html_url": page}


def comment_of(number: int, id_: int, kind: str = "issues", **more: Any) -> dict[str, Any]:
    page = f"https://github.com/acme/shop/{kind}/{number}#issuecomment-{id_}"
    api = f"https://api.github.com/repos/acme/shop/issues/{number}"
    return {"id": id_, "body": f"Comment {id_}.", "html_url": page, "issue_url": api, **more}


def read_recorded(folder: Path, **answers: Any) -> Store:
    for name, answer in answers.items():
        (folder / f"{name}.json").write_text(json.dumps(answer))
    store = Store()
    entry: dict[str, Any] = {"repositories": None, "path": str(folder)}
    assert store.run("https://api.github.com", **entry) == Enumerated(True)
    return store


def test_what_a_recorded_search_found_are_items(tmp_path: Path) -> None:
    found = [
        {**issue_of(7), "score": 1.0},
        {**issue_of(8), "pull_request": {"merged_at": None}, "score": 0.5},
    ]
    search = {"total_count": 2, "incomplete_results": False, "items": found}
    exchange = [{"path": "/search/issues", "method": "get", "status": 200, "response": search}]
    store = read_recorded(tmp_path, body=search, exchange=exchange)
    assert set(store.items) == {
        f"{name}.json#acme/shop#{of}" for name in ("body", "exchange") for of in ("issues/7", "pulls/8")
    }
    assert text_of(store, "body.json#acme/shop#issues/7").startswith("# Issue 7 (#7)\n")


def test_recorded_comments_are_read_with_their_issue_or_alone(tmp_path: Path) -> None:
    comments = [comment_of(7, 1), comment_of(7, 2), comment_of(9, 3, "pull")]
    line = comment_of(9, 4, "pull", pull_request_url="https://api.github.com/repos/acme/shop/pulls/9")
    exchange = [
        {"path": "/repos/acme/shop/issues/7", "method": "get", "status": 200, "response": issue_of(7)},
        {"path": "/repos/acme/shop/issues/comments", "method": "get", "status": 200, "response": comments},
    ]
    store = read_recorded(tmp_path, alone=[*comments, line], with_issue=exchange, one=comments[0])
    assert set(store.items) == {
        *(f"{name}.json#acme/shop#issues/7" for name in ("alone", "with_issue", "one")),
        *(f"{name}.json#acme/shop#pulls/9" for name in ("alone", "with_issue")),
    }
    alone = text_of(store, "alone.json#acme/shop#issues/7")
    assert "Comment 1." in alone and "Comment 2." in alone and "(#7)" in alone
    whole = text_of(store, "with_issue.json#acme/shop#issues/7")
    assert whole.startswith("# Issue 7 (#7)\n") and "Words." in whole and "Comment 2." in whole
    pull = text_of(store, "alone.json#acme/shop#pulls/9")
    assert "Comment 3." in pull and "Comment 4." in pull and "Comment on lines" in pull


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda f: f.parent.name)
def test_the_recorded_answers_are_read_as_the_api_gives_them(hub: FakeGithub, file: Any) -> None:
    """The server answers what was recorded, and nothing else: each part is an item or a typed reason."""
    recorded = {}
    names = set()
    for exchange in json.loads(file.read_text()):
        if exchange["method"] != "get":
            continue
        body = exchange["response"]
        location = exchange["headers"].get("location")
        headers = {"location": location.replace("https://api.github.com", hub.url)} if location else {}
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        recorded[exchange["path"]] = (exchange["status"], data, headers)
        parts = exchange["path"].split("/")
        names |= {f"{parts[2]}/{parts[3]}"} if parts[1] == "repos" else set()
    hub.fault = lambda path: recorded.get(path.partition("?")[0], (404, b'{"message": "Not Found"}', {}))
    store = Store()
    if names:
        end = store.run(hub.url, repositories=sorted(names), **WITH_TOKEN)
        assert end is not None and store.items.keys() | store.problems().keys()
        for path in store.items:
            assert text_of(store, path).strip()
