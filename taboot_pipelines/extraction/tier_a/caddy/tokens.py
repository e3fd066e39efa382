"""The words of a Caddyfile, each with its place, as Caddy's lexer splits them (its "Caddyfile Concepts").

Words are parted by blanks; ``"…"`` and backquotes hold blanks and line breaks, ``\\`` before a line break
joins lines, ``#`` at the beginning of a word begins a comment, ``<<WORD`` a text up to a line that begins
with that word. ``{$NAME}`` and ``{$NAME:default}`` are replaced before words are split; without a default the
variable stays as written, since the files do not tell it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError

#: Words of one unit, with everything that is imported.
MAX_TOKENS = 200_000

_BLANK = re.compile(r"(?:[ \t\r\ufeff]|\\\r?\n)+")
_VARIABLE = re.compile(r"\{\$([^}:\s]*)(?::([^}]*))?\}")
_BARE = re.compile(r"[^\s{\\]+")
_BAD_HEREDOC = re.compile(r"<<(?=[^\s<]*[^\sA-Za-z0-9_<-])[^\s<]+[ \t]*\r?\n")
_HEREDOC = re.compile(r"<<([A-Za-z0-9_-]+)[ \t]*\r?\n")


@dataclass(frozen=True, slots=True)
class Token:
    """A word at code points ``[start, end)`` of the file ``path``. ``line``: what is the same for the words
    of one line; ``first``: where that line's statement begins."""

    text: str
    path: str
    start: int
    end: int
    line: tuple[int, int]
    quoted: bool = False


def tokens(path: str, text: str, group: int) -> list[Token]:
    """The words of a file; ``group`` tells apart where it is put in place. Raises ``E_PARSE`` for a quote or
    a text that nothing closes, ``E_TOO_LARGE``."""
    found: list[Token] = []
    at, line, size = 0, 0, len(text)
    while at < size:
        c = text[at]
        if c == "\n":
            line += 1
            at += 1
            continue
        if (blank := _BLANK.match(text, at)) is not None:
            at = blank.end()
            continue
        if c.isspace():
            at += 1
            continue
        if c == "#":
            end = text.find("\n", at)
            at = size if end < 0 else end
            continue
        if len(found) >= MAX_TOKENS:
            raise TabootError("E_TOO_LARGE", f"{path} has more than {MAX_TOKENS} words.", path=path)
        start = at
        if c in '"`':
            word, at = _quoted(path, text, at, line)
            found.append(Token(_replaced(word) if c == '"' else word, path, start, at, (group, line), True))
            line += text.count("\n", start, at)
        elif text.startswith("<<<", at) or _BAD_HEREDOC.match(text, at) is not None:
            raise _fail(path, line, "the marker of a text (heredoc) is not a word")
        elif text.startswith("<<", at) and (heredoc := _HEREDOC.match(text, at)) is not None:
            word, at = _heredoc(path, text, heredoc, line)
            found.append(Token(word, path, start, at, (group, line), True))
            line += text.count("\n", start, at)
        else:
            word, at = _bare(text, at)
            for piece in word.split() or [word]:
                found.append(Token(piece, path, start, at, (group, line)))
    return found


def _fail(path: str, line: int, what: str) -> TabootError:
    return TabootError("E_PARSE", f"{path}, line {line + 1}: {what}.", path=path)


def _quoted(path: str, text: str, start: int, line: int) -> tuple[str, int]:
    quote = text[start]
    pieces: list[str] = []
    at = start + 1
    while True:
        end = text.find(quote, at)
        if end < 0:
            raise _fail(path, line, "a quote is not closed")
        if quote == '"' and text[end - 1] == "\\" and end - 1 >= at:
            pieces.append(text[at : end - 1] + quote)
            at = end + 1
            continue
        pieces.append(text[at:end])
        return "".join(pieces), end + 1


def _heredoc(path: str, text: str, opened: re.Match[str], line: int) -> tuple[str, int]:
    closed = re.compile(rf"^[ \t]*{re.escape(opened[1])}(?=\s|\Z)", re.MULTILINE).search(text, opened.end())
    if closed is None:
        raise _fail(path, line, "the end of a text (heredoc) is missing")
    return text[opened.end() : closed.start()].rstrip("\n"), closed.end()


def _bare(text: str, start: int) -> tuple[str, int]:
    """A word without quotes, its variables replaced by their defaults."""
    pieces: list[str] = []
    at, size = start, len(text)
    while at < size and not text[at].isspace():
        if text[at] == "\\" and text[at + 1 : at + 2] in ("\n", "\r"):
            break
        if (variable := _VARIABLE.match(text, at)) is not None:
            pieces.append(_value(variable))
            at = variable.end()
            continue
        plain = _BARE.match(text, at)
        end = plain.end() if plain is not None else at + 1
        pieces.append(text[at:end])
        at = end
    return "".join(pieces), at


def _value(variable: re.Match[str]) -> str:
    return variable[0] if variable[2] is None else variable[2]


def _replaced(text: str) -> str:
    return _VARIABLE.sub(_value, text) if "{$" in text else text
