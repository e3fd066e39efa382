"""The values of a configuration file, each with its key path and its place: YAML (Compose among it), JSON,
nginx confs, TOML and INI.

Lists of assignments, flags and labels (``KEY=value``, ``--flag=value``, ``--flag`` and its value) give a key
of their own, so that a value is found by what it is called wherever it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.nginx.parser import Directive
from taboot_pipelines.extraction.tier_a.nginx.parser import parse as parse_nginx
from taboot_pipelines.extraction.tier_a.texts import Problems
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, SEQUENCE, Node, Origin
from taboot_pipelines.extraction.tier_a.yaml_nodes import parse as parse_yaml
from taboot_pipelines.retrieval.answering.house import Document
from taboot_pipelines.retrieval.answering.statements import Cite

#: Characters of a file that are parsed, and values that are kept of it.
MAX_CHARS = 1_000_000
MAX_VALUES = 50_000

#: Directives of nginx whose first argument is the name of what they set.
SETTING = frozenset({"set", "proxy_set_header", "add_header", "fastcgi_param"})

_ASSIGNMENT = re.compile(r"(?P<key>[A-Za-z_][\w.\-\[\]]*)=(?P<value>.*)", re.DOTALL)
_FLAG = re.compile(r"(?P<key>--?[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_MASKED = re.compile(r"\*{3,}")
_INI_SECTION = re.compile(r"\s*\[+([^\]\n]+)\]+\s*(?:[#;].*)?$")
_INI_VALUE = re.compile(r"\s*(?P<key>[\w.\- ]+?)\s*[=:]\s*(?P<value>.*?)\s*$")
_SHELL_WORD = re.compile(r"[^\s\"']+|\"[^\"]*\"|'[^']*'")


@dataclass(frozen=True, slots=True)
class Value:
    """A value: ``path`` is its keys from the top, ``[start, end)`` its statement in code points. ``comment``:
    what a comment beside it or right above says of it."""

    path: tuple[str, ...]
    value: str
    start: int
    end: int
    line: int
    comment: str = ""

    @property
    def key(self) -> str:
        return ".".join(self.path)


#: Keys that stand for all that is under them.
_WHOLE = frozenset(
    [
        *("volumes", "environment", "labels", "devices", "sysctls", "ulimits", "extra_hosts", "secrets"),
        *("configs", "command", "entrypoint", "cap_add", "tmpfs", "build.args"),
    ]
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A value in its document, and how many keys lead to the thing that it belongs to. ``known``: the value
    with its variables replaced, where that is known; ``also``: where these are set."""

    document: Document
    value: Value
    lead: int
    service: str = ""
    known: str = ""
    also: tuple[Cite, ...] = ()

    @property
    def cite(self) -> Cite:
        return Cite(self.document.doc_id, self.value.line, self.value.start, self.value.end)

    def ends_in(self, key: str) -> bool:
        """Whether the key path ends in ``key`` (dotted, any case; an all-upper key may also be the end of a
        longer name)."""
        path = self.value.path[self.lead :]
        if not path:
            return False
        if key.isupper():
            if self.document.mime == "text/x-nginx-conf":
                return False  # ``proxy_pass`` is no password
            last = path[-1].upper()
            return last == key or last.endswith("_" + key)
        parts = key.lower().split(".")
        own = [x.lower().lstrip("-") for x in path]
        if key in _WHOLE:
            exact = key not in ("command", "entrypoint") or len(own) == len(parts)
            return own[: len(parts)] == parts and exact
        if own[-len(parts) :] == parts:
            return True
        return own[-1].replace("__", "_").endswith(key.lower()) and len(parts) > 1


@dataclass
class ConfigFile:
    """The values of one file. ``extends``: of each service that extends another, (file or "", service)."""

    doc_id: str
    values: list[Value] = field(default_factory=list)
    extends: dict[str, tuple[str, str]] = field(default_factory=dict)


