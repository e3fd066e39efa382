"""What a search reads of a shard: one file, derived from the shard's database and mapped into memory.

It says what the database says in the forms that a search scans: chunks, documents, links and postings as
Arrow, the vectors as rows of int8 and of float32. It opens in a millisecond, where DuckDB needs tens
(``benchmarks/search_100k.py``). It is a cache, and never published: its name is the hash of the database and
the version of its form. Who publishes a shard writes it from the rows at hand; a reader that finds none, or a
damaged one, makes it again, and keeps it in memory where it may not or cannot be written.

A file is the SHA-256 of all that follows, the length of the header (8 bytes, little-endian), the header
(JSON: the hash of the database, and of each section where it begins behind the header, and its bytes), and
the sections, each at a multiple of 64 bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.tables import DOCUMENTS
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.attaching import read_tables
from taboot_pipelines.shards.files import Verified
from taboot_pipelines.shards.manifest import FileEntry, ShardEntry
from taboot_pipelines.shards.postings import Postings, by_hash
from taboot_pipelines.shards.protocol import ShardStore, verified_path
from taboot_pipelines.shards.quantization import quantize, two_bit_codes

#: The tables of a document shard's database that a search file is derived from.
SEARCHED = ("documents", "docs", "postings", "links")

_DOCUMENT_COLUMNS = ("doc_id", "source_id", "path", "url", "title", "lang", "date", "since", "blob_sha256")
_DIGEST_BYTES = 32
_LENGTH_BYTES = 8
_ALIGNMENT = 64

#: A section's bytes.
Buffer: TypeAlias = bytes | memoryview | pa.Buffer


class SearchFile:
    """The sections of a search file, each read on first use. Rows of ``chunks`` ascend by (doc_id,
    chunk_index).
    """

    def __init__(self, sections: Mapping[str, Buffer], dimension: int) -> None:
        self._sections = sections
        self._dimension = dimension

    @cached_property
    def chunks(self) -> pa.Table:
        """chunk_index, start, end, text, section, content_type, tokens, document (row of ``documents``),
        line, sha256, length (words), scale, error, radius (see ``quantize``)."""
        return self._table("chunks")

    @cached_property
    def documents(self) -> pa.Table:
        """doc_id, source_id, path, url, title, lang, date, since, blob_sha256, places."""
        return self._table("documents")

    @cached_property
    def links(self) -> pa.Table:
        """``links.LINKS``: the links of the shard's documents as observed, in the order of the documents."""
        return self._table("links")

    @cached_property
    def names(self) -> pa.Table:
        """``links.NAMES``: by what the shard's documents are led to, in their order."""
        return self._table("names")

    @cached_property
    def postings(self) -> Postings:
        return Postings(self._table("postings"))

    @cached_property
    def int8(self) -> npt.NDArray[np.int8]:
        """(chunks, dimension)"""
        return self._rows("int8", np.int8, self._dimension)

    @cached_property
    def two_bit(self) -> npt.NDArray[np.uint8]:
        """(chunks, ⌈dimension/4⌉): see ``two_bit_codes``."""
        return self._rows("two_bit", np.uint8, -(-self._dimension // 4))

    @cached_property
    def float32(self) -> npt.NDArray[np.float32]:
        """(chunks, dimension)"""
        return self._rows("float32", "<f4", self._dimension)

    def _table(self, name: str) -> pa.Table:
        return pa.ipc.open_file(pa.py_buffer(self._sections[name])).read_all()

    def _rows(self, name: str, dtype: Any, width: int) -> npt.NDArray[Any]:
        return np.frombuffer(self._sections[name], dtype=dtype).reshape(-1, width)


def derived(contents: Mapping[str, pa.Table]) -> dict[str, Buffer]:
    """The sections of the search file of a database that holds these tables (:data:`SEARCHED`)."""
    # What reads URLs takes long to load, and who finds the file needs none of it.
    import pyarrow.compute as pc

    from taboot_pipelines.model.offsets import stored_places
    from taboot_pipelines.shards.links import LINKS, name_rows

    documents, chunks = contents["documents"], contents["docs"]
    held = documents.column("doc_id").combine_chunks()

    def owned(rows: pa.Table) -> pa.Table:
        owners = pc.index_in(rows.column("doc_id"), value_set=held).combine_chunks()
        return rows.append_column("document", owners.cast(pa.int32()))

    embeddings = chunks.column("embedding").combine_chunks()
    vectors = layout.numbers(embeddings.flatten(), np.float32).reshape(-1, embeddings.type.list_size)
    quantized = quantize(vectors)
    hashes = pa.py_buffer(bytes.fromhex("".join(chunks.column("sha256").to_pylist())))
    binary = pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), len(chunks), [None, hashes])
    mapped = owned(chunks)
    # A publication of an earlier release lacks columns that were added since.
    mapped = mapped.select([n for n in (*layout.MAPPED, "document", "line") if n in mapped.column_names])
    owners = layout.numbers(mapped.column("document"), np.int32)
    mapped = mapped.append_column("sha256", binary)
    mapped = mapped.append_column("length", chunks.column("length"))
    for name in ("scale", "error", "radius"):
        mapped = mapped.append_column(name, pa.array(getattr(quantized, name)))
    places = pa.array(map(stored_places, documents.column("metadata").to_pylist()), pa.string())
    # Under what is null lies whatever the database's memory held; the bytes of a file follow from its
    # content.
    dates = pa.array(documents.column("date").cast(pa.int64()).to_pylist(), pa.int64())
    documents = documents.set_column(documents.column_names.index("date"), "date", dates)
    schema = pa.schema([DOCUMENTS.field(name) for name in _DOCUMENT_COLUMNS])
    links = owned(contents["links"])
    kinds = links.column("kind").combine_chunks().dictionary_encode().cast(LINKS.field("kind").type)
    links = links.set_column(links.column_names.index("kind"), "kind", kinds)
    links = links.select(LINKS.names).cast(LINKS)
    return {
        "chunks": _arrow(mapped),
        "documents": _arrow(documents.select(_DOCUMENT_COLUMNS).cast(schema).append_column("places", places)),
        "postings": _arrow(by_hash(contents["postings"], owners)),
        "links": _arrow(links),
        "names": _arrow(name_rows(documents, links)),
        "int8": quantized.codes.tobytes(),
        "two_bit": two_bit_codes(vectors).tobytes(),
        "float32": np.ascontiguousarray(vectors, dtype="<f4").tobytes(),
    }


