"""Writing one shard: a DuckDB file that stands alone, and beside it the same chunks in the form that a search
maps.

A document shard's DuckDB file holds ``documents``, ``docs`` (chunks with vectors), ``postings``, ``edges``
and ``doc_entities``; an entity shard's ``entities`` and ``names``. The Arrow and raw files beside it are read
by memory mapping: a search over 100k chunks opens and scans them in milliseconds, where DuckDB needs tens
(measured in ``benchmarks/search_100k.py``). All rows are written in the order of their ids.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import tables
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.analyzer import analyze
from taboot_pipelines.shards.inputs import DocumentRows
from taboot_pipelines.shards.quantize import quantize

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


def build_documents(
    folder: Path, doc_ids: list[str], chunk_counts: list[int], rows: DocumentRows, dimension: int
) -> int:
    """Write the shard of ``doc_ids`` (ascending) into ``folder``; returns the words of its chunks.

    ``E_TABLE`` if the rows are not exactly those documents with that many chunks each, or a chunk has no
    vector of ``dimension`` finite numbers.
    """
    documents = _pick(rows.documents, tables.DOCUMENTS, "documents").sort_by("doc_id")
    chunks = _pick(rows.chunks, tables.CHUNKS, "chunks").sort_by(
        [("doc_id", "ascending"), ("chunk_index", "ascending")]
    )
    relations = _pick(rows.relations, tables.RELATIONS, "relations").sort_by(
        [(c, "ascending") for c in _EDGE_ORDER]
    )
    if documents.column("doc_id").to_pylist() != doc_ids:
        raise TabootError(
            "E_TABLE",
            "The rows loaded for a shard are not those of its documents.",
            table="documents",
            expected=len(doc_ids),
            found=len(documents),
        )
    owner = pc.index_in(chunks.column("doc_id"), value_set=documents.column("doc_id").combine_chunks())
    if (
        owner.null_count
        or pc.index_in(
            relations.column("doc_id"), value_set=documents.column("doc_id").combine_chunks()
        ).null_count
    ):
        raise TabootError(
            "E_TABLE", "The rows loaded for a shard name documents that it does not hold.", table="chunks"
        )
    owners: npt.NDArray[np.int32] = owner.combine_chunks().to_numpy(zero_copy_only=False).astype(np.int32)
    if np.bincount(owners, minlength=len(doc_ids)).tolist() != chunk_counts:
        raise TabootError(
            "E_TABLE", "A document has another number of chunks than its snapshot says.", table="chunks"
        )
    vectors = _vectors(chunks, rows.vectors, dimension)
    terms, lengths = _postings(chunks.column("text").to_pylist())
    lines = _lines(documents, chunks, owners)

    quantized = quantize(vectors)
    hot = chunks.select(["chunk_index", "start", "end", "text", "section", "content_type", "tokens"])
    hashes = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(32),
        len(chunks),
        [None, pa.py_buffer(bytes.fromhex("".join(chunks.column("sha256").to_pylist())))],
    )
    for name, column in (
        ("document", pa.array(owners)),
        ("line", lines),
        ("sha256", hashes),
        ("length", pa.array(lengths)),
        ("scale", pa.array(quantized.scale)),
        ("error", pa.array(quantized.error)),
        ("radius", pa.array(quantized.radius)),
    ):
        hot = hot.append_column(name, column)
    _write_arrow(folder / layout.CHUNKS, hot)
    _write_arrow(
        folder / layout.DOCUMENTS,
        documents.select(
            ["doc_id", "source_id", "path", "url", "title", "lang", "date", "since", "blob_sha256"]
        ),
    )
    _write_arrow(folder / layout.POSTINGS, terms)
    (folder / layout.VECTORS_INT8).write_bytes(quantized.codes.tobytes())
    (folder / layout.VECTORS_FLOAT32).write_bytes(np.ascontiguousarray(vectors, dtype="<f4").tobytes())

    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1), type=pa.float32())
    docs = (
        chunks.drop_columns(["fingerprint"])
        .append_column("line", lines)
        .append_column("length", pa.array(lengths))
    )
    docs = docs.add_column(0, "row", pa.array(np.arange(len(chunks), dtype=np.int32)))
    docs = docs.append_column("embedding", pa.FixedSizeListArray.from_arrays(flat, dimension))
    _write_duckdb(
        folder / layout.DATABASE,
        {
            "documents": documents.drop_columns(["text", "fingerprint"]),
            "docs": docs,
            "postings": _portable(terms),
            "edges": relations,
            "doc_entities": _doc_entities(relations),
        },
    )
    return int(lengths.sum())


def build_entities(folder: Path, entities: pa.Table, names: pa.Table) -> None:
    """Write an entity shard: ``entities`` (label, key, name, scope, properties) and ``names`` as given, in
    that order.
    """
    _write_duckdb(folder / layout.DATABASE, {"entities": entities, "names": names})


def _pick(table: pa.Table, schema: pa.Schema, name: str) -> pa.Table:
    """The schema's columns but ``bucket``, cast; ``E_TABLE`` if one is missing or does not fit."""
    wanted = pa.schema([f for f in schema if f.name != "bucket"])
    missing = [c for c in wanted.names if c not in table.column_names]
    if missing:
        raise TabootError("E_TABLE", f"Table {name} lacks {', '.join(missing)}.", table=name, missing=missing)
    try:
        return table.select(wanted.names).cast(wanted).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise TabootError("E_TABLE", f"Table {name} does not fit its schema.", table=name) from error


def _vectors(chunks: pa.Table, vectors: pa.Table, dimension: int) -> npt.NDArray[np.float32]:
    """The chunks' vectors as (n, dimension) float32, joined by the hash of the text."""
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


