"""Earlier publications: which are kept, that they are read as they were, and that an erasure leaves none."""

from __future__ import annotations

import random
import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.shards import layout, publish
from taboot_pipelines.shards.protocol import Kept
from taboot_pipelines_tests.world import World

COMPOSE = (
    "services:\n  web:\n    image: nginx:{}\n    ports: ['{}:80']\n    depends_on: [{}]\n"
    "  {}:\n    image: redis:7\n"
)


def written(world: World, tag: str, port: int, needs: str) -> datetime:
    """The house with these values, ingested; when that was done."""
    (world.source("stacks", "compose") / "compose.yaml").write_text(COMPOSE.format(tag, port, needs, needs))
    guide = world.source("guides") / "guide.md"
    guide.write_text(f"# Lanterns\n\nThe lantern of the {needs} hangs in the hall.\n")
    world.ingest(confirm_deletes=True)
    time.sleep(0.01)
    return datetime.now(UTC)


def test_everything_is_read_as_it_was(world: World) -> None:
    first = written(world, "1.25", 80, "cache")
    written(world, "1.27", 8080, "store")
    kb = world.kb()
    then = kb.as_of(first)
    assert "cache" in then.search("lantern").hits[0].text and "store" in kb.search("lantern").hits[0].text
    assert {e.properties["port"] for e in then.neighbors("web", types="BINDS").edges} <= {80}
    assert "cache" in then.answer("What does web depend on?").text
    assert "store" in kb.answer("What does web depend on?").text
    assert then.query("dependents", service="cache").total == 1
    assert len(then.path("web", "cache").steps) == 1
    assert then.read_only and kb.as_of(first.isoformat()) is then
    assert kb.as_of(datetime.now(UTC)).manifest.version == kb.manifest.version
    with pytest.raises(TabootError) as error:
        kb.as_of(first - timedelta(days=2))
    assert error.value.code == "E_MANIFEST_GONE" and "the oldest is of" in error.value.message
    with pytest.raises(TabootError) as error:
        kb.as_of("yesterday")
    assert error.value.code == "E_QUERY"


def test_what_changed_has_both_sides_and_its_commit(world: World) -> None:
    written(world, "1.25", 80, "cache")
    since = datetime.now(UTC)
    folder = world.directory / "stacks"

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)

    time.sleep(1.1)  # git's times have no fractions
    written(world, "1.27", 8080, "cache")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "Newer nginx")
    found = world.kb().changes(since)
    said = {(x.type, x.change): x for x in found.facts}
    ports = said["BINDS", "changed"]
    assert ports.before is not None and ports.after is not None
    assert "BINDS 80→80" in ports.before.says and "BINDS 8080→80" in ports.after.says
    assert (ports.after.source, ports.after.line) == ("stacks", 4)
    image = said["BUILDS", "changed"]
    assert image.before is not None and "nginx:1.25" in image.before.says
    assert image.after is not None and "nginx:1.27" in image.after.says
    assert image.commit is not None and image.commit.subject == "Newer nginx"
    (document,) = found.items
    assert document.commit == image.commit
    # Of one source only; and of a run, what it made.
    assert world.kb().changes(since, source="guides").facts == ()
    run = next(r for r in world.kb().runs("stacks").items if r.active)
    assert run.run_id is not None
    assert {(x.type, x.change) for x in world.kb().changes(run.run_id[:12]).facts} == set(said)
    assert world.kb().changes(datetime.now(UTC)).facts == ()
    assert world.kb().changes("20160m").items == world.kb().changes("2w").items
    early = world.kb().changes("2w")
    assert early.facts == found.facts and "the oldest is of" in early.note


def test_of_several_alike_each_is_led_to_what_stands_in_its_line(world: World) -> None:
    file = world.source("stacks", "compose") / "compose.yaml"
    text = "services:\n  web:\n    image: a\n    depends_on:\n      - {0}\n      - {1}\n"
    text += "  {0}: {{image: b}}\n  {1}: {{image: b}}\n"
    file.write_text(text.format("cache", "db"))
    world.ingest()
    since = datetime.now(UTC)
    file.write_text(text.format("store", "queue"))
    world.ingest()
    needs = [x for x in world.kb().changes(since).facts if x.type == "DEPENDS_ON"]
    assert [(x.change, x.before is not None and "cache" in x.before.says) for x in needs] == [
        ("changed", True),
        ("changed", False),
    ]


