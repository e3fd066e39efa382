"""Secret values replaced by as many asterisks, so that every offset holds (``secrets-stop-at-the-blob``)."""

from __future__ import annotations

import re

from taboot_pipelines.documents.mime import HTML, PLAIN
from taboot_pipelines.documents.secrets.finding import find_in_text
from taboot_pipelines.documents.secrets.json_values import in_json, numbers
from taboot_pipelines.documents.secrets.pages import find_in_page
from taboot_pipelines.documents.secrets.values import (
    Span,
    is_no_secret,
    looks_secret,
    merged,
    strength,
)

#: Part of the parser's fingerprint: raise it when the same text would be masked otherwise.
MASK_VERSION = "10"

_NO_LINE_BREAK = re.compile(r"[^\r\n]")


def find_secrets(text: str, mime: str) -> list[Span]:
    """Spans of secret values in code points, ascending and disjoint; in HTML also those that stand across its
    tags or in attributes."""
    return merged(find_in_page(text)) if mime == HTML else find_in_text(text, mime)


def mask(text: str, mime: str) -> str:
    """``text`` with asterisks for every secret value: the same number of code points, the same lines.

    What was JSON stays JSON: a number becomes a string of its length.
    """
    spans = find_secrets(text, mime)
    if not spans:
        return text
    bare = numbers(text, spans) if in_json(mime) else ()
    parts = []
    at = 0
    for start, end in spans:
        parts.append(text[at:start])
        hidden = text[start:end]
        parts.append(f'"{_asterisks(hidden[2:])}"' if (start, end) in bare else _asterisks(hidden))
        at = end
    parts.append(text[at:])
    return "".join(parts)


def mask_value(name: str, value: str) -> str:
    """The value of a setting or field, masked if its ``name`` or its shape says that it is a secret."""
    kind = strength(name) if name else None
    if (
        kind is not None
        and not is_no_secret(value, literal=True)
        and (kind == "strong" or looks_secret(value))
    ):
        return _asterisks(value)
    return mask(value, PLAIN)


def _asterisks(hidden: str) -> str:
    if "\n" in hidden or "\r" in hidden:
        return _NO_LINE_BREAK.sub("*", hidden)
    return "*" * len(hidden)
