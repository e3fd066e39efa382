"""Rows of the graph's tables as parameters of Cypher, and back.

Scalars and lists of scalars become properties of their own; maps (``metadata``), mixed lists and whole
numbers beyond 64 bits become JSON strings, since Neo4j has no such values. ``properties`` keeps the whole as
JSON beside them, and ``key`` the key's text, so that nothing is lost: an indexed string of more than 2,000
bytes is cut there and ends in its SHA-256.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import NODES
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.tables import EDGES_SCHEMA, NODES_SCHEMA
from taboot_pipelines.stores.graph.cypher import INDEXED

#: Names this layout of properties; a fingerprint stands for it besides the row.
LAYOUT = "1"
#: Bytes of a text in an index; Neo4j refuses about four times as many.
_MAX_INDEXED_BYTES = 2_000
_TIMES = frozenset({"first_seen", "last_seen", "since"})

Row = dict[str, Any]


def node_fingerprints(nodes: pa.Table) -> pa.Array:
    """Fingerprints of rows of ``NODES_SCHEMA``: of all but the key and ``doc_ids``, which the relationships
    tell.
    """
    return _fingerprints(nodes, [c for c in NODES_SCHEMA.names if c not in {"label", "key", "doc_ids"}])


def edge_fingerprints(edges: pa.Table) -> pa.Array:
    """Fingerprints of rows of ``EDGES_SCHEMA``: of all but the id and the url, which is the document's."""
    return _fingerprints(edges, [c for c in EDGES_SCHEMA.names if c not in {"edge_id", "url"}])


def _fingerprints(table: pa.Table, columns: list[str]) -> pa.Array:
    rows = zip(*(_column(table, c) for c in columns), strict=True)
    return pa.array(
        [hashlib.blake2b(orjson.dumps((LAYOUT, *row)), digest_size=16).hexdigest() for row in rows],
        pa.string(),
    )


def _column(table: pa.Table, name: str) -> list[Any]:
    column = table.column(name)
    values: list[Any] = (column.cast(pa.int64()) if name in _TIMES else column).to_pylist()
    return values


def key_parts(label: str, key: str) -> list[Any]:
    """The parts of a key's text as they stand in the graph. Raises ``E_SCHEMA_INVALID`` for a key that is no
    key of the label.
    """
    model = NODES.get(label)
    if model is None:
        raise TabootError("E_SCHEMA_INVALID", "A node label is not of the model.")
    parts: Any = [key]
    if len(model.key) > 1:
        try:
            parts = orjson.loads(key)
        except orjson.JSONDecodeError:
            parts = None
    if (
        not isinstance(parts, list)
        or len(parts) != len(model.key)
        or not all(isinstance(p, str | int) for p in parts)
    ):
        raise TabootError("E_SCHEMA_INVALID", f"A key is not that of a {label}.", label=label)
    return [cut(p) if isinstance(p, str) else p for p in parts]


def cut(text: str) -> str:
    """A text that an index can hold."""
    if len(text) * 4 <= _MAX_INDEXED_BYTES:
        return text
    data = text.encode()
    if len(data) <= _MAX_INDEXED_BYTES:
        return text
    return data[: _MAX_INDEXED_BYTES - 67].decode(errors="ignore") + "…" + hashlib.sha256(data).hexdigest()


def node_rows(nodes: pa.Table) -> Iterator[tuple[str, Row, int]]:
    """(label, parameters, about how many bytes) of rows of ``NODES_SCHEMA`` with ``fingerprint``."""
    columns = ("label", "key", "name", "properties", "first_seen", "last_seen", "fingerprint")
    for label, key, name, text, first, last, fingerprint in zip(
        *(_column(nodes, c) for c in columns), strict=True
    ):
        parts = key_parts(label, key)
        properties = _native(text, INDEXED[label]) | {
            "key": key,
            "name": name,
            "properties": text,
            "fingerprint": fingerprint,
        }
        properties |= zip(NODES[label].key, parts, strict=True)
        if properties["name"] != name:
            properties["displayName"] = name
        yield label, {"k": parts, "p": properties, "f": first, "l": last}, 2 * len(text) + len(key)


def edge_rows(edges: pa.Table) -> Iterator[tuple[tuple[str, str, str], Row, int]]:
    """((type, start label, end label), parameters, about how many bytes) of rows of ``EDGES_SCHEMA`` with
    ``fingerprint``.
    """
    columns = (
        "edge_id",
        "type",
        "start_label",
        "start_key",
        "start_name",
        "end_label",
        "end_key",
        "end_name",
        "properties",
        "doc_id",
        "confidence",
        "source",
        "extraction_method",
        "since",
        "run_id",
        "blob_sha256",
        "byte_start",
        "byte_end",
        "line",
        "start_basis",
        "end_basis",
        "supports",
        "fingerprint",
    )
    for (
        edge_id,
        type_,
        start_label,
        start_key,
        start_name,
        end_label,
        end_key,
        end_name,
        text,
        doc_id,
        confidence,
        source,
        method,
        since,
        run_id,
        blob,
        byte_start,
        byte_end,
        line,
        start_basis,
        end_basis,
        supports,
        fingerprint,
    ) in zip(*(_column(edges, c) for c in columns), strict=True):
        properties = _native(text, frozenset()) | {
            "edgeId": edge_id,
            "docId": doc_id,
            "confidence": confidence,
            "source": source,
            "extractionMethod": method,
            "runId": run_id,
            "blobSha256": blob,
            "byteStart": byte_start,
            "byteEnd": byte_end,
            "line": line,
            "startBasis": start_basis,
            "endBasis": end_basis,
            "supports": supports,
            "startName": start_name,
            "endName": end_name,
            "properties": text,
            "fingerprint": fingerprint,
        }
        row = {
            "i": edge_id,
            "s": key_parts(start_label, start_key),
            "e": key_parts(end_label, end_key),
            "p": properties,
            "t": since,
        }
        yield (type_, start_label, end_label), row, 2 * len(text) + len(supports)


def _native(text: str, indexed: frozenset[str]) -> Row:
    """The fields of a JSON object as values that Neo4j holds, without nulls, which it does not keep."""
    if text == "{}":
        return {}
    values = orjson.loads(text)
    return {name: _value(v, name in indexed) for name, v in values.items() if v is not None}


def _value(value: Any, indexed: bool) -> Any:
    if isinstance(value, str):
        return cut(value) if indexed else value
    if _scalar(value) or (
        isinstance(value, list) and all(_scalar(v) for v in value) and len({type(v) for v in value}) <= 1
    ):
        return value
    text = canonical_json(value)
    return cut(text) if indexed else text


def _scalar(value: Any) -> bool:
    if isinstance(value, int):  # bool is one
        return -(2**63) <= value < 2**63
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))
