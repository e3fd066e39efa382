"""Arrow schemas of every table between assets. A table that does not conform is refused (``E_TABLE``).

Column order is the schema's. ``bucket`` is the partition column: the hash of the table's key column (see
``KEYS``). Times are UTC microseconds. JSON columns hold canonical JSON (sorted keys, no spaces).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from taboot_pipelines.errors import TabootError

TIME = pa.timestamp("us", tz="UTC")

DOCUMENTS = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("doc_id", pa.string(), False),
        pa.field("source_id", pa.string(), False),
        pa.field("source_type", pa.string(), False),
        pa.field("path", pa.string(), False),
        pa.field("url", pa.string(), False),
        pa.field("title", pa.string(), False),
        pa.field("mime", pa.string(), False),
        pa.field("charset", pa.string(), False),
        pa.field("lang", pa.string(), False),
        pa.field("text", pa.string(), False),
        pa.field("text_sha256", pa.string(), False),
        pa.field("blob_sha256", pa.string(), False),
        pa.field("offsets", pa.binary(), False),
        pa.field("metadata", pa.string(), False),
        pa.field("date", TIME),
        pa.field("created_at", TIME, False),
        pa.field("since", TIME, False),
        pa.field("job_id", pa.string(), False),
        pa.field("fingerprint", pa.string(), False),
    ]
)

CHUNKS = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("chunk_id", pa.string(), False),
        pa.field("doc_id", pa.string(), False),
        pa.field("chunk_index", pa.int32(), False),
        pa.field("start", pa.int64(), False),
        pa.field("end", pa.int64(), False),
        pa.field("text", pa.string(), False),
        pa.field("sha256", pa.string(), False),
        pa.field("tokens", pa.int32(), False),
        pa.field("section", pa.string(), False),
        pa.field("content_type", pa.string(), False),
        pa.field("fingerprint", pa.string(), False),
    ]
)

#: The hyperlinks of documents, each target once a document: its first place (code points) and how often it is
#: there. ``kind`` and ``target`` say what it leads to as observed, ``page`` the same as a site shows it (see
#: ``knowledge.link_targets``); ``text`` is what a reader sees of it. Kind ``declared``: no link, but a label
#: that the document declares.
LINKS = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("doc_id", pa.string(), False),
        pa.field("kind", pa.string(), False),
        pa.field("target", pa.string(), False),
        pa.field("page", pa.string(), False),
        pa.field("fragment", pa.string(), False),
        pa.field("text", pa.string(), False),
        pa.field("start", pa.int64(), False),
        pa.field("end", pa.int64(), False),
        pa.field("count", pa.int32(), False),
        pa.field("fingerprint", pa.string(), False),
    ]
)

#: Append-only per namespace and embedding space; equal texts share one row.
VECTORS = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("sha256", pa.string(), False),
        pa.field("vector", pa.list_(pa.float32()), False),
    ]
)

#: One row per claim of an active run. ``kind`` is ``node`` or ``edge``; for nodes the ``start_*`` columns
#: name the node.
OBSERVATIONS = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("doc_id", pa.string(), False),
        pa.field("unit_id", pa.string(), False),
        pa.field("run_id", pa.string(), False),
        pa.field("kind", pa.string(), False),
        pa.field("type", pa.string(), False),
        pa.field("start_label", pa.string(), False),
        pa.field("start_key", pa.string(), False),
        pa.field("start_name", pa.string(), False),
        pa.field("end_label", pa.string()),
        pa.field("end_key", pa.string()),
        pa.field("end_name", pa.string()),
        pa.field("discriminator", pa.string(), False),
        pa.field("properties", pa.string(), False),
        pa.field("confidence", pa.float64(), False),
        pa.field("source", pa.string(), False),
        pa.field("method", pa.string(), False),
        pa.field("start_basis", pa.string()),
        pa.field("end_basis", pa.string()),
        pa.field("declared", pa.bool_(), False),
        pa.field("aliases", pa.list_(pa.string()), False),
        pa.field("span_start", pa.int64(), False),
        pa.field("span_end", pa.int64(), False),
        pa.field("blob_sha256", pa.string(), False),
        pa.field("byte_start", pa.int64(), False),
        pa.field("byte_end", pa.int64(), False),
        pa.field("line", pa.int32(), False),
    ]
)

#: The snapshot's edges, by the names as observed (rule ``bounded-rewrite``): one row per (type, ends,
#: discriminator, document). ``supports`` is a JSON list of {run, blob, start, end (bytes), line, span (code
#: points), method}.
RELATIONS = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("doc_id", pa.string(), False),
        pa.field("type", pa.string(), False),
        pa.field("start_label", pa.string(), False),
        pa.field("start_key", pa.string(), False),
        pa.field("start_name", pa.string(), False),
        pa.field("end_label", pa.string(), False),
        pa.field("end_key", pa.string(), False),
        pa.field("end_name", pa.string(), False),
        pa.field("discriminator", pa.string(), False),
        pa.field("properties", pa.string(), False),
        pa.field("confidence", pa.float64(), False),
        pa.field("source", pa.string(), False),
        pa.field("extraction_method", pa.string(), False),
        pa.field("start_basis", pa.string(), False),
        pa.field("end_basis", pa.string(), False),
        pa.field("run_id", pa.string(), False),
        pa.field("blob_sha256", pa.string(), False),
        pa.field("byte_start", pa.int64(), False),
        pa.field("byte_end", pa.int64(), False),
        pa.field("line", pa.int32(), False),
        pa.field("supports", pa.string(), False),
    ]
)

#: The snapshot's nodes after resolution. ``key`` is ``ids.node_key`` of the parts; ``claims`` is what the
#: reducer chose from: a JSON list of [observed key, name, source, confidence, properties, number of documents
#: that claim it, date or since of the latest, its doc_id]. ``position`` is that of the key, ``fingerprint`` a
#: hash of label, key, name, scope and properties (32 hex digits): by these two shards are planned.
ENTITIES = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("label", pa.string(), False),
        pa.field("key", pa.string(), False),
        pa.field("name", pa.string(), False),
        pa.field("scope", pa.string()),
        pa.field("properties", pa.string(), False),
        pa.field("position", pa.int64(), False),
        pa.field("fingerprint", pa.string(), False),
        pa.field("claims", pa.string(), False),
    ]
)

#: What a bare name means: ``resolved_key`` null when it is ambiguous or unknown; ``reason`` says why
#: (rule ``deterministic-reducer``).
NAMES = pa.schema(
    [
        pa.field("name", pa.string(), False),
        pa.field("observed_key", pa.string(), False),
        pa.field("resolved_key", pa.string()),
        pa.field("reason", pa.string(), False),
        pa.field("candidates", pa.list_(pa.string()), False),
    ]
)

#: What people decided and is in force, ascending by ``number``: corrections of a field of an entity (kind
#: ``field``), of an edge (``edge``: of its ``property``, or where that is null that it is not so) and merges
#: (``merge``: of ``key`` into ``end_key``, which is called ``end_name``). An edge is named by its fact: type,
#: ends as they were when it was decided, ``discriminator``. ``value`` is canonical JSON.
DECISIONS = pa.schema(
    [
        pa.field("number", pa.int64(), False),
        pa.field("id", pa.string(), False),
        pa.field("kind", pa.string(), False),
        pa.field("label", pa.string(), False),
        pa.field("key", pa.string(), False),
        pa.field("type", pa.string()),
        pa.field("end_label", pa.string()),
        pa.field("end_key", pa.string()),
        pa.field("end_name", pa.string()),
        pa.field("discriminator", pa.string()),
        pa.field("property", pa.string()),
        pa.field("value", pa.string()),
        pa.field("who", pa.string(), False),
        pa.field("reason", pa.string(), False),
        pa.field("at", TIME, False),
    ]
)

#: Names that a structured source declares, by document: the dictionary of mentions and of resolution.
DECLARATIONS = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("doc_id", pa.string(), False),
        pa.field("label", pa.string(), False),
        pa.field("key", pa.string(), False),
        pa.field("name", pa.string(), False),
        pa.field("kind", pa.string(), False),
    ]
)

#: By what names services are reached and ask for each other, by document (``knowledge.reach``). ``kind``:
#: ``on`` (service ``key`` is on network ``place``, where it has these ``names``), ``port`` (it publishes a
#: port of the machine ``place``), ``address`` (the host ``key`` has the address ``place``), ``store`` (what
#: it runs keeps data for others), ``route`` (the proxy ``key`` leads all of a host to the service ``place``),
#: ``use`` (it asks for the host in ``names`` by the protocol ``place``). ``ground`` is the statement, as
#: JSON, as in ``supports``.
REACHES = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("doc_id", pa.string(), False),
        pa.field("kind", pa.string(), False),
        pa.field("key", pa.string(), False),
        pa.field("place", pa.string(), False),
        pa.field("names", pa.list_(pa.string()), False),
        pa.field("port", pa.int32()),
        pa.field("ground", pa.string(), False),
    ]
)

#: What one document says of one node, under the key as observed.
CLAIM = pa.struct(
    [
        ("label", pa.string()),
        ("observed_key", pa.string()),
        ("name", pa.string()),
        ("source", pa.string()),
        ("confidence", pa.float64()),
        ("properties", pa.string()),
    ]
)

#: The titles of documents that stand in a document, in the normal form (``knowledge.titles``): the first
#: place of each in code points, and how often it is there. The document's own is among them.
TITLE_LINKS = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("doc_id", pa.string(), False),
        pa.field("title", pa.string(), False),
        pa.field("start", pa.int64(), False),
        pa.field("end", pa.int64(), False),
        pa.field("count", pa.int32(), False),
    ]
)

#: What the snapshot has applied of a document and found in it: fingerprints, its own date (else that of its
#: bytes, in microseconds), what it claims of nodes, the titles by which others may name it, and as an index
#: of which documents hold a token, the sorted 64-bit hashes of its words in lower case.
DOC_STATE = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("doc_id", pa.string(), False),
        pa.field("source_id", pa.string(), False),
        pa.field("document_fingerprint", pa.string(), False),
        pa.field("chunks_fingerprint", pa.string(), False),
        pa.field("links_fingerprint", pa.string(), False),
        pa.field("runs_fingerprint", pa.string(), False),
        pa.field("relations_fingerprint", pa.string(), False),
        pa.field("titles_fingerprint", pa.string(), False),
        pa.field("chunk_count", pa.int32(), False),
        pa.field("recency", pa.int64(), False),
        pa.field("claims", pa.list_(CLAIM), False),
        pa.field("titles", pa.list_(pa.string()), False),
        pa.field("tokens", pa.list_(pa.int64()), False),
    ]
)

#: The graph as readers see it: the columns of ``KnowledgeBase.nodes()`` and ``edges()``, and of
#: what Neo4j gives back.
NODES_SCHEMA = pa.schema(
    [
        ("label", pa.string()),
        ("key", pa.string()),
        ("name", pa.string()),
        ("scope", pa.string()),
        ("properties", pa.string()),
        ("doc_ids", pa.list_(pa.string())),
        ("first_seen", TIME),
        ("last_seen", TIME),
    ]
)
EDGES_SCHEMA = pa.schema(
    [
        ("edge_id", pa.string()),
        ("type", pa.string()),
        ("start_label", pa.string()),
        ("start_key", pa.string()),
        ("start_name", pa.string()),
        ("end_label", pa.string()),
        ("end_key", pa.string()),
        ("end_name", pa.string()),
        ("properties", pa.string()),
        ("doc_id", pa.string()),
        ("url", pa.string()),
        ("confidence", pa.float64()),
        ("source", pa.string()),
        ("extraction_method", pa.string()),
        ("since", TIME),
        ("run_id", pa.string()),
        ("blob_sha256", pa.string()),
        ("byte_start", pa.int64()),
        ("byte_end", pa.int64()),
        ("line", pa.int32()),
        ("start_basis", pa.string()),
        ("end_basis", pa.string()),
        ("supports", pa.string()),
    ]
)

#: name -> (schema, key column that the bucket is the hash of; None: not bucketed). A table that only one
#: stage knows is declared there (:func:`declare`).
TABLES: dict[str, tuple[pa.Schema, str | None]] = {
    "documents": (DOCUMENTS, "doc_id"),
    "chunks": (CHUNKS, "doc_id"),
    "links": (LINKS, "doc_id"),
    "vectors": (VECTORS, "sha256"),
    "observations": (OBSERVATIONS, "doc_id"),
    "relations": (RELATIONS, "doc_id"),
    "entities": (ENTITIES, "key"),
    "names": (NAMES, None),
    "decisions": (DECISIONS, None),
    "declarations": (DECLARATIONS, "doc_id"),
    "reaches": (REACHES, "doc_id"),
    "title_links": (TITLE_LINKS, "doc_id"),
    "doc_state": (DOC_STATE, "doc_id"),
}

#: What each column means, in a sentence, for who looks at a table's schema: the same in every table that has
#: it, except where :data:`NOTES_OF_TABLE` says otherwise.
NOTES = {
    "aliases": "Other names of the node in the statement, such as a container's name.",
    "blob_sha256": "The blob that holds the bytes: SHA-256 in hex.",
    "bucket": "Hash of the table's key; a change rewrites only its buckets.",
    "byte_end": "Where the statement ends in the blob, in bytes.",
    "byte_start": "Where the statement begins in the blob, in bytes.",
    "candidates": "Keys of the services that the bare name may mean.",
    "charset": "Character set in which the blob was read.",
    "chunk_count": "Chunks of the document.",
    "chunk_id": "Id of the chunk: its document and its place in the order of the document's chunks.",
    "chunk_index": "Place in the order of the document's chunks, from 0.",
    "chunks_fingerprint": "Hash of the document's chunks that were applied.",
    "claims": "What is said of the node, as JSON, with how many documents say it and the latest of them.",
    "confidence": "Between 0 and 1: how sure the extractor is.",
    "content_type": "What the chunk is made of: text, code, a table or a list.",
    "count": "How often it stands in the document.",
    "created_at": "When the bytes were first fetched at this place.",
    "date": "The document's own date, if it has one.",
    "declared": "Whether the statement declares the node, rather than only naming it.",
    "discriminator": "What tells two edges of one type between the same ends apart, such as a port.",
    "doc_id": "Id of the document.",
    "document_fingerprint": "Hash of the document that was applied.",
    "end": "Where it ends in the document's text, in code points.",
    "end_basis": "Why the edge ends there: written so, normalized, derived, or from the sources file.",
    "end_key": "Key of the node where the edge ends, as observed.",
    "end_label": "Label of the node where the edge ends.",
    "end_name": "Name of the node where the edge ends.",
    "extraction_method": "How the edge was found.",
    "fingerprint": "Hash of everything that the row follows from.",
    "fragment": "The part of the link's target behind the number sign.",
    "ground": "The statement that says so, as JSON.",
    "job_id": "The ingest job that fetched the bytes.",
    "key": "Key of the node inside its namespace.",
    "kind": "What kind of row it is.",
    "label": "Label of the node.",
    "lang": "Language of the text, as an ISO 639-1 code.",
    "line": "Line of the statement, from 1.",
    "links_fingerprint": "Hash of the document's links that were applied.",
    "metadata": "What else is known of the document, as JSON.",
    "method": "How the statement was found.",
    "mime": "Media type of the blob.",
    "name": "Name of the node.",
    "names": "Names of hosts: those that the service has there, or the one that it asks for.",
    "observed_key": "Key of the bare name.",
    "offsets": "Map from the text's code points to bytes of the blob.",
    "page": "The target as a site shows it.",
    "path": "Path below the source's root, or the canonical URL.",
    "place": "The network, machine or address.",
    "port": "The port that is published or asked for, if it is known.",
    "position": "Place of the key in the order by which shards are cut.",
    "properties": "Properties as JSON.",
    "reason": "Why the name was resolved so.",
    "recency": "The document's own date, else that of its bytes, in microseconds since 1970.",
    "relations_fingerprint": "Hash of the document's relations.",
    "resolved_key": "Key of the node that the bare name means; null where that is not known.",
    "run_id": "The interpretation run that found it.",
    "runs_fingerprint": "Hash of the active runs that were applied.",
    "scope": "Host or source and project of a service.",
    "section": "Headings above the chunk.",
    "sha256": "SHA-256 of the chunk's text, in hex.",
    "since": "When the fetch log first shows these bytes at this place, without a gap since.",
    "source": "The tier, or the person, that states it.",
    "source_id": "The source.",
    "source_type": "Type of the source.",
    "span_end": "Where the statement ends in the document's text, in code points.",
    "span_start": "Where the statement begins in the document's text, in code points.",
    "start": "Where it begins in the document's text, in code points.",
    "start_basis": "Why the edge begins there: written so, normalized, derived, or from the sources file.",
    "start_key": "Key of the node, or of the node where the edge begins, as observed.",
    "start_label": "Label of the node, or of the node where the edge begins.",
    "start_name": "Name of the node, or of the node where the edge begins.",
    "supports": "Every place that states the edge, as JSON.",
    "target": "What the link leads to, as observed.",
    "text": "The text.",
    "text_sha256": "SHA-256 of the text, in hex.",
    "title": "Title of the document.",
    "titles": "Titles by which other documents may name this one.",
    "titles_fingerprint": "Hash of the titles that were looked for in the document.",
    "tokens": "Number of tokens.",
    "type": "Type of the edge, or label of the node.",
    "unit_id": "The document or project that was interpreted.",
    "url": "Where a person finds the document.",
    "vector": "The embedding, normalized to length 1.",
}

NOTES_OF_TABLE = {
    ("decisions", "at"): "When it was decided.",
    (
        "decisions",
        "end_key",
    ): "Key of the node where the edge ends, or of the entity that another is merged into.",
    ("decisions", "id"): "Id of the decision.",
    ("decisions", "key"): "Key of the entity, or of the node where the edge begins.",
    ("decisions", "kind"): "Whether it corrects a field or an edge, or merges two entities.",
    ("decisions", "number"): "Place in the order of the namespace's decisions.",
    ("decisions", "property"): "The field or property that is corrected; null: the edge is said not to be.",
    ("decisions", "reason"): "Why, in the words of who decided.",
    ("decisions", "value"): "What it really is, as JSON.",
    ("decisions", "who"): "Who decided.",
    ("declarations", "kind"): "What kind of name it is.",
    ("declarations", "name"): "The name that is declared.",
    ("links", "kind"): "What kind of target the link leads to.",
    ("links", "text"): "What a reader sees of the link.",
    ("names", "name"): "The name of a service, container, network or tunnel without a scope.",
    (
        "observations",
        "kind",
    ): "Whether the row states a node, an edge, a network that a service is on, or a host that it uses.",
    ("doc_state", "claims"): "What the document says of nodes.",
    ("doc_state", "tokens"): "Hashes of the words in the document: an index of which documents hold a name.",
    ("title_links", "title"): "The title that stands in the document.",
}


def declare(
    name: str, schema: pa.Schema, key: str | None, notes: Mapping[str, str] | None = None
) -> pa.Schema:
    """Declare a table that one stage alone writes and reads, in that stage's module; return its schema.

    ``key`` is the column that ``bucket`` is the hash of, None for a table without buckets. ``notes`` has a
    sentence on each column that means here what no other table has in it. Raises ``E_INTERNAL`` for a name
    that is taken.
    """
    if name in TABLES:
        raise TabootError("E_INTERNAL", f"The table {name} is declared twice.", table=name)
    TABLES[name] = (schema, key)
    NOTES_OF_TABLE.update({(name, column): sentence for column, sentence in (notes or {}).items()})
    return schema


def note(table: str, column: str) -> str:
    """Return what a column means; ``table`` is a name of :data:`TABLES`."""
    return NOTES_OF_TABLE.get((table, column)) or NOTES[column]


def rows_of(table: pa.Table, *columns: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table as tuples of Python values: of the named columns in that order, or of all."""
    return zip(*(table.column(c).to_pylist() for c in columns or table.column_names), strict=True)


