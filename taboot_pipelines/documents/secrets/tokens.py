"""Tokens of services, known by their shape alone (``ghp_…``, ``sk_live_…``).

The shapes are data, in ``token_shapes.txt``. One automaton finds the literal part of any of them in one pass
over a text (Aho and Corasick 1975), and only there the whole shape is tried, so that the time does not grow
with their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import product

from ahocorasick_rs import AhoCorasick, MatchKind

from taboot_pipelines.documents.secrets.spans import Span

_ALPHABETS = {
    "d": "0-9",
    "h": "0-9a-f",
    "H": "0-9a-fA-F",
    "x": "0-9a-hA-H",
    "l": "0-9a-z",
    "u": "0-9A-Z",
    "a": "0-9A-Za-z",
    "b": "0-9A-Za-z+/",
    "w": r"0-9A-Za-z_\-",
    "v": r"0-9A-Za-z_.~\-",
    "p": r"0-9A-Za-z_.~+/=%\-",
}
_PART = re.compile(r"<([^<>]+)>|([^<>]+)")
_RUN = re.compile(r"([dhHxluabwvp])(\d+)(?:(=)|-(\d+))?")
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
#: How long a part without an upper bound may be, within a shape and at its end. The first bounds the work
#: where a shape does not match; after the second the rest of a token stays.
_MAX_INNER = 300
_MAX_LAST = 8192
#: What may stand before a token: no letter or digit, unless that belongs to an escape (``\n``, ``%3D``).
_BEFORE = (
    r"(?:(?<![0-9A-Za-z])|(?<=\\[nrtbf])|(?<=%[0-9a-fA-F]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=\\x[0-9a-fA-F]{2}))"
)


@dataclass
class _Shape:
    """One shape without choices: the patterns around its longest literal ``mark``."""

    mark: str
    head: str
    tail: str
    check: str
    #: How many code points may stand before the mark.
    reach: int

    @cached_property
    def _head(self) -> re.Pattern[str]:
        return re.compile(rf"{_BEFORE}{self.head}\Z")

    @cached_property
    def _tail(self) -> re.Pattern[str]:
        return re.compile(self.tail)

    def match(self, text: str, at: int) -> Span | None:
        """Where the token stands whose mark is at ``at``."""
        before = text[at - 1] if at else ""
        if not self.reach and before.isalnum() and before.isascii() and text[max(0, at - 6) : at].isalnum():
            return None
        after = self._tail.match(text, at + len(self.mark))
        if after is None:
            return None
        found = self._head.search(text, max(0, at - self.reach), at)
        if found is None:
            return None
        end = after.end()
        while text[end - 1] == ".":  # the end of a sentence
            end -= 1
        body = text[found.start() : at] + text[at + len(self.mark) : end]
        if self.check and not _passes(body, self.check):
            return None
        start = at + len(self.mark) if self.mark.endswith("=") and not self.reach else found.start()
        return start, end


def _passes(body: str, check: str) -> bool:
    digit = any("0" <= c <= "9" for c in body)
    return digit and (check == "digit" or (body.lower() != body and body.upper() != body))


def tokens(text: str) -> list[Span]:
    """Spans of the tokens in ``text``, ascending; they may touch but do not overlap."""
    automaton, shapes = _table()
    found: list[Span] = []
    done = 0
    for index, start, _ in automaton.find_matches_as_indexes(text, overlapping=True):
        if start < done:
            continue
        for shape in shapes[index]:
            span = shape.match(text, start)
            if span is not None and span[0] >= done:
                found.append(span)
                done = span[1]
                break
    return found


@cache
def _table() -> tuple[AhoCorasick, list[list[_Shape]]]:
    """The automaton of all marks, and for each mark its shapes."""
    by_mark: dict[str, list[_Shape]] = {}
    lines = files("taboot_pipelines.documents.secrets").joinpath("token_shapes.txt").read_text("utf-8")
    for line in lines.splitlines():
        if line and not line.startswith("#"):
            _, template, *check = line.split()
            for shape in _shapes(template, check[0] if check else ""):
                by_mark.setdefault(shape.mark, []).append(shape)
    return AhoCorasick(list(by_mark), matchkind=MatchKind.Standard), list(by_mark.values())


def _shapes(template: str, check: str) -> Iterator[_Shape]:
    """The shapes of a line, one for each way to choose its words."""
    parts: list[list[str]] = []
    for m in _PART.finditer(template):
        if m[2]:
            parts.append([m[2]])
        elif m[1] == "g" or _RUN.fullmatch(m[1]):
            parts.append([f"<{m[1]}>"])
        else:
            parts.append(m[1].split("|"))
    for chosen in product(*parts):
        # Literals that have come together are one.
        pieces = re.findall(r"<[^<>]+>|[^<>]+", "".join(chosen))
        at = max(range(len(pieces)), key=lambda i: (not pieces[i].startswith("<"), len(pieces[i]), i))
        head = [_pattern(p, last=False) for p in pieces[:at]]
        rest = pieces[at + 1 :]
        tail = [_pattern(p, last=i == len(rest) - 1) for i, p in enumerate(rest)]
        yield _Shape(
            pieces[at],
            "".join(p for p, _ in head),
            "".join(p for p, _ in tail),
            check,
            sum(width for _, width in head),
        )


def _pattern(piece: str, last: bool) -> tuple[str, int]:
    """A piece of a shape as a regular expression, and how long its match may be. ``last``: it ends the shape,
    so that more of its alphabet must not follow."""
    if piece == "<g>":
        return _UUID, 36
    run = _RUN.fullmatch(piece[1:-1])
    if not piece.startswith("<") or run is None:
        return re.escape(piece), len(piece)
    letters, least = _ALPHABETS[run[1]], int(run[2])
    if run[3] or run[4]:
        most = int(run[4] or run[2])
        return f"[{letters}]{{{least},{most}}}" + (f"={{0,3}}(?![{letters}])" if last else ""), most
    if last:
        return f"[{letters}]{{{least},{_MAX_LAST}}}+={{0,3}}", _MAX_LAST
    return f"[{letters}]{{{least},{_MAX_INNER}}}", _MAX_INNER
