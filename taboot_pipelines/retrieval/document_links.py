"""What one document links to, what links to it, and which of its links lead to no document."""

from __future__ import annotations

import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.links import LinkGraph, check_document
from taboot_pipelines.retrieval.results.graph import DocumentLinks, Link
from taboot_pipelines.retrieval.session import View

MAX_LINKS = 100_000


def document_links(view: View, document: str, limit: int) -> DocumentLinks:
    """See ``KnowledgeBase.links``."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LINKS:
        raise TabootError("E_QUERY", f"limit must be a whole number from 1 to {MAX_LINKS}.")
    graph = view.links
    row = _row_of(view, document)
    outgoing, incoming = graph.outgoing(row), graph.incoming(row)
    unresolved = graph.unresolved_of(row)
    doc_ids, titles = graph.documents.column("doc_id"), graph.documents.column("title")
    return DocumentLinks(
        doc_id=doc_ids[row].as_py(),
        title=titles[row].as_py(),
        url=_shown_url(view, row),
        outgoing=tuple(_edge(view, int(e), int(graph.target[e])) for e in outgoing[:limit]),
        incoming=tuple(_edge(view, int(e), int(graph.source[e])) for e in incoming[:limit]),
        unresolved=tuple(_link(graph, int(link), "hyperlink") for link in unresolved[:limit]),
        truncated=any(len(found) > limit for found in (outgoing, incoming, unresolved)),
    )


def _row_of(view: View, document: str) -> int:
    """The row of a document; that of an id is found without a look at the others."""
    documents = view.links.documents
    row: int = pc.index(documents.column("doc_id"), document).as_py() if isinstance(document, str) else -1
    if row >= 0:
        return row
    columns = (documents.column(c).to_pylist() for c in ("source_id", "path", "url"))
    return check_document(
        documents, document, [view.shown_url(*place) for place in zip(*columns, strict=True)]
    )


def _shown_url(view: View, row: int) -> str:
    documents = view.links.documents
    return view.shown_url(*(documents.column(c)[row].as_py() for c in ("source_id", "path", "url")))


def _edge(view: View, edge: int, other: int) -> Link:
    graph = view.links
    kind = "title" if graph.titled[edge] else "hyperlink"
    return _link(
        graph,
        int(graph.link[edge]),
        kind,
        doc_id=graph.documents.column("doc_id")[other].as_py(),
        title=graph.documents.column("title")[other].as_py(),
        url=_shown_url(view, other),
    )


def _link(graph: LinkGraph, link: int, kind: str, **other: str) -> Link:
    row = graph.observed(link)
    names = ("target", "fragment", "text", "section", "line", "start", "end", "count")
    return Link(kind=kind, **{name: row[name] for name in names}, **other)
