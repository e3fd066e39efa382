"""What HAProxy's ACLs say about the host and the path of a request.

A condition is alternatives of conjunctions of terms: names of ACLs, or ``{ … }`` written out, each perhaps
negated. A negated term, and one that is about neither host nor path, says nothing of where a request goes and
is passed over. Lines with the name of one ACL are alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.texts import UNKNOWN

#: The alternatives that one condition may multiply out to.
MAX_ALTERNATIVES = 256

_FETCH = re.compile(r"([A-Za-z0-9_.]+)(?:\(([^)]*)\))?")
_HOST = re.compile(
    r"(?i)(?:req\.|c?)?hdr(?P<how>_(?:beg|dir|dom|end|len|reg|sub|str))?|req\.fhdr|base_dom|hdr"
)
_SNI = re.compile(r"(?:ssl_fc_sni|req\.ssl_sni|req_ssl_sni)(?P<how>_(?:beg|dir|dom|end|reg|sub|str))?")
_PATH = re.compile(r"(?:path|pathq|url|capture\.req\.uri|base)(?P<how>_(?:beg|dir|dom|end|len|reg|sub|str))?")
#: Flags of a match that take a value.
_VALUED = frozenset({"-m", "-M", "-u"})


@dataclass(frozen=True, slots=True)
class Pattern:
    """Values of which one must match. ``kind``: ``host``, ``sni`` or ``path``; ``how``: ``str``, ``beg``, ….
    ``file``: the values stand in a file that is not followed."""

    kind: str
    how: str
    values: tuple[str, ...]
    file: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """What one alternative of a condition says. None: nothing."""

    hosts: tuple[str, ...] | None = None
    places: tuple[tuple[str, str | None], ...] | None = None
    sni: bool = False
    #: A part of it cannot be known from the files.
    unknown: bool = False

    def both(self, other: Alternative) -> Alternative:
        return Alternative(
            _narrowed(self.hosts, other.hosts),
            self.places if other.places is None else other.places,
            self.sni or other.sni,
            self.unknown or other.unknown,
        )


ANY = Alternative()


def _narrowed(mine: tuple[str, ...] | None, others: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if mine is None or others is None:
        return others if mine is None else mine
    return tuple(host for host in mine if host in others) or mine


def read_acl(words: Sequence[str]) -> Pattern | None:
    """The pattern of ``fetch [flags] values…``; None if it is about neither host nor path."""
    if not words:
        return None
    fetch, _, converters = words[0].partition(",")
    match = _FETCH.fullmatch(fetch)
    if match is None:
        return None
    name, argument = match[1], (match[2] or "").split(",")[0].strip().strip("\"'").lower()
    kind, how = "", ""
    if (m := _HOST.fullmatch(name)) is not None and argument == "host":
        kind, how = "host", m["how"] or ""
    elif (m := _SNI.fullmatch(name)) is not None:
        kind, how = "sni", m["how"] or ""
    elif (m := _PATH.fullmatch(name)) is not None and not argument:
        kind, how = "path", m["how"] or ""
    if not kind or any(
        c.strip().startswith(("map", "len", "hash", "crc", "sdbm")) for c in converters.split(",")
    ):
        return None
    how = how.removeprefix("_") or "str"
    values: list[str] = []
    file = False
    at = 1
    while at < len(words):
        word = words[at]
        if word == "--":
            values += words[at + 1 :]
            break
        if word.startswith("-") and len(word) == 2 and not values:
            if word == "-m" and at + 1 < len(words):
                how = words[at + 1]
            file = file or word == "-f"
            at += 2 if word in _VALUED or word == "-f" else 1
            continue
        values.append(word)
        at += 1
    if how in ("found", "len", "bool", "int", "ip", "bin"):
        return None
    return Pattern(kind, how, tuple(values), file)


def _said(pattern: Pattern) -> Alternative:
    known = tuple(v for v in pattern.values if UNKNOWN not in v and v and not any(map(str.isspace, v)))
    unknown = pattern.file or len(known) < len(pattern.values)
    if pattern.kind in ("host", "sni"):
        return Alternative(known or None, None, pattern.kind == "sni", unknown)
    places = tuple((_location(pattern.how, v), _literal(pattern.how, v)) for v in known)
    return Alternative(None, places or None, False, unknown)


def _location(how: str, value: str) -> str:
    return f"path {value}" if how == "str" else f"path_{how} {value}"


def _literal(how: str, value: str) -> str | None:
    if how == "dir":
        return f"/{value.strip('/')}"
    if how == "reg":
        match = re.match(r"\^((?:/[A-Za-z0-9_-]+)*/?)", value)
        rest = value[match.end() :] if match is not None else ""
        literal = match[1] if match is not None else ""
        if rest[:1] in ("?", "*", "{") or "|" in value:
            literal = literal[:-1] if "|" not in value else ""
        return literal or None
    return value if how in ("str", "beg") and value.startswith("/") else None


Acls = Mapping[str, Sequence[Pattern | None]]


def alternatives(words: Sequence[str], acls: Acls) -> list[Alternative] | None:
    """The alternatives of what stands behind ``if``; None where they are too many."""
    found: list[Alternative] = []
    current: list[Alternative] = [ANY]
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word in ("||", "or", "OR"):
            found += current
            current = [ANY]
            continue
        negated = False
        while word.startswith("!"):
            negated, word = not negated, word[1:]
            if not word and at < len(words):
                word, at = words[at], at + 1
        if word == "{":
            end = next((i for i in range(at, len(words)) if words[i] == "}"), len(words))
            patterns: Sequence[Pattern | None] = [read_acl(words[at:end])]
            at = end + 1
        else:
            patterns = acls.get(word, ())
        if negated or not patterns:
            continue
        said = list(dict.fromkeys(ANY if p is None else _said(p) for p in patterns))
        if len(current) * len(said) + len(found) > MAX_ALTERNATIVES:
            return None
        current = [a.both(b) for a in current for b in said]
    return [*found, *current]
