"""Writing one shard: a DuckDB file that stands alone.

That of a document shard holds ``documents``, ``docs`` (chunks with vectors), ``postings``, ``edges``,
``doc_entities`` and ``links``; that of an entity shard ``entities``, ``names`` and ``decisions``. All rows
are written in the order of their ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import chunk_lines
from taboot_pipelines.model import tables
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.attaching import attached
from taboot_pipelines.shards.inputs import DocumentRows
from taboot_pipelines.shards.postings import inverted_lists
from taboot_pipelines.stores.disk import refusal, storage_error

_EDGE_ORDER = (
    "doc_id",
    "type",
    "start_label",
    "start_key",
    "end_label",
    "end_key",
    "discriminator",
    "source",
    "extraction_method",
    "byte_start",
    "byte_end",
)


@dataclass(frozen=True, slots=True)
class BuiltDocuments:
    """The number of words in the chunks of a document shard, and the tables of its database by name."""

    length: int
    contents: dict[str, pa.Table]


def build_documents(
    folder: Path, doc_ids: list[str], chunk_counts: list[int], rows: DocumentRows, dimension: int
) -> BuiltDocuments:
    """Write the database of the shard of ``doc_ids`` (ascending) into ``folder``.

    Raises ``E_TABLE`` if the rows are not exactly those documents with that many chunks each, or a chunk has
    no vector of ``dimension`` finite numbers.
    """
    # What reads URLs takes long to load, and who only searches needs none of it.
    from taboot_pipelines.shards.links import link_rows

    documents = _pick(rows.documents, tables.DOCUMENTS, "documents").sort_by("doc_id")
    chunks = _pick(rows.chunks, tables.CHUNKS, "chunks").sort_by(
        [("doc_id", "ascending"), ("chunk_index", "ascending")]
    )
    relations = _pick(rows.relations, tables.RELATIONS, "relations").sort_by(
        [(c, "ascending") for c in _EDGE_ORDER]
    )
    owners = _owners(documents, chunks, relations, doc_ids, chunk_counts)
    vectors = _vectors(chunks, rows.vectors, dimension)
    postings, lengths = inverted_lists(chunks.column("text").to_pylist())
    links = link_rows(
        documents,
        _pick(rows.links, tables.LINKS, "links"),
        _pick(rows.title_links, tables.TITLE_LINKS, "title_links"),
    )
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1), type=pa.float32())
    docs = (
        chunks.drop_columns(["fingerprint"])
        .append_column("line", chunk_lines(documents, chunks, owners))
        .append_column("length", pa.array(lengths))
        .append_column("embedding", pa.FixedSizeListArray.from_arrays(flat, dimension))
    )
    docs = docs.add_column(0, "row", pa.array(np.arange(len(chunks), dtype=np.int32)))
    contents = {
        "documents": documents.drop_columns(["text", "fingerprint"]),
        "docs": docs,
        "postings": postings,
        "edges": relations,
        "doc_entities": _doc_entities(relations),
        "links": _by_doc_id(links, documents),
    }
    _write_duckdb(folder / layout.DATABASE, contents)
    return BuiltDocuments(int(lengths.sum()), contents)


def build_entities(folder: Path, entities: pa.Table, names: pa.Table, decisions: pa.Table) -> None:
    """Write an entity shard into ``folder``: ``entities`` (label, key, name, scope, properties), ``names``
    (``tables.NAMES``) and ``decisions`` (``tables.DECISIONS``), their rows in the order given.
    """
    contents = {"entities": entities, "names": names, "decisions": decisions}
    _write_duckdb(folder / layout.DATABASE, contents)


def _pick(table: pa.Table, schema: pa.Schema, name: str) -> pa.Table:
    """The schema's columns but ``bucket``, cast to it. Raises ``E_TABLE`` if one is missing or does not
    fit.
    """
    wanted = pa.schema([f for f in schema if f.name != "bucket"])
    missing = [c for c in wanted.names if c not in table.column_names]
    if missing:
        raise TabootError("E_TABLE", f"Table {name} lacks {', '.join(missing)}.", table=name, missing=missing)
    try:
        return table.select(wanted.names).cast(wanted).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise TabootError("E_TABLE", f"Table {name} does not fit its schema.", table=name) from error


def _owners(
    documents: pa.Table, chunks: pa.Table, relations: pa.Table, doc_ids: list[str], chunk_counts: list[int]
) -> npt.NDArray[np.int32]:
    """Of each chunk the row of its document. Raises ``E_TABLE`` unless the rows are exactly those of
    ``doc_ids``, with ``chunk_counts`` chunks.
    """
    held = documents.column("doc_id")
    if held.to_pylist() != doc_ids:
        raise TabootError(
            "E_TABLE",
            "The rows loaded for a shard are not those of its documents.",
            table="documents",
            expected=len(doc_ids),
            found=len(documents),
        )
    held = held.combine_chunks()
    owner = pc.index_in(chunks.column("doc_id"), value_set=held)
    if owner.null_count or pc.index_in(relations.column("doc_id"), value_set=held).null_count:
        raise TabootError(
            "E_TABLE", "The rows loaded for a shard name documents that it does not hold.", table="chunks"
        )
    owners: npt.NDArray[np.int32] = owner.combine_chunks().to_numpy(zero_copy_only=False).astype(np.int32)
    if np.bincount(owners, minlength=len(doc_ids)).tolist() != chunk_counts:
        raise TabootError(
            "E_TABLE", "A document has another number of chunks than its snapshot says.", table="chunks"
        )
    return owners


def _vectors(chunks: pa.Table, vectors: pa.Table, dimension: int) -> npt.NDArray[np.float32]:
    """The chunks' vectors as (n, dimension) float32, joined by the hash of the text.

    Raises ``E_TABLE`` if one is missing, has another dimension or a number that is not finite.
    """
    column = vectors.column("vector").combine_chunks()
    where = pc.index_in(
        chunks.column("sha256"), value_set=vectors.column("sha256").combine_chunks()
    ).combine_chunks()
    if where.null_count:
        raise TabootError(
            "E_TABLE", f"{where.null_count} chunks have no vector.", table="vectors", missing=where.null_count
        )
    taken = column.take(where)
    lengths = pc.list_value_length(taken)
    if len(taken) and (lengths.null_count or not pc.all(pc.equal(lengths, dimension)).as_py()):
        raise TabootError(
            "E_TABLE",
            f"A vector does not have the space's {dimension} dimensions.",
            table="vectors",
            dimension=dimension,
        )
    flat = taken.flatten()
    matrix: npt.NDArray[np.float32] = (
        flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False).reshape(-1, dimension)
    )
    if flat.null_count or not np.isfinite(matrix).all():
        raise TabootError("E_TABLE", "A vector holds a number that is not finite.", table="vectors")
    return matrix


def _doc_entities(relations: pa.Table) -> pa.Table:
    """Which entities each document supports, by their keys as observed: distinct rows of (doc_id, label, key,
    name, type), in that order.
    """
    ends = [
        relations.select(["doc_id", f"{end}_label", f"{end}_key", f"{end}_name", "type"]).rename_columns(
            ["doc_id", "label", "key", "name", "type"]
        )
        for end in ("start", "end")
    ]
    both = pa.concat_tables(ends)
    both = both.filter(pc.not_equal(both.column("label"), "Document"))
    columns = ["doc_id", "label", "key", "name", "type"]
    return both.group_by(columns).aggregate([]).select(columns).sort_by([(c, "ascending") for c in columns])


def _by_doc_id(rows: pa.Table, documents: pa.Table) -> pa.Table:
    """The rows with the ``doc_id`` in place of the row of their ``document``, and plain texts."""
    doc_ids = documents.column("doc_id").take(rows.column("document"))
    rows = rows.set_column(rows.column_names.index("document"), "doc_id", doc_ids)
    plain = [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(plain))


def _write_duckdb(path: Path, contents: dict[str, pa.Table]) -> None:
    import duckdb

    try:
        # Small blocks: a shard of one document stays small, and a point read touches little.
        with attached(path, "BLOCK_SIZE 16384") as connection:
            for name, table in contents.items():
                connection.register("rows", table)
                connection.execute(f"CREATE TABLE {name} AS FROM rows")
                connection.unregister("rows")
            connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise storage_error(
            f"The shard file {path.name} cannot be written", refusal(error), path, reason=type(error).__name__
        ) from error
