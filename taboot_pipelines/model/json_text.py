"""JSON whose values know where they stand in the text, so that what is read from it leads to its bytes (rule
``offsets-carried``). Reads HuJSON too: JSON (RFC 8259) with comments and trailing commas.

Nothing recurses, and nesting is bounded, so that a hostile text costs time in proportion to its length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from taboot_pipelines.errors import TabootError

#: Objects and arrays in one another; what people and APIs write has a tenth of it.
MAX_DEPTH = 500


_BLANK = re.compile(r"[ \t\n\r]*")
_HUJSON_BLANK = re.compile(r"(?:[ \t\n\r\ufeff]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_STRING = re.compile(r'"([^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*)"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ESCAPE = re.compile(
    r'\\(?:(?P<short>["\\/bfnrt])|u(?P<pair>[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})'
    r"|u(?P<unit>[0-9a-fA-F]{4}))"
)
#: A member whose value holds no other, up to the next name or the object's end: most of what APIs write.
_MEMBER = re.compile(
    r'"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+'
    r'(?:"([^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+)"'
    r"|(true|false|null)|(-?(?:0|[1-9][0-9]{0,17})))[ \t\n\r]*+(?:,[ \t\n\r]*+(?=\")|(?=\}))"
)
_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_TOKENS = frozenset('"{}[]:,-0123456789tfn')
_WORDS: Mapping[str, bool | None] = MappingProxyType({"true": True, "false": False, "null": None})


class Run(NamedTuple):
    """A piece of a string's content: ``text`` stands at ``[start, end)`` of the source, as it is if
    ``verbatim``, else as an escape."""

    text: str
    start: int
    end: int
    verbatim: bool


class Value:
    """A value at ``[start, end)`` (code points) of its source; a string's quotes are part of it.

    ``data``: a dict of :class:`Value` by name (of names given twice the last), a list of them, a ``str``,
    ``int``, ``float``, ``bool`` or None.
    """

    __slots__ = ("data", "end", "start")

    def __init__(self, data: Any, start: int, end: int) -> None:
        self.data = data
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"Value({self.plain()!r}, {self.start}, {self.end})"

    def at(self, *path: str | int) -> Value | None:
        """The value that ``path`` (names and indexes) leads to; None where nothing stands."""
        value: Value = self
        for step in path:
            data = value.data
            if isinstance(step, str):
                found = data.get(step) if isinstance(data, dict) else None
            else:
                found = data[step] if isinstance(data, list) and -len(data) <= step < len(data) else None
            if found is None:
                return None
            value = found
        return value

    def string(self, *path: str | int) -> str:
        """The text at ``path``; empty where there is none, or something else."""
        found = self.at(*path)
        return found.data if found is not None and isinstance(found.data, str) else ""

    def integer(self, *path: str | int) -> int | None:
        """The whole number at ``path``, also one in quotes, as some APIs write them; None for anything
        else."""
        found = self.at(*path)
        data = None if found is None else found.data
        if isinstance(data, int) and not isinstance(data, bool):
            return data
        if isinstance(data, str) and re.fullmatch(r"-?[0-9]{1,19}", data):
            return int(data)
        return None

    def true(self, *path: str | int) -> bool:
        """Whether ``true`` stands at ``path``."""
        found = self.at(*path)
        return found is not None and found.data is True

    def items(self, *path: str | int) -> list[Value]:
        """The values of the array at ``path``; none where there is no array."""
        found = self.at(*path)
        return found.data if found is not None and isinstance(found.data, list) else []

    def members(self, *path: str | int) -> dict[str, Value]:
        """The members of the object at ``path``; none where there is no object."""
        found = self.at(*path)
        return found.data if found is not None and isinstance(found.data, dict) else {}

    def walk(self) -> Iterator[Value]:
        """This value and all that it holds, in the order of the text."""
        stack = [self]
        while stack:
            value = stack.pop()
            yield value
            if isinstance(value.data, dict):
                stack.extend(sorted(value.data.values(), key=lambda v: -v.start))
            elif isinstance(value.data, list):
                stack.extend(reversed(value.data))

    def plain(self) -> Any:
        """The value as Python's ``json`` reads it."""
        order = list(self.walk())
        made: dict[int, Any] = {}
        for value in reversed(order):
            if isinstance(value.data, dict):
                made[id(value)] = {name: made[id(member)] for name, member in value.data.items()}
            elif isinstance(value.data, list):
                made[id(value)] = [made[id(item)] for item in value.data]
            else:
                made[id(value)] = value.data
        return made[id(self)]

    def runs(self, source: str) -> list[Run]:
        """The content of a string in pieces, by which each of its code points leads to the source. Half of a
        surrogate pair is U+FFFD."""
        at, end = self.start + 1, self.end - 1
        if len(self.data) == end - at:  # an escape is longer than what it stands for
            return [Run(self.data, at, end, True)] if end > at else []
        found: list[Run] = []
        for escape in _ESCAPE.finditer(source, at, end):
            first, last = escape.span()
            if first > at:
                found.append(Run(source[at:first], at, first, True))
            short = _SHORT.get(source[first + 1])
            found.append(Run(short or _unescaped(escape), first, last, False))
            at = last
        if at < end:
            found.append(Run(source[at:end], at, end, True))
        return found


