"""What variables without a value leave open is not said to be absent; an example of an environment file says
what they may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
TEMPLATE = """\
services:
  pages:
    image: acme/pages:{{ pages_version }}
    container_name: {{ pages_name }}
    ports: ["{{ pages_port }}:3000"]
    environment:
      LEVEL: {{ pages_level }}
      TITLE: "{{ pages_title }}"
    volumes:
      - {{ pages_home }}/data:/data
      - {{ elsewhere }}/more:/more/:ro
      - /srv/pages/config:/config
  loose:
    image: acme/loose:1
    depends_on: {{ loose_needs }}
    volumes: {{ loose_volumes }}
"""
WITH_ENV = """\
services:
  photos:
    image: acme/photos:1
    volumes: ["${PHOTOS}:/photos", "${PHOTOS}/thumbs:/thumbs:ro", "${VOLUME}:/cache", "${NOWHERE}:/none"]
  papers:
    image: acme/papers:1
    ports: ["${PAPERS_PORT}:8000"]
    healthcheck: {test: curl http://localhost:8000}
  gallery-proxy:
    image: acme/proxy:1
    ports: ["${PROXY_PORT}:3000"]
  edge:
    image: acme/edge:1
    environment: {UPSTREAM: "http://gallery-proxy:3000"}
volumes: {kept: {}}
"""
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
        role = folder.parent / "roles/pages"
        for path, text in {
            "templates/compose.yaml.j2": TEMPLATE,
            "defaults/main.yml": "pages_home: /srv/pages\npages_level: debug\npages_version: '2'\n",
            # Of another role nothing is put in.
            "../other/defaults/main.yml": "pages_title: wrong\nelsewhere: /wrong\npages_name: wrong\n",
        }.items():
            (role / path).parent.mkdir(parents=True, exist_ok=True)
            (role / path).write_text(text)
        (gallery := folder.parent / "gallery").mkdir()
        (gallery / "compose.yaml").write_text(WITH_ENV)
        (gallery / ".env").write_text("PHOTOS=/mnt/photos\nVOLUME=kept\n")
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
    silent = {"plain", "bare", "checked", "backup", "loose", "photos", "edge"}
    assert {r.cells["service"] for r in without.rows} == silent
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


def mounted(kb: KnowledgeBase, service: str) -> set[str]:
    return {str(r.cells["value"]) for r in kb.query("settings", service=service, key="volumes").rows}


def test_of_a_template_each_item_is_read_and_what_is_known_is_put_in(kb: KnowledgeBase) -> None:
    said = {m for m in mounted(kb, "pages") if ", " not in m}
    assert said == {
        "/srv/pages/data:/data",
        "{{ elsewhere }}/more:/more/:ro (elsewhere is set elsewhere)",
        "/srv/pages/config:/config",
    }
    settings = {
        str(r.cells["key"]): str(r.cells["value"]) for r in kb.query("settings", service="pages").rows
    }
    assert settings["environment.LEVEL"] == "debug"
    assert settings["environment.TITLE"] == "{{ pages_title }} (pages_title is set elsewhere)"


def test_a_name_that_is_set_elsewhere_is_not_the_default_name(kb: KnowledgeBase) -> None:
    (pages,) = kb.query("services", service="pages").rows
    assert pages.cells["container"] == "set elsewhere, by ${pages_name}"
    (loose,) = kb.query("services", service="loose").rows
    assert loose.cells["container"] == "pages-loose-1"
    assert "pages-pages-1" not in kb.answer("what is the container name of pages?").text


def test_what_could_not_be_read_is_not_nothing(kb: KnowledgeBase, tmp_path: Path) -> None:
    book = kb.handbook(tmp_path / "house").path
    page = (book / "services/pages.loose.md").read_text()
    assert "What loose needs: set elsewhere, by \\${loose_needs}" in page
    assert "not declared to mount" not in page and "{{ loose_volumes }}" in page
    page = (book / "services/pages.pages.md").read_text()
    assert "| `{{ elsewhere }}/more` | `/more/` | ro, elsewhere is set elsewhere |" in page


def test_a_mount_has_the_values_of_the_environment_as_ports_have(kb: KnowledgeBase) -> None:
    assert {m for m in mounted(kb, "photos") if ", " not in m} == {
        "/mnt/photos:/photos",
        "/mnt/photos/thumbs:/thumbs:ro",
        "gallery_kept:/cache",
        "${NOWHERE}:/none (NOWHERE is set elsewhere)",
    }


@pytest.mark.parametrize("service", ["papers", "gallery-proxy"])
def test_a_port_inside_is_told_with_what_it_is_published_by(kb: KnowledgeBase, service: str) -> None:
    inside, variable = {"papers": ("8000", "PAPERS_PORT"), "gallery-proxy": ("3000", "PROXY_PORT")}[service]
    answer = kb.answer(f"which port does {service} listen on?")
    said = f"listens on port {inside}, published at ${{{variable}}} ({variable} is set elsewhere)"
    assert said in answer.text and "publishes none" not in answer.text
