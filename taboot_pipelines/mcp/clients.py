"""Entries for the server in the settings of assistants: Claude Code, Codex and VS Code.

Sources: docs.claude.com ("Connect Claude Code to tools via MCP", project scope), the MCP page of Codex'
documentation (``config.toml``), code.visualstudio.com ("MCP configuration reference").
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings

NAME = "taboot"


@dataclass(frozen=True, slots=True)
class Entry:
    """What an assistant is told: the file, what it holds afterwards, and the part that is new."""

    path: Path
    text: str
    added: str


def entry(client: str, folder: Path, settings: Settings, *, write: bool) -> Entry:
    """The entry for a client: of Claude Code and VS Code in ``folder``, of Codex in its own home.

    Raises ``E_PARSE`` where the file that is there is none of theirs, ``E_CONFLICT`` where Codex has another
    entry of the name.
    """
    server = _server(settings, write=write)
    if client == "codex":
        home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        return _toml(home / "config.toml", server)
    if client == "vscode":
        return _json(folder / ".vscode" / "mcp.json", "servers", server)
    return _json(folder / ".mcp.json", "mcpServers", server)


def _server(settings: Settings, *, write: bool) -> dict[str, Any]:
    """How the server is started: the installed command, and the knowledge base that it opens."""
    command = Path(sys.argv[0]).resolve()
    beside = Path(sys.executable).with_name("taboot")
    told = command if command.name == "taboot" and command.exists() else beside
    environment = {
        "TABOOT_HOME": str(settings.home_dir.resolve()),
        "TABOOT_SOURCES": str(settings.sources_file.resolve()),
    }
    if settings.namespace != "default":
        environment["TABOOT_NAMESPACE"] = settings.namespace
    return {
        "type": "stdio",
        "command": str(told),
        "args": ["mcp", *(["--write"] if write else [])],
        "env": environment,
    }


def _json(path: Path, key: str, server: Mapping[str, Any]) -> Entry:
    held = _read(path)
    known: Any = {}
    if held.strip():
        try:
            known = json.loads(held)
        except ValueError:
            raise TabootError("E_PARSE", f"{path} is not valid JSON.", path=str(path)) from None
    if not isinstance(known, dict) or not isinstance(known.get(key, {}), dict):
        raise TabootError("E_PARSE", f"{path} does not hold {key!r} as an object.", path=str(path))
    made = {**known, key: {**known.get(key, {}), NAME: dict(server)}}
    added = json.dumps({key: {NAME: server}}, indent=2, ensure_ascii=False)
    return Entry(path, json.dumps(made, indent=2, ensure_ascii=False) + "\n", added)


def _toml(path: Path, server: Mapping[str, Any]) -> Entry:
    held = _read(path)
    try:
        known = tomllib.loads(held)
    except tomllib.TOMLDecodeError:
        raise TabootError("E_PARSE", f"{path} is not valid TOML.", path=str(path)) from None
    wanted = {name: value for name, value in server.items() if name != "type"}
    there = known.get("mcp_servers", {}).get(NAME)
    if there is not None and there != wanted:
        raise TabootError(
            "E_CONFLICT",
            f"{path} has another entry mcp_servers.{NAME}.",
            remedy="Take it out of the file, then run this again.",
            path=str(path),
        )
    # Strings of JSON are strings of TOML.
    lines = [f"[mcp_servers.{NAME}]"]
    lines += [f"{name} = {json.dumps(wanted[name])}" for name in ("command", "args")]
    lines += ["", f"[mcp_servers.{NAME}.env]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in wanted["env"].items()]
    added = "\n".join(lines) + "\n"
    if there is not None:
        return Entry(path, held, added)
    return Entry(path, f"{held.rstrip()}\n\n{added}".lstrip("\n"), added)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise TabootError("E_PATH", f"{path} cannot be read: {error}.", path=str(path)) from None


def install(made: Entry) -> None:
    """Write an entry, so that the file is there whole or as it was. Raises ``E_PATH``."""
    try:
        made.path.parent.mkdir(parents=True, exist_ok=True)
        beside = made.path.with_name(f"{made.path.name}.taboot")
        beside.write_text(made.text, "utf-8")
        if made.path.exists():
            beside.chmod(made.path.stat().st_mode & 0o777)
        # A link stays one.
        beside.replace(made.path.resolve())
    except OSError as error:
        told = f"{made.path} cannot be written: {error.strerror}."
        raise TabootError("E_PATH", told, path=str(made.path)) from None
