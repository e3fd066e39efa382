"""The words that the rules for prose know, from text files beside the code."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from taboot_pipelines.packaged import word_list

_PACKAGE = "taboot_pipelines.extraction.tier_b"


@cache
def words(section: str) -> frozenset[str]:
    """The words of one section of ``lexicon.txt``. Raises ``KeyError`` for a section that is not there."""
    return _sections()[section]


@cache
def software() -> frozenset[str]:
    """Names of software that runs, in lower case."""
    return frozenset(name.replace("_", " ") for name in word_list(_PACKAGE, "software.txt"))


@cache
def no_services() -> frozenset[str]:
    """What is no service, in lower case, although it is written like a name."""
    return word_list(_PACKAGE, "not_services.txt")


@cache
def _sections() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in files(_PACKAGE).joinpath("lexicon.txt").read_text("utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            current = found.setdefault(line[1:-1], set())
        elif not line.startswith("#"):
            current.update(line.split())
    return {section: frozenset(own) for section, own in found.items()}
