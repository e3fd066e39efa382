"""Incremental equals from scratch at a fake GitHub, whatever happens to its repositories and to the runs.

Holds rule ``incremental-equals-scratch`` for the type ``github``.
"""

from __future__ import annotations

import random
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.connectors.github import listings
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.model.records import Enumerated
from taboot_pipelines.sources import document_forms
from taboot_pipelines_tests.connectors.github_runs import Store
from taboot_pipelines_tests.fakes.github import FakeGithub, File, Link, Repository

NAMES = [
    "README.md",
    "docs/a.md",
    "docs/b.md",
    "app/compose.yaml",
    "app/.env",
    "app/x.vars",
    "a.conf",
    "c.py",
]
TEXTS = [
    "# One\n",
    "services:\n  web:\n    image: nginx\n    env_file: x.vars\n",
    "services:\n  web:\n    build: {context: ., dockerfile: c.py}\n",
    "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n",
    "A=1\n",
]
FIELDS = {"repositories": ["acme/shop", "acme/old"], "token": "${T}", "max_requests": 500}

steps = st.sampled_from(
    [
        "write", "write", "remove", "move", "link",
        "issue", "issue", "pull", "comment", "comment", "edit", "uncomment", "close", "delete",
        "review", "line", "unline", "release", "unrelease",
        "rename", "branch", "drop", "restore",
        "run", "run", "kill", "fail", "few",
    ]
)  # fmt: skip


def change(step: str, hub: FakeGithub, shop: Repository, pick: random.Random) -> None:
    """Change something at GitHub."""
    pulls = [x["number"] for x in shop.issues if "pull_request" in x]
    match step:
        case "write":
            shop.files[pick.choice(NAMES)] = pick.choice(TEXTS)
        case "remove" if shop.files:
            del shop.files[pick.choice(sorted(shop.files))]
        case "move" if shop.files:
            shop.files[pick.choice(NAMES)] = shop.files.pop(pick.choice(sorted(shop.files)))
        case "link":
            shop.files[pick.choice(NAMES)] = Link("elsewhere")
        case "issue":
            shop.issue(f"Issue {pick.random()}", "Body")
        case "pull":
            shop.issue(f"Pull {pick.random()}", "Body", pull=True)
        case "comment" if shop.issues:
            shop.comment(pick.choice(shop.issues)["number"], f"Said {pick.random()}")
        case "edit" if shop.comments:
            pick.choice(shop.comments)["body"] = f"Edited {pick.random()}"
        case "uncomment" if shop.comments:
            shop.comments.remove(pick.choice(shop.comments))
        case "close" if shop.issues:
            pick.choice(shop.issues)["state"] = pick.choice(["open", "closed"])
        case "delete" if shop.issues:
            shop.issues.remove(pick.choice(shop.issues))
        case "review" if pulls:
            shop.review(pick.choice(pulls), f"Reviewed {pick.random()}", "APPROVED")
        case "line" if pulls:
            shop.review_comment(pick.choice(pulls), 0, f"Line {pick.random()}")
        case "unline" if shop.review_comments:
            shop.review_comments.remove(pick.choice(shop.review_comments))
        case "release":
            shop.release(f"v{pick.randrange(4)}", f"Notes {pick.random()}")
        case "unrelease" if shop.releases:
            shop.releases.remove(pick.choice(shop.releases))
        case "rename" if shop.name == "acme/shop":
            hub.rename("acme/shop", "acme/store")
        case "branch":
            shop.branch = "trunk" if shop.branch == "main" else "main"
        case "drop":
            hub.repositories.pop("acme/old", None)
        case "restore":
            hub.repository("acme/old", {"README.md": pick.choice(TEXTS)})


