"""YAML as a tree that remembers where each value stands.

libyaml's events are read in a loop (never by recursion in C), so nesting, aliases and size are bounded before
anything walks the tree. Offsets are code points of the text; libyaml does not count a byte order mark, so it
is added back. Anchors are shared, not copied: an aliased value keeps the place of its anchor. Merge keys are
resolved here. Templates of YAML are recognised and not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.cyaml import CLoader
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.texts import Problems, UnitTexts, position
from taboot_pipelines.model.records import Evidence, Problem

#: Deeper nesting than this is refused; Compose's own schema ends well before 20.
MAX_DEPTH = 64
#: Nodes of one file, counted as written and counted with every alias expanded, and entries that merge keys
#: may copy.
MAX_NODES = 1_000_000

SCALAR, SEQUENCE, MAPPING = 0, 1, 2
#: What Helm, Jinja and their like put values in by.
_MARKS = ("{{", "{%")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "yes", "on", "y", "t", "1"})
_FALSE = frozenset({"false", "no", "off", "n", "f", "0"})

Entry = tuple["Node", "Node"]


@dataclass(frozen=True, slots=True)
class Origin:
    """A file as read: its path from the source's root, its text, and the directory that its relative paths
    start from."""

    path: str
    text: str
    base: str


class Node:
    """A scalar (``text``), a sequence (``items``) or a mapping (``entries``: key -> (key node, value node)),
    at code points ``[start, end)`` of ``origin``. ``missing`` names the variables without a value."""

    __slots__ = (
        "depth",
        "end",
        "entries",
        "items",
        "kind",
        "missing",
        "origin",
        "plain",
        "size",
        "start",
        "tag",
        "text",
    )

    def __init__(self, kind: int, origin: Origin, start: int, end: int, tag: str | None = None) -> None:
        self.kind = kind
        self.origin = origin
        self.start = start
        self.end = end
        self.tag = tag
        self.text = ""
        self.plain = False
        self.items: list[Node] = _NO_ITEMS
        self.entries: dict[str, Entry] = _NO_ENTRIES
        self.missing: tuple[str, ...] = ()
        self.size = 1
        self.depth = 1

    @property
    def evidence(self) -> Evidence:
        """Where it stands in its file."""
        return Evidence(self.origin.path, self.start, self.end)

    def report(self, problems: Problems, code: str, what: str) -> None:
        """Add ``what`` to ``problems``, with the file and the position of this node."""
        if not problems.full:
            where = position(self.origin.text, self.start)
            problems.add(Problem(self.origin.path, code, f"{self.origin.path}, {where}: {what}"))

    @property
    def is_null(self) -> bool:
        return self.kind == SCALAR and self.plain and self.text in _NULLS

    @property
    def is_map(self) -> bool:
        return self.kind == MAPPING

    def get(self, key: str) -> Node | None:
        """The value of ``key``; None if there is none, if it is null, or if this is no mapping."""
        entry = self.entries.get(key)
        return None if entry is None or entry[1].is_null else entry[1]

    def scalar(self, key: str) -> Node | None:
        """The value of ``key`` if it is a scalar with text."""
        node = self.get(key)
        return node if node is not None and node.kind == SCALAR and node.text != "" else None

    def boolean(self, default: bool = False) -> bool:
        text = self.text.lower() if self.kind == SCALAR else ""
        return True if text in _TRUE else False if text in _FALSE else default

    def each(self) -> Iterator[Node]:
        """The scalars of a sequence, or this one if it is a scalar itself (the ``string or list`` fields)."""
        if self.kind == SEQUENCE:
            for item in self.items:
                if item.kind == SCALAR and not item.is_null:
                    yield item
        elif self.kind == SCALAR and not self.is_null:
            yield self


_NO_ITEMS: list[Node] = []
_NO_ENTRIES: dict[str, Entry] = {}


#: Lines of a comment that are looked at.
_MAX_COMMENT = 20
#: What no sentence is: a ruler, which frames the title of a group, and a key or an item that was taken out.
_NO_COMMENT = re.compile(r"[^\w\s]{3}|[a-z_][\w.-]*:(?:\s|$)|- ")


def comment_above(key: Node) -> str:
    """The comment that stands right above a key, as far in as the key itself; empty where there is none, or
    where a line of it is none of a text."""
    text = key.origin.text
    begin = text.rfind("\n", 0, key.start) + 1
    margin = text[begin : key.start]
    lines: list[str] = []
    while not margin.strip(" ") and begin > 0:
        end = begin - 1
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].rstrip()
        if not line.startswith(f"{margin}#") or len(lines) == _MAX_COMMENT:
            break
        lines.append(line[len(margin) + 1 :].strip())
    if any(_NO_COMMENT.match(line) for line in lines):
        return ""
    return "\n".join(reversed(lines))


def with_text(node: Node, text: str, missing: tuple[str, ...] = (), plain: bool | None = None) -> Node:
    """A scalar at the place of ``node`` with another text."""
    made = Node(SCALAR, node.origin, node.start, node.end, node.tag)
    made.text = text
    made.plain = node.plain if plain is None else plain
    made.missing = missing or node.missing
    return made


def with_children(
    node: Node, *, items: list[Node] | None = None, entries: dict[str, Entry] | None = None
) -> Node:
    """A sequence or mapping at the place of ``node`` with other children and no tag."""
    made = Node(SEQUENCE if items is not None else MAPPING, node.origin, node.start, node.end)
    made.size, made.depth = node.size, node.depth
    if items is not None:
        made.items = items
    if entries is not None:
        made.entries = entries
    return made


def parse(origin: Origin, problems: Problems, within: tuple[int, int] | None = None) -> list[Node]:
    """The documents of a file, or of the code points ``within`` it. Raises ``E_PARSE``, ``E_CYCLE`` or
    ``E_TOO_LARGE``, with the position in what is parsed."""
    try:
        return _Builder(origin, problems, within).documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "an unknown position"
        raise TabootError(
            "E_PARSE", f"{origin.path}, {where}: this is not valid YAML.", path=origin.path
        ) from None
    except (yaml.YAMLError, ValueError):
        # Control characters and lone surrogates are refused before there is a mark.
        raise TabootError(
            "E_PARSE", f"{origin.path}: the text holds characters that YAML does not allow.", path=origin.path
        ) from None


@dataclass(slots=True)
class _Open:
    """A sequence or mapping whose end was not reached: its children, of a mapping keys and values in turn."""

    node: Node
    flow: bool
    children: list[Node] = field(default_factory=list)


class _Builder:
    def __init__(self, origin: Origin, problems: Problems, within: tuple[int, int] | None) -> None:
        self.origin = origin
        self.problems = problems
        start, self.stop = within if within is not None else (0, len(origin.text))
        self.shift = 1 if not start and origin.text.startswith("\ufeff") else start
        self.nodes = 0
        self.copied = 0
        self.roots: list[Node] = []
        #: Of the current document.
        self.anchors: dict[str, Node] = {}
        self.open: list[_Open] = []

    def fail(self, code: str, offset: int, what: str) -> TabootError:
        where = position(self.origin.text, offset)
        return TabootError(code, f"{self.origin.path}, {where}: {what}", path=self.origin.path)

    def documents(self) -> list[Node]:
        loader: Any = CLoader(self.origin.text[self.shift : self.stop])
        try:
            while (event := loader.get_event()) is not None:
                kind = type(event)
                if kind is ScalarEvent:
                    self.scalar(event)
                elif kind is MappingStartEvent:
                    self.begin(event, MAPPING)
                elif kind is SequenceStartEvent:
                    self.begin(event, SEQUENCE)
                elif kind is MappingEndEvent or kind is SequenceEndEvent:
                    self.end(event)
                elif kind is AliasEvent:
                    self.alias(event)
                elif kind is DocumentStartEvent:
                    self.anchors.clear()
        finally:
            loader.dispose()
        return self.roots

    def span(self, event: Event) -> tuple[int, int]:
        """Where an event stands in the text; libyaml marks every one."""
        start, end = event.start_mark, event.end_mark
        assert start is not None and end is not None
        return start.index + self.shift, end.index + self.shift

    def scalar(self, event: ScalarEvent) -> None:
        start, end = self.span(event)
        node = Node(SCALAR, self.origin, start, end, event.tag)
        node.text = event.value
        style = event.style
        node.plain = style is None or style == ""
        if style == "|" or style == ">":
            node.end = max(start + 1, start + len(self.origin.text[start:end].rstrip()))
        self.count(node)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self.put(node)

    def begin(self, event: MappingStartEvent | SequenceStartEvent, kind: int) -> None:
        start, end = self.span(event)
        if len(self.open) >= MAX_DEPTH:
            raise self.fail("E_PARSE", start, f"the nesting is deeper than {MAX_DEPTH}.")
        node = Node(kind, self.origin, start, end, event.tag)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self.count(node)
        self.open.append(_Open(node, bool(event.flow_style)))

    def end(self, event: MappingEndEvent | SequenceEndEvent) -> None:
        ended = self.open.pop()
        self.close(ended.node, ended.children, ended.flow, self.span(event)[1])
        self.put(ended.node)

    def alias(self, event: AliasEvent) -> None:
        found = self.anchors.get(event.anchor or "")
        start, _ = self.span(event)
        if found is None:
            raise self.fail("E_PARSE", start, "an alias names an anchor that is not defined.")
        if any(o.node is found for o in self.open):
            raise self.fail("E_CYCLE", start, "an alias stands inside its own anchor.")
        self.put(found)

    def put(self, node: Node) -> None:
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.roots.append(node)

    def count(self, node: Node) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.fail("E_TOO_LARGE", node.start, f"the file holds more than {MAX_NODES} YAML nodes.")

    def close(self, node: Node, children: list[Node], flow: bool, end: int) -> None:
        size = 1
        depth = 0
        own_end = node.end
        for child in children:
            size += child.size
            if child.depth > depth:
                depth = child.depth
            # An alias stands elsewhere: only what lies between start and end belongs to the span.
            if node.start <= child.start and own_end < child.end <= end:
                own_end = child.end
        node.size, node.depth = size, depth + 1
        if size > MAX_NODES or node.depth > MAX_DEPTH:
            raise self.fail(
                "E_TOO_LARGE",
                node.start,
                f"its aliases expand to more than {MAX_NODES} nodes or {MAX_DEPTH} levels.",
            )
        # The end mark of a block collection lies at the next token, behind comments: its last child ends it.
        node.end = end if flow else own_end
        if node.kind == SEQUENCE:
            node.items = children
            return
        entries: dict[str, Entry] = {}
        merges: list[Node] = []
        for i in range(0, len(children) - 1, 2):
            key, value = children[i], children[i + 1]
            if key.kind != SCALAR:
                key.report(self.problems, "E_PARSE", "a mapping key is not a string; it is left out.")
                continue
            name = key.text
            if name == "<<" and key.plain:
                merges.append(value)
                continue
            if name in entries:
                key.report(self.problems, "E_PARSE", "a mapping key stands twice; the last one counts.")
            entries[name] = (key, value)
        for merge in merges:
            self.merge(entries, merge)
        node.entries = entries

    def merge(self, entries: dict[str, Entry], merge: Node) -> None:
        """Keys written in the mapping win over merged ones, an earlier merged mapping over a later one."""
        for other in merge.items if merge.kind == SEQUENCE else (merge,):
            if other.kind != MAPPING:
                if not other.is_null:
                    other.report(
                        self.problems, "E_PARSE", "a merge key does not name a mapping; it is left out."
                    )
                continue
            self.copied += len(other.entries)
            if self.copied > MAX_NODES:
                raise self.fail(
                    "E_TOO_LARGE", other.start, f"its merge keys copy more than {MAX_NODES} entries."
                )
            for name, entry in other.entries.items():
                entries.setdefault(name, entry)


def documents(path: str, texts: UnitTexts) -> list[Node]:
    """The documents of a YAML or JSON file. A template gives none and a problem (``E_UNRESOLVED``); what is
    no YAML raises ``E_PARSE``, ``E_CYCLE`` or ``E_TOO_LARGE``."""
    text = texts.text(path) or ""
    # JSON may be indented by tabs, which stand in none of its strings; YAML may not.
    plain = text.replace("\t", " ") if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") else text
    problems = Problems()
    try:
        found = parse(Origin(path, plain, ""), problems)
    except TabootError:
        if any(mark in text for mark in _MARKS):
            texts.note_template(path)
            return []
        raise
    if "{{" in text and any(has_template(document) for document in found):
        texts.note_template(path)
        return []
    for problem in problems.listed():
        texts.problems.add(problem)
    return found


def is_open(text: str) -> bool:
    """Whether a value holds what is yet to be put in, by a template or by the environment."""
    return "{{" in text or "${" in text or "$(" in text


def block_mapping(node: Node) -> Node | None:
    """The mapping that a literal block holds, each part where it stands in the file; None if it is no block,
    or holds something else."""
    text = node.origin.text
    start = text.find("\n", node.start, node.end) + 1
    if node.kind != SCALAR or not start or text[node.start] != "|":
        return None
    try:
        found = parse(node.origin, Problems(), (start, node.end))
    except TabootError:
        return None
    return found[0] if len(found) == 1 and found[0].kind == MAPPING else None


def told(node: Node | None, otherwise: str) -> str:
    """The text of a scalar, unless there is none or it is yet to be put in."""
    return node.text if node is not None and not is_open(node.text) else otherwise


def listed(node: Node | None, *keys: str) -> list[Node]:
    """The mappings of the lists at ``keys``."""
    found = [node.get(key) for key in keys] if node is not None else []
    return [item for part in found if part is not None for item in part.items if item.kind == MAPPING]


def has_template(document: Node) -> bool:
    """Whether a plain ``{{ … }}`` stands for a value, which YAML takes for two mappings."""
    seen: set[int] = set()
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.kind == MAPPING and node.origin.text.startswith("{{", node.start):
            return True
        waiting.extend(node.items)
        waiting.extend(value for _, value in node.entries.values())
    return False
