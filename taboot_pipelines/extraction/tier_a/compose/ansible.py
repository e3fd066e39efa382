"""What Ansible puts into a Compose file that is a template: the variables of the play that fills it in, of
its role and of the inventory.

Ansible's documentation ("Variable precedence") says whose value counts: what a play gives a role with its
name, else that of the role's ``vars``, of the play's ``vars_files`` (the last of them), of its ``vars``, of
the inventory (``host_vars``, ``group_vars``), else of the role's ``defaults``. Of two values on one of these
levels it depends on the machine which it is, and of two plays on the play, so none is told; nor is one that
tasks set.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.ansible_inventory import hosts_by_name, inventories
from taboot_pipelines.extraction.tier_a.claims import Quote
from taboot_pipelines.extraction.tier_a.compose.files import named_compose, naming_folder
from taboot_pipelines.extraction.tier_a.recognition import filled
from taboot_pipelines.extraction.tier_a.texts import BAD_TEXT, Problems, variable_called, with_variables
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    MAPPING,
    SCALAR,
    SEQUENCE,
    Node,
    Origin,
    is_open,
    parse,
)
from taboot_pipelines.model.records import FileView, Role, SourceFacts

#: Files of variables, and playbooks, that one template looks at.
_MAX_FILES = 256
_VARIABLE = re.compile(r"\$\{(\w+)\}")
#: A variable that is put into the value of another, and characters of what becomes of one at most.
_ANOTHER = re.compile(r"\{\{ *([\w.]+) *\}\}")
_MAX_VALUE = 10_000
#: Mappings in mappings of which variables are made (``a.b.c``).
_MAX_DEPTH = 4
#: Stands for the source's root, which has no path on the machine that runs a play.
_ROOT = "\0/"
_VAULT = "$ANSIBLE_VAULT"

#: The values of variables by name; several where it is not known which of them counts.
_Level = Mapping[str, set[str]]


@dataclass
class _Play:
    """A play: its variables, ``hosts`` as they are written with their places, ``roles`` with what each is
    given, and ``sources``, the files that its tasks put somewhere. ``set``: what its tasks set themselves;
    ``opaque``: they take in variables of files."""

    variables: dict[str, str]
    files: list[str]
    hosts: list[tuple[str, int, int]] = field(default_factory=list)
    roles: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    set: set[str] = field(default_factory=set)
    opaque: bool = False


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


def play_files(path: str, view: FileView) -> set[tuple[str, Role]]:
    """The playbooks whose plays bring the file at ``path`` somewhere, their files of variables, and the
    inventories that say where. A file of variables that is encrypted is no document."""
    found: set[tuple[str, Role]] = set()
    for playbook, play, _ in _plays(path, view):
        found.add((playbook, "document"))
        for file in _own_files(playbook, play):
            if (text := _text(file, view)) is not None:
                found.add((file, "input" if text.startswith(_VAULT) else "document"))
    return found | {(file, "document") for file in (inventories(view) if found else ())}


def is_put_elsewhere(path: str) -> bool:
    """Whether a file is a template, or of a role: it is used where a play puts it."""
    folder = posixpath.dirname(path)
    return path != filled(path) or naming_folder(folder) != folder


def hosts_of(path: str, view: FileView, source: SourceFacts) -> list[tuple[str, Quote]]:
    """The machines to which plays bring the file at ``path``, by the inventory, and where a play says so;
    none of a play on a pattern, or on hosts that no inventory has (docs.ansible.com, "Patterns")."""
    found: dict[str, Quote] = {}
    known: dict[str, set[str]] | None = None
    for playbook, play, _ in _plays(path, view) if is_put_elsewhere(path) else ():
        for written, start, end in play.hosts:
            if known is None:
                known = hosts_by_name(view, source)
            names = re.split(r"[:,]", written)
            if all(name.strip() in known for name in names):
                for host in sorted({host for name in names for host in known[name.strip()]}):
                    found.setdefault(host, Quote(written, playbook, start, end))
    return list(found.items())


def template_values(path: str, text: str, view: FileView) -> dict[str, str]:
    """The values of the variables that ``texts.with_variables`` makes of the template at ``path``, by the
    names that it gives them."""
    asked = set(_VARIABLE.findall(with_variables(text)))
    if not asked:
        return {}
    vars_, inventory, defaults = (_level(files, view) for files in variable_files(path, view))
    plays: list[tuple[_Play, dict[str, str | None], list[_Level]]] = [
        (play, {}, [given, vars_, *_of_play(playbook, play, view), inventory, defaults])
        for playbook, play, given in _plays(path, view)
    ]
    found: dict[str, str] = {}
    for name in asked:
        called = variable_called(name)
        values = {
            None if play.opaque or called in play.set else _value(called, levels, known)
            for play, known, levels in plays
        } or {_value(called, [vars_, inventory, defaults], {})}
        value = values.pop()
        if not values and value is not None:
            found[name] = value
    return found


def _level(files: Sequence[str], view: FileView) -> _Level:
    found: dict[str, set[str]] = {}
    for file in files:
        for name, value in _variables(_text(file, view) or ""):
            found.setdefault(name, set()).add(value)
    return found


def _of_play(playbook: str, play: _Play, view: FileView) -> list[_Level]:
    """The variables of a play, those that count most first. What a file that is not there sets is not known,
    and what is encrypted are secrets."""
    levels: list[_Level] = []
    for file in reversed(_own_files(playbook, play)):
        text = _text(file, view)
        levels.append({} if text is not None else _Anything())
        if text is not None:
            levels.append({name: {value} for name, value in _variables(text)})
    return [*levels, {name: {value} for name, value in play.variables.items()}]


class _Anything(dict[str, set[str]]):
    """A level that may set any variable to anything."""

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> set[str]:
        return set()


def _own_files(playbook: str, play: _Play) -> list[str]:
    """The paths of a play's ``vars_files``; one that cannot be known is one that is not there."""
    levels = [_place(playbook), {name: {value} for name, value in play.variables.items()}]
    return [_from_root(playbook, file, "", levels) or "" for file in play.files]


