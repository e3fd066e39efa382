"""What a form is given, and what it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from taboot_pipelines.documents.metadata import Facts
from taboot_pipelines.model.offsets import OffsetMap


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of the bytes: the path that messages name, the media type, the declared charset. The
    text may have ``max_chars`` code points."""

    path: str
    mime: str
    charset: str | None
    max_chars: int


@dataclass(frozen=True, slots=True)
class Formed:
    """Markdown, the map from its code points to the blob's bytes, and what the document states of itself.
    ``charset``: that of the blob, where it is text."""

    text: str
    offsets: OffsetMap
    facts: Facts = field(default_factory=Facts)
    charset: str = "utf-8"


#: Raises ``TabootError`` (``E_PARSE``, ``E_EMPTY``, ``E_TOO_LARGE``, …) for bytes that are not of the format.
Form = Callable[[bytes, Given], Formed]
