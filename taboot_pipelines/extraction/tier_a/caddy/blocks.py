"""Statements of a Caddyfile: words of one line, with the block that the line opens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.caddy.tokens import Token
from taboot_pipelines.model.records import Evidence

#: Blocks inside blocks.
MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Statement:
    """``words`` without the brace that opens ``block`` (None: there is none)."""

    words: tuple[Token, ...]
    block: tuple[Statement, ...] | None

    @property
    def name(self) -> str:
        return self.words[0].text if self.words and not self.words[0].quoted else ""

    @property
    def args(self) -> tuple[Token, ...]:
        return self.words[1:]

    def where(self, word: Token) -> Evidence:
        """The smallest statement that says ``word``: this line, or the word alone where it was imported."""
        first, last = self.words[0], self.words[-1]
        if first.path == word.path == last.path and first.start <= word.start and word.end <= last.end:
            return Evidence(first.path, first.start, last.end)
        return Evidence(word.path, word.start, word.end)


def statements(words: Sequence[Token], path: str) -> list[Statement]:
    """The statements of a file. Raises ``E_PARSE`` for braces that do not match, ``E_TOO_LARGE`` for blocks
    nested deeper than :data:`MAX_DEPTH`."""
    open_: list[tuple[tuple[Token, ...], list[Statement]]] = []
    current: list[Statement] = []
    at = 0
    while at < len(words):
        end = at
        while end < len(words) and words[end].line == words[at].line:
            end += 1
        line = list(words[at:end])
        at = end
        while line and line[0].text == "}" and not line[0].quoted:
            if not open_:
                raise TabootError("E_PARSE", f"{path}: a brace closes nothing.", path=path)
            opener, outer = open_.pop()
            outer.append(Statement(opener, tuple(current)))
            current = outer
            line.pop(0)
        if not line:
            continue
        if line[-1].text == "{" and not line[-1].quoted:
            if len(open_) >= MAX_DEPTH:
                raise TabootError(
                    "E_TOO_LARGE", f"{path}: blocks are nested deeper than {MAX_DEPTH}.", path=path
                )
            open_.append((tuple(line[:-1]), current))
            current = []
        else:
            current.append(Statement(tuple(line), None))
    if open_:
        raise TabootError("E_PARSE", f"{path}: a block is not closed.", path=path)
    return current