def _arrow(table: pa.Table) -> pa.Buffer:
    # Whether a column may be null, and what the elements of a list are called, differs with the origin.
    plain = [
        (f.name, pa.list_(f.type.value_type) if pa.types.is_list(f.type) else f.type) for f in table.schema
    ]
    table = table.cast(pa.schema(plain)).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def search_file(store: ShardStore, namespace: str, entry: ShardEntry, dimension: int) -> SearchFile:
    """The search file of a document shard: as it is cached, or derived from the shard's database, whose
    vectors have ``dimension`` numbers.

    Raises ``E_SHARD_MISSING`` or ``E_SHARD_CORRUPT`` if it has to be derived and the database cannot be read.
    """
    sections = _cached(store, namespace, entry)
    if sections is None:
        path = verified_path(store, namespace, entry, layout.DATABASE)
        tables = read_tables(path, [f"FROM {name}" for name in SEARCHED])
        made = derived(dict(zip(SEARCHED, tables, strict=True)))
        add_search_file(store, namespace, entry, made)
        # What is mapped takes no memory of this process.
        sections = _cached(store, namespace, entry) or made
    found = SearchFile(sections, dimension)
    if (len(found.chunks), len(found.documents)) != (entry.chunks, entry.documents):
        raise TabootError(
            "E_SHARD_CORRUPT",
            f"Shard {entry.key[:16]} holds other numbers of rows than the manifest says.",
            shard=entry.key,
            file=layout.DATABASE,
        )
    return found