def conform(table: pa.Table, name: str) -> pa.Table:
    """Cast to the declared schema of table ``name``. Raises ``E_TABLE`` for missing or surplus columns, wrong
    types, and nulls where none may be."""
    schema, _ = TABLES[name]
    if set(table.column_names) != set(schema.names):
        raise TabootError(
            "E_TABLE",
            f"Table {name} has the wrong columns.",
            table=name,
            missing=sorted(set(schema.names) - set(table.column_names)),
            surplus=sorted(set(table.column_names) - set(schema.names)),
        )
    try:
        table = table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise TabootError(
            "E_TABLE", f"Table {name} does not fit its schema.", table=name, reason=str(error)
        ) from error
    for f in schema:
        if not f.nullable and table.column(f.name).null_count:
            raise TabootError("E_TABLE", f"Table {name} has nulls in {f.name}.", table=name, column=f.name)
    return table


def widened(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of an earlier schema under ``schema``: what they lack is null, or where that may not be
    zero, false or empty."""
    return pa.record_batch(
        [
            rows.column(f.name).cast(f.type)
            if f.name in rows.schema.names
            else pa.array([None if f.nullable else _nothing(f.type)] * rows.num_rows, f.type)
            for f in schema
        ],
        schema=schema,
    )


def _nothing(kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_binary(kind):
        return b""
    return [] if pa.types.is_list(kind) else 0


def empty(name: str) -> pa.Table:
    return TABLES[name][0].empty_table()


def declared(names: Iterable[str]) -> dict[str, list[list[Any]]]:
    """Return {table: [column, type, whether it may be null]} of some tables, as they are declared."""
    return {
        name: [[f.name, str(f.type), f.nullable] for f in TABLES[name.partition(".")[0]][0]]
        for name in sorted(names)
    }
