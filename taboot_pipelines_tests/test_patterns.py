"""Possessive groups match in every Python as atomic ones do.

Before Python 3.11.5 a possessive group whose last try fails goes on from where that try had come to (CPython
issue 106052). A group that ends with an empty alternative has no try that fails.
"""

import importlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import taboot_pipelines

_PACKAGE = Path(taboot_pipelines.__file__).parent
_POSSESSIVE = re.compile(r"\)[*+?]\+")
#: The modules in whose text a possessive group stands.
_MODULES = [
    ".".join(file.relative_to(_PACKAGE.parent).with_suffix("").parts)
    for file in sorted(_PACKAGE.rglob("*.py"))
    if _POSSESSIVE.search(file.read_text())
]


def _groups(source: str) -> Iterator[str]:
    """The possessive groups of a pattern, innermost first, each with its quantifier: ``(…)*+``."""
    opened: list[int] = []
    for sign in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", source, re.DOTALL):
        if sign[0] == "(":
            opened.append(sign.start())
        elif sign[0] == ")":
            start = opened.pop()
            if _POSSESSIVE.match(source, sign.start()):
                yield source[start : sign.end() + 2]


@pytest.mark.parametrize("module", _MODULES)
def test_possessive_groups_match_as_atomic_ones(module):
    for pattern in vars(importlib.import_module(module)).values():
        if isinstance(pattern, re.Pattern):
            source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
            for group in _groups(source):
                _compare(group, pattern.flags & ~re.UNICODE)


def _compare(group: str, flags: int) -> None:
    possessive, atomic = re.compile(group, flags), re.compile(f"(?>{group[:-1]})", flags)
    signs = [*[sign for sign in "\"'\\[]/*-.{$#u\u0301" if sign in group][:6], "a"]
    for length in range(6):
        for text in map("".join, itertools.product(signs, repeat=length)):
            found, expected = possessive.match(text), atomic.match(text)
            assert (found and found.span()) == (expected and expected.span()), (group, text)
