"""HuJSON (JSON with comments and trailing commas) to Python values, as little as the gold labels need."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<trailing>,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[\]}]))
      | "(?:\\.|[^"\\])*"
      | \S""",
    re.DOTALL | re.VERBOSE,
)


def loads(text: str) -> Any:
    """The value of a HuJSON text; ``ValueError`` where it is neither JSON nor HuJSON.

    Comments and trailing commas become blanks, so lines and columns of an error are those of the text.
    """
    before = ""

    def plain(token: re.Match[str]) -> str:
        nonlocal before
        # A comma that follows no value trails nothing, and is left to the JSON parser to refuse.
        if token["comment"] or (token["trailing"] and before not in "{[,:"):
            return re.sub(r"\S", " ", token[0])
        before = token[0][-1]
        return token[0]

    return json.loads(_TOKEN.sub(plain, text))


def at(value: Any, pointer: str) -> Any:
    """What stands at a JSON pointer (RFC 6901); ``LookupError`` where nothing does."""
    if pointer and not pointer.startswith("/"):
        raise LookupError(pointer)
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            if not name.isdecimal():
                raise LookupError(pointer)
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value[name]
        else:
            raise LookupError(pointer)
    return value
