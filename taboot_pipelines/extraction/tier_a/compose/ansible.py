"""What Ansible puts into a Compose file that is a template: the variables of its role and of the inventory.

Ansible's documentation ("Variable precedence") says whose value counts: that of a role's ``vars``, else of
the inventory (``host_vars``, ``group_vars``), else of the role's ``defaults``. Of two values on one of these
levels it depends on the machine which it is, so none is told.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose.files import naming_folder
from taboot_pipelines.extraction.tier_a.texts import BAD_TEXT, Problems, variable_called, with_variables
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, Node, Origin, is_open, parse
from taboot_pipelines.model.records import FileView

#: Files of variables that one template looks at.
_MAX_FILES = 256
_VARIABLE = re.compile(r"\$\{(\w+)\}")
#: A variable that is set to another, and how many of these are followed.
_ANOTHER = re.compile(r"\{\{ *(\w+) *\}\}")
_MAX_STEPS = 8


def variable_files(path: str, view: FileView) -> tuple[tuple[str, ...], ...]:
    """The files that may say what is put into a template at ``path``, by level, those that count most first.
    What is looked for goes through the view, so that a file's appearance counts."""
    directory = posixpath.dirname(path)
    role = naming_folder(directory)
    inventory = (f"**/{of}_vars/{inside}*.y*ml" for of in ("host", "group") for inside in ("", "*/"))
    own = [[f"{role}/{folder}/**"] if role != directory else [] for folder in ("vars", "defaults")]
    levels = (own[0], list(inventory), own[1])
    return tuple(
        tuple(p for pattern in level for p in view.glob(pattern) if p.endswith((".yml", ".yaml")))[
            :_MAX_FILES
        ]
        for level in levels
    )


def template_values(path: str, text: str, view: FileView) -> dict[str, str]:
    """The values of the variables that ``texts.with_variables`` makes of the template at ``path``, by the
    names that it gives them."""
    asked = set(_VARIABLE.findall(with_variables(text)))
    levels: list[dict[str, set[str]]] = []
    for files in variable_files(path, view) if asked else ():
        levels.append({})
        for file in files:
            for name, value in _variables(_text(file, view)):
                levels[-1].setdefault(name, set()).add(value)
    found = {name: _value(variable_called(name), levels, _MAX_STEPS) for name in asked}
    return {name: value for name, value in found.items() if value is not None}


def _text(file: str, view: FileView) -> str:
    """The text of a file; nothing of one whose bytes are none, which is a problem of its own."""
    try:
        return view.read(file) or ""
    except TabootError as error:
        if error.code not in BAD_TEXT:
            raise
        return ""


def _value(name: str, levels: Sequence[Mapping[str, set[str]]], steps: int) -> str | None:
    """The value of a variable, through others that it is set to; None where none is known."""
    held = next((level[name] for level in levels if name in level), set())
    if len(held) != 1 or not steps:
        return None
    (value,) = held
    if (other := _ANOTHER.fullmatch(value)) is not None:
        return _value(other[1], levels, steps - 1)
    return None if is_open(value) else value


@lru_cache(maxsize=1024)
def _variables(text: str) -> tuple[tuple[str, str], ...]:
    """The variables of a file, one in a mapping by both names (``app.version`` as ``app_version``). Each
    template of a repository asks for those of the inventory."""
    try:
        documents = parse(Origin("", text, ""), Problems())
    except TabootError:
        return ()  # Encrypted, or a problem of another source.
    return tuple(said for document in documents for said in _scalars(document, ""))


def _scalars(node: Node, before: str) -> Iterator[tuple[str, str]]:
    for name, (_, value) in node.entries.items() if node.kind == MAPPING else ():
        called = re.sub(r"\W", "_", f"{before}{name}", flags=re.ASCII)
        if value.kind == SCALAR:
            yield called, value.text
        elif not before:
            yield from _scalars(value, f"{called}_")
