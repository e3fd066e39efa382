"""Services of a house of Ansible on the machines that its plays name."""

from __future__ import annotations

from taboot_pipelines.retrieval.answering.fact_answers import answer_from_facts
from taboot_pipelines_tests.world import World

FILES = {
    "inventory.yaml": "all:\n  children:\n    shore:\n      hosts:\n        pier: {}\n        mole: {}\n",
    "play.yaml": "- hosts: shore\n  roles: [lamp]\n",
    "roles/lamp/files/docker-compose.yml": "services:\n  lamp:\n    image: acme/lamp:1\n",
    "apart/compose.yaml": "services:\n  horn:\n    image: acme/horn:1\n",
}


def test_a_service_on_several_machines_is_on_each_and_others_may_be_too(world: World) -> None:
    root = world.source("shore", "compose")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    world.ingest()
    kb = world.kb()
    rows = {(row.cells["service"], row.cells["host"]) for row in kb.query("services").rows}
    assert rows == {("lamp", "pier"), ("lamp", "mole"), ("horn", "")}
    assert [row.cells["host"] for row in kb.query("services", host="mole").rows] == ["mole"]
    asked = answer_from_facts(kb._session.view(), "Which apps run on the mole host?")
    assert asked is not None and asked.confidence < 0.9
    assert asked.text == "lamp (lamp) runs on mole. Of 1 other service no file names the machine."
