"""Changes of content: what a document says otherwise than before, told from what only looks otherwise."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.content_changes import MAX_PASSAGES, changes, passages
from taboot_pipelines.stages.deletion import delete, purge_vanished, restore
from taboot_pipelines_tests.world import World


def now() -> int:
    time.sleep(0.002)
    return time.time_ns() // 1000


def kinds(world: World, since: int, source: str | None = None) -> dict[str, str]:
    return {x.logged.path: x.kind.value for x in changes(world.workspace, "default", since, source)}


def page(number: int, build: int, said: str = "") -> str:
    """A page of a site: its content, and a frame that is another with each build."""
    chance = random.Random(f"{number} {build}")
    links = "".join(
        f'<li><a href="/{chance.random()}">Read next {chance.random()}</a></li>' for _ in range(5)
    )
    return (
        f"<html><head><title>Guide {number}</title><meta name='build' content='{build}'>"
        f"<script>var token = '{chance.random()}';</script></head><body><nav><ul>{links}</ul></nav><main>"
        f"<article><h1>Guide {number}</h1><p>The pump number {number} of the house stands in the cellar and"
        f" is looked after by the people of the second floor.</p><p>Its valve is shut in winter, when nobody"
        f" needs water in the garden behind the house.</p>{f'<p>{said}</p>' if said else ''}</article>"
        f"</main><footer>Built {build}, {chance.random()}</footer></body></html>"
    )


def test_edits_are_told_from_a_frame_that_changed(world: World) -> None:
    folder = world.source("site")
    for number in range(120):
        (folder / f"{number:03}.html").write_text(page(number, 1))
    world.ingest()
    since = now()
    edited = set(range(5, 120, 20))
    said = "Since the spring its key hangs beside the door of the boiler room upstairs."
    for number in range(120):
        (folder / f"{number:03}.html").write_text(page(number, 2, said if number in edited else ""))
    (folder / "new.html").write_text(page(500, 2))
    (folder / "000.html").unlink()
    reports = world.ingest(confirm_deletes=True)
    (documents,) = [r for r in reports if r.stage == "documents"]
    assert documents.counts["same_text"] == 119 - len(edited)
    found = list(changes(world.workspace, "default", since))
    by_kind = Counter(x.kind.value for x in found)
    assert by_kind == {"changed": len(edited), "new": 1, "gone": 1, "shell": 119 - len(edited)}
    for x in found:
        if x.kind.value == "changed":
            assert int(Path(x.logged.path).stem) in edited
            assert [(p.before, p.after) for p in x.passages] == [("", said)]
    assert kinds(world, now()) == {}


def test_what_was_is_told_as_far_as_it_is_known(world: World) -> None:
    folder = world.source("notes")
    for name in ("edited", "back", "deleted", "renamed", "purged"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nThe mill of {name} turns.\n\nIt is old.\n")
    world.ingest()
    since = now()
    (folder / "edited.md").write_text("# edited\n\nThe mill of edited rests.\n\nIt is old.\n")
    (folder / "purged.md").write_text("# purged\n\nThe mill of purged rests.\n\nIt is old.\n")
    (folder / "back.md").write_text("# back\n\nFor a while.\n")
    (folder / "renamed.md").rename(folder / "named.md")
    world.ingest()
    (folder / "back.md").write_text("# back\n\nThe mill of back turns.\n\nIt is old.\n")
    world.ingest()
    gone = world.workspace.catalog.locators.of_source("default", "notes")["deleted.md"].doc_id
    delete(world.workspace, "default", [gone])
    wanted = {
        "edited.md": "changed",
        "purged.md": "changed",
        "deleted.md": "gone",
        "renamed.md": "gone",
        "named.md": "new",
    }
    assert kinds(world, since) == wanted
    (edited,) = [x for x in changes(world.workspace, "default", since) if x.logged.path == "edited.md"]
    assert edited.passages == (("The mill of edited turns.", "The mill of edited rests.", 3),)
    purge_vanished(world.workspace, "default", carry_out=True)
    (purged,) = [x for x in changes(world.workspace, "default", since) if x.logged.path == "purged.md"]
    assert purged.kind.value == "changed" and "no longer stored" in purged.note
    restore(world.workspace, "default", [gone])
    assert "deleted.md" not in kinds(world, since)
    delete(world.workspace, "default", [gone], erase=True)
    assert "deleted.md" not in kinds(world, since), "what was erased is in no history"
    assert kinds(world, since, "notes") == kinds(world, since)
    with pytest.raises(TabootError, match="E_SOURCE_UNKNOWN"):
        kinds(world, since, "nothing")


def test_secrets_are_masked_on_both_sides(world: World) -> None:
    folder = world.source("notes")
    (folder / "a.md").write_text("# Login\n\npassword: first-planted-secret\n\nAsk the house.\n")
    world.ingest()
    since = now()
    (folder / "a.md").write_text("# Login\n\npassword: other-planted-secret\n\nAsk the keeper.\n")
    world.ingest()
    told = repr(list(changes(world.workspace, "default", since)))
    assert "keeper" in told and "planted" not in told


def test_a_notebook_asks_for_changes(world: World) -> None:
    folder = world.source("notes")
    (folder / "a.md").write_text("# A\n\nThe mill turns.\n")
    world.ingest()
    found = world.kb().changes("2020-01-01")
    assert found.items == () and "1 document came in first" in found.note
    (folder / "b.md").write_text("# B\n\nThe mill stands.\n")
    world.ingest()
    found = world.kb().changes("2020-01-01")
    assert [(x.kind, x.path) for x in found.items] == [("new", "b.md")] and found.counts["new"] == 1
    assert found.to_arrow().num_rows == 1 and "b.md" in found._repr_html_()
    assert world.kb().changes("2099-01-01").items == ()
    for wrong in ("yesterday", None, 3):
        with pytest.raises(TabootError, match="E_QUERY"):
            world.kb().changes(wrong)  # type: ignore[arg-type]


UNIT = "\n".join(f"Setting{n}=value" for n in range(9))
blocks = st.lists(
    st.sampled_from(["alpha", "beta", "gamma\ndelta", "epsilon", "", UNIT, f"{UNIT}\nUser=me"]), max_size=12
)


@given(blocks, blocks)
def test_passages_say_all_that_differs_and_where(old: list[str], new: list[str]) -> None:
    before, after = "\n\n".join(old), "\n\n".join(new)
    found = list(passages(before, after))
    assert len(found) <= MAX_PASSAGES
    if before.rstrip() == after.rstrip():
        assert not found
    lines = after.split("\n")
    for passage in found:
        first = next((line for line in passage.after.split("\n") if line), "")
        assert first in "\n".join(lines[passage.line - 1 :])


def test_of_a_long_paragraph_the_lines_that_differ_are_told() -> None:
    lines = [f"Setting{n}=value" for n in range(100)]
    (found,) = passages("\n".join(lines), "\n".join([*lines[:70], "Setting70=other", *lines[71:]]))
    assert found == ("Setting70=value", "Setting70=other", 71)
    (found,) = passages("\n".join(lines), "\n".join([*lines[:70], "More=1", *lines[70:]]))
    assert found == ("", "More=1", 71)
    command = "Exec=" + " ".join(f"--collector.{n}" for n in range(100))
    (found,) = passages(command, command.replace("collector.90", "no-collector.90"))
    assert "--collector.90" in found.before and "--no-collector.90" in found.after
    assert found.before.startswith("…") and found.line == 1


def test_texts_without_anything_in_common_are_compared_in_bounded_time() -> None:
    began = time.process_time()
    one = "\n\n".join(f"old {n}" for n in range(30_000))
    other = "\n\n".join(f"new {n}" for n in range(30_000))
    assert len(list(passages(one, other))) == 1
    assert time.process_time() - began < 5
