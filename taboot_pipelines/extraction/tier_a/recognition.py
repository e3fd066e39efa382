"""Which format a configuration file has, told by its path, else by how it begins.

A format is asked for every file by :func:`recognise`: first every format by the path alone, in the order of
the list, then every format by the first :data:`MAX_HEAD` code points, in the same order. So a file that looks
like two formats is always the one named first, and what a name says goes over what the content looks like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from taboot_pipelines.model.records import EXAMPLE_ENDINGS, FileView, Interpretation, SourceFacts

#: Code points of a file's beginning that recognition looks at.
MAX_HEAD = 65_536

YAML = frozenset({"yaml", "yml"})
TOML = frozenset({"toml"})
JSON = frozenset({"json"})
#: Endings that say that a file is not in force, but an example, a template or a copy of one that was.
NOT_IN_FORCE = frozenset(
    {
        *EXAMPLE_ENDINGS,
        "tmpl",
        "tpl",
        "disabled",
        "bak",
        "old",
        "orig",
        "j2",
        "in",
        "save",
    }
)


class FormatReader(Protocol):
    """Says what a file of one format states; pure, and equal for equal input and version."""

    name: str
    #: Raise it when equal input would give other claims: the files of the format are then read again.
    version: str

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        """What the file at ``path`` states with those it takes in, as
        :meth:`~taboot_pipelines.knowledge.project_units.ProjectExtractor.interpret`. Files that it takes in,
        which are then no units of their own, are ``subordinates``."""
        ...


@dataclass(frozen=True)
class Format:
    """A format of configuration files. ``readers``: usually one; each says what it finds, such as one per
    family of Kubernetes resources."""

    name: str
    readers: tuple[FormatReader, ...]
    #: Whether the path alone says so, whatever the file holds.
    by_path: Callable[[str], bool] = lambda _path: False
    #: Whether the beginning of a file says so; it is asked of files with one of ``endings`` only.
    by_content: Callable[[str], bool] = lambda _head: False
    #: Endings in lower case, without the dot.
    endings: Collection[str] = frozenset()
    #: Whether its readers take a template of Ansible or Salt (``site.conf.j2``) for what it becomes.
    templates: bool = False
    #: Globs of files that have names of their own, or endings that no documents have, in lower case: sources
    #: that interpret take them too. A last segment without a wildcard would mean a directory as well.
    globs: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return ",".join(f"{reader.name}.{reader.version}" for reader in self.readers)

    def ending(self, path: str) -> str:
        """The ending that says what a file of this path holds."""
        plain = without_example(path)
        return ending(filled(plain) if self.templates else plain)


def worth_reading(formats: Sequence[Format]) -> Callable[[str], bool]:
    """Whether a file of a path may have one of these formats."""
    plain = frozenset(e for f in formats if not f.templates for e in f.endings)
    of_templates = frozenset(e for f in formats if f.templates for e in f.endings)

    def may_be(path: str) -> bool:
        bare = without_example(path)
        return (
            ending(bare) in plain
            or ending(filled(bare)) in of_templates
            or any(f.by_path(path) for f in formats)
        )

    return may_be


def recognise(formats: Sequence[Format], path: str, text: str) -> Format | None:
    """The format of a file; None if it has none of these."""
    named = next((f for f in formats if f.by_path(path)), None)
    if named is not None:
        return named
    head = text[:MAX_HEAD]
    return next((f for f in formats if f.ending(path) in f.endings and f.by_content(head)), None)


def base_name(path: str) -> str:
    """The last segment of a path."""
    return path.rsplit("/", 1)[-1]


def without_example(path: str) -> str:
    """The path of what a file is an example of, by the ending of its name; else its own."""
    return path.rpartition(".")[0] if ending(path) in EXAMPLE_ENDINGS else path


def filled(path: str) -> str:
    """The path of what a template becomes that Ansible or Salt fills in; of any other file its own."""
    return path.removesuffix(".j2")


def examples_of(path: str) -> list[str]:
    """The paths of what may be an example of a file, by the ending of its name."""
    return [f"{path}.{ending}" for ending in EXAMPLE_ENDINGS]


def ending(path: str) -> str:
    """What stands behind the last dot of a file's name, in lower case; ``""`` without one."""
    return base_name(path).rpartition(".")[2].lower() if "." in base_name(path) else ""


_TOP_KEY = re.compile(
    r"""^(?:- )?["']?([A-Za-z_][A-Za-z0-9_.-]*)["']?[ \t]*:(?=[ \t\r\n]|\Z)""", re.MULTILINE
)


def top_keys(head: str) -> frozenset[str]:
    """The keys at the left margin of a YAML text in block style."""
    return frozenset(_TOP_KEY.findall(head))