def _unescaped(escape: re.Match[str]) -> str:
    if short := escape["short"]:
        return _SHORT[short]
    if pair := escape["pair"]:
        return chr(0x10000 + ((int(pair[:4], 16) - 0xD800) << 10) + int(pair[6:], 16) - 0xDC00)
    unit = int(escape["unit"], 16)
    return "\ufffd" if 0xD800 <= unit <= 0xDFFF else chr(unit)


def parse(source: str, *, hujson: bool = False, start: int = 0, end: int | None = None) -> Value:
    """The value that ``source[start:end]`` is. Positions are those of ``source``.

    Raises ``E_PARSE`` that names line and column, and quotes nothing.
    """
    return _Parser(source, _HUJSON_BLANK if hujson else _BLANK, hujson, len(source) if end is None else end)(
        start
    )


class _Parser:
    def __init__(self, source: str, blank: re.Pattern[str], trailing: bool, end: int) -> None:
        self._source = source
        self._blank = blank
        self._trailing = trailing
        self._end = end

    def __call__(self, start: int) -> Value:
        source, end = self._source, self._end
        # The containers that are open, each with the names of what they hold so far.
        stack: list[tuple[Value, str | None]] = []
        name: str | None = None
        at = self._skip(start)
        while True:
            letter = source[at] if at < end else ""
            if letter in ("{", "["):
                if len(stack) >= MAX_DEPTH:
                    raise self._error(at, f"is nested more than {MAX_DEPTH} deep")
                value = Value({} if letter == "{" else [], at, at)
                stack.append((value, name))
                at = self._skip(at + 1)
                if letter == "{":
                    at = self._members(value.data, at)
                if source.startswith("}" if letter == "{" else "]", at, end):
                    value.end = at + 1
                    at += 1
                    name = stack.pop()[1]
                elif letter == "{":
                    name, at = self._name(at)
                    continue
                else:
                    name = None
                    continue
            else:
                value = self._scalar(letter, at)
                at = value.end
            # A value is whole: give it to what holds it, and close what ends here.
            while True:
                if not stack:
                    if self._skip(at) != end:
                        raise self._error(self._skip(at), "goes on behind its value")
                    return value
                holder, outer = stack[-1]
                closing = "}" if isinstance(holder.data, dict) else "]"
                if isinstance(holder.data, dict):
                    assert name is not None
                    holder.data[name] = value
                else:
                    holder.data.append(value)
                at = self._skip(at)
                if source.startswith(",", at, end):
                    after = self._skip(at + 1)
                    if not (self._trailing and source.startswith(closing, after, end)):
                        at = after if closing == "]" else self._members(holder.data, after)
                        if at == after or not source.startswith("}", at, end):
                            if closing == "}":
                                name, at = self._name(at)
                            break
                    else:
                        at = after
                if not source.startswith(closing, at, end):
                    raise self._error(at, f"lacks a `,` or `{closing}`")
                holder.end = at = at + 1
                value, name = holder, outer
                stack.pop()

    def _members(self, data: dict[str, Value], at: int) -> int:
        """Read the members at ``at`` as far as each is one match; return where they end."""
        source, end = self._source, self._end
        while (match := _MEMBER.match(source, at, end)) is not None:
            name, text, word, number = match.groups()
            kind = match.lastindex
            assert kind is not None
            first, last = match.span(kind)
            if text is not None:
                content = _ESCAPE.sub(_unescaped, text) if "\\" in text else text
                data[name] = Value(content, first - 1, last + 1)
            else:
                data[name] = Value(_WORDS[word] if number is None else int(number), first, last)
            at = match.end()
        return at

    def _skip(self, at: int) -> int:
        # As a rule no blank stands here.
        if at < self._end and self._source[at] in _TOKENS:
            return at
        match = self._blank.match(self._source, at, self._end)
        assert match is not None
        return match.end()

    def _name(self, at: int) -> tuple[str, int]:
        match = _STRING.match(self._source, at, self._end)
        if match is None:
            raise self._error(at, "lacks a name in quotes")
        colon = self._skip(match.end())
        if not self._source.startswith(":", colon, self._end):
            raise self._error(colon, "lacks a `:`")
        return _content(match), self._skip(colon + 1)

    def _scalar(self, letter: str, at: int) -> Value:
        if letter == '"':
            match = _STRING.match(self._source, at, self._end)
            if match is None:
                raise self._error(at, "has a string that does not end, or holds what a string cannot")
            return Value(_content(match), at, match.end())
        for word, meaning in _WORDS.items():
            if self._source.startswith(word, at, self._end):
                return Value(meaning, at, at + len(word))
        match = _NUMBER.match(self._source, at, self._end)
        if match is None:
            raise self._error(at, "lacks a value")
        try:
            number = float(match[0]) if match[1] or match[2] else int(match[0])
        except ValueError:
            raise self._error(at, "has a number of too many digits") from None
        if isinstance(number, float) and not math.isfinite(number):
            raise self._error(at, "has a number that is too large")
        return Value(number, at, match.end())

    def _error(self, at: int, what: str) -> TabootError:
        line = self._source.count("\n", 0, at) + 1
        column = at - self._source.rfind("\n", 0, at)
        return TabootError(
            "E_PARSE", f"The JSON {what} (line {line}, column {column}).", line=line, column=column
        )


def _content(match: re.Match[str]) -> str:
    content = match[1]
    return _ESCAPE.sub(_unescaped, content) if "\\" in content else content