def documents(store: Store) -> dict[str, str]:
    found = {}
    for path, x in store.items.items():
        if "#" in path:
            parsed = parse_document(
                x.data,
                path=path,
                mime=x.mime,
                charset=x.charset,
                languages=[],
                max_chars=1_000_000,
                forms=document_forms(),
            )
            found[path] = parsed.text
        else:
            found[path] = x.data.decode()
    return found


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=3, max_size=40), st.integers(0, 2**32), st.sampled_from([1, 2, 5]))
def test_incremental_equals_from_scratch(taken: list[str], seed: int, size: int) -> None:
    pick = random.Random(seed)
    with FakeGithub() as hub, patch.object(listings, "PER_PAGE", size):
        hub.per_page, hub.restless = size, True
        shop = hub.repository("acme/shop", {"README.md": "# Shop\n"})
        hub.repository("acme/old", {"README.md": "# Old\n"})
        store = Store()
        for step in taken:
            if step == "run":
                store.run(hub.url, **FIELDS)
            elif step == "kill":
                store.run(hub.url, kill_after=pick.randrange(12), **FIELDS)
            elif step == "few":
                store.run(hub.url, **{**FIELDS, "max_requests": pick.randrange(1, 12)})
            elif step == "fail":
                wanted = pick.choice(
                    ["/issues?", "/comments?", "/reviews?", "/blobs/", "/trees/", "/releases?"]
                )
                hub.fault = lambda path, wanted=wanted: (422, b"{}", {}) if wanted in path else None
                store.run(hub.url, **FIELDS)
                hub.fault = lambda _: None
            else:
                change(step, hub, shop, pick)
        end = store.run(hub.url, **FIELDS)
        assert end is not None and end.complete, end
        scratch = Store()
        scratch.run(hub.url, **FIELDS)
        assert store.content() == scratch.content()
        assert documents(store) == documents(scratch)
        assert store.problems() == scratch.problems()
        hub.restless = False
        store.run(hub.url, **FIELDS)
        hub.log.clear()
        store.run(hub.url, **FIELDS)
        assert store.counts()["Fetched"] == 0
        assert {a.status for a in hub.log} <= {304, 301, 404, 409}, [a for a in hub.log if a.status == 200]


def furnished(hub: FakeGithub, pick: random.Random) -> Repository:
    """A repository in which every part takes several requests."""
    files: dict[str, File] = {name: pick.choice(TEXTS) for name in NAMES}
    files |= {f"{a}/{b}/{c}.md": f"{a}{b}{c}" for a in "pq" for b in "rs" for c in "tu"}
    shop = hub.repository("acme/shop", files, most_entries=pick.choice([2, 5, 1000]))
    for i in range(pick.randrange(1, 5)):
        number = shop.issue(f"Thread {i}", "Body", pull=i % 2 == 1)
        for j in range(pick.randrange(4)):
            shop.comment(pick.choice(shop.issues)["number"], f"Said {j}")
        if i % 2 == 1:
            shop.review(number, "Reviewed", "APPROVED")
            shop.review_comment(number, 0, "Line")
        shop.release(f"v{i}", "Notes")
        shop.discussion(
            f"Discussed {i}", "Body", [{"id": f"C{i}{j}", "body": "b", "url": "u"} for j in range(2)]
        )
    return shop


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from([None, None, 1, 3]), st.booleans())
def test_runs_with_too_few_requests_come_to_what_one_run_reads(
    seed: int, few: int, items: int | None, kills: bool
) -> None:
    pick = random.Random(seed)
    # One discussion with all its comments may take three.
    fields = {**FIELDS, "repositories": ["acme/typo", "acme/shop", "acme/old"], "discussions": few >= 3}
    bounds = {"max_requests": few, "max_items": items}
    with FakeGithub() as hub, patch.object(listings, "PER_PAGE", 2):
        hub.per_page = 2
        shop = furnished(hub, pick)
        hub.repository("acme/old", {"README.md": "# Old\n"})
        store = Store()
        for _ in range(3):
            for number in range(400):
                before = dict(store.items), dict(store.state.committed)
                if kills and pick.random() < 0.2:
                    store.run(hub.url, kill_after=pick.randrange(20), **{**fields, **bounds})
                    continue
                end = store.run(hub.url, **{**fields, **bounds})
                assert end is not None
                if end.complete:
                    break
                assert (store.items, store.state.committed) != before, (number, end)
            else:
                raise AssertionError("the runs come to no end")
            scratch = Store()
            assert scratch.run(hub.url, **fields) == Enumerated(True)
            assert store.content() == scratch.content()
            assert documents(store) == documents(scratch)
            for step in ["remove", "delete", "edit", "uncomment", "unline", "unrelease", "write", "comment"]:
                change(step, hub, shop, pick)
