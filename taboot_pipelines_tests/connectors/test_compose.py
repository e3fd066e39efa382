"""The Compose connector: what is a document, what is an input, what is neither."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.connectors.access import Access, References
from taboot_pipelines.connectors.compose import ComposeSource, has_services
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Failed, Fetched, FileView, Role, Skipped
from taboot_pipelines.settings import LimitSettings, Settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines_tests.connectors.conftest import DATA

SERVICES = "services:\n  web:\n    image: nginx\n"


def run(
    root: Path,
    references: References | None = None,
    tombstones: tuple[str, ...] = (),
    limit: int = 1_000_000,
    **fields: Any,
) -> dict[str, str]:
    """Path to role or code; the enumeration is complete."""
    entry = ComposeSource.model_validate({"id": "c", "type": "compose", "path": ".", **fields})
    settings_ = Settings(home=root / "home", limits=LimitSettings(max_blob_bytes=limit))
    access = Access.of(settings_, root, references=references)
    *body, end = open_connector(entry, access).events({}, tombstones.__contains__)
    assert end == Enumerated(True)
    out = {}
    for e in body:
        assert not isinstance(e, Enumerated)
        out[e.path] = (
            e.role
            if isinstance(e, Fetched)
            else e.error.code
            if isinstance(e, Failed)
            else getattr(e, "code", "?")
        )
    assert list(out) == sorted(out) and len(out) == len(body)
    return out


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_the_real_examples() -> None:
    base = DATA / "awesome-compose"
    out = run(base)
    files = {str(p.relative_to(base)) for p in base.rglob("*") if p.is_file()}
    expected = {f: "document" for f in files if f.endswith((".yaml", ".yml", "Dockerfile"))} | {
        "wireguard/.env": "input"
    }
    assert out == expected and len(out) == 34


def test_projects_are_told_from_other_yaml(tmp_path: Path) -> None:
    put(
        tmp_path,
        **{
            "a/compose.yaml": "networks: {}\n",
            "a/docker-compose.override.yml": "services: [broken\n",
            "b/stack.yml": "# a comment\n---\nname: x\n" + SERVICES,
            "b/quoted.yml": '"services":\n  x: {}\n',
            "b/flow.yaml": '{"version": "3", "services": {}}',
            "b/indented.yml": "  name: x\n  services:\n    web: {}\n",
            "b/includes.yml": "include:\n  - a/compose.yaml\n",
            "b/broken.yml": SERVICES + "  bad: [\n\t\n",
            "c/traefik.yml": "http:\n  services:\n    web: {}\n",
            "c/k8s.yaml": "kind: Deployment\nspec:\n  services: 1\n",
            "c/list.yml": "- services: 1\n",
            "c/.gitlab-ci.yml": "include: x\nservices: [redis]\n",
            "c/notes.md": "services:\n",
            "d/Dockerfile": "FROM x",
            "d/Dockerfile.prod": "FROM x",
            "d/api.Dockerfile": "FROM x",
            "d/Containerfile": "FROM x",
            "d/.env": "A=1",
            "d/prod.env": "A=1",
            "d/.env.local": "A=1",
            "d/environment": "A=1",
        },
    )
    out = run(tmp_path)
    documents = [
        "a/compose.yaml",
        "a/docker-compose.override.yml",
        *(
            f"b/{n}"
            for n in ("broken.yml", "flow.yaml", "includes.yml", "indented.yml", "quoted.yml", "stack.yml")
        ),
        "d/Containerfile",
        "d/Dockerfile",
        "d/Dockerfile.prod",
        "d/api.Dockerfile",
    ]
    assert {p for p, r in out.items() if r == "document"} == set(documents)
    assert {p for p, r in out.items() if r == "input"} == {"d/.env", "d/prod.env", "d/.env.local"}


def test_what_compose_files_name_is_taken_with_its_role(tmp_path: Path) -> None:
    put(
        tmp_path,
        **{
            "p/compose.yml": SERVICES,
            "p/.env": "export DIR='conf'  # where\nX=1",
            "p/conf/vars.yml": "services: {}\n",
            "shared/base.yml": "x-common: {}\n",
            "shared/deeper.yml": "x: {}\n",
            "shared/plain": "FROM scratch",
            "shared/deep.txt": "A=1",
            "unrelated.txt": "x",
        },
    )
    seen: dict[str, dict[str, str]] = {}

    def references(text: str, path: str, env: Mapping[str, str], _: FileView) -> set[tuple[str, Role]]:
        seen[path] = dict(env)
        named: dict[str, set[tuple[str, Role]]] = {
            "p/compose.yml": {
                (f"p/{env.get('DIR')}/vars.yml", "input"),
                ("shared/base.yml", "document"),
                ("shared/plain", "document"),
                ("../outside.yml", "document"),
                ("missing.env", "input"),
            },
            "shared/base.yml": {
                ("shared/deeper.yml", "document"),
                ("shared/deep.txt", "input"),
                ("p/compose.yml", "document"),
            },
            "shared/deeper.yml": {("shared/base.yml", "document")},
        }
        if path == "p/conf/vars.yml":
            raise TabootError("E_PARSE", "Not valid.")
        return named.get(path, set())

    out = run(tmp_path, references)
    assert out == {
        "p/.env": "input",
        "p/compose.yml": "document",
        "p/conf/vars.yml": "input",
        "shared/base.yml": "document",
        "shared/deeper.yml": "document",
        "shared/deep.txt": "input",
        "shared/plain": "document",
    }
    assert seen["p/compose.yml"] == {"DIR": "conf", "X": "1"}
    # A file read as environment is an input even where the globs ask for it; what they leave out still counts
    # if it is named.
    assert run(tmp_path, references, include=["p/*.yml", "p/conf/*"]) == out
    assert run(tmp_path, references, exclude=["shared"]) == {
        k: v for k, v in out.items() if not k.startswith("shared")
    }
    # A tombstoned file is absent: it is not read, so it names nothing.
    assert run(tmp_path, references, tombstones=("shared/base.yml",)) == {
        "p/.env": "input",
        "p/compose.yml": "document",
        "p/conf/vars.yml": "input",
        "shared/base.yml": "E_TOMBSTONED",
        "shared/plain": "document",
    }


def test_a_link_may_lead_as_far_as_the_repository_or_the_root_that_is_named(tmp_path: Path) -> None:
    place = tmp_path / "house/stacks"
    put(place, **{"app/compose.yaml": "services: {a: {image: x}}\n"})
    put(tmp_path / "house", **{".env": "DOMAIN=x.org\n", ".git/config": "x", "state/kept.env": "x"})
    put(tmp_path, **{"beyond.env": "x"})
    for name, target in (
        (".env", "../../.env"),
        ("git.env", "../../.git/config"),
        ("ours.env", "../../state/kept.env"),
        ("beyond.env", "../../../beyond.env"),
    ):
        (place / "app" / name).symlink_to(target)
    whole = {"app/compose.yaml": "document", "app/.env": "input"}
    refused = {"app/git.env": "E_FORBIDDEN", "app/beyond.env": "E_FORBIDDEN"}
    kept = {"app/ours.env": "input"}
    assert _taken(tmp_path, "house/stacks") == whole | refused | kept
    own = tmp_path / "house/state"
    assert _taken(tmp_path, "house/stacks", home=own) == whole | refused | {"app/ours.env": "E_FORBIDDEN"}
    alone = {"app/compose.yaml": "document", "app/.env": "E_FORBIDDEN", "app/ours.env": "E_FORBIDDEN"}
    assert _taken(tmp_path, "house/stacks", root="house/stacks") == alone | refused
    further = {"app/beyond.env": "input"}
    assert _taken(tmp_path, "house/stacks", root=".") == whole | kept | refused | further
    (tmp_path / "house/.git/config").unlink()
    (tmp_path / "house/.git").rmdir()
    assert _taken(tmp_path, "house/stacks")["app/.env"] == "E_FORBIDDEN", "it lies in no repository"


def _taken(folder: Path, path: str, home: Path | None = None, **fields: Any) -> dict[str, str]:
    """{path: its role, or why it is not taken} of a source at ``path``."""
    entry = ComposeSource.model_validate({"id": "s", "type": "compose", "path": path, **fields})
    access = Access.of(Settings(home=home or folder / "home"), folder)
    said: dict[str, str] = {}
    for event in open_connector(entry, access).events({}, lambda _: False):
        if isinstance(event, Fetched):
            said[event.path] = event.role
        elif isinstance(event, Skipped):
            said[event.path] = event.code
    return said


def test_include_takes_exactly_what_it_asks_for(tmp_path: Path) -> None:
    put(
        tmp_path,
        **{
            "a/compose.yml": SERVICES,
            "a/.env": "A=1",
            "b/compose.yml": SERVICES,
            "b/.env": "A=1",
            "a/values.yaml": "x: 1",
            "a/Dockerfile": "FROM x",
        },
    )
    assert run(tmp_path, include=["a/*.yml", "a/*.yaml"]) == {
        "a/.env": "input",
        "a/compose.yml": "document",
        "a/values.yaml": "document",
    }
    assert run(tmp_path, include=["b/**"]) == {"b/.env": "input", "b/compose.yml": "document"}


def test_what_cannot_be_read_fails_by_name_and_never_vanishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(
        tmp_path,
        **{
            "stack.yml": SERVICES,
            "values.yml": "x: 1",
            "compose.yml": SERVICES,
            "big/compose.yml": SERVICES + "#" * 3000,
            "big/unknown.yml": "x: 1" + "#" * 3000,
        },
    )
    real = os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path).endswith("stack.yml"):
            raise PermissionError(13, "no")
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    assert run(tmp_path, limit=2000) == {
        "big/compose.yml": "E_TOO_LARGE",
        "big/unknown.yml": "E_TOO_LARGE",
        "compose.yml": "document",
        "stack.yml": "E_UNREADABLE",
    }


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_encodings_and_line_ends(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / "x.yml").write_bytes(
        (mark + "# c\r\n\r\nname: a\r\nservices:\r\n  a: {}\r\n").encode(encoding)
    )
    assert run(tmp_path) == {"x.yml": "document"}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.text(alphabet=" \n\t#-%{}:'\"abc", max_size=60))
def test_any_text_is_looked_at_without_an_error(one: str, two: str) -> None:
    assert isinstance(has_services(one + two), bool)
    assert has_services("name: x\nservices:\n" + one)