def read(doc_id: str, path: str, mime: str, text: str) -> ConfigFile:
    """The values of a file; none where it cannot be parsed. Never raises."""
    found = ConfigFile(doc_id)
    text = text[:MAX_CHARS]
    lines = _Lines(text)
    if mime in ("application/yaml", "application/json"):
        try:
            # A masked value would be read as an alias of YAML; the same number of other signs is not.
            unstarred = _MASKED.sub(lambda m: "•" * len(m[0]), text)
            trees = parse_yaml(Origin(path, unstarred, ""), Problems())
        except (TabootError, RecursionError):
            return found
        for tree in trees:
            _extends(tree, found)
            _take(found, _walk(tree, (), lines))
    elif mime == "text/x-nginx-conf":
        directives, _ = parse_nginx(text)
        _take(found, _directives(directives, (), lines))
    else:
        _take(found, _ini(text))
    return found


def _take(found: ConfigFile, values: Iterator[Value]) -> None:
    for value in values:
        if len(found.values) >= MAX_VALUES:
            return
        found.values.append(value)


class _Lines:
    """Line numbers and comments of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def number(self, offset: int) -> int:
        return bisect_right(self.starts, offset)

    def line(self, number: int) -> str:
        start = self.starts[number - 1]
        end = self.starts[number] - 1 if number < len(self.starts) else len(self.text)
        return self.text[start:end]

    def comment(self, number: int) -> str:
        """The comment at the end of a line and those on the lines right above it."""
        said = []
        beside = re.search(r"(?:^|\s)#\s*(.*)$", self.line(number))
        if beside:
            said.append(beside[1])
        above = number - 1
        while above >= 1 and number - above <= 3 and self.line(above).lstrip().startswith("#"):
            said.insert(0, self.line(above).lstrip("# \t"))
            above -= 1
        return " ".join(said)


def _extends(tree: Node, found: ConfigFile) -> None:
    services = tree.get("services") if tree.kind == MAPPING else None
    for name, (_, node) in (services.entries if services is not None else {}).items():
        extends = node.get("extends") if node.kind == MAPPING else None
        if extends is None:
            continue
        if extends.kind == SCALAR:
            found.extends[name] = ("", extends.text)
        elif extends.kind == MAPPING and extends.scalar("service") is not None:
            file, service = extends.scalar("file"), extends.scalar("service")
            found.extends[name] = (file.text if file else "", service.text if service else "")


def _walk(node: Node, path: tuple[str, ...], lines: _Lines, depth: int = 0) -> Iterator[Value]:
    if depth > 40:
        return
    if node.kind == SCALAR:
        if node.text and not node.is_null:
            yield _value(path, node.text, node, lines)
        elif node.plain:
            yield _value(path, "", node, lines)
        if path and path[-1] in ("command", "entrypoint") and node.text:
            words = [w.strip("\"'") for w in _SHELL_WORD.findall(node.text)]
            for key, value in _flags(words):
                yield Value((*path, key), value, node.start, node.end, lines.number(node.start))
    elif node.kind == SEQUENCE:
        texts = [i.text if i.kind == SCALAR else "" for i in node.items]
        if path and node.items and all(i.kind == SCALAR for i in node.items) and len(texts) > 1:
            joined = " ".join(texts) if path[-1] in ("command", "entrypoint", "test") else ", ".join(texts)
            yield Value(path, joined, node.start, node.end, lines.number(node.items[0].start))
        for i, item in enumerate(node.items):
            if item.kind != SCALAR:
                mounted = _mounted(item) if path[-1:] == ("volumes",) else ""
                if mounted:
                    yield _value(path, mounted, item, lines)
                for made in _walk(item, path, lines, depth + 1):
                    if not mounted or made.path[len(path)] not in ("type", "source", "target", "read_only"):
                        yield made
                continue
            assigned = _ASSIGNMENT.fullmatch(item.text)
            flag = _FLAG.fullmatch(item.text)
            if flag and flag["value"] is not None:
                yield _value((*path, flag["key"]), flag["value"], item, lines)
            elif flag and i + 1 < len(texts) and texts[i + 1] and not texts[i + 1].startswith("-"):
                yield _value((*path, flag["key"]), texts[i + 1], item, lines)
            elif assigned:
                yield _value((*path, assigned["key"]), assigned["value"], item, lines)
            elif (item.text and len(texts) == 1) or (
                item.text and path and path[-1] not in ("command", "entrypoint", "test")
            ):
                yield _value(path, item.text, item, lines)
    else:
        for key, (key_node, child) in node.entries.items():
            if child.kind == SCALAR and not child.is_null:
                for made in _walk(child, (*path, key), lines, depth + 1):
                    # The statement of a scalar is its line with the key, unless it is aliased.
                    near = key_node.origin is child.origin and 0 <= child.start - key_node.end <= 8
                    start = key_node.start if near and made.line == lines.number(child.start) else made.start
                    yield Value(made.path, made.value, start, made.end, made.line, made.comment)
                    if key.isupper() or "_" in key or key in ("command", "entrypoint"):
                        yield from _inner(made)
            elif child.kind == SCALAR:
                yield Value((*path, key), "", key_node.start, key_node.end, lines.number(key_node.start))
            else:
                yield from _walk(child, (*path, key), lines, depth + 1)


def _mounted(item: Node) -> str:
    """The short form of a volume's long one, ``source:target:ro``; empty if it has no source."""
    source, target = item.scalar("source"), item.scalar("target")
    if item.kind != MAPPING or source is None or target is None:
        return ""
    read_only = item.scalar("read_only")
    return f"{source.text}:{target.text}" + (":ro" if read_only and read_only.text == "true" else "")


