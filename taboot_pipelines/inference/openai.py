"""What every server with OpenAI's API has in common: where its routes are, which models it lists, and how it
says that a text is too long.
"""

from __future__ import annotations

import re

import orjson

from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.http.server import Peer, ServerClient

#: How servers (vLLM, OpenAI, llama.cpp, Ollama) say that a text is longer than the model reads: matched,
#: never repeated.
_TOO_LONG = re.compile(
    rb"context[_ ](?:length|size|window)|maximum (?:model|input|context) length|max_model_len"
    rb"|(?:prompt|input) is too (?:long|large)|max(?:imum)? \d+ tokens",
    re.IGNORECASE,
)


def prefix_of(http: ServerClient) -> str:
    """What stands before every route: a bare address means OpenAI's usual place."""
    return "" if http.path else "/v1"


def is_too_long(reply: Answer) -> bool:
    return reply.status in (400, 413, 422) and _TOO_LONG.search(reply.body) is not None


def model_names(http: ServerClient, reply: Answer) -> list[str]:
    """The models that the answer of ``/models`` lists. Raises the peer's code."""
    if reply.status != 200:
        raise http.refusal(reply.status, "/models")
    try:
        names = [entry["id"] for entry in orjson.loads(reply.body)["data"]]
    except (ValueError, TypeError, KeyError):
        raise not_openai(http.peer, "/models") from None
    if not all(isinstance(name, str) and name for name in names):
        raise not_openai(http.peer, "/models")
    return names


def not_openai(peer: Peer, path: str) -> TabootError:
    said = f"{peer.name}'s {path} is not that of an OpenAI-compatible server."
    return TabootError(peer.code, said, path=path)
