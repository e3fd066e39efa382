"""The words by which people ask for a property of configuration, as tables.

A pattern is a regular expression over the question in lower case, with linked names and numbers masked
(``Question.masked``). Its words count as understood. The first that matches says what is asked, so the more
special stand first.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

from taboot_pipelines.model.stores import BROKERS, CACHES, DATABASES
from taboot_pipelines.packaged import word_list


class Property(NamedTuple):
    """A property of configuration files: the words that ask for it, the ends of key paths that hold it, and
    how an answer calls it (empty: by its key)."""

    pattern: re.Pattern[str]
    keys: tuple[str, ...]
    phrase: str


def _read_properties() -> tuple[Property, ...]:
    found = []
    for line in _lines("properties.txt"):
        called, _, pattern = line.partition(" : ")
        phrase, _, keys = called.rpartition(" | ")
        found.append(Property(_compiled(pattern.replace(".*", "(.*)")), tuple(keys.split(", ")), phrase))
    return tuple(found)


def _lines(name: str) -> list[str]:
    text = files("taboot_pipelines.retrieval.answering").joinpath(name).read_text("utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("# ")]


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w@])(?:{pattern})(?![\w@])")


PROPERTIES = _read_properties()

#: Words that stand beside a name and say what it names; to the kinds of things that it then may be.
LABELS = {
    "network": ("network",),
    "networks": ("network",),
    "service": ("service",),
    "services": ("service", "project"),
    "container": ("service",),
    "containers": ("service", "project"),
    "project": ("project",),
    "stack": ("project",),
    "namespace": ("project",),
    "compose": ("project", "file"),
    "example": ("project",),
    "setup": ("project",),
    "deployment": ("project",),
    "folder": ("project", "file"),
    "directory": ("project", "file"),
    "image": ("image", "service"),
    "host": ("host", "route"),
    "server": ("host", "service"),
    "machine": ("host",),
    "proxy": ("proxy", "service", "file", "route"),
    "conf": ("file", "service", "route"),
    "config": ("file", "service"),
    "file": ("file", "project"),
    "domain": ("route",),
    "subdomain": ("route",),
    "hostname": ("route", "host"),
}

#: Words that ask and join and say nothing of a thing or a property.
FILLER = word_list("taboot_pipelines.retrieval.answering", "filler.txt")

#: What people call a thing that services keep something in or pass on by, and the images by which it is one.
STORES = {
    "database": DATABASES,
    "databases": DATABASES,
    "db": DATABASES,
    "cache": CACHES,
    "broker": BROKERS,
    "queue": BROKERS | CACHES,
    **{product: frozenset([product]) for product in (*DATABASES, *CACHES, *BROKERS)},
}

#: Words that may stand beside one for a store and say no more of it.
STORE_NOUNS = frozenset(
    ["server", "servers", "engine", "instance", "backend", "message", "messages", "store"]
)

#: Who asks for these wants nothing that stands beside them.
SECRETS = frozenset(
    [
        "password",
        "passwords",
        "passphrase",
        "secret",
        "secrets",
        "token",
        "tokens",
        "credentials",
        "key",
        "keys",
    ]
)

#: Questions that facts of configuration do not answer: reasons, instructions, people, events.
_REACH = r"(?!(?:reach|access|open|visit|get to|find|connect to)\b)"
NOT_FACTS = re.compile(
    r"^(?:why|explain|describe"
    r"|who (?:wrote|made|maintains|invented|created|is responsible for the|do i|should)"
    rf"|how (?:do|can|should|would|could|did|might) (?:i|we|you|one|people) {_REACH}|how to {_REACH}"
    r"|should (?:i|we)|what (?:should|can|must) (?:i|we)|what to do|what happens (?:to|after|during)"
    r"|what is the (?:purpose|point|difference|reason|idea))"
)