def _from_root(playbook: str, written: str, folder: str, levels: Sequence[_Level]) -> str | None:
    """The path from the source's root of a file that a play names; where it is relative, from a folder beside
    the playbook. None where it is not known."""
    filled = _filled(written, levels, {})
    if filled is None:
        return None
    if filled.startswith(_ROOT):
        return posixpath.normpath(filled.removeprefix(_ROOT))
    return posixpath.normpath(posixpath.join(posixpath.dirname(playbook), folder, filled))


def _plays(path: str, view: FileView) -> Iterator[tuple[str, _Play, _Level]]:
    """The plays that fill in the template at ``path``, each with its file and what it gives the role: those
    that name the role, or have a task whose source is the template."""
    role = naming_folder(posixpath.dirname(path))
    called = posixpath.basename(role) if role != posixpath.dirname(path) else ""
    name = posixpath.basename(path)
    for playbook in _playbooks(path, view):
        text = _text(playbook, view) or ""
        if name not in text and (not called or called not in text):
            continue
        for play in _read(text):
            for given, values in play.roles if called else ():
                if posixpath.basename(given) == called:
                    yield playbook, play, {n: {value} for n, value in values.items()}
            levels = [_place(playbook), *_of_play(playbook, play, view)]
            if any(
                _from_root(playbook, source, folder, levels) == path
                for source in play.sources
                for folder in ("", "templates", "files")
            ):
                yield playbook, play, {}


def _playbooks(path: str, view: FileView) -> list[str]:
    """The files that may be playbooks of a template: YAML of the folders above it, and of their folders
    ``playbooks``."""
    found: dict[str, None] = {}
    folder = posixpath.dirname(path)
    while folder:
        folder = posixpath.dirname(folder)
        beside = view.glob(posixpath.join(folder, "*.y*ml"))
        found.update((p, None) for p in beside if not named_compose(p))
        found.update((p, None) for p in view.glob(posixpath.join(folder, "playbooks", "**")))
    return [p for p in found if p.endswith((".yml", ".yaml"))][:_MAX_FILES]


def _place(playbook: str) -> _Level:
    return {"playbook_dir": {f"{_ROOT}{posixpath.dirname(playbook) or '.'}"}}


