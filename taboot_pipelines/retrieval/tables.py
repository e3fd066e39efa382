"""Everything that a view holds, as Arrow tables: documents, nodes, edges."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from taboot_pipelines.model.tables import EDGES_SCHEMA
from taboot_pipelines.retrieval.session import View


def nodes(view: View) -> pa.Table:
    """``model.tables.NODES_SCHEMA``, ascending by label and key."""
    return view.graph.nodes


def edges(view: View) -> pa.Table:
    """``model.tables.EDGES_SCHEMA``, ascending by edge_id; ``url`` as stored."""
    return view.graph.edges.select(EDGES_SCHEMA.names).cast(EDGES_SCHEMA)


def documents(view: View) -> pa.Table:
    """One row a document, ascending by doc_id; ``url`` as shown. See ``KnowledgeBase.documents``."""
    table = view.graph.documents
    sources = view.manifest.sources
    ids, paths, urls = (table.column(c).to_pylist() for c in ("source_id", "path", "url"))
    tags = [list(sources[i].tags) if i in sources else [] for i in ids]
    shown = [view.shown_url(*x) for x in zip(ids, paths, urls, strict=True)]
    chunks = np.bincount(view.index.document, minlength=len(table)) if len(table) else np.zeros(0)
    return pa.table(
        {
            "doc_id": table.column("doc_id"),
            "source": table.column("source_id"),
            "type": table.column("source_type"),
            "tags": pa.array(tags, pa.list_(pa.string())),
            "url": pa.array(shown, pa.string()),
            "path": table.column("path"),
            "title": table.column("title"),
            "mime": table.column("mime"),
            "language": table.column("lang"),
            "date": table.column("date"),
            "since": table.column("since"),
            "chunks": pa.array(chunks.astype(np.int32)),
            "blob_sha256": table.column("blob_sha256"),
            "metadata": table.column("metadata"),
        }
    )
