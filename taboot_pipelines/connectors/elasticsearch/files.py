"""Recorded answers of Elasticsearch and OpenSearch, pages of hits, and NDJSON exports.

Hits are items as those of a server are: of a search, ``_msearch``, ``_mget`` or a single get, of async search
and EQL, rows of SQL and ES|QL, and the lines of NDJSON exports (with ``_source`` as elasticdump writes them,
or the bare sources). Any other answer is one document with the file's own bytes. YAML is read as the examples
of Elastic's API specification are: the answer under ``value``, or as a text there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from taboot_pipelines.connectors.api.resources import canonical
from taboot_pipelines.connectors.elasticsearch.hits import Hit, Items, Layout, LogItem, hit_of, parse_time
from taboot_pipelines.connectors.elasticsearch.search import row_hit
from taboot_pipelines.connectors.recorded import Part, RecordedFile
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import MAX_DEPTH
from taboot_pipelines.model.records import LOGS

_ACTIONS = frozenset({"index", "create", "update", "delete"})
_LINES = (".ndjson", ".jsonl")
#: Bytes of one line of an export.
_MAX_LINE = 64 * 1024 * 1024
_ANCHOR = re.compile(r"(?:^|[\s:,\[{-])&[^\s,\[\]{}]", re.MULTILINE)


class ElasticsearchReader:
    """What a recorded file holds, with hits as ``layout`` has them."""

    INCLUDE = ("*.json", "*.ndjson", "*.jsonl", "*.yaml", "*.yml")
    version = "2"

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        if file.path.lower().endswith(_LINES):
            yield from self._parts(_lines(file, self._layout), file)
            return
        data = file.read()
        answer = _answer(data, file.path)
        found = list(_hits(answer, self._layout))
        if found:
            yield from self._parts(iter(found), file)
        else:
            yield Part(data, role="document")

    def _parts(self, hits: Iterator[Hit], file: RecordedFile) -> Iterator[Part]:
        items = Items(self._layout, file.limit, ordered=False)
        too_large: list[str] = []
        for found in self._items(items, hits):
            if found.resource is None:
                too_large.append(found.path)
            else:
                yield Part(canonical(found.resource), found.path, mime=LOGS, charset="utf-8")
        if too_large:
            message = f"{file.path} has hits of more than {file.limit} bytes in {', '.join(too_large[:5])}."
            raise TabootError("E_TOO_LARGE", message)

    @staticmethod
    def _items(items: Items, hits: Iterator[Hit]) -> Iterator[LogItem]:
        for hit in hits:
            yield from items.add(hit)
        yield from items.finish()


def _lines(file: RecordedFile, layout: Layout) -> Iterator[Hit]:
    """The hits of an export, a line each. Raises ``E_MIME`` where its first line is none, ``E_PARSE`` where
    a later one is none."""
    number = 0
    #: What the line before said of the source in a file for `_bulk`.
    action: Mapping[str, Any] | None = None
    while line := file.stream.readline(_MAX_LINE + 1):
        number += 1
        if len(line) > _MAX_LINE:
            raise TabootError("E_TOO_LARGE", f"Line {number} of {file.path} has more than {_MAX_LINE} bytes.")
        if not line.strip():
            continue
        try:
            said = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            code = "E_MIME" if number == 1 else "E_PARSE"
            raise TabootError(code, f"Line {number} of {file.path} is no JSON object.", line=number)
        kind, told = next(iter(said.items()), ("", None))
        if action is None and len(said) == 1 and kind in _ACTIONS and isinstance(told, dict | None):
            # What is deleted has no source; that of an update is but a part.
            action = None if kind == "delete" else {"of": kind, **(told or {})}
            continue
        if action is not None:
            known, action = action, None
            if known["of"] == "update":
                continue
            said = {**{name: known[name] for name in ("_index", "_id") if name in known}, "_source": said}
        yield hit_of(said if "_source" in said or "_id" in said else {"_source": said}, layout)
    if number == 0:
        raise TabootError("E_EMPTY", f"{file.path} is empty.")


def _answer(data: bytes, path: str) -> Any:
    """The answer that a file records. Raises ``E_MIME`` for anything else, ``E_PARSE`` for broken JSON."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TabootError("E_MIME", f"{path} is no recorded answer.") from None
    if not text.strip():
        raise TabootError("E_EMPTY", f"{path} is empty.")
    if path.lower().endswith(".json"):
        return _loaded(text, path)
    try:
        said = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        raise TabootError("E_MIME", f"{path} is no recorded answer, nor any YAML.") from None
    value = said.get("value") if isinstance(said, dict) else None
    if isinstance(value, str):
        return _loaded(value, path)
    if not isinstance(value, dict | list):
        raise TabootError("E_MIME", f"{path} is YAML without an answer under `value`.")
    if _ANCHOR.search(text):
        # A few lines of them stand for more than memory holds.
        raise TabootError("E_MIME", f"{path} is YAML with anchors, which no recorded answer has.")
    # YAML has values that JSON has not, such as dates.
    return json.loads(json.dumps(value, default=str))


