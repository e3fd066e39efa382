"""What keys of configuration mean, in plain words: ``bantime`` is how long an address stays locked out.

Who asks what a setting is seldom knows its key. ``key_meanings.txt`` holds keys of known formats and
applications, and the words of settings in general, each with what people call its effect; it was written by
several hands that saw no question, and has only keys that are common in public repositories.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from taboot_pipelines.packaged import sections
from taboot_pipelines.retrieval.sentences import Form, TextStatement

#: Keys of a path that say together what a value is, and keys above its own that have a meaning themselves.
_TAIL, _ABOVE = 3, 2
#: Letters of a key that is known inside a longer one (``ND_SESSIONTIMEOUT``).
_MIN_INSIDE = 8
#: The words of a key, whatever joins them: ``maxBodySize``, ``max_body_size``, ``MAX-BODY-SIZE``.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
#: The key that a line of configuration begins with: of a mapping, an assignment, a flag or a directive.
_OWN = re.compile(r"(?:- +)*[\"'`]?(?:export |set )?-{0,2}(@?[A-Za-z_][\w./-]*)")
#: What is written as programs write names (RETENTION_DAYS, maxAge), in a cell or at the beginning of an item.
_IDENTIFIER = r"[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+|[a-z]+[A-Z]\w+"
_CELL = re.compile(rf"`?({_IDENTIFIER})`?")
_ITEM = re.compile(rf"\W*`({_IDENTIFIER})\b")


@cache
def known() -> dict[str, str]:
    """The meaning of each known key, by its letters."""
    found: dict[str, str] = {}
    for line in sections("taboot_pipelines.retrieval.answering", "key_meanings.txt")["keys"]:
        keys, _, meaning = line.partition(": ")
        found |= {key.replace(" ", ""): meaning for key in keys.split(", ")}
    return found


@cache
def _inside() -> tuple[int, ...]:
    """The lengths of the keys that are looked for inside others, longest first."""
    return tuple(sorted({n for n in map(len, known()) if n >= _MIN_INSIDE}, reverse=True))


def meanings(statement: TextStatement) -> tuple[str, ...]:
    """What the keys of a statement mean, its own first: of a line of configuration, of a table's row or a
    list's item that begins with a key."""
    if statement.form is Form.CODE:
        own = _OWN.match(statement.said)
        path = (*statement.keys, own[1] if own else "")
        ends = range(len(path), max(0, len(path) - _ABOVE - 1), -1)
        found = [_meaning(path[max(0, end - _TAIL) : end]) for end in ends]
    else:
        begun = _ITEM.match(statement.said)
        if statement.cells:
            begun = _CELL.fullmatch(statement.cells[0][1].strip("* "))
        found = [_meaning((begun[1],))] if begun else []
    return tuple(dict.fromkeys(filter(None, found)))


@lru_cache(maxsize=1 << 14)
def _meaning(path: tuple[str, ...]) -> str:
    """The meaning of the longest known key that a path ends in; else of the longest inside its last key."""
    own = "".join(_WORDS.findall(path[-1])).lower()
    words = [word.lower() for key in path for word in _WORDS.findall(key)] if own else []
    for first in range(len(words)):
        if (key := "".join(words[first:])) in known():
            return known()[key]
    for length in _inside():
        for at in range(len(own) - length + 1):
            if (key := own[at : at + length]) in known():
                return known()[key]
    return ""
