"""Secrets that show by their form: tokens of services (``ghp_…``), hashes of passwords, private keys.

The shapes of tokens are data, in ``token_shapes.txt``. One automaton finds the literal part of any of them in
one pass over a text (Aho and Corasick 1975, doi:10.1145/360825.360855), and only there the whole shape is
tried, so that the time does not grow with their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import pairwise, product

from ahocorasick_rs import AhoCorasick, MatchKind

from taboot_pipelines.documents.secrets.places import Positions
from taboot_pipelines.documents.secrets.values import Span, is_no_secret

_ALPHABETS = {
    "d": "0-9",
    "h": "0-9a-f",
    "H": "0-9a-fA-F",
    "l": "0-9a-z",
    "u": "0-9A-Z",
    "a": "0-9A-Za-z",
    "b": "0-9A-Za-z+/",
    "w": r"0-9A-Za-z_\-",
    "v": r"0-9A-Za-z_.~\-",
    "p": r"0-9A-Za-z_.~+/=%\-",
}
_PART = re.compile(r"<([^<>]+)>|([^<>]+)")
_RUN = re.compile(r"([dhHluabwvp])(\d+)(?:(=)|-(\d+))?")
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
#: How long a part without an upper bound may be, within a shape and at its end. The first bounds the work
#: where a shape does not match; after the second the rest of a token stays.
_MAX_INNER = 300
_MAX_LAST = 8192
#: How many places are tried as the begin of a token whose mark is further on.
_MAX_LEADS = 8
#: The checks that a token passes by what its variable part has.
_VARIETY = ("mixed", "digit")
#: What may stand before a token: no letter or digit, unless that belongs to an escape (``\n``, ``%3D``).
_BEFORE = (
    r"(?:(?<![0-9A-Za-z])|(?<=\\[nrtbf])|(?<=%[0-9a-fA-F]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=\\x[0-9a-fA-F]{2}))"
)


@dataclass
class _Shape:
    """One shape without choices: the patterns around its longest literal, ``mark``."""

    mark: str
    head: str
    tail: str
    #: The literal that the head begins with, or ''.
    lead: str
    #: What else must hold of it, by the word at the end of its line.
    check: str
    #: How many code points may stand before the mark.
    reach: int
    #: What the characters beside the mark must be among; None: anything.
    left: frozenset[str] | None
    right: frozenset[str] | None

    @cached_property
    def in_all(self) -> re.Pattern[str]:
        """The mark before the rest of the shape, to be searched for in a whole text."""
        return re.compile(f"{re.escape(self.mark)}(?={self.tail})")

    @cached_property
    def _head(self) -> re.Pattern[str]:
        alone = r"(?<![0-9A-Za-z_.\-])" if self.check == "alone" else ""
        return re.compile(rf"{_BEFORE}{alone}{self.head}\Z")

    @cached_property
    def _tail(self) -> re.Pattern[str]:
        return re.compile(self.tail)

    def match(self, text: str, start: int, end: int, barren: dict[int, int]) -> Span | None:
        """Where the token stands whose mark is at ``[start, end)``. ``barren``: for each shape the
        end of the last run that lacked what its check demands, so that no part of it is read again."""
        if end < barren.get(id(self), 0):
            return None
        if not self.reach and text[max(0, start - 6) : start].isalnum() and text[start - 1].isascii():
            return None  # in the midst of a word, and after no escape
        if self.check == "alone" and not self._head.search(text, start, start):
            return None
        after = self._tail.match(text, end) if not self.lead or self._find_head(text, start) else None
        if after is None or (found := self._find_head(text, start)) is None:
            return None
        stop = after.end()
        while text[stop - 1] == ".":  # the end of a sentence
            stop -= 1
        begin = end if self.mark.endswith("=") and not self.reach else found.start()
        if not self._holds(text[found.start() : start] + text[end:stop]):
            barren[id(self)] = max(stop, barren.get(id(self), 0))
            return None
        return begin, stop

    def _find_head(self, text: str, start: int) -> re.Match[str] | None:
        """What stands before the mark at ``start``, if it belongs to the shape."""
        floor = max(0, start - self.reach)
        if not self.lead:
            return self._head.search(text, floor, start)
        at = start
        for _ in range(_MAX_LEADS):
            at = text.rfind(self.lead, floor, at)
            if at < 0:
                return None
            if found := self._head.match(text, at, start):
                return found
        return None

    def _holds(self, body: str) -> bool:
        """Whether the variable part is what the line's last word demands."""
        if self.check not in _VARIETY:
            return True
        digit = any("0" <= c <= "9" for c in body)
        return digit and (self.check == "digit" or (body.lower() != body and body.upper() != body))


@dataclass(frozen=True, slots=True)
class _Mark:
    """The shapes that have one mark, and what must stand beside it in any of them; None: anything."""

    shapes: list[_Shape]
    left: frozenset[str] | None
    right: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class _Table:
    """``marks`` are what the automaton finds; shapes whose marks stand everywhere are ``searched`` for."""

    automaton: AhoCorasick
    marks: list[_Mark]
    searched: list[_Shape]


