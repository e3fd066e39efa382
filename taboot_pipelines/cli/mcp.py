"""``mcp``: the knowledge base for assistants, by the Model Context Protocol."""

from __future__ import annotations

import importlib.util
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli.output import namespace_option, plain
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.retrieval import KnowledgeBase

_WRITE = click.option("--write", is_flag=True, help="Offer the tools that change something too.")


@click.group(invoke_without_command=True)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    default=None,
    metavar="PORT",
    help="Serve over HTTP on this port of 127.0.0.1 (0: a free one) instead of stdin and stdout.",
)
@_WRITE
@namespace_option
@click.pass_context
def mcp(context: click.Context, port: int | None, write: bool, namespace: str | None) -> None:
    """Serve an assistant: search, ask, query, explain and more, as tools of the Model Context Protocol.

    Assistants start it themselves; `taboot mcp install` tells them how. It only reads, unless --write is
    given. Over HTTP each request needs the token that is printed, or that of TABOOT_MCP__TOKEN.
    """
    if context.invoked_subcommand is not None:
        return
    if importlib.util.find_spec("mcp") is None:
        raise TabootError("E_EXTRA", "Serving assistants needs the extra mcp.", extra="mcp")
    kb = _open(namespace, read_only=not write)
    if port is None:
        from taboot_pipelines.mcp.server import serve_stdio

        serve_stdio(kb, write=write)
        return
    from taboot_pipelines.browse.app import HOST, take_port
    from taboot_pipelines.mcp.server import PATH, serve_http

    set_ = kb.settings.mcp.token
    token = set_.get_secret_value() if set_ is not None else secrets.token_urlsafe(32)
    taken = take_port(port)
    click.echo(f"http://{HOST}:{taken.getsockname()[1]}{PATH}")
    if set_ is None:
        click.echo(f"Authorization: Bearer {token}")
    click.echo("Ctrl-C ends it.", err=True)
    serve_http(kb, taken, token, write=write)


def _open(namespace: str | None, *, read_only: bool) -> KnowledgeBase:
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    # One query multiplies no matrices, and numpy's threads spin for a while when they are made.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from taboot_pipelines.retrieval import KnowledgeBase

    # One that nothing was published for yet is served too: its tools say so, until something is.
    name = settings.namespace if namespace is None else namespace
    return KnowledgeBase(settings, name, read_only=read_only)


@mcp.command()
@click.argument("client", type=click.Choice(["claude-code", "codex", "vscode"]))
@_WRITE
@click.option("--yes", is_flag=True, help="Write without asking.")
def install(client: str, write: bool, yes: bool) -> None:
    """Enter the server in the settings of CLIENT: of this folder, or of Codex for its user.

    What is written is shown first; what else the file holds stays.
    """
    from taboot_pipelines.mcp import clients
    from taboot_pipelines.settings import load_settings

    made = clients.entry(client, Path.cwd(), load_settings(), write=write)
    click.echo(f"{made.path}:", err=True)
    plain(made.added.rstrip())
    if yes or click.confirm("Write it?", default=True, err=True):
        clients.install(made)
        click.echo(f"Written. Restart {client} for it.", err=True)
