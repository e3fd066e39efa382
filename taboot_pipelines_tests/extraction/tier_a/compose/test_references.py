"""The files that a Compose text names, for whoever fetches them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.extraction.tier_a.compose.references import project_files, references
from taboot_pipelines.model.records import EXAMPLE_ENDINGS

TEXT = """
include: [../db/compose.yaml, {path: x.yml, project_directory: home, env_file: x.env}]
services:
  web:
    build: {context: "src/${D:-app}", dockerfile: ../D.$K}
    env_file: [web.env, {path: ../up.env, required: false}]
    label_file: labels.txt
    extends: {file: ../common/base.yml, service: s}
  plain: {build: {target: t}}
  inline: {build: {context: ., dockerfile_inline: "FROM x"}}
  remote: {build: "https://github.com/a/b.git", env_file: /etc/abs.env}
  outside: {extends: {file: ../../../x.yml, service: s}, build: "${NO}"}
configs: {c: {file: ./c.ini}, d: {content: x}, e: {external: true}}
secrets: {s: {file: ./s.txt}}
"""


def test_every_file_with_its_role() -> None:
    assert references(TEXT, "app/compose.yaml", {"K": "prod"}) == {
        ("app/.env", "input"),
        ("db/compose.yaml", "document"),
        ("db/.env", "input"),
        ("app/x.yml", "document"),
        ("app/x.env", "input"),
        ("app/src/D.prod", "document"),
        ("app/web.env", "input"),
        ("up.env", "input"),
        ("app/labels.txt", "input"),
        ("app/c.ini", "document"),
        ("common/base.yml", "document"),
        ("app/Dockerfile", "document"),
        *((f"{name}.env.{end}", "input") for name in ("app/web", "up") for end in EXAMPLE_ENDINGS),
    }


def test_a_project_directory_of_its_own() -> None:
    assert references("services: {a: {build: .}}", "db/compose.yaml", {}, project_directory="app") == {
        ("app/.env", "input"),
        ("app/Dockerfile", "document"),
    }


def test_nothing_but_compose_files_names_files() -> None:
    assert references("services: [", "compose.yaml", {}) == set()
    assert references("kind: Service\nbuild: .\n", "k8s.yaml", {}) == set()
    assert references("services: {web: {image: x}}", "a/compose.yaml", {}) == {("a/.env", "input")}


@given(st.text(alphabet="servicbuld:{}[]&*!#-$ \n\"'\t.ex/", max_size=200))
def test_any_text_gives_paths_inside_the_root(tail: str) -> None:
    for path, role in references("services: {a: {build: b, env_file: " + tail, "d/compose.yaml", {}):
        assert role in ("document", "input") and not path.startswith(("/", "../"))


def test_what_only_a_whole_project_names() -> None:
    files = {
        "app/compose.yaml": "services: {web: {extends: {file: ../lib/c.yml, service: w}, build: mine}}",
        "app/.env": "COMPOSE_FILE=compose.yaml:../more/prod\n",
        "app/mine/build.txt": "FROM mine\n",
        "lib/c.yml": "services: {w: {build: {context: theirs, dockerfile: build.txt}}}",
        "lib/theirs/build.txt": "FROM theirs\n",
        "more/prod": "services: {web: {env_file: vars}}",
        "app/vars": "A=1\n",
        "app/unrelated.txt": "",
    }
    assert project_files(["app/compose.yaml"], files, files.get) == {
        ("app/compose.yaml", "document"),
        ("app/.env", "input"),
        ("app/mine/build.txt", "document"),
        ("lib/c.yml", "document"),
        ("more/prod", "document"),
        ("app/vars", "input"),
    }
