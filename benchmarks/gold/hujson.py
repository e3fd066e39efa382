"""HuJSON (JSON with comments and trailing commas) to Python values, as little as the gold labels need."""

from __future__ import annotations

import json
import re
from typing import Any

_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_TRAILING = r",(?=(?:\s|//[^\n]*|/\*.*?\*/)*[\]}])"
_TOKEN = re.compile(f"{_STRING}|{_COMMENT}|{_TRAILING}", re.DOTALL)


def loads(text: str) -> Any:
    """The value of a HuJSON text; ``ValueError`` where it is neither JSON nor HuJSON.

    Comments and trailing commas become blanks, so lines and columns of an error are those of the text.
    """
    return json.loads(_TOKEN.sub(_blank, text))


def _blank(token: re.Match[str]) -> str:
    return token[0] if token[0].startswith('"') else re.sub(r"\S", " ", token[0])


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
