"""A model that reads by one rule: of a window it tells each ``X depends on Y`` and ``X talks to Y``; the
model ``OTHER_MODEL`` tells the first alone.

It is the ``react`` of a :class:`~taboot_pipelines_tests.fakes.openai.FakeOpenAi`: equal questions get equal
answers, so that runs can be compared, and what it was asked can be told from the bodies.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

_FACT = re.compile(r"`?([A-Za-z][\w-]*)`? (depends on|talks to) (?:the )?`?([A-Za-z][\w-]*)`?")
OTHER_MODEL = "fake/other"
_TYPES = {"depends on": "DEPENDS_ON", "talks to": "CONNECTS_TO"}


def window_of(body: dict[str, Any]) -> str:
    """The text between the two marks of a question."""
    content: str = body["messages"][-1]["content"]
    _, _, rest = content.partition("TEXT ")
    mark, _, text = rest.partition("\n")
    return text.removesuffix(f"\n{mark}")


def fact(quote: str, start: str, relation: str, end: str, **more: Any) -> dict[str, Any]:
    """A fact as the schema asks for it."""
    return {
        "quote": quote,
        "start": start,
        "start_type": "Service",
        "relation": relation,
        "end": end,
        "end_type": "Service",
        "port": 0,
        "protocol": "",
    } | more


def facts(*found: dict[str, Any]) -> str:
    return orjson.dumps({"facts": list(found)}).decode()


def reads(body: dict[str, Any]) -> str | None:
    """The answer to a question of Tier C; None for any other question."""
    if "TEXT" not in body["messages"][-1]["content"] or "response_format" not in body:
        return None
    found = [fact(m[0], m[1], _TYPES[m[2]], m[3]) for m in _FACT.finditer(window_of(body))]
    return facts(*(f for f in found if body["model"] != OTHER_MODEL or f["relation"] == "DEPENDS_ON"))