def _text(file: str, view: FileView) -> str | None:
    """The text of a file, None where there is none; nothing of one whose bytes are none, which is a problem
    of its own."""
    try:
        return view.read(file)
    except TabootError as error:
        if error.code not in BAD_TEXT:
            raise
        return ""


def _value(name: str, levels: Sequence[_Level], known: dict[str, str | None]) -> str | None:
    """The value of a variable, with others put into it; None where one is not known. ``known``: those that
    were asked for."""
    if name not in known:
        known[name] = None  # What is set to itself has no value.
        held = next((level[name] for level in levels if name in level), set())
        known[name] = _filled(next(iter(held)), levels, known) if len(held) == 1 else None
    return known[name]


def _filled(value: str, levels: Sequence[_Level], known: dict[str, str | None]) -> str | None:
    """A value with the variables in it put in; None where one of them is not known."""
    names = {name: _value(name.replace(".", "_"), levels, known) for name in _ANOTHER.findall(value)}
    if None in names.values():
        return None
    made = _ANOTHER.sub(lambda m: names[m[1]] or "", value)
    return None if is_open(made) or len(made) > _MAX_VALUE else made


@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[_Play, ...]:
    """The plays of a playbook; none of any other file."""
    try:
        documents = parse(Origin("", text, ""), Problems()) if "hosts:" in text else []
    except TabootError:
        return ()
    return tuple(
        _play(node)
        for document in documents
        if document.kind == SEQUENCE
        for node in document.items
        if node.kind == MAPPING and node.get("hosts") is not None
    )


def _play(node: Node) -> _Play:
    held, files, roles = node.get("vars"), node.get("vars_files"), node.get("roles")
    named = (
        [files] if files is not None and files.kind == SCALAR else files.items if files is not None else []
    )
    play = _Play(_given(held), [file.text for file in named])
    on = node.get("hosts")
    play.hosts = [(item.text, item.start, item.end) for item in (on.each() if on is not None else ())]
    for item in roles.items if roles is not None else ():
        called = item if item.kind == SCALAR else item.scalar("role") or item.scalar("name")
        if called is not None:
            inner = {n: v for n, v in _given(item).items() if n not in ("role", "name", "when", "tags")}
            play.roles.append((called.text, {**inner, **_given(item.get("vars"))}))
    waiting = [t for k in ("pre_tasks", "tasks", "post_tasks") if (t := node.get(k)) is not None]
    while waiting:
        task = waiting.pop()
        waiting += task.items
        of_role = False
        for key, (_, value) in task.entries.items():
            action = key.removeprefix("ansible.builtin.")
            if action in ("include_role", "import_role") and (called := value.scalar("name")) is not None:
                of_role = True
                play.roles.append((called.text, _given(task.get("vars"))))
            elif action in ("template", "copy") and (source := value.scalar("src")) is not None:
                play.sources.append(source.text)
            elif action == "set_fact":
                play.set |= _given(value).keys()
            elif action == "register":
                play.set.add(value.text)
            elif action == "include_vars":
                play.opaque = True
            elif action in ("block", "rescue", "always"):
                waiting.append(value)
        if not of_role:
            play.set |= _given(task.get("vars")).keys()
    return play


def _given(node: Node | None) -> dict[str, str]:
    return dict(_scalars(node, "", 1)) if node is not None else {}


@lru_cache(maxsize=1024)
def _variables(text: str) -> tuple[tuple[str, str], ...]:
    """The variables of a file, one in a mapping by all its names (``app.version`` as ``app_version``). Each
    template of a repository asks for those of the inventory."""
    try:
        documents = parse(Origin("", text, ""), Problems())
    except TabootError:
        return ()  # Encrypted, or a problem of another source.
    return tuple(said for document in documents for said in _scalars(document, "", 1))


def _scalars(node: Node, before: str, depth: int) -> Iterator[tuple[str, str]]:
    for name, (_, value) in node.entries.items() if node.kind == MAPPING else ():
        called = re.sub(r"\W", "_", f"{before}{name}", flags=re.ASCII)
        if value.kind == SCALAR:
            yield called, value.text
        elif depth < _MAX_DEPTH:
            yield from _scalars(value, f"{called}_", depth + 1)