def _inner(made: Value) -> Iterator[Value]:
    """The flags inside a value such as ``--keep-daily 7 --keep-weekly 4``."""
    if made.value.startswith("-") and " " in made.value:
        for key, value in _flags(made.value.split()):
            yield Value((*made.path, key), value, made.start, made.end, made.line, made.comment)


def _flags(words: list[str]) -> Iterator[tuple[str, str]]:
    for i, word in enumerate(words):
        flag = _FLAG.fullmatch(word)
        if flag and flag["value"] is not None:
            yield flag["key"], flag["value"]
        elif flag and i + 1 < len(words) and not words[i + 1].startswith("-"):
            yield flag["key"], words[i + 1]


def _value(path: tuple[str, ...], value: str, node: Node, lines: _Lines) -> Value:
    line = lines.number(node.start)
    return Value(path, value, node.start, max(node.end, node.start), line, lines.comment(line))


def _directives(directives: list[Directive], path: tuple[str, ...], lines: _Lines) -> Iterator[Value]:
    for directive in directives:
        if directive.children is None:
            key: tuple[str, ...] = (directive.name,)
            args = directive.args
            if directive.name in SETTING and len(args) > 1:
                key, args = (directive.name, args[0].lstrip("$")), args[1:]
            line = lines.number(directive.start)
            yield Value(
                (*path, *key), " ".join(args), directive.start, directive.end, line, lines.comment(line)
            )
            continue
        names = [
            a
            for d in directive.children
            if directive.name == "server" and d.name == "server_name"
            for a in d.args[:1]
        ]
        block = " ".join([directive.name, *directive.args, *names])
        yield from _directives(directive.children, (*path, block), lines)


def _ini(text: str) -> Iterator[Value]:
    section, offset = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        match = _INI_SECTION.match(line)
        if match:
            section = match[1].strip()
        elif line.strip() and line.lstrip()[0] not in "#;":
            value = _INI_VALUE.match(line)
            if value:
                path = (*((section,) if section else ()), value["key"].strip())
                yield Value(path, value["value"].strip("\"'"), offset, offset + len(line), number)
        offset += len(line) + 1
