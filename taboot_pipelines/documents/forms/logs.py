"""Hits of Elasticsearch and OpenSearch as text: a group as lines with their times, one hit as a page.

A line of a group is the hit's time, its level and message where it has such fields, and its other fields as
``name=value``; the lines that a message has besides stand indented below. They are code, so that nothing in
them is taken for Markdown. The message of one hit is text, its other fields are code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from taboot_pipelines.documents.forms.writing import Formed, Given, JsonWriter
from taboot_pipelines.documents.metadata import Facts, parse_date
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse

#: The names under which logs have these, best first.
_MESSAGES = (
    "message",
    "msg",
    "log.message",
    "event.original",
    "error.message",
    "MESSAGE",
    "log",
    "body",
    "text",
    "content",
    "description",
)
_LEVELS = ("log.level", "level", "severity", "severity_text", "loglevel", "levelname", "log_level")
_TITLES = ("title", "subject", "name")
#: The time stands at the beginning of each line already.
_TIMES = frozenset({"@timestamp", "timestamp"})
_MAX_TITLE = 120
_MAX_NAMED_INDICES = 5
_BACKTICKS = re.compile("`{3,}")


def logs(data: bytes, given: Given) -> Formed:
    """A group of hits, or one hit, as ``connectors.elasticsearch.hits`` has them. Raises ``E_PARSE`` for
    other bytes, ``E_EMPTY`` for a group without hits, ``E_TOO_LARGE``."""
    try:
        source = data.decode()
    except UnicodeDecodeError:
        raise TabootError("E_PARSE", f"{given.path} is not UTF-8.") from None
    value = parse(source)
    writer = JsonWriter(source, given.max_chars)
    if value.at("hits") is None:
        facts = _one(writer, value, source)
    else:
        facts = _group(writer, value, source, given.path)
    return Formed(writer.text, writer.offsets(), facts)


def _group(writer: JsonWriter, group: Value, source: str, path: str) -> Facts:
    hits = group.items("hits")
    if not hits:
        raise TabootError("E_EMPTY", f"{path} has no hits.")
    facts = Facts()
    writer.put("# ")
    start = writer.length
    label = group.at("group")
    if label is not None and isinstance(label.data, str):
        writer.string(label, prefix=" ")
    for name, word in (("from", ", "), ("to", " to ")):
        if (moment := group.at(name)) is not None:
            writer.put(word)
            writer.said(
                str(moment.data).replace("T", " ").removesuffix("Z") + " UTC" * (name == "to"), moment
            )
    facts.title = writer.text[start:]
    facts.date = parse_date(group.string("from"))
    by = group.at("group_by")
    indices = list(dict.fromkeys(hit.string("_index") for hit in hits if hit.string("_index")))
    named = ", ".join(indices[:_MAX_NAMED_INDICES]) + ", …" * (len(indices) > _MAX_NAMED_INDICES)
    writer.put("\n\n")
    if by is not None and isinstance(by.data, str):
        writer.put("`")
        writer.string(by)
        writer.put("` of ")
    writer.put(f"{len(hits)} entries" + f" from {named}" * bool(named) + ".\n\n")
    fence = _fence(source)
    writer.put(f"{fence}text\n")
    for hit in hits:
        _line(writer, hit, group.string("group_by"))
        writer.put("\n")
    writer.put(f"{fence}\n")
    return facts


def _fence(source: str) -> str:
    """A fence of code that is longer than any that stands in the source."""
    return "`" * (1 + max((len(run) for run in _BACKTICKS.findall(source)), default=2))


def _line(writer: JsonWriter, hit: Value, group_by: str) -> None:
    fields = dict(_fields(hit))
    written = False
    if (time := hit.at("time")) is not None:
        writer.string(time)
        written = True
    for names in (_LEVELS, _MESSAGES):
        name = _first(fields, names)
        if name is not None:
            writer.put(" " * written)
            writer.string(fields.pop(name), prefix="    ")
            written = True
    for name, value in fields.items():
        if name in _TIMES or name == group_by:
            continue
        writer.put(" " * written + f"{name}=")
        _put(writer, value, prefix="    ")
        written = True


def _one(writer: JsonWriter, hit: Value, source: str) -> Facts:
    fields = dict(_fields(hit))
    facts = Facts()
    writer.put("# ")
    start = writer.length
    titled = _first(fields, _TITLES)
    message = _first(fields, _MESSAGES)
    if titled is not None and "\n" not in fields[titled].data:
        writer.string(fields.pop(titled))
    elif message is not None and len(first := fields[message].data.partition("\n")[0].strip()) <= _MAX_TITLE:
        writer.said(first or hit.string("_id"), fields[message])
    else:
        writer.put(" ".join(filter(None, (hit.string("_index"), hit.string("_id")))) or "Hit")
    facts.title = writer.text[start:]
    writer.put("\n")
    for name in ("time", "_index", "_id"):
        if (value := hit.at(name)) is not None:
            writer.put(f"\n- {name.removeprefix('_')}: ")
            _put(writer, value, prefix="  ")
    facts.date = parse_date(hit.string("time"))
    writer.put("\n")
    if message is not None:
        writer.put("\n")
        writer.string(fields.pop(message))
        writer.put("\n")
    rest = [(name, value) for name, value in fields.items() if name not in _TIMES]
    if rest:
        fence = _fence(source)
        writer.put(f"\n{fence}text\n")
        for name, value in rest:
            writer.put(f"{name}=")
            _put(writer, value, prefix="    ")
            writer.put("\n")
        writer.put(f"{fence}\n")
    return facts


def _first(fields: dict[str, Value], names: tuple[str, ...]) -> str | None:
    """The first of the names that is a text in the hit."""
    return next(
        (n for n in names if n in fields and isinstance(fields[n].data, str) and fields[n].data), None
    )


def _fields(hit: Value) -> Iterator[tuple[str, Value]]:
    """The values of a hit by their dotted names, in the order of their names; of objects their members, of
    lists of one value that value."""
    seen: set[str] = set()
    for part in ("_source", "fields"):
        found: list[tuple[str, Value]] = []
        holder = hit.at(part)
        stack = [("", holder)] if holder is not None else []
        while stack:
            prefix, value = stack.pop()
            if isinstance(value.data, dict):
                stack.extend((f"{prefix}.{n}" if prefix else n, inner) for n, inner in value.data.items())
            elif isinstance(value.data, list) and len(value.data) == 1:
                stack.append((prefix, value.data[0]))
            elif value.data is not None and value.data not in ("", []):
                found.append((prefix, value))
        for name, value in sorted(found, key=lambda one: one[0]):
            if name not in seen:
                seen.add(name)
                yield name, value


def _put(writer: JsonWriter, value: Value, *, prefix: str) -> None:
    if isinstance(value.data, str):
        writer.string(value, prefix=prefix)
    elif isinstance(value.data, list) and all(isinstance(one.data, str) for one in value.data):
        for number, one in enumerate(value.data):
            writer.put(", " * bool(number))
            writer.string(one, prefix=prefix)
    else:
        writer.said(json.dumps(value.plain(), ensure_ascii=False, sort_keys=True), value)
