"""``taboot mcp install``: what is entered where, and that nothing else of the file is lost."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from taboot_pipelines.cli.group import cli

OTHER = {"command": "other", "args": ["x"]}


def install(folder: Path, *arguments: str, answer: str = "y\n") -> Result:
    environment = {
        "TABOOT_HOME": str(folder / "home"),
        "TABOOT_SOURCES": str(folder / "sources.yaml"),
        "CODEX_HOME": str(folder / "codex"),
    }
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(cli, ["mcp", "install", *arguments], input=answer, env=environment)
    finally:
        os.chdir(before)


@pytest.mark.parametrize(
    ("client", "path", "key"),
    [("claude-code", ".mcp.json", "mcpServers"), ("vscode", ".vscode/mcp.json", "servers")],
)
def test_an_entry_is_shown_and_then_written_beside_the_others(
    tmp_path: Path, client: str, path: str, key: str
) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({key: {"other": OTHER}, "inputs": [1]}))
    refused = install(tmp_path, client, answer="n\n")
    assert refused.exit_code == 0 and '"mcp"' in refused.output
    assert "taboot" not in json.loads(file.read_text())[key]
    assert install(tmp_path, client).exit_code == 0
    made = json.loads(file.read_text())
    assert made["inputs"] == [1] and made[key]["other"] == OTHER
    entry = made[key]["taboot"]
    assert entry["type"] == "stdio" and entry["args"] == ["mcp"] and Path(entry["command"]).is_absolute()
    assert entry["env"]["TABOOT_HOME"] == str(tmp_path / "home")
    assert install(tmp_path, client, "--write", "--yes").exit_code == 0
    assert json.loads(file.read_text())[key]["taboot"]["args"] == ["mcp", "--write"]
    assert [p.name for p in file.parent.iterdir() if p.is_file()] == [file.name]


def test_codex_keeps_what_its_file_says_and_its_comments(tmp_path: Path) -> None:
    file = tmp_path / "codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "other"\n')
    for _ in range(2):
        assert install(tmp_path, "codex", "--yes").exit_code == 0
    assert file.read_text().startswith("# mine\n")
    made = tomllib.loads(file.read_text())
    assert made["model"] == "x" and made["mcp_servers"]["other"] == {"command": "other"}
    assert made["mcp_servers"]["taboot"]["args"] == ["mcp"]
    assert made["mcp_servers"]["taboot"]["env"]["TABOOT_SOURCES"] == str(tmp_path / "sources.yaml")
    other = install(tmp_path, "codex", "--write", "--yes")
    assert other.exit_code != 0 and other.exception is not None and other.exception.code == "E_CONFLICT"


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 3}'])
def test_a_file_that_is_none_of_theirs_stays_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / ".mcp.json").write_text(text)
    made = install(tmp_path, "claude-code", "--yes")
    assert made.exit_code != 0 and made.exception.code == "E_PARSE"
    assert (tmp_path / ".mcp.json").read_text() == text
