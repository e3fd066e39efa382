"""Which rule of a robots.txt decides on a path: the one of the longest pattern (RFC 9309 §2.2.2, §2.2.3).

Escapes are compared as the RFC says, whatever they stand for; only a slash of the path is never its escape
(RFC 3986 §2.2), in the query it is. Google's parser undoes no escape of a letter, a digit or ``-._~``: where
that is another verdict, the stricter of the two holds.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from typing import NamedTuple

_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")
#: An escape of a character that needs none.
_PLAIN_ESCAPE = re.compile(r"%(?:2[DEde]|3\d|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
#: A percent sign that begins no escape.
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
#: What is special in a pattern, where it stands for itself.
_LITERAL = str.maketrans({"*": "\x01", "$": "\x02"})


def has_plain_escapes(text: str) -> bool:
    """Whether a pattern or path escapes what needs no escape (RFC 3986 §2.3)."""
    return _PLAIN_ESCAPE.search(text) is not None


class _Rule(NamedTuple):
    """A pattern: the texts between its stars, and whether the last one ends the target."""

    texts: tuple[str, ...]
    ends: bool
    allow: bool

    def matches(self, target: str) -> bool:
        """In time linear in ``target`` for each text: the first place where a text fits is the best."""
        first, *others = self.texts
        if not target.startswith(first):
            return False
        if not others:
            return not self.ends or len(target) == len(first)
        at = len(first)
        *inner, last = others
        for text in inner:
            at = target.find(text, at)
            if at < 0:
                return False
            at += len(text)
        if self.ends:
            return len(target) - at >= len(last) and target.endswith(last)
        return target.find(last, at) >= 0


class PathRules:
    """Rules in the order in which they decide: the longest pattern first, of two as long the one that
    allows."""

    def __init__(self, lines: Iterable[tuple[str, str]], *, plain: bool) -> None:
        self._plain = plain
        #: A bare percent sign is the beginning of any escape, as Google reads it.
        self._as_written = False
        found: list[tuple[int, _Rule]] = []
        for name, value in lines:
            if name not in ("allow", "disallow") or not value:
                continue
            allow = name == "allow"
            patterns = [value]
            self._as_written = self._as_written or _BARE_PERCENT.search(value) is not None
            before, slash, page = value.rpartition("/")
            if allow and slash and page.startswith("index.htm"):
                patterns.append(f"{before}/$")
            for pattern in patterns:
                ends = pattern.endswith("$")
                text = pattern[: len(pattern) - ends].replace("$", "\x02")
                for form in _forms(text, plain=plain):
                    rule = _Rule(tuple(re.sub(r"\*+", "*", form).split("*")), ends, allow)
                    found.append((len(pattern), rule))
        found.sort(key=lambda pair: (-pair[0], not pair[1].allow))
        self._rules = [rule for _, rule in found]
        #: What a target must begin with for any rule to match.
        self._beginnings = tuple({rule.texts[0] for rule in self._rules})

    def allow(self, target: str) -> bool:
        """Whether the rules open ``target``, the path and query of a URL in its normal form."""
        if "%" in target or "*" in target or "$" in target:
            target = target.translate(_LITERAL)
            targets = _forms(target, plain=self._plain)
            if self._as_written:
                targets += (_ESCAPE.sub(lambda m: m[0].upper(), target),)
        else:
            targets = (target,)
        if not any(t.startswith(self._beginnings) for t in targets):
            return True
        for rule in self._rules:
            for text in targets:
                if rule.matches(text):
                    return rule.allow
        return True


def _forms(text: str, *, plain: bool) -> tuple[str, ...]:
    """A path or pattern with its escapes in one form: undone, except of slashes and of what is no visible
    ASCII, and unless ``plain`` of what needs none. A second form has the slashes of the query undone too."""
    if "%" not in text:
        return (text,)

    def undone(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        kept = not "!" <= character <= "~" or character in "#%/" or (character in _UNRESERVED and not plain)
        return match[0].upper() if kept else character.translate(_LITERAL)

    form = _ESCAPE.sub(undone, text)
    path, mark, query = form.partition("?")
    other = f"{path}{mark}{query.replace('%2F', '/')}"
    return (form,) if form == other else (form, other)