def term_hash(term: str) -> int:
    """Where a term stands in the postings: 64 bits of BLAKE2b. The reader compares the term itself as
    well.
    """
    return int.from_bytes(
        hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


def _postings(texts: list[str]) -> tuple[pa.Table, npt.NDArray[np.int32]]:
    """The inverted lists (hash, term, rows, tfs), ascending by hash and rows, in the narrowest unsigned types
    that hold them, and each text's length in words."""
    vocabulary: dict[str, int] = {}
    ids: list[int] = []
    tfs: list[int] = []
    distinct = np.zeros(len(texts), dtype=np.int64)
    lengths = np.zeros(len(texts), dtype=np.int32)
    for row, text in enumerate(texts):
        terms, lengths[row] = analyze(text)
        distinct[row] = len(terms)
        for term, tf in terms.items():
            ids.append(vocabulary.setdefault(term, len(vocabulary)))
            tfs.append(tf)
    words = list(vocabulary)
    hashes = np.fromiter((term_hash(w) for w in words), dtype=np.uint64, count=len(words))
    order = np.argsort(hashes, kind="stable")
    place = np.empty(len(words), dtype=np.int64)
    place[order] = np.arange(len(words))
    owner = place[np.array(ids, dtype=np.int64)] if ids else np.zeros(0, dtype=np.int64)
    by_term = np.argsort(owner, kind="stable")
    rows = np.repeat(np.arange(len(texts), dtype=np.min_scalar_type(len(texts))), distinct)[by_term]
    counts = np.array(tfs, dtype=np.min_scalar_type(max(tfs, default=0)))[by_term]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(words))))).astype(np.int32)
    table = pa.table(
        {
            "hash": pa.array(hashes[order]),
            "term": pa.array([words[i] for i in order], type=pa.string()),
            "rows": pa.ListArray.from_arrays(pa.array(offsets), pa.array(rows)),
            "tfs": pa.ListArray.from_arrays(pa.array(offsets), pa.array(counts)),
        }
    )
    return table, lengths


def _portable(postings: pa.Table) -> pa.Table:
    """The postings for DuckDB: per term its document frequency and a blob of little-endian int32 pairs (row,
    tf).
    """
    rows, tfs = postings.column("rows").combine_chunks(), postings.column("tfs").combine_chunks()
    pairs = (
        np.stack([rows.flatten().to_numpy().astype("<i4"), tfs.flatten().to_numpy().astype("<i4")], axis=1)
        if len(rows)
        else np.zeros((0, 2), "<i4")
    )
    blobs = (
        pa.Array.from_buffers(
            pa.binary(),
            len(rows),
            [
                None,
                pa.array(rows.offsets.to_numpy() * np.int32(8)).buffers()[1],
                pa.py_buffer(pairs.tobytes()),
            ],
        )
        if len(rows)
        else pa.array([], type=pa.binary())
    )
    return pa.table(
        {"term": postings.column("term"), "df": pc.list_value_length(rows), "postings": blobs}
    ).sort_by("term")


def _lines(documents: pa.Table, chunks: pa.Table, owners: npt.NDArray[np.int32]) -> pa.Array:
    """The line (from 1) of the source file on which each chunk starts; null where the document is not the
    file's text.

    The document has the file's lines if the offset map covers the whole file, but for what a line break may
    lose.
    """
    texts = documents.column("text")
    starts = chunks.column("start").to_pylist()
    lines: list[int | None] = [None] * len(chunks)
    current, text, faithful, seen, line = -1, "", False, 0, 1
    for row, owner in enumerate(owners.tolist()):
        if owner != current:
            current, text, seen, line = owner, texts[owner].as_py(), 0, 1
            faithful = covers_file(OffsetMap.loads(documents.column("offsets")[owner].as_py()), len(text))
        if faithful:
            start = starts[row]
            line += text.count("\n", seen, start) if start >= seen else -text.count("\n", start, seen)
            seen = start
            lines[row] = line
    return pa.array(lines, type=pa.int32())


def covers_file(offsets: OffsetMap, length: int) -> bool:
    """Whether a document of ``length`` code points has the lines of its file: all of it mapped, nothing left
    out.
    """
    if length == 0 or len(offsets) == 0 or not offsets.exact:
        return False
    gaps = offsets.byte_start[1:] - offsets.byte_end[:-1]
    whole = (
        offsets.doc_start[0] == 0
        and offsets.doc_end[-1] == length
        and bool((offsets.doc_start[1:] == offsets.doc_end[:-1]).all())
    )
    # At the front a byte order mark (4 bytes), between segments the \r of a line break (2 bytes in UTF-16).
    return bool(whole and offsets.byte_start[0] <= 4 and ((gaps >= 0) & (gaps <= 2)).all())


def _doc_entities(relations: pa.Table) -> pa.Table:
    """Which entities each document supports, by the keys as observed: (doc_id, label, key, name, type),
    distinct.
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


def _write_arrow(path: Path, table: pa.Table) -> None:
    table = table.combine_chunks()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _write_duckdb(path: Path, contents: dict[str, pa.Table]) -> None:
    import duckdb

    connection = duckdb.connect()
    try:
        # Small blocks: a shard of one document stays small, and a point read touches little.
        connection.execute(f"ATTACH '{str(path).replace(chr(39), chr(39) * 2)}' AS shard (BLOCK_SIZE 16384)")
        for name, table in contents.items():
            connection.register("rows", table)
            connection.execute(f"CREATE TABLE shard.{name} AS FROM rows")
            connection.unregister("rows")
        connection.execute("CHECKPOINT shard")
        connection.execute("DETACH shard")
    except duckdb.Error as error:
        raise TabootError(
            "E_STORAGE", f"The shard file {path.name} cannot be written.", file=str(path)
        ) from error
    finally:
        connection.close()
