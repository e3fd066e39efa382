"""Our reading of Compose projects against Docker Compose's own, by the library that its ``config`` command
uses: on real projects, on projects made up from numbers, and on each case that was once read wrong.

``TABOOT_TEST_COMPOSE_PROJECTS`` makes up that many projects instead of the usual number.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from taboot_pipelines.model.records import SourceFacts
from taboot_pipelines_tests.extraction.tier_a.compose.docker_compose import (
    ask,
    ask_all,
    compare,
    compose_program,
    dedented,
    interpret_project,
    write,
)
from taboot_pipelines_tests.extraction.tier_a.compose.once_wrong import CASES
from taboot_pipelines_tests.extraction.tier_a.compose.projects import make_project
from taboot_pipelines_tests.extraction.tier_a.compose.test_real import DATA, read_folder

__all__ = ["compose_program"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.alone_with("compose-go")]

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "homelab" / "stacks"
MADE_UP = int(os.environ.get("TABOOT_TEST_COMPOSE_PROJECTS", "60"))
FACTS = SourceFacts("default", "lab", folder="Root.Dir")


def _check(program: Path, root: Path, projects: dict[str, tuple[dict[str, str], str]], at_least: int) -> None:
    """Compare each project, {title: (files, folder)}; so many at least are ones that Compose accepts."""
    places = {title: root / str(n) / "Root.Dir" for n, title in enumerate(projects)}
    for title, (files, _) in projects.items():
        write(places[title], files)
    answers = ask_all(program, [places[title] / folder for title, (_, folder) in projects.items()])
    accepted, found = 0, {}
    for (title, (files, folder)), answer in zip(projects.items(), answers, strict=True):
        if answer.project is None:
            continue
        accepted += 1
        env = files.get(f"{folder}/.env" if folder else ".env", "")
        read = interpret_project(files, folder, FACTS)
        if parted := compare(
            answer, read, places[title], compatible="COMPOSE_COMPATIBILITY=true" in env.splitlines()
        ):
            found[title] = parted
    assert not found
    refused = [a.error.splitlines()[-1] for a in answers if a.project is None]
    assert accepted >= at_least, refused


def test_projects_made_up_from_numbers_are_read_alike(compose_program: Path, tmp_path: Path) -> None:
    projects = {f"project {n}": make_project(n) for n in range(MADE_UP)}
    _check(compose_program, tmp_path, projects, MADE_UP * 3 // 5)


def test_what_was_once_read_wrong_is_read_alike(compose_program: Path, tmp_path: Path) -> None:
    projects = {name: (dedented(case.files), case.folder) for name, case in CASES.items()}
    _check(compose_program, tmp_path, projects, len(CASES))


@pytest.mark.needs("data")
def test_awesome_compose_is_read_alike(compose_program: Path, tmp_path: Path) -> None:
    files = read_folder(DATA / "awesome-compose", (".yml", ".yaml"))
    folders = sorted({path.split("/")[0] for path in files if "/" in path})
    _check(
        compose_program,
        tmp_path,
        {
            f: ({p: t for p, t in files.items() if p.startswith(f"{f}/")}, f)
            for f in folders
            if any(p.startswith(f"{f}/") and "compose" in p for p in files)
        },
        15,
    )


@pytest.mark.needs("data")
def test_the_snippets_of_the_linuxserver_documentation_are_read_alike(
    compose_program: Path, tmp_path: Path
) -> None:
    projects = {}
    for page in sorted((DATA / "linuxserver-docs-md").rglob("*.md"))[::2]:
        for n, block in enumerate(re.findall(r"```ya?ml\n(.*?)```", page.read_text(), re.DOTALL)):
            if "services:\n" in block and "\n    image: " in block:
                projects[f"{page.stem} {n}"] = ({"app/compose.yaml": block}, "app")
    _check(compose_program, tmp_path, projects, 50)


def test_the_homelab_is_read_alike(compose_program: Path) -> None:
    files = read_folder(EXAMPLES, (".yml", ".yaml", ".env"))
    for folder in sorted({path.split("/")[0] for path in files if path.endswith("compose.yaml")}):
        read = interpret_project(files, folder, FACTS)
        answer = ask(compose_program, EXAMPLES / folder)
        assert answer.project is not None, answer.error
        assert compare(answer, read, EXAMPLES) == []