def test_an_erasure_leaves_no_earlier_publication(world: World) -> None:
    first = written(world, "1.25", 80, "cellar")
    written(world, "1.25", 80, "attic")
    kb = world.kb()
    then = kb.as_of(first)
    assert "cellar" in then.search("lantern").hits[0].text
    (doc_id,) = (r["doc_id"] for r in kb.documents(source="guides").to_pylist())
    kb.delete([doc_id], erase=True)
    with pytest.raises(TabootError) as error:
        world.kb().as_of(first)
    assert error.value.code == "E_MANIFEST_GONE"
    # Nor does what was opened before it.
    with pytest.raises(TabootError) as error:
        then.search("lantern")
    assert error.value.code == "E_MANIFEST_GONE"
    kept = list((world.home / "kb" / layout.kept_name("default")).iterdir())
    assert [int(p.name.partition("-")[0]) for p in kept] == [world.kb().manifest.version]
    assert not [p for p in world.home.rglob("*") if p.is_file() and b"of the cellar" in p.read_bytes()]


@pytest.mark.parametrize("seed", [1, 2])
def test_at_each_date_all_that_was_there_is_there_and_nothing_else(world: World, seed: int) -> None:
    rng = random.Random(seed)
    folder = world.source("stacks", "compose")
    there: dict[str, str] = {}
    gone: set[str] = set()
    seen: list[tuple[datetime, dict[str, str]]] = []
    for turn in range(5):
        names = [name for name in ("amber", "cobalt", "indigo") if name not in gone]
        name = names[turn % len(names)]
        if name in there and (turn == 3 or rng.random() < 0.5):
            # By a tombstone, or as the file went.
            if rng.random() < 0.5:
                (doc_id,) = (
                    r["doc_id"]
                    for r in world.kb().documents().to_pylist()
                    if r["path"] == f"{name}/compose.yaml"
                )
                world.kb().delete([doc_id])
            else:
                (folder / name / "compose.yaml").unlink()
            del there[name]
            gone.add(name)
        else:
            there[name] = f"{name}-cache{turn}"
            (folder / name).mkdir(exist_ok=True)
            text = "services: {%s: {image: a, depends_on: [%s]}, %s: {image: b}}"
            (folder / name / "compose.yaml").write_text(text % (name, there[name], there[name]))
        world.ingest(confirm_deletes=True)
        time.sleep(0.01)
        seen.append((datetime.now(UTC), dict(there)))
    kb = world.kb()
    for moment, expected in seen:
        then = kb.as_of(moment)
        assert {r["path"] for r in then.documents().to_pylist()} == {f"{n}/compose.yaml" for n in expected}
        for name in ("amber", "cobalt", "indigo"):
            needs = expected.get(name)
            texts = [hit.text for hit in then.search(name).hits if name in hit.text]
            assert [needs in text for text in texts if needs] == ([True] if needs else []), (texts, needs)
            assert bool(texts) == bool(needs)
            assert any(row["name"] == name for row in then.nodes().to_pylist()) == bool(needs)
            told = then.answer(f"What does {name} depend on?")
            assert needs in told.text if needs else not told.found, told.text


def test_which_publications_stay() -> None:
    hour, day = 3_600_000_000, 24 * 3_600_000_000
    now = 1_000 * day + 12 * hour
    kept = [
        *(Kept(n, now - 60 * day + n) for n in range(3)),  # the last of them was in force for a long time
        *(Kept(10 + n, now - 3 * day + n * hour) for n in range(4)),
        *(Kept(20 + n, now - 5 * hour + n * hour // 4) for n in range(8)),
        *(Kept(40 + n, now - hour // 2 + n) for n in range(5)),
    ]
    stay = [x.version for x in publish._thinned(kept, 30, now)]
    assert stay == [44, 43, 42, 41, 40, 27, 23, 13, 2]
    assert list(publish._thinned(kept, 0, now)) == []


def test_room_and_days_are_bounded(world: World) -> None:
    first = written(world, "1.25", 80, "cache")
    second = written(world, "1.26", 80, "cache")
    written(world, "1.27", 80, "cache")
    assert world.kb().as_of(first).manifest.version == 1
    shards = world.home / "kb" / layout.shards_name("default")
    before = len(list(shards.iterdir()))
    assert publish.prune(world.workspace.shards, "default", history=publish.History(30, 1 << 30)) == []
    assert "cache" in world.kb().as_of(first).search("lantern").hits[0].text
    history = publish.History(30, 0)
    assert publish.prune(world.workspace.shards, "default", history=history)
    assert len(list(shards.iterdir())) < before
    for moment in (first, second):
        with pytest.raises(TabootError):
            world.kb().as_of(moment)
    assert world.kb().search("lantern").hits