def _loaded(text: str, path: str) -> Any:
    try:
        said = json.loads(text)
    except RecursionError:
        raise TabootError("E_PARSE", f"{path} is nested more than {MAX_DEPTH} deep.") from None
    except ValueError as error:
        line = getattr(error, "lineno", 0)
        raise TabootError("E_PARSE", f"The JSON of {path} cannot be read (line {line}).", line=line) from None
    if not isinstance(said, dict | list):
        raise TabootError("E_MIME", f"{path} is no recorded answer.")
    if isinstance(said, dict) and "error" in said and "hits" not in said and "items" not in said:
        raise TabootError("E_MIME", f"{path} records an error and no answer.")
    return said


def _hits(answer: Any, layout: Layout) -> Iterator[Hit]:
    """The hits of an answer, in its order; none of an answer that is of something else."""
    if isinstance(answer, list):
        if answer and all(_is_hit(one) for one in answer):
            yield from (hit_of(one, layout) for one in answer)
        return
    if _is_hit(answer):
        yield hit_of(answer, layout)
        return
    for listed in ("responses", "docs"):
        if isinstance(answer.get(listed), list):
            for one in answer[listed]:
                if isinstance(one, dict):
                    yield from _hits(one, layout)
    if isinstance(answer.get("response"), dict):
        yield from _hits(answer["response"], layout)
    outer = answer.get("hits")
    if isinstance(outer, dict):
        yield from _listed(outer, layout)
    yield from _table(answer, layout)


def _listed(outer: Mapping[str, Any], layout: Layout) -> Iterator[Hit]:
    """The hits of a search, and the events of EQL, in sequences or not."""
    lists = [outer.get("hits"), outer.get("events")]
    sequences = outer.get("sequences")
    if isinstance(sequences, list):
        lists += [one.get("events") for one in sequences if isinstance(one, dict)]
    for listed in lists:
        if isinstance(listed, list):
            yield from (hit_of(one, layout) for one in listed if isinstance(one, dict))


def _is_hit(one: object) -> bool:
    """Whether an object is one hit that was found."""
    return (
        isinstance(one, dict)
        and "_index" in one
        and one.get("found") is not False
        and (isinstance(one.get("_source"), dict) or isinstance(one.get("fields"), dict))
    )


def _is_columnar(values: list[Any], names: list[str], layout: Layout) -> bool:
    """Whether a table is told column by column (``columnar``). Of a square one its times tell."""
    if len(values) != len(names) or not all(isinstance(one, list) for one in values):
        return False
    lengths = {len(one) for one in values}
    if len(lengths) != 1:
        return False
    if lengths != {len(names)}:
        return True
    if layout.time_field not in names:
        return False
    at = names.index(layout.time_field)
    return all(parse_time(one) is not None for one in values[at]) and not all(
        parse_time(row[at]) is not None for row in values
    )


def _table(answer: Mapping[str, Any], layout: Layout) -> Iterator[Hit]:
    """The rows of SQL and ES|QL."""
    columns = answer.get("columns", answer.get("schema"))
    rows = next((answer[n] for n in ("rows", "values", "datarows") if isinstance(answer.get(n), list)), None)
    if rows is None or not isinstance(columns, list):
        return
    names = [c["name"] for c in columns if isinstance(c, dict) and isinstance(c.get("name"), str)]
    if len(names) != len(columns):
        return
    if "values" in answer and _is_columnar(rows, names, layout):
        rows = [list(row) for row in zip(*rows, strict=True)]
    for row in rows:
        if isinstance(row, list) and len(row) == len(names):
            yield row_hit(dict(zip(names, row, strict=True)), layout)
