"""Real Compose files against their gold, and every YAML file at hand without an exception."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.images import parse_reference
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import FileView, SourceFacts
from taboot_pipelines_tests.extraction.tier_a.compose.helpers import Read, check
from taboot_pipelines_tests.needs import DATA as DATA

pytestmark = pytest.mark.needs("data")


def read_folder(root: Path, suffixes: tuple[str, ...]) -> dict[str, str]:
    return {
        p.relative_to(root).as_posix(): p.read_text("utf-8", "replace")
        for p in sorted(root.rglob("*"))
        if p.is_file() and (p.suffix in suffixes or p.name.startswith((".env", "Dockerfile")))
    }


def interpret_all(files: dict[str, str]) -> dict[str, Read]:
    extractor = ComposeExtractor()
    found = {}
    for unit in extractor.units(files):
        view = FileView(frozenset(files), files.__getitem__)
        found[unit.name] = Read(
            files, extractor.interpret(unit, view, SourceFacts("default", "lab")), view.reads
        )
        check(found[unit.name])
    return found


def test_awesome_compose_agrees_with_its_gold() -> None:
    root = DATA / "awesome-compose"
    reads = interpret_all(read_folder(root, (".yml", ".yaml")))
    gold = [json.loads(line) for line in (root / "gold.jsonl").read_text().splitlines()]
    assert {line["file"] for line in gold} == set(reads)
    for line in gold:
        read, project = reads[line["file"]], line["file"].split("/")[0]
        services = line["services"]
        assert not read.result.problems
        assert [n.node.key for n in read.nodes("Service")] == [(f"lab/{project}", name) for name in services]
        assert [n.properties["composeService"] for n in read.nodes("Container")] == list(services)
        assert read.pairs("DEPENDS_ON") == [
            (name, d) for name, s in services.items() for d in s["depends_on"]
        ]
        assert all(e.end_basis is Basis.BYTES for e in read.edges("DEPENDS_ON"))
        assert [
            (e.start.name, e.end.name) for e in read.edges("BUILDS") if e.method != "dockerfile_from"
        ] == [(name, parse_reference(s["image"] or f"{project}-{name}").name) for name, s in services.items()]
        assert [
            (e.start.name, f"{e.properties['port']}:{e.properties['targetPort']}")
            for e in read.edges("BINDS")
        ] == [(name, re.sub("/.*", "", p)) for name, s in services.items() for p in s["ports"]]
        assert [e.end.name for e in read.edges("RUNS_IN")] == [
            f"{project}_{n}" for s in services.values() for n in s["networks"] or ["default"]
        ]
        assert all(
            e.evidence.path.endswith("Dockerfile") and e.end.name.rpartition("/")[2] in read.quote(e.evidence)
            for e in read.edges("BUILDS", "dockerfile_from")
        )


def test_the_environment_of_the_wireguard_example() -> None:
    files = read_folder(DATA / "awesome-compose", (".yml", ".yaml"))
    read = interpret_all({p: t for p, t in files.items() if p.startswith("wireguard/")})[
        "wireguard/compose.yaml"
    ]
    assert read.result.environment == {"wireguard/.env"}
    (edge,) = read.edges("BINDS")
    assert (edge.properties["port"], edge.properties["protocol"]) == (51820, "udp")
    assert read.pairs("USES_VPN") == [("wireguard", "wireguard")]
    assert "unresolved" not in read.nodes("Service")[0].properties


def test_every_yaml_file_of_the_data_is_read_or_left_alone() -> None:
    reads = interpret_all(read_folder(DATA, (".yml", ".yaml")))
    assert sum(bool(read.result.nodes) for read in reads.values()) >= 17
    # What has no value is told, and stands with its raw name.
    assert {p.code for read in reads.values() for p in read.result.problems} == {"E_UNSET"}


def test_the_compose_snippets_of_the_linuxserver_documentation() -> None:
    read_any = 0
    for page in sorted((DATA / "linuxserver-docs-md").rglob("*.md")):
        for n, block in enumerate(re.findall(r"```ya?ml\n(.*?)```", page.read_text(), re.DOTALL)):
            (read,) = interpret_all({f"{page.stem}{n}/compose.yaml": block}).values()
            if "services:\n" in block and "\n    image: " in block:
                read_any += 1
                assert {n.node.name for n in read.nodes("Image")} == {
                    parse_reference(i).name for i in re.findall(r"\n    image: ['\"]?([^\s'\"]+)", block)
                }
    assert read_any > 100
