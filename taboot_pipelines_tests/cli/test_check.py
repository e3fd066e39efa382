"""``taboot check`` and ``taboot impact``: over a repository and over a home, with exit codes for CI."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.unwritable import PYTHON, tree, unwritable
from taboot_pipelines_tests.world import World

STACK = """services:
  web:
    image: nginx:1.27
    environment: {MODE: "${MODE}"}
    depends_on: [cache]
  cache:
    image: redis:7
"""
WITHOUT = STACK[: STACK.index("  cache:\n")]


def git(folder: Path, *arguments: str) -> str:
    named = {
        f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environment = {**os.environ, **named, "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout.strip()


@pytest.fixture
def repository(world: World) -> Path:
    """A repository with one commit, of which no home has taken in anything."""
    folder = world.root / "house"
    (folder / "stack").mkdir(parents=True)
    (folder / "stack" / "compose.yaml").write_text(STACK)
    (folder / ".gitignore").write_text(".env\n")
    (folder / "stack" / ".env").write_text("MODE=live\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


def test_a_folder_is_compared_with_the_last_commit(world: World, repository: Path) -> None:
    shell = Shell(world)
    # A folder that nothing was taken into is no home yet.
    (world.root / "empty").mkdir()
    shell.environment["TABOOT_HOME"] = str(world.root / "empty")
    # What git leaves out is no part of the change: the variable is set on both sides.
    assert "It causes no problem." in shell("check", str(repository))
    assert json.loads(shell("check", str(repository), "--format", "json"))["facts"] == []
    (repository / "stack" / "compose.yaml").write_text(WITHOUT)
    report = json.loads(shell("check", str(repository), "--format", "json", code=1))
    assert report["files"] == ["stack/compose.yaml"]
    (problem,) = report["problems"]
    assert (problem["rule"], problem["file"], problem["line"]) == ("dependency_gone", "stack/compose.yaml", 5)
    (affected,) = report["impact"]
    assert (affected["affected"], affected["how"]) == ("web", "only starts after it")
    assert {f["subject"] for f in report["facts"] if f["fact"] == "service"} == {"service stack/cache"}
    shown = shell("check", str(repository), code=1)
    assert "dependency_gone: service web, depends_on" in shown and "stack/compose.yaml:5" in shown
    assert "| `dependency_gone` |" in shell("check", str(repository), "--format", "markdown", code=1)
    sarif = json.loads(shell("check", str(repository), "--format", "sarif", code=1))
    assert sarif["runs"][0]["results"][0]["ruleId"] == "dependency_gone"
    # Nothing was left behind, in the repository or elsewhere.
    assert git(repository, "status", "--porcelain").split() == ["M", "stack/compose.yaml"]


def test_a_mount_of_a_file_that_no_source_reads_is_missed(world: World, repository: Path) -> None:
    (repository / "stack" / "key.pem").write_bytes(b"\0")
    (repository / "stack" / "compose.yaml").write_text(STACK + "    volumes: [./key.pem:/key.pem]\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "two")
    shell = Shell(world)
    assert "no problem" in shell("check", str(repository))
    (repository / "stack" / "key.pem").unlink()
    assert "key.pem, which is gone" in shell("check", str(repository), code=1)
    git(repository, "commit", "-qam", "three")
    assert "key.pem, which is gone" in shell("check", str(repository), "--git", "HEAD~1..HEAD", code=1)


def test_commits_are_compared_whatever_the_folder_is(world: World, repository: Path) -> None:
    shell = Shell(world)
    git(repository, "checkout", "-q", "-b", "change")
    (repository / "stack" / "compose.yaml").write_text(WITHOUT)
    git(repository, "commit", "-qam", "two")
    git(repository, "checkout", "-q", "main")
    (repository / "stack" / "compose.yaml").write_text(STACK.replace("nginx:1.27", "nginx"))
    git(repository, "commit", "-qam", "three")

    def rules(range_: str, code: int) -> list[str]:
        report = json.loads(shell("check", str(repository), "--git", range_, "--format", "json", code=code))
        return [p["rule"] for p in report["problems"]]

    assert rules("main..change", 1) == ["dependency_gone"]
    assert rules("change..main", 1) == ["image_unpinned"]
    # From where both parted, as a pull request is.
    assert rules("main...change", 1) == ["dependency_gone"]
    assert rules("HEAD~1...HEAD", 1) == ["image_unpinned"]
    assert rules("HEAD", 0) == []
    report = json.loads(shell("check", str(repository), "--git", "main...change", "--format", "json", code=1))
    assert "image" not in {f["fact"] for f in report["facts"] if f["kind"] == "changed"}
    assert rules("HEAD~1", 1) == ["image_unpinned"]


def test_what_was_found_in_either_state_is_compared(world: World, repository: Path) -> None:
    """What the folder is read as does not change with the file that goes."""
    shell = Shell(world)
    (repository / "Caddyfile").write_text("a.example.org {\n  reverse_proxy web:80\n}\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "two")
    (repository / "Caddyfile").unlink()
    git(repository, "rm", "-q", "stack/compose.yaml")
    git(repository, "commit", "-qam", "three")
    for arguments in (["--git", "HEAD~1..HEAD"], ["--git", "HEAD~1"]):
        report = json.loads(shell("check", str(repository), "--format", "json", *arguments))
        gone = {f["subject"] for f in report["facts"] if f["kind"] == "removed"}
        assert {"Caddyfile", "proxy caddy", "service stack/web"} <= gone, gone
    report = json.loads(shell("check", str(repository), "--format", "json", "--git", "HEAD..HEAD~1"))
    assert "service stack/web" in {f["subject"] for f in report["facts"] if f["kind"] == "added"}


def test_what_a_file_that_git_leaves_out_sets_is_not_undefined(world: World, repository: Path) -> None:
    shell = Shell(world)
    (repository / ".env.example").write_text("PORT=\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "two")
    more = "  more:\n    image: busybox:1\n    environment: [N=$NOBODY]\n"
    added = f"\n      P: $PORT\n      Q: $OWN\n{more}"
    (repository / "stack" / "compose.yaml").write_text(f"{STACK}    environment:{added}")
    git(repository, "commit", "-qam", "three")

    def checked(*arguments: str, code: int = 1) -> tuple[list[str], list[str]]:
        report = json.loads(shell("check", str(repository), "--format", "json", *arguments, code=code))
        assert {p["rule"] for p in report["problems"]} <= {"variable_undefined"}
        return [p["statement"].split()[0] for p in report["problems"]], report["notes"]

    (repository / "stack" / ".env").write_text("MODE=live\nOWN=1\n")
    commits = ("--git", "HEAD~1..HEAD")
    unknown = "Not known: whether 4 variables have a value, since the files are not here that would set them"
    assert checked(*commits, code=0) == ([], [f"{unknown}: MODE, NOBODY, OWN and PORT."])
    # The file as it is says what it sets, whatever its example does.
    left = "Not compared, since git leaves it out: stack/.env."
    assert checked("--git", "HEAD~1") == (["PORT", "NOBODY"], [left])
    # Neither is in a clone, as in CI.
    (repository / "stack" / ".env").unlink()
    told = ([], [f"{unknown}: MODE, NOBODY, OWN and PORT."])
    assert checked(*commits, code=0) == checked("--git", "HEAD~1", code=0) == told
    # Of what does not change nothing is told.
    assert checked("--git", "HEAD", code=0) == ([], [])
    # Each state has the rules of its own: what git takes along is there, or is not.
    (repository / ".gitignore").unlink()
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "four")
    assert checked("--git", "HEAD~2..HEAD")[0] == ["OWN", "NOBODY"]
    assert checked("--git", "HEAD~2..HEAD~1", code=0) == told


def test_a_file_of_variables_that_was_taken_in_and_is_gone_is_missed(world: World, repository: Path) -> None:
    world.source("house", "compose", path=str(repository))
    world.ingest()
    shell = Shell(world)
    with (repository / "stack" / "compose.yaml").open("a") as file:
        file.write("    environment: {OWN: $OWN}\n")
    assert "OWN is used" in shell("check", str(repository), code=1)
    (repository / "stack" / ".env").unlink()
    assert "MODE is used, and nothing sets it" in shell("check", str(repository), code=1)


def test_what_cannot_be_checked_ends_with_2(world: World, repository: Path, tmp_path: Path) -> None:
    shell = Shell(world)
    shell("check", str(repository), "--git", "main..nowhere", code=2)
    assert "E_QUERY" in shell.err and "nowhere" in shell.err
    shell("check", str(repository), "--git", "--output=x..main", code=2)
    assert "E_QUERY" in shell.err
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.md").write_text("# A")
    said = json.loads(shell("check", str(tmp_path / "plain"), "--format", "json", code=2))
    assert said["error"]["code"] == "E_PATH"


def test_why_git_does_not_open_a_repository_is_said(world: World, repository: Path) -> None:
    shell = Shell(world)
    shell.environment["GIT_TEST_ASSUME_DIFFERENT_OWNER"] = "1"
    shell("check", str(repository), code=2)
    assert "E_UNREADABLE" in shell.err and "safe.directory" in shell.err
    shell.environment["PATH"] = str(world.root)
    shell("check", str(repository), code=2)
    assert "E_UNREADABLE" in shell.err and "Install git" in shell.err


def test_a_hook_of_another_folder_does_not_lead_astray(world: World, repository: Path) -> None:
    shell = Shell(world)
    git(repository, "init", "-q", "other")
    shell.environment |= {"GIT_DIR": ".git", "GIT_INDEX_FILE": ".git/index"}
    (repository / "stack" / "compose.yaml").write_text(WITHOUT)
    report = json.loads(shell("check", str(repository / "stack"), "--format", "json", code=1))
    assert report["files"] == ["compose.yaml"]


def test_a_submodule_is_compared_at_the_commit_that_is_named(world: World, repository: Path) -> None:
    shell = Shell(world)
    outer = world.root / "outer"
    outer.mkdir()
    git(outer, "init", "-q", "-b", "main")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "house")
    git(outer, "commit", "-qm", "one")
    report = json.loads(shell("check", str(outer), "--format", "json"))
    assert (report["files"], report["facts"]) == ([], [])
    (outer / "house" / "stack" / "compose.yaml").write_text(WITHOUT)
    report = json.loads(shell("check", str(outer), "--format", "json", code=1))
    assert report["files"] == ["house/stack/compose.yaml"]
    assert "dependency_gone" in {p["rule"] for p in report["problems"]}


def test_sources_that_are_not_there_are_told(world: World, repository: Path) -> None:
    shell = Shell(world)
    world.source("gone", "compose", path=str(repository / "gone"))
    report = json.loads(shell("check", str(repository), "--format", "json"))
    assert report["notes"] == ["The source gone has no file in gone."]
    world.remove_source("gone")
    world.source("elsewhere", "compose")
    shell("check", str(repository))
    assert "names nothing in" in shell.err


def test_links_lead_no_further_than_in_an_ingest(world: World, repository: Path) -> None:
    shell = Shell(world)
    world.source("stack", "compose", path=str(repository / "stack"))
    secret = world.root / "outside.yaml"
    secret.write_text("services: {outside: {image: 'busybox:1'}}\n")
    (repository / "base.yaml").write_text("services: {base: {image: 'busybox:1', depends_on: [ghost]}}\n")
    (repository / "stack" / "linked.yaml").symlink_to("../base.yaml")
    (repository / "stack" / "out.compose.yaml").symlink_to(secret)
    extended = f"{STACK}  more:\n    extends: {{file: linked.yaml, service: base}}\n"
    (repository / "stack" / "compose.yaml").write_text(extended)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "two")
    report = json.loads(shell("check", str(repository), "--git", "HEAD~1..HEAD", "--format", "json", code=1))
    added = {f["subject"] for f in report["facts"] if (f["kind"], f["fact"]) == ("added", "service")}
    assert "service stack/more" in added and not any("outside" in subject for subject in added)
    # What the link leads to, beside the folder of the source and in its repository, is taken in.
    images = {(f["subject"], f["after"]) for f in report["facts"] if f["fact"] == "image"}
    assert ("service stack/more", "busybox:1") in images


def _kept(home: Path) -> dict[str, tuple[int, int, int, str]]:
    """What a home holds but its caches, where a reader notes what it verified."""
    return {name: state for name, state in tree(home).items() if name.split("/")[0] != "cache"}


def test_a_folder_is_compared_with_what_is_published_and_nothing_is_written(world: World) -> None:
    folder = world.source("house", "compose", host="nas")
    (folder / "compose.yaml").write_text(STACK)
    other = world.source("edge", "swag", proxy="edge")
    (other / "web.conf").write_text(
        "server { server_name w.example.org; location / { proxy_pass http://web:80; } }\n"
    )
    world.ingest()
    shell = Shell(world)
    assert "It causes no problem." in shell("check", str(folder))
    (folder / "compose.yaml").write_text(STACK.replace("  web:\n", "  site:\n"))
    before = _kept(world.home)
    # In a process of its own: in one that wrote the catalog SQLite may note in its index that it reads.
    report = json.loads(shell.process("check", str(folder), "--format", "json", code=1))
    assert _kept(world.home) == before
    with unwritable(world.home):
        command = [*PYTHON, "-c", "from taboot_pipelines.cli import main; main()", "check", str(folder)]
        done = subprocess.run(command, env=shell.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "upstream_gone" in done.stdout, done.stderr
    # The proxy's conf lies in another source, which still leads to the name.
    (problem,) = report["problems"]
    assert (problem["rule"], problem["file"], problem["line"]) == ("upstream_gone", "../edge/web.conf", 1)
    # What the last commit has, though no source reads it, was there.
    (folder / "compose.yaml").write_text(STACK + "    volumes: [./key.pem:/key.pem]\n")
    assert "key.pem" not in shell("check", str(folder), "--format", "json", code=0).split('"problems"')[1]
    (folder / "key.pem").write_bytes(b"\0")
    for arguments in (["init", "-q"], ["add", "key.pem"], ["commit", "-qm", "one"]):
        git(folder, *arguments)
    (folder / "key.pem").unlink()
    assert "key.pem, which is gone" in shell("check", str(folder), code=1)
    (folder / "key.pem").symlink_to("/nowhere/key.pem")
    assert "key.pem, which is gone" not in shell("check", str(folder))
    (folder / "compose.yaml").write_text(STACK.replace("  web:\n", "  site:\n"))
    impact = shell("impact", "web")
    assert "service web (house)" in impact and "What cannot be known:" in impact
    assert _kept(world.home).keys() == before.keys()
    found = shell.json("impact", "cache")
    assert [(g["how"], [i["name"] for i in g["items"]]) for g in found["groups"][:1]] == [
        ("only starts after it", ["web"])
    ]
