"""Drift of a knowledge base: both spans, beside answers, on the command line, the same after any changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taboot_pipelines.cli.group import main
from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.results.drift import DriftReport
from taboot_pipelines_tests.world import DATA, World

COMPOSE = """\
services:
  jellyfin:
    image: jellyfin/jellyfin:10.10.7
    ports: ["8096:8096"]
"""
README = "# media\n\nJellyfin listens on port {} and decodes with the GPU.\n"


@pytest.fixture
def house(world: World) -> World:
    stacks = world.source("stacks", "compose", host="hearth.lan")
    (stacks / "media").mkdir()
    (stacks / "media" / "compose.yaml").write_text(COMPOSE)
    (stacks / "media" / "README.md").write_text(README.format(8920))
    world.source("readmes", "files", path="stacks", include=["**/*.md"])
    chats = world.source("mail", "gmail")
    (chats / "port.eml").write_text(
        "From: a@example.org\nTo: b@example.org\nSubject: Port\nDate: Mon, 2 Mar 2026 10:00:00 +0000\n"
        "Message-ID: <1@example.org>\nContent-Type: text/plain\n\nJellyfin listens on port 8097.\n"
    )
    return world


def kinds(report: DriftReport) -> list[tuple[str, str, bool]]:
    return [(item.kind, item.name, item.record) for item in report.items]


def of(kb: KnowledgeBase) -> list[dict[str, object]]:
    return [item.model_dump(mode="json") for item in kb.drift().items]


def test_both_sides_are_quoted_and_answers_tell_of_it(
    house: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    house.ingest()
    kb = house.kb()
    report = kb.drift()
    assert kinds(report) == [("prose_port", "jellyfin", False), ("prose_port", "jellyfin", True)]
    said, configured = report.items[0].sides
    assert (
        said.quote is not None
        and said.quote.text == "Jellyfin listens on port 8920 and decodes with the GPU."
    )
    assert (Path(said.url).name, said.line) == ("README.md", 3)
    assert configured.quote is not None and configured.quote.text == '"8096:8096"'
    assert (Path(configured.url).name, configured.line) == ("compose.yaml", 4)
    assert kb.explain(configured.edge_ids[0]).quote == configured.quote.text
    table = report.to_pandas()
    assert list(table["says"])[:2] == ["media/README.md says 8920", "jellyfin publishes 8096:8096"]
    assert "README.md" in report._repr_html_()
    assert kinds(kb.drift("prose_port", 1)) == kinds(report)[:1] and kb.drift(limit=1).truncated
    assert kb.drift(limit=1).total == report.total == len(report.items)
    assert kb.drift(["route_port"]).items == ()
    with pytest.raises(TabootError, match="kinds names cold"):
        kb.drift("cold")

    answer = kb.answer("Which port does Jellyfin publish?")
    assert answer.found and answer.drift == (report.items[0].statement,)
    assert kb.answer("Which image does Jellyfin run?").drift == ()

    monkeypatch.setenv("TABOOT_HOME", str(house.home))
    monkeypatch.setenv("TABOOT_TEI__URL", house.tei)
    main(["drift", "--kind", "prose_port", "--limit", "1"])
    shown = capsys.readouterr().out
    assert report.items[0].statement in shown and '│ "8096:8096"' in shown and "README.md:3" in shown
    main(["drift", "--json"])
    assert json.loads(capsys.readouterr().out)["items"] == of(kb)


@pytest.mark.parametrize("path", ["260705-move.md", "2026-07-05.md", "incident.md"])
def test_what_a_page_of_a_day_says_is_a_record(house: World, path: str) -> None:
    media = house.directory / "stacks" / "media"
    page = media / path
    (media / "README.md").rename(page)
    house.ingest()
    assert kinds(house.kb().drift()) == [("prose_port", "jellyfin", True)] * 2
    page.rename(media / "journald.md")
    house.ingest("readmes", confirm_deletes=True)
    assert ("prose_port", "jellyfin", False) in kinds(house.kb().drift())


def test_it_comes_and_goes_as_from_scratch(house: World) -> None:
    house.ingest()
    readme = house.directory / "stacks" / "media" / "README.md"
    compose = readme.with_name("compose.yaml")
    expected = 2
    for change in (
        lambda: readme.write_text(README.format(8096)),
        lambda: compose.write_text(COMPOSE.replace("8096", "8920")),
        lambda: readme.unlink(),
    ):
        before = of(house.kb())
        assert len(before) == expected
        change()
        house.ingest("readmes", "stacks", confirm_deletes=True)
        expected = {1: 2, 2: 1}[expected]
    last = of(house.kb())
    assert last == of(house.kb(home=house.replay()))


def test_what_is_set_aside_and_what_a_vendor_says_is_no_drift(world: World) -> None:
    stacks = world.source("stacks", "compose", host="hearth.lan")
    for folder in ("media", "media.old", "archive/media", "games"):
        (stacks / folder).mkdir(parents=True)
        (stacks / folder / "compose.yaml").write_text(COMPOSE)
    (stacks / "games" / "compose.yaml").write_text(COMPOSE.replace("jellyfin:\n", "doom:\n"))
    manual = world.source("manual", tags=["vendor"])
    (manual / "jellyfin.md").write_text("# Manual\n\nThe `doom` service listens on port 8920.\n")
    world.ingest()
    (item,) = world.kb().drift().items
    assert item.statement == (
        "games/doom and media/jellyfin publish 8096/tcp on hearth.lan, which one service can have."
    )


def test_the_real_projects_have_the_one_that_a_person_finds(world: World) -> None:
    """Of 19 projects, labelled by hand: one README maps a port that its Compose file does not."""
    folder = DATA / "awesome-compose"
    world.source("awesome", "compose", path=str(folder))
    world.source("readmes", "files", path=str(folder), include=["*/**/README.md"])
    world.ingest()
    (item,) = world.kb().drift().items
    assert item.statement == (
        "sparkjava-mysql/README.md says 80:8080 for backend, but backend publishes 8080:8080."
    )


def test_a_value_without_an_edge_is_quoted_on_both_sides(
    house: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = house.directory / "stacks" / "media" / "README.md"
    row = "| Jellyfin | jellyfin/jellyfin:10.9.0 | 8096 |"
    readme.write_text(f"# media\n\n| Service | Image | Port |\n|---|---|---|\n{row}\n")
    house.ingest()
    kb = house.kb()
    (item,) = kb.drift("prose_image").items
    assert item.statement == ("media/README.md says jellyfin:10.9.0, but configuration declares 10.10.7.")
    said, configured = item.sides
    assert said.edge_ids == configured.edge_ids == ()
    assert said.quote is not None and (said.quote.text, said.line) == (row, 5)
    assert configured.quote is not None and configured.quote.text == "image: jellyfin/jellyfin:10.10.7"
    assert configured.quote.line == configured.line == 3
    assert kb.drift("prose_image").to_pandas()["edge_id"].isna().all()

    monkeypatch.setenv("TABOOT_HOME", str(house.home))
    monkeypatch.setenv("TABOOT_TEI__URL", house.tei)
    main(["drift", "--kind", "prose_image"])
    shown = capsys.readouterr().out
    assert f"│ {row}" in shown and "README.md:5" in shown and "compose.yaml:3" in shown

    readme.write_text(readme.read_text().replace("10.9.0", "10.10.7"))
    house.ingest("readmes")
    assert not house.kb().drift("prose_image").items
    (readme.parent / "compose.yaml").write_text(COMPOSE.replace("10.10.7", "10.11.0"))
    house.ingest("stacks")
    (item,) = house.kb().drift("prose_image").items
    assert of(house.kb()) == of(house.kb(home=house.replay()))


def test_a_source_that_configures_speaks_of_the_house(world: World) -> None:
    folder = world.source("cluster", interpret=True)
    (folder / "apps" / "wiki").mkdir(parents=True)
    (folder / "apps" / "wiki" / "values.yaml").write_text(
        "image:\n  repository: lscr.io/linuxserver/dokuwiki\n  tag: 2025.05\nservice:\n  port: 8085\n"
    )
    (folder / "README.md").write_text("# Apps\n\n- **Wiki**: port 8086\n- **Dokuwiki**: version 2024.02\n")
    world.ingest()
    found = {(i.kind, i.name) for i in world.kb().drift().items}
    assert ("prose_version", "dokuwiki") in found