def tokens(text: str) -> list[Span]:
    """Spans of the tokens in ``text``, in no order."""
    table = _table()
    barren: dict[int, int] = {}
    found = [
        span
        for shape in table.searched
        for m in shape.in_all.finditer(text)
        if (span := shape.match(text, m.start(), m.end(), barren)) is not None
    ]
    begun = done = 0
    for index, start, end in table.automaton.find_matches_as_indexes(text, overlapping=True):
        mark = table.marks[index]
        if (
            (start < done and start != begun)  # a mark may be the begin of a longer one
            or (mark.right is not None and text[end : end + 1] not in mark.right)
            or (mark.left is not None and (not start or text[start - 1] not in mark.left))
        ):
            continue
        for shape in mark.shapes:
            span = shape.match(text, start, end, barren)
            if span is not None and span[1] > done:
                found.append(span)
                begun, done = start, span[1]
    return found


@cache
def _table() -> _Table:
    by_mark: dict[str, list[_Shape]] = {}
    lines = files("taboot_pipelines.documents.secrets").joinpath("token_shapes.txt").read_text("utf-8")
    for line in lines.splitlines():
        if line and not line.startswith("#"):
            _, template, *check = line.split()
            for shape in _shapes(template, check[0] if check else ""):
                by_mark.setdefault(shape.mark, []).append(shape)
    searched = [shape for mark in list(by_mark) if len(mark) == 1 for shape in by_mark.pop(mark)]
    marks = [
        _Mark(shapes, _any_of([s.left for s in shapes]), _any_of([s.right for s in shapes]))
        for shapes in by_mark.values()
    ]
    return _Table(AhoCorasick(list(by_mark), matchkind=MatchKind.Standard), marks, searched)


def _any_of(sets: list[frozenset[str] | None]) -> frozenset[str] | None:
    known = [s for s in sets if s is not None]
    return frozenset(c for s in known for c in s) if len(known) == len(sets) else None


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
        patterns = [_pattern(piece, after) for piece, after in pairwise([*pieces, ""])]
        head, tail = patterns[:at], patterns[at + 1 :]
        yield _Shape(
            pieces[at],
            "".join(p for p, _ in head),
            "".join(p for p, _ in tail),
            "" if pieces[0].startswith("<") or not at else pieces[0],
            check,
            sum(width for _, width in head),
            _letters(pieces[at - 1]) if at else None,
            _letters(pieces[at + 1]) if tail else None,
        )


def _letters(piece: str) -> frozenset[str] | None:
    """What a run of an alphabet may begin and end with; None for what is no run."""
    run = _RUN.fullmatch(piece[1:-1])
    if not piece.startswith("<") or run is None or run[2] == "0":
        return None
    return frozenset(filter(re.compile(f"[{_ALPHABETS[run[1]]}]").match, map(chr, range(128))))


def _pattern(piece: str, after: str) -> tuple[str, int]:
    """A piece of a shape as a regular expression, and how long its match may be. ``after``: the next piece;
    where there is none, more of an alphabet must not follow."""
    if piece == "<g>":
        return _UUID, 36
    run = _RUN.fullmatch(piece[1:-1])
    if not piece.startswith("<") or run is None:
        return re.escape(piece), len(piece)
    letters, least = _ALPHABETS[run[1]], int(run[2])
    if run[3] or run[4]:
        most = int(run[4] or run[2])
        return f"[{letters}]{{{least},{most}}}" + ("" if after else f"={{0,3}}(?![{letters}])"), most
    if not after:
        return f"[{letters}]{{{least},{_MAX_LAST}}}+={{0,3}}", _MAX_LAST
    # Nothing is given back to what cannot begin the next piece.
    possessive = "" if after.startswith("<") or re.match(f"[{letters}]", after) else "+"
    return f"[{letters}]{{{least},{_MAX_INNER}}}{possessive}", _MAX_INNER


