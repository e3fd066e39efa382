"""What variables without a value leave open is not said to be absent; an example of an environment file says
what they may be.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taboot_pipelines import KnowledgeBase
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.slow

COMPOSE = """\
services:
  forge:
    image: acme/forge:${FORGE_TAG}
    ports: ["${FORGE_PORT}:80", "${FORGE_SSH}:22"]
  plain: {image: "acme/plain:1"}
"""
QUADLET = "[Container]\nImage=docker.io/acme/{}:1\nHealthCmd=true\n"
EXAMPLE = "# Copy to .env\nFORGE_PORT=8929\nFORGE_SSH=2424\nFORGE_TAG=18.2\nFORGE_PASSWORD=swordfish-nine\n"


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with FakeTei() as tei:
        world = World(tmp_path_factory.mktemp("open"), tei.url)
        folder = world.source("stacks", "compose", host="hearth") / "forge"
        folder.mkdir()
        (folder / "compose.yaml").write_text(COMPOSE)
        (folder / ".env.example").write_text(EXAMPLE)
        (folder / "checked.container").write_text(QUADLET.format("checked"))
        (folder / "bare.container").write_text(
            QUADLET.format("bare").replace("HealthCmd=true", "PodmanArgs=--privileged")
        )
        (folder / "backup.service").write_text("[Unit]\nDescription=Saves it all\n[Service]\nExecStart=/b\n")
        (folder / "backup.timer").write_text("[Timer]\nOnCalendar=*-*-* 04:00:00\nPersistent=true\n")
        (folder / "early.timer").write_text("[Timer]\nOnBootSec=5min\nUnit=backup.service\n")
        units = ["**/*.example", "**/*.container", "**/*.service", "**/*.timer"]
        world.source("notes", path="stacks", include=units, interpret=True)
        world.ingest()
        yield world.kb()
        world.workspace.close()


def test_ports_that_are_set_elsewhere_are_not_none(kb: KnowledgeBase) -> None:
    found = kb.query("published_ports", service="forge")
    assert not found.rows and not found.complete
    assert found.text == "forge (forge): set elsewhere, by ${FORGE_PORT} and ${FORGE_SSH}."
    assert kb.query("published_ports", service="plain").text == "plain (forge): publishes no port."
    without = kb.query("services_without_published_ports")
    assert {r.cells["service"] for r in without.rows} == {"plain", "bare", "checked", "backup"}
    for question in (
        "which ports does forge publish?",
        "is forge exposed?",
        "which services publish no port?",
    ):
        assert "forge (forge) publishes no port" not in kb.answer(question).text
    assert "forge" not in kb.answer("which services publish no port?").text.replace("(forge)", "")


def test_who_has_one_setting_of_a_block_has_the_block(kb: KnowledgeBase) -> None:
    without = {r.cells["service"] for r in kb.query("services_without", key="healthcheck").rows}
    assert "bare" in without and "checked" not in without


def test_timers_say_when_units_do_their_work(kb: KnowledgeBase) -> None:
    wanted = {("backup", "OnCalendar", "*-*-* 04:00:00"), ("backup", "OnBootSec", "5min")}
    for asked in ({}, {"service": "backup"}):
        rows = kb.query("schedules", **asked).rows
        assert {tuple(r.cells[c] for c in ("service", "key", "value")) for r in rows} == wanted
    assert kb.query("schedules", service="plain").rows == ()


def test_a_unit_that_nothing_is_related_to_has_its_settings(kb: KnowledgeBase) -> None:
    rows = kb.query("settings", service="backup").rows
    assert {(r.cells["key"], r.cells["value"]) for r in rows} >= {("command", "/b")}
    assert "Saves it all" in kb.answer("what is backup?").text


def test_switches_of_podman_are_settings(kb: KnowledgeBase) -> None:
    (found,) = kb.rules("privileged").findings
    assert "bare" in found.subject and found.citations[0].line == 3


def test_an_example_says_what_a_variable_may_be(kb: KnowledgeBase) -> None:
    settings = kb.query("settings", service="forge", key="ports")
    said = {str(r.cells["value"]) for r in settings.rows}
    assert "8929:80 (FORGE_PORT as in .env.example)" in said
    assert "2424:22 (FORGE_SSH as in .env.example)" in said
    answer = kb.answer("forge ssh port?")
    assert answer.found and "2424" in answer.text
    assert any(c.url.endswith(".env.example") for c in answer.citations)


def test_an_example_keeps_its_secrets(kb: KnowledgeBase) -> None:
    for question in ("what is the FORGE_PASSWORD?", "password of forge"):
        answer = kb.answer(question)
        assert "swordfish" not in answer.text + "".join(c.text for c in (*answer.citations, *answer.closest))
    assert all("swordfish" not in h.text for h in kb.search("FORGE_PASSWORD").hits)
