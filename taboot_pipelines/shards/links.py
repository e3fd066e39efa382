"""The links of a shard's documents as observed, and by what names its documents are led to.

A link and the document that it means may lie in two shards: readers join them (rule ``bounded-rewrite``).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import chunk_lines
from taboot_pipelines.knowledge.link_targets import document_names
from taboot_pipelines.knowledge.titles import UNSPACED, words
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.shards.analyzer import STOP_WORDS

# --- Which titles say so little that texts hold them without meaning a document


def is_common(title: str) -> bool:
    """Whether a title, in the normal form, counts only where it is rare: a single word or compound, but for
    words that say nothing. In scripts without blanks each letter is a word.
    """
    said = 0
    for part in title.split():
        found = [word for word in words(part) if word not in STOP_WORDS]
        said += len(found) if UNSPACED.search(part) else bool(found)
    return said <= 1


_KIND = pa.dictionary(pa.int8(), pa.string())
#: ``document``: row of the shard's ``documents``. ``kind``, ``target``, ``page``: see
#: ``knowledge.link_targets``; the ``target`` of kind ``declared`` is a label of the document itself.
#: ``common``: a title that counts only where it is rare.
LINKS = pa.schema(
    [
        ("document", pa.int32()),
        ("kind", _KIND),
        ("target", pa.string()),
        ("page", pa.string()),
        ("fragment", pa.string()),
        ("text", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("line", pa.int32()),
        ("count", pa.int32()),
        ("common", pa.bool_()),
    ]
)
NAMES = pa.schema([("document", pa.int32()), ("kind", _KIND), ("key", pa.string()), ("rank", pa.int8())])
_ORDER = ("document", "start", "kind", "target", "fragment")


def link_rows(documents: pa.Table, links: pa.Table, titles: pa.Table) -> pa.Table:
    """:data:`LINKS` of rows of ``tables.LINKS`` and ``tables.TITLE_LINKS``, document by document in the order
    of their places. Raises ``E_TABLE`` if one is of another document.
    """
    size = titles.num_rows
    none = pa.array([""] * size, pa.string())
    named = pa.table(
        {
            "doc_id": titles.column("doc_id"),
            "kind": pa.array(["title"] * size, pa.string()),
            "target": titles.column("title"),
            **dict.fromkeys(("page", "fragment", "text"), none),
            **{name: titles.column(name) for name in ("start", "end", "count")},
        }
    )
    rows = pa.concat_tables([links.select(named.column_names).cast(named.schema), named])
    held = documents.column("doc_id").combine_chunks()
    owners = pc.index_in(rows.column("doc_id"), value_set=held)
    if owners.null_count:
        raise TabootError("E_TABLE", "A link is of a document that the shard does not hold.", table="links")
    rows = rows.append_column("document", owners.cast(pa.int32()))
    rows = rows.sort_by([(name, "ascending") for name in _ORDER]).combine_chunks()
    common = [kind == "title" and is_common(target) for kind, target in rows_of(rows, "kind", "target")]
    owner = rows.column("document").combine_chunks().to_numpy(zero_copy_only=False)
    rows = rows.append_column("line", chunk_lines(documents, rows, owner))
    rows = rows.append_column("common", pa.array(common, pa.bool_()))
    return (
        rows.set_column(
            rows.column_names.index("kind"),
            "kind",
            rows.column("kind").combine_chunks().dictionary_encode().cast(_KIND),
        )
        .select(LINKS.names)
        .cast(LINKS)
    )


def name_rows(documents: pa.Table, links: pa.Table) -> pa.Table:
    """:data:`NAMES` of rows of ``tables.DOCUMENTS``, and the labels that their ``links`` declare."""
    columns = ("source_id", "path", "url", "title", "metadata")
    found = [
        (row, *name)
        for row, document in enumerate(documents.select(columns).to_pylist())
        for name in document_names(document)
    ]
    declared = links.filter(pc.equal(links.column("kind").cast(pa.string()), "declared"))
    found += [(row, "anchor", key, 0) for row, key in rows_of(declared, "document", "target")]
    found.sort()
    arrays = list(zip(*found, strict=True)) if found else [()] * len(NAMES)
    plain = pa.table(
        [
            pa.array(arrays[0], pa.int32()),
            pa.array(arrays[1], pa.string()),
            arrays[2],
            pa.array(arrays[3], pa.int8()),
        ]
        if found
        else [pa.array([], f.type if f.name != "kind" else pa.string()) for f in NAMES],
        names=NAMES.names,
    )
    kinds = plain.column("kind").combine_chunks().dictionary_encode().cast(_KIND)
    return plain.set_column(1, "kind", kinds).cast(NAMES)