#: In Compose files each dollar of a hash is doubled.
_D = r"\$\$?"
_HASH = re.compile(
    rf"{_D}2[abxy]?{_D}[0-9]{{2}}{_D}[./A-Za-z0-9]{{53}}"
    rf"|{_D}(?:apr1|sha1){_D}[./A-Za-z0-9]{{1,16}}{_D}[./A-Za-z0-9$]{{22,64}}"
    rf"|{_D}[1567y]{_D}(?:rounds=[0-9]{{1,9}}{_D})?[./A-Za-z0-9$]{{1,60}}\$[./A-Za-z0-9]{{22,128}}"
    rf"|{_D}argon2(?:id|i|d){_D}v=[0-9]{{1,4}}{_D}[A-Za-z0-9,=]{{1,60}}"
    rf"{_D}[A-Za-z0-9+/]{{8,128}}{_D}[A-Za-z0-9+/]{{16,256}}"
    rf"|{_D}(?:scrypt|pbkdf2)[a-z0-9-]{{0,12}}{_D}[A-Za-z0-9,=./+$]{{20,512}}"
    r"|pbkdf2[_:]sha(?:1|256|512)[$:][0-9]{1,9}\$[A-Za-z0-9+/=]{1,128}\$[A-Za-z0-9+/=]{20,256}"
    r"|scrypt:[0-9]{1,9}:[0-9]{1,4}:[0-9]{1,4}\$[A-Za-z0-9+/=]{1,128}\$[A-Za-z0-9+/=]{20,512}"
    r"|(?i:scram-sha-)(?:1|256|512)\$[0-9]{1,9}:[A-Za-z0-9+/=]{4,128}\$[A-Za-z0-9+/=:]{20,512}"
    r"|\{(?i:ssha|sha|smd5|md5|crypt|pbkdf2|argon2)[0-9a-zA-Z-]{0,12}\}[A-Za-z0-9+/=$.]{20,512}"
)
_HASH_MARKS = (
    *(f"${scheme}$" for scheme in ("2", "2a", "2b", "2x", "2y", "apr1", "sha1", "1", "5", "6", "7", "y")),
    "$argon2",
    "$scrypt",
    "$pbkdf2",
    "pbkdf2_sha",
    "pbkdf2:sha",
    "scrypt:",
    "scram-sha-",
    "{ssha",
    "{sha",
    "{smd5",
    "{md5",
    "{crypt",
    "{pbkdf2",
    "{argon2",
)

_PEM = re.compile(r"-----BEGIN([A-Z0-9 _-]{0,100}PRIVATE KEY(?: BLOCK)?| OpenVPN Static key V1)-----")
_PEM_LINE = re.compile(r"[^\r\n]+")
_PEM_BODY = re.compile(r"(?:\\r)?(?:\\n|[ \t\r\n\"'+,\\])*[A-Za-z0-9+/=:\-]{1,128}")
_PEM_TOKEN = re.compile(r"[A-Za-z0-9+/=:\-]{1,128}\Z")
_MAX_PEM = 65536
_PEM_MARK = "-----begin"
#: A key of PuTTY: how many lines of base64 follow.
_PUTTY = re.compile(
    r"Private-Lines:[ \t]{0,4}([0-9]{1,3})[ \t]{0,4}\r?\n((?:[A-Za-z0-9+/=]{1,80}\r?\n?){1,200})", re.I
)
_PUTTY_MARK = "private-lines:"
#: No secret by itself, but it tells one person's devices from all others wherever they are.
_PEER = re.compile(r"PublicKey[ \t]{0,20}=[ \t]{0,20}([A-Za-z0-9+/]{43}=)(?![A-Za-z0-9+/=])", re.I)
_PEER_MARK = "publickey"

MARKS = (*_HASH_MARKS, _PEM_MARK, _PUTTY_MARK, _PEER_MARK)


def shaped(text: str, positions: Positions) -> Iterator[Span]:
    """Spans of such credentials in ``text``, in no order."""
    for mark in _HASH_MARKS:
        for at in positions.get(mark, ()):
            if m := _HASH.match(text, at - (mark[0] == text[at - 1 : at] == "$")):
                yield m.span()
    for at in positions.get(_PUTTY_MARK, ()):
        if m := _PUTTY.match(text, at):
            yield from (
                (m.start(2) + line.start(), m.start(2) + line.end()) for line in _PEM_LINE.finditer(m[2])
            )
    for at in positions.get(_PEER_MARK, ()):
        if m := _PEER.match(text, at):
            yield m.span(1)
    if positions.get(_PEM_MARK):
        yield from _private_keys(text)


def _private_keys(text: str) -> Iterator[Span]:
    """The bodies of private keys in PEM, line by line; one that never ends, as far as it looks like a key."""
    at = 0
    closing = 0
    while m := _PEM.search(text, at):
        if closing < m.end():  # each end mark is looked for once
            closing = text.find("-----END", m.end())
            closing = closing if closing >= 0 else len(text)
        if closing - m.end() <= _MAX_PEM and text.startswith(f"{m[1]}-----", closing + len("-----END")):
            # In a string literal the line ends are written as `\n`, and are masked with the rest.
            for line in _PEM_LINE.finditer(text, m.end(), closing):
                content = line[0].strip(" \t")
                begin = line.start() + len(line[0]) - len(line[0].lstrip(" \t"))
                if not is_no_secret(content, literal=True):  # `<redacted>`
                    yield begin, begin + len(content)
            at = closing
            continue
        at = m.end()
        while (body := _PEM_BODY.match(text, at)) and at - m.end() < _MAX_PEM:
            token = _PEM_TOKEN.search(body[0])
            if token is None or text.startswith("-----", body.end() - len(token[0])):
                break
            yield body.end() - len(token[0]), body.end()
            at = body.end()
