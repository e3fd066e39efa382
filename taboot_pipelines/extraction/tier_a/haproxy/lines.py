"""HAProxy's configuration as words: quoting, environment variables and conditional blocks (the manual's
chapter 2, "Configuring HAProxy").

Outside of single quotes ``\\`` escapes one character, and within double quotes and bare words ``$NAME``,
``${NAME}`` and ``${NAME-default}`` stand for variables of the environment. Those that the file itself sets
(``setenv``, ``presetenv``) are known; any other is a :data:`UNKNOWN` character in the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.texts import UNKNOWN

#: Longest line, and most lines, that are read.
MAX_LINE = 65_536
MAX_LINES = 500_000

_LINE = re.compile(r"[^\n]*\n?")
_PLAIN = re.compile(r"[^\s\\\"'#$]+")
_SPECIAL = re.compile(r"[\\\"'#$]")
_VARIABLE = re.compile(
    r"\$(?:\{(?P<name>[A-Za-z0-9_]+)(?P<list>\[\*\])?(?:-(?P<default>[^}]*))?\}|(?P<bare>[A-Za-z0-9_]+))"
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Line:
    """The words of a line, at code points ``[start, end)`` without its comment."""

    words: tuple[str, ...]
    start: int
    end: int

    @property
    def unknown(self) -> bool:
        return any(UNKNOWN in word for word in self.words)


class Broken(Exception):
    """A line that HAProxy would refuse. ``args``: the offset of the line and what is wrong."""


def split(text: str, start: int, end: int, variables: dict[str, str]) -> Line:
    """The words of ``text[start:end]``. Raises :class:`Broken` for a quote that nothing closes."""
    if _SPECIAL.search(text, start, end) is None:
        return Line(tuple(text[start:end].split()), start, end)
    words: list[str] = []
    word: list[str] | None = None
    at, last = start, start
    quoted = False
    while at < end:
        c = text[at]
        if not quoted and c == "#":
            break
        if not quoted and c.isspace():
            if word is not None:
                words.append("".join(word))
                word = None
            at += 1
            continue
        word = [] if word is None else word
        if c == '"':
            quoted = not quoted
            at += 1
        elif c == "'" and not quoted:
            close = text.find("'", at + 1, end)
            if close < 0:
                raise Broken(start, "a quote is not closed")
            word.append(text[at + 1 : close])
            at = close + 1
        elif c == "\\" and at + 1 < end:
            escaped = text[at + 1]
            if escaped == "x" and re.fullmatch(r"[0-9A-Fa-f]{2}", text[at + 2 : at + 4]):
                word.append(chr(int(text[at + 2 : at + 4], 16)))
                at += 4
            elif quoted and escaped not in "\\\"'$ #nrt":
                word.append(text[at : at + 2])
                at += 2
            else:
                word.append(_ESCAPES.get(escaped, escaped))
                at += 2
        elif c == "$" and (match := _VARIABLE.match(text, at, end)) is not None:
            name = match["name"] or match["bare"]
            default = match["default"]
            word.append(variables.get(name, UNKNOWN if default is None else default))
            at = match.end()
        else:
            plain = _PLAIN.match(text, at, end)
            stop = plain.end() if plain is not None else at + 1
            word.append(text[at:stop])
            at = stop
        last = at
    if quoted:
        raise Broken(start, "a quote is not closed")
    if word is not None:
        words.append("".join(word))
    return Line(tuple(words), start, max(last, start))


@dataclass(slots=True)
class _Branch:
    """An ``.if`` that is open: whether its lines count now, whether one of its branches did (None: that
    cannot be known), and whether the lines around it count."""

    active: bool
    taken: bool | None
    outer: bool


class Lines:
    """The lines of a file that are in force. ``problems``: (offset, code, what) of those that are not."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.variables: dict[str, str] = {}
        self.problems: list[tuple[int, str, str]] = []

    def __iter__(self) -> Iterator[Line]:
        text = self._text
        branches: list[_Branch] = []
        for number, match in enumerate(_LINE.finditer(text)):
            start, end = match.span()
            if number >= MAX_LINES:
                self.problems.append((start, "E_TOO_LARGE", f"the file has more than {MAX_LINES} lines."))
                return
            if end - start > MAX_LINE:
                self.problems.append((start, "E_TOO_LARGE", f"a line is longer than {MAX_LINE} characters."))
                continue
            while start < end and (text[start].isspace() or text[start] == "\ufeff"):
                start += 1
            while end > start and text[end - 1].isspace():
                end -= 1
            if start == end or text[start] == "#":
                continue
            try:
                line = split(text, start, end, self.variables)
            except Broken as error:
                self.problems.append((error.args[0], "E_PARSE", error.args[1]))
                continue
            if not line.words:
                continue
            if line.words[0] in (".if", ".elif", ".else", ".endif"):
                self._branch(line, branches)
            elif line.words[0].startswith("."):
                continue
            elif not branches or branches[-1].active:
                if line.words[0] in ("setenv", "presetenv") and len(line.words) > 2:
                    if line.words[0] == "setenv" or line.words[1] not in self.variables:
                        self.variables[line.words[1]] = line.words[2]
                elif line.words[0] == "unsetenv":
                    for name in line.words[1:]:
                        self.variables.pop(name, None)
                yield line
        if branches:
            self.problems.append((len(text), "E_PARSE", "an `.if` is not closed."))

    def _branch(self, line: Line, branches: list[_Branch]) -> None:
        word = line.words[0]
        if word == ".if":
            outer = not branches or branches[-1].active
            branch = _Branch(False, False, outer)
            branches.append(branch)
            self._take(branch, line)
        elif not branches:
            self.problems.append((line.start, "E_PARSE", f"`{word}` stands without `.if`."))
        elif word == ".endif":
            branches.pop()
        elif word == ".elif":
            self._take(branches[-1], line)
        else:
            branches[-1].active = branches[-1].outer and branches[-1].taken is False

    def _take(self, branch: _Branch, line: Line) -> None:
        value = self._holds(" ".join(line.words[1:]).strip())
        branch.active = branch.outer and branch.taken is False and value is True
        if branch.taken is False:
            branch.taken = value
            if value is None and branch.outer:
                what = "whether this block counts depends on where HAProxy runs; it is left out."
                self.problems.append((line.start, "E_UNRESOLVED", what))

    def _holds(self, condition: str) -> bool | None:
        """Whether a condition is true; None where that depends on the environment or the build, or where it
        has brackets around more than the arguments of a predicate."""
        alternatives = [self._all(part) for part in condition.split("||")]
        return True if True in alternatives else None if None in alternatives else False

    def _all(self, condition: str) -> bool | None:
        values = [self._one(part.strip()) for part in condition.split("&&")]
        return False if False in values else None if None in values else True

    def _one(self, condition: str) -> bool | None:
        positive = condition.lstrip("! ")
        negated = condition[: len(condition) - len(positive)].count("!") % 2 == 1
        value = self._predicate(positive)
        return None if value is None else value is not negated

    def _predicate(self, condition: str) -> bool | None:
        if not condition:
            return False
        if condition.isascii() and condition.isdigit():
            return condition.strip("0") != ""
        call = re.fullmatch(r"(\w+)\(([^()]*)\)", condition)
        if call is None or UNKNOWN in condition:
            return None
        arguments = [a.strip().strip("\"'") for a in call[2].split(",")]
        if call[1] == "defined":
            return True if arguments[0] in self.variables else None
        if call[1] in ("streq", "strneq") and len(arguments) == 2:
            return (arguments[0] == arguments[1]) is (call[1] == "streq")
        return None
