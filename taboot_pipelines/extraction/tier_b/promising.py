"""Which paragraphs can state a relation at all: a look at their words before any grammar.

Most paragraphs have neither an address nor a word that leads from one thing to another. They are not parsed,
which is what reading costs. Nothing is lost by it: every reader needs one of these words.
"""

from __future__ import annotations

import re
from functools import cache

from taboot_pipelines.extraction.tier_b.blocks import Block
from taboot_pipelines.extraction.tier_b.frames import frames, stem
from taboot_pipelines.extraction.tier_b.lexicon import software, words

#: An address, a port, an IP: what the readers of addresses, published ports and DNS records need.
_PLACE = re.compile(
    r"(?i)://|:\d|:[<{$]|\bports?\b|\d\.\d{1,3}\.\d|listen|:\w*port\b|"
    r"\b(?:on|at) [`*]*\d{2,5}\b|^[`*]*\d{2,5}[`*]*\s*[-–—:]"
)
#: Words that lead to a relation without a verb of a frame, and forms of verbs that begin otherwise.
_OTHERS = words("leading")
#: A frame of these needs another of the words too.
_COMMON = frozenset(("be",))


@cache
def _leads() -> re.Pattern[str]:
    stems = {stem(verb) for verb in frames() if verb not in _COMMON}
    stems |= {*_OTHERS, *words("stores")}
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, stems)))})", re.IGNORECASE)


def is_promising(block: Block) -> bool:
    """Whether a paragraph, or what introduces it, has a word that a relation needs."""
    if _PLACE.search(block.text) or _PLACE.search(block.introduction) or block.introduction.endswith(":"):
        return True
    if block.text.count(" ") < 2:
        return False
    return _leads().search(block.text) is not None and _is_named(block)


def _is_named(block: Block) -> bool:
    """Whether something may be a name: code, or a capital, digit or hyphen that is not a sentence's first."""
    return bool(block.code) or _NAME.search(block.text) is not None or bool(_known().search(block.text))


_NAME = re.compile(
    r"(?<=[a-z,;:(] )[A-Z]|(?<=[a-z,;:(] [*_\[])[A-Z]|\w[A-Z]|[a-z]\d|\w[-_]\w|\w\.\w|"
    r"\b[Bb]ased on|\b[Bb]uilt (?:on|from)"
)


@cache
def _known() -> re.Pattern[str]:
    return re.compile(rf"(?i)(?<![\w-])(?:{'|'.join(sorted(map(re.escape, software())))})(?![\w-])")