def add_search_file(
    store: ShardStore, namespace: str, entry: ShardEntry, sections: Mapping[str, Buffer]
) -> None:
    """Put the search file of a shard into the store's cache, in one step; nothing where that is refused: a
    reader can do without.
    """
    if store.cache is None or store.cache.read_only:
        return
    with contextlib.suppress(OSError):
        folder = store.cache.folder(namespace)
        fd, aside = tempfile.mkstemp(dir=folder, prefix=".search-")
        try:
            with os.fdopen(fd, "wb") as f:
                digest = hashlib.sha256()
                f.write(bytes(_DIGEST_BYTES))
                for part in _parts(entry.file(layout.DATABASE).sha256, sections):
                    digest.update(part)
                    f.write(part)
                f.seek(0)
                f.write(digest.digest())
            # Nobody may change or cut what others have mapped.
            Path(aside).chmod(0o444)
            Path(aside).replace(folder / _name(entry))
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise


def check_search_file(store: ShardStore, namespace: str, entry: ShardEntry) -> None:
    """Hash the cached search file of a shard, whoever has hashed it before, and drop it if it is damaged."""
    if store.cache is not None:
        store.verified.forget(store.cache.root / namespace / _name(entry))
        _cached(store, namespace, entry)


def _name(entry: ShardEntry) -> str:
    return layout.search_file_name(entry.file(layout.DATABASE).sha256)


def _parts(database: str, sections: Mapping[str, Buffer]) -> Iterator[Buffer]:
    """What stands in a file behind its hash, part by part; ``database``: the hash of that."""
    sizes = {name: len(memoryview(data)) for name, data in sections.items()}
    # The header names places that depend on its own length: they are counted from the end of it.
    at, places = 0, {}
    for name, size in sizes.items():
        places[name] = (at, size)
        at += size + -size % _ALIGNMENT
    header = orjson.dumps({"database": database, "sections": places})
    header += b" " * (-(_DIGEST_BYTES + _LENGTH_BYTES + len(header)) % _ALIGNMENT)
    yield len(header).to_bytes(_LENGTH_BYTES, "little")
    yield header
    for name, data in sections.items():
        yield data
        yield bytes(-sizes[name] % _ALIGNMENT)


def _cached(store: ShardStore, namespace: str, entry: ShardEntry) -> dict[str, Buffer] | None:
    """The sections of the cached file, mapped; None if there is none. One that is damaged is dropped."""
    if store.cache is None:
        return None
    path = store.cache.root / namespace / _name(entry)
    try:
        sections = _mapped(path, entry.file(layout.DATABASE).sha256, store.verified)
        if sections is None and not store.cache.read_only:
            path.unlink()
    except OSError:
        return None
    return sections


def _mapped(path: Path, database: str, verified: Verified) -> dict[str, Buffer] | None:
    """The sections of a file; None if its bytes are not what they should be. The mapping outlives the
    deletion of the file. Raises ``OSError`` if it cannot be read.
    """
    behind = _DIGEST_BYTES + _LENGTH_BYTES
    with path.open("rb") as f:
        size = os.fstat(f.fileno()).st_size
        if size < behind:
            return None
        data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        expected = FileEntry.model_construct(name=path.name, size=size, sha256=data[:_DIGEST_BYTES].hex())
        # Hashing the mapping rather than the file loads the pages that the scan will read.
        if not verified.matches(path, f, expected, lambda: hashlib.sha256(data[_DIGEST_BYTES:]).hexdigest()):
            return None
    first = behind + int.from_bytes(data[_DIGEST_BYTES:behind], "little")
    try:
        header = orjson.loads(data[behind:first])
    except ValueError:
        return None
    if header["database"] != database:
        return None
    return {n: data[first + at : first + at + length] for n, (at, length) in header["sections"].items()}
