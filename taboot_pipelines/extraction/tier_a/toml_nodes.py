"""TOML as the tree that ``yaml_nodes`` makes of YAML, so that one reader takes both.

``tomllib`` says what the text means; where each value stands is found by going through the statements once. A
value has the place of its statement: what stands inside an array or an inline table, that of the whole.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    MAPPING,
    MAX_DEPTH,
    SCALAR,
    SEQUENCE,
    Entry,
    Node,
    Origin,
)

#: Code points of a file.
MAX_TEXT = 4_000_000

_SKIP = re.compile(r"(?:[ \t\r\n\ufeff]|#[^\n]*)+")
_KEY = re.compile(r"""[ \t]*(?:([A-Za-z0-9_-]+)|"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)')[ \t]*""")
_VALUE = re.compile(
    r'''"""(?:[^\\"]|\\.|"(?!""))*"{3,5}|\'\'\'(?:[^']|'(?!\'\'))*\'{3,5}'''
    r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\[\]{}#\n]|[^"'\[\]{}#\n]+""",
    re.DOTALL,
)

#: Of a key of the text, with the index of each table of an array: where its statement stands.
_Places = dict[tuple[str | int, ...], tuple[int, int]]


def parse_toml(origin: Origin) -> Node:
    """The root table. Raises ``E_PARSE``, with the position where it is known, and ``E_TOO_LARGE``."""
    path, text = origin.path, origin.text.removeprefix("\ufeff")
    if len(text) > MAX_TEXT:
        raise TabootError("E_TOO_LARGE", f"{path} has more than {MAX_TEXT} characters.", path=path)
    try:
        # Line ends inside of texts are all that `\r` changes.
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+), column (\d+)", str(error))
        where = f", line {found[1]}, column {found[2]}" if found else ""
        raise TabootError("E_PARSE", f"{path}{where}: this is not valid TOML.", path=path) from None
    except (RecursionError, ValueError, OverflowError):
        raise TabootError("E_PARSE", f"{path}: this is not valid TOML.", path=path) from None
    shift = len(origin.text) - len(text)
    places = {key: (start + shift, end + shift) for key, (start, end) in _places(text).items()}
    return _node(data, (), (0, len(origin.text)), places, origin)


def _places(text: str) -> _Places:
    """Where each statement stands. The text is valid."""
    found: _Places = {}
    arrays: dict[tuple[str | int, ...], int] = {}
    table: tuple[str | int, ...] = ()
    at, size = 0, len(text)
    while at < size:
        if (blank := _SKIP.match(text, at)) is not None:
            at = blank.end()
            continue
        start = at
        several = text.startswith("[[", at)
        header = text[at] == "["
        at += 2 if several else 1 if header else 0
        keys, at = _keys(text, at)
        if not keys:
            break
        if header:
            at = text.find("]", at) + (2 if several else 1)
            table = _indexed(keys, arrays)
            if several:
                number = arrays[table] = arrays.get(table, -1) + 1
                table = (*table, number)
            found.setdefault(table, (start, at))
        else:
            at = _value_end(text, at + 1)
            end = at
            while end > start and text[end - 1].isspace():
                end -= 1
            found[(*table, *keys)] = (start, end)
            for length in range(1, len(keys)):
                found.setdefault((*table, *keys[:length]), (start, end))
    return found


def _keys(text: str, at: int) -> tuple[list[str], int]:
    keys: list[str] = []
    while (match := _KEY.match(text, at)) is not None:
        quoted = match[2]
        if quoted is not None and "\\" in quoted:
            quoted = tomllib.loads(f'k = "{quoted}"')["k"]
        keys.append(next(k for k in (match[1], quoted, match[3]) if k is not None))
        at = match.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    return keys, at


def _indexed(keys: list[str], arrays: dict[tuple[str | int, ...], int]) -> tuple[str | int, ...]:
    """A header's keys, with the last table of each array of tables that they go through."""
    found: tuple[str | int, ...] = ()
    for number, key in enumerate(keys):
        found = (*found, key)
        if number + 1 < len(keys) and found in arrays:
            found = (*found, arrays[found])
    return found


def _value_end(text: str, at: int) -> int:
    depth = 0
    while (match := _VALUE.match(text, at)) is not None:
        piece = match[0]
        if piece == "\n" and depth == 0:
            return at
        if piece == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            if depth == 0:
                return match.start()
            continue
        depth += piece in ("[", "{")
        depth -= piece in ("]", "}")
        at = match.end()
    return at


def _node(
    data: Any, key: tuple[str | int, ...], outer: tuple[int, int], places: _Places, origin: Origin
) -> Node:
    if len(key) > MAX_DEPTH:
        raise TabootError(
            "E_TOO_LARGE", f"{origin.path}: the nesting is deeper than {MAX_DEPTH}.", path=origin.path
        )
    start, end = places.get(key, outer)
    if isinstance(data, dict):
        node = Node(MAPPING, origin, start, end)
        entries: dict[str, Entry] = {}
        for name, value in data.items():
            child = _node(value, (*key, name), (start, end), places, origin)
            said = Node(SCALAR, origin, child.start, child.end)
            said.text = name
            entries[name] = (said, child)
        node.entries = entries
    elif isinstance(data, list):
        node = Node(SEQUENCE, origin, start, end)
        node.items = [
            _node(value, (*key, number), (start, end), places, origin) for number, value in enumerate(data)
        ]
    else:
        node = Node(SCALAR, origin, start, end)
        node.text = str(data).lower() if isinstance(data, bool) else str(data)
        node.plain = not isinstance(data, str)
    return node
