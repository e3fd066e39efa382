"""Asks a server of the Model Context Protocol as an assistant does, from code that is not asynchronous."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from taboot_pipelines.mcp.server import make_server
from taboot_pipelines.retrieval import KnowledgeBase

PROGRAM = "from taboot_pipelines.cli import main; main()"


@dataclass(frozen=True)
class Said:
    """What a tool said: its one text, and whether that is an error."""

    text: str
    is_error: bool


def with_client(target: Any, talk: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client(target) as client:
            return await talk(client)

    return anyio.run(run)


async def call(client: Client, tool: str, arguments: Mapping[str, Any]) -> Said:
    made: Any = await client.call_tool(tool, dict(arguments))
    assert [c.type for c in made.content] == ["text"] and made.structured_content is None
    return Said(made.content[0].text, bool(made.is_error))


def asked(kb: KnowledgeBase, tool: str, *, write: bool = False, **arguments: Any) -> Said:
    """What a tool says in this process."""
    return with_client(make_server(kb, write=write), lambda client: call(client, tool, arguments))


def by_stdio(
    environment: Mapping[str, str], *arguments: str, start: Sequence[str] = (sys.executable,)
) -> Any:
    """A server in a process of its own; ``start``: what begins its command line."""
    return stdio_client(
        StdioServerParameters(
            command=start[0], args=[*start[1:], "-c", PROGRAM, "mcp", *arguments], env=dict(environment)
        )
    )
