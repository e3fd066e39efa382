"""Variables: interpolation as the Compose specification has it, and files of ``NAME=value`` lines.

An environment maps a name to its value, or to None where the name is set but its value cannot be known. What
stays without a value is kept as written and named in the result: nothing is guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, Node

Environment = Mapping[str, str | None]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OPERATORS = (":-", ":?", ":+", "-", "?", "+")
_MAX_NESTING = 32
#: A value that grows beyond this (variables that double each other) counts as unknown.
_MAX_VALUE = 1_000_000


@dataclass(frozen=True, slots=True)
class Expanded:
    """``text`` with its variables replaced; those without a value stand in it as written, and are named in
    ``missing``."""

    text: str
    missing: tuple[str, ...] = ()
    #: False if a ``$`` starts nothing that is allowed; Compose refuses such a value.
    valid: bool = True


def expand(template: str, environment: Environment) -> Expanded:
    """Replace ``$NAME``, ``${NAME}``, the six operators (nested) and ``$$``."""
    if "$" not in template:
        return Expanded(template)
    state = _Expansion(environment)
    text, _ = state.run(template, 0, 0)
    if state.size > _MAX_VALUE:
        return Expanded(template, tuple(dict.fromkeys(state.missing)) or ("",))
    return Expanded(text, tuple(dict.fromkeys(state.missing)), state.valid)


_DEMAND = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):?\?[^{}]*\}", re.ASCII)


def unexplained(text: str) -> str:
    """A text with what is told to whom does not set a variable (``${NAME:?why}``) taken off: ``${NAME}``."""
    return _DEMAND.sub(r"${\1}", text)


class _Expansion:
    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.missing: list[str] = []
        self.valid = True
        self.size = 0

    def run(self, text: str, at: int, nesting: int) -> tuple[str, int]:
        """Expand from ``at`` to the end, or to the ``}`` that closes the surrounding ``${`` when nested."""
        out: list[str] = []
        n = len(text)
        brace = at - 1
        while at < n:
            dollar = text.find("$", at)
            if nesting:
                # Looked for again only when passed: so the cost stays linear with many variables in a word.
                brace = text.find("}", at) if brace < at else brace
                if brace < 0:
                    self.valid = False
                    out.append(text[at:])
                    return "".join(out), n
                if dollar < 0 or brace < dollar:
                    out.append(text[at:brace])
                    return "".join(out), brace + 1
            if dollar < 0:
                out.append(text[at:])
                return "".join(out), n
            out.append(text[at:dollar])
            value, at = self.variable(text, dollar, nesting)
            self.size += len(value)
            if self.size > _MAX_VALUE:
                return "", n
            out.append(value)
        if nesting:
            self.valid = False
        return "".join(out), n

    def variable(self, text: str, dollar: int, nesting: int) -> tuple[str, int]:
        after = text[dollar + 1 : dollar + 2]
        if after == "$":
            return "$", dollar + 2
        braced = after == "{"
        name_match = _NAME.match(text, dollar + 2 if braced else dollar + 1)
        if name_match is None or nesting >= _MAX_NESTING:
            self.valid = False
            return "$", dollar + 1
        name, end = name_match.group(), name_match.end()
        known = name in self.environment
        value = self.environment.get(name)
        if not braced:
            if value is None:
                self.missing.append(name)
                return text[dollar:end], end
            return value, end
        if text[end : end + 1] == "}":
            if value is None:
                self.missing.append(name)
                return text[dollar : end + 1], end + 1
            return value, end + 1
        operator = next((o for o in _OPERATORS if text.startswith(o, end)), None)
        if operator is None:
            self.valid = False
            return "$", dollar + 1
        # Variables missing in the branch that is not taken do not count.
        before, was_valid = len(self.missing), self.valid
        word, close = self.run(text, end + len(operator), nesting + 1)
        if not self.valid and was_valid:
            del self.missing[before:]
            return text[dollar:close], close
        raw = text[dollar:close]
        if known and value is None:
            del self.missing[before:]
            self.missing.append(name)
            return raw, close
        is_set = known and (value != "" or operator[0] != ":")
        if operator[-1] == "+":
            if is_set:
                return word, close
            del self.missing[before:]
            return "", close
        if is_set:
            del self.missing[before:]
            return value or "", close
        if operator[-1] == "?":
            del self.missing[before:]
            self.missing.append(name)
            return raw, close
        return word, close


_KEY = re.compile(r"[ \t]*(?:export[ \t]+)?([^\s=:#'\"]+)[ \t]*")
_ESCAPED = re.compile(r"\\(0[0-7]{3}|.)", re.DOTALL)
_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    '"': '"',
    "\\": "\\",
    # Handed on as ``$$``, which the expansion reads as a plain dollar.
    "$": "$$",
}


def parse_env(
    text: str, environment: Environment, earlier: Environment | None = None
) -> dict[str, str | None]:
    """The assignments of an ``.env`` file (or an ``env_file``), expanded from ``environment``, then from
    earlier lines, then from ``earlier`` files.

    Values: bare up to `` #``, single-quoted as they stand, double-quoted with escapes; quotes may span lines.
    A name without ``=`` is taken from ``environment``. Lines that are no assignment are passed over.
    """
    values: dict[str, str | None] = {}
    scope: dict[str, str | None] = {**(earlier or {}), **environment}
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    at, n = 0, len(text)
    while at < n:
        stop = text.find("\n", at)
        stop = n if stop < 0 else stop
        match = _KEY.match(text, at, stop)
        if match is None:
            at = stop + 1
            continue
        name, after = match.group(1), match.end()
        if after >= stop or text[after] == "#":
            if name in environment:
                values[name] = environment[name]
            at = stop + 1
            continue
        if text[after] not in "=:":
            at = stop + 1
            continue
        start = after + 1
        while start < stop and text[start] in " \t":
            start += 1
        quote = text[start : start + 1]
        close = _closing(text, start + 1, quote) if quote in ("'", '"') and start < stop else -1
        if close >= 0:
            body = text[start + 1 : close]
            value = body.replace("\\'", "'") if quote == "'" else _expanded(_unescape(body), scope)
            next_line = text.find("\n", close)
            stop = n if next_line < 0 else next_line
        else:
            value = _expanded(text[start:stop].partition(" #")[0].rstrip(), scope)
        # An expansion that lacks a value makes the variable set but unknown.
        values[name] = value
        if name not in environment:
            scope[name] = value
        at = stop + 1
    return values


def _closing(text: str, at: int, quote: str) -> int:
    while at < len(text):
        if text[at] == quote:
            return at
        at += 2 if text[at] == "\\" else 1
    return -1


def _unescape(body: str) -> str:
    return _ESCAPED.sub(
        lambda m: chr(int(m[1], 8) & 0xFF) if len(m[1]) == 4 else _ESCAPES.get(m[1], m[0]), body
    )


def _expanded(text: str, scope: Environment) -> str | None:
    result = expand(text, scope)
    if not result.valid:
        return text
    return None if result.missing else result.text


#: Go's integer literals; underscores have been taken out before.
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
#: Longer ones are numbers that nobody writes.
_MAX_DIGITS = 40


def resolved(node: Node) -> str:
    """The text of a scalar once its number or truth value is resolved; other scalars as they stand."""
    text = node.text
    if node.kind != SCALAR or not node.plain or node.tag is not None or not text:
        return text
    if text in ("True", "TRUE", "False", "FALSE"):
        return text.lower()
    if text[0] not in "+-.0123456789" or len(text) > _MAX_DIGITS:
        return text
    bare = text.replace("_", "")
    integer = _INTEGER.fullmatch(bare)
    if integer is not None and text not in ("-0", "+0"):
        for digits, base in zip(integer.groups()[1:], (16, 2, 8, 10), strict=True):
            if digits is not None and (value := int(integer[1] + digits, base)) < 1 << 64:
                return str(value)
    if _FLOAT.fullmatch(bare) is not None and math.isfinite(float(bare)):
        return repr(float(bare)).removesuffix(".0")
    return text
